"""``nimo why``: say why jobs wait, and explain what was decided about a job."""

import argparse
import re
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sacct_ingest.errors import NimoError, NoHistory, SlurmError
from sacct_ingest.text.hostlist import place_of_index
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.cli.slurm_questions import Patience, waiting_ids
from slurm_plugin.cli.through_nimod import TIMEOUT_S, nimod_or_store, own_history_is_meant
from slurm_plugin.slurm import commands
from slurm_plugin.text.formatting import count, wrapped
from slurm_plugin.text.streams import json_text
from slurm_plugin.text.terminal_size import terminal_width

if TYPE_CHECKING:  # each way of the command loads what it needs
    from sacct_ingest.records import ShownJob
    from sacct_ingest.text.admin_comment import Note
    from slurm_plugin.config.settings import Config
    from slurm_plugin.protocol.query_messages import Explanation
    from slurm_plugin.protocol.request_messages import Ask
    from slurm_plugin.reports.pending_text import PendingAnswer


_STATE = re.compile(r"\bJobState=([A-Z_]+)")
#: It has run before, as where a node failed or it was preempted.
_RESTARTED = re.compile(r"\bRestarts=[1-9]")
#: Seconds after the one of its submission in which nimod has written a job's decision, and those
#: about the jobs that were submitted with it.
_WRITTEN_S = 2.5
#: Seconds for the accounting where Slurm did not answer before.
_NO_ANSWER_S = 0.5
_NONE_WAIT = "none of your jobs is waiting"


def run(args: argparse.Namespace) -> int:
    """Ask Slurm, and nimod or the store, and print."""
    if args.apply and (args.json or args.job is None or args.store):
        raise NimoError("--apply takes a job that waits, and neither --json nor --store")
    patience = Patience()
    if args.job is None:
        return _all_waiting(args, patience)
    with patience.paused():
        config = load_config(args, for_user=True)
    job_id, task = args.job
    printed = "" if args.store else _shown(job_id, patience)
    waiting = _waiting(printed, task, config, patience)
    if waiting and not args.json:
        _print_before(printed, job_id, task, config, patience)
        _print_waiting(waiting)
    if args.apply:
        return _apply(waiting, job_id)
    if args.local or (
        own_history_is_meant(config) and not (args.store or Path(config.socket).exists())
    ):
        return _without_nimod(job_id, task, config, waiting, args, patience, printed)
    return _with_nimod(job_id, task, config, waiting, args, patience, printed)


def _without_nimod(
    job_id: int,
    task: int | None,
    config: "Config",
    waiting: "list[PendingAnswer]",
    args: argparse.Namespace,
    patience: Patience,
    printed: str,
) -> int:
    """Say what came of a job where no nimod decides; of one that waits nothing has."""
    if waiting:
        _print_json(None, waiting, args)
        return 0
    if patience.left_s <= 0:
        return 1  # Slurm does not answer, as has been said: nothing newer can be read
    failure = _failure(job_id, task, config, patience)
    states = _STATE.findall(printed)
    over = bool(states) and _any_over(states)
    if states and not (over or failure):
        raise NoHistory(f"job {job_id} is running: what came of it is said once it has ended")
    try:
        text = _own_run(job_id, config, has_failed=bool(failure), over=over)
    except NoHistory:
        if not failure:
            raise
        text = ""
    _print(text, failure)
    return 0


def _with_nimod(
    job_id: int,
    task: int | None,
    config: "Config",
    waiting: "list[PendingAnswer]",
    args: argparse.Namespace,
    patience: Patience,
    printed: str,
) -> int:
    """Explain what was decided about a job that Slurm has shown so."""
    try:
        explanation, note, shown = _explanation(job_id, printed, config, args)
    except NimoError as error:
        if not waiting:
            raise
        print(f"nimo why: {error}", file=sys.stderr)
        _print_json(None, waiting, args)
        return 0
    states = _STATE.findall(printed)
    over = not states or _any_over(states)
    ended = over or (bool(_RESTARTED.search(printed)) and not waiting)
    failure = []
    if ended and not (args.json or args.store):
        failure = _failure(job_id, task, config, patience)
    if explanation.decision is None and not (waiting or failure):
        raise NoHistory(_not_found(job_id, explanation))
    if args.json:
        _print_json(explanation, waiting, args)
    elif explanation.decision is None:
        if explanation.fitting or explanation.at_that_time:
            print(f"nimo why: {_not_found(job_id, explanation)}", file=sys.stderr)
        _print("", failure)
    else:
        if waiting:
            print()
        opened_s = note.opened_s if note else None
        # A job that has not ended has no outcome; of one that failed it is said already.
        came = over and not failure
        from slurm_plugin.reports.why_text import explain  # noqa: PLC0415 - heavy

        decided = explain(explanation, job_id, opened_s=opened_s, shown=shown, with_outcome=came)
        _print(decided, failure)
    return 0


def _any_over(states: Sequence[str]) -> bool:
    from slurm_plugin.slurm.ended_job import is_over  # noqa: PLC0415 - heavy

    return any(is_over(state) for state in states)


