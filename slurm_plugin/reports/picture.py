"""What a picture of a curve shows; :mod:`curve_chart` makes marks of it.  Loads nothing heavy."""

import math
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from predictor.application.request import of_usual_job
from predictor.prediction_table import PredictionTable
from predictor.types import Point, Verdict
from sacct_ingest.errors import PlotError
from sacct_ingest.records import JobState
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store.rows import RunRow
from slurm_plugin.protocol.advice_messages import Advice
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.text.formatting import clock, count, percent, printable
from slurm_plugin.text.table_columns import MARK

#: What each drawing calls the counts that it marks.
KNEE, RECOMMENDED, NEXT_RUN, ASKED = "knee", "recommended", "best next run", "asked"
#: What else there is in a drawing; `Picture.names` has the words of legends.
OBSERVED, RANGE, PREDICTED, BAND = "observed", "range", "curve", "band"
CHANGE, RUN, TRY = "change", "run", "try"
#: What every drawing puts there: a sign of text, or a mark of the same form.
SIGNS = {KNEE: "K", NEXT_RUN: "▲", ASKED: "■", RECOMMENDED: MARK, OBSERVED: "●", RUN: "○", TRY: "×"}
#: Run times in seconds that people read easily: ticks are chosen from these.
_EASY_S = tuple(
    unit * step
    for unit, steps in (
        (1, (1, 2, 5, 10, 20, 30)),
        (60, (1, 2, 5, 10, 20, 30)),
        (3600, (1, 2, 4, 8, 12)),
        (86_400, (1, 2, 4, 7, 14, 30, 60, 120, 365)),
    )
    for step in steps
)
#: The interval is cut where it reaches this factor beyond all medians and observations.  A very
#: wide interval would otherwise flatten the curve.
_ROOM = 2.5


@dataclass(frozen=True, slots=True)
class Picture:
    """A curve and what there is to mark on it; the three tuples run over ``nodes`` (rising)."""

    title: str
    nodes: tuple[int, ...]
    median_s: tuple[float, ...]
    low_s: tuple[float, ...]
    high_s: tuple[float, ...]
    confidence: float
    observed: tuple[Point, ...]
    caption: str = ""  #: runs, verdict, cluster, date
    knee: int | None = None
    observe: int | None = None  #: where one more run would help most
    recommended: int | None = None
    unit: Unit = Unit.NODES  #: of ``nodes``
    #: the last ones: count, seconds, whether it was a try
    runs: tuple[tuple[int, float, bool], ...] = ()
    #: what one job that asked for ``asked`` would take on other counts
    asked: int | None = None
    asked_nodes: tuple[int, ...] = ()
    asked_s: tuple[float, ...] = ()

    @property
    def observed_range(self) -> tuple[int, int]:
        """Fewest and most nodes observed."""
        counts = [point.nodes for point in self.observed]
        return min(counts), max(counts)

    @property
    def names(self) -> dict[str, str]:
        """Words for what is drawn, and for nothing else: all legends are made of these."""
        made = {OBSERVED: "observed, with spread", RANGE: "observed range"}
        if self.nodes:
            made[PREDICTED] = "predicted (dashed beyond it)"
            made[BAND] = f"{percent(self.confidence)} of runs"
        if self.asked_nodes:
            made[CHANGE] = f"one job that asks for {self.asked}, on other counts"
        tries = sum(tried for _, _, tried in self.runs)
        if len(self.runs) > tries:
            made[RUN] = f"the last {count(len(self.runs) - tries, 'run').removeprefix('1 ')}"
        if tries:
            made[TRY] = f"{count(tries, 'try', 'tries')} of NIMO's"
        return made | {name: f"{name}: {nodes}" for name, nodes in self.marks.items()}

    @property
    def marks(self) -> dict[str, int]:
        """The counts to mark, by what they are; the later ones are drawn over the others."""
        named = {
            KNEE: self.knee,
            NEXT_RUN: self.observe,
            ASKED: self.asked if self.asked != self.recommended else None,
            RECOMMENDED: self.recommended,
        }
        return {name: nodes for name, nodes in named.items() if nodes}

    def between(self) -> tuple[list[int], list[float]]:
        """Node counts and run times of the curve between the observations."""
        first, last = self.observed_range
        pairs = zip(self.nodes, self.median_s, strict=True)
        inside = [(n, time_s) for n, time_s in pairs if first <= n <= last]
        return [n for n, _ in inside], [time_s for _, time_s in inside]

    def spread(self, point: Point) -> tuple[float, float]:
        """Run times one standard deviation below and above; that of log time is a factor."""
        factor = math.exp(point.spread)
        return point.time_s / factor, point.time_s * factor

    def height(self, nodes: int) -> float:
        """Run time at which a count is marked: the shortest shown where none is predicted."""
        job_s = at(self.asked_nodes, self.asked_s, nodes)
        return self.median_at(nodes) or job_s or self.limits()[2]

    def limits(self) -> tuple[int, int, float, float]:
        """Fewest and most nodes, shortest and longest run time to show."""
        marks = [n for n in (self.observe, self.asked, self.recommended) if n]
        runs = [run[:2] for run in self.runs]
        counts = [*self.nodes, *(p.nodes for p in self.observed), *marks, *(n for n, _ in runs)]
        counts += self.asked_nodes
        own = [*(p.time_s for p in self.observed), *(time_s for _, time_s in runs)]
        times = [*self.median_s, *own, *self.asked_s]
        low = max(min([*self.low_s, *times]), min(times) / _ROOM)
        high = min(max([*self.high_s, *times]), max(times) * _ROOM)
        return min(counts), max(counts), low, high

    def median_at(self, nodes: float) -> float | None:
        """Predicted run time in seconds; None where nothing is predicted."""
        return at(self.nodes, self.median_s, nodes)


