"""A walk through the runs of one identity in time: what would have been predicted, and what came.

The same steps make the record of finished runs and predict the next one: ask the experts, believe
one by the record, and put an interval around it whose width the record tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from predictor import experts
from predictor.checks import need_share
from predictor.curve import CurveSettings, build
from predictor.experts import CurveAt, Experts, ExpertSettings, Guesses
from predictor.models import base
from predictor.record import GOOD, OWN, Entry, Record, Site, class_of, quantile, side_of
from predictor.similar import PastRun, Request
from predictor.types import Recorded, Run

#: Half of reliable predictions are within this.
HALF_GOOD = math.log(1.05)
#: Entries of its own from which on an identity's record speaks for itself.
_ENOUGH = 5
#: Sizes of a record at which the site's weighs half, for intervals and for verdicts.
_HALF_TAILS, _HALF_VERDICT = 60.0, 8.0
#: Log of the widest factor between a prediction and an end of its interval.
_WIDEST = 8.0
#: Share of runs that the intervals of a record hold.
LEVEL = 0.9
#: Two-sided 90 % of a normal distribution, in standard deviations.
_NINE_IN_TEN = 1.645


@dataclass(frozen=True, slots=True)
class WalkSettings:
    """How much each voice weighs, in entries of the record.

    ``believed`` is the weight of the site's mean accuracies when an expert is chosen, ``margin``
    how much better than the usual one another has to be; ``expected`` the weight of what is
    expected of the size of errors, ``pooled`` that of the site's distribution of them.  Entries
    fade by ``fade`` from one to the next; those on counts that were run count ``other`` for those
    that were not.  ``replayed`` last runs are judged where there is no record yet, with a curve
    fitted ``fits`` times.  ``scale`` is the size of errors of one application where nothing is
    known, ``scale_many`` where it may be many.  Curves are those of the registered ``model``.
    """

    believed: float = 15.0
    margin: float = 0.03
    expected: float = 2.0
    pooled: float = 15.0
    fade: float = 0.97
    other: float = 0.3
    replayed: int = 24
    fits: int = 2
    scale: float = 0.3
    scale_many: float = 0.6
    experts: ExpertSettings = field(default_factory=ExpertSettings)
    model: str = "averaged"
    curve: CurveSettings = field(default_factory=CurveSettings)


@dataclass(frozen=True, slots=True)
class Judged:
    """One prediction with its interval; logs of seconds.

    ``below`` and ``above`` are the reaches of the interval before the site's factors; ``half`` and
    ``width`` are the errors that half and nine in ten of such predictions stay below.
    """

    log_s: float
    low: float
    high: float
    below: float
    above: float
    half: float
    width: float
    scale: float
    size: float
    expert: int
    guesses: Guesses


class Voice:
    """What is believed of one identity at one moment.

    Parameters
    ----------
    entries
        Its record until then.
    same
        Its runs are taken to be one application on one problem.
    level
        Share of runs that intervals shall hold.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        site: Site,
        settings: WalkSettings,
        *,
        same: bool,
        level: float = LEVEL,
    ) -> None:
        need_share("level", level)
        self._outside = 0.5 - level / 2
        self._entries, self._site, self._settings, self._same = entries, site, settings, same
        self._chosen: dict[tuple[str, tuple[bool, ...]], int] = {}
        self._spreads: dict[tuple[bool, int], tuple[float, float, list[tuple[float, float]]]] = {}

    def judge(self, guesses: Guesses) -> Judged:
        """Believe one of the guesses, and say how far."""
        seen = guesses.repeats > 0
        named = class_of(same=self._same, repeats=guesses.repeats, curve=guesses.curve is not None)
        expert = self._expert(named, guesses)
        log_s = guesses.logs[expert]
        assert log_s is not None
        size, (total, weight, errors) = self._size(seen=seen), self._spread(expert, seen=seen)
        expected = self._expected(named, guesses)
        prior = self._settings.expected
        scale = math.exp((prior * math.log(expected) + total) / (prior + weight))
        side = side_of(same=self._same, seen=seen)
        units = self._site.units_of(side, size, curve=guesses.curve is not None)
        # Tails are the site's for long; whether an application is good is soon its own affair.
        spread = self._with_site(errors, scale, units, size, half=_HALF_TAILS)
        below = min(-scale * min(quantile(spread, self._outside), 0.0), _WIDEST)
        above = min(scale * max(quantile(spread, 1 - self._outside), 0.0), _WIDEST)
        low, high = self._site.reaches.get(side, (1.0, 1.0))
        half, width = _far(self._with_site(errors, scale, units, size, half=_HALF_VERDICT), scale)
        if size >= _ENOUGH:
            # A site's good record does not make up for the bad one of an application.
            own = _far([(e / scale, w) for e, w in errors], scale)
            half, width = max(half, own[0]), max(width, own[1])
        return Judged(
            log_s=log_s,
            low=log_s - min(low * below, _WIDEST),
            high=log_s + min(high * above, _WIDEST),
            below=below,
            above=above,
            half=half,
            width=width,
            scale=scale,
            size=size,
            expert=expert,
            guesses=guesses,
        )

    def evident(self, judged: Judged) -> bool:
        """Whether a record, its own or the site's, says anything of such predictions."""
        return judged.size >= 1.0 or self._site.knows(self._side(judged))

    def reliable(self, judged: Judged) -> bool:
        """Whether such predictions were within 20 % nine times in ten, and within 5 % half."""
        return judged.width <= min(self._site.reliable, GOOD) and judged.half <= HALF_GOOD

    def _with_site(
        self,
        errors: Sequence[tuple[float, float]],
        scale: float,
        units: Sequence[float],
        size: float,
        *,
        half: float,
    ) -> list[tuple[float, float]]:
        """Own errors and the site's in units of ``scale``, with weights; the site's fade.

        Parameters
        ----------
        half
            Size of the record at which the site's weigh half.
        """
        share = self._settings.pooled / (1 + size / half) / len(units)
        return sorted([(e / scale, w) for e, w in errors] + [(unit, share) for unit in units])

    def _side(self, judged: Judged) -> str:
        return side_of(same=self._same, seen=judged.guesses.repeats > 0)

    def _expert(self, named: str, guesses: Guesses) -> int:
        """Choose by the accuracy that the record of identity and site shows."""
        said = tuple(log is not None for log in guesses.logs)
        if (named, said) not in self._chosen:
            self._chosen[named, said] = self._most_accurate(named, guesses)
        return self._chosen[named, said]

    def _most_accurate(self, named: str, guesses: Guesses) -> int:
        seen, settings = guesses.repeats > 0, self._settings
        usual = experts.ALIKE if seen or guesses.curve is None else experts.CURVE
        pooled = self._site.accuracies.get(named)
        alike = [entry for entry in self._entries if entry.seen == seen]
        best, most = usual, -math.inf
        for expert, log_s in enumerate(guesses.logs):
            if log_s is None:
                continue
            believed = pooled[expert] if pooled else None
            total = settings.believed * (0.6 if believed is None else believed)
            known = settings.believed
            weight = 1.0
            for entry in reversed(alike):
                if (error := entry.errors[expert]) is not None:
                    total += weight * math.exp(-abs(error))
                    known += weight
                weight *= settings.fade
            accuracy = total / known - (settings.margin if expert != usual else 0.0)
            if accuracy > most:
                best, most = expert, accuracy
        return best

    def _size(self, *, seen: bool) -> float:
        return sum(1.0 if e.seen == seen else self._settings.other for e in self._entries)

    def _spread(self, expert: int, *, seen: bool) -> tuple[float, float, list[tuple[float, float]]]:
        """Give the weighted sum of the logs of own errors, the weights' sum, and the errors."""
        if (seen, expert) not in self._spreads:
            errors, weight = [], 1.0
            for entry in reversed(self._entries):
                own = weight * (1.0 if entry.seen == seen else self._settings.other)
                errors.append((entry.error_of(expert), own))
                weight *= self._settings.fade
            total = sum(w * math.log(abs(e) + 0.01) for e, w in errors)
            self._spreads[seen, expert] = total, sum(w for _, w in errors), errors
        return self._spreads[seen, expert]

    def _expected(self, named: str, guesses: Guesses) -> float:
        """Size of errors that is expected without any own: that of the curve, or of the class."""
        if guesses.curve is not None:
            return max(guesses.curve[1] / _NINE_IN_TEN, 0.01)
        settings = self._settings
        plain = settings.scale if self._same else settings.scale_many
        return self._site.scales.get(named, plain)


