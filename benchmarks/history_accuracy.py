"""How well run time is predicted, and how far that can be trusted, on the history of a site.

Walks a log (SWF, ``sacct -P`` text, sacct JSON; compressed or not) in time through the product
itself: its ingest, store, identities, fits and tables.  Each job that completed is predicted from
what had ended when it was submitted.  The tables of a job's identities are fitted anew as a site
would: once ``--every`` of its runs ended since the last fit, or an hour passed; the site's own
record is pooled each hour.  Without ``--data`` the log is generated, see ``_generated.py``.

Beside it stand the last run of the same kind, the mean of the last two, the median of the last five
on the same node count, the user's limit, and gradient boosting on what is known at submission
(scikit-learn, trained on the past only, anew after each twentieth of the jobs, 1,000 at most).
Accuracy is min(p, a) / max(p, a).  Intervals stand beside empirical quantiles of the last runs of
the job's own kind and, with boosting, beside boosted quantiles: see ``_sharpness.py``.
"""

import heapq
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import _bench
import _generated
import numpy as np
from _boosting import with_boosting
from _logs import runs
from _sharpness import FEWEST, LAST, Quantiles, empirical, figures, of_table

from predictor.job_table import for_limit
from predictor.level.backtest import around_of
from predictor.level.experts import AROUND
from predictor.level.record import Record, RecordEntry, pooled, pooled_errors
from predictor.prediction_table import PredictionTable
from predictor.stored_table import encode
from predictor.table import at, covers, verdict_at
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.samples import samples_of
from predictor.tables.settings import TableSettings
from sacct_ingest.errors import FormatError
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import CURVE_LEVELS, Identity, JobState, KeyLevel
from sacct_ingest.runs.layout import Layout, layouts_of_run
from sacct_ingest.store import RunRow, Store
from slurm_plugin.decision.lookup import PredictionLookup

LEVELS = (0.5, 0.9, 0.95)
HOUR_S = 3_600.0
#: One job in so many that another one repeats says how much repeats differ.
REPEATED_SHARE = 50


@dataclass(frozen=True, slots=True)
class Scored:
    """One job with what was said of it; times in seconds."""

    actual_s: float
    predicted_s: float
    intervals: tuple[tuple[float, float], ...]  #: at `LEVELS`
    verdict: str
    level: str  #: how it was recognised
    earlier: bool  #: its node count had been run
    curve: bool
    simple: Mapping[str, float]
    row: RunRow
    number: int
    own: Quantiles | None  #: of the last runs of its own kind; log run times
    boosted: Quantiles | None = None