def _shown(job_id: int, patience: Patience) -> str:
    """Give what Slurm shows of a job; empty where it has it no more, or does not answer."""
    try:
        return patience.ask(("scontrol", "show", "job", str(job_id)))
    except SlurmError as error:
        if commands.may_pass(error):  # all else is about the job
            print(f"nimo why: {error}", file=sys.stderr)
        return ""


def _waiting(
    printed: str, task: int | None, config: "Config", patience: Patience
) -> "list[PendingAnswer]":
    """Say why a job waits that Slurm has shown; nothing where it does not."""
    if "JobState=PENDING" not in printed:
        return []
    with patience.paused():
        from slurm_plugin.cli import waiting_jobs  # noqa: PLC0415 - heavy
        from slurm_plugin.slurm.pending_job import pending_jobs  # noqa: PLC0415

    jobs = [job for job in pending_jobs(printed) if _is_meant_task(job.tasks, task)]
    if not jobs:
        return []
    few = jobs[: waiting_jobs.MOST_JOBS]
    seen = waiting_jobs.look(few, config.socket, patience, with_edits=True)
    return waiting_jobs.answers(seen, patience, with_edits=1)


def _is_meant_task(tasks: str, task: int | None) -> bool:
    return task is None or (bool(tasks) and place_of_index(tasks, task) is not None)


def _all_waiting(args: argparse.Namespace, patience: Patience) -> int:
    """Say why the user's own jobs wait."""
    ids = waiting_ids(patience)
    if not ids:
        print(json_text({"waiting": [], "jobs": 0}) if args.json else _NONE_WAIT)
        return 0
    with patience.paused():
        from slurm_plugin.cli import waiting_jobs  # noqa: PLC0415 - heavy
        from slurm_plugin.reports.pending_text import (  # noqa: PLC0415
            in_order,
            rest_text,
            unlooked_text,
        )

        config = load_config(args, for_user=True)
    jobs = waiting_jobs.shown_jobs(ids[: waiting_jobs.MOST_JOBS], patience)
    waiting: list[PendingAnswer] = []
    if jobs:
        seen = waiting_jobs.look(jobs, config.socket, patience, with_edits=True)
        within_s = waiting_jobs.CHANGES_S
        made = waiting_jobs.answers(seen, patience, with_edits=len(jobs), most=1, within_s=within_s)
        waiting = in_order(made)
    if args.json:
        print(json_text({"waiting": waiting, "jobs": len(ids)}))
        return 0
    if not waiting:
        print(_NONE_WAIT)
    _print_waiting(waiting)
    rest = rest_text(len(ids) - len(jobs)) if len(ids) > len(jobs) and waiting else ""
    for line in filter(None, (unlooked_text(waiting), rest)):
        print()
        print(wrapped(line, terminal_width()))
    return 0


def _print_before(
    printed: str, job_id: int, task: int | None, config: "Config", patience: Patience
) -> None:
    """Print what came of the last start of a job that waits again, where it has had one."""
    restarted = _RESTARTED.search(printed)
    before = _failure(job_id, task, config, patience) if restarted else []
    if before:
        _print("", before)
        print()


def _print_waiting(waiting: "list[PendingAnswer]") -> None:
    from slurm_plugin.reports.pending_text import told  # noqa: PLC0415 - heavy

    for number, one in enumerate(waiting):
        if number:
            print()
        for line in told(one, now_s=time.time()):
            print(line if line.startswith("    ") else wrapped(line, terminal_width()))


def _apply(waiting: "list[PendingAnswer]", job_id: int) -> int:
    """Ask which change to make, and have Slurm make it.

    Raises NimoError: there is none to make; SlurmError: Slurm refuses it.
    """
    if waiting and not waiting[0].may_change:
        raise NimoError(f"job {job_id} is another user's: only that user and admins may change it")
    edits = [edit for one in waiting[:1] for edit in one.edits]
    if not any(edit.argv for edit in edits):
        raise NimoError(f"nothing is known that would start job {job_id} sooner")
    print("Number of the change to make (none: Enter): ", end="", flush=True)
    said = sys.stdin.readline().strip()
    if not said:
        print("Nothing was changed.")
        return 0
    if not (said.isdecimal() and 1 <= int(said) <= len(edits)) or not edits[int(said) - 1].argv:
        raise NimoError(f"{said!r} is none of these changes: nothing was changed")
    chosen = edits[int(said) - 1]
    Patience().ask(chosen.argv)
    print(f"Done: {shlex.join(chosen.argv)}")
    return 0


def _print_json(
    explanation: "Explanation | None", waiting: "list[PendingAnswer]", args: argparse.Namespace
) -> None:
    if not args.json:
        return
    import msgspec  # noqa: PLC0415 - as long as Python itself

    made = msgspec.to_builtins(explanation) if explanation else {}
    print(json_text(made | {"waiting": waiting} if waiting else explanation))