class Now:
    """What is believed of one identity after all its runs.

    Parameters
    ----------
    curve
        The curve through the runs; None: there is none.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        record: Record,
        site: Site,
        settings: WalkSettings,
        *,
        same: bool,
        curve: CurveAt | None = None,
        level: float = LEVEL,
    ) -> None:
        past = past_of(in_order(runs))
        self.latest = {run.asked.nodes: run.asked.limit_s for run in past}
        self.voice = Voice(record.entries, site, settings, same=same, level=level)
        self._experts = Experts(past, curve, settings.experts, same=same)

    def judge(self, nodes: int, limit_s: float | None = None) -> Judged:
        """Predict the next run; without a limit as if it asked for the last one on this count."""
        return self.voice.judge(self.ask(nodes, limit_s))

    def ask(self, nodes: int, limit_s: float | None = None) -> Guesses:
        """Give what all experts say of a node count."""
        if limit_s is None:
            limit_s = self.latest.get(nodes, math.inf)
        return self._experts.ask(Request(nodes, limit_s))


def in_order(runs: Sequence[Run]) -> list[Run]:
    """Sort runs in the order of their ends, and always the same."""
    return sorted(runs, key=lambda run: (run.end_s, run.nodes, run.elapsed_s, run.limit_s))


def recorded(record: Record) -> tuple[Recorded, ...]:
    """Sum up a record for people: of counts that had been run, and of new ones."""
    made = []
    for seen in (True, False):
        entries = [entry for entry in record.entries if entry.seen is seen]
        if entries:
            errors = [abs(math.expm1(-entry.error)) for entry in entries]
            inside = sum(entry.inside for entry in entries)
            made.append(Recorded(seen, len(entries), round(median(errors), 4), inside))
    return tuple(made)


def replay(
    runs: Sequence[Run],
    record: Record,
    site: Site,
    settings: WalkSettings,
    *,
    same: bool,
) -> Record:
    """Record with the runs that ended since it was made, each predicted from what had ended before.

    Parameters
    ----------
    runs
        Of one identity, in any order.
    """
    ordered = in_order(runs)
    new = [run for run in ordered if run.end_s > record.until_s][-OWN:]
    if not record.entries:
        new = new[-settings.replayed :]
    if not new:
        return record
    walk = _Walk(ordered, list(record.entries), site, settings, same=same)
    step = -(-len(new) // settings.fits)
    for first in range(0, len(new), step):
        part = new[first : first + step]
        curve = walk.curve_at(part[0].submitted_s, [run.nodes for run in ordered])
        for run in part:
            walk.add(run, curve)
    return record.with_new(walk.entries[len(record.entries) :], ordered[-1].end_s)


class _Walk:
    """Runs of one identity, and the entries of those that were judged so far."""

    def __init__(
        self,
        ordered: Sequence[Run],
        entries: list[Entry],
        site: Site,
        settings: WalkSettings,
        *,
        same: bool,
    ) -> None:
        self.entries = entries
        self._ordered, self._site, self._settings, self._same = ordered, site, settings, same

    def curve_at(self, at_s: float, nodes: Sequence[int]) -> CurveAt | None:
        """Give the curve through the runs that had ended by then."""
        if not self._same:
            return None
        return curve_of([run for run in self._ordered if run.end_s <= at_s], nodes, self._settings)

    def add(self, run: Run, curve: CurveAt | None) -> None:
        """Judge what would have been said of a run."""
        past = past_of([one for one in self._ordered if one.end_s <= run.submitted_s])
        if not past:
            return
        limit = run.limit_s or math.inf
        settings = self._settings
        asked = Request(run.nodes, limit)
        guesses = Experts(past, curve, settings.experts, same=self._same).ask(asked)
        ended = [one for one in self.entries if one.end_s <= run.submitted_s]
        judged = Voice(ended, self._site, settings, same=self._same).judge(guesses)
        actual = math.log(run.elapsed_s)
        if run.censored and actual <= judged.log_s:
            return  # it may have been right
        informed = bool(self._site.sides)
        entry = _entry(run, judged, actual, same=self._same, informed=informed)
        self.entries.append(entry)


def _far(spread: Sequence[tuple[float, float]], scale: float) -> tuple[float, float]:
    """Give the errors that half, and nine in ten, stay below; of errors in units of ``scale``."""
    far = sorted((abs(unit), weight) for unit, weight in spread)
    return scale * quantile(far, 0.5), scale * quantile(far, 0.9)


def _entry(run: Run, judged: Judged, actual: float, *, same: bool, informed: bool) -> Entry:
    error = actual - judged.log_s
    reach = judged.above if error > 0 else judged.below
    return Entry(
        end_s=run.end_s,
        same=same,
        repeats=judged.guesses.repeats,
        curve=judged.guesses.curve is not None,
        size=judged.size,
        errors=tuple(
            None if log is None else round(actual - log, 4) for log in judged.guesses.logs
        ),
        chosen=judged.expert,
        scale=round(judged.scale, 5),
        excess=round(error / max(reach, 1e-3), 4),
        width=round(judged.width, 4),
        inside=judged.low <= actual <= judged.high,
        informed=informed,
    )


def _error(actual: float, log_s: float | None) -> float | None:
    return None if log_s is None else round(actual - log_s, 4)


def past_of(runs: Sequence[Run]) -> list[PastRun]:
    """Finished runs as experts look at them."""
    return [
        PastRun(Request(run.nodes, run.limit_s or math.inf), run.elapsed_s)
        for run in runs
        if not run.censored
    ][-128:]


def curve_of(runs: Sequence[Run], nodes: Sequence[int], settings: WalkSettings) -> CurveAt | None:
    """Give the curve through runs at some node counts; None with fewer than three of them."""
    if len({run.nodes for run in runs if not run.censored}) < 3:
        return None
    drawn = build(runs, settings.curve)
    if len(drawn.points) < 3:
        return None
    counts = sorted(set(nodes))
    made = base.create(settings.model).fit(drawn).predict(counts)
    told = {p.nodes: (math.log(p.time_s), math.log(p.high_s / p.low_s) / 2) for p in made}
    return told.__getitem__