def of_table(table: PredictionTable, runs: Sequence[RunRow] = (), *, cluster: str = "") -> Picture:
    """Picture of an application's prediction; refused predictions are left out.

    runs: the last ones, of which those that completed are drawn.
    Raises PlotError: nothing was observed.
    """
    verdicts = table.verdicts or (table.verdict,) * len(table.nodes)
    shown = [i for i, verdict in enumerate(verdicts) if verdict is not Verdict.REFUSED]
    tried = Reason.LEARNING.value
    dots = [
        (size, one.elapsed_s, one.try_of == tried)
        for one in runs
        if one.state is JobState.COMPLETED
        and one.elapsed_s > 0
        and (size := table.unit.size_of(one))
    ]
    job = of_usual_job(table)
    apart = job is not table  # jobs as they were asked for, and one of them on other counts
    verdict = f"{table.verdict.value}, fitted {clock(table.fitted_s)[:10]}"
    return _checked(
        Picture(
            title=printable(table.label),
            caption=_caption(table.runs, verdict, cluster),
            nodes=tuple(table.nodes[i] for i in shown),
            median_s=tuple(table.median_s[i] for i in shown),
            low_s=tuple(table.low_s[i] for i in shown),
            high_s=tuple(table.high_s[i] for i in shown),
            confidence=table.confidence,
            observed=table.observed,
            knee=job.knee,
            observe=next((p.observe for p in table.problems if p.observe), None),
            unit=table.unit,
            runs=tuple(dots),
            asked=job.asked if apart else None,
            asked_nodes=job.nodes if apart else (),
            asked_s=job.median_s if apart else (),
        )
    )


def of_advice(advice: Advice) -> Picture:
    """Picture of an advice of now. Raises PlotError: nothing was observed."""
    rows = [row for row in advice.rows if row.high_s is not None]  # what is unbounded has no band
    return _checked(
        Picture(
            title=printable(advice.application),
            caption=_caption(
                advice.runs, f"{advice.verdict}, {clock(time.time())[:10]}", advice.cluster
            ),
            nodes=tuple(row.nodes for row in rows),
            median_s=tuple(row.time_s for row in rows),
            low_s=tuple(row.low_s for row in rows),
            high_s=tuple(row.high_s or row.time_s for row in rows),
            confidence=advice.confidence,
            observed=tuple(Point(**asdict(one)) for one in advice.points),
            knee=advice.knee,
            observe=advice.observe,
            recommended=advice.nodes,
            asked=advice.asked,
            unit=advice.unit,
        )
    )


def at(nodes: tuple[int, ...], values: tuple[float, ...], where: float) -> float | None:
    """Value between the entries of a table, linear in the logarithms; None outside of it.

    >>> at((1, 4), (100.0, 25.0), 2)
    50.0
    """
    if not nodes or not nodes[0] <= where <= nodes[-1]:
        return None
    high = bisect_left(nodes, where)
    if nodes[high] == where:
        return values[high]
    low = high - 1
    share = math.log(where / nodes[low]) / math.log(nodes[high] / nodes[low])
    return float(values[low] ** (1 - share) * values[high] ** share)


def time_ticks(low_s: float, high_s: float, most: int = 6) -> list[float]:
    """Easily read run times between two, at most ``most``; the two where there are none.

    >>> time_ticks(50, 4000)
    [60.0, 300.0, 1200.0, 3600.0]
    >>> time_ticks(61, 100)
    [61, 100]
    """
    inside = [float(tick) for tick in _EASY_S if low_s <= tick <= high_s]
    step = max(1, math.ceil(len(inside) / most))
    return inside[::step] if len(inside) > 1 else [low_s, high_s]


def node_ticks(low: int, high: int) -> list[int]:
    """Powers of two between two node counts, and the ends where there is none.

    >>> node_ticks(3, 40)
    [4, 8, 16, 32]
    """
    powers = [2**i for i in range(high.bit_length()) if low <= 2**i <= high]
    return powers or sorted({low, high})


def _caption(runs: int, verdict: str, cluster: str) -> str:
    where = f", cluster {printable(cluster)}" if cluster else ""
    return f"{count(runs, 'run')}, {verdict}{where}"


def _checked(picture: Picture) -> Picture:
    if not picture.observed:
        raise PlotError("there is nothing to draw: the store has no finished run")
    return picture
