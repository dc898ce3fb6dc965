"""Node-hours that bought nothing, summed up by cause and by whose they are; and what could return.

A node-hour is counted once, under one cause.  What could come back is what the record before each
start would have given back: see `ApplicationRecord`.  Its interval has nine in ten: errors of one
application add up, those of several are independent of each other; where what comes back differs
from day to day, days are drawn.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import hypot, sqrt
from statistics import median
from typing import Final, TypedDict

from sacct_ingest.records import JobState
from sacct_ingest.runs.evidence import ran_short
from sacct_ingest.store.rows import RunRow
from slurm_plugin.evaluation.waste import (
    STOPPED,
    Cause,
    NodeShape,
    Occupancy,
    Used,
    needs_of,
    node_hours,
    occupancy_of,
    usage_of,
)
from slurm_plugin.evaluation.waste_record import ApplicationRecord, Lost

#: Raised when a field of the JSON changes its meaning or goes.
VERSION: Final = 1
_DAY_S: Final = 86_400
#: Standard errors on either side that hold nine in ten.
_NINETY: Final = 1.645
#: What rows may be about, in the order of `Place`.
BY: Final = ("user", "account", "application", "partition")
#: Shorter starts say nothing of limits.
_LEAST_S: Final = 60.0
#: A limit of more than this times the longest run before is far above the need; and what would have
#: been asked for in its place, over the longest run before.
FAR: Final = 3.0
LIMIT_MARGIN: Final = 1.2

#: User, account, application and partition.
Place = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseWaste:
    """Node-hours that one cause took, and how many of them could come back."""

    cause: Cause
    starts: int
    node_hours: float
    back: float
    back_low: float
    back_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWaste:
    """What one user, account, application or partition had, and what of it bought nothing."""

    name: str
    starts: int
    node_hours: float
    wasted: float
    back: float
    back_low: float
    back_high: float
    cause: Cause | None  #: that took most


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitWaits:
    """Mean waits in a replay of the queue: what limits far above the need cost."""

    starts: int  #: that were replayed
    shorter: int  #: of these, with a shorter limit in the second replay
    wait_s: float  #: with the limits that were asked for
    shorter_wait_s: float  #: with shorter ones

    @property
    def saved(self) -> float:
        """Share of the waits that shorter limits save."""
        return 1 - self.shorter_wait_s / self.wait_s if self.wait_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUse:
    """Time limits of completed starts over what they took: they cost waits, and no node-hours."""

    starts: int  #: of a minute or more, with a limit
    ratio: float  #: limit over run time, the median
    far: int  #: starts with a limit far above the longest run of their application before
    waits: LimitWaits | None = None  #: None: the jobs are not all of a queue, or none asks for less


@dataclass(frozen=True, slots=True, kw_only=True)
class WasteReport:
    """What of the node-hours of some jobs bought nothing."""

    version: int = VERSION
    begin_s: float | None  #: of the first start; None: there is none
    end_s: float | None
    own: bool  #: all are those of the user who asks
    users: int
    starts: int
    node_hours: float
    wasted: float
    back: float
    back_low: float
    back_high: float
    causes: tuple[CauseWaste, ...]  #: most node-hours first
    unmeasured: float  #: node-hours of starts whose CPU time is not in the accounting
    limits: LimitUse | None
    by: str = ""  #: what ``groups`` are; empty: none were asked for
    groups: tuple[GroupWaste, ...] = ()  #: most wasted node-hours first


@dataclass(slots=True)
class _Amount:
    """Node-hours of one place under one cause; ``low`` and ``high`` hold for certain errors."""

    starts: int = 0
    wasted: float = 0.0
    back: float = 0.0
    low: float = 0.0
    high: float = 0.0
    _day: int = -1
    _of_day: float = 0.0
    _days: int = 0
    _squares: float = 0.0
    _sum: float = 0.0

    def add(self, hours: float, back: float, low: float, high: float) -> None:
        self.starts += hours > 0
        self.wasted += hours
        self.back += back
        self.low += low
        self.high += high

    def add_of_day(self, day: int, hours: float, back: float) -> None:
        """Add what differs from day to day."""
        if day != self._day:
            self._close()
            self._day = day
        self._of_day += back
        self.add(hours, back, back, back)

    def _close(self) -> None:
        if self._day >= 0:
            self._days += 1
            self._sum += self._of_day
            self._squares += self._of_day**2
        self._of_day = 0.0

    def variance(self) -> float:
        """Variance of what came back, by its days; of one day all of it may be missing."""
        self._close()
        self._day = -1
        if not self._days:
            return 0.0
        mean_square = self._sum**2 / self._days if self._days > 1 else 0.0
        return max(self._squares - mean_square, 0.0)


@dataclass(slots=True)
class _Group:
    starts: int = 0
    node_hours: float = 0.0
    causes: dict[Cause, _Amount] = field(default_factory=lambda: defaultdict(_Amount))

    @property
    def back(self) -> float:
        """Node-hours that could come back."""
        return sum(amount.back for amount in self.causes.values())


#: Share of a run's node-hours that it would have taken at the knee: value, low and high.
AtKnee = tuple[float, float, float]


@dataclass(slots=True)
class WasteTally:
    """Adds up starts of jobs, in the order of their submission.

    shapes: of nodes, by cluster and partition.
    at_knee: says what a completed run would have taken at its knee; None: it was not beyond it, or
        nothing reliable says so.
    margin: by which advice goes beyond the highest need.
    """

    shapes: dict[str, NodeShape]
    at_knee: Callable[[RunRow], AtKnee | None] = lambda _: None
    margin: float = 1.2
    _groups: dict[Place, _Group] = field(default_factory=lambda: defaultdict(_Group))
    _records: dict[tuple[str, str], ApplicationRecord] = field(default_factory=dict)
    _begin_s: float | None = None
    _end_s: float | None = None
    _unmeasured: float = 0.0
    _ratios: list[float] = field(default_factory=list)
    _far: int = 0
    _longest: dict[tuple[str, str], float] = field(default_factory=dict)

    def add(self, run: RunRow) -> float:
        """Take a start; give its node-hours that could come back, but for those of its limit.

        One that did not run, or has not ended, takes no node-hours.
        """
        if run.start_s is None or run.elapsed_s <= 0 or run.nodes <= 0 or not run.state.ended:
            return 0.0
        application = run.identity.application or run.name
        key = run.user, application
        record = self._records.setdefault(key, ApplicationRecord(self.margin))
        shape = self.shapes.get(f"{run.cluster}/{run.partition}", NodeShape())
        occupied = occupancy_of(run, shape)
        usage = usage_of(run)
        hours = node_hours(run, occupied)
        place = run.user, run.account, application, run.partition
        group = self._groups[place]
        before = group.back
        group.starts += 1
        group.node_hours += hours
        self._begin_s = min(self._begin_s or run.start_s, run.start_s)
        self._end_s = max(self._end_s or 0.0, run.start_s + run.elapsed_s)
        self._unmeasured += hours * (usage[Cause.CPUS].used is None)
        self._see_limit(key, run)
        if run.state.out_of_time:
            end_s = run.start_s + run.elapsed_s
            record.lose(Lost(end_s, run.elapsed_s, run.nodes, hours, place))
        elif not self._bought_nothing(group, record, run, hours):
            self._left_idle(group, record, run, _Had(hours, shape, occupied, usage))
        record.take(run, usage)
        return group.back - before

    def _bought_nothing(
        self, group: _Group, record: ApplicationRecord, run: RunRow, hours: float
    ) -> bool:
        """Whether all of a start bought nothing, by how it and those before it ended."""
        if ran_short(run):
            before = record.shortages_before(run)
            back = hours * (before >= 1)
            low = hours * (before >= 2)
            group.causes[Cause.OUT_OF_MEMORY].add(hours, back, low, hours)
        elif run.state in STOPPED:
            group.causes[Cause.STOPPED].add(hours, 0.0, 0.0, 0.0)
        elif run.name and run.state is JobState.FAILED and (before := record.failures_before(run)):
            back = hours * (before >= 2)
            low = hours * (before >= 3)
            group.causes[Cause.FAILED].add(hours, back, low, hours)
        else:
            return False
        return True

    def _left_idle(
        self, group: _Group, record: ApplicationRecord, run: RunRow, had: "_Had"
    ) -> None:
        """Take what a start had and did not use, beyond the knee first."""
        rest = 1.0
        if run.state is JobState.COMPLETED and (at_knee := self.at_knee(run)):
            rest, low, high = at_knee
            lost = (had.hours * (1.0 - share) for share in (rest, high, low))
            value, least, most = lost
            group.causes[Cause.KNEE].add(value, value, least, most)
        hours = had.hours * rest
        used = {cause: one.used for cause, one in had.usage.items()}
        # At the knee the same CPU time is that of fewer nodes.
        of_knee = {cause: one and one / rest for cause, one in used.items()}
        unused = had.occupied.unused(needs_of(of_knee, had.shape))
        if not unused:
            return
        advised = record.advised(run, had.usage)
        returned, short = self._returned(run, had, advised, rest)
        per_share = hours / had.occupied.height
        day = int(run.submit_s // _DAY_S)
        for cause, share in unused.items():
            back = returned.get(cause, 0.0) * per_share
            if short and cause is Cause.MEMORY:
                back = -hours  # it would have had to run again
            group.causes[cause].add_of_day(day, share * per_share, back)

    def _returned(
        self, run: RunRow, had: "_Had", advised: dict[Cause, float], rest: float
    ) -> tuple[dict[Cause, float], bool]:
        """Give the shares that advice gives back, and whether it was too little memory."""
        enough: dict[Cause, float | None] = {}
        short = False
        for cause, amount in advised.items():
            used = had.usage[cause].used or 0.0
            if amount >= used:
                enough[cause] = amount / rest
            elif cause is Cause.MEMORY and amount < had.usage[cause].had:
                short = True
        return had.occupied.returned(needs_of(enough, had.shape), run.nodes), short

    def _see_limit(self, key: tuple[str, str], run: RunRow) -> None:
        if run.state is not JobState.COMPLETED or not run.limit_s or run.elapsed_s < _LEAST_S:
            return
        self._ratios.append(run.limit_s / run.elapsed_s)
        longest = self._longest.get(key)
        self._far += longest is not None and run.limit_s > FAR * longest
        self._longest[key] = max(longest or 0.0, run.elapsed_s)

    def result(self, *, own: bool = False, by: str = "") -> WasteReport:
        """Sum up.

        own: all jobs are those of the user who asks.
        by: one of `BY`, to have groups; empty: none.
        """
        self._settle()
        every = list(self._groups.items())
        causes = [
            CauseWaste(cause=cause, starts=starts, node_hours=wasted, **_ends(amounts))
            for cause in Cause
            if (amounts := [(place, g.causes[cause]) for place, g in every if cause in g.causes])
            and (wasted := sum(one.wasted for _, one in amounts)) > 0
            and (starts := sum(one.starts for _, one in amounts))
        ]
        causes.sort(key=lambda one: -one.node_hours)
        amounts = [(place, one) for place, group in every for one in group.causes.values()]
        limits = None
        if self._ratios:
            limits = LimitUse(starts=len(self._ratios), ratio=median(self._ratios), far=self._far)
        return WasteReport(
            begin_s=self._begin_s,
            end_s=self._end_s,
            own=own,
            users=len({place[0] for place, _ in every}),
            starts=sum(group.starts for _, group in every),
            node_hours=sum(group.node_hours for _, group in every),
            wasted=sum(one.node_hours for one in causes),
            **_ends(amounts),
            causes=tuple(causes),
            unmeasured=self._unmeasured,
            limits=limits,
            by=by,
            groups=self._by(by) if by else (),
        )

    def _settle(self) -> None:
        """Take the starts that their limits ended: what followed is known by now."""
        for record in self._records.values():
            lost = [*((one, True) for one in record.again), *((one, False) for one in record.open)]
            if lost and not record.until_limit:
                for one, proven in lost:
                    back = one.hours if proven else one.hours * record.completes
                    low = one.hours if proven else 0.0
                    amount = self._groups[one.place].causes[Cause.TIMEOUT]
                    amount.add(one.hours, back, low, one.hours)
            record.again.clear()
            record.open.clear()

    def _by(self, by: str) -> tuple[GroupWaste, ...]:
        groups: dict[str, list[tuple[Place, _Group]]] = defaultdict(list)
        for place, group in self._groups.items():
            name = place[BY.index(by)]
            if by == "application":  # names of different users are different applications
                name = f"{place[0]}/{name}"
            groups[name].append((place, group))
        rows = [_row(name, members) for name, members in groups.items()]
        return tuple(sorted(rows, key=lambda row: (-row.wasted, -row.node_hours, row.name)))


@dataclass(frozen=True, slots=True)
class _Had:
    """What a start had."""

    hours: float
    shape: NodeShape
    occupied: Occupancy
    usage: dict[Cause, Used]


def _row(name: str, members: Sequence[tuple[Place, _Group]]) -> GroupWaste:
    amounts = [(place, one) for place, group in members for one in group.causes.values()]
    wasted = Counter[Cause]()
    for _, group in members:
        for cause, one in group.causes.items():
            wasted[cause] += one.wasted  # type: ignore[assignment] # hours, not a count
    most = wasted.most_common(1)
    return GroupWaste(
        name=name,
        starts=sum(group.starts for _, group in members),
        node_hours=sum(group.node_hours for _, group in members),
        wasted=sum(wasted.values()),
        **_ends(amounts),
        cause=most[0][0] if most and most[0][1] > 0 else None,
    )


class _Back(TypedDict):
    back: float
    back_low: float
    back_high: float


def _ends(amounts: Iterable[tuple[Place, _Amount]]) -> _Back:
    """Sum up what could come back, with its interval, within what was wasted."""
    listed = list(amounts)
    below: dict[tuple[str, str], float] = defaultdict(float)
    above: dict[tuple[str, str], float] = defaultdict(float)
    for place, one in listed:
        application = place[0], place[2]
        below[application] += one.back - one.low
        above[application] += one.high - one.back
    spread = _NINETY * sqrt(sum(one.variance() for _, one in listed))
    wasted = sum(one.wasted for _, one in listed)
    back = min(max(sum(one.back for _, one in listed), 0.0), wasted)
    return _Back(
        back=back,
        back_low=max(back - hypot(spread, *below.values()), 0.0),
        back_high=min(back + hypot(spread, *above.values()), wasted),
    )
