"""Quantiles of what was cut off for some: the product-limit estimate.

An observation that was cut off says that the value is as large or larger.  The estimate of the
share that a value does not exceed is a product over the observations that were not cut off
(Kaplan and Meier, Journal of the American Statistical Association 53, 1958, eq. 2a).  Where the
largest observations were cut off, it never reaches one: high quantiles are beyond all that was
seen.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from predictor.checks import need_finite

#: Shares are sums of many factors.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ProductLimit:
    """The estimate: ``values`` rise, and ``reached`` is the share that does not exceed each."""

    values: tuple[float, ...]
    reached: tuple[float, ...]

    @classmethod
    def of(cls, observations: Iterable[tuple[float, bool]]) -> "ProductLimit":
        """Estimate from pairs of a value and whether it was cut off there.

        At equal values those that were not cut off count first, as the authors have it.

        Raises ValueError: a value is not finite.
        """
        ordered = sorted(observations)
        need_finite("observation", *(value for value, _ in ordered))
        values: list[float] = []
        reached: list[float] = []
        beyond = 1.0
        for place, (value, cut_off) in enumerate(ordered):
            if cut_off:
                continue
            beyond *= 1 - 1 / (len(ordered) - place)
            values.append(value)
            reached.append(1 - beyond)
        return cls(tuple(values), tuple(reached))

    def quantile(self, share: float) -> float | None:
        """Smallest value that ``share`` does not exceed; None: it is beyond all that was seen.

        Raises ValueError: the share is not finite, or negative.

        >>> ProductLimit.of([(1.0, False), (2.0, False), (3.0, True)]).quantile(0.5)
        2.0
        >>> ProductLimit.of([(1.0, False), (2.0, True), (3.0, True)]).quantile(0.5) is None
        True
        """
        need_finite("share", share, least=0)
        place = bisect_left(self.reached, share - _ROUNDING)
        return self.values[place] if place < len(self.values) else None

    def median(self) -> float | None:
        """Median; between two values that half reach it is their mean.  None: beyond what was seen.

        >>> ProductLimit.of([(10.0, False), (11.0, True), (12.0, False)]).median()
        12.0
        """
        low = self.quantile(0.5)
        high = self.quantile(0.5 + 2 * _ROUNDING)
        return None if low is None or high is None else (low + high) / 2
