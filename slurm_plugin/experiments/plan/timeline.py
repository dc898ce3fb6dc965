"""Free nodes over time that a plan takes from as it is made."""

from bisect import bisect_left, bisect_right
from math import inf

from slurm_plugin.slurm.availability import NodeAvailability


class Timeline:
    """Step function as :class:`slurm_plugin.slurm.availability.NodeAvailability`, changed in place.

    A plan of a thousand tasks looks for a gap some ten thousand times.

    >>> line = Timeline([0.0], [4])
    >>> line.take(3, 0.0, 10.0)
    >>> line.earliest(2, 5.0, 0.0), line.earliest(1, 5.0, 0.0)
    (10.0, 0.0)
    """

    __slots__ = ("free", "times_s")

    def __init__(self, times_s: list[float], free: list[int]) -> None:
        self.times_s = times_s
        self.free = free

    @classmethod
    def of(cls, profile: NodeAvailability) -> "Timeline":
        """Timeline that begins as a profile."""
        return cls(list(profile.times_s), list(profile.free))

    def copy(self) -> "Timeline":
        """Another one that is changed apart from this."""
        return Timeline(self.times_s.copy(), self.free.copy())

    def earliest(self, nodes: int, duration_s: float, from_s: float) -> float:
        """First time from ``from_s`` on when ``nodes`` are free for so long; inf: never."""
        times, free = self.times_s, self.free
        last = len(free) - 1
        start = max(times[0], from_s)
        for step in range(max(bisect_right(times, start) - 1, 0), last + 1):
            end = times[step + 1] if step < last else inf
            if free[step] < nodes:
                start = end
            elif end >= start + duration_s:
                return start
        return inf

    def take(self, nodes: int, start_s: float, end_s: float) -> None:
        """Take nodes from a time to another."""
        if end_s <= start_s:
            return
        first, last = self._step(start_s), self._step(end_s)
        for step in range(first, last):
            self.free[step] -= nodes

    def _step(self, time_s: float) -> int:
        """Index of the step that begins at a time; it is made where there is none."""
        at = bisect_left(self.times_s, time_s)
        if at == len(self.times_s) or self.times_s[at] != time_s:
            self.times_s.insert(at, time_s)
            self.free.insert(at, self.free[at - 1])
        return at
