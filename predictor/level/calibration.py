"""What is believed of one identity at one moment: one of the experts, and a distribution.

The record of the identity chooses the expert, and makes and calibrates the distribution, whose
quantiles are the interval; the site's record takes part for as long as there is little of its own.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, repeat
from operator import mul
from typing import NamedTuple

import numpy as np

from predictor.checks import need_finite, need_positive, need_share
from predictor.curves.from_runs import CurveSettings
from predictor.level import experts
from predictor.level import record as records
from predictor.level.distribution import Floats, Mixture, believed, calibrated, mixture
from predictor.level.experts import Around, Guesses

#: Sizes of a record at which the site's weighs half, for intervals and for verdicts.
_HALF_TAILS, _HALF_VERDICT = 60.0, 8.0
#: Log of the widest factor between a prediction and an end of its interval.
_WIDEST = 8.0
#: Shares of errors that a verdict is about.
_JUDGED = 0.5, 0.9
#: Two-sided 90 % of a normal distribution, in standard deviations.
_NINE_IN_TEN = 1.645


@dataclass(frozen=True, slots=True)
class BacktestSettings:
    """How much each source weighs, in entries of the record.

    ``believed`` is the weight of the site's mean accuracies when an expert is chosen, ``margin``
    how much better than the usual one another has to be; ``expected`` the weight of what is
    expected of the size of errors, ``pooled`` that of the site's distribution of them.  Entries
    fade by ``fade`` from one to the next; those on counts that were run count ``other`` for those
    that were not.  ``replayed`` last runs are judged where there is no record yet, with a curve
    fitted ``fits`` times.  ``learning`` is the rate at which experts on what may be many problems
    lose their weight; they are chosen among where that is not ``mixed``.  Ends of intervals are
    ``averaged`` with quantiles of the last runs.  ``scale`` is the size of errors of one
    application where nothing is known, ``scale_many`` where it may be many.  Curves are those of
    the registered ``model``.
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
    learning: float = 0.3
    mixed: bool = True
    averaged: bool = True
    around: Around = ()
    model: str = "averaged"
    curve: CurveSettings = field(default_factory=CurveSettings)

    def __post_init__(self) -> None:
        weights = (self.believed, self.expected, self.pooled, self.fade)
        need_positive("weight of a record", *weights, self.scale, self.scale_many, self.learning)
        need_finite("weight of a record", self.margin, self.other, least=0)
        need_finite("number of runs or fits", self.replayed, self.fits, least=1)


@dataclass(frozen=True, slots=True)
class _Expected:
    """How far off predictions of one kind are expected to be; see `JudgedPrediction`."""

    errors: Floats  #: logs of actual over predicted run time ...
    weights: Floats  #: ... and what each weighs
    half: float
    width: float
    scale: float
    size: float


class _Spread(NamedTuple):
    """Own errors with weights, and their sizes, both rising."""

    total: float  #: weighted sum of the logs of the sizes
    weight: float
    errors: Floats  #: shape ``(entries, 2)``
    sizes: list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class JudgedPrediction:
    """One prediction with its interval; logs of seconds.

    ``half`` and ``width`` are the errors that half and nine in ten of such predictions stay below.
    ``mixture`` is the distribution before it was calibrated, with what its components weigh; None
    between node counts that were judged.
    """

    log_s: float
    low: float
    high: float
    half: float
    width: float
    scale: float
    size: float
    expert: int
    guesses: Guesses
    mixture: tuple[Mixture, Floats] | None = field(default=None, compare=False)

    def fell(self, log_s: float) -> tuple[float, ...]:
        """Where a run fell in the distribution, and what each component lost by it."""
        assert self.mixture is not None
        mixed, weights = self.mixture
        return mixed.share_below(log_s, weights), *mixed.scores(log_s)


