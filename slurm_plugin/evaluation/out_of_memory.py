"""What is done where jobs end for lack of memory: their application's keep theirs from then on.

Where the site wants it, a job that got less than it asked for runs again with what it asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from predictor.table import decode, encode
from predictor.tables.resource_use import ran_short
from sacct_ingest.errors import SlurmError
from sacct_ingest.records import DecisionRow, JobState
from sacct_ingest.runs.layout import Unit
from slurm_plugin.protocol.advice_messages import ESTIMATE_COMMENT
from slurm_plugin.slurm import commands

if TYPE_CHECKING:  # the database is heavy, and --help needs none
    from sacct_ingest.store import FitRow, RunRow, Store

#: Watermark of the last pass, and how far behind it runs are looked at again: accounting is late.
SOURCE, OVERLAP_S = "memory", 86_400.0
#: Newest decisions of an application that are looked at.
_NEWEST = 100
#: States in which a job that may have lacked memory can run again; scontrol ends one that runs.
_ENDED = frozenset(
    state.value
    for state in JobState
    if state is JobState.OUT_OF_MEMORY or (state.final and state.may_lack_memory)
)
_MIB = 2**20
_TIMEOUT_S = 30.0
#: slurmctld forgets jobs that ended longer ago, as a rule after five minutes (``MinJobAge``).
_RECENT_S = 3600.0
#: Asks whether a job would be taken; nimod decides and records nothing for it.
_TEST = ("sbatch", "--test-only", "--chdir=/", f"--comment={ESTIMATE_COMMENT}")
#: What scontrol shows of a job, and the option that asks for it.
_OPTIONS = {
    "Account": "--account",
    "Partition": "--partition",
    "QOS": "--qos",
    "Reservation": "--reservation",
    "NumNodes": "--nodes",
    "NumTasks": "--ntasks",
    "CPUs/Task": "--cpus-per-task",
    "TimeLimit": "--time",
}
_log = logging.getLogger(__name__)


def update(store: Store, *, requeue: bool, now_s: float) -> list[str]:
    """Let applications keep their memory whose runs ended for lack of it since the last pass.

    That holds from now on, and until the next fit has seen enough runs complete again.

    requeue: whether jobs that got less than they asked for run again.
    Returns list of str: what was done, for people.
    Raises sacct_ingest.errors.StoreError: the store cannot be read or written.
    """
    since_s = (store.watermarks.get(SOURCE) or 0) - OVERLAP_S
    changed: list[FitRow] = []
    lines: list[str] = []
    for level, key in store.decisions.touched_keys(since_s):
        pairs = store.decisions.last_outcomes(level, key, _NEWEST)
        short = [(one, run) for one, run in pairs if _ran_short(one, run)]
        if not short:
            continue
        rows = store.fits.find([(level, key)])
        changed += [
            row for row in map(_without_lowering, rows, [short] * len(rows)) if row is not None
        ]
        if requeue:
            lines += _requeued(short, since_s=now_s - _RECENT_S)
    if changed:
        store.fits.replace(changed, keep_others=True)
    store.watermarks.set(SOURCE, int(now_s))
    notes = (f"{row.label}: keeps its memory, as a run ended for lack of it" for row in changed)
    return [*notes, *lines]


def _ran_short(decision: DecisionRow, run: RunRow) -> bool:
    """Whether a run ended for lack of memory; sizes other than nodes are chosen on one node."""
    return ran_short(run if decision.unit == Unit.NODES else replace(run, nodes=1))


def _without_lowering(row: FitRow, short: list[tuple[DecisionRow, RunRow]]) -> FitRow | None:
    """Table that takes no memory off; None where it knew of these runs."""
    table = decode(row.payload)
    last_s = max(float(run.end_s or 0) for _, run in short)
    if table.need is None or table.need.runs == 0 or last_s <= table.need.short_s:
        return None
    need = replace(table.need, runs=0, short_s=last_s)
    return replace(row, payload=encode(replace(table, need=need)))


def _requeued(short: list[tuple[DecisionRow, RunRow]], *, since_s: float) -> Iterator[str]:
    for decision, run in short:
        asked_mib = decision.asked_mem_mib
        if not (decision.applied and asked_mib) or (run.end_s or 0) < since_s:
            continue
        nodes = run.nodes if decision.unit == Unit.NODES else 1
        if (run.req_mem_bytes or 0) >= asked_mib * _MIB * nodes:
            continue  # it had what it asked for
        try:
            job = _ended_job(decision, run)
            if job is not None:
                yield _again(job, decision.uid, asked_mib, ceil(run.cpus / nodes))
        except SlurmError as error:
            _log.error("job %d cannot run again: %s", run.job_id, error)


def _ended_job(decision: DecisionRow, run: RunRow) -> dict[str, str] | None:
    """Fields of a job that has ended, as scontrol shows them; None: another one, or it runs.

    Of an array whose id it has there is a line for each task.  A component of a heterogeneous job
    is left alone: it does not run again without the others.

    Raises SlurmError: Slurm does not know it.
    """
    shown = commands.run(["scontrol", "-o", "show", "job", str(run.job_id)], timeout_s=_TIMEOUT_S)
    for line in shown.splitlines():
        fields = dict(word.partition("=")[::2] for word in reversed(line.split()))
        task = fields.get("ArrayTaskId", "0")
        if (
            fields.get("JobId") == str(run.job_id)
            and fields.get("JobState") in _ENDED
            and decision.decision_id in line
            and task == str(run.array_task_id or 0)
            and "HetJobId" not in fields
        ):
            return fields
    return None


def _again(job: dict[str, str], uid: int | None, asked_mib: int, cpus: int) -> str:
    """Requeue a job with the memory that it asked for, and say what was done.

    It is held in between, so that it cannot start with what it had.  All is done with the rights of
    its user: the limits of that user hold, and no other user's job can be meant.  Slurm is asked
    first whether it would take such a job.

    Raises SlurmError: Slurm does not requeue or release it.
    """
    # The id of an array would name all its tasks.
    name = f"{job['ArrayJobId']}_{job['ArrayTaskId']}" if "ArrayJobId" in job else job["JobId"]
    if not commands.may_run_as(uid):
        return f"job {name}: had too little memory; only root can let it ask for {asked_mib}M again"
    by_cpu = "MinMemoryCPU" in job
    memory = f"MinMemoryCPU={asked_mib // cpus}" if by_cpu else f"MinMemoryNode={asked_mib}"
    as_user = partial(commands.run, timeout_s=_TIMEOUT_S, uid=uid)
    words = [f"{option}={job[field]}" for field, option in _OPTIONS.items() if _given(job, field)]
    words.append(f"--mem-per-cpu={asked_mib // cpus}M" if by_cpu else f"--mem={asked_mib}M")
    as_is = "has ended for lack of memory"
    try:
        as_user([*_TEST, *words, "--wrap=true"])
        as_user(["scontrol", "requeuehold", name])
        as_is = "is held"
        as_user(["scontrol", "update", f"JobId={name}", memory])
    except SlurmError as error:
        return f"job {name}: {as_is}, Slurm does not give its user {asked_mib}M now: {error}"
    as_user(["scontrol", "release", name])
    return f"job {name}: runs again with --mem={asked_mib}M, which it asked for"


def _given(job: dict[str, str], field: str) -> bool:
    return job.get(field, "(null)") not in ("(null)", "N/A", "")
