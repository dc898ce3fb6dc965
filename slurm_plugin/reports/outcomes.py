"""Decisions beside what became of their jobs: pure functions on rows of the store.

A decision predicts the run time on the count it chose and, where it would have changed the job,
on the count asked for.  A finished run is compared with the prediction for the node count that
it really had; only completed runs count, since a run that was stopped says how long it was let
run, not how long it takes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from sacct_ingest.records import DecisionRow, JobState, StandingRow
from sacct_ingest.store import RunRow
from slurm_plugin.waits import AT_ONCE_S, Waits, judge

Pair = tuple[DecisionRow, RunRow | None]

#: States that a run does not leave again; a job in another one has no outcome yet.
_UNFINISHED = {
    JobState.PENDING,
    JobState.RUNNING,
    JobState.SUSPENDED,
    JobState.REQUEUED,
    JobState.RESIZING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How near predictions came to what happened."""

    runs: int
    mape: float  #: mean of |actual - predicted| / actual, a fraction
    bias: float  #: median of actual / predicted; above 1: runs take longer than predicted
    intervals: int  #: runs that had an interval for their node count
    inside: float | None  #: share of those inside their interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Jobs that came with a deadline."""

    met: int = 0
    missed: int = 0
    refused: int = 0  #: at submission, because no node count could make it
    open: int = 0  #: not finished, or not found in the accounting yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What happened, beside what is predicted for the other node count.

    For decisions that were applied the other count is the one asked for; for decisions that were
    only observed it is the one that would have been chosen.
    """

    jobs: int
    node_hours: float
    other_node_hours: float
    run_hours: float
    other_run_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationOutcome:
    """All decisions about one application."""

    application: str
    decisions: int
    changed: int  #: decisions that were applied to the job
    finished: int
    accuracy: Accuracy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReport:
    """What was decided, what came of it, and how far the predictions can be trusted."""

    first_s: float | None  #: time of the first decision, seconds since the epoch
    last_s: float | None
    decisions: int
    finished: int
    modes: dict[str, int]
    actions: dict[str, int]
    unchanged: dict[str, int]  #: why jobs passed unchanged: reason, or mode -> jobs
    confidence: float  #: nominal share of runs inside their interval
    accuracy: Accuracy | None
    by_verdict: dict[str, Accuracy]
    deadlines: Deadlines
    waits: Waits
    applied: Effect | None
    observed: Effect | None
    applications: tuple[ApplicationOutcome, ...]  #: most decisions first
    switched_off: tuple[StandingRow, ...] = ()  #: of these, for what their predictions missed


def select(
    pairs: Iterable[Pair], *, user: str = "", partition: str = "", application: str = ""
) -> Iterator[Pair]:
    """Keep the decisions about jobs of this user, partition and application (empty: all)."""
    for decision, run in pairs:
        if user and decision.user != user:
            continue
        if partition and decision.partition != partition:
            continue
        name = application_of(decision)
        if application and application not in (name, name.rpartition("/")[2]):
            continue
        yield decision, run


def summarise(
    pairs: Iterable[Pair], *, confidence: float, standings: Iterable[StandingRow] = ()
) -> OutcomeReport:
    """Sum up decisions and their outcomes.

    Parameters
    ----------
    pairs
        Decisions, each with its run or ``None``.
    confidence
        Nominal level of the intervals, for the reader to compare with.
    standings
        How the applications were judged.
    """
    known = list(pairs)
    decisions = [decision for decision, _ in known]
    times = [decision.at_s for decision in decisions]
    return OutcomeReport(
        first_s=min(times, default=None),
        last_s=max(times, default=None),
        decisions=len(decisions),
        finished=sum(is_finished(run) for _, run in known),
        modes=_counts(d.mode for d in decisions),
        actions=_counts(d.action for d in decisions),
        unchanged=_counts(why_unchanged(d) for d in decisions if not d.applied),
        confidence=confidence,
        accuracy=accuracy(known),
        by_verdict=_by_verdict(known),
        deadlines=deadlines(known),
        waits=judge(waits(known)),
        applied=applied_effect(known),
        observed=observed_effect(known),
        applications=by_application(known),
        switched_off=_switched_off(known, standings),
    )


def application_of(decision: DecisionRow) -> str:
    """Name the decision's application: its label, or user and job name where it has none."""
    return decision.label or f"{decision.user}/{decision.name}"


def why_unchanged(decision: DecisionRow) -> str:
    """Name why a job passed unchanged: the reason to keep it, or the mode that forbade a change."""
    return decision.reason if decision.action == "keep" else decision.mode


def is_changed(decision: DecisionRow) -> bool:
    """Whether the job was given the count that was chosen."""
    return decision.applied and decision.action == "set"


def is_finished(run: RunRow | None) -> bool:
    """Whether the run is there and has come to an end."""
    return run is not None and run.state not in _UNFINISHED


