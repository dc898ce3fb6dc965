"""Explain the decision about a job: the request, the prediction, the choice, and the reason.

Of a job of yours that did not complete it says what happened, with the end of its output, and the
command that runs it again with more of what it ran out of.

Users see decisions about their own jobs, through nimod.  Root and the owner of the store see all of
them.
"""

import argparse
import re
import time
from contextlib import suppress
from pathlib import Path

from sacct_ingest.errors import NoHistory, SlurmError
from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.layout import layouts_of_run
from sacct_ingest.text import admin_comment
from slurm_plugin.cli import own_history
from slurm_plugin.cli.command_context import Options, load_config
from slurm_plugin.cli.own_history import is_meant
from slurm_plugin.cli.through_nimod import TIMEOUT_S, nimod_or_store
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.nimod import client
from slurm_plugin.protocol.query_messages import Explanation, explanation_of
from slurm_plugin.protocol.request_messages import Ask
from slurm_plugin.reports.why_text import explain, explain_run
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.ended_job import is_over
from slurm_plugin.slurm.shown_job import read_shown_job
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import count, wrapped
from slurm_plugin.text.streams import json_text
from slurm_plugin.text.table_columns import terminal_width

EXAMPLE = "  nimo why 4711\n  nimo why 4711 --json | jq .decision.reason"

_JOB = re.compile(r"([0-9]{1,18})(?:_([0-9]{1,10})|[+][0-9]{1,10})?")
_STATE = re.compile(r"\bJobState=([A-Z_]+)")
#: Seconds after the one of its submission in which nimod has written a job's decision, and those
#: about the jobs that were submitted with it.
_WRITTEN_S = 2.5


def add_arguments(add: Options) -> None:
    """Declare the options."""
    add("job JOBID", "id of the job, of an array, or of one of its tasks", type=_job_id)
    add.shared("json", "local", "store", "config")


def run(args: argparse.Namespace) -> int:
    """Ask nimod or the store, and print."""
    config = load_config(args, for_user=True)
    job_id, task = args.job
    if args.local or (is_meant(config) and not (args.store or Path(config.socket).exists())):
        failure = _failure(job_id, task, config)
        try:
            text = _own_run(own_history.refreshed(config), job_id)
        except NoHistory:
            if not failure:
                raise
            text = ""
        _print(text, failure)
        return 0
    printed = ""
    if not args.store:
        with suppress(SlurmError):  # slurmctld has it no more
            argv = ("scontrol", "show", "job", str(job_id))
            printed = commands.run(argv, timeout_s=config.snapshot.timeout_s)
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
    states = _STATE.findall(printed)
    over = not states or any(is_over(state) for state in states)
    failure = _failure(job_id, task, config) if over and not (args.json or args.store) else []
    if explanation.decision is None:
        if not failure:
            raise NoHistory(_not_found(job_id, explanation))
        _print("", failure)
    elif args.json:
        print(json_text(explanation))
    else:
        opened_s = note.opened_s if note else None
        _print(explain(explanation, job_id, opened_s=opened_s, shown=shown), failure)
    return 0


def _failure(job_id: int, task: int | None, config: Config) -> list[str]:
    from slurm_plugin.cli.failed_job import explained  # noqa: PLC0415 - heavy

    return explained(job_id, task, config)


def _print(text: str, failure: list[str]) -> None:
    """Print what was decided, and what happened; lines to paste and of the output stay whole."""
    if text:
        print(wrapped(text, terminal_width()))
    for line in failure:
        print(line if line.startswith("  ") else wrapped(line, terminal_width()))


def _own_run(config: Config, job_id: int) -> str:
    """Say what is known of a job where no nimod decides."""
    with open_store(config) as store:
        if pair := store.decisions.of_job(
            job_id, cluster=config.cluster
        ):  # a nimod decided: the job's note says so
            return explain(explanation_of(*pair), job_id)
        found = store.runs.of_job(job_id)
        if not found:
            raise NoHistory(f"no job {job_id} of yours has ended and been read from the accounting")
        run = found[-1]
        keys = [(level, key) for level in KeyLevel if (key := run.identity.key(level))]
        fits = [(one.level, one.key, one.payload) for one in store.fits.find(keys)]
    table = PredictionLookup(fits).find(
        run.identity, layouts_of_run(run), attributes=lambda: run.attributes
    )
    return explain_run(run, table)


def _stored(config: Config, ask: Ask) -> Explanation:
    from slurm_plugin.nimod.queries import explain as explain_stored  # noqa: PLC0415 - SQLAlchemy

    with open_store(config) as store:
        return explain_stored(store, ask, None, cluster=config.cluster)


def _not_found(job_id: int, explanation: Explanation) -> str:
    """Say why there is no decision to explain, and what to do."""
    fitting, others = explanation.fitting, explanation.at_that_time
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


def _job_id(text: str) -> tuple[int, int | None]:
    """Read a job id, and a task's index: it was decided about with its array."""
    if found := _JOB.fullmatch(text):
        return int(found[1]), int(found[2]) if found[2] else None
    raise argparse.ArgumentTypeError(f"{text!r} is not a job id, such as 4711 or 4711_3")
