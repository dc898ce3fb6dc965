"""A backtest of the runs of one identity: what would have been predicted, and what came.

The same steps make the record of finished runs and predict the next one: ask the experts, believe
one by the record, and take the interval from the distribution that the record makes.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from statistics import median

from msgspec import structs

from predictor.curves.from_runs import build, follow, started
from predictor.level import record as records
from predictor.level.calibration import BacktestSettings, Calibrator, JudgedPrediction
from predictor.level.distribution import WINDOW
from predictor.level.experts import AROUND, MIXED, Around, CurveAt, Experts, Guesses, RunRequest
from predictor.models import base
from predictor.prediction_table import Recorded
from predictor.sample import Sample


class ExpertPanel:
    """What all experts say of the next run of one identity; they are asked once for each request.

    around: runs of the same user.
    same: the runs are of one application.
    curve: the curve through the runs; None: there is none.
    Raises ValueError: no run finished.
    """

    def __init__(
        self,
        runs: Sequence[Sample],
        around: Around = (),
        *,
        same: bool,
        curve: CurveAt | None = None,
    ) -> None:
        ordered = in_order(runs)
        self.same = same
        past = [run for run in ordered if not run.censored][-WINDOW:]
        if same and curve is None:
            past = at_present_level(past)
        self._latest = {run.nodes: run.limit_s or math.inf for run in past}
        self._experts = Experts(past, curve, around, same=same, bounded=True)
        self._guesses: dict[tuple[int, float], Guesses] = {}

    def ask(self, nodes: int, limit_s: float | None = None) -> Guesses:
        """Ask for a node count; without a limit as if it were the last one on this count."""
        if limit_s is None:
            limit_s = self._latest.get(nodes, math.inf)
        if (guesses := self._guesses.get((nodes, limit_s))) is None:
            guesses = self._experts.ask(RunRequest(nodes, limit_s))
            self._guesses[nodes, limit_s] = guesses
        return guesses


class NextRun:
    """What is believed of one identity after all its runs.

    panel: what experts say of them.
    Raises ValueError: the record is damaged.
    """

    def __init__(
        self,
        panel: ExpertPanel,
        record: records.Record,
        pooled: records.PooledErrors,
        settings: BacktestSettings,
        *,
        level: float = records.LEVEL,
    ) -> None:
        records.need_entries(record.entries)
        self.calibrator = Calibrator(record.entries, pooled, settings, same=panel.same, level=level)
        self._panel = panel

    def judge(self, nodes: int, limit_s: float | None = None) -> JudgedPrediction:
        """Predict the next run; without a limit as if it asked for the last one on this count."""
        return self.calibrator.judge(self.ask(nodes, limit_s))

    def ask(self, nodes: int, limit_s: float | None = None) -> Guesses:
        """Give what all experts say of a node count."""
        return self._panel.ask(nodes, limit_s)


def in_order(runs: Sequence[Sample]) -> list[Sample]:
    """Sort runs in the order of their ends, and always the same."""
    return sorted(runs, key=lambda run: (run.end_s, run.nodes, run.elapsed_s, run.limit_s))


def at_present_level(past: list[Sample]) -> list[Sample]:
    """Leave out runs from before the level shifted, on counts that ran since; the newest last.

    A curve follows shifts by itself.
    """
    _, drift = follow(past)
    if drift is None:
        return past
    return [run for run in past if run.nodes not in drift.renewed or started(run) >= drift.since_s]


def recorded(record: records.Record) -> tuple[Recorded, ...]:
    """Sum up a record for people: of counts that had been run, and of new ones."""
    made = []
    for repeated in (True, False):
        entries = [entry for entry in record.entries if entry.repeated is repeated]
        if entries:
            errors = [abs(math.expm1(-entry.error)) for entry in entries]
            inside = sum(entry.inside for entry in entries)
            made.append(Recorded(repeated, len(entries), round(median(errors), 4), inside))
    return tuple(made)


def replay(
    runs: Sequence[Sample],
    record: records.Record,
    pooled: records.PooledErrors,
    settings: BacktestSettings,
    *,
    same: bool,
) -> records.Record:
    """Record with the runs that ended since it was made, each predicted from what had ended before.

    runs: of one identity, in any order.
    Raises ValueError: the record is damaged.
    """
    records.need_entries(record.entries)
    ordered = in_order(runs)
    new = [run for run in ordered if run.end_s > record.until_s][-records.OWN :]
    if not record.entries:
        new = new[-settings.replayed :]
    if not new:
        return record
    tested = _Backtest(ordered, list(record.entries), pooled, settings, same=same)
    step = -(-len(new) // settings.fits)
    for first in range(0, len(new), step):
        part = new[first : first + step]
        curve = tested.curve_at(part[0].submitted_s, [run.nodes for run in ordered])
        for run in part:
            tested.add(run, curve)
    held = (*record.entries, *tested.entries[len(record.entries) :])[-records.OWN :]
    return records.Record(held, max(ordered[-1].end_s, record.until_s), record.split)


class _Backtest:
    """Runs of one identity, and the entries of those that were judged so far."""

    def __init__(
        self,
        ordered: Sequence[Sample],
        entries: list[records.RecordEntry],
        pooled: records.PooledErrors,
        settings: BacktestSettings,
        *,
        same: bool,
    ) -> None:
        self.entries = entries
        self._ordered = ordered
        self._pooled = pooled
        self._settings = settings
        self._same = same
        self._ends = [run.end_s for run in ordered]
        self._past = [run for run in ordered if not run.censored]
        self._finished = [run.end_s for run in self._past]

    def curve_at(self, at_s: float, nodes: Sequence[int]) -> CurveAt | None:
        """Give the curve through the runs that had ended by then."""
        if not self._same:
            return None
        return curve_of(self._ordered[: bisect_right(self._ends, at_s)], nodes, self._settings)

    def add(self, run: Sample, curve: CurveAt | None) -> None:
        """Judge what would have been said of a run."""
        ended = bisect_right(self._finished, run.submitted_s)
        past = self._past[max(ended - WINDOW, 0) : ended]
        if not past:
            return
        if self._without_median(run):
            return
        if self._same and curve is None:
            past = at_present_level(past)
        limit = run.limit_s or math.inf
        settings = self._settings
        asked = RunRequest(run.nodes, limit)
        before = bisect_right(settings.around, run.submitted_s, key=attrgetter("end_s"))
        experts = Experts(past, curve, settings.around[:before], same=self._same)
        guesses = experts.ask(asked)
        entries = [one for one in self.entries if one.end_s <= run.submitted_s]
        judge = Calibrator(entries, self._pooled, settings, same=self._same)
        judged = judge.judge(guesses)
        actual = math.log(run.elapsed_s)
        usual = next(log_s for log_s in guesses.logs if log_s is not None)
        if run.censored and actual <= usual:
            return  # it may have been right
        informed = bool(self._pooled.sides)
        entry = _entry(run, judged, actual, same=self._same, informed=informed)
        if self._same:  # no job is changed for what a user or a job name is like
            alone = judge.with_pooled(records.built_in()).judge(guesses)
            acting = round(actual - alone.log_s, 4), round(alone.width, 4), alone.fell(actual)
            entry = structs.replace(entry, acting=acting)
        self.entries.append(entry)

    def _without_median(self, run: Sample) -> bool:
        """Whether half of the runs before on its count, or more, were cut off: none was said."""
        before = self._ordered[: bisect_right(self._ends, run.submitted_s)]
        here = [one for one in before if one.nodes == run.nodes][-WINDOW:]
        return bool(here) and 2 * sum(one.censored for one in here) >= len(here)


def _entry(
    run: Sample, judged: JudgedPrediction, actual: float, *, same: bool, informed: bool
) -> records.RecordEntry:
    error = actual - judged.log_s
    errors = [None if log is None else round(actual - log, 4) for log in judged.guesses.logs]
    if judged.expert == MIXED:
        errors.append(round(error, 4))
    return records.RecordEntry(
        end_s=run.end_s,
        same=same,
        repeats=judged.guesses.repeats,
        curve=judged.guesses.curve is not None,
        size=judged.size,
        errors=tuple(errors),
        chosen=judged.expert,
        scale=round(judged.scale, 5),
        fell=judged.fell(actual),
        width=round(judged.width, 4),
        # What was cut off did not end there.
        inside=judged.low <= actual <= judged.high and not run.censored,
        informed=informed,
    )


def around_of(runs: Sequence[Sample]) -> Around:
    """Give the last of a user's runs as an identity with fewer than `AROUND` looks at them."""
    return tuple(run for run in in_order(runs) if not run.censored)[-AROUND:]


def curve_of(
    runs: Sequence[Sample], nodes: Sequence[int], settings: BacktestSettings
) -> CurveAt | None:
    """Give the curve through runs at some node counts; None with fewer than three of them."""
    if len({run.nodes for run in runs if not run.censored}) < 3:
        return None
    drawn = build(runs, settings.curve)
    if len(drawn.points) < 3:
        return None
    counts = sorted(set(nodes))
    made = base.create(settings.model).fit(drawn).predict(counts)
    logs = {p.nodes: (math.log(p.time_s), math.log(p.high_s / p.low_s) / 2) for p in made}
    return logs.__getitem__
