"""What decisions did, beside what would have been: counterfactuals with their error, deadlines."""

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from math import ceil, exp, hypot, log
from typing import NamedTuple

from sacct_ingest.records import FROM_NOTE, DecisionRow, JobState
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import RunRow
from slurm_plugin.evaluation.accuracy import predicted_for
from slurm_plugin.protocol.status_messages import AT_ONCE_S, FEWEST, SHARE, WaitAccuracy

_HOUR_S = 3600.0
#: Newest pairs of runs that the error of a counterfactual is read from.
_PAIRS = 1_000
#: Reasons of decisions that tried a count, and that `opt_in.proven: on` would have applied.
LEARNING, PROVEN = "learning", "proven"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What jobs saved on other counts than they asked for, or would have; negative: it cost."""

    jobs: int = 0
    node_hours: float = 0.0
    wait_jobs: int = 0  #: those of them whose waits on both counts are known
    wait_hours: float = 0.0
    unit: Unit = Unit.NODES  #: of ``node_hours``


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Jobs that came with a deadline."""

    met: int = 0
    missed: int = 0
    refused: int = 0  #: at submission, because no node count could make it
    open: int = 0  #: not finished, or not found in the accounting yet
    warned: int = 0  #: of all these, those whose deadline was said to be missed at submission


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """Finished jobs whose count NIMO changed, by what came of what they were promised."""

    kept: int = 0  #: their turnaround stayed within the guard ...
    jobs: int = 0  #: ... of these, which were promised that
    otherwise: int = 0  #: ran on another count than chosen: with their range back, or their user's
    tries: int = 0  #: jobs that ran on another count to learn
    applications: int = 0  #: which were learnt so
    #: of the tries, by unit: node-hours, CPU-hours, GPU-hours
    try_hours: dict[Unit, float] = field(default_factory=dict)
    since: tuple[Gain, ...] = ()  #: of these applications, by what they learnt


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedShorter:
    """Jobs that Slurm planned with less than their time limit; waits are means, seconds."""

    jobs: int = 0  #: that ended
    outlasted: int = 0  #: of these, those that ran longer than planned
    wait_before_s: float | None = None  #: of all jobs, before the first of these
    wait_since_s: float | None = None  #: and since


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectEstimate:
    """What did not happen: its prediction, scaled by the job's own actual over predicted.

    ``low`` and ``high``: by the record of pairs (waits: of waits), by the intervals of the
    predictions where there are few.  Within an application all are taken to be off the same way,
    between applications independently of each other.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What happened, beside what the same jobs would have had on the other node count.

    For decisions that were applied the other count is the one asked for; for decisions that were
    only observed it is the one that would have been chosen.
    """

    jobs: int
    more_nodes: int  #: jobs whose chosen count is above the one asked for
    node_hours: float
    other_node_hours: EffectEstimate
    run_hours: float
    other_run_hours: EffectEstimate
    wait_jobs: int  #: of them, those whose two waits are predicted well, by record
    unsure_wait_jobs: int  #: those whose waits are predicted, but not well
    wait_hours: float
    other_wait_hours: EffectEstimate
    unit: Unit = Unit.NODES  #: of the counts and of ``node_hours``
    #: jobs for which NIMO's count is a minute or more later than the one asked for
    later: int = 0


def gain_of(effect: Effect | None, *, applied: bool = True) -> Gain:
    """Sum an effect up; none is one of no job."""
    if effect is None:
        return Gain()
    sign = 1.0 if applied else -1.0
    return Gain(
        jobs=effect.jobs,
        node_hours=sign * (effect.other_node_hours.value - effect.node_hours),
        wait_jobs=effect.wait_jobs,
        wait_hours=sign * (effect.other_wait_hours.value - effect.wait_hours),
        unit=effect.unit,
    )


def is_changed(decision: DecisionRow) -> bool:
    """Whether NIMO changed the job's node count."""
    return decision.applied and chooses(decision)


