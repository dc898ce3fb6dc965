"""The runs of one identity to its prediction table: pure, one call for each identity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import ceil, exp, inf, isfinite
from typing import TYPE_CHECKING

from predictor import by_type, choose, drift, reliability, walk
from predictor.curve import CurveSettings, build
from predictor.earned import REPEATS, earn, mixed, told_as
from predictor.endings import ending_problem, endings_of, work_dirs_of
from predictor.node_types import NodeType
from predictor.record import Record, Site
from predictor.table import worse
from predictor.types import (
    HISTORY,
    UNBOUNDED,
    AtLimit,
    Curve,
    Longest,
    Memory,
    Point,
    Prediction,
    PredictionTable,
    Problem,
    Run,
    Tail,
    Verdict,
)
from sacct_ingest.records import CURVE_LEVELS, JobState, KeyLevel

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow


@dataclass(frozen=True, slots=True)
class TableSettings:
    """How tables are made; ``reach`` is how far beyond the largest observed count they go.

    ``tails`` are the shares of runs whose quantiles a curve's table holds, rising.  ``node_types``
    are those that the site's profiles tell of.  The last ``limits`` time limits that were asked for
    are told apart in histories, of which ``recent`` runs are looked at.  ``site`` is the record of
    all applications.
    """

    confidence: float = 0.9
    tails: tuple[float, ...] = (0.9, 0.99)
    every_up_to: int = 64
    per_doubling: int = 8
    reach: int = 4
    curve: CurveSettings = field(default_factory=CurveSettings)
    reliability: reliability.ReliabilitySettings = field(
        default_factory=reliability.ReliabilitySettings
    )
    limits: int = 8
    recent: int = 1000
    walk: walk.WalkSettings = field(default_factory=walk.WalkSettings)
    site: Site = field(default_factory=Site)
    node_types: Mapping[str, NodeType] = field(default_factory=dict)


def telling(rows: Iterable[RunRow]) -> list[RunRow]:
    """Select the runs that tell a run time: finished, or cut short; failed ones do not."""
    return [row for row in rows if row.state.says_run_time and row.nodes > 0 and row.elapsed_s > 0]


def runs_of(rows: Iterable[RunRow]) -> list[Run]:
    """Give what a curve needs of the runs that tell a run time."""
    return [
        Run(
            nodes=row.nodes,
            elapsed_s=float(row.elapsed_s),
            end_s=float(row.end_s or 0),
            censored=row.state.cut_short,
            limit_s=float(row.limit_s or 0),
            submit_s=float(row.submit_s),
        )
        for row in telling(rows)
    ]


def tabulate(
    level: KeyLevel,
    key: str,
    rows: Sequence[RunRow],
    *,
    now_s: float,
    settings: TableSettings,
    sums: by_type.SumsByType | None = None,
    record: Record | None = None,
) -> PredictionTable | None:
    """Table of one identity, or None where nothing can be said.

    Parameters
    ----------
    sums
        aprof's sums over the identity's runs, by node type.
    record
        What became of earlier predictions; None: it is made of ``rows``.
    """
    curve = level in CURVE_LEVELS
    groups = by_type.split(rows, settings.node_types) if curve else {"": rows}
    # A table of one node type counts the runs on that type.
    first = next(iter(groups.values()))
    earned = record_of(level, rows, settings) if record is None else record
    table = (
        _of_types(groups, sums or {}, settings, earned) if len(settings.node_types) > 1 else None
    )
    counted = rows if table is None else first
    finished = sum(not run.censored for run in runs_of(counted))
    drawn = build(runs_of(rows), settings.curve) if curve and table is None else Curve(())
    if table is None and len(drawn.points) >= choose.MIN_POINTS:
        table = _of_curve(drawn, runs_of(rows), settings, earned)
    elif table is None and finished >= (1 if curve else 2):
        table = _of_history(runs_of(rows), level, settings, earned)
    if table is None:
        return None
    table = _recorded(table, earned, rows, same=curve)
    return _described(table, level, key, rows, runs=finished, now_s=now_s)


def _recorded(
    table: PredictionTable, record: Record, rows: Sequence[RunRow], *, same: bool
) -> PredictionTable:
    """Table with what became of its predictions."""
    several = mixed(record, rows[-1].name) if same else ()
    held = walk.recorded(record)
    return replace(table, record=held, problems=(*several, *table.problems))


def record_of(
    level: KeyLevel, rows: Sequence[RunRow], settings: TableSettings, old: Record | None = None
) -> Record:
    """Record of an identity with the runs that ended since it was made.

    Of several node types that of the one with most runs.
    """
    same = level in CURVE_LEVELS
    if same:
        rows = next(iter(by_type.split(rows, settings.node_types).values()))
    return walk.replay(runs_of(rows), old or Record(), settings.site, settings.walk, same=same)


def mixture(
    level: KeyLevel,
    key: str,
    rows: Sequence[RunRow],
    *,
    now_s: float,
    settings: TableSettings,
    record: Record | None = None,
) -> PredictionTable | None:
    """Table of runs that are not one curve: a history."""
    runs = runs_of(rows)
    finished = sum(not run.censored for run in runs)
    if finished < 2:
        return None
    earned = record_of(level, rows, settings) if record is None else record
    table = _recorded(_of_history(runs, level, settings, earned), earned, rows, same=True)
    return _described(table, level, key, rows, runs=finished, now_s=now_s)


def unfinished(
    level: KeyLevel, key: str, rows: Sequence[RunRow], *, now_s: float
) -> PredictionTable | None:
    """Table without a node count, of a command whose runs all failed or were cut short."""
    endings = endings_of(rows)
    if level not in CURVE_LEVELS or not endings or ending_problem(endings) is None:
        return None
    empty = replace(_filled([], (Verdict.REFUSED,), 0.0), verdicts=(), model="history")
    return _described(empty, level, key, rows, runs=0, now_s=now_s)


def _described(
    table: PredictionTable,
    level: KeyLevel,
    key: str,
    rows: Sequence[RunRow],
    *,
    runs: int,
    now_s: float,
) -> PredictionTable:
    memory, endings = memory_of(rows), endings_of(rows)
    unfinished = ending_problem(endings) if level in CURVE_LEVELS else None
    return replace(
        table,
        problems=(*table.problems, *([unfinished] if unfinished else [])),
        endings=endings,
        work_dirs=work_dirs_of(rows),
        last_s=max(((row.end_s or 0) - row.elapsed_s for row in telling(rows)), default=0.0),
        level=level.value,
        key=key,
        label=label_of(level, key, rows),
        runs=runs,
        mem_node_bytes=max((m.mem_bytes for m in memory if m.mem_bytes < UNBOUNDED), default=None),
        memory=memory,
        fitted_s=now_s,
        owner=owner_of(rows),
        longest=longest_of(rows),
    )


def grid(observed: Sequence[int], settings: TableSettings) -> list[int]:
    """Node counts of a table: each one at first, then in equal ratios, and all observed."""
    end = settings.reach * max(observed)
    counts = set(range(1, min(settings.every_up_to, end) + 1)) | set(observed) | {end}
    ratio, nodes = 2 ** (1 / settings.per_doubling), float(settings.every_up_to)
    while (nodes := nodes * ratio) < end:
        counts.add(round(nodes))
    return sorted(counts)


def knee_of(nodes: Sequence[int], times: Sequence[float]) -> int | None:
    """Processor working set: the node count with the highest S²/n (ADEPT, section III.B).

    None where it rises to the end.
    """
    found = min(zip(nodes, times, strict=True), key=lambda pair: pair[0] * pair[1] ** 2)[0]
    return found if found < nodes[-1] else None


def max_useful_of(nodes: Sequence[int], times: Sequence[float]) -> int | None:
    """Fewest nodes within one percent of the shortest time; None where time falls to the end."""
    enough = min(times) * 1.01
    found = next(n for n, t in zip(nodes, times, strict=True) if t <= enough)
    return found if found < nodes[-1] else None


def label_of(level: KeyLevel, key: str, rows: Sequence[RunRow]) -> str:
    """Name the application as people know it."""
    if level not in (KeyLevel.SCRIPT, KeyLevel.LINE):
        return key
    name, _ = Counter(row.name for row in rows).most_common(1)[0]
    users = {row.user for row in rows}
    return f"{users.pop()}/{name}" if len(users) == 1 else name


def memory_of(rows: Iterable[RunRow]) -> tuple[Memory, ...]:
    """Highest memory of a node on each count: the largest task times tasks on a node.

    A run that ended for lack of memory tells no need: that is above all that was measured there.
    """
    needs: dict[int, int] = {}
    short: dict[int, int] = {}
    for row in rows:
        if row.nodes > 0 and (row.mem_bytes or row.state is JobState.OUT_OF_MEMORY):
            need = (row.mem_bytes or 0) * ceil((row.tasks or row.nodes) / row.nodes)
            told = short if row.state is JobState.OUT_OF_MEMORY else needs
            told[row.nodes] = max(need, told.get(row.nodes, 0))
    needs |= {n: UNBOUNDED for n, least in short.items() if least >= needs.get(n, 0)}
    return tuple(Memory(nodes, need) for nodes, need in sorted(needs.items()))


def owner_of(rows: Iterable[RunRow]) -> str:
    """User whose runs these all are; empty where there are several."""
    users = {row.user for row in rows}
    return users.pop() if len(users) == 1 else ""


def longest_of(rows: Iterable[RunRow]) -> tuple[Longest, ...]:
    """Longest run on each count, of those that tell a run time."""
    times: dict[int, float] = {}
    for row in telling(rows):
        times[row.nodes] = max(float(row.elapsed_s), times.get(row.nodes, 0.0))
    return tuple(Longest(nodes, time_s) for nodes, time_s in sorted(times.items()))


def _of_types(
    groups: Mapping[str, Sequence[RunRow]],
    sums: by_type.SumsByType,
    settings: TableSettings,
    record: Record,
) -> PredictionTable | None:
    """Table of the reference type with those of the others; None where it has no curve."""
    (reference, rows), *others = groups.items()
    if not reference:
        return None
    known = by_type.gather_evidence(reference, rows, settings.node_types, sums)
    drawn = build(runs_of(rows), settings.curve)
    if len(drawn.points) < choose.MIN_POINTS:
        # Too few there: runs on the other types stand in, as if they had been on it.
        moved = [by_type.as_on(known, name, runs_of(theirs)) for name, theirs in others]
        runs = [*runs_of(rows), *chain.from_iterable(moved)]
        drawn = build(runs, settings.curve)
        if len(drawn.points) < choose.MIN_POINTS:
            return None
        base = by_type.doubted(_of_curve(drawn, runs, settings, record), reference)
    else:
        base = _of_curve(drawn, runs_of(rows), settings, record)
    own = {name: _own(theirs, settings) for name, theirs in others}
    told = by_type.predict_types(base, own, known, settings.reliability)
    seen = [*base.observed, *chain.from_iterable(one.curve.points for one in own.values())]
    widest = max(point.nodes for point in seen)
    return replace(base, node_type=reference, by_type=told, widest=widest)


def _own(rows: Sequence[RunRow], settings: TableSettings) -> by_type.OwnCurve:
    """Observations on one node type, with the table that they make where they are many."""
    runs = runs_of(rows)
    curve = build(runs, settings.curve)
    many = len(curve.points) >= by_type.OWN_POINTS
    table = _of_curve(curve, runs, settings, Record()) if many else None
    return by_type.OwnCurve(curve, table, sum(not run.censored for run in runs))


def _of_curve(
    drawn: Curve, runs: Sequence[Run], settings: TableSettings, record: Record
) -> PredictionTable:
    choice = choose.choose(drawn, settings.walk.model)
    nodes = grid([p.nodes for p in drawn.points], settings)
    fitted = choice.predict(nodes, settings.confidence)
    judged = choice.judge(fitted, settings.reliability)
    verdicts = judged.verdicts
    if drawn.drift and drawn.drift.stale:
        verdicts = tuple(worse(verdict, Verdict.DOUBTFUL) for verdict in verdicts)
    columns = earn(choice, fitted, verdicts, runs, record, settings)
    drifted = (drift.problem(drawn.drift),) if drawn.drift else ()
    times = [p.time_s for p in columns.predictions]
    return replace(
        _filled(columns.predictions, columns.verdicts, settings.confidence),
        model=choice.model,
        problems=(*drifted, *columns.problems, *judged.problems),
        observed=drawn.points,
        tails=_tails(choice, columns.predictions, settings.tails),
        knee=knee_of(nodes, times),
        max_useful=max_useful_of(nodes, times),
    )


def _tails(
    choice: choose.Choice, predictions: Sequence[Prediction], shares: Sequence[float]
) -> tuple[Tail, ...]:
    """High quantiles: those of the fit, or what repeated runs surprised by where that is more.

    Only repeats can tell that an identity stands for one problem, and a limit stops those that are
    another one: there is no quantile with fewer than its share of them needs.
    """
    ordered = sorted(set(shares))
    rows = choice.quantiles([p.nodes for p in predictions], ordered)
    surprises = choice.curve.surprises
    return tuple(
        Tail(
            share,
            tuple(
                _short(max(t, factor * p.time_s, p.high_s * (share > 0.5 + p.level / 2)))
                for t, p in zip(row, predictions, strict=True)
            ),
        )
        for share, row in zip(ordered, rows.tolist(), strict=True)
        if isfinite(factor := surprise_factor(surprises, share, least=ordered[0]))
    )


def surprise_factor(surprises: Sequence[float], share: float, *, least: float) -> float:
    """Factor on a median that ``share`` of new runs stay below, by how earlier ones surprised.

    Split conformal prediction (Vovk et al., *Algorithmic Learning in a Random World*, 2005, section
    4.1); where there are too few for so high a share, the largest one seen.  Infinite where there
    are too few for ``least``, too.

    >>> surprise_factor([0.0] * 8, 0.9, least=0.9), surprise_factor([0.0] * 9, 0.99, least=0.9)
    (inf, 1.0)
    """
    known = len(surprises)
    # The largest of so many is exceeded by one in (known + 1) new ones.
    if known + 1 < 1 / (1 - least) - 1e-9:
        return inf
    return exp(sorted(surprises)[min(ceil((known + 1) * share), known) - 1])


def _of_history(
    runs: Sequence[Run], level: KeyLevel, settings: TableSettings, record: Record
) -> PredictionTable:
    same = level in CURVE_LEVELS
    recent = walk.in_order(runs)[-settings.recent :]
    now = walk.Now(
        recent, record, settings.site, settings.walk, same=same, level=settings.confidence
    )
    counts = Counter(run.nodes for run in recent if not run.censored)
    seen = sorted(counts)
    nodes = _around(seen, settings) if same else seen
    judged = [now.judge(n) for n in nodes]
    problem = _no_curve(seen) if same else _not_one_problem(level)
    rows = list(zip(judged, nodes, strict=True))
    return replace(
        _filled(
            [told_as(one, n, settings.confidence) for one, n in rows],
            tuple(_of_count(now, one, counts[n], same=same) for one, n in rows),
            settings.confidence,
        ),
        model=HISTORY,
        problems=(problem,),
        observed=tuple(Point(n, _short(exp(one.log_s)), counts[n]) for one, n in rows if counts[n]),
        at_limits=tuple(
            _at_limit(limit_s, [now.judge(n, limit_s) for n in nodes])
            for limit_s in _limits(recent, settings)
        ),
    )


def _around(seen: Sequence[int], settings: TableSettings) -> list[int]:
    """Node counts of one application without a curve: those that were run, and doublings around."""
    counts, low, high = set(seen), seen[0] / settings.reach, seen[-1] * settings.reach
    counts |= {round(n * 2.0**k) for n in seen for k in range(-4, 5)}
    return sorted(n for n in counts if n >= 1 and low <= n <= high)


def _of_count(now: walk.Now, judged: walk.Judged, repeats: int, *, same: bool) -> Verdict:
    """Verdict on a count of a history: runs there and the record have to speak for it."""
    if repeats < 2:
        return Verdict.REFUSED
    if same and repeats >= REPEATS and now.voice.evident(judged) and now.voice.reliable(judged):
        return Verdict.RELIABLE
    return Verdict.DOUBTFUL


def _limits(runs: Sequence[Run], settings: TableSettings) -> list[float]:
    """Time limits told apart, the last one asked for first; a single one needs no telling."""
    asked = dict.fromkeys(
        run.limit_s for run in reversed(runs) if run.limit_s > 0 and not run.censored
    )
    return list(asked)[: settings.limits] if len(asked) > 1 else []


def _at_limit(limit_s: float, judged: Sequence[walk.Judged]) -> AtLimit:
    return AtLimit(
        limit_s,
        tuple(_short(exp(one.log_s)) for one in judged),
        tuple(_short(exp(one.low)) for one in judged),
        tuple(_short(exp(one.high)) for one in judged),
    )


def _no_curve(seen: Sequence[int]) -> Problem:
    """One count asks for twice as many; two ask for the same step once more, or between them."""
    if len(seen) == 1:
        observe = 2 * seen[0]
    elif seen[1] >= 4 * seen[0]:
        observe = round((seen[0] * seen[1]) ** 0.5)
    else:
        observe = max(2 * seen[1], 4 * seen[0])
    told = " and ".join(map(str, seen))
    text = f"finished runs on {told} nodes only; a curve needs {choose.MIN_POINTS} node counts"
    return Problem("no_curve", text, observe)


def _not_one_problem(level: KeyLevel) -> Problem:
    told = "the user" if level is KeyLevel.USER else "user and job name"
    return Problem("no_identity", f"recognised by {told} only, which may stand for many problems")


def _filled(
    predictions: Sequence[Prediction], verdicts: tuple[Verdict, ...], confidence: float
) -> PredictionTable:
    """Table with its columns; what else belongs into it is replaced by the callers."""
    return PredictionTable(
        level="",
        key="",
        label="",
        model="",
        verdict=min(verdicts, key=tuple(Verdict).index),
        problems=(),
        nodes=tuple(p.nodes for p in predictions),
        median_s=tuple(_short(p.time_s) for p in predictions),
        low_s=tuple(_short(p.low_s) for p in predictions),
        high_s=tuple(_short(p.high_s) for p in predictions),
        curve_sd=tuple(_short(p.curve_sd) for p in predictions),
        confidence=confidence,
        observed=(),
        knee=None,
        max_useful=None,
        runs=0,
        mem_node_bytes=None,
        fitted_s=0.0,
        verdicts=verdicts,
    )


def _short(value: float) -> float:
    """Six digits say all that a prediction knows, in half the text."""
    return float(f"{value:.6g}")