class _OwnErrors:
    """Errors of an identity's own record: judges on several sites share what follows from them."""

    def __init__(self, entries: Sequence[records.RecordEntry], settings: BacktestSettings) -> None:
        self.entries = entries
        self._settings = settings
        self._sizes: dict[bool, float] = {}
        self._spreads: dict[tuple[bool, int], _Spread] = {}
        self._trials: dict[tuple[bool, int], tuple[list[float], list[float]]] = {}

    def fell(self, *, repeated: bool, alone: bool) -> list[tuple[tuple[float, ...], float]]:
        """Give where runs fell in their distributions, with weights; the newest first."""
        made = []
        weight = 1.0
        for entry in reversed(self.entries):
            given = entry.acting[2] if alone and entry.acting else entry.fell
            other = 1.0 if entry.repeated == repeated else self._settings.other
            made.append((given, weight * other))
            weight *= self._settings.fade
        return made

    def size(self, *, repeated: bool) -> float:
        """Count the entries; those on other counts (run or not) in part."""
        if repeated not in self._sizes:
            other = self._settings.other
            self._sizes[repeated] = sum(
                1.0 if entry.repeated == repeated else other for entry in self.entries
            )
        return self._sizes[repeated]

    def trials(self, expert: int, *, repeated: bool) -> tuple[list[float], list[float]]:
        """Give the weighted accuracies of an expert on such predictions, and the weights."""
        if (repeated, expert) not in self._trials:
            alike = [e.errors[expert] for e in reversed(self.entries) if e.repeated == repeated]
            fading = accumulate(repeat(self._settings.fade, len(alike)), mul, initial=1.0)
            given = [(e, w) for e, w in zip(alike, fading, strict=False) if e is not None]
            accuracies = [weight * math.exp(-abs(error)) for error, weight in given]
            self._trials[repeated, expert] = accuracies, [weight for _, weight in given]
        return self._trials[repeated, expert]

    def spread(self, expert: int, *, repeated: bool) -> _Spread:
        """Give how far predictions of an expert were off."""
        if (repeated, expert) not in self._spreads:
            errors = []
            weight = 1.0
            for entry in reversed(self.entries):
                own = weight * (1.0 if entry.repeated == repeated else self._settings.other)
                errors.append((entry.error_of(expert), own))
                weight *= self._settings.fade
            total = sum(w * math.log(abs(e) + 0.01) for e, w in errors)
            self._spreads[repeated, expert] = _Spread(
                total,
                sum(w for _, w in errors),
                np.array(sorted(errors)).reshape(-1, 2),
                sorted([(abs(e), w) for e, w in errors]),
            )
        return self._spreads[repeated, expert]


