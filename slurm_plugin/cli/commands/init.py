"""``nimo init``: ask Slurm and you, and write the first configuration."""

import argparse
import sys
from collections.abc import Callable

from msgspec.structs import replace

from sacct_ingest.errors import ConfigError, SlurmError
from slurm_plugin.cli.command_context import store_url
from slurm_plugin.cli.commands.doctor import installation_of
from slurm_plugin.config.loader import parse
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings_file import ETC, SYSTEM_FILE, find
from slurm_plugin.doctor import Installation
from slurm_plugin.setup import Answers, check, install, plan, propose, summary, write
from slurm_plugin.setup.answers import controllers, hook_settings, partitions, settings_text
from slurm_plugin.text.streams import json_text


def run(args: argparse.Namespace) -> int:
    """Ask, write, and say what is left to do."""
    installation = installation_of(args)
    if isinstance(installation.slurm_text, SlurmError):
        print(f"nimo init: Slurm did not answer: {installation.slurm_text}", file=sys.stderr)
    answers = _answers(args, installation)
    sample, hook_sample = ((ETC / name).read_text() for name in ("nimo.yaml", "nimo_hook.conf"))
    place = find(args.config) or SYSTEM_FILE
    settings = settings_text(sample, answers)
    parse(settings, name=str(place))
    planned = [plan(place, settings, sample)]
    if installation.slurm_conf.exists():
        forward = summary.hooks_run(installation)
        hook_text = hook_settings(hook_sample, answers, forward_deadline=forward)
        planned.append(plan(installation.hooks / "nimo_hook.conf", hook_text, hook_sample))
    if args.dry_run:
        rows = [{"path": str(file.path), "difference": file.difference} for file in planned]
        text = "".join(file.difference for file in planned)
        sys.stdout.write(f"{json_text(rows)}\n" if args.json else text)
        return 0
    for file in planned:
        write(file)
    hooks = install(installation.hooks) if args.hooks else []
    report = summary.report(installation, answers, planned, hooks)
    print(json_text(report) if args.json else summary.render(report))
    return 0


def _answers(args: argparse.Namespace, installation: Installation) -> Answers:
    names = partitions(installation)
    hosts: tuple[str, ...] = ()
    if args.login_node is not None:
        hosts = _names(args.login_node) or controllers(installation)
    said = {"cluster": args.cluster, "socket": args.socket, "controllers": hosts}
    for name, (field, read, _) in _TYPED.items():
        said[field] = read(getattr(args, name)) if getattr(args, name) else None
    given = {field: value for field, value in said.items() if value}
    answers = replace(_proposed(args, installation), **given)
    check(answers, names)
    if answers.controllers or args.immediate or args.json or not sys.stdin.isatty():
        return answers
    for name in _TYPED:
        if getattr(args, name) is None:
            answers = _dialogue(name, answers, names)
    return answers


def _proposed(args: argparse.Namespace, installation: Installation) -> Answers:
    """Answers without options; a nimo.yaml that stays has named the socket of both files."""
    proposed = propose(installation)
    there = installation.config_file
    if isinstance(installation.config, Exception) or there is None or not there.exists():
        return proposed
    if there.read_text() == (ETC / "nimo.yaml").read_text():
        return proposed
    kept = installation.settings.socket
    if args.socket not in (None, kept):
        raise ConfigError(f"{there} says socket: {kept}; change it there, or leave out --socket")
    return replace(proposed, socket=kept)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


#: Option -> the answer that it gives, how that is read, and what is asked where it is not given.
_TYPED: dict[str, tuple[str, Callable[[str], object], str]] = {
    "store": (
        "store",
        store_url,
        "Where to keep what NIMO learns: an SQLite file or a database URL",
    ),
    "mode": ("mode", Mode, f"What NIMO may do with jobs: {', '.join(Mode)}"),
    "partition": ("partitions", _names, "Partitions whose jobs it decides on"),
}


def _dialogue(name: str, answers: Answers, names: list[str]) -> Answers:
    """Ask the user; an empty line accepts the proposal."""
    field, read, text = _TYPED[name]
    proposed = getattr(answers, field)
    shown = proposed if isinstance(proposed, str) else ",".join(proposed) or "all"
    while typed := input(f"{text} [{shown}]: ").strip():
        try:
            taken = replace(answers, **{field: read(typed)})
            check(taken, names)
        except (ValueError, ConfigError) as error:
            print(f"  {error}", file=sys.stderr)
        else:
            return taken
    return answers
