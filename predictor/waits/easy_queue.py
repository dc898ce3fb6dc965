"""The jobs that wait, in order of submission, and which of them fit a gap."""

import numpy as np

#: More nodes than any cluster has: stands where a job was that has started.
_GONE = np.iinfo(np.int64).max
_ROOM = 64


class Queue:
    """Waiting jobs with their nodes and time limits, searched as arrays.

    A place is an index into the arrays; it holds until the next :meth:`append`.
    """

    def __init__(self) -> None:
        self._jobs = np.empty(_ROOM, np.int64)
        self._nodes = np.empty(_ROOM, np.int64)
        self._limits = np.empty(_ROOM, np.float64)
        self._first = self._end = self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def first_nodes(self) -> int:
        """Nodes that the first job wants."""
        return int(self._nodes[self._first])

    @property
    def first_limit_s(self) -> float:
        """Time limit of the first job."""
        return float(self._limits[self._first])

    def jobs(self) -> list[int]:
        """Numbers of the jobs, first come first."""
        there = slice(self._first, self._end)
        jobs: list[int] = self._jobs[there][self._nodes[there] != _GONE].tolist()
        return jobs

    def append(self, job: int, nodes: int, limit_s: float) -> None:
        """Put a job at the end."""
        if self._end == len(self._jobs):
            # Close the gaps; twice the room where that gives less than half.
            there = np.flatnonzero(self._nodes[self._first : self._end] != _GONE) + self._first
            room = len(self._jobs) * (2 if 2 * len(there) > len(self._jobs) else 1)
            for name in ("_jobs", "_nodes", "_limits"):
                old = getattr(self, name)
                new = np.empty(room, old.dtype)
                new[: len(there)] = old[there]
                setattr(self, name, new)
            self._first, self._end = 0, len(there)
        place = self._end
        self._jobs[place], self._nodes[place], self._limits[place] = job, nodes, limit_s
        self._end += 1
        self._count += 1

    def pop(self) -> int:
        """Take the first job off."""
        return self.take(self._first)

    def take(self, place: int) -> int:
        """Take the job at a place off."""
        self._nodes[place] = _GONE
        self._count -= 1
        while self._first < self._end and self._nodes[self._first] == _GONE:
            self._first += 1
        return int(self._jobs[place])

    def request_at(self, place: int) -> tuple[int, float]:
        """Nodes and time limit of the job at a place."""
        return int(self._nodes[place]), float(self._limits[place])

    def fitting(
        self, free: int, spare_s: float, extra: int, *, since: int, shortest: bool
    ) -> list[int]:
        """Places of jobs that fit into ``free`` nodes, for ``spare_s`` or on ``extra`` of them.

        ``since`` jobs at the front are not looked at; ``shortest`` puts short limits first.
        """
        # Jobs that were not yet tried stand at the end, without gaps.
        begin = self._first + 1 if since <= 1 else self._end - (self._count - since)
        nodes, limits = self._nodes[begin : self._end], self._limits[begin : self._end]
        candidates = np.flatnonzero((nodes <= free) & ((limits <= spare_s) | (nodes <= extra)))
        if shortest:
            candidates = candidates[np.argsort(limits[candidates], kind="stable")]
        places: list[int] = (candidates + begin).tolist()
        return places
