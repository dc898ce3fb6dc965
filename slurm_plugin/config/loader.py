"""Reads ``nimo.yaml`` as `slurm_plugin.config.settings.Config`; errors name file, place, fix."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import yaml

from sacct_ingest.errors import ConfigError
from slurm_plugin.config.setting_types import Auth, address
from slurm_plugin.config.settings import Config, Match, ModeRule
from slurm_plugin.config.settings_file import find
from slurm_plugin.config.yaml_text import convert, load_yaml, read_text

#: What `opt_in.rules` give ranges of.
_SIZES = ("nodes", "cpus", "tasks", "gpus")
#: What a rule sets, beside the jobs that it is for.
_SETS = tuple(name for name in ModeRule.__struct_fields__ if name not in Match.__struct_fields__)


def load(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Config:
    """Read the configuration that is in force.

    path: file named on the command line; it goes before ``$NIMO_CONFIG``, that before
        ``/etc/nimo/nimo.yaml``, that before the built-in defaults.
    environ: environment variables.
    Raises ConfigError: the file cannot be read, is not YAML, or holds a wrong key or value.
    """
    chosen = find(path, environ)
    return Config() if chosen is None else parse(read_text(chosen), name=str(chosen))


def load_for_user(path: Path | None = None) -> Config:
    """Read the configuration for a command that asks nimod: a user may not be able to read it.

    It may hold a password.  What such a command needs is the socket, and the hooks' settings,
    which every user can read, name it too.

    Raises ConfigError: as :func:`load`, but for a file of the site's that the user must not read.
    """
    try:
        return load(path)
    except ConfigError as error:
        if path is not None or not isinstance(error.__cause__, PermissionError):
            raise
    return Config(socket=_hook_socket(os.environ) or Config().socket)


def _hook_socket(environ: Mapping[str, str]) -> str:
    """Socket that the hooks' settings name; empty where they do not."""
    slurm_conf = Path(environ.get("SLURM_CONF", "/etc/slurm/slurm.conf"))
    try:
        text = slurm_conf.with_name("nimo_hook.conf").read_text(errors="replace")
    except OSError:
        return ""
    match = re.search(r"(?m)^\s*socket\s*=\s*(\S+)", text)
    return match[1] if match else ""


def parse(text: str, *, name: str) -> Config:
    """Make settings of the text of a file called ``name``.

    Raises ConfigError: see :func:`load`.

    >>> parse("mode: off", name="nimo.yaml").mode.value
    'off'
    """
    data = load_yaml(text, name=name)
    # Put the lines of a file where a rule names one: user: "@/etc/nimo/opted-out".
    opt_in = data.get("opt_in") if isinstance(data, dict) else None
    for section in (data, opt_in):
        rules = section.get("rules") if isinstance(section, dict) else None
        for rule in rules if isinstance(rules, list) else ():
            fields = rule.items() if isinstance(rule, dict) else ()
            for key, value in fields:
                if isinstance(value, str) and value.startswith("@"):
                    rule[key] = _lines(Path(name).parent / value[1:])
    config = convert({} if data is None else data, Config, name=name)
    _check_ranges(config, name)
    _check_rules(config, name)
    names = [tags.name for tags in config.sharing.tags]
    for index, tags in enumerate(config.sharing.tags):
        place = f"{name}: sharing.tags[{index}]"
        if not tags.users and not tags.accounts:
            raise ConfigError(f"{place}: give it users or accounts")
        if tags.name in names[:index]:
            raise ConfigError(f"{place}.name: {tags.name} is there already; choose another one")
    _check_relay(config, name)
    co2 = config.energy.co2
    if isinstance(co2, str) and not Path(co2).is_absolute():
        raise ConfigError(f"{name}: energy.co2: {co2!r}: give a number, or a file by its full path")
    return config


def dump(config: Config) -> str:
    """Text of a file with these settings, all of them."""
    return yaml.safe_dump(msgspec.to_builtins(config), sort_keys=False, allow_unicode=True)


def _lines(path: Path) -> list[str]:
    """Words of a list file: one on each line, ``#`` begins a comment."""
    words = [line.partition("#")[0].split() for line in read_text(path).splitlines()]
    for number, texts in enumerate(words, start=1):
        if len(texts) > 1:
            raise ConfigError(f"{path}: line {number}: one name or pattern on each line")
    return [word for texts in words for word in texts]


def _check_ranges(config: Config, name: str) -> None:
    for index, rule in enumerate(config.opt_in.rules):
        place = f"opt_in.rules[{index}]"
        ranges = {size: rule.range(size) for size in _SIZES}
        for size, ends in ranges.items():
            if ends and ends[0] > ends[1]:
                text = getattr(rule, size)
                raise ConfigError(f"{name}: {place}.{size}: {text}: give the lower count first")
        if not any(ranges.values()):
            raise ConfigError(f"{name}: {place}: give it nodes, cpus, tasks or gpus")


def _check_rules(config: Config, name: str) -> None:
    for index, rule in enumerate(config.rules):
        if not any(getattr(rule, name) for name in _SETS):
            text = f"give it {', '.join(_SETS[:-1])} or {_SETS[-1]}"
            raise ConfigError(f"{name}: rules[{index}]: {text}")


def _check_relay(config: Config, name: str) -> None:
    relay = config.relay
    places = {f"controllers[{index}]": text for index, text in enumerate(relay.controllers)}
    if relay.listen:
        places["listen"] = relay.listen
    for place, text in places.items():
        try:
            address(text)
        except ConfigError as error:
            raise ConfigError(f"{name}: relay.{place}: {error}") from error
    if relay.auth is not Auth.TLS:
        return
    missing = [key for key in ("authority", "certificate", "key") if not getattr(relay.tls, key)]
    if relay.listen and not relay.tls.login_nodes:
        missing.append("login_nodes")
    if missing:
        raise ConfigError(f"{name}: relay.tls.{missing[0]}: give it a value, or take auth: munge")
