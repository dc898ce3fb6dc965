"""How long a transfer between two hosts will take, by what was measured between them.

The probes of the path, and of the CPUs at both ends, are paired with the past transfers that
followed them, and AdRM reads the next transfer from the newest ones.  Where there are only probes
it is RBW, which is to be doubted; where there are only transfers, the forecaster bank of the NWS.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean

from predictor.checks import LARGEST, SMALLEST, need_finite
from predictor.forecasts.adrm import AdRM, RawBandwidth, Throughput, together
from predictor.forecasts.forecasters import Bank
from predictor.problems import Problem, problem
from predictor.types import Verdict
from sacct_ingest.records import Probe, Resource

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
    #: of a CPU that a new process gets now at the busier end; None: not measured
    cpu_share: float | None = None
    error: float = inf  #: mean error of the method on the past transfers, as a share


@dataclass(frozen=True, slots=True)
class _MeasuredPair:
    """A past transfer, and what the probes before it saw; None: there were none."""

    transfer: float
    probe: float | None
    share: float | None = None  #: of a CPU, at the busier end


def transfer_time(
    series: Iterable[Probe], size_bytes: float, source: str, target: str, *, now_s: float
) -> TransferTime:
    """Predict the time of a transfer.

    series: measurements in any order, also of other hosts and resources: what counts are those of
        ``bandwidth`` and ``transfer`` from ``source`` to ``target``, and of ``cpu`` at both ends,
        until ``now_s``.
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
    measured = list(series)
    probes, transfers = _of_path(measured, source, target, now_s)
    loads = [_values(measured, Resource.CPU, end, "", now_s) for end in (source, target)]
    nearest = min((_size(each) for each in transfers), key=_off(size_bytes), default=size_bytes)
    foreign = _off(size_bytes)(nearest) > ALIKE
    unlike = problem("other_sizes", megabytes=size_bytes / 1e6)
    problems = (unlike,) if foreign else ()
    off = _off(nearest if foreign else size_bytes)
    alike = [each for each in transfers if off(_size(each)) <= ALIKE]
    pairs = [
        _MeasuredPair(
            each.value or 0.0, _latest_value(probes, each.at_s), _busier_end(loads, each.at_s)
        )
        for each in alike
    ]
    asked = replace(asked, cpu_share=_busier_end(loads, now_s))
    return _by_best_method(asked, pairs, _latest_value(probes, now_s), problems)


def _by_best_method(
    asked: TransferTime,
    pairs: Sequence[_MeasuredPair],
    probe: float | None,
    problems: tuple[Problem, ...],
) -> TransferTime:
    paired = [(each.probe, each.transfer, each.share) for each in pairs if each.probe is not None]
    count = len(pairs)
    if probe is not None and paired:
        model = AdRM(start_up=1)
        for pair in paired:
            model.update(*pair)
        made = model.predict(probe, asked.cpu_share)
        return _made(asked, made, "AdRM", problems, len(paired), probe)
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
    low = max(made.low, least)
    high = min(made.high, 2 * max(transfers))
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
        cpu_share=asked.cpu_share,
        error=made.error if made else inf,
    )


def _of_path(
    series: Iterable[Probe], source: str, target: str, until_s: float
) -> tuple[list[Probe], list[Probe]]:
    """Give the probes and the transfers of one path that have a value, in the order of time."""
    probes = _values(series, Resource.BANDWIDTH, source, target, until_s)
    return probes, _values(series, Resource.TRANSFER, source, target, until_s)


def _values(
    series: Iterable[Probe], resource: Resource, source: str, target: str, until_s: float
) -> list[Probe]:
    """Give the measurements of one series that have a value, in the order of time."""
    measured = [
        each
        for each in series
        if (each.resource, each.source, each.target) == (resource, source, target)
        and each.at_s <= until_s
        and each.value is not None
        and SMALLEST <= each.value <= LARGEST
    ]
    return sorted(measured, key=lambda each: each.at_s)


def _busier_end(loads: Sequence[Sequence[Probe]], at_s: float) -> float | None:
    """Give the share of a CPU at the end where it is less; None: measured at neither."""
    shares = [_newest(load, at_s) for load in loads]
    return min((each.value for each in shares if each and each.value), default=None)


def _latest_value(probes: Sequence[Probe], at_s: float) -> float | None:
    """Give what the newest probes at a time saw; None: the newest was too old."""
    newest = _newest(probes, at_s)
    if newest is None:
        return None
    end = bisect_right(probes, at_s, key=lambda each: each.at_s)
    first = bisect_right(probes, newest.at_s - TOGETHER_S, key=lambda each: each.at_s)
    return together([each.value or 0.0 for each in probes[first:end]])


def _newest(probes: Sequence[Probe], at_s: float) -> Probe | None:
    """Give the newest measurement at a time; None: it was too old, or there was none."""
    end = bisect_right(probes, at_s, key=lambda each: each.at_s)
    if end == 0 or at_s - probes[end - 1].at_s > STALE_S:
        return None
    return probes[end - 1]


def _size(transfer: Probe) -> float:
    return max(transfer.size_bytes or 0, 1)


def _off(target: float) -> Callable[[float], float]:
    """Give the factor between a size and the requested one."""
    return lambda size: max(size / target, target / size)


def _on(name: str, asked: TransferTime) -> Problem:
    return problem(name, source=asked.source, target=asked.target)