def _explanation(
    job_id: int, printed: str, config: "Config", args: argparse.Namespace
) -> "tuple[Explanation, Note | None, ShownJob | None]":
    """Ask for the decision about a job that Slurm has shown so."""
    from sacct_ingest.text import admin_comment  # noqa: PLC0415 - heavy, as all of these
    from slurm_plugin.nimod import client  # noqa: PLC0415
    from slurm_plugin.protocol.query_messages import Explanation  # noqa: PLC0415
    from slurm_plugin.protocol.request_messages import Ask  # noqa: PLC0415
    from slurm_plugin.slurm.shown_job import read_shown_job  # noqa: PLC0415

    note = admin_comment.parse(printed.replace("AdminComment=", " "))
    shown = read_shown_job(printed)
    decision_id = note.decision_id if note else ""
    ask = Ask(op="explain", job_id=job_id, decision_id=decision_id, shown=shown)
    if shown is not None:
        time.sleep(min(max(shown.submit_s + _WRITTEN_S - time.time(), 0.0), _WRITTEN_S))
    explanation = nimod_or_store(
        lambda: config,
        lambda: client.exchange(config.socket, ask, Explanation, TIMEOUT_S),
        lambda config: _stored(config, ask),
        store_named=bool(args.store),
    )
    return explanation, note, shown


def _failure(job_id: int, task: int | None, config: "Config", patience: Patience) -> list[str]:
    from slurm_plugin.cli.failed_job import EXPLAINED_S, explained  # noqa: PLC0415 - heavy

    answers = patience.left_s > 0
    return explained(job_id, task, config, EXPLAINED_S if answers else _NO_ANSWER_S)


def _print(text: str, failure: list[str]) -> None:
    """Print what happened, then what was decided; lines to paste and of the output stay whole."""
    for line in failure:
        print(line if line.startswith("  ") else wrapped(line, terminal_width()))
    if failure and text:
        print()
    if text:
        print(wrapped(text, terminal_width()))


def _own_run(job_id: int, config: "Config", *, has_failed: bool, over: bool) -> str:
    """Say what is known of a job where no nimod decides.

    has_failed: what came of it is said already.
    over: Slurm shows that it has ended: the accounting is asked anew where it was asked before.
    """
    from slurm_plugin.cli import own_history  # noqa: PLC0415 - heavy

    own = own_history.refreshed(config)
    try:
        return _known_run(job_id, own, has_failed=has_failed)
    except NoHistory:
        if has_failed or not over:
            raise
    own_history.ask_again(config)
    return _known_run(job_id, own_history.refreshed(config), has_failed=False)


def _known_run(job_id: int, config: "Config", *, has_failed: bool) -> str:
    from sacct_ingest.records import KeyLevel  # noqa: PLC0415 - all of these are heavy
    from sacct_ingest.runs.layout import layouts_of_run  # noqa: PLC0415
    from slurm_plugin.decision.lookup import PredictionLookup  # noqa: PLC0415
    from slurm_plugin.protocol.query_messages import explanation_of  # noqa: PLC0415
    from slurm_plugin.reports.why_text import explain, explain_run  # noqa: PLC0415
    from slurm_plugin.store_access import open_store  # noqa: PLC0415

    with open_store(config) as store:
        if pair := store.decisions.of_job(
            job_id, cluster=config.cluster
        ):  # a nimod decided: the job's note says so
            return explain(explanation_of(*pair), job_id)
        found = store.runs.of_job(job_id)
        if not found:
            raise NoHistory(f"no job {job_id} of yours has ended and been read from the accounting")
        if has_failed:
            return ""
        run = found[-1]
        keys = [(level, key) for level in KeyLevel if (key := run.identity.key(level))]
        fits = [(one.level, one.key, one.payload) for one in store.fits.find(keys)]
    table = PredictionLookup(fits).find(
        run.identity, layouts_of_run(run), attributes=lambda: run.attributes
    )
    return explain_run(run, table)


def _stored(config: "Config", ask: "Ask") -> "Explanation":
    from slurm_plugin.nimod.queries import explain as explain_stored  # noqa: PLC0415 - SQLAlchemy
    from slurm_plugin.store_access import open_store  # noqa: PLC0415

    with open_store(config) as store:
        return explain_stored(store, ask, None, cluster=config.cluster)


def _not_found(job_id: int, explanation: "Explanation") -> str:
    """Say why there is no decision to explain, and what to do."""
    fitting = explanation.fitting
    others = explanation.at_that_time
    if fitting:
        return (
            f"{fitting} jobs of this name and folder were submitted about when job {job_id} was, "
            "with the same request: which decision is about it is known once the job has ended "
            "and 'nimo ingest' has read the accounting"
        )
    if others:
        jobs = count(others, "job")
        return (
            f"NIMO decided about {jobs} of this name and folder about when job {job_id} was "
            "submitted, but none asked for what scontrol shows of this one. It may have been "
            "changed since: 'nimo ingest' finds the decision once the job has ended"
        )
    return (
        f"there is no decision about a job {job_id} that you may see; jobs that scontrol "
        "does not show any more are found once 'nimo ingest' has read the accounting"
    )
