"""Run times as they would have been expected at each moment of the past.

Expected is the mean of the last two jobs like it; what such expectations were off by makes a
distribution of it.  Like a job are its user's jobs of the same size and time limit, or else all of
the user's (Tsafrir, Etsion, Feitelson, *Backfilling Using System-Generated Predictions Rather Than
User Runtime Estimates*, 2007).

Where jobs of the same size and limit have ended, their own run times are mixed in: the more there
are, the less the errors of all others count.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log
from statistics import fmean

import numpy as np

from predictor.waits.estimate import SHARES

_RECENT = 2_000
#: Jobs of the same size and limit that count, and jobs that the errors of all others stand for.
_ALIKE, _OTHERS = 20, 5.0
#: Errors that a distribution is made of, at least; and how often it is made anew.
_FEWEST, _EVERY = 20, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """What is needed of a job that has run."""

    user: str
    partition: str
    units: int
    limit_s: float
    submit_s: float
    start_s: float
    run_s: float
    account: str = ""
    fair_share: tuple[float, float] = (1.0, 1.0)  #: factors of user and account at submission

    @property
    def end_s(self) -> float:
        """When it ended."""
        return self.start_s + self.run_s


@dataclass(slots=True)
class PastRunTimes:
    """Goes through jobs in the order of time; each is submitted, and later ends."""

    jobs: Sequence[PastJob]
    _last: defaultdict[tuple[object, ...], deque[float]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=2))
    )
    _errors: dict[int, deque[float]] = field(
        default_factory=lambda: {n: deque(maxlen=_RECENT) for n in range(3)}
    )
    _expected: dict[int, tuple[float, int]] = field(default_factory=dict)
    _quantiles: dict[int, tuple[float, ...]] = field(default_factory=dict)
    _alike: defaultdict[tuple[object, ...], deque[float]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=_ALIKE))
    )
    _own: dict[int, tuple[float, ...]] = field(default_factory=dict)
    _made: dict[int, tuple[float, ...]] = field(default_factory=dict)
    _ended: int = 0

    def submit(self, number: int) -> None:
        """Note what is expected of a job, by its place in :attr:`jobs`."""
        job = self.jobs[number]
        self._own[number] = tuple(self._alike.get(_keys(job)[0], ()))
        for level, key in enumerate(_keys(job)):
            if last := self._last.get(key):
                self._expected[number] = min(fmean(last), job.limit_s), level
                return
        self._expected[number] = job.limit_s, 2

    def end(self, number: int) -> None:
        """Learn from a job that has ended."""
        expected_s, level = self._expected[number]
        job = self.jobs[number]
        run_s = max(job.run_s, 1.0)
        self._errors[level].append(log(run_s / max(expected_s, 1.0)))
        for key in _keys(job):
            self._last[key].append(run_s)
        self._alike[_keys(job)[0]].append(log(run_s))
        self._made.pop(number, None)
        self._ended += 1
        if self._ended % _EVERY == 0:
            self._quantiles = {
                n: tuple(np.quantile(errors, SHARES).tolist())
                for n, errors in self._errors.items()
                if len(errors) >= _FEWEST
            }

    def of(self, number: int) -> tuple[float, ...]:
        """Log quantiles of a job's run time; empty: its limit is all there is."""
        if (made := self._made.get(number)) is None:
            expected_s, level = self._expected[number]
            base = log(max(expected_s, 1.0))
            errors = tuple(base + one for one in self._quantiles.get(level, ()))
            made = _mixed(self._own[number], errors) if errors else ()
            if made:
                self._made[number] = made
        return made


def _mixed(own: tuple[float, ...], errors: tuple[float, ...]) -> tuple[float, ...]:
    """Quantiles of own run times and those of all others together; all are logarithms."""
    if not own:
        return errors
    values = np.array([*own, *errors])
    weights = np.array([1.0] * len(own) + [_OTHERS / len(errors)] * len(errors))
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - weights[order] / 2
    quantiles: list[float] = np.interp(SHARES, below / weights.sum(), values[order]).tolist()
    return tuple(quantiles)


def _keys(job: PastJob) -> tuple[tuple[object, ...], ...]:
    return (job.user, job.units, job.limit_s), (job.user,)
