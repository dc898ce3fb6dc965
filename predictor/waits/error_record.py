"""A record of how far estimates of waits were off, by which the next are corrected.

Loaded on the submission path, so nothing but the standard library and msgspec.

Errors in units of the spread, of jobs like this one, are put around the median (conformal
prediction: Vovk, Gammerman, Shafer, *Algorithmic Learning in a Random World*, 2005; normalised as
in Papadopoulos, Gammerman, Vovk, *Normalized Nonconformity Measures*, 2008).  Where there is no
record yet, errors are taken to be large.  Old ones go as new ones come.

Queues change, so that errors of the past are not quite those to come.  The level at which they are
read follows how many waits were outside their intervals (adaptive conformal inference: Gibbs,
Candès, *Adaptive Conformal Inference Under Distribution Shift*, 2021, equation 2).
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, log, log10, sqrt
from statistics import fmean
from typing import Any

import msgspec

from predictor.checks import need_finite, need_positive
from predictor.waits.estimate import ALLOWANCE_S, NORMAL, QUANTILES, SHARES, WaitEstimate

_SAME_S = 1.0  #: Slurm's clock has whole seconds
#: Spread that each estimate has besides that of its draws, log10.
_LEAST_SD = 0.15
#: Deviations where nothing is recorded: so many times those of a normal distribution.
_WIDE = 3.0
#: A record of so many errors speaks for itself.  Errors of no record are mixed in: as many as a
#: shorter one lacks, and one at either end at least, since the next error is unknown.
ENOUGH, _MIXED = 50, 2
#: Share of waits outside their intervals, and how fast its level follows what came.
_OUTSIDE, _PACE = 0.1, 0.02
#: Highest level: a queue may change at once, and a higher one takes its time to come down.
_MOST_OUTSIDE = 0.15
#: Most errors in the record of one class of jobs, and in all.
MOST_ERRORS, MOST_ENTRIES = 500, 5_000


class WaitClass(msgspec.Struct, frozen=True, array_like=True):
    """What jobs have in common whose estimates are off alike; broader classes leave some out."""

    waits: bool  #: it was expected to wait for longer than a minute
    partition: str = ""
    size: int = -1  #: binary logarithm of its share of the partition, from 0 (all of it) down
    hour: int = -1  #: of the week, in steps of six hours
    crowd: int = -1  #: binary logarithm of the jobs that wait

    def broader(self) -> "Iterable[WaitClass]":
        """List this class and those around it, narrowest first."""
        waits = self.waits
        partition = self.partition
        yield self
        yield WaitClass(waits, partition, self.size, -1, self.crowd)
        yield WaitClass(waits, partition, self.size)
        yield WaitClass(waits, partition)
        yield WaitClass(waits)


def class_of(
    median_s: float, *, partition: str, share: float, at_s: float, waiting: int
) -> WaitClass:
    """Class of a job.

    median_s: wait that the queue run forward gives.
    partition: its name.
    share: share of the partition that the job takes, above 0.
    at_s: moment of asking, seconds since the epoch.
    waiting: jobs in the queue.
    Raises ValueError: the share is not above 0, or another number is not finite.
    """
    need_positive("share of the partition", share)
    need_finite("moment of asking", at_s)
    need_finite("jobs in the queue", waiting, least=0)
    return WaitClass(
        waits=median_s > ALLOWANCE_S,
        partition=partition,
        size=min(max(ceil(-log(max(share, 1e-6), 2) / 2), 0), 8),
        hour=int(at_s // 21_600) % 28,
        crowd=waiting.bit_length() // 2,
    )


class WaitError(msgspec.Struct, frozen=True, array_like=True):
    """By how much one estimate was off, in units of its spread."""

    at_s: float  #: when the job was submitted
    of: WaitClass
    score: float
    estimate_s: float
    actual_s: float
    inside: bool | None = None  #: whether it was inside the interval of its time; None: not noted
    corrected: bool = False  #: by what a refit learned of the queue's state


def log_error(error: WaitError) -> float:
    """Absolute error of an estimate, log10."""
    return abs(log10((error.actual_s + ALLOWANCE_S) / (error.estimate_s + ALLOWANCE_S)))


def spread_of(draws_s: Sequence[float]) -> tuple[float, float]:
    """Median of draws as log10, and the spread that errors are counted in.

    Raises ValueError: there is no draw, or one that is no time.
    """
    if not draws_s or not all(one >= 0 for one in draws_s):
        raise ValueError("draws of a wait: at least one is needed, and each must be 0 or more")
    logs = [log10(min(one, 1e9) + ALLOWANCE_S) for one in draws_s]
    middle = (logs[(len(logs) - 1) // 2] + logs[len(logs) // 2]) / 2
    return middle, sqrt(fmean((one - middle) ** 2 for one in logs) + _LEAST_SD**2)


class WaitRecord:
    """Errors of the estimates: of limited size, the oldest go.

    One thread adds to it; others may count it, ask what was inside, and pickle it.

    errors: those that were recorded before, oldest first.
    levels: what intervals of each class leave out after these, where they follow more errors.
    """

    def __init__(
        self, errors: Iterable[WaitError] = (), levels: Mapping[WaitClass, float] | None = None
    ) -> None:
        self.errors: deque[WaitError] = deque(maxlen=MOST_ENTRIES)
        self._scores: defaultdict[WaitClass, deque[float]] = defaultdict(
            lambda: deque(maxlen=MOST_ERRORS)
        )
        self._levels: dict[WaitClass, float] = {}
        self._made: dict[tuple[WaitClass, float], tuple[float, ...]] = {}
        for error in errors:
            self.add(error)
        self._levels |= levels or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return WaitRecord, (list(self.errors), dict(self._levels))

    def __len__(self) -> int:
        return len(self.errors)

    def inside(self) -> float | None:
        """Share of the recorded waits that were inside their intervals; None: none was noted."""
        noted = [one.inside for one in list(self.errors) if one.inside is not None]
        return fmean(noted) if noted else None

    def add(self, error: WaitError) -> None:
        """Take one more."""
        self.errors.append(error)
        for one in set(error.of.broader()):
            self._scores[one].append(error.score)
        self._made.clear()
        if error.inside is not None:
            # Most jobs that are expected to start at once do, and are inside however narrow the
            # interval is: that says nothing for a narrower one.
            partition = WaitClass(error.of.waits, error.of.partition)
            most = _MOST_OUTSIDE if partition.waits else _OUTSIDE
            level = self._levels.get(partition, _OUTSIDE) + _PACE * (_OUTSIDE - (not error.inside))
            self._levels[partition] = min(max(level, 0.0), most)

    def estimate(self, draws_s: Sequence[float], of: WaitClass) -> WaitEstimate:
        """Correct draws by what such estimates were off by.

        draws_s: waits, rising, seconds.
        of: class of the job.
        """
        middle, spread = spread_of(draws_s)
        own = next((c for c in of.broader() if len(self._scores.get(c, ())) >= ENOUGH), None)
        if own is None:
            own = WaitClass(of.waits)
        level = self._levels.get(WaitClass(of.waits, of.partition), _OUTSIDE)
        if (made := self._made.get((own, level))) is None:
            recorded = self._scores.get(own, ())
            mixed = min(max(_MIXED, ENOUGH - len(recorded)), QUANTILES)
            step = (QUANTILES - 1) / (mixed - 1)
            unknown = (_WIDE * NORMAL[round(i * step)] for i in range(mixed))
            every = WaitEstimate(tuple(sorted([*recorded, *unknown])))
            wider = (1 - level) / (1 - _OUTSIDE)
            shares = (min(max(0.5 + wider * (share - 0.5), 0.0), 1.0) for share in SHARES)
            made = self._made[own, level] = tuple(every.quantile(share) for share in shares)
        return WaitEstimate(
            tuple(max(10 ** (middle + spread * z) - ALLOWANCE_S, 0.0) for z in made),
            len(self._scores.get(own, ())),
        )


def error_of(
    draws_s: Sequence[float],
    of: WaitClass,
    *,
    at_s: float,
    actual_s: float,
    estimate: WaitEstimate | None = None,
) -> WaitError:
    """Score an estimate by the wait that came.

    draws_s, of: what it was made of.
    at_s: when the job was submitted, seconds since the epoch.
    actual_s: the wait that came.
    estimate: as it was corrected at that time.
    Raises ValueError: a wait is no time.
    """
    need_finite("wait that came", actual_s, least=0)
    need_finite("moment of submission", at_s)
    middle, spread = spread_of(draws_s)
    score = (log10(actual_s + ALLOWANCE_S) - middle) / spread
    if estimate is None:
        return WaitError(at_s, of, score, max(10**middle - ALLOWANCE_S, 0.0), actual_s)
    low_s, high_s = estimate.interval_s
    inside = low_s - _SAME_S <= actual_s <= high_s + _SAME_S
    return WaitError(at_s, of, score, estimate.median_s, actual_s, inside)
