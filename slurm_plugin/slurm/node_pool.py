"""The nodes of a partition over time, and how many of them hold a job's share: pure.

Nodes that are alike, in what they have and in what will be free of it when, make one group.  Free
nodes over time are as promised by the limits of what runs; whole ones are counted: a node that is
partly used becomes free when its last job ends.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, pairwise
from math import ceil, inf

from sacct_ingest.text.hostlist import NodeNames

_MEMO = 64  #: shares that differ, between two looks
#: Groups of nodes that are gone through while a job waits for it, about 1 ms.
AT_ONCE = 500
_ROUNDING = 1e-6
_LONGEST = 4096  #: characters of a constraint that is followed
_SIMPLE = re.compile(r"[\w.:=-]+(?:[&|,][\w.:=-]+)*")


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
            if step == len(self.free):
                return inf
            time_s = self.times_s[step]
            return time_s if time_s > from_s else from_s
        return first_fit(self.times_s, self.free, nodes, duration_s, from_s)

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
        times = list(self.times_s)
        free = list(self.free)
        take(times, free, nodes, begin, end_s)
        return _profile(times, free)

    def planned(self, jobs: Iterable[tuple[int, float]]) -> "NodeAvailability":
        """Profile with a place for each job that waits, by its nodes and limit, in their order."""
        times = list(self.times_s)
        free = list(self.free)
        for nodes, limit_s in jobs:
            start_s = first_fit(times, free, nodes, limit_s, times[0])
            if start_s < inf:
                take(times, free, nodes, start_s, start_s + limit_s)
        return _profile(times, free)


def first_fit(
    times: Sequence[float], free: Sequence[int], nodes: int, duration_s: float, from_s: float
) -> float:
    """First time from ``from_s`` on when so many nodes are free for so long; inf: never."""
    start = max(times[0], from_s)
    last = len(free) - 1
    for step in range(bisect_right(times, start) - 1, last + 1):
        end = times[step + 1] if step < last else inf
        if free[step] < nodes:
            start = end
        elif end >= start + duration_s:
            return start
    return inf


def take(times: list[float], free: list[int], nodes: int, start_s: float, end_s: float) -> None:
    """Take nodes off between two moments, as far as there are any."""
    first = _step_at(times, free, start_s)
    last = _step_at(times, free, end_s) if end_s < inf else len(times)
    for step in range(first, last):
        free[step] = max(free[step] - nodes, 0)


def _step_at(times: list[float], free: list[int], time_s: float) -> int:
    """Find the step that begins at a moment; it is put in where there is none."""
    step = bisect_left(times, time_s)
    if step == len(times) or times[step] != time_s:
        times.insert(step, time_s)
        free.insert(step, free[step - 1])
    return step


def profile(changes: Iterable[tuple[float, int]]) -> NodeAvailability:
    """Make a profile of nodes that become free or, if negative, are taken.

    changes: pairs of time and count; the earliest is the moment of the snapshot.  More nodes taken
        than there are leave none.
    """
    total = 0
    steps = {}
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


#: Free CPUs, memory (MiB) and devices from a time on.
Step = tuple[float, int, int, tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """What a job takes of each of its nodes."""

    cpus: int = 1
    mem_mib: int = 0
    gres: tuple[tuple[str, int], ...] = ()
    gpu_type: str = ""  #: that the job names, in lower case; empty: any
    whole: bool = True  #: nothing else may run beside it
    constraint: str = ""  #: as ``--constraint`` has it
    excluded: str = ""  #: node list


#: A promise: nodes, from when, to when, and what is taken of each.
Promise = tuple[int, float, float, NodeShare]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes that are alike."""

    cpus: int
    threads_core: int = 1  #: CPUs of a core, where jobs get whole cores
    mem_mib: int
    gres: tuple[tuple[str, int], ...] = ()
    gpu_type: str = ""  #: of all of their GPUs; empty: unknown, or several
    features: frozenset[str] = frozenset()
    steps: tuple[Step, ...]  #: rising; before the first nothing is free
    empty_s: float = inf  #: time from which it is unused
    #: both where all jobs run to their time limits; None: that is what they say
    by_limits: tuple[tuple[Step, ...], float] | None = None
    closed: tuple[tuple[float, float], ...] = ()  #: reserved for others: begin and end


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """All usable nodes of a partition.

    ``taken`` is what backfill has planned for jobs that wait, moved ahead where predictions say so;
    ``planned`` the same as it stands, by time limits; None: nothing here is predicted.  ``listed``
    are the nodes of the whole cluster, which lists of excluded ones are compared with once; None:
    those of the pool.
    """

    now_s: float
    groups: Mapping[NodeGroup, tuple[str, ...]] = field(default_factory=dict)
    taken: tuple[Promise, ...] = ()
    planned: tuple[Promise, ...] | None = None
    memo: dict[NodeShare, "Counted"] = field(default_factory=dict, compare=False, repr=False)
    listed: NodeNames | None = field(default=None, compare=False, repr=False)

    def by_limits(self, share: NodeShare) -> NodeAvailability | None:
        """Nodes over time that can take a share if all jobs run to their time limits.

        None: nothing is predicted, so that it is what :meth:`fitting` says.
        """
        if self.planned is None:
            return None
        return self._free(share, self.planned, by_limits=True)[0]

    def fitting(self, share: NodeShare) -> tuple[NodeAvailability, int]:
        """Nodes over time that can take a job's share, and how many there are of such nodes."""
        return self._free(share, self.taken, by_limits=False)

    def _free(
        self, share: NodeShare, taken: Sequence[Promise], *, by_limits: bool
    ) -> tuple[NodeAvailability, int]:
        excluded = self._excluded(share)
        changes = [(self.now_s, 0)]
        total = 0
        for group, names in self.groups.items():
            if not could_hold(group, share):
                continue
            count = len(names) - (len(excluded.intersection(names)) if excluded else 0)
            total += count
            steps = group.steps
            empty_s = group.empty_s
            if by_limits and group.by_limits is not None:
                steps, empty_s = group.by_limits
            fitting = (step[0] for step in steps if _holds(step[1:], share))
            start = empty_s if share.whole else next(fitting, inf)
            if start < inf and count:
                changes += _around(max(start, self.now_s), group.closed, count)
        if taken:
            changes += _blocking(taken, share, self._room(share))
        return profile(changes), total

    def names(self, share: NodeShare) -> tuple[str, ...]:
        """Names of the nodes that could take a job's share."""
        excluded = self._excluded(share)
        return tuple(
            name
            for group, names in self.groups.items()
            if could_hold(group, share)
            for name in names
            if name not in excluded
        )

    def _excluded(self, share: NodeShare) -> frozenset[str]:
        if not share.excluded:
            return frozenset()
        nodes = self.listed or NodeNames(chain.from_iterable(self.groups.values()))
        return nodes.named(share.excluded)

    def ready(self, share: NodeShare) -> bool:
        """Whether :meth:`less` takes no time to speak of."""
        return share in self.memo or len(self.groups) <= AT_ONCE

    def less(self, share: NodeShare, promised: Sequence[Promise]) -> "Counted":
        """As :meth:`fitting`, less what was promised; jobs alike do the work once."""
        counted = self.memo.get(share) or Counted(
            *self.fitting(share),
            part=self._part(share),
            room=self._room(share),
            by_limits=self.by_limits(share),
        )
        done = counted.promised
        free = counted.left or counted.free
        parts = counted.parts
        held = counted.left_by_limits or counted.by_limits
        if tuple(promised[: len(done)]) != done:  # they are another user's
            done = ()
            free = counted.free
            parts = ()
            held = counted.by_limits
        for promise in promised[len(done) :]:
            nodes, start_s, end_s, taken = promise
            part = _part_taken(taken, share, counted.room)
            beside = [
                (one[0], other)
                for one, other in zip(promised, parts, strict=False)
                if other < 1 and one[1] < end_s and one[2] > start_s
            ]
            more = _added(beside, nodes, part, whole=share.whole)
            free = free.reserve(more, start_s, end_s)
            parts = (*parts, part)
            held = held and held.reserve(more, start_s, end_s)
        made = replace(
            counted, promised=tuple(promised), left=free, parts=parts, left_by_limits=held
        )
        if len(share.constraint) + len(share.excluded) <= _LONGEST:
            if share not in self.memo and len(self.memo) >= _MEMO:
                self.memo.pop(list(self.memo)[0], None)  # noqa: RUF015 - another thread may add one
            self.memo[share] = made
        return made

    def _room(self, share: NodeShare) -> dict[str, float]:
        """Mean of what is free of a node once it can take the share, by resource."""
        total = 0
        room: dict[str, float] = defaultdict(float)
        for group, names in self.groups.items():
            if could_hold(group, share):
                total += len(names)
                whole = (0.0, group.cpus, group.mem_mib, group.gres)
                steps = () if share.whole else group.steps
                _, cpus, mem, gres = next((s for s in steps if _holds(s[1:], share)), whole)
                for name, amount in (("cpu", cpus), ("mem", mem), *gres):
                    room[name] += amount * len(names)
        return {name: amount / total for name, amount in room.items()}

    def _part(self, share: NodeShare) -> float:
        """Part that a job takes of the nodes that could take it: of what it takes most of."""
        if share.whole:
            return 1.0
        nodes = 0
        have = {"cpu": 0, "mem": 0}
        for group, names in self.groups.items():
            if could_hold(group, share):
                nodes += len(names)
                amounts = (("cpu", group.cpus), ("mem", group.mem_mib), *group.gres)
                for name, amount in amounts:
                    have[name] = have.get(name, 0) + amount * len(names)
        if not nodes:
            return 1.0
        takes = (("cpu", share.cpus), ("mem", share.mem_mib), *share.gres)
        return min(max((nodes * n / have[name] for name, n in takes if n), default=1.0), 1.0)