@dataclass(slots=True)
class Fits:
    """The tables that a site would have: fitted when their identity has runs enough."""

    history: Mapping[tuple[KeyLevel, str], list[RunRow]]
    every: int
    ends: dict[tuple[KeyLevel, str], list[float]] = field(init=False)
    made: dict[tuple[KeyLevel, str], tuple[int, float, list[PredictionTable]]] = field(
        default_factory=dict
    )
    records: dict[tuple[KeyLevel, str], dict[str, Record]] = field(default_factory=dict)
    pool: list[RecordEntry] = field(default_factory=list)
    new: list[RecordEntry] = field(default_factory=list)
    settings: TableSettings = field(default_factory=TableSettings)
    acting: bool = False
    pooled_s: float = -math.inf

    def __post_init__(self) -> None:
        self.ends = {
            key: [float(row.end_s or 0) for row in rows] for key, rows in self.history.items()
        }

    def find(
        self,
        identity: Identity,
        layouts: tuple[Layout, ...],
        attributes: Callable[[], Mapping[str, str]],
        now_s: float,
    ) -> PredictionTable | None:
        """Find the table that nimod would have of an application."""
        self._pool(now_s)
        result = []
        for level in KeyLevel:
            if key := identity.key(level):
                result += self._tables(level, key, now_s)
        tables = PredictionLookup((t.level, t.key, encode(t)) for t in result)
        return tables.find(identity, layouts, attributes=attributes, acting=self.acting)

    def _pool(self, now_s: float) -> None:
        """Pool what became of predictions, once an hour."""
        if now_s >= self.pooled_s + HOUR_S:
            self.pool, self.new, self.pooled_s = pooled(self.pool, self.new), [], now_s
            self.settings = replace(self.settings, pooled=pooled_errors(self.pool))

    def _tables(self, level: KeyLevel, key: str, now_s: float) -> list[PredictionTable]:
        name = (level, key)
        recorded = bisect_right(self.ends[name], now_s)
        count, fitted_s, tables = self.made.get(name, (0, -math.inf, []))
        if recorded == count or (recorded < count + self.every and now_s < fitted_s + HOUR_S):
            return tables
        rows = self.history[name][:recorded]
        recent = rows[-self.settings.recent :]
        old = self.records.get(name, {})
        settings = self._settings(level, recent, now_s)
        fitted = tables_of(IdentityRuns(level, key, recent, now_s), settings, records=old)
        self.records[name] = {one.key: one.record for one in fitted}
        self.new += [entry for one in fitted if one.new for entry in one.record.entries[-one.new :]]
        tables = [one.table for one in fitted if one.table is not None]
        self.made[name] = recorded, now_s, tables
        return tables

    def _settings(self, level: KeyLevel, rows: list[RunRow], now_s: float) -> TableSettings:
        """Add the last runs of a key's user where its own are few."""
        name = KeyLevel.USER, rows[-1].identity.key(KeyLevel.USER) or ""
        if level is KeyLevel.USER or name not in self.ends or len(rows) >= AROUND:
            return self.settings
        recorded = bisect_right(self.ends[name], now_s)
        runs = samples_of(self.history[name][max(recorded - AROUND, 0) : recorded])
        backtest = replace(self.settings.backtest, around=around_of(runs))
        return replace(self.settings, backtest=backtest)


def main() -> None:
    """Walk the log and print how far predictions could be trusted."""
    parser = _bench.options(str(__doc__), data="log of a site (SWF, sacct text or JSON)")
    parser.add_argument("--jobs", type=int, help="only so many jobs, from the beginning")
    parser.add_argument("--every", type=int, default=1, help="refit after so many runs (1)")
    parser.add_argument("--acting", action="store_true", help="by the tables that change jobs")
    parser.add_argument("--no-boosting", action="store_true", help="without gradient boosting")
    arguments = parser.parse_args()
    try:
        rows = stored(arguments.data)
    except FormatError as error:
        parser.error(str(error))
    rows = rows[: arguments.jobs or (3000 if arguments.quick else None)]
    scored = walk(rows, every=arguments.every, acting=arguments.acting)
    if not arguments.no_boosting:
        scored = with_boosting(scored)
    summed = summary(scored)
    log = arguments.data.name if arguments.data else "generated log"
    counts = {"jobs": len(rows), "completed": sum(map(_counts, rows)), "predicted": len(scored)}
    counts |= repeated(rows)
    words = ", ".join(f"{number} {name}" for name, number in counts.items())
    sharp = [key for key in summed[0] if key.startswith(SHARPNESS)] if summed else []
    plain = [{key: row[key] for key in row if key not in sharp} for row in summed]
    _bench.table(plain, title=f"{log}: {words}")
    columns = ["group", "jobs", *sharp]
    _bench.table(
        [{key: row[key] for key in columns} for row in summed if sharp[0] in row],
        title="Log run time: NIMO's intervals, own quantiles and boosted quantiles",
    )
    reported = misses(scored)
    _bench.table(reported, title="Quantiles of a table: share of jobs beyond")
    _bench.table(gap(scored), title="The gap between memorising and the noise of repeats")
    steep = slopes(rows)
    _bench.table(steep, title="Log run time over log nodes: where it rises, users ask for more")
    _bench.write(
        arguments.json,
        history=summed,
        quantiles=reported,
        gap=gap(scored),
        counts=[counts],
        slopes=steep,
    )


def stored(path: Path | None) -> list[RunRow]:
    """Ingest a log and give its runs in the order of their submission."""
    with Store.open("sqlite://") as store:
        store.runs.add(runs(path) if path else made_runs(5_000))
        return list(store.runs.started())


