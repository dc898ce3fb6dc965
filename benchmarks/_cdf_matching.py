"""CDF matching, a peer of AdRM.

M. Swany, R. Wolski, *Multivariate Resource Performance Forecasting in the Network Weather Service*,
SC 2002.
"""

from bisect import bisect_left, bisect_right, insort

from predictor.checks import need_positive
from predictor.forecasts.adrm import PastErrors, Throughput


class CdfMatching:
    """The transfer has the place among transfers that the probe has among probes."""

    def __init__(self) -> None:
        self._probes: list[float] = []
        self._transfers: list[float] = []
        self._errors = PastErrors()

    def update(self, probe: float, transfer: float) -> None:
        """See `predictor.forecasts.adrm.AdRM`."""
        need_positive("throughput", probe, transfer)
        if self._probes:
            self._errors.add(self._match(probe), transfer)
        insort(self._probes, probe)
        insort(self._transfers, transfer)

    def predict(self, probe: float) -> Throughput:
        """See `predictor.forecasts.adrm.AdRM`."""
        need_positive("throughput", probe)
        if not self._probes:
            raise ValueError("no transfer seen with its probe: nothing to match")
        return self._errors.around(self._match(probe))

    def _match(self, probe: float) -> float:
        left, right = bisect_left(self._probes, probe), bisect_right(self._probes, probe)
        count = len(self._transfers)
        place = min(max((left + right - 1) / 2, 0.0), count - 1.0)
        low = int(place)
        high = min(low + 1, count - 1)
        share = place - low
        return (1 - share) * self._transfers[low] + share * self._transfers[high]
