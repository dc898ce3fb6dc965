"""Run time of one more run of a kind: what earlier ones, the more alike the more, let expect.

Every earlier run is a possible answer.  Its weight is a product of factors for the same node count
and the same limit, divided by a power of its age, counted in runs that are alike to the same
degree: forgetting follows a power law.  So nothing has to be decided between "same nodes and limit"
and "any": a run that matches in everything outweighs fifty that do not, and where there is none the
others speak.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil, inf

from predictor.checks import need_nodes, need_positive, need_share


@dataclass(frozen=True, slots=True)
class Request:
    """What a job asks for."""

    nodes: int
    limit_s: float  #: inf: none

    def __post_init__(self) -> None:
        need_nodes((self.nodes,))
        if self.limit_s != inf:
            need_positive("time limit in seconds", self.limit_s)


@dataclass(frozen=True, slots=True)
class PastRun:
    """One finished run of the same kind."""

    asked: Request
    elapsed_s: float

    def __post_init__(self) -> None:
        need_positive("run time in seconds", self.elapsed_s)


@dataclass(frozen=True, slots=True)
class SimilarSettings:
    """Factors of likeness, the power with which memory fades, and how many runs it holds."""

    nodes: float = 5.0
    limit: float = 10.0
    fading: float = 0.7
    window: int = 128


@dataclass(frozen=True, slots=True)
class Sample:
    """Possible run times in rising order, with weights that sum to one."""

    times_s: tuple[float, ...]
    weights: tuple[float, ...]

    def typical(self) -> float:
        """Run time in seconds with the highest expected accuracy min(p, a) / max(p, a).

        Between two possible run times the expectation is convex in p, so one of them is best.
        """
        below = accumulate(t * w for t, w in zip(self.times_s, self.weights, strict=True))
        total = sum(w / t for t, w in zip(self.times_s, self.weights, strict=True))
        above = accumulate(w / t for t, w in zip(self.times_s, self.weights, strict=True))
        expected = (
            (low / t + t * (total - high), t)
            for t, low, high in zip(self.times_s, below, above, strict=True)
        )
        return max(expected)[1]

    def quantile(self, share: float) -> float:
        """Run time in seconds that ``share`` of the weight does not exceed."""
        if share != 1:
            need_share("share", share)
        place = bisect_left(list(accumulate(self.weights)), share - 1e-9)
        return self.times_s[min(place, len(self.times_s) - 1)]


def sample(
    request: Request, past: Sequence[PastRun], settings: SimilarSettings | None = None
) -> Sample:
    """Weigh ``past`` (the newest run last) for ``request``.

    Raises
    ------
    ValueError
        There is no past.
    """
    if not past:
        raise ValueError("no earlier run")
    chosen = settings or SimilarSettings()
    weighed = sorted(_weighed(request, past[-chosen.window :], chosen))
    total = sum(weight for _, weight in weighed)
    times, weights = zip(*weighed, strict=True)
    return Sample(times, tuple(weight / total for weight in weights))


def _weighed(
    request: Request, past: Sequence[PastRun], settings: SimilarSettings
) -> Iterator[tuple[float, float]]:
    """Run time, capped at the limit, and weight of each run."""
    alike: Counter[float] = Counter()
    for run in reversed(past):
        asked, factor = run.asked, 1.0
        if asked.nodes == request.nodes:
            factor *= settings.nodes
        if asked.limit_s == request.limit_s:
            factor *= settings.limit
        alike[factor] += 1
        yield min(run.elapsed_s, request.limit_s), factor / alike[factor] ** settings.fading


@dataclass(slots=True)
class Calibration:
    """How far raw quantiles must be moved to keep their promise on this site.

    Split conformal prediction on the log ratios of actual run times to raw quantiles (Vovk et al.,
    *Algorithmic Learning in a Random World*, 2005, section 4.1), over the last ``window`` jobs,
    whose level follows the misses seen (adaptive conformal inference: Gibbs and Candès, NeurIPS
    2021, equation 2), since a site's jobs are not exchangeable.

    Parameters
    ----------
    level
        Share of jobs that shall not run longer than predicted, e.g. 0.95.
    step
        How fast the level follows, as a share of the misses allowed.
    """

    level: float
    window: int = 2000
    step: float = 0.01
    allowed: float = field(init=False)
    _logs: deque[float] = field(init=False)
    _ordered: list[float] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        need_share("level", self.level)
        self.allowed = 1.0 - self.level
        self._logs = deque(maxlen=self.window)

    @property
    def shift(self) -> float | None:
        """Logarithm of the factor on a raw quantile; None where too few jobs are known."""
        known = len(self._ordered)
        if known * (1.0 - self.level) < 1.0 - 1e-9:
            return None
        return self._ordered[min(ceil((known + 1) * (1.0 - self.allowed)), known) - 1]

    def update(self, ratio: float, promised: float | None) -> None:
        """Learn from a job that ended.

        Parameters
        ----------
        ratio
            Log of its run time over the raw quantile.
        promised
            Shift with which it was predicted, if it was.
        """
        if len(self._logs) == self.window:
            del self._ordered[bisect_left(self._ordered, self._logs[0])]
        self._logs.append(ratio)
        self._ordered.insert(bisect_left(self._ordered, ratio), ratio)
        if promised is not None:
            target = 1.0 - self.level
            moved = self.allowed + self.step * target * (target - (ratio > promised))
            self.allowed = min(max(moved, target / 3.0), target * 3.0)