def made_runs(count: int) -> Iterator[JobRun]:
    """Make up the runs of a generated log."""
    for number, one in enumerate(_generated.jobs(count)):
        yield JobRun(
            cluster="made",
            job_id=number,
            submit_s=round(one.submit_s),
            start_s=round(one.end_s - one.elapsed_s),
            end_s=round(one.end_s),
            elapsed_s=one.elapsed_s,
            state=JobState.COMPLETED,
            user=one.user,
            name=one.name,
            submit_line=f"sbatch {one.name}.sh",
            nodes=one.nodes,
            cpus=one.nodes,
            limit_s=round(one.limit_s),
        )


def walk(rows: Sequence[RunRow], *, every: int, acting: bool = False) -> list[Scored]:
    """Predict each job from what had ended when it was submitted.

    acting: by the tables that change jobs, in which no other user's runs have a say.
    """
    fits = Fits(histories(rows), every, acting=acting)
    past = _Past()
    scored = []
    for number, row in enumerate(sorted(rows, key=lambda one: (one.submit_s, one.job_id))):
        past.until(float(row.submit_s))
        if _counts(row):
            one = _scored(row, fits, past, number)
            scored += [one] if one is not None else []
        past.submitted(row)
    return scored


def _counts(row: RunRow) -> bool:
    """Whether a job completed, so that a prediction of it can be scored."""
    return row.state is JobState.COMPLETED and row.elapsed_s > 0 and row.nodes > 0