class Calibrator:
    """What is believed of one identity at one moment.

    entries: its record until then.
    same: its runs are taken to be one application on one problem.
    level: share of runs that intervals shall hold.
    """

    def __init__(
        self,
        entries: Sequence[records.RecordEntry] | _OwnErrors,
        pooled: records.PooledErrors,
        settings: BacktestSettings,
        *,
        same: bool,
        level: float = records.LEVEL,
    ) -> None:
        need_share("level", level)
        self._outside = 0.5 - level / 2
        own = entries if isinstance(entries, _OwnErrors) else _OwnErrors(entries, settings)
        self._own = own
        self._pooled = pooled
        self._settings = settings
        self._same = same
        self._level = level
        self._chosen: dict[tuple[str, tuple[bool, ...]], int] = {}
        self._weights: dict[tuple[str, tuple[bool, ...]], list[tuple[int, float]]] = {}
        self._expectations: dict[tuple[bool, int, bool, float], _Expected] = {}
        self._parts: dict[bool, tuple[Floats, tuple[float, float]]] = {}

    def with_pooled(self, pooled: records.PooledErrors) -> "Calibrator":
        """Give the calibrator of the same record with the errors of another site."""
        return Calibrator(self._own, pooled, self._settings, same=self._same, level=self._level)

    def judge(self, guesses: Guesses) -> JudgedPrediction:
        """Believe one of the guesses, or all by their records, and say how far."""
        log_s, kind = self._believed(guesses)
        if (expected := self._expectations.get(kind)) is None:
            expected = self._expectations[kind] = self._expect(*kind)
        weights, shares = self._calibrated(repeated=kind[0])
        least = max(log_s - _WIDEST, min(log_s, 0.0))
        most = log_s + _WIDEST
        mixed = mixture(
            guesses.samples,
            log_s + expected.errors,
            expected.weights,
            (least, min(most, max(guesses.longest, log_s))),
        )
        low, high = mixed.quantiles(shares, weights)
        if self._settings.averaged and guesses.samples is not None:
            first, last = guesses.samples.averaged(low, high, self._outside)
            # Runs that all took longer, or all less, than is expected say nothing of that end.
            low = first if first < log_s else low
            high = last if last > log_s else high
        return JudgedPrediction(
            log_s=log_s,
            low=min(low, log_s),
            high=max(high, log_s),
            half=expected.half,
            width=expected.width,
            scale=expected.scale,
            size=expected.size,
            expert=kind[1],
            guesses=guesses,
            mixture=(mixed, weights),
        )

    def _calibrated(self, *, repeated: bool) -> tuple[Floats, tuple[float, float]]:
        """Weights of the components of a distribution, and the shares of its interval's ends."""
        if repeated not in self._parts:
            site = self._pooled
            side = self._side(repeated=repeated)
            size = self._own.size(repeated=repeated)
            own = self._own.fell(repeated=repeated, alone=site.alone)
            weights = believed(
                ((fell[1:], weight) for fell, weight in own), site.of_size(site.scores, side, size)
            )
            pits = [(fell[0], weight) for fell, weight in own]
            shares = calibrated(self._outside, pits, site.of_size(site.fell, side, size))
            self._parts[repeated] = weights, shares
        return self._parts[repeated]

    def _believed(self, guesses: Guesses) -> tuple[float, tuple[bool, int, bool, float]]:
        """Give the log run time that is believed, and what its errors depend on."""
        curve = guesses.curve is not None
        named = records.class_of(same=self._same, repeats=guesses.repeats, curve=curve)
        chosen = self._same or not self._settings.mixed
        expert = self._expert(named, guesses) if chosen else experts.MIXED
        log_s = guesses.logs[expert] if chosen else self._mixed(named, guesses)
        assert log_s is not None
        return log_s, (guesses.repeats > 0, expert, curve, self._expected(named, guesses))

    def evident(self, judged: JudgedPrediction) -> bool:
        """Whether a record, its own or the site's, says anything of such predictions."""
        repeated = judged.guesses.repeats > 0
        return judged.size >= 1.0 or self._pooled.has(self._side(repeated=repeated))

    def reliable(self, judged: JudgedPrediction) -> bool:
        """Whether such predictions were within 20 % nine times in ten, and within 5 % half."""
        widest = self._pooled.fresh if judged.size < records.ENOUGH else self._pooled.reliable
        return judged.width <= min(widest, records.GOOD) and judged.half <= records.HALF_GOOD

    def _expect(self, repeated: bool, expert: int, curve: bool, expected: float) -> _Expected:  # noqa: FBT001 - a key
        site = self._pooled
        side = self._side(repeated=repeated)
        own = self._own.spread(expert, repeated=repeated)
        size = self._own.size(repeated=repeated)
        prior = self._settings.expected
        scale = math.exp((prior * math.log(expected) + own.total) / (prior + own.weight))
        units = site.units_of(side, size, curve=curve)
        half, width = self._widths(scale, size, own, units)
        # The site's errors count twice: as they are, and in units of what was expected.
        errors = site.of_size(site.errors, side, size)
        given = len(units) + len(errors)
        share = self._settings.pooled / (1 + size / _HALF_TAILS) / given
        return _Expected(
            errors=np.concatenate((own.errors[:, 0], scale * _array(units), _array(errors))),
            weights=np.concatenate((own.errors[:, 1], np.full(given, share))),
            half=half,
            width=width,
            scale=scale,
            size=size,
        )

    def _widths(
        self, scale: float, size: float, own: _Spread, units: tuple[float, ...]
    ) -> tuple[float, float]:
        """Give the errors that half and nine in ten stay below; ``units`` of scale: the site's."""
        far = [(one / scale, weight) for one, weight in own.sizes]
        share = self._settings.pooled / (1 + size / _HALF_VERDICT) / len(units)
        every = sorted([*far, *zip(_far(units), repeat(share), strict=False)])
        half, width = (scale * unit for unit in records.quantiles(every, *_JUDGED))
        if size < records.ENOUGH:
            return half, width
        # A site's good record does not make up for the bad one of an application.
        least = [scale * unit for unit in records.quantiles(far, *_JUDGED)]
        return max(half, least[0]), max(width, least[1])

    def _side(self, *, repeated: bool) -> str:
        return records.side_of(same=self._same, repeated=repeated)

    def _expert(self, named: str, guesses: Guesses) -> int:
        """Choose by the accuracy that the record of identity and site shows."""
        said = tuple(log is not None for log in guesses.logs)
        if (named, said) not in self._chosen:
            trials = self._trials(named, guesses)
            self._chosen[named, said] = max(trials, key=lambda one: one[1] / one[2])[0]
        return self._chosen[named, said]

    def _mixed(self, named: str, guesses: Guesses) -> float:
        """Log run time that is most accurate where each expert is as likely right as it earned.

        Weights fall exponentially with what an expert lost (Vovk, *Aggregating strategies*, 1990;
        Cesa-Bianchi and Lugosi, *Prediction, Learning, and Games*, 2006, section 2.2): the mixture
        is never much worse than the best of them.
        """
        said = tuple(log is not None for log in guesses.logs)
        if (weights := self._weights.get((named, said))) is None:
            trials = list(self._trials(named, guesses))
            most = max(total for _, total, _ in trials)
            rate = self._settings.learning
            weights = [(n, math.exp(rate * (total - most))) for n, total, _ in trials]
            self._weights[named, said] = weights
        given = [(log_s, w) for n, w in weights if (log_s := guesses.logs[n]) is not None]
        return max(
            (sum(w * math.exp(-abs(one - other)) for other, w in given), -i, one)
            for i, (one, _) in enumerate(given)
        )[2]

    def _trials(self, named: str, guesses: Guesses) -> Iterator[tuple[int, float, float]]:
        """Give each expert, its accuracies' weighted sum less the margin, and the weights' sum."""
        repeated = guesses.repeats > 0
        settings = self._settings
        usual = experts.ALIKE if repeated or guesses.curve is None else experts.CURVE
        pooled = self._pooled.accuracies.get(named)
        for expert, log_s in enumerate(guesses.logs):
            if log_s is None:
                continue
            believed = pooled[expert] if pooled else None
            accuracies, each = self._own.trials(expert, repeated=repeated)
            total = sum(accuracies, settings.believed * (0.6 if believed is None else believed))
            weights = sum(each, settings.believed)
            margin = settings.margin * weights if expert != usual else 0.0
            yield expert, total - margin, weights

    def _expected(self, named: str, guesses: Guesses) -> float:
        """Size of errors that is expected without any own: that of the curve, or of the class."""
        if guesses.curve is not None:
            return max(guesses.curve[1] / _NINE_IN_TEN, 0.01)
        settings = self._settings
        plain = settings.scale if self._same else settings.scale_many
        return self._pooled.scales.get(named, plain)


@lru_cache(maxsize=128)
def _array(errors: tuple[float, ...]) -> Floats:
    """Give errors of a site as an array; they serve all its identities."""
    return np.array(errors, dtype=float)


@lru_cache(maxsize=64)
def _far(units: tuple[float, ...]) -> tuple[float, ...]:
    """Give sizes of errors, rising; those of a site serve all its identities."""
    return tuple(sorted(map(abs, units)))