def ran_otherwise(decision: DecisionRow, nodes: int) -> bool:
    """Whether a job that was given one node count ran on another.

    It got its own range back, or its user changed it.
    """
    given = decision.applied and decision.action == "set" and decision.unit == Unit.NODES.value
    return given and decision.nodes not in (None, nodes)


class _Other(NamedTuple):
    """The count that a job did not have, and what it would have taken there."""

    nodes: int
    time_s: float
    low_s: float
    high_s: float
    wait_s: float | None  #: as predicted


@dataclass(slots=True)
class _Waits:
    """Sums over jobs whose waits are predicted alike, seconds."""

    jobs: int = 0
    waited_s: float = 0.0
    predicted_s: float = 0.0
    predicted_other_s: float = 0.0
    other_s: float = 0.0

    def add(self, waited_s: float, predicted_s: float, other_s: float) -> None:
        """Take a job; a wait that is long enough scales the other one."""
        scale = waited_s / predicted_s if predicted_s > AT_ONCE_S else 1.0
        self.jobs += 1
        self.waited_s += waited_s
        self.predicted_s += predicted_s
        self.predicted_other_s += other_s
        self.other_s += other_s * scale

    def off_s(self, record: WaitAccuracy, pair: tuple[bool, bool]) -> float | None:
        """By how much the other waits may be off in all; None where one of both is not known well.

        Waits are known well where most come within half of the wait, or within a minute.
        """
        for waits, sum_s in zip(pair, (self.predicted_s, self.predicted_other_s), strict=True):
            shares = record.waiting if waits else record.at_once
            if shares is None or shares.within_s > max(AT_ONCE_S, sum_s / self.jobs / 2):
                return None
        shares = record.waiting if pair[1] else record.at_once
        return self.jobs * shares.within_s if shares else None


@dataclass(slots=True)
class PairedRuns:
    """By how much two runs of an application, on two counts, missed their predicted ratio.

    What a job would have taken on the other count is one of a pair that was not run.
    """

    _last: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)
    _off: deque[float] = field(default_factory=lambda: deque(maxlen=_PAIRS))

    def add(self, application: str, decision: DecisionRow, run: RunRow) -> None:
        """Take a run: it is one of a pair where the application's last one had another count."""
        predicted = predicted_for(decision, run.nodes)
        if predicted is None or run.state is not JobState.COMPLETED or run.elapsed_s <= 0:
            return
        key = (application, decision.unit)
        error = log(run.elapsed_s / predicted[0])
        nodes, before = self._last.get(key, (run.nodes, error))
        self._last[key] = run.nodes, error
        if nodes != run.nodes:
            self._off.append(abs(error - before))

    def factor(self) -> float | None:
        """Factor within which `SHARE` of the ratios came; None: too few pairs."""
        off = sorted(self._off)
        return exp(off[ceil(SHARE * len(off)) - 1]) if len(off) >= FEWEST else None


