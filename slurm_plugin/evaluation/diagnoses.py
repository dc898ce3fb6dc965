"""Diagnoses from the curves: problems with their fixes, and nodes used beyond the knee."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from predictor.application.count_changes import ratios
from predictor.application.request import for_request
from predictor.prediction_table import PredictionTable
from predictor.problems import Problem
from predictor.table import at, covers, verdict_at
from predictor.types import Verdict
from sacct_ingest.records import DecisionRow, JobState
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import RunRow

_HOUR_S = 3600.0
#: A report names no user for fewer runs, or a smaller share, than this.
_RUNS, _SHARE = 3, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDiagnosis:
    """One reason not to trust an application's predictions, and the run that would improve them."""

    application: str
    verdict: str
    runs: int  #: finished ones that the curve is made of
    decisions: int  #: in this report
    problem: str  #: stable name
    text: str
    observe: int | None  #: size where one more run would help most
    unit: Unit = Unit.NODES  #: what ``observe`` counts


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSummary:
    """What became of the last predictions about an application, which its verdict is earned by."""

    application: str
    verdict: str
    repeated: bool  #: for node counts that had been run before
    predictions: int
    median_error: float  #: of the predicted time, as a share of the actual one
    inside: int  #: how many ended inside their interval
    decisions: int  #: in this report
    unit: Unit = Unit.NODES  #: of the counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """Node-hours of one user's application on more nodes than its knee (ADEPT, section III.B).

    What counts is what the same runs would have needed fewer at the knee, by the curve.
    """

    user: str
    application: str
    runs: int
    nodes: tuple[int, int]  #: fewest and most of these runs
    knee: int
    node_hours: float
    wasted_node_hours: float
    efficiency: float  #: node-hours at the knee over those that were used
    slower: float  #: how many times as long the runs would take at the knee
    unit: Unit = Unit.NODES  #: of all counts and hours


class JobUsage:
    """Completed runs on counts that their users chose, by identity, user and count.

    Jobs with a deadline are left out: they have a reason to be wide.  So are jobs whose count NIMO
    set: their users did not choose it.
    """

    def __init__(self) -> None:
        self._used: defaultdict[tuple[str, str, str, str], dict[int, tuple[int, float]]]
        self._used = defaultdict(dict)
        self._names: dict[tuple[str, str], str] = {}

    def add(self, application: str, decision: DecisionRow, run: RunRow) -> None:
        """Take a decision and its run."""
        if not decision.key or decision.deadline_s or run.state is not JobState.COMPLETED:
            return
        if decision.applied and run.nodes == decision.nodes != decision.requested_nodes:
            return
        used = self._used[decision.key_level, decision.key, decision.user, decision.unit]
        runs, elapsed_s = used.get(run.nodes, (0, 0.0))
        used[run.nodes] = runs + 1, elapsed_s + run.elapsed_s
        self._names[decision.key_level, decision.key] = application

    def waste(
        self, tables: Mapping[tuple[str, str], PredictionTable], *, least_node_hours: float
    ) -> tuple[Waste, ...]:
        """List the users of many nodes beyond the knee, most node-hours first.

        tables: by level and key.
        least_node_hours: smaller amounts are left out, and so are fewer than three runs or less
            than a fifth.
        """
        candidates = [
            made
            for (level, key, user, unit), used in self._used.items()
            if (table := tables.get((level, key))) is not None
            and table.unit == unit
            and (made := _waste(self._names[level, key], user, used, table)) is not None
        ]
        worth = (
            one
            for one in candidates
            if one.wasted_node_hours >= max(least_node_hours, _SHARE * one.node_hours)
            and one.runs >= _RUNS
        )
        return tuple(sorted(worth, key=lambda one: (-one.wasted_node_hours, one.user)))


def with_best_run(of_table: Iterable[Problem]) -> Iterator[Problem]:
    """Give the problems of one table: the first run that is named is the one that helps most."""
    named = False
    for one in of_table:
        yield replace(one, observe=None) if named else one
        named = named or one.observe is not None


def problems(
    tables: Iterable[PredictionTable], decisions: Counter[tuple[str, str]]
) -> tuple[JobDiagnosis, ...]:
    """List the problems of applications that jobs asked for, those of most decisions first.

    Those of one table stay in its order.
    """
    rows = [
        JobDiagnosis(
            application=table.label,
            verdict=table.verdict.value,
            runs=table.runs,
            decisions=decisions[table.level, table.key],
            problem=problem.name,
            text=problem.text,
            observe=problem.observe,
            unit=table.unit,
        )
        for table in tables
        for problem in with_best_run(table.problems)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.decisions, row.application)))


def records_of(
    tables: Iterable[PredictionTable], decisions: Counter[tuple[str, str]]
) -> tuple[RecordSummary, ...]:
    """List the records of applications that jobs asked for, those of most decisions first."""
    rows = [
        RecordSummary(
            application=table.label,
            verdict=table.verdict.value,
            repeated=one.repeated,
            predictions=one.predictions,
            median_error=one.median_error,
            inside=one.inside,
            decisions=decisions[table.level, table.key],
            unit=table.unit,
        )
        for table in tables
        for one in table.record
    ]
    return tuple(sorted(rows, key=lambda row: (-row.decisions, row.application, not row.repeated)))


def _waste(
    application: str, user: str, used: Mapping[int, tuple[int, float]], table: PredictionTable
) -> Waste | None:
    # Jobs on each count are problems of their own: what fewer nodes would do is said of each.
    jobs = {n: for_request(table, n) for n in used}
    knee = min((one.knee for one in jobs.values() if one.knee), default=None)
    if knee is None:
        return None
    beyond = sorted(n for n, one in jobs.items() if n > knee and _sure(one, (knee, n)))
    if not beyond:
        return None
    runs = sum(used[n][0] for n in beyond)
    node_s = sum(n * used[n][1] for n in beyond)
    # The curve gives the ratio of the times on two counts; the runs give the times themselves.
    longer = {n: at(jobs[n], knee).time_s / at(jobs[n], n).time_s for n in beyond}
    knee_s = sum(used[n][1] * longer[n] for n in beyond)
    return Waste(
        user=user,
        application=application,
        runs=runs,
        nodes=(beyond[0], beyond[-1]),
        knee=knee,
        node_hours=node_s / _HOUR_S,
        wasted_node_hours=max(node_s - knee * knee_s, 0.0) / _HOUR_S,
        efficiency=min(knee * knee_s / node_s, 1.0) if node_s else 1.0,
        slower=knee_s / sum(used[n][1] for n in beyond),
        unit=table.unit,
    )


def share_at_knee(table: PredictionTable, size: int) -> tuple[float, float, float] | None:
    """Node-hours that a job would take at its knee, over those on its count; and nine in ten.

    None: it is not beyond its knee, or nothing reliable says so.

    size: its count, in the table's unit.
    """
    job = for_request(table, size)
    if not job.knee or size <= job.knee or not _sure(job, (job.knee, size)):
        return None
    part = job.knee / size
    share = part * at(job, job.knee).time_s / at(job, size).time_s
    drawn = sorted(part * one for one in ratios(job, (job.knee,))[0])
    low, high = (drawn[round(end * (len(drawn) - 1))] for end in (0.05, 0.95))
    return (share, min(low, share), min(max(high, share), 1.0)) if share < 1 else None


def _sure(table: PredictionTable, counts: Sequence[int]) -> bool:
    return all(covers(table, n) and verdict_at(table, n) is Verdict.RELIABLE for n in counts)
