"""Free nodes of a partition over time, as promised by the limits of what runs.

Whole nodes are counted: a node that is partly used becomes free when its last job ends.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf


@dataclass(frozen=True, slots=True)
class NodeAvailability:
    """Step function: ``free[i]`` nodes are free from ``times_s[i]`` to the next step.

    ``times_s`` rise and begin at the moment of the snapshot; the last step holds for ever.
    """

    times_s: tuple[float, ...]
    free: tuple[int, ...]
    rising: bool = False  #: never fewer nodes later: no reservations ahead

    def earliest_start(self, nodes: int, duration_s: float, *, from_s: float = -inf) -> float:
        """First time at or after ``from_s`` from which ``nodes`` are free for ``duration_s``.

        ``inf`` where there never are that many.

        >>> profile([(0.0, 2), (60.0, 2)]).earliest_start(4, 10.0)
        60.0
        """
        if self.rising:
            step = bisect_left(self.free, nodes)
            return max(self.times_s[step], from_s) if step < len(self.free) else inf
        times, free = self.times_s, self.free
        start = max(times[0], from_s)
        for step in range(max(bisect_right(times, start) - 1, 0), len(free)):
            end = times[step + 1] if step + 1 < len(times) else inf
            if free[step] < nodes:
                start = end
            elif end >= start + duration_s:
                return start
        return inf

    def free_at(self, time_s: float) -> int:
        """Nodes free at ``time_s``."""
        return self.free[max(bisect_right(self.times_s, time_s) - 1, 0)]

    def least(self, from_s: float, until_s: float) -> int:
        """Fewest nodes that are free between two moments.

        >>> profile([(0.0, 8), (60.0, -2), (120.0, 2)]).least(10.0, 70.0)
        6
        """
        if self.rising:
            return self.free_at(from_s)
        first = max(bisect_right(self.times_s, from_s) - 1, 0)
        return min(self.free[first : max(bisect_left(self.times_s, until_s), first + 1)])

    def reserve(self, nodes: int, start_s: float, end_s: float) -> "NodeAvailability":
        """Profile with ``nodes`` fewer from ``start_s`` to ``end_s``; never below none."""
        begin = max(start_s, self.times_s[0])
        if nodes <= 0 or end_s <= begin:
            return self
        times = sorted({*self.times_s, begin, end_s} - {inf})
        free = (self.free_at(t) for t in times)
        return _profile(
            times,
            [
                max(n - nodes, 0) if begin <= t < end_s else n
                for t, n in zip(times, free, strict=True)
            ],
        )


def profile(changes: Iterable[tuple[float, int]]) -> NodeAvailability:
    """Make a profile of nodes that become free or, if negative, are taken.

    changes: pairs of time and count; the earliest is the moment of the snapshot.  More nodes taken
        than there are leave none.
    """
    total, steps = 0, {}
    for time_s, nodes in sorted(changes):
        total += nodes
        steps[time_s] = max(total, 0)
    steps.pop(inf, None)
    return _profile(list(steps), list(steps.values()))


def highest(profiles: Sequence[NodeAvailability]) -> NodeAvailability:
    """Profile with, at each time, the most nodes that one of the profiles has."""
    times = sorted({time_s for one in profiles for time_s in one.times_s})
    return _profile(times, [max(one.free_at(t) for one in profiles) for t in times])


def _profile(times: list[float], free: list[int]) -> NodeAvailability:
    return NodeAvailability(tuple(times), tuple(free), all(a <= b for a, b in pairwise(free)))