@dataclass(slots=True)
class EffectTally:
    """Adds up jobs and their other counts, in one unit."""

    unit: Unit = Unit.NODES
    jobs: int = 0
    more_nodes: int = 0
    later: int = 0
    _node_s: float = 0.0
    _run_s: float = 0.0
    _waits: defaultdict[tuple[bool, bool], _Waits] = field(
        default_factory=lambda: defaultdict(_Waits)
    )
    _others: dict[str, list[float]] = field(default_factory=dict)

    def add(self, application: str, decision: DecisionRow, run: RunRow) -> None:
        """Take a decision for another count than was asked for, and its run."""
        other = _other(decision, run)
        if other is None or run.state is not JobState.COMPLETED:
            return
        self.jobs += 1
        self.more_nodes += (decision.nodes or 0) > (decision.requested_nodes or 0)
        self._node_s += run.nodes * run.elapsed_s
        self._run_s += run.elapsed_s
        sums = self._others.setdefault(application, [0.0] * 6)
        for i, time_s in enumerate(other[1:4]):
            sums[i] += time_s or 0.0
            sums[i + 3] += other.nodes * (time_s or 0.0)
        gap_s = run.elapsed_s - other.time_s
        if other.wait_s is not None and (waits := waits_of(decision, run)):
            predicted_s, waited_s = waits
            gap_s += waited_s - other.wait_s
            kinds = predicted_s > AT_ONCE_S, other.wait_s > AT_ONCE_S
            self._waits[kinds].add(waited_s, predicted_s, other.wait_s)
        self.later += (gap_s if decision.applied else -gap_s) >= AT_ONCE_S

    def result(self, record: WaitAccuracy, off_by: float | None) -> Effect | None:
        """Sum up; None where there is no such job.

        record: how near predicted waits came.
        off_by: factor by which run times on the other count may be off; None: see the intervals.
        """
        if not self.jobs:
            return None
        rows = [(one, one.off_s(record, pair)) for pair, one in self._waits.items()]
        good = [(one, off_s) for one, off_s in rows if off_s is not None]
        other_s = sum(one.other_s for one, _ in good)
        off_s = sum(off for _, off in good)
        wait_jobs = sum(one.jobs for one, _ in good)
        return Effect(
            jobs=self.jobs,
            more_nodes=self.more_nodes,
            node_hours=self._node_s / _HOUR_S,
            other_node_hours=self._estimate(3, off_by),
            run_hours=self._run_s / _HOUR_S,
            other_run_hours=self._estimate(0, off_by),
            wait_jobs=wait_jobs,
            unsure_wait_jobs=sum(one.jobs for one, _ in rows) - wait_jobs,
            wait_hours=sum(one.waited_s for one, _ in good) / _HOUR_S,
            other_wait_hours=_hours(other_s, other_s - off_s, other_s + off_s),
            unit=self.unit,
            later=self.later,
        )

    def _estimate(self, first: int, off_by: float | None) -> EffectEstimate:
        """Errors of one application add up; those of several are independent."""
        rows = [sums[first : first + 3] for sums in self._others.values()]
        if off_by is not None:
            rows = [[value, value / off_by, value * off_by] for value, *_ in rows]
        value = sum(row[0] for row in rows)
        below = hypot(*(row[0] - row[1] for row in rows))
        above = hypot(*(row[2] - row[0] for row in rows))
        return _hours(value, value - below, value + above)


@dataclass(slots=True)
class PromiseTally:
    """Holds changed jobs against their guard: what was predicted for the request, and slack."""

    guard_ratio: float = 1.25
    guard_s: float = 60.0
    _counts: Counter[str] = field(default_factory=Counter)
    _learnt: set[str] = field(default_factory=set)
    _try_hours: dict[Unit, float] = field(default_factory=dict)
    _since: dict[Unit, EffectTally] = field(default_factory=dict)

    def add(self, application: str, decision: DecisionRow, run: RunRow) -> None:
        """Take a changed job that completed, in the order of decisions."""
        self._counts["otherwise"] += ran_otherwise(decision, run.nodes)
        if run.state is not JobState.COMPLETED or run.nodes != decision.nodes:
            return
        unit = Unit(decision.unit)
        if decision.reason == LEARNING:
            self._counts["tries"] += 1
            self._learnt.add(application)
            spent = run.nodes * run.elapsed_s / _HOUR_S
            self._try_hours[unit] = self._try_hours.get(unit, 0.0) + spent
            return
        if application in self._learnt:
            self._since.setdefault(unit, EffectTally(unit)).add(application, decision, run)
        asked_s = decision.request_predicted_s
        wait_s = waited_s(run)
        if asked_s is None or decision.via == FROM_NOTE:  # which says nothing of waits
            return
        expected_s = asked_s + (decision.request_wait_s or 0.0)
        most_s = self.guard_ratio * expected_s + self.guard_s
        self._counts["jobs"] += 1
        self._counts["kept"] += (wait_s or 0.0) + run.elapsed_s <= most_s

    def result(self, record: WaitAccuracy) -> Promises:
        """Sum up; ``record`` is how near predicted waits came."""
        since = tuple(gain_of(one.result(record, None)) for one in self._since.values())
        return Promises(
            **self._counts,
            applications=len(self._learnt),
            try_hours=dict(self._try_hours),
            since=tuple(one for one in since if one.jobs),
        )