@dataclass(frozen=True, slots=True)
class Counted:
    """Nodes that can take a share over time, and what promises leave of them."""

    free: NodeAvailability
    nodes: int  #: how many there are
    part: float = 1.0  #: part of each that the share is
    room: Mapping[str, float] = field(default_factory=dict)  #: as :meth:`NodePool._room` has it
    promised: tuple[Promise, ...] = ()
    left: NodeAvailability | None = None
    parts: tuple[float, ...] = ()  #: of a node's room, that each promise leaves none of
    #: ``free`` and ``left`` if all jobs run to their time limits; None: the same
    by_limits: NodeAvailability | None = None
    left_by_limits: NodeAvailability | None = None


@lru_cache(maxsize=16)
def alternatives(constraint: str) -> Sequence[frozenset[str]] | None:
    """List the sets of features of which a node must have one; None: any node will do.

    Counts, brackets and exclusions are not followed, nor is a constraint of thousands of features:
    these let all nodes pass.

    >>> sorted(map(sorted, alternatives("gpu&ib|big|ib&gpu")))
    [['big'], ['gpu', 'ib']]
    """
    if not 0 < len(constraint) <= _LONGEST or not _SIMPLE.fullmatch(constraint):
        return None
    return list(dict.fromkeys(frozenset(re.split("[&,]", one)) for one in constraint.split("|")))


