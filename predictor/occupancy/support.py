"""What samples support: the range of each attribute, and which attributes they distinguish.

A regression answers for any assignment, also where no run says anything.  Its learned functions
"may be inaccurate outside of the sampled range" (Shivam, Babu, Chase, ICAC 2006, section V.B.4),
and attributes that always changed together have no effect of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, log1p

import numpy as np
from numpy.typing import NDArray

from predictor.checks import need_positive
from predictor.types import Verdict

Floats = NDArray[np.float64]
#: Share of the sampled range by which an assignment may be beyond it and is doubtful; refused
#: farther away.
FAR = 0.5
#: Directions in which standardised attributes spread less than this, beside the widest one.
_NARROW = 0.03
#: Standard deviations by which an assignment may leave the directions that were sampled.
_OFF = 0.3
_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why an answer is not to be relied on; ``off`` is how much further it may be off (log)."""

    verdict: Verdict
    text: str
    off: float = 0.0


@dataclass(frozen=True, slots=True)
class Scale:
    """Directions of standardised attributes in which the samples do not spread."""

    logarithmic: bool
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    missing: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Support:
    """Sampled range of each attribute, and what the samples do not distinguish.

    ``varied`` are the attributes that differ between samples, ``inverse`` those whose reciprocal is
    in a learned function.
    """

    bounds: dict[str, tuple[float, float]]
    varied: tuple[str, ...] = ()
    scales: tuple[Scale, ...] = ()
    inverse: tuple[str, ...] = ()

    def doubts(self, asked: Mapping[str, float]) -> tuple[Doubt, ...]:
        """List the reasons for which an assignment is not supported; attributes may be missing.

        Raises ValueError: an attribute is not above zero and finite.
        """
        given = {name: asked[name] for name in self.bounds if name in asked}
        for name, value in given.items():
            need_positive(f"attribute {name}", value)
        doubts = [one for name, value in given.items() if (one := self._beyond(name, value))]
        if all(name in given for name in self.varied) and (one := self._together(given)):
            doubts.append(one)
        return tuple(doubts)

    def _beyond(self, name: str, value: float) -> Doubt | None:
        low, high = self.bounds[name]
        far = beyond(value, low, high, inverse=name in self.inverse)
        if far <= _SAME:
            return None
        verdict = Verdict.DOUBTFUL if far <= FAR + _SAME else Verdict.REFUSED
        ran = f"with {low:.6g}" if low == high else f"from {low:.6g} to {high:.6g}"
        return Doubt(verdict, f"{name} {value:.6g} is outside what was run, {ran}", log1p(far))

    def _together(self, given: Mapping[str, float]) -> Doubt | None:
        for scale in self.scales:
            values = np.array([given[name] for name in self.varied])
            values = np.log(values) if scale.logarithmic else values
            apart = (values - scale.mean) / np.array(scale.spread)
            for direction in scale.missing:
                if abs(float(apart @ np.array(direction))) > _OFF:
                    parts = zip(self.varied, direction, strict=True)
                    names = [name for name, part in parts if abs(part) > _OFF]
                    text = f"{' and '.join(names)} only changed together in what was run"
                    return Doubt(Verdict.REFUSED, text)
        return None


def supported(samples: Sequence[Mapping[str, float]], names: Sequence[str]) -> Support:
    """Work out what samples support.

    samples: attributes of each, at least one sample.
    names: attributes to look at; all samples have them, above zero.
    """
    if not samples or not names:
        return Support({})
    for one in samples:
        for name in names:
            need_positive(f"attribute {name}", one.get(name))
    values = np.array([[one[name] for name in names] for one in samples], float)
    low, high = values.min(axis=0), values.max(axis=0)
    bounds = dict(zip(names, zip(low.tolist(), high.tolist(), strict=True), strict=True))
    moved = [i for i in range(len(names)) if high[i] > low[i] * (1 + _SAME)]
    if len(moved) < 2:
        return Support(bounds, tuple(names[i] for i in moved))
    chosen = values[:, moved]
    both = (_scale(np.log(chosen), logarithmic=True), _scale(chosen, logarithmic=False))
    scales = tuple(one for one in both if one.missing)
    return Support(bounds, tuple(names[i] for i in moved), scales)


def _scale(values: Floats, *, logarithmic: bool) -> Scale:
    mean, spread = values.mean(axis=0), values.std(axis=0)
    apart = (values - mean) / spread
    variances, directions = np.linalg.eigh(apart.T @ apart)
    narrow = directions.T[variances < _NARROW**2 * variances[-1]]
    missing = tuple(tuple(row) for row in narrow.tolist())
    return Scale(logarithmic, tuple(mean.tolist()), tuple(spread.tolist()), missing)


def beyond(value: float, low: float, high: float, *, inverse: bool = False) -> float:
    """Distance of a value from a sampled range, as a share of the range; 0 within it.

    Above the range by ratios: from 1 to 8 nodes, 64 are a range away.  Below it by twice the
    difference: latencies may be near zero.  Where a function has the ``inverse`` of the value,
    ratios count below as well: it grows without bound there.  Where the range is a single value,
    twice or half of it is as far as half a range.

    >>> beyond(64.0, 1.0, 8.0), beyond(0.5, 1.0, 2.0), beyond(4.0, 2.0, 2.0)
    (1.0, 1.0, 0.5)
    """
    need_positive("attribute", value, low, high)
    if low > high:
        raise ValueError(f"a range from {low} to {high}: it must not fall")
    if low <= value <= high:
        return 0.0
    if high <= low * (1 + _SAME):
        return abs(log(value / low)) / log(2.0) / 2
    if value > high:
        return log(value / high) / log(high / low)
    ratio = log(low / value) / log(high / low) if inverse else 0.0
    return max(2 * (low - value) / (high - low), ratio)


def judged(doubts: Sequence[Doubt]) -> Verdict:
    """Give the worst verdict of several doubts."""
    order = tuple(Verdict)
    return max((one.verdict for one in doubts), key=order.index, default=Verdict.RELIABLE)


def widening(doubts: Sequence[Doubt]) -> float:
    """Log factor by which an answer may be further off: as if time went with the distance."""
    return sum(one.off for one in doubts)