@dataclass(slots=True)
class PlannedTally:
    """Adds up jobs that Slurm planned with less than their limit, in the order of decisions."""

    jobs: int = 0
    outlasted: int = 0
    _waits: dict[bool, tuple[float, int]] = field(default_factory=dict)

    def add(self, decision: DecisionRow, run: RunRow) -> None:
        """Take a decision and its run."""
        if decision.soft_s is not None:
            self.jobs += 1
            self.outlasted += run.elapsed_s > decision.soft_s
        if (wait_s := waited_s(run)) is not None:
            sum_s, jobs = self._waits.get(self.jobs > 0, (0.0, 0))
            self._waits[self.jobs > 0] = sum_s + wait_s, jobs + 1

    def result(self) -> PlannedShorter:
        """Sum up."""
        means = {since: sum_s / jobs for since, (sum_s, jobs) in self._waits.items()}
        return PlannedShorter(
            jobs=self.jobs,
            outlasted=self.outlasted,
            wait_before_s=means.get(False),
            wait_since_s=means.get(True),
        )


def waits_of(decision: DecisionRow, run: RunRow) -> tuple[float, float] | None:
    """Predicted and actual wait for the count that the job had, seconds.

    None where one of them is missing, and for jobs that waited for more than nodes.
    """
    said_s = _wait_for(decision, run.nodes)
    was_s = waited_s(run)
    return None if said_s is None or was_s is None else (said_s, was_s)


def chooses(decision: DecisionRow) -> bool:
    """Whether another count was chosen than the one asked for."""
    return decision.action == "set" and decision.nodes != decision.requested_nodes


def _hours(value_s: float, low_s: float, high_s: float) -> EffectEstimate:
    low = max(low_s, 0.0) / _HOUR_S
    high = high_s / _HOUR_S
    return EffectEstimate(value=value_s / _HOUR_S, low=low, high=high)


def _other(decision: DecisionRow, run: RunRow) -> _Other | None:
    nodes = decision.requested_nodes if decision.applied else decision.nodes
    predicted = predicted_for(decision, nodes)
    had = predicted_for(decision, run.nodes)
    if predicted is None or nodes is None:
        return None
    scale = run.elapsed_s / had[0] if had else 1.0
    time_s, low_s, high_s = predicted
    ends_s = [scale * (one or time_s) for one in (time_s, low_s, high_s)]
    return _Other(nodes, ends_s[0], ends_s[1], ends_s[2], _wait_for(decision, nodes))


def _wait_for(decision: DecisionRow, nodes: int) -> float | None:
    if nodes == decision.nodes:
        return decision.wait_s
    return decision.request_wait_s if nodes == decision.requested_nodes else None


def waited_s(run: RunRow) -> float | None:
    """Wait for nodes alone; None for a job that became eligible late, or did not start."""
    late = (run.eligible_s or 0) - run.submit_s > AT_ONCE_S
    return None if run.start_s is None or late else float(run.start_s - run.submit_s)


def deadline_of(decision: DecisionRow, run: RunRow | None) -> str:
    """Say what became of a deadline: the field of `Deadlines` that counts it."""
    if decision.action == "refuse" and decision.applied:
        return "refused"
    if run is None or run.end_s is None or decision.deadline_s is None or not run.state.final:
        return "open"
    made = run.state is JobState.COMPLETED and run.end_s <= decision.deadline_s
    return "met" if made else "missed"
