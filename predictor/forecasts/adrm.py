"""From the probes of a path to the throughput of the next transfer: RBW and AdRM.

M. Faerman, A. Su, R. Wolski, F. Berman, *Adaptive Performance Prediction for Distributed
Data-Intensive Applications*, SC 1999.  A 64 KiB probe does not measure what a transfer of 16 MB
will reach, but both go up and down together: RBW takes the transfer to be as fast as the probe
(section 3), AdRM fits a line from probe to transfer anew over a window of the latest pairs before
each prediction (section 4, appendix A).  Throughputs are bytes per second; a line has no scale, so
any other unit will do.

The paper leaves the load of the server to later work (section 5).  Here it is one more regressor
where it was measured, as the share of a CPU that a new process gets there.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from statistics import covariance, fmean, linear_regression, median

from predictor.checks import need_finite, need_positive

#: Lengths of the running window that are tried: the paper found errors flat from 8 to 20 pairs.
WINDOWS = (4, 6, 8, 10, 12, 15, 20, 30)
#: Numbers of latest transfers whose mean is tried, too.
MEANS = (1, 2, 4, 8, 15, 30)
#: Lengths of the window that a plane over probe and load is fitted to, and pairs that it needs.
PLANES = (8, 12, 20, 30)
_LEAST_OF_PLANE = 5
#: Probes and shares that go together this closely have no plane.
_FLAT = 1e-6
#: Pairs before the first prediction ("start-up window").
START_UP = 2
#: A prediction is held within this factor of what the window has seen.
_BEYOND = 2.0
#: How much of its weight a way's past error, and a pair of a line, keeps with each new pair.
_MEMORY = 0.9
_FADING = 0.8
#: Own errors that the interval is made of, and how many make it trustworthy.
_RECENT = 100
_FEW = 10


@dataclass(frozen=True, slots=True)
class Throughput:
    """Predicted throughput, from ``low`` to ``high`` in nine of ten cases."""

    value: float
    low: float
    high: float
    window: int | None = None  #: pairs that it was made of; None: no window
    tried: int = 0  #: past predictions that the bounds and the error are made of
    error: float = inf  #: their mean absolute error, as a share of what was measured

    def seconds(self, size_bytes: float) -> tuple[float, float, float]:
        """Time of a transfer of ``size_bytes``: expected, shortest and longest of nine in ten.

        Raises ValueError: the size is not finite, or below zero.
        """
        need_finite("size in bytes", size_bytes, least=0)
        return tuple(  # type: ignore[return-value]
            size_bytes / speed if speed > 0 else inf for speed in (self.value, self.high, self.low)
        )


def together(probes: Sequence[float]) -> float:
    """Make one of several probes at short intervals: the fastest.

    They say more about a long transfer than one does (section 5).  What delays a small probe, such
    as a queue that another flow has filled, often delays nothing else; hardly anything makes it
    faster than the link is for it.

    Raises ValueError: there is no probe, or one is not finite and above zero.

    >>> together([210.0, 250.0, 30.0, 240.0])
    250.0
    """
    if not probes:
        raise ValueError("no probe to make one of")
    need_positive("throughput", *probes)
    return max(probes)


class PastErrors:
    """Ratios of measured to predicted, for an interval."""

    def __init__(self) -> None:
        self._latest: deque[float] = deque(maxlen=_RECENT)

    def add(self, predicted: float, measured: float) -> None:
        """Take what was predicted and what came."""
        if predicted > 0 and measured > 0:
            self._latest.append(measured / predicted)

    def around(self, value: float, window: int | None = None) -> Throughput:
        """Put the bounds around a prediction that held for nine of ten past ones."""
        ratios = sorted(self._latest)
        # A published line may fall below zero.
        low, high = sorted(value * bound for bound in _bounds(ratios))
        error = fmean(abs(1 - 1 / ratio) for ratio in ratios) if ratios else inf
        return Throughput(value, low, high, window, len(ratios), error)


def _bounds(ratios: list[float]) -> tuple[float, float]:
    """Bounds that held for nine of ten of these sorted ratios; wide ones while there are few."""
    if len(ratios) < _FEW:
        factor = max([_BEYOND, *(max(ratio, 1 / ratio) for ratio in ratios)])
        return 1 / factor, factor
    cut = (len(ratios) + 1) // 20
    low = ratios[max(cut - 1, 0)]
    high = ratios[min(len(ratios) - cut, len(ratios) - 1)]
    return min(low, 1.0), max(high, 1.0)


class RawBandwidth:
    """RBW: the transfer is as fast as the probe was."""

    def __init__(self) -> None:
        self._errors = PastErrors()

    def update(self, probe: float, transfer: float, share: float | None = None) -> None:
        """See :class:`AdRM`; the load plays no part."""
        del share
        need_positive("throughput", probe, transfer)
        self._errors.add(probe, transfer)

    def predict(self, probe: float, share: float | None = None) -> Throughput:
        """See :class:`AdRM`; the load plays no part."""
        del share
        need_positive("throughput", probe)
        return self._errors.around(probe)


class AdRM:
    """Adaptive Regression Modeling.

    window: length of the running window, over which a line is fitted by least squares, as
        published: it goes on beyond what was seen, and below zero. None: before each prediction a
        way is chosen, by the errors that each would have made so far, of which old ones count less.
        The ways are lines over each of :data:`WINDOWS`, with all pairs alike and with new ones
        counting more, which beyond the window's probes go on in proportion to the probe; lines
        through the origin, which a few probes that met a full queue do not bend; and, for paths on
        which small probes say little, means of the latest transfers.  Where the load was measured,
        each is tried once more on transfers per share of a CPU, and so are planes over probe and
        share.  All are held near what was seen.  The paper leaves the choice open.
    start_up: length of the start-up window: pairs before the first prediction, which is made of all
        of them.
    ways, misses: what is chosen among, and the errors that each would have made.
    Raises ValueError: a window is shorter than one pair.

    >>> model = AdRM()
    >>> for probe in (10.0, 12.0, 8.0, 11.0):
    ...     model.update(probe, 3 * probe + 2)
    >>> round(model.predict(9.0).value, 6)
    29.0
    """

    def __init__(self, window: int | None = None, *, start_up: int = START_UP) -> None:
        lengths = (start_up,) if window is None else (start_up, window)
        if not all(1 <= length < inf for length in lengths):
            raise ValueError(f"windows of {window} and {start_up} pairs: each needs one at least")
        kinds = (plain_line, fading_line, proportion)
        lines = [Way(kind, each) for kind in kinds for each in WINDOWS]
        means = [Way(mean_transfer, each) for each in MEANS]
        planes = [Plane(each) for each in PLANES]
        every: list[AnyWay] = [*lines, *means, *map(LoadWay, lines), *map(LoadWay, means), *planes]
        self.ways = [Way(line, window)] if window else every
        self._start_up = start_up
        self._held = window is None
        longest = max(start_up, *(way.window for way in self.ways))
        self._pairs: deque[_Pair] = deque(maxlen=longest)
        self._shares: deque[float | None] = deque(maxlen=longest)
        self._count = 0
        self.misses = dict.fromkeys(self.ways, 0.0)
        self._errors = PastErrors()

    def update(self, probe: float, transfer: float, share: float | None = None) -> None:
        """Take in the throughput of a probe and of the transfer after it.

        share: of a CPU that a new process got by then at the busier end; None: not measured.
        Raises ValueError: one of them is not finite and above zero; the model is as before.
        """
        need_positive("throughput", probe, transfer)
        if self._count >= self._start_up:
            predicted = self._by_all_ways(probe, share)
            best = predicted[self._best(predicted)]
            self._errors.add(best, transfer)
            for way in self.ways:
                # A way that could not be asked is taken to be as far off as the best one.
                off = abs(predicted.get(way, best) - transfer)
                self.misses[way] = _MEMORY * self.misses[way] + off
        self._pairs.append((probe, transfer))
        self._shares.append(share)
        self._count += 1

    def predict(self, probe: float, share: float | None = None) -> Throughput:
        """Throughput of the transfer after a probe.

        share: as of :meth:`update`, now.
        Raises ValueError: too few pairs were seen, or the probe is not finite and above zero.
        """
        need_positive("throughput", probe)
        if self._count < self._start_up:
            raise ValueError(
                f"{self._count} transfers with their probes; {self._start_up} are needed"
            )
        predicted = self._by_all_ways(probe, share)
        best = self._best(predicted)
        return self._errors.around(predicted[best], self._length(best))

    def _by_all_ways(self, probe: float, share: float | None) -> "dict[AnyWay, float]":
        """Read the transfer after ``probe`` from the last pairs, by each way that can."""
        values = ((way, self._by(way, probe, share)) for way in self.ways)
        return {way: value for way, value in values if value is not None}

    def _best(self, among: "Iterable[AnyWay]") -> "AnyWay":
        """Way with the smallest errors; the longest window, then the first, of those alike."""
        return min(among, key=lambda way: (self.misses[way], -way.window))

    def _by(self, way: "AnyWay", probe: float, share: float | None) -> float | None:
        first = len(self._pairs) - self._length(way)
        pairs = list(islice(self._pairs, first, None))
        value = way.predict(pairs, list(islice(self._shares, first, None)), probe, share)
        if not self._held or value is None:
            return value
        transfers = [transfer for _, transfer in pairs]
        return min(max(value, min(transfers) / _BEYOND), max(transfers) * _BEYOND)

    def _length(self, way: "AnyWay") -> int:
        """Pairs that count: at first those of the start-up window (appendix A)."""
        window = self._start_up if self._count == self._start_up else way.window
        return min(window, len(self._pairs))


_Pair = tuple[float, float]
_Shares = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Way:
    """How a transfer is read from the last ``window`` pairs and a probe."""

    read: Callable[[Sequence[_Pair], float], float]
    window: int

    def predict(
        self, pairs: Sequence[_Pair], shares: _Shares, probe: float, share: float | None
    ) -> float:
        """Read the transfer; the load plays no part."""
        del shares, share
        return self.read(pairs, probe)


@dataclass(frozen=True, slots=True)
class LoadWay:
    """A way on transfers per share of a CPU, for ends that are slower than their network."""

    way: Way

    @property
    def window(self) -> int:
        """Pairs of its window."""
        return self.way.window

    def predict(
        self, pairs: Sequence[_Pair], shares: _Shares, probe: float, share: float | None
    ) -> float | None:
        """Read the transfer; None: the load was not measured."""
        loaded = _loaded(pairs, shares)
        if not share or not loaded:
            return None
        return share * self.way.read([(probed, moved / at) for probed, at, moved in loaded], probe)


@dataclass(frozen=True, slots=True)
class Plane:
    """Least-squares plane over probe and share, for transfers that both slow down."""

    window: int

    def predict(
        self, pairs: Sequence[_Pair], shares: _Shares, probe: float, share: float | None
    ) -> float | None:
        """Read the transfer; None: the load was not measured, or goes along with the probe.

        Beyond what the window saw the plane is held, as few pairs say little about its slopes.
        """
        loaded = _loaded(pairs, shares)
        if not share or len(loaded) < _LEAST_OF_PLANE:
            return None
        x, y, z = zip(*loaded, strict=True)
        xx = covariance(x, x)
        yy = covariance(y, y)
        xy = covariance(x, y)
        xz = covariance(x, z)
        yz = covariance(y, z)
        determinant = xx * yy - xy * xy
        if not determinant > _FLAT * xx * yy:
            return None
        by_probe = (xz * yy - yz * xy) / determinant
        by_share = (yz * xx - xz * xy) / determinant
        probe = min(max(probe, min(x)), max(x))
        share = min(max(share, min(y)), max(y))
        return fmean(z) + by_probe * (probe - fmean(x)) + by_share * (share - fmean(y))


AnyWay = Way | LoadWay | Plane


def _loaded(pairs: Sequence[_Pair], shares: _Shares) -> list[tuple[float, float, float]]:
    """Give probe, share and transfer of the pairs whose share is known."""
    return [
        (probe, share, transfer)
        for (probe, transfer), share in zip(pairs, shares, strict=True)
        if share
    ]


def line(pairs: Sequence[_Pair], probe: float) -> float:
    """Least-squares line through the pairs at ``probe``; their mean where the probes are alike.

    pairs: a probe and the transfer after it, one pair at least, as throughputs.
    probe: throughput of the probe before the transfer that is predicted.
    """
    probes, transfers = zip(*pairs, strict=True)
    if min(probes) == max(probes):
        return fmean(transfers)
    slope, intercept = linear_regression(probes, transfers)
    return slope * probe + intercept


def plain_line(pairs: Sequence[_Pair], probe: float) -> float:
    """Least-squares line; beyond the probes of the pairs in proportion to the probe."""
    held = _held(pairs, probe)
    return line(pairs, held) * _share(probe, held)


def fading_line(pairs: Sequence[_Pair], probe: float) -> float:
    """Do the same with weights: each pair counts less than the one after it."""
    probes = [x for x, _ in pairs]
    transfers = [y for _, y in pairs]
    weights: list[float] = [_FADING**age for age in range(len(pairs) - 1, -1, -1)]
    middle = fmean(probes, weights)
    level = fmean(transfers, weights)
    held = _held(pairs, probe)
    spread = sum(w * (x - middle) ** 2 for w, x in zip(weights, probes, strict=True))
    common = sum(w * (x - middle) * (y - level) for w, (x, y) in zip(weights, pairs, strict=True))
    slope = common / spread if min(probes) < max(probes) and spread > 0 else 0.0
    return (level + slope * (held - middle)) * _share(probe, held)


def proportion(pairs: Sequence[_Pair], probe: float) -> float:
    """Line through the origin whose slope is the median of all pairs' ratios."""
    ratios = [transfer / probed for probed, transfer in pairs if probed > 0]
    return probe * median(ratios) if ratios else mean_transfer(pairs, probe)


def _held(pairs: Sequence[_Pair], probe: float) -> float:
    """Hold a probe within those of the pairs: few pairs say little about the slope beyond them."""
    return min(max(probe, min(x for x, _ in pairs)), max(x for x, _ in pairs))


def _share(probe: float, held: float) -> float:
    return probe / held if held > 0 else 1.0


def mean_transfer(pairs: Sequence[_Pair], _probe: float) -> float:
    """Mean of the latest transfers."""
    return fmean(transfer for _, transfer in pairs)