@lru_cache(maxsize=512)
def _has_features(features: frozenset[str], constraint: str) -> bool:
    """Whether a node with these features meets a constraint."""
    sets = alternatives(constraint)
    return sets is None or any(features >= one for one in sets)


def could_hold(group: NodeGroup, share: NodeShare) -> bool:
    """Whether an empty node of the group could hold the share."""
    if share.constraint and not _has_features(group.features, share.constraint):
        return False
    if share.gpu_type and group.gpu_type.lower() not in ("", share.gpu_type):
        return False
    return _holds((group.cpus, group.mem_mib, group.gres), share)


def _holds(free: tuple[int, int, tuple[tuple[str, int], ...]], share: NodeShare) -> bool:
    cpus, mem_mib, gres = free
    if cpus < share.cpus or mem_mib < share.mem_mib:
        return False
    have = dict(gres) if share.gres else {}
    return all(have.get(name, 0) >= n for name, n in share.gres)


def _part_taken(taken: NodeShare, share: NodeShare, room: Mapping[str, float]) -> float:
    """Part of a node's room that a job takes; 1: the share has no place beside it.

    A node has no place for the share once jobs take all but what the share needs.
    """
    if taken.whole:
        return 1.0
    own = {"cpu": share.cpus, "mem": share.mem_mib, **dict(share.gres)}
    takes = (("cpu", taken.cpus), ("mem", taken.mem_mib), *taken.gres)
    needed = [
        n / max(room[name] if share.whole else room[name] - own[name] + 1, 1.0)
        for name, n in takes
        if room.get(name) and (share.whole or own.get(name))
    ]
    return min(max(needed, default=0.0), 1.0)


