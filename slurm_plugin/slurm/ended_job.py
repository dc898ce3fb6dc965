"""A job that has ended, as the accounting has it, and the script that it ran, where Slurm keeps it.

Nothing here reads what a user may not read: Slurm's own commands are asked as the user who asks.
"""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields

from sacct_ingest.errors import NoHistory, SlurmError
from sacct_ingest.records import JobState
from sacct_ingest.scripts.job_script import CommandLine
from sacct_ingest.scripts.signature import comment_of, parsed_line
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct import LiveSacct

#: Runs a command of Slurm's and gives its text; raises SlurmError.
Run = Callable[[Sequence[str]], str]
_SHOWN = re.compile(r"\d+(?:_(?P<task>\d+))?\s+(?P<state>[A-Z_]+)")
_ENDED = frozenset(state.value for state in JobState if state.ended)
#: What sacct prints before a script, and in place of one that is not kept.
_RULE = re.compile(r"^Batch Script for \S+\n-{20,}\n", re.MULTILINE)
_NOT_KEPT = "NONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """The last start of a job, or of a task of an array, that has ended; as the accounting has it.

    It is a start as evidence is read of it: see `sacct_ingest.runs.evidence`.
    """

    job_id: int
    submit_s: int
    state: JobState
    user: str = ""
    uid: int | None = None
    name: str = ""
    partition: str = ""
    array_job_id: int | None = None
    array_task_id: int | None = None
    het_job_id: int | None = None
    cancelled_by: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    start_s: int | None = None
    elapsed_s: float = 0.0
    limit_s: int | None = None
    nodes: int = 0
    cpus: int = 0
    tasks: int | None = None
    gpus: int | None = None
    node_list: str = ""
    mem_bytes: int | None = None
    req_mem_bytes: int | None = None
    submit_line: str = ""
    work_dir: str = ""
    comment: str = ""
    failed_steps: int | None = None


_FIELDS = [one.name for one in fields(EndedJob) if one.name != "failed_steps"]


def ended_tasks(job_id: int, task: int | None, sacct: LiveSacct) -> list[EndedJob]:
    """Give the last start of a job, or of each task of an array that has ended; by task.

    task: only this one of an array; None: all.
    Raises NoHistory: the accounting shows no such job that has ended; SacctError: it does not
        answer.
    """
    last: dict[int, EndedJob] = {}
    for row in sacct.of_jobs([job_id], 0, int(time.time()) + 60, Tally()):
        run = EndedJob(**{name: getattr(row, name) for name in _FIELDS})
        own = job_id in (run.job_id, run.array_job_id, run.het_job_id)
        if not own or (task is not None and run.array_task_id != task):
            continue
        before = last.get(run.job_id)
        if before is None or (run.submit_s, run.start_s or 0) >= (
            before.submit_s,
            before.start_s or 0,
        ):
            last[run.job_id] = run
    if not last:
        which = f"{job_id}_{task}" if task is not None else str(job_id)
        raise NoHistory(
            f"the accounting shows you no job {which} that has ended; it may still run, wait, or "
            "be too new: try again in some seconds"
        )
    return sorted(last.values(), key=lambda run: (run.array_task_id or 0, run.job_id))


def in_queue(job_id: int, ask: Run) -> dict[int | None, str]:
    """Give the state of a job, or of each task of an array, that slurmctld still has.

    The accounting gets the end of a job some seconds late.
    """
    with suppress(SlurmError):
        rows = ask(("squeue", "-h", "-a", "-r", "-t", "all", "-j", str(job_id), "-o", "%i %T"))
        shown = (found for row in rows.splitlines() if (found := _SHOWN.fullmatch(row.strip())))
        return {None if one["task"] is None else int(one["task"]): one["state"] for one in shown}
    return {}


def is_over(state: str) -> bool:
    """Whether a job in a state that Slurm shows has ended."""
    return state in _ENDED


def has_failed(run: EndedJob) -> bool:
    """Whether a job ended without its work done, and is not there any more."""
    return run.state.failed and run.state is not JobState.REQUEUED


def stored_script(run: EndedJob, ask: Run) -> str | None:
    """Give the script that a job ran, as slurmctld or the accounting keeps it; None: neither."""
    job_id = str(run.array_job_id or run.job_id)
    with suppress(SlurmError):
        text = ask(("scontrol", "write", "batch_script", job_id, "-"))
        if text.startswith("#!"):
            return text.removesuffix("\n")
    with suppress(SlurmError):
        shown = ask(("sacct", "--batch-script", "--jobs", job_id))
        # It prints that of each task of an array: they are one.
        parts = _RULE.split(shown, maxsplit=2)
        if len(parts) > 1 and parts[1].strip() not in ("", _NOT_KEPT):
            return parts[1].rstrip("\n") + "\n"
    return None


def command_line_of(run: EndedJob) -> CommandLine:
    """Read the submit line of a job; values whose quotes are lost there are the accounting's.

    >>> run = EndedJob(job_id=1, submit_s=0, state=JobState.FAILED, name="my job",
    ...                submit_line="sbatch -J my job -N 2 job.sh x")
    >>> command_line_of(run).options, command_line_of(run).script
    ({'job-name': 'my job', 'nodes': '2'}, 'job.sh')
    """
    words = run.submit_line
    if len(run.name.split()) > 1:
        words = words.replace(run.name, "_".join(run.name.split()), 1)
    comment = comment_of(run.comment, words)
    line = parsed_line(words, (comment, run.work_dir))
    options = dict(line.options)
    if "job-name" in options:
        options["job-name"] = run.name
    if "comment" in options and comment:
        options["comment"] = comment
    return line._replace(options=options)
