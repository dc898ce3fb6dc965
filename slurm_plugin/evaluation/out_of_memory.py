"""What is done where jobs end for lack of memory: their application's keep theirs from then on.

Where the site wants it, a job that got less than it asked for runs again with what it asked for.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from predictor.table import decode, encode
from predictor.tables.memory import ran_short
from sacct_ingest.errors import SlurmError
from sacct_ingest.records import DecisionRow, JobState
from sacct_ingest.runs.layout import Unit
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
            if _again(decision, run.job_id, ceil(run.cpus / nodes)):
                yield f"job {run.job_id}: runs again with --mem={asked_mib}M, which it asked for"
        except SlurmError as error:
            _log.error("job %d cannot run again: %s", run.job_id, error)


def _again(decision: DecisionRow, job_id: int, cpus: int) -> bool:
    """Requeue a job with the memory that it asked for; False: it is another one by now, or runs.

    It is held in between, so that it cannot start with what it had.

    Raises SlurmError: Slurm does not do it; a job that is held then stays so.
    """
    job = str(job_id)
    shown = commands.run(["scontrol", "show", "job", job], timeout_s=_TIMEOUT_S)
    state = re.search(r"\bJobState=(\w+)", shown)
    if state is None or state[1] not in _ENDED or decision.decision_id not in shown:
        return False
    asked = decision.asked_mem_mib or 0
    by_cpu = "MinMemoryCPU=" in shown
    memory = f"MinMemoryCPU={asked // cpus}" if by_cpu else f"MinMemoryNode={asked}"
    for argv in (["requeuehold", job], ["update", f"JobId={job}", memory], ["release", job]):
        commands.run(["scontrol", *argv], timeout_s=_TIMEOUT_S)
    return True
