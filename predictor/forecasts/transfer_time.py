"""How long a transfer between two hosts will take, by what was measured between them.

The probes of the path are paired with the past transfers that followed them, and AdRM (Faerman, Su,
Wolski, Berman 1999) reads the next transfer from the newest probe.  Where there are only probes it
is RBW, which is to be doubted; where there are only transfers, the forecaster bank of the NWS.

A 64 KiB probe does not measure what a transfer of 16 MB will reach, but both go up and down
together: RBW takes the transfer to be as fast as the probe (SC 1999, section 3), AdRM fits a line
from probe to transfer anew over a window of the latest pairs before each prediction (section 4,
appendix A).  Throughputs are bytes per second; a line has no scale, so any other unit will do.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from statistics import fmean, linear_regression, median

from predictor.checks import LARGEST, SMALLEST, need_finite, need_positive
from predictor.forecasts.forecasters import Bank
from predictor.problems import Problem, problem
from predictor.types import Verdict
from sacct_ingest.records import Probe, Resource

#: Lengths of the running window that are tried: the paper found errors flat from 8 to 20 pairs.
WINDOWS = (4, 6, 8, 10, 12, 15, 20, 30)
#: Numbers of latest transfers whose mean is tried, too.
MEANS = (1, 2, 4, 8, 15, 30)
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
    low, high = ratios[max(cut - 1, 0)], ratios[min(len(ratios) - cut, len(ratios) - 1)]
    return min(low, 1.0), max(high, 1.0)


class RawBandwidth:
    """RBW: the transfer is as fast as the probe was."""

    def __init__(self) -> None:
        self._errors = PastErrors()

    def update(self, probe: float, transfer: float) -> None:
        """See :class:`AdRM`."""
        need_positive("throughput", probe, transfer)
        self._errors.add(probe, transfer)

    def predict(self, probe: float) -> Throughput:
        """See :class:`AdRM`."""
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
        which small probes say little, means of the latest transfers.  All are held near what was
        seen.  The paper leaves the choice open.
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
        every = [*lines, *(Way(mean_transfer, each) for each in MEANS)]
        self.ways = every if window is None else [Way(line, window)]
        self._start_up, self._held = start_up, window is None
        longest = max(start_up, *(way.window for way in self.ways))
        self._pairs: deque[_Pair] = deque(maxlen=longest)
        self._count = 0
        self.misses = dict.fromkeys(self.ways, 0.0)
        self._errors = PastErrors()

    def update(self, probe: float, transfer: float) -> None:
        """Take in the throughput of a probe and of the transfer after it.

        Raises ValueError: one of them is not finite and above zero; the model is as before.
        """
        need_positive("throughput", probe, transfer)
        if self._count >= self._start_up:
            said = {way: self._by(way, probe) for way in self.ways}
            self._errors.add(said[self._best()], transfer)
            for way, value in said.items():
                self.misses[way] = _MEMORY * self.misses[way] + abs(value - transfer)
        self._pairs.append((probe, transfer))
        self._count += 1

    def predict(self, probe: float) -> Throughput:
        """Throughput of the transfer after a probe.

        Raises ValueError: too few pairs were seen, or the probe is not finite and above zero.
        """
        need_positive("throughput", probe)
        if self._count < self._start_up:
            raise ValueError(
                f"{self._count} transfers with their probes; {self._start_up} are needed"
            )
        best = self._best()
        return self._errors.around(self._by(best, probe), self._length(best))

    def _best(self) -> "Way":
        """Way with the smallest errors; the longest window, then the first, of those alike."""
        return min(self.ways, key=lambda way: (self.misses[way], -way.window))

    def _by(self, way: "Way", probe: float) -> float:
        """Read the transfer after ``probe`` from the last pairs."""
        pairs = list(islice(self._pairs, len(self._pairs) - self._length(way), None))
        value = way.read(pairs, probe)
        if not self._held:
            return value
        transfers = [transfer for _, transfer in pairs]
        return min(max(value, min(transfers) / _BEYOND), max(transfers) * _BEYOND)

    def _length(self, way: "Way") -> int:
        """Pairs that count: at first those of the start-up window (appendix A)."""
        window = self._start_up if self._count == self._start_up else way.window
        return min(window, len(self._pairs))


_Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Way:
    """How a transfer is read from the last ``window`` pairs and a probe."""

    read: Callable[[Sequence[_Pair], float], float]
    window: int


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
    probes, transfers = [x for x, _ in pairs], [y for _, y in pairs]
    weights: list[float] = [_FADING**age for age in range(len(pairs) - 1, -1, -1)]
    middle, level = fmean(probes, weights), fmean(transfers, weights)
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


#: Share of the measurements that the interval is to hold.
LEVEL = 0.9
#: Probes so shortly before a transfer are taken together.
TOGETHER_S = 60.0
#: An older probe says nothing about now.
STALE_S = 3600.0
#: Transfers whose sizes differ by no more than this factor reach alike throughputs.
ALIKE = 4.0
#: Past predictions, and the mean error of them, from which on a time is reliable.
_ENOUGH = 10
_SMALL_ERROR = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferTime:
    """Time of one transfer, from ``low_s`` to ``high_s`` at :data:`LEVEL`.

    Without data the verdict is ``refused`` and all three times are infinite.
    """

    source: str
    target: str
    size_bytes: float
    time_s: float = inf
    low_s: float = inf
    high_s: float = inf
    verdict: Verdict = Verdict.REFUSED
    problems: tuple[Problem, ...] = ()
    method: str = ""  #: ``AdRM``, ``RBW``, or the name of a forecaster
    transfers: int = 0  #: past transfers that it is made of
    probe_bytes_per_s: float | None = None  #: what the newest probes saw
    error: float = inf  #: mean error of the method on the past transfers, as a share


@dataclass(frozen=True, slots=True)
class _MeasuredPair:
    """A past transfer, and what the probes before it saw; None: there were none."""

    transfer: float
    probe: float | None


def transfer_time(
    series: Iterable[Probe], size_bytes: float, source: str, target: str, *, now_s: float
) -> TransferTime:
    """Predict the time of a transfer.

    series: measurements in any order, also of other hosts and resources: what counts are those of
        ``bandwidth`` and ``transfer`` from ``source`` to ``target`` until ``now_s``.
    size_bytes: what is to be moved; nothing takes no time.
    source, target: names of the hosts as the series have them.
    now_s: when it starts, seconds since the epoch.
    Raises ValueError: ``size_bytes`` or ``now_s`` is not a finite number.
    """
    need_finite("size in bytes", size_bytes)
    need_finite("begin of the transfer", now_s)
    asked = TransferTime(source=source, target=target, size_bytes=size_bytes)
    if size_bytes <= 0 or source == target:
        return _made(asked, Throughput(inf, inf, inf, None, _ENOUGH, 0.0), "nothing to move", ())
    probes, transfers = _of_path(series, source, target, now_s)
    nearest = min((_size(each) for each in transfers), key=_off(size_bytes), default=size_bytes)
    foreign = _off(size_bytes)(nearest) > ALIKE
    unlike = problem("other_sizes", megabytes=size_bytes / 1e6)
    problems = (unlike,) if foreign else ()
    off = _off(nearest if foreign else size_bytes)
    alike = [each for each in transfers if off(_size(each)) <= ALIKE]
    pairs = [_MeasuredPair(each.value or 0.0, _latest_value(probes, each.at_s)) for each in alike]
    return _by_best_method(asked, pairs, _latest_value(probes, now_s), problems)


def _by_best_method(
    asked: TransferTime,
    pairs: Sequence[_MeasuredPair],
    probe: float | None,
    problems: tuple[Problem, ...],
) -> TransferTime:
    paired = [(each.probe, each.transfer) for each in pairs if each.probe is not None]
    count = len(pairs)
    if probe is not None and paired:
        model = AdRM(start_up=1)
        for pair in paired:
            model.update(*pair)
        return _made(asked, model.predict(probe), "AdRM", problems, len(paired), probe)
    if pairs:
        problems = (*problems, _on("no_probe", asked))
        return _made(asked, *_by_bank([each.transfer for each in pairs]), problems, count, probe)
    if probe is not None:
        made = RawBandwidth().predict(probe)
        return _made(asked, made, "RBW", (_on("no_transfer", asked),), 0, probe)
    return _made(asked, None, "", (_on("nothing_measured", asked),))


def _by_bank(transfers: Sequence[float]) -> tuple[Throughput, str]:
    """Forecast from past transfers alone."""
    bank = Bank()
    for value in transfers:
        bank.update(value)
    made = bank.forecast()
    least = min(transfers) / 2
    low, high = max(made.low, least), min(made.high, 2 * max(transfers))
    error = made.error / fmean(transfers) if len(transfers) > 1 else inf
    return Throughput(made.value, low, high, None, len(transfers) - 1, error), made.by


def _made(
    asked: TransferTime,
    made: Throughput | None,
    method: str,
    problems: tuple[Problem, ...],
    transfers: int = 0,
    probe: float | None = None,
) -> TransferTime:
    """Put a throughput and what speaks against it into a time with its verdict."""
    size = max(asked.size_bytes, 0.0)
    expected, shortest, longest = made.seconds(size) if made else (inf, inf, inf)
    if made and transfers and (made.tried < _ENOUGH or made.error > _SMALL_ERROR):
        few = problem("few_transfers", tried=made.tried, enough=_ENOUGH)
        erratic = problem("erratic", error=made.error)
        problems = (*problems, few if made.tried < _ENOUGH else erratic)
    believed = Verdict.DOUBTFUL if problems else Verdict.RELIABLE
    return TransferTime(
        source=asked.source,
        target=asked.target,
        size_bytes=size,
        time_s=expected,
        low_s=shortest,
        high_s=longest,
        verdict=believed if made else Verdict.REFUSED,
        problems=problems,
        method=method,
        transfers=transfers,
        probe_bytes_per_s=probe,
        error=made.error if made else inf,
    )


def _of_path(
    series: Iterable[Probe], source: str, target: str, until_s: float
) -> tuple[list[Probe], list[Probe]]:
    """Give the probes and the transfers of one path that have a value, in the order of time."""
    measured = [
        each
        for each in series
        if (each.source, each.target) == (source, target)
        and each.at_s <= until_s
        and each.value is not None
        and SMALLEST <= each.value <= LARGEST
    ]
    measured.sort(key=lambda each: each.at_s)
    kinds = (Resource.BANDWIDTH, Resource.TRANSFER)
    probes, transfers = ([each for each in measured if each.resource is kind] for kind in kinds)
    return probes, transfers


def _latest_value(probes: Sequence[Probe], at_s: float) -> float | None:
    """Give what the newest probes at a time saw; None: the newest was too old."""
    end = bisect_right(probes, at_s, key=lambda each: each.at_s)
    if end == 0 or at_s - probes[end - 1].at_s > STALE_S:
        return None
    newest_s = probes[end - 1].at_s
    first = bisect_right(probes, newest_s - TOGETHER_S, key=lambda each: each.at_s)
    return together([each.value or 0.0 for each in probes[first:end]])


def _size(transfer: Probe) -> float:
    return max(transfer.size_bytes or 0, 1)


def _off(target: float) -> Callable[[float], float]:
    """Give the factor between a size and the requested one."""
    return lambda size: max(size / target, target / size)


def _on(name: str, asked: TransferTime) -> Problem:
    return problem(name, source=asked.source, target=asked.target)
