"""What decisions did, beside what would have been: counterfactuals with their error, deadlines."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import hypot
from typing import NamedTuple

from sacct_ingest.records import DecisionRow, JobState
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import RunRow
from slurm_plugin.evaluation.comparison import predicted_for
from slurm_plugin.protocol.wait_accuracy import AT_ONCE_S

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Jobs that came with a deadline."""

    met: int = 0
    missed: int = 0
    refused: int = 0  #: at submission, because no node count could make it
    open: int = 0  #: not finished, or not found in the accounting yet
    warned: int = 0  #: of all these, those whose deadline was said to be missed at submission


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectEstimate:
    """What is predicted for what did not happen; ``low`` and ``high``: by the intervals.

    Within an application all predictions are taken to be off the same way, between applications
    independently of each other.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What happened, beside what is predicted for the other node count.

    For decisions that were applied the other count is the one asked for; for decisions that were
    only observed it is the one that would have been chosen.
    """

    jobs: int
    more_nodes: int  #: jobs whose chosen count is above the one asked for
    node_hours: float
    other_node_hours: EffectEstimate
    run_hours: float
    other_run_hours: EffectEstimate
    wait_jobs: int  #: of them, those with an estimate of the other wait
    wait_hours: float
    other_wait_hours: float
    unit: Unit = Unit.NODES  #: of the counts and of ``node_hours``


def is_changed(decision: DecisionRow) -> bool:
    """Whether NIMO changed the job's node count."""
    return decision.applied and _chooses(decision)


def is_finished(run: RunRow | None) -> bool:
    """Whether the run is there and has come to an end."""
    return run is not None and run.state.final


class _Other(NamedTuple):
    """The count that a job did not have, and what was predicted for it."""

    nodes: int
    time_s: float
    low_s: float
    high_s: float
    wait_s: float | None


@dataclass(slots=True)
class EffectTally:
    """Adds up jobs and their other counts, in one unit."""

    unit: Unit = Unit.NODES
    jobs: int = 0
    more_nodes: int = 0
    _node_s: float = 0.0
    _run_s: float = 0.0
    _wait_jobs: int = 0
    _wait_s: float = 0.0
    _other_wait_s: float = 0.0
    _others: defaultdict[str, list[float]] = field(
        default_factory=lambda: defaultdict(lambda: [0.0] * 6)
    )

    def add(self, application: str, decision: DecisionRow, run: RunRow) -> None:
        """Take a decision for another count than was asked for, and its run."""
        other = _other(decision)
        if other is None or run.state is not JobState.COMPLETED or decision.unit != self.unit:
            return
        self.jobs += 1
        self.more_nodes += (decision.nodes or 0) > (decision.requested_nodes or 0)
        self._node_s += run.nodes * run.elapsed_s
        self._run_s += run.elapsed_s
        sums = self._others[application]
        for i, time_s in enumerate(other[1:4]):
            sums[i] += time_s or 0.0
            sums[i + 3] += other.nodes * (time_s or 0.0)
        waited_s = _waited_s(run)
        if other.wait_s is not None and waited_s is not None:
            self._wait_jobs += 1
            self._wait_s += waited_s
            self._other_wait_s += other.wait_s

    def result(self) -> Effect | None:
        """Sum up; None where there is no such job."""
        if not self.jobs:
            return None
        return Effect(
            jobs=self.jobs,
            more_nodes=self.more_nodes,
            node_hours=self._node_s / _HOUR_S,
            other_node_hours=self._estimate(3),
            run_hours=self._run_s / _HOUR_S,
            other_run_hours=self._estimate(0),
            wait_jobs=self._wait_jobs,
            wait_hours=self._wait_s / _HOUR_S,
            other_wait_hours=self._other_wait_s / _HOUR_S,
            unit=self.unit,
        )

    def _estimate(self, first: int) -> EffectEstimate:
        """Errors of one application add up; those of several are independent."""
        rows = [sums[first : first + 3] for sums in self._others.values()]
        value = sum(row[0] for row in rows)
        below = hypot(*(row[0] - row[1] for row in rows))
        above = hypot(*(row[2] - row[0] for row in rows))
        low, high = max(value - below, 0.0), value + above
        return EffectEstimate(value=value / _HOUR_S, low=low / _HOUR_S, high=high / _HOUR_S)


class EffectTallies:
    """Adds up jobs and their other counts, those of each unit on their own."""

    def __init__(self) -> None:
        self._tallies = {unit: EffectTally(unit) for unit in Unit}

    def add(self, application: str, decision: DecisionRow, run: RunRow) -> None:
        """Take a decision for another count than was asked for, and its run."""
        self._tallies[Unit(decision.unit)].add(application, decision, run)

    def result(self) -> tuple[Effect, ...]:
        """Sum up; units without such jobs are left out."""
        results = (tally.result() for tally in self._tallies.values())
        return tuple(one for one in results if one is not None)


@dataclass(slots=True)
class DeadlineTally:
    """Adds up jobs with a deadline."""

    _counts: Counter[str] = field(default_factory=Counter)

    def add(self, decision: DecisionRow, run: RunRow | None) -> None:
        """Take a decision about a job with a deadline."""
        self._counts[_deadline(decision, run)] += 1
        self._counts["warned"] += decision.reason == "deadline_missed"

    def result(self) -> Deadlines:
        """Sum up."""
        return Deadlines(**self._counts)


def waits_of(decision: DecisionRow, run: RunRow) -> tuple[float, float] | None:
    """Predicted and actual wait for the count that the job had, seconds.

    None where one of them is missing, and for jobs that waited for more than nodes.
    """
    said_s, was_s = _wait_for(decision, run.nodes), _waited_s(run)
    return None if said_s is None or was_s is None else (said_s, was_s)


def applied_to(decision: DecisionRow, run: RunRow) -> bool:
    """Whether the run had the count that was chosen for it instead of another."""
    return is_changed(decision) and run.nodes == decision.nodes


def observed_of(decision: DecisionRow, run: RunRow) -> bool:
    """Whether the run was left alone where another count than it had would have been chosen."""
    return _chooses(decision) and not decision.applied and run.nodes != decision.nodes


def _chooses(decision: DecisionRow) -> bool:
    return decision.action == "set" and decision.nodes != decision.requested_nodes


def _other(decision: DecisionRow) -> _Other | None:
    nodes = decision.requested_nodes if decision.applied else decision.nodes
    predicted = predicted_for(decision, nodes)
    if predicted is None or nodes is None:
        return None
    time_s, low_s, high_s = predicted
    wait_s = _wait_for(decision, nodes)
    return _Other(nodes, time_s, low_s or time_s, high_s or time_s, wait_s)


def _wait_for(decision: DecisionRow, nodes: int) -> float | None:
    if nodes == decision.nodes:
        return decision.wait_s
    return decision.request_wait_s if nodes == decision.requested_nodes else None


def _waited_s(run: RunRow) -> float | None:
    """Wait for nodes alone; None for a job that became eligible late, or did not start."""
    late = (run.eligible_s or 0) - run.submit_s > AT_ONCE_S
    return None if run.start_s is None or late else float(run.start_s - run.submit_s)


def _deadline(decision: DecisionRow, run: RunRow | None) -> str:
    if decision.action == "refuse" and decision.applied:
        return "refused"
    if run is None or run.end_s is None or decision.deadline_s is None or not is_finished(run):
        return "open"
    made = run.state is JobState.COMPLETED and run.end_s <= decision.deadline_s
    return "met" if made else "missed"
