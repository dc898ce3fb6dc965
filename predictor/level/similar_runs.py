"""Run time of one more run of a kind: what earlier ones, the more alike the more, let expect.

Every earlier run is a possible answer.  Its weight is a product of factors for the same node count
and the same limit, which fall with each doubling between what was asked, divided by a power of its
age, counted in runs: forgetting follows a power law.  So nothing has to be decided between "same
nodes and limit" and "any": a run that matches in everything outweighs many that do not, and where
there is none the others speak, the nearest most.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from math import inf, log2

from predictor.checks import need_nodes, need_positive

#: Doublings between a limit and none, and the most that count between two limits.
_FARTHEST = 9.0


@dataclass(frozen=True, slots=True)
class RunRequest:
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

    asked: RunRequest
    elapsed_s: float

    def __post_init__(self) -> None:
        need_positive("run time in seconds", self.elapsed_s)


@dataclass(frozen=True, slots=True)
class SimilarSettings:
    """Factors of likeness, the power with which memory fades, and how many runs it holds.

    ``nodes`` and ``limit`` are for the same node count and limit; ``nodes_doubled`` and
    ``limit_doubled`` for each doubling between two of them.
    """

    nodes: float = 3.0
    limit: float = 3.0
    nodes_doubled: float = 0.7
    limit_doubled: float = 0.5
    fading: float = 0.3
    window: int = 128


def typical(
    request: RunRequest, past: Sequence[PastRun], settings: SimilarSettings | None = None
) -> float:
    """Run time in seconds with the highest expected accuracy min(p, a) / max(p, a).

    ``past`` (the newest run last) is weighed for ``request``.  Between two possible run times the
    expectation is convex in p, so one of them is best.

    Raises ValueError: there is no past.
    """
    if not past:
        raise ValueError("no earlier run")
    chosen = settings or SimilarSettings()
    weighed = sorted(_weighed(request, past[-chosen.window :], chosen))
    total = sum(weight for _, weight in weighed)
    shares = [(time_s, weight / total) for time_s, weight in weighed]
    below = accumulate(t * share for t, share in shares)
    inverse = [share / t for t, share in shares]
    total, above = sum(inverse), accumulate(inverse)
    rows = zip(shares, below, above, strict=True)
    return max([(low / t + t * (total - high), t) for (t, _), low, high in rows])[1]


def _weighed(
    request: RunRequest, past: Sequence[PastRun], settings: SimilarSettings
) -> Iterator[tuple[float, float]]:
    """Run time, capped at the limit, and weight of each run."""
    longest = request.limit_s
    factors: dict[tuple[int, float], float] = {}
    for run, age in zip(reversed(past), _ages(settings.fading, settings.window), strict=False):
        asked = run.asked.nodes, run.asked.limit_s
        if asked not in factors:
            nodes = abs(log2(run.asked.nodes / request.nodes))
            limit = _doublings(request.limit_s, run.asked.limit_s)
            factors[asked] = (settings.nodes if nodes == 0 else settings.nodes_doubled**nodes) * (
                settings.limit if limit == 0 else settings.limit_doubled**limit
            )
        yield min(run.elapsed_s, longest), factors[asked] / age


@cache
def _ages(fading: float, window: int) -> tuple[float, ...]:
    """Divide weights by these powers of the ages of runs, the newest first."""
    return tuple(age**fading for age in range(1, window + 1))


def _doublings(one: float, other: float) -> float:
    """Doublings between two limits; as many as count where one is none."""
    if one == other:
        return 0.0
    return _FARTHEST if inf in (one, other) else min(abs(log2(one / other)), _FARTHEST)
