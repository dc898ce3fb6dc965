"""What nimod says of the queue, of decisions, of itself and of its relays."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from math import ceil, log

import msgspec

from slurm_plugin.protocol.lines import Message
from slurm_plugin.protocol.wait_shares import WaitShares

#: A wait up to this long is a start at once, seconds: the scheduler itself takes some.
AT_ONCE_S = 60.0
#: Share of the jobs that an accuracy speaks of.
SHARE = 0.8
FEWEST = 5  #: jobs; of fewer nothing is said
_STEPS = 200  #: bins for each factor of e
_LEAST_S, _NONE = 1e-3, -(10**6)  #: what is off by less is not off


class WaitRow(msgspec.Struct, kw_only=True):
    """When a job in the queue is expected to start."""

    job_id: int  #: of an array that of its tasks in the queue: the first of them to start
    tasks: int = 1
    array_id: int | None = None  #: of the array of a single task
    task: int | None = None  #: its index
    user: str = ""
    name: str = ""
    partition: str = ""
    nodes: int = 0
    reason: str = ""  #: Slurm's, why it waits
    submit_s: float | None = None  #: moments: seconds since the epoch
    start_s: float | None = None  #: half of such jobs have started by then; None: unknown
    low_s: float | None = None  #: nine in ten start between these
    high_s: float | None = None
    last_s: float | None = None  #: half of such arrays have started all their tasks by then
    condition: str = ""  #: of that start: "if job 12 ends well"; empty: none
    slurm_start_s: float | None = None  #: planned by Slurm, as ``squeue --start`` has it
    limit_s: float | None = None  #: its time limit, seconds; None: it has none
    #: run time of a command that never ran, a guess; nine in ten of such are between the others
    guess_s: float | None = None
    guess_low_s: float | None = None
    guess_high_s: float | None = None


class Waits(Message, kw_only=True):
    """Nimod's answer to ``waits``."""

    made_s: float | None = None  #: when the queue was run forward; None: not yet
    own: bool = False  #: by the waits of the user's own jobs: the queue was not run forward
    recorded: int = 0  #: estimates whose outcome is on record
    rows: list[WaitRow] = msgspec.field(default_factory=list)
    #: jobs that do not wait, or that the user may not see
    missing: list[int] = msgspec.field(default_factory=list)
    #: which shares of their limits the site's jobs used: log quantiles
    limit_shares: list[float] = msgspec.field(default_factory=list)


class PartitionWait(msgspec.Struct, kw_only=True):
    """Outlook of one partition for one size of job."""

    partition: str
    waiting: int | None = None  #: jobs in its queue; None: not for who asks
    nodes: int
    limit_s: float
    wait_s: float
    low_s: float
    high_s: float


class QueueUse(msgspec.Struct, kw_only=True):
    """Nodes of partitions in use at moments ``step_s`` seconds apart, from the outlook on.

    Parts of nodes are added up.
    """

    partitions: list[str]  #: those that have these nodes
    nodes: int
    step_s: float
    running: list[float]  #: by jobs that run now
    waiting: list[float]  #: by jobs that wait now
    closed: list[float]  #: kept by reservations


class QueueOutlook(msgspec.Struct, kw_only=True):
    """What new jobs have to expect: as nimod leaves it in the store for the pages."""

    made_s: float  #: seconds since the epoch
    recorded: int = 0  #: estimates whose outcome is on record
    inside: float | None = None  #: share of them that were inside their interval
    partitions: list[PartitionWait] = []  #: by partition, for rising sizes
    uses: list[QueueUse] = []


class Decided(msgspec.Struct, kw_only=True):
    """How often nimod decided so since it began."""

    mode: str
    action: str
    reason: str
    applied: bool
    count: int


class Counts(msgspec.Struct, kw_only=True):
    """What nimod counted since it began; ``bins`` are answers to submissions by their time.

    One bin for each of ``bounds_s``, times up to it and above the one before, and one beyond all.
    """

    began_s: float = 0.0
    decisions: list[Decided] = []
    bounds_s: list[float] = []
    bins: list[int] = []
    sum_s: float = 0.0


class Refused(msgspec.Struct, kw_only=True):
    """How often a limit was reached since nimod began."""

    principal: str  #: what kind of one: user, host, link
    resource: str  #: what there was too much of
    count: int


