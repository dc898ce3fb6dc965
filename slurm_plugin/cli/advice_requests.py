"""Requests for advice, answered by nimod, or from a store.

What is heavy (msgspec, database, numpy, rich) is not imported before nimod has answered.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

from sacct_ingest.errors import NimoError, ScriptError, SlurmError, StoreError
from sacct_ingest.scripts.job_script import CommandLine, lookup, parse_command_line
from slurm_plugin.cli import plot
from slurm_plugin.cli.command_context import nimod_socket, table_options
from slurm_plugin.cli.sbatch_request import clusters_of, needs_slurm, request
from slurm_plugin.config.settings_file import leaves_out
from slurm_plugin.config.start_estimates import DEFAULTS, StartEstimates
from slurm_plugin.nimod import line_client
from slurm_plugin.protocol.advice_messages import Advice
from slurm_plugin.reports.advice_text import for_command, render, render_starts, scripts_table
from slurm_plugin.slurm.job_request import make_job, user_name
from slurm_plugin.text.formatting import printable
from slurm_plugin.text.terminal_size import terminal_width

if TYPE_CHECKING:
    from slurm_plugin.config.settings import Advise, Config
    from slurm_plugin.slurm.job_request import JobFields

ADVICE, UNKNOWN, TOO_LATE = 0, 3, 4
SCHEMA = 1  #: of the answers of --json-lines; raised where a field changes its meaning or goes
TIMEOUT_S = 5.0


def exit_status(advice: Advice) -> int:
    """Status for scripts: see the help."""
    if advice.meets_deadline is False:
        return TOO_LATE
    # The components of a heterogeneous job stay: there is no count to advise, but an answer.
    answered = advice.components and any(row.nodes == advice.asked for row in advice.rows)
    return UNKNOWN if advice.nodes is None and not answered else ADVICE


def answer_one(
    args: argparse.Namespace,
    sbatch: Sequence[str],
    settings: Callable[[], Config],
    refuse: Callable[[str], NoReturn],
) -> int:
    """Answer one request and print it.

    refuse: ends the command for a mistake in its options.
    """
    scripts = args.json or args.parsable2
    command = parse_command_line(["sbatch", *sbatch])
    if unknown := unknown_option(command):
        refuse(unknown)
    job: JobFields = {}
    if args.application:
        advice = _answer_named(args, settings, args.application)
    else:
        job = request(sbatch, user=args.user, look=_may_look(args, settings))
        advice = _answer(args, settings, job, clusters_of(job, sbatch))
        if needs_slurm(job, sbatch, advice.largest):
            _check(sbatch, job, _rules(args, settings))
    if not scripts:  # for people, as wide as their terminal
        texts = render(
            for_command(advice, command.options),
            now_s=time.time(),
            every=args.all,
            verbose=args.verbose,
            width=terminal_width(),
            options=table_options(args),
        )
        _print(texts)
    if "test-only" in command.options:
        _ask_slurm(advice, sbatch, job, _rules(args, settings), text=not scripts)
    if args.json:
        from slurm_plugin.text.streams import json_text  # noqa: PLC0415 - not for people

        print(json_text(advice))
    elif args.parsable2:
        print(scripts_table(advice, now_s=time.time()).parsable(table_options(args)))
    if args.plot:
        _draw(advice, args.plot)
    return exit_status(advice)


def unknown_option(command: CommandLine) -> str:
    """Say which option there is not; empty: all are known."""
    for name in command.options:
        if lookup("sbatch", name) is None:
            dashes = "-" if len(name) == 1 else "--"
            return f"neither nimo-advise nor sbatch has an option {dashes}{name}"
    return ""


def answer_lines(args: argparse.Namespace, settings: Callable[[], Config]) -> int:
    """Answer each line of standard input with a line, whatever is wrong with it."""
    from slurm_plugin.text.streams import json_text  # noqa: PLC0415 - not for people

    for line in sys.stdin:
        answer: dict[str, object] = {"schema": SCHEMA, "id": None}
        try:
            asked = json.loads(line)
            answer["id"] = asked.get("id") if isinstance(asked, dict) else None
            if name := _application(asked):
                advice = _answer_named(args, settings, name)
            else:
                words = _words(asked)
                job = request(words, user=args.user, look=_may_look(args, settings))
                advice = _answer(args, settings, job, clusters_of(job, words))
                if needs_slurm(job, words, advice.largest):
                    _check(words, job, _rules(args, settings))
            answer |= {"status": exit_status(advice), "advice": advice}
        except NimoError as error:
            answer |= {"status": error.exit_status, "error": str(error)}
        except ValueError as error:
            answer |= {"status": ScriptError.exit_status, "error": f"not JSON: {error}"}
        print(json_text(answer), flush=True)
    return ADVICE


def _application(asked: object) -> str:
    """Name the application that a request is about; empty: it is about a job."""
    if not isinstance(asked, dict) or not asked.keys() <= {"id", "application"}:
        return ""
    name = asked.get("application")
    return name if isinstance(name, str) else ""


def _words(asked: object) -> list[str]:
    """Words for sbatch of a request. Raises ScriptError: it is none."""
    words = asked.get("argv") if isinstance(asked, dict) and asked.keys() <= {"id", "argv"} else ()
    if not (isinstance(words, list) and all(isinstance(one, str) for one in words)):
        raise ScriptError('a request is a JSON object with "argv", a list of texts, and "id"')
    command = parse_command_line(["sbatch", *words])
    if unknown := unknown_option(command):
        raise ScriptError(unknown)
    if "wrap" not in command.options and command.script in ("", "-", "/dev/stdin"):
        raise ScriptError("a request needs a job script or --wrap")
    return words


def _rules(args: argparse.Namespace, settings: Callable[[], Config]) -> Advise | StartEstimates:
    """Read what may be asked of Slurm; to load a reader of YAML takes longer than to ask."""
    return DEFAULTS if leaves_out("advise", args.config) else settings().advise


def _may_look(args: argparse.Namespace, settings: Callable[[], Config]) -> bool:
    """Whether the site allows to look at the sizes of input files."""
    return leaves_out("inputs", args.config) or settings().inputs


def _check(sbatch: Sequence[str], job: JobFields, rules: Advise | StartEstimates) -> None:
    if rules.test_only:
        from slurm_plugin.cli import slurm_estimates  # noqa: PLC0415 - not for each job

        slurm_estimates.check(sbatch, job["script"], rules)


def _print(texts: Iterable[str]) -> None:
    for text in filter(None, texts):
        print(text, flush=True)


def _draw(advice: Advice, target: str) -> None:
    from slurm_plugin.reports.picture import of_advice  # noqa: PLC0415 - only for --plot

    if not advice.points:
        print("nimo-advise: there is nothing to draw yet", file=sys.stderr)
        return
    if target == plot.TERMINAL:
        print()
    plot.show(of_advice(advice), target)


def _ask_slurm(
    advice: Advice,
    sbatch: Sequence[str],
    job: JobFields,
    rules: Advise | StartEstimates,
    *,
    text: bool,
) -> None:
    """Add what ``sbatch --test-only`` says; without it the advice stands as it is."""
    from slurm_plugin.cli import slurm_estimates  # noqa: PLC0415 - only for --test-only

    try:
        slurm_estimates.add(advice, sbatch, job, rules, now_s=time.time())
    except SlurmError as error:
        print(f"nimo-advise: no start estimates of Slurm: {error}", file=sys.stderr)
        return
    if text and (starts := render_starts(advice, now_s=time.time())):
        print(f"\n{starts}")


def _answer(
    args: argparse.Namespace,
    settings: Callable[[], Config],
    job: JobFields,
    clusters: Sequence[str],
) -> Advice:
    """Ask nimod about a job, or read a store.

    clusters: as of `clusters_of`.
    Raises NimoError: the answer would be about another cluster than the job's.
    """

    def by_store(config: Config, *, local: bool) -> Advice:
        from msgspec.structs import replace  # noqa: PLC0415 - not before nimod has answered

        from slurm_plugin.stored_advice.advise import advise  # noqa: PLC0415 - see above

        if local and clusters:
            if len(clusters) > 1 or clusters == ("all",):
                _refuse_elsewhere(clusters, "")
            config = replace(config, cluster=clusters[0])
        asked = make_job(job)
        if local:
            from slurm_plugin.cli.own_history import refreshed_for  # noqa: PLC0415 - see above

            config = refreshed_for(asked, config, program="nimo-advise")
        return advise(asked, config, now_s=time.time())

    def by_nimod(socket: str) -> Advice:
        advice = line_client.advise(
            socket,
            job,
            confidence=args.confidence,
            clusters=",".join(clusters),
            timeout_s=TIMEOUT_S,
        )
        return seen_from_here(advice, clusters)

    return _by_nimod_or_store(args, settings, by_nimod, by_store)


def _answer_named(args: argparse.Namespace, settings: Callable[[], Config], name: str) -> Advice:
    """Ask nimod about the usual job of an application, or read a store.

    Raises NoHistory: no run of it has finished.
    """
    user = args.user or user_name()

    def by_store(config: Config, *, local: bool) -> Advice:
        from slurm_plugin.stored_advice.advise import advise_named  # noqa: PLC0415 - see above

        if local:
            from slurm_plugin.cli.own_history import refreshed  # noqa: PLC0415 - see above

            config = refreshed(config, program="nimo-advise")
        return advise_named(name, config, user=user, now_s=time.time())

    def by_nimod(socket: str) -> Advice:
        job: JobFields = {"user_name": user}
        advice = line_client.advise(
            socket, job, confidence=args.confidence, application=name, timeout_s=TIMEOUT_S
        )
        if advice.usual is None:
            raise line_client.RequestRefused("nimod's release knows no --application")
        return advice

    return _by_nimod_or_store(args, settings, by_nimod, by_store)


def _by_nimod_or_store(
    args: argparse.Namespace,
    settings: Callable[[], Config],
    by_nimod: Callable[[str], Advice],
    by_store: Callable[..., Advice],
) -> Advice:
    """Have nimod answer, or where it is not meant or does not run, a store.

    by_nimod: asks nimod at a socket.
    by_store: gives the advice by a configuration's store; ``local``: by the user's own history.
    """
    local = args.local
    unanswered: line_client.Unreachable | None = None
    if not (args.store or local):
        socket = nimod_socket(args, settings)
        try:
            return by_nimod(socket)
        except line_client.RequestRefused:
            raise
        except line_client.Unreachable as error:
            from slurm_plugin.cli import through_nimod as without  # noqa: PLC0415 - heavy

            local = bool(without.own_history_of(settings(), error, program="nimo-advise"))
            if not local:
                without.not_on_login_nodes(settings(), error)
                print(f"nimo-advise: {error}; reading the store instead", file=sys.stderr)
                unanswered = error
    if args.confidence:
        print("nimo-advise: --confidence has no effect without nimod", file=sys.stderr)
    config = settings()
    try:
        return by_store(config, local=local)
    except StoreError as unreadable:
        raise _without_store(unreadable, config, unanswered) from None


def _without_store(
    unreadable: StoreError, config: Config, unanswered: line_client.Unreachable | None
) -> NimoError:
    """Give the error that helps: of the store to those who may read it, else that of nimod."""
    from slurm_plugin.cli import through_nimod as without  # noqa: PLC0415 - heavy

    if unanswered is None or without.may_read_store(config):
        return unreadable
    return without.no_answer(unanswered)


def seen_from_here(advice: Advice, clusters: Sequence[str]) -> Advice:
    """Give nimod's advice, if the job may run on its cluster.

    It says of which clusters that the job names nothing is known.
    Raises SlurmError: it runs on another one alone.
    """
    here = advice.cluster
    if not here or "all" in clusters:
        return advice
    if clusters and here not in clusters:
        _refuse_elsewhere(clusters, here)
    compared = {here, *(row.cluster for row in advice.partitions)}
    left = [name for name in clusters if name not in compared and name not in advice.place_text]
    if left:
        which = ", ".join(map(printable, left))
        only = f"NIMO here does not know the cluster{'s' if len(left) > 1 else ''} {which}."
        advice.place_text = " ".join(filter(None, (advice.place_text, only)))
    return advice


def _refuse_elsewhere(clusters: Sequence[str], here: str) -> None:
    """Raise SlurmError: a job of these clusters is none that can be advised on here."""
    there = ",".join(clusters)
    if here:
        raise SlurmError(
            f"sbatch sends this job to the cluster {there}, and nimod here knows {here}: ask "
            "there, or with --local, which reads your own jobs on it"
        )
    raise SlurmError(f"which cluster is asked about? -M {there} leaves it open; name one with -M")