def histories(rows: Sequence[RunRow]) -> dict[tuple[KeyLevel, str], list[RunRow]]:
    """Give the runs of each key in the order of their ends."""
    result: dict[tuple[KeyLevel, str], list[RunRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda one: (one.end_s or 0, one.submit_s, one.job_id)):
        for level in KeyLevel:
            if key := row.identity.key(level):
                result[level, key].append(row)
    return result


def repeated(rows: Sequence[RunRow]) -> dict[str, int]:
    """Count applications, each by its most specific key, and jobs that follow five of its own."""
    earlier, following = Counter[tuple[str, ...]](), 0
    for row in rows:
        kind = next(iter(_kinds(row)), ())
        following += earlier[kind] >= FEWEST
        earlier[kind] += 1
    return {"applications": len(earlier), f"with {FEWEST} earlier runs": following}


def slopes(rows: Sequence[RunRow]) -> list[dict[str, Any]]:
    """Slope of log run time over log nodes within identities that ran on three counts or more."""
    found: dict[str, list[float]] = defaultdict(list)
    for (level, _), own in histories([row for row in rows if _counts(row)]).items():
        if len({row.nodes for row in own}) >= 3:
            x = np.log([row.nodes for row in own])
            y = np.log([row.elapsed_s for row in own])
            found[level.value].append(float(np.polyfit(x, y, 1)[0]))
    return [
        {"by": level, "identities": len(own), "median slope": median(own),
         "rising": mean(one > 0 for one in own)}
        for level, own in found.items()
    ]  # fmt: skip


def _scored(row: RunRow, fits: Fits, past: "_Past", number: int) -> Scored | None:
    identity, simple = row.identity, past.simple(row)
    attributes = partial(getattr, row, "attributes")
    table = fits.find(identity, layouts_of_run(row), attributes, float(row.submit_s))
    if table is None or not simple:
        return None
    nodes = table.unit.size_of(row)
    table = for_limit(table, float(row.limit_s) if row.limit_s else None)
    if not covers(table, nodes):
        return None
    reported = at(table, nodes)
    limit = float(row.limit_s or math.inf)
    return Scored(
        actual_s=row.elapsed_s,
        predicted_s=min(reported.time_s, limit),
        intervals=tuple(_interval(table, nodes, level, limit) for level in LEVELS),
        verdict=verdict_at(table, nodes).value,
        level=table.level + (" part" if "#" in table.key else ""),
        earlier=any(point.nodes == nodes for point in table.observed),
        curve=table.model != "history",
        simple=simple,
        row=row,
        number=number,
        own=empirical(past.pools(row), limit),
    )


def _interval(
    table: PredictionTable, nodes: int, level: float, limit_s: float
) -> tuple[float, float]:
    """Interval of a table at another level than its own: as of a normal distribution.

    An application may need longer than its limit, a run that completes does not; tables of users
    and names have what runs took over their limits in them.
    """
    reported = at(table, nodes)
    ratio = {0.5: 0.41, 0.9: 1.0, 0.95: 1.19}[level]
    low = reported.time_s * (reported.low_s / reported.time_s) ** ratio
    high = reported.time_s * (reported.high_s / reported.time_s) ** ratio
    longest_s = limit_s if KeyLevel(table.level) in CURVE_LEVELS else math.inf
    return min(low, longest_s), min(high, longest_s)


class _Past:
    """What simple rules know: runs that ended, by user, name and line."""

    def __init__(self) -> None:
        self._running: list[tuple[float, int, RunRow]] = []
        self._ended: dict[tuple[str, ...], list[RunRow]] = defaultdict(list)

    def submitted(self, row: RunRow) -> None:
        if row.state is JobState.COMPLETED and row.elapsed_s > 0 and row.end_s:
            heapq.heappush(self._running, (float(row.end_s), row.run_id, row))

    def until(self, now_s: float) -> None:
        while self._running and self._running[0][0] <= now_s:
            row = heapq.heappop(self._running)[2]
            for key in _kinds(row):
                self._ended[key].append(row)

    def simple(self, row: RunRow) -> dict[str, float]:
        """Ask each rule; empty where there was no run of any kind."""
        own = next((self._ended[key] for key in _kinds(row) if self._ended[key]), [])
        if not own:
            return {}
        last = own[-200:]
        same = [one.elapsed_s for one in last if one.nodes == row.nodes]
        like = [one.elapsed_s for one in last if _asked(one) == _asked(row)]
        limit = float(row.limit_s or math.inf)
        said = {
            "last alike": (like or same or [last[-1].elapsed_s])[-1],
            "last two": mean(one.elapsed_s for one in last[-2:]),
            "last five": median((same or [last[-1].elapsed_s])[-5:]),
        }
        rules = {name: min(value, limit) for name, value in said.items()}
        return rules | ({"limit": limit} if limit < math.inf else {})

    def pools(self, row: RunRow) -> list[list[float]]:
        """Give the last run times of each kind: of the same request, of that count, and all."""
        pools = []
        for key in _kinds(row):
            last = self._ended[key][-5 * LAST :]
            pools.append([one.elapsed_s for one in last if _asked(one) == _asked(row)][-LAST:])
            pools.append([one.elapsed_s for one in last if one.nodes == row.nodes][-LAST:])
            pools.append([one.elapsed_s for one in last][-LAST:])
        return pools


def _kinds(row: RunRow) -> list[tuple[str, ...]]:
    """Give the most specific first, as the product recognises applications."""
    identity = row.identity
    return [(level.value, key) for level in KeyLevel if (key := identity.key(level))]


def _asked(row: RunRow) -> tuple[object, ...]:
    return row.nodes, row.limit_s


#: What the names of columns about sharpness begin with: NIMO's, own and boosted quantiles.
SHARPNESS = "interval ", "own quantiles ", "boosted "
#: Simple rules that a prediction has to beat.
RULES = ("last alike", "last two", "last five", "limit")


def summary(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """Sum up all jobs, and groups of them."""
    groups: dict[str, list[Scored]] = {"all": list(scored)}
    for one in scored:
        groups.setdefault(one.verdict, []).append(one)
    for one in scored:
        groups.setdefault(f"by {one.level}", []).append(one)
        groups.setdefault("seen count" if one.earlier else "new count", []).append(one)
        groups.setdefault("curve" if one.curve else "history", []).append(one)
    return [_row(name, members, len(scored)) for name, members in groups.items()]


def _row(name: str, scored: Sequence[Scored], total: int) -> dict[str, Any]:
    errors = sorted(abs(one.predicted_s / one.actual_s - 1) for one in scored)
    asked = [*RULES, *(["boosting"] if any("boosting" in one.simple for one in scored) else [])]
    simple = {
        rule: mean(
            _accuracy(one.simple.get(rule, one.simple["last alike"]), one.actual_s)
            for one in scored
        )
        for rule in asked
    }
    inside = {
        f"inside {100 * level:.0f} %": 100
        * mean(one.intervals[i][0] <= one.actual_s <= one.intervals[i][1] for one in scored)
        for i, level in enumerate(LEVELS)
    }
    return {
        "group": name,
        "jobs": len(scored),
        "share %": 100 * len(scored) / total,
        "median %": 100 * median(errors),
        "p90 %": 100 * errors[min(int(0.9 * len(errors)), len(errors) - 1)],
        **inside,
        **_beyond(scored, LEVELS.index(0.9)),
        "accuracy": mean(_accuracy(one.predicted_s, one.actual_s) for one in scored),
        "best simple accuracy": max(simple[rule] for rule in RULES),
        **simple,
        **_sharpness([one for one in scored if one.own is not None]),
    }


def _sharpness(scored: Sequence[Scored]) -> dict[str, float]:
    """Score intervals of jobs with own quantiles."""
    if not scored:
        return {}
    actual = [math.log(max(one.actual_s, 1.0)) for one in scored]
    nimo = [of_table(one.predicted_s, *one.intervals[:2]) for one in scored]
    own = [one.own for one in scored if one.own is not None]
    boosted = [(one.boosted, y) for one, y in zip(scored, actual, strict=True) if one.boosted]
    made = figures(SHARPNESS[0], nimo, actual) | figures(SHARPNESS[1], own, actual)
    if boosted:
        made |= figures(SHARPNESS[2], [one for one, _ in boosted], [y for _, y in boosted])
    return made


def misses(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """Share of jobs beyond each end of the intervals."""
    return [
        {"interval %": 100 * level, **_beyond(scored, i), "may each %": 50 * (1 - level)}
        for i, level in enumerate(LEVELS)
    ]


def _beyond(scored: Sequence[Scored], level: int) -> dict[str, float]:
    """Share of jobs beyond each end of the intervals at one of `LEVELS`."""
    return {
        "below %": 100 * mean(one.actual_s < one.intervals[level][0] for one in scored),
        "above %": 100 * mean(one.actual_s > one.intervals[level][1] for one in scored),
    }


def gap(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """How much of the way from the last run alike to the noise of repeats is done.

    The floor of noise is what the median of all other runs of the same kind, earlier and later,
    would have reached; jobs without another one do not count.  Of the same kind are those with the
    same key and request.  The most specific keys of the log count that come again, those of one job
    in `REPEATED_SHARE` at least: where commands come again, a job name is no repeat.
    """
    often = Counter(key for one in scored for key in _asked_by(one))
    repeated = Counter(key[0] for one in scored for key in _asked_by(one) if often[key] > 1)
    fewest = max(len(scored) // REPEATED_SHARE, 2)
    level = next((str(one) for one in KeyLevel if repeated[one.value] >= fewest), "")
    kinds: dict[tuple[object, ...], list[Scored]] = defaultdict(list)
    for one in scored:
        for key in _asked_by(one):
            if key[0] == level:
                kinds[key].append(one)
    rows = []
    for members in kinds.values():
        times = [one.actual_s for one in members]
        for i, one in enumerate(members if len(members) > 1 else ()):
            others = times[max(0, i - 100) : i] + times[i + 1 : i + 100]
            floor = _accuracy(median(others), one.actual_s)
            said = one.predicted_s, one.simple["last alike"]
            rows.append((floor, *(_accuracy(p, one.actual_s) for p in said)))
    if not rows:
        return []
    floor, own, last = map(mean, zip(*rows, strict=True))
    share = 100 * (own - last) / (floor - last) if floor > last else None
    figures = {"last alike": last, "nimo": own, "noise": floor, "closed %": share}
    return [{"same": level, "jobs": len(rows), **figures}]


def _asked_by(one: Scored) -> list[tuple[object, ...]]:
    """Give level, key and request of a job, the most specific first."""
    return [(*kind, *_asked(one.row)) for kind in _kinds(one.row)]


def _accuracy(predicted: float, actual: float) -> float:
    return min(predicted, actual) / max(predicted, actual)


if __name__ == "__main__":
    main()