def _blocked(alone: int, shared: float, parts: float, widest: int, *, whole: bool) -> int:
    """Count the nodes without room for a share, beside jobs that lie as close as they can.

    alone: nodes that jobs leave no room on, whatever else is there.
    shared, parts, widest: of the other jobs the parts of all their nodes, those of one node of
        each, and the most nodes of one.
    whole: the share needs a whole node.
    """
    if whole:
        return alone + max(widest, ceil(shared - _ROUNDING))
    # A job is on each of its nodes once: fewer jobs than fill a node leave room on all.
    return alone + (int(shared + _ROUNDING) if parts > 1 - _ROUNDING else 0)


def _added(beside: Sequence[tuple[int, float]], nodes: int, part: float, *, whole: bool) -> int:
    """Nodes that one more job leaves no room on, beside others that share nodes."""
    if part >= 1:
        return nodes
    shared = sum(n * one for n, one in beside)
    parts = sum(one for _, one in beside)
    widest = max((n for n, _ in beside), default=0)
    before = _blocked(0, shared, parts, widest, whole=whole)
    most = max(widest, nodes)
    return _blocked(0, shared + nodes * part, parts + part, most, whole=whole) - before


def _blocking(
    taken: Iterable[Promise], share: NodeShare, room: Mapping[str, float]
) -> list[tuple[float, int]]:
    """List the changes of nodes that have room for a share, as jobs begin and end."""
    events: list[tuple[float, int, int, float]] = []
    for nodes, start_s, end_s, other in taken:
        part = _part_taken(other, share, room)
        events += [(start_s, 1, nodes, part), (end_s, -1, nodes, part)]
    changes: list[tuple[float, int]] = []
    active: Counter[int] = Counter()
    alone = 0
    shared = 0.0
    parts = 0.0
    before = 0
    for time_s, step, nodes, part in sorted(events):
        if part >= 1:
            alone += step * nodes
        else:
            shared = shared + step * nodes * part
            parts = parts + step * part
            active[nodes] += step
        widest = max((n for n, jobs in active.items() if jobs), default=0) if share.whole else 0
        blocked = _blocked(alone, shared, parts, widest, whole=share.whole)
        changes.append((time_s, before - blocked))
        before = blocked
    return changes


def _around(
    start_s: float, closed: Iterable[tuple[float, float]], count: int
) -> list[tuple[float, int]]:
    """List the changes of nodes free from ``start_s`` on but for the times they are closed."""
    changes = [(start_s, count)]
    for begin, end in closed:
        if end > start_s:
            changes += [(max(begin, start_s), -count), (end, count)]
    return changes


def grouped(nodes: Iterable[tuple[str, NodeGroup]]) -> dict[NodeGroup, tuple[str, ...]]:
    """Put nodes that are alike together."""
    by_group: dict[NodeGroup, list[str]] = defaultdict(list)
    for name, group in nodes:
        by_group[group].append(name)
    return {group: tuple(names) for group, names in by_group.items()}