def accuracy(pairs: Iterable[Pair]) -> Accuracy | None:
    """Compare predictions with completed runs; ``None`` where no run can be compared."""
    ratios: list[float] = []
    inside: list[bool] = []
    for decision, run in pairs:
        predicted_s = predicted_at(decision, run)
        if run is None or predicted_s is None:
            continue
        ratios.append(run.elapsed_s / predicted_s)
        if run.nodes == decision.nodes and decision.low_s and decision.high_s:
            inside.append(decision.low_s <= run.elapsed_s <= decision.high_s)
    if not ratios:
        return None
    return Accuracy(
        runs=len(ratios),
        mape=fmean(abs(1 - 1 / ratio) for ratio in ratios),
        bias=median(ratios),
        intervals=len(inside),
        inside=fmean(inside) if inside else None,
    )


def predicted_at(decision: DecisionRow, run: RunRow | None) -> float | None:
    """Predicted run time in seconds for the node count that a completed run had, if any was."""
    if run is None or run.state is not JobState.COMPLETED or run.elapsed_s <= 0:
        return None
    if run.nodes == decision.nodes:
        return decision.predicted_s or None
    if run.nodes == decision.requested_nodes:
        return decision.request_predicted_s or None
    return None


def deadlines(pairs: Iterable[Pair]) -> Deadlines:
    """Count the jobs with a deadline by what became of them."""
    counts = Counter(_deadline(decision, run) for decision, run in pairs if decision.deadline_s)
    return Deadlines(**counts)


def waits(pairs: Iterable[Pair]) -> Iterator[tuple[float, float]]:
    """Predicted and actual waits in seconds of the jobs that waited for nodes only."""
    for decision, run in pairs:
        if run is None or decision.wait_s is None or run.start_s is None:
            continue
        if run.nodes == decision.nodes and (run.eligible_s or 0) - run.submit_s <= AT_ONCE_S:
            yield decision.wait_s, float(run.start_s - run.submit_s)


def applied_effect(pairs: Iterable[Pair]) -> Effect | None:
    """Completed jobs whose count was changed, beside the count asked for as predicted."""
    rows = [
        (run, decision.requested_nodes, decision.request_predicted_s)
        for decision, run in pairs
        if is_changed(decision) and run is not None and run.nodes == decision.nodes
    ]
    return _effect(rows)


def observed_effect(pairs: Iterable[Pair]) -> Effect | None:
    """Completed jobs that were left alone, beside the count that would have been chosen."""
    rows = [
        (run, decision.nodes, decision.predicted_s)
        for decision, run in pairs
        if decision.action == "set" and not decision.applied and run is not None
    ]
    return _effect(rows)


def by_application(pairs: Iterable[Pair]) -> tuple[ApplicationOutcome, ...]:
    """One row for each application, most decisions first."""
    groups: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[application_of(pair[0])].append(pair)
    rows = (_application(name, group) for name, group in groups.items())
    return tuple(sorted(rows, key=lambda row: (-row.decisions, row.application)))


def _application(name: str, pairs: Sequence[Pair]) -> ApplicationOutcome:
    return ApplicationOutcome(
        application=name,
        decisions=len(pairs),
        changed=sum(is_changed(decision) for decision, _ in pairs),
        finished=sum(is_finished(run) for _, run in pairs),
        accuracy=accuracy(pairs),
    )


def _switched_off(
    pairs: Sequence[Pair], standings: Iterable[StandingRow]
) -> tuple[StandingRow, ...]:
    asked = {(decision.key_level, decision.key) for decision, _ in pairs}
    return tuple(row for row in standings if row.off and (row.level.value, row.key) in asked)


def _by_verdict(pairs: Sequence[Pair]) -> dict[str, Accuracy]:
    found = {
        verdict: accuracy(pair for pair in pairs if pair[0].verdict == verdict)
        for verdict in sorted({decision.verdict for decision, _ in pairs if decision.verdict})
    }
    return {verdict: value for verdict, value in found.items() if value is not None}


def _deadline(decision: DecisionRow, run: RunRow | None) -> str:
    if decision.action == "refuse" and decision.applied:
        return "refused"
    if run is None or run.end_s is None or decision.deadline_s is None or not is_finished(run):
        return "open"
    made = run.state is JobState.COMPLETED and run.end_s <= decision.deadline_s
    return "met" if made else "missed"


def _effect(rows: Iterable[tuple[RunRow, int | None, float | None]]) -> Effect | None:
    done = [
        (run, nodes, seconds)
        for run, nodes, seconds in rows
        if run.state is JobState.COMPLETED and nodes and seconds
    ]
    if not done:
        return None
    return Effect(
        jobs=len(done),
        node_hours=sum(run.nodes * run.elapsed_s for run, _, _ in done) / 3600,
        other_node_hours=sum(nodes * seconds for _, nodes, seconds in done) / 3600,
        run_hours=sum(run.elapsed_s for run, _, _ in done) / 3600,
        other_run_hours=sum(seconds for _, _, seconds in done) / 3600,
    )


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(str(value) for value in values).most_common())
