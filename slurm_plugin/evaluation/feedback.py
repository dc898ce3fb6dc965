"""What runs that ended change: applications are switched off or on, or keep their memory.

They are switched by the record of their predictions and of their promises.  Of predictions that is
the record that verdicts are earned by, up to the last fit, and from then on what became of the
decisions about them.  Of promises it is whether changed jobs kept the guard.  The median of
log(realised / predicted) over the last runs has to lie in a band: the site's, or that of the
predictions' own intervals where these are wider.  A median bears a few runs that went wrong; that
it takes a narrower band to come back than to leave keeps the switch from flapping.

Where jobs end for lack of memory, their application's keep theirs from then on; where the site
wants it, a job that got less than it asked for runs again with what it asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from math import ceil, comb, exp, log
from statistics import median
from typing import TYPE_CHECKING

from predictor.level.record import Record
from predictor.level.record import decode as decode_record
from predictor.stored_table import decode, encode
from sacct_ingest.errors import SlurmError
from sacct_ingest.records import DecisionRow, JobState, KeyLevel, StandingRow
from sacct_ingest.runs.evidence import ran_short
from sacct_ingest.runs.layout import Unit
from sacct_ingest.text.slurm_text import parse_size
from slurm_plugin.config import settings as config
from slurm_plugin.evaluation.accuracy import Comparison, compare
from slurm_plugin.evaluation.effects import PromiseTally, is_changed
from slurm_plugin.protocol.advice_messages import ESTIMATE_COMMENT
from slurm_plugin.protocol.status_messages import WaitAccuracy
from slurm_plugin.slurm import commands

if TYPE_CHECKING:
    from sacct_ingest.store import FitRow, RunRow, Store

    _Pairs = list[tuple[DecisionRow, RunRow]]

#: Watermark of the last pass.
_STANDINGS = "standings"
#: Decisions read for each run that counts: others have no prediction, or failed.
_SPARE = 8
#: So many broken promises, or more, are taken for chance where that is as likely.
_CHANCE = 0.05
#: Watermark of the last pass.
_MEMORY = "memory"
#: How far behind a watermark runs are looked at again: accounting is late.
_OVERLAP_S = 86_400.0
#: Newest decisions of an application that are looked at.
_NEWEST = 100
#: States of runs that may have lacked memory.
_SHORT = [one for one in JobState if one is JobState.OUT_OF_MEMORY or one.may_lack_memory]
#: Those in which such a job can run again; scontrol ends one that runs.
_ENDED = frozenset(state.value for state in _SHORT if state.final)
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
_UNSET = (None, "(null)", "N/A", "")


@dataclass(frozen=True, slots=True)
class Standing:
    """What the last runs say; ``ratio`` is realised over predicted, in the middle."""

    off: bool
    ratio: float
    runs: int
    low: float  #: the band that the ratio had to be in
    high: float


def judge(outcomes: Iterable[Comparison], band: config.Band, *, off: bool) -> Standing | None:
    """Judge an application by its last runs.

    outcomes: in any order.
    off: whether it is switched off now.
    Returns Standing or None: none with fewer than ``band.least`` runs that say something.
    """
    conclusive = [one for one in outcomes if one.conclusive]
    last = sorted(conclusive, key=lambda one: one.ended_s)[-band.runs :]
    if len(last) < band.least:
        return None
    middle = median(log(one.ratio) for one in last)
    wide = log(band.ratio)
    # Narrowed for the way back in the same proportion as the site's own band.
    share = log(min(band.back, band.ratio)) / wide if off and wide else 1.0
    below = median(log(one.low_s / one.predicted_s) for one in last if one.low_s)
    above = median(log(one.high_s / one.predicted_s) for one in last if one.high_s)
    low = share * min(-wide, below)
    high = share * max(wide, above)
    return Standing(not low <= middle <= high, exp(middle), len(last), exp(low), exp(high))


def judge_applications(store: Store, site: config.Config, *, now_s: float) -> list[StandingRow]:
    """Judge anew every application with runs that ended since the last pass.

    Returns list of StandingRow: those that were switched off or on again.
    Raises sacct_ingest.errors.StoreError: the store cannot be read or written.
    """
    since_s = (store.watermarks.get(_STANDINGS) or 0) - _OVERLAP_S
    touched = store.decisions.touched_keys(since_s)
    judged = list[StandingRow]()
    turned = list[StandingRow]()
    for found in store.decisions.last_outcomes(touched, site.band.runs * _SPARE):
        records = store.records.of(found)
        standings = store.standings.all(found)
        stood = {(row.level, row.key): row for row in standings}
        for named, pairs in found.items():
            before = stood.get(named)
            record = decode_record(records.get(named), Record)
            if row := _judged(named, pairs, record, site, before, now_s):
                judged.append(row)
                turned += [row] if row.off != (before is not None and before.off) else []
    if judged:
        store.standings.put(judged)
    store.watermarks.set(_STANDINGS, int(now_s))
    return turned


def _judged(
    named: tuple[KeyLevel, str],
    pairs: _Pairs,
    record: Record,
    site: config.Config,
    before: StandingRow | None,
    now_s: float,
) -> StandingRow | None:
    """Judge one application; None where nothing changed or nothing can be said."""
    band = site.band
    outcomes = [*_recorded(record), *_compared(pairs, after_s=record.until_s, most=band.runs)]
    was_off = before is not None and before.off
    judgement = judge(outcomes, band, off=was_off)
    if judgement is None:
        return None
    since_s = before.since_s if before else 0.0
    off = judgement.off
    if before is not None and before.broke_promises:  # its jobs are observed for as long
        off = off or sum(one.ended_s > since_s for one in outcomes) < band.least
    elif not was_off:
        off = off or _breaks(pairs, since_s, site.policy, band.runs)
    turned = off != was_off
    row = StandingRow(
        level=named[0],
        key=named[1],
        label=pairs[0][0].label,
        **asdict(judgement) | {"off": off},
        since_s=now_s if before is None or turned else before.since_s,
        judged_s=now_s,
    )
    names = Standing.__slots__
    same = before and all(getattr(row, name) == getattr(before, name) for name in names)
    return None if same else row


def _breaks(pairs: _Pairs, since_s: float, policy: config.Policy, least: int) -> bool:
    """Whether fewer changed jobs kept the guard than they were promised, beyond chance."""
    tally = PromiseTally(policy.guard_ratio, policy.guard_s)
    for decision, run in pairs:
        if is_changed(decision) and decision.at_s > since_s:
            tally.add("", decision, run)
    done = tally.result(WaitAccuracy())
    sure = policy.confidence
    counts = range(done.kept + 1)
    chance = sum(comb(done.jobs, k) * sure**k * (1 - sure) ** (done.jobs - k) for k in counts)
    return done.jobs >= least and chance < _CHANCE


def _recorded(record: Record) -> Iterator[Comparison]:
    """Turn entries of a record into comparisons; only ratios of times count.

    Those of what changes jobs: other users' runs do not switch an application off or on.
    """
    for entry in record.entries:
        if entry.acting is not None:
            error, width, _ = entry.acting
            yield Comparison(
                actual_s=exp(error),
                predicted_s=1.0,
                low_s=exp(-width),
                high_s=exp(width),
                ended_s=entry.end_s,
            )


def _compared(pairs: _Pairs, *, after_s: float, most: int) -> Iterator[Comparison]:
    """Compare runs that ended later with what was predicted for the count that they had.

    They come by their ends, the last one first, up to the one by which ``most`` are conclusive.
    """
    by_end = sorted(pairs, key=lambda pair: pair[1].end_s or 0)
    for decision, run in reversed(by_end):
        if most == 0 or (run.end_s or 0) <= after_s:
            return
        one = compare(decision, run)
        if one is not None and one.low_s and one.high_s:
            most -= one.conclusive
            yield one


_log = logging.getLogger(__name__)


def keep_memory(store: Store, *, requeue: bool, now_s: float) -> list[str]:
    """Let applications keep their memory whose runs ended for lack of it since the last pass.

    That holds from now on, and until the next fit has seen enough runs complete again.

    requeue: whether jobs that got less than they asked for run again.
    Returns list of str: what was done, for people.
    Raises sacct_ingest.errors.StoreError: the store cannot be read or written.
    """
    since_s = (store.watermarks.get(_MEMORY) or 0) - _OVERLAP_S
    changed: list[FitRow] = []
    lines: list[str] = []
    parts = store.decisions.last_outcomes(store.decisions.touched_keys(since_s, _SHORT), _NEWEST)
    for named, pairs in chain.from_iterable(one.items() for one in parts):
        # Sizes other than nodes are chosen on one node.
        short = [
            (one, run)
            for one, run in pairs
            if ran_short(run if one.unit == Unit.NODES else replace(run, nodes=1))
        ]
        if not short:
            continue
        rows = store.fits.find([named])
        changed += filter(None, (_without_lowering(row, short) for row in rows))
        if requeue:
            lines += _requeued(short, since_s=now_s - _RECENT_S)
    if changed:
        store.fits.replace(changed, keep_others=True)
    store.watermarks.set(_MEMORY, int(now_s))
    notes = (f"{row.label}: keeps its memory, as a run ended for lack of it" for row in changed)
    return [*notes, *lines]


def _without_lowering(row: FitRow, short: _Pairs) -> FitRow | None:
    """Table that takes no memory off; None where it knew of these runs."""
    table = decode(row.payload)
    last_s = max(float(run.end_s or 0) for _, run in short)
    if table.need is None or table.need.runs == 0 or last_s <= table.need.short_s:
        return None
    need = replace(table.need, runs=0, short_s=last_s)
    return replace(row, payload=encode(replace(table, need=need)))


def _requeued(short: _Pairs, *, since_s: float) -> Iterator[str]:
    for decision, run in short:
        asked_mib = decision.asked_mem_mib
        if not (decision.applied and asked_mib) or (run.end_s or 0) < since_s:
            continue
        nodes = run.nodes if decision.unit == Unit.NODES else 1
        if (run.req_mem_bytes or 0) >= asked_mib * _MIB * nodes:
            continue  # it had what it asked for
        try:
            cpus = ceil(run.cpus / nodes)
            job = _ended_job(decision, run)
            if job is not None and _has_given(job, decision.given_mem_mib or 0, cpus):
                yield _again(job, decision.uid, asked_mib, cpus)
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


def _has_given(job: dict[str, str], given_mib: int, cpus: int) -> bool:
    """Whether a job still has the memory of each node that it was given: its user changed none."""
    if "MinMemoryCPU" in job:
        return parse_size(job["MinMemoryCPU"]) == given_mib // cpus * _MIB
    return parse_size(job.get("MinMemoryNode", "")) == given_mib * _MIB


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
    words = [
        f"{option}={job[field]}"
        for field, option in _OPTIONS.items()
        if job.get(field) not in _UNSET
    ]
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
