"""What happened to a job that did not complete, in words."""

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sacct_ingest.records import JobState
from sacct_ingest.runs.evidence import node_memory, node_need
from sacct_ingest.text.durations import duration_text
from slurm_plugin.evaluation.enough import Enough, Lack
from slurm_plugin.slurm.ended_job import EndedJob
from slurm_plugin.text.formatting import count, printable

_MIB = 2**20
#: What a job shows whose input or output file Slurm could not open.
OUTPUT_SIGNAL = 53
_ENDED = {
    JobState.TIMEOUT: "reached its time limit",
    JobState.DEADLINE: "was ended at its deadline",
    JobState.OUT_OF_MEMORY: "ran out of memory",
    JobState.NODE_FAIL: "was on a node that failed",
    JobState.BOOT_FAIL: "was on a node that did not start",
    JobState.PREEMPTED: "was preempted by a job of higher priority",
    JobState.CANCELLED: "was cancelled",
    JobState.REQUEUED: "was put back into the queue",
    JobState.REVOKED: "was withdrawn from this cluster",
}
#: What Slurm itself could not do, by the signal that such a job shows.  Its status is an error of
#: slurmd (slurm/slurm_errno.h, ESLURMD_*, 4000 and more), and the lowest seven bits of that read as
#: a signal.
_NOT_STARTED = {
    42: "could not write its script on the node",  # CREATE_BATCH_DIR
    44: "could not write its script on the node",  # CREATE_BATCH_SCRIPT
    46: "could not set up its environment",  # SETUP_ENVIRONMENT
    48: "could not become its user on the node",  # SET_UID_OR_GID
    51: "could not start another process on the node",  # FORK_FAILED
    52: "could not run its script",  # EXECVE_FAILED
    OUTPUT_SIGNAL: "could not open its input or output file",  # IO_ERROR
    54: "failed in its prolog on the node",  # PROLOG_FAILED
}
#: States of Slurm in which a job has started again; COMPLETING is of the run that ended.
_RUNNING = frozenset({"CONFIGURING", "RUNNING", "SIGNALING", "STOPPED", "SUSPENDED"})


def happened(run: EndedJob, lack: Lack) -> str:
    """Say how a job ended."""
    name = printable(f"{run.user}/{run.name}")
    task = f"_{run.array_task_id}" if run.array_task_id is not None else ""
    words = _ENDED.get(run.state, "failed")
    if run.state is JobState.CANCELLED and run.cancelled_by:
        words = f"was cancelled by {_who(run)}"
    if lack is Lack.MEMORY and run.state is not JobState.OUT_OF_MEMORY:
        words = "failed with all of its memory in use"
    details = [f"after {duration_text(run.elapsed_s)}"]
    if run.state is JobState.TIMEOUT and run.limit_s:
        details = [f"of {duration_text(run.limit_s)}"]
    elif lack is Lack.TIME and run.limit_s:
        details.append(f"of {duration_text(run.limit_s)}")
    elif lack is Lack.MEMORY:
        had = node_memory(run) // _MIB
        used = node_need(run) // _MIB
        amounts = [f"with {had} MiB on a node"] if had else []
        amounts += [f"{used} MiB measured"] if used else []
        details.append(", ".join(amounts))
    elif run.exit_code or run.exit_signal:
        code = f"exit {run.exit_code}" if run.exit_code else f"signal {run.exit_signal}"
        details.append(f"({code})")
    id_ = run.array_job_id if run.array_job_id is not None else run.job_id
    if fault := _fault_of_slurm(run):
        return f"Job {id_}{task} ({name}) did not start: Slurm {fault}."
    text = f"Job {id_}{task} ({name}) {words} {' '.join(filter(None, details))}."
    if run.state in (JobState.NODE_FAIL, JobState.BOOT_FAIL) and run.node_list:
        text += f" Its nodes were {printable(run.node_list)}."
    return text


def _who(run: EndedJob) -> str:
    """Name who cancelled a job; the accounting has a number where it knows no name."""
    by = run.cancelled_by
    if by in (run.user, str(run.uid)):
        return "its user"
    if by in ("0", "root"):
        return "root, as by an administrator"
    return printable(f"user {by}" if by.isdecimal() else by)


def _fault_of_slurm(run: EndedJob) -> str:
    """Say what Slurm could not do for a job's start; empty: it started."""
    if run.state is not JobState.FAILED or run.exit_code:
        return ""
    return _NOT_STARTED.get(run.exit_signal or 0, "")


def missing_folder_lines(run: EndedJob, folder: Path) -> list[str]:
    """Say how to make the folder of an output that Slurm could not open; empty: it is there."""
    if run.exit_signal != OUTPUT_SIGNAL or not _fault_of_slurm(run) or folder.exists():
        return []
    name = printable(shlex.quote(str(folder)))
    return ["Slurm makes no folder for its output. To make it:", f"  mkdir -p {name}"]


def put_back_text(states: Sequence[str]) -> str:
    """Say that Slurm runs a job again that it has put back, or so many tasks of an array.

    states: what Slurm shows of each; empty: it shows none.

    >>> put_back_text(["PENDING"])
    'Slurm has put it back into the queue, where it waits to run again.'
    >>> put_back_text(["RUNNING", "PENDING"])
    'Slurm has put 2 tasks back into the queue: 1 runs again, 1 waits to.'
    >>> put_back_text(["COMPLETING"])
    'Slurm has put it back into the queue, to run again.'
    """
    rest = sum(state in _RUNNING for state in states)
    waiting = len(states) - rest
    if len(states) > 1:
        parts = [f"{rest} {'runs' if rest == 1 else 'run'} again"] if rest else []
        parts += [f"{waiting} {'waits' if waiting == 1 else 'wait'} to"] if waiting else []
        told = ", ".join(parts) if rest else f"{waiting} wait to run again"
        return f"Slurm has put {len(states)} tasks back into the queue: {told}."
    if states[0] == "PENDING":
        return "Slurm has put it back into the queue, where it waits to run again."
    if rest:
        return "Slurm has put it back into the queue, and it runs again."
    return "Slurm has put it back into the queue, to run again."


def tasks_text(runs: Sequence[EndedJob], failed: Sequence[EndedJob]) -> str:
    """Say how the tasks of an array ended."""
    states = Counter(run.state.value for run in failed)
    each = ", ".join(f"{number} {state}" for state, number in states.most_common())
    return f"{len(failed)} of {count(len(runs), 'task')} that ended did not complete: {each}."


def why_so_much(lack: Lack, enough: Enough, partition: str) -> str:
    """Say what the new amount rests on."""
    what = "longer" if lack is Lack.TIME else "more"
    if enough.runs:
        said = f"{count(enough.runs, 'run')} of it took {what}; 19 in 20 of such need no more"
    else:
        said = "twice what it had: too few of its runs say how much is enough"
    if enough.bounded:
        said += f"; partition {printable(partition)} allows no more"
    return said
