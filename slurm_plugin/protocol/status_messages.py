"""What nimod says of the queue, of decisions, of itself and of its relays."""

import msgspec

from slurm_plugin.protocol.lines import Message


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
    slurm_start_s: float | None = None  #: planned by Slurm, as ``squeue --start`` has it


class Waits(Message, kw_only=True):
    """Nimod's answer to ``waits``."""

    made_s: float | None = None  #: when the queue was run forward; None: not yet
    own: bool = False  #: by the waits of the user's own jobs: the queue was not run forward
    recorded: int = 0  #: estimates whose outcome is on record
    rows: list[WaitRow] = msgspec.field(default_factory=list)
    missing: list[int] = msgspec.field(
        default_factory=list
    )  #: jobs that do not wait, or that the user may not see


class PartitionWait(msgspec.Struct, kw_only=True):
    """Outlook of one partition for one size of job."""

    partition: str
    waiting: int | None = None  #: jobs in its queue; None: not for who asks
    nodes: int
    limit_s: float
    wait_s: float
    low_s: float
    high_s: float


class QueueOutlook(msgspec.Struct, kw_only=True):
    """What new jobs have to expect: as nimod leaves it in the store for the pages."""

    made_s: float  #: seconds since the epoch
    recorded: int = 0  #: estimates whose outcome is on record
    inside: float | None = None  #: share of them that were inside their interval
    partitions: list[PartitionWait] = []  #: by partition, for rising sizes


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


class Status(Message, kw_only=True):
    """Nimod's answer to ``status`` and ``reload``."""

    release: str = ""
    identities: int = 0
    loaded_s: float | None = None
    snapshot_age_s: float | None = None
    answered: int = 0
    failed: int = 0
    decisions_pending: int = 0
    outlook_age_s: float | None = None  #: since the queue was run forward; None: not yet
    waits: list[PartitionWait] = msgspec.field(
        default_factory=list
    )  #: what new jobs have to expect
    waits_recorded: int = 0  #: estimates whose outcome is on record
    waits_inside: float | None = None  #: share of them that were inside their interval
    store_trouble: str = ""  #: why the store cannot be read or written; empty: it can
    store_changed_s: float | None = (
        None  #: when it was deleted or replaced; None: not since the start
    )
    counts: Counts = msgspec.field(default_factory=Counts)
    relays: list[str] = msgspec.field(default_factory=list)  #: login nodes that are linked
    #: longest processor time between two answers, since the start
    longest_s: float = 0.0


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