class Status(Message, kw_only=True):
    """Nimod's answer to ``status`` and ``reload``."""

    release: str = ""
    identities: int = 0
    outdated: int = 0  #: of these, what another release made: not used, they wait for a refit
    loaded_s: float | None = None
    snapshot_age_s: float | None = None
    answered: int = 0
    failed: int = 0
    decisions_pending: int = 0
    outlook_age_s: float | None = None  #: since the queue was run forward; None: not yet
    #: what new jobs have to expect
    waits: list[PartitionWait] = msgspec.field(default_factory=list)
    waits_recorded: int = 0  #: estimates whose outcome is on record
    waits_inside: float | None = None  #: share of them that were inside their interval
    store_trouble: str = ""  #: why the store cannot be read or written; empty: it can
    #: when it was deleted or replaced; None: not since the start
    store_changed_s: float | None = None
    counts: Counts = msgspec.field(default_factory=Counts)
    relays: list[str] = msgspec.field(default_factory=list)  #: login nodes that are linked
    #: longest processor time between two answers, since the start
    longest_s: float = 0.0
    refused: list[Refused] = msgspec.field(default_factory=list)


class Uplinked(msgspec.Struct, kw_only=True):
    """One link of a relay."""

    controller: str  #: HOST:PORT
    trouble: str = ""  #: why there is no link; empty: there is one
    auth: str = ""
    release: str = ""  #: of nimod there
    clock_offset_s: float = 0.0  #: its clock less that of the login node
    used: bool = False  #: requests go there


class Uplinks(Message, kw_only=True):
    """Answer to ``links`` of a relay; nimod itself has none."""

    release: str = ""
    links: list[Uplinked] = msgspec.field(default_factory=list)


class Reported(Message, kw_only=True):
    """Nimod's answer to ``report``."""

    own_only: bool = False  #: only of this user's jobs
    report: msgspec.Raw = msgspec.Raw()  #: `slurm_plugin.evaluation.outcomes.OutcomeReport`


class WaitAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """Accuracy of predicted waits; None: too few jobs."""

    at_once: WaitShares | None = None
    waiting: WaitShares | None = None

    def like(self, wait_s: float | None) -> WaitShares | None:
        """How near waits like this one came."""
        if wait_s is None:
            return None
        return self.at_once if wait_s <= AT_ONCE_S else self.waiting


def judge(pairs: Iterable[tuple[float, float]]) -> WaitAccuracy:
    """Judge predicted waits, one after the other in little memory.

    pairs: predicted and actual wait of each job, seconds.

    >>> judge([(0.0, 2.0)] * 8 + [(0.0, 90.0)] * 2).at_once
    WaitShares(jobs=10, within_s=2.0, later=0.2)
    """
    tally = WaitTally()
    for predicted_s, actual_s in pairs:
        tally.add(predicted_s, actual_s)
    return tally.result()


class WaitTally:
    """Adds up predicted waits, starts at once and others apart."""

    def __init__(self) -> None:
        self._at_once = _Kind()
        self._waiting = _Kind()

    def add(self, predicted_s: float, actual_s: float) -> None:
        """Take a job."""
        kind = self._at_once if predicted_s <= AT_ONCE_S else self._waiting
        kind.add(actual_s - predicted_s)

    def result(self) -> WaitAccuracy:
        """Judge them."""
        return WaitAccuracy(at_once=self._at_once.result(), waiting=self._waiting.result())


class _Kind:
    """By how much waits were off, in bins of half a percent: each its jobs and the most of them."""

    def __init__(self) -> None:
        self._jobs = self._later = 0
        self._counts: Counter[int] = Counter()
        self._most_s: dict[int, float] = {}

    def add(self, late_s: float) -> None:
        off_s = abs(late_s)
        where = round(_STEPS * log(off_s)) if off_s >= _LEAST_S else _NONE
        self._jobs += 1
        self._later += late_s > AT_ONCE_S
        self._counts[where] += 1
        self._most_s[where] = max(off_s, self._most_s.get(where, 0.0))

    def result(self) -> WaitShares | None:
        if self._jobs < FEWEST:
            return None
        bins = sorted(self._counts)
        # The bound that holds for the share, rounding up.
        totals = list(accumulate(self._counts[where] for where in bins))
        within_s = self._most_s[bins[bisect_left(totals, ceil(SHARE * self._jobs))]]
        return WaitShares(jobs=self._jobs, within_s=within_s, later=self._later / self._jobs)
