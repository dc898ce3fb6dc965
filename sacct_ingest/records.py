"""What the accounting says, as frozen records; units are in the names.

Times are seconds since the epoch (UTC), sizes bytes, durations seconds.  ``None`` means that
the accounting does not say; zero means zero.

Steps come by the million: msgspec structs are made ten times as fast as dataclasses.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Annotated, Final, NamedTuple

import msgspec

#: Between an identity's key and the name of its part, which has a table of its own.
PART: Final = "#part="
#: How the jobs of `nimo lab learn` are called; all that they belong to is the application that they
#: were made for.
LEARNING: Final = "nimo-learn-"
#: ``via`` of a decision that was read from its job's note, which says less.
FROM_NOTE: Final = "note"


class Says(Enum):
    """What a start of a job that ended in some state says of its run time, or of its memory."""

    WHOLE = "whole"  #: what was measured is what the job takes
    AT_LEAST = "at least"  #: it was cut off: it would have taken as much or more
    NOTHING = "nothing"


class JobState(StrEnum):
    """Base states of a job or step as ``sacct`` spells them; `_STATES` says what each means."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    REQUEUED = "REQUEUED"
    RESIZING = "RESIZING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    REVOKED = "REVOKED"
    UNKNOWN = "UNKNOWN"

    @property
    def ended(self) -> bool:
        """Whether the row of a run in this state changes no more."""
        return _STATES[self].ended

    @property
    def final(self) -> bool:
        """Whether the job runs no more: neither this run of it nor another one."""
        return _STATES[self].ended and self is not JobState.REQUEUED

    @property
    def run_time(self) -> Says:
        """What the elapsed time of such a run says of its run time."""
        return _STATES[self].run_time

    @property
    def memory(self) -> Says:
        """What the memory of such a run says of what it needs."""
        return _STATES[self].memory

    @property
    def finished(self) -> bool:
        """Whether the elapsed time of such a run is its run time."""
        return _STATES[self].run_time is Says.WHOLE

    @property
    def cut_short(self) -> bool:
        """Whether the run was cut off, by whatever: it would have taken longer."""
        return _STATES[self].run_time is Says.AT_LEAST

    @property
    def failed(self) -> bool:
        """Whether it ended without its work done, by the cluster, a person or itself."""
        return _STATES[self].ended and _STATES[self].run_time is not Says.WHOLE

    @property
    def out_of_time(self) -> bool:
        """Whether the run was cut off for lack of time: by its limit or its deadline."""
        return _STATES[self].out_of_time

    @property
    def says_run_time(self) -> bool:
        """Whether predictions are made of such runs: finished, or cut off."""
        return _STATES[self].run_time is not Says.NOTHING

    @property
    def interrupted(self) -> bool:
        """Whether the cluster or a person ended the run, which says nothing against the job."""
        return _STATES[self].interrupted

    @property
    def may_lack_memory(self) -> bool:
        """Whether Slurm may have ended the run for lack of memory without saying so in the state.

        Its own accounting does (``OverMemoryKill``): such a run fails, or is requeued.
        """
        return _STATES[self].may_lack_memory


@dataclass(frozen=True, slots=True)
class _State:
    """What a state means; ``code`` is its short form on sacct's command line."""

    code: str
    ended: bool = True
    run_time: Says = Says.NOTHING
    memory: Says = Says.NOTHING
    out_of_time: bool = False
    interrupted: bool = False
    may_lack_memory: bool = False


def _cut_off(code: str, **more: bool) -> _State:
    """Give a state in which a run had not done its work, whatever ended it: it needed more."""
    return _State(code, run_time=Says.AT_LEAST, memory=Says.AT_LEAST, **more)


#: The only place that says what an ending means; `sacct_ingest.runs.evidence` reads it.
_STATES: Final = {
    JobState.PENDING: _State("PD", ended=False),
    JobState.RUNNING: _State("R", ended=False),
    JobState.SUSPENDED: _State("S", ended=False),
    JobState.REQUEUED: _cut_off("RQ", interrupted=True, may_lack_memory=True),
    # A resized job's row up to the resize: see `sacct_ingest.ingest.into_store.to_store`.
    JobState.RESIZING: _State("RS", ended=False),
    JobState.COMPLETED: _State("CD", run_time=Says.WHOLE, memory=Says.WHOLE),
    JobState.CANCELLED: _cut_off("CA", interrupted=True),
    JobState.FAILED: _State("F", may_lack_memory=True),
    JobState.TIMEOUT: _cut_off("TO", out_of_time=True),
    JobState.NODE_FAIL: _cut_off("NF", interrupted=True),
    JobState.PREEMPTED: _cut_off("PR", interrupted=True),
    JobState.BOOT_FAIL: _State("BF", interrupted=True),
    JobState.DEADLINE: _cut_off("DL", out_of_time=True),
    JobState.OUT_OF_MEMORY: _State("OOM", memory=Says.AT_LEAST),
    JobState.REVOKED: _State("RV", interrupted=True),
    JobState.UNKNOWN: _State("", ended=False),
}
#: States of which predictions are made; for queries of the store.
RUN_TIME_STATES: Final = tuple(state.value for state in JobState if state.says_run_time)
#: What sacct is asked for: rows that ended, and those that a resize ended.
ENDED_CODES: Final = tuple(_STATES[s].code for s in JobState if s.ended or s is JobState.RESIZING)


class Fault(StrEnum):
    """Why an optional value is taken for unknown."""

    OVERFLOWED = "overflowed"
    UNREADABLE = "unreadable"
    CONTRADICTED = "contradicted"  #: what must hold does not: a limit shorter than the run

    @property
    def words(self) -> str:
        """What the column did, as a sentence goes on behind its name."""
        return _FAULT_WORDS[self]


_FAULT_WORDS = {
    Fault.OVERFLOWED: "overflowed",
    Fault.UNREADABLE: "could not be read",
    Fault.CONTRADICTED: "was shorter than the run",
}


class OddValue(NamedTuple):
    """An optional value that is unknown: whose, in which column, and why."""

    kind: str  #: ``job`` or ``step``
    column: str
    fault: Fault


class KeyLevel(StrEnum):
    """How an application was recognised, the most specific first."""

    TAG = "tag"  #: user and ``nimo:app=NAME,problem=…`` in the job's comment
    SCRIPT = "script"  #: digest of user, normalised job script and its arguments
    LINE = "line"  #: user, job name and what was submitted
    NAME = "name"  #: user and job name
    USER = "user"  #: user alone


#: Levels that mean "the same application on the same problem": only these make scaling curves.
CURVE_LEVELS = (KeyLevel.TAG, KeyLevel.SCRIPT, KeyLevel.LINE)


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity keys of a run or a request; an empty key means "unknown".

    ``tag`` is readable text (``USER/APP`` or ``USER/APP/PROBLEM``); ``script`` and ``line`` are hex
    digests.  The user is part of each.
    """

    user: str
    name: str
    tag: str = ""
    script: str = ""
    line: str = ""

    @property
    def application(self) -> str:
        """The tag as its user wrote it: ``APP`` or ``APP/PROBLEM``; empty without one."""
        return self.tag.partition("/")[2]

    @property
    def program(self) -> str:
        """The tag without its problem: ``APP``; empty without one."""
        return self.application.partition("/")[0]

    def key(self, level: KeyLevel) -> str:
        """Text of the key at ``level``, empty where it is unknown."""
        if level is KeyLevel.NAME:
            return f"{self.user}/{self.name}" if self.user and self.name else ""
        return str(getattr(self, level))


class StepRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One step of a run (``batch``, ``extern``, ``interactive`` or a number)."""

    step: str
    state: JobState
    name: str = ""
    nodes: int = 0
    tasks: int | None = None
    cpus: int = 0
    start_s: int | None = None
    end_s: int | None = None
    elapsed_s: float = 0.0
    cpu_s: float | None = None
    disk_read_bytes: int | None = None
    disk_write_bytes: int | None = None
    mem_bytes: int | None = None  #: highest resident size of one task (MaxRSS)
    user_cpu_s: float | None = None
    system_cpu_s: float | None = None
    #: Counters of whole nodes, summed over tasks as Slurm gives them (`sacct_ingest.runs.usage`).
    lustre_read_bytes: int | None = None
    lustre_write_bytes: int | None = None
    net_in_bytes: int | None = None
    net_out_bytes: int | None = None
    energy_j: int | None = None
    gpu_percent: float | None = None  #: highest use of GPUs, all tasks together; 100: of one GPU
    gpu_mem_bytes: int | None = None  #: highest memory on GPUs, all tasks together


class Start(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One start of a job, from the moment it got its nodes until it ended or was requeued.

    A job that Slurm starts again (``--requeue``, preemption, a failed node, ``scontrol requeue``
    by the job itself) keeps its id: the accounting has a row for each start, with the time of the
    requeue for its submit time.  Of a heterogeneous job a start is that of all components at once:
    ``nodes`` and ``cpus`` are sums, ``state`` and exit code those of its first component.

    Every start has begun (``start_s`` is a time) and has ended.  ``state`` says how: only the last
    start of a job can be COMPLETED; the earlier ones were stopped, so the work of each takes at
    least ``elapsed_s``, and whether a later start began anew or went on is not in the accounting.
    """

    submit_s: int  #: when the job was submitted, or requeued before this start
    start_s: int
    end_s: int | None
    elapsed_s: float
    state: JobState
    limit_s: int | None = None  #: time limit of this start; None: unlimited or unknown
    nodes: int = 0
    cpus: int = 0
    exit_code: int | None = None
    exit_signal: int | None = None
    tasks: int | None = None
    mem_bytes: int | None = None  #: highest resident size of one task; None: not measured
    req_mem_bytes: int | None = None  #: in all
    cpu_s: float | None = None


class Component(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one component of a heterogeneous job had and used; amounts are in all."""

    nodes: int
    cpus: int
    tasks: int | None = None
    gpus: int | None = None
    gpu_types: str = ""
    req_cpus: int | None = None
    req_gpus: int | None = None
    req_mem_bytes: int | None = None
    mem_bytes: int | None = None
    cpu_s: float | None = None

    def __str__(self) -> str:
        counts = ((self.nodes, "node"), (self.req_cpus or self.cpus, "CPU"), (self.gpus, "GPU"))
        return ", ".join(f"{n} {word}{'s' * (n != 1)}" for n, word in counts if n)


class JobPieces(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a job of several rows of the accounting has besides the row that stands for it.

    earlier: its starts but the last, in their order.
    components: those of its last start in their order; empty unless it is heterogeneous.
    """

    earlier: tuple[Start, ...] = ()
    components: tuple[Component, ...] = ()


def seconds_of(minutes: int | None) -> int | None:
    """Seconds of a limit that Slurm keeps in minutes; None for none.

    >>> seconds_of(90), seconds_of(None)
    (5400, None)
    """
    return None if minutes is None else 60 * minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """What was decided for one submission, with what it was decided on.

    ``requested_nodes`` is the count that the job would have had without us; ``nodes`` the one
    chosen, in observe mode the one that would have been.  The identity keys are those of the
    request: the script's digest can only be taken here, sacct rarely has the script.
    """

    decision_id: str  #: 12 hex digits, also in the job's admin_comment
    cluster: str
    at_s: float
    mode: str = ""
    via: str = ""
    action: str = "keep"  #: keep, set or refuse
    reason: str = ""
    uid: int | None = None
    user: str = ""
    name: str = ""
    work_dir: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    tag: str = ""
    script: str = ""
    line: str = ""
    key_level: str = ""
    key: str = ""
    label: str = ""
    verdict: str = ""
    min_nodes: int | None = None
    max_nodes: int | None = None
    requested_nodes: int | None = None
    limit_s: int | None = None
    deadline_s: float | None = None
    nodes: int | None = None
    applied: bool = False
    predicted_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    request_predicted_s: float | None = None
    wait_s: float | None = None
    message: str = ""
    given_limit_s: int | None = None  #: time limit that the hook was to write
    given_min_s: int | None = None  #: and ``--time-min``
    soft_s: int | None = None  #: limit to plan with, beside the ``limit_s`` that the job is held to
    request_low_s: float | None = None  #: interval on the count asked for
    request_high_s: float | None = None
    request_wait_s: float | None = None
    confidence: float | None = None  #: nominal share of runs inside these intervals
    unit: str = "nodes"  #: what ``nodes`` and ``requested_nodes`` count
    given_mem_mib: int | None = None  #: memory of each node that the job was to get instead ...
    asked_mem_mib: int | None = None  #: ... of what it asked for; None: that stayed
    given_place: str = ""  #: partition or features that were to be tried first ...
    asked_place: str = ""  #: ... of these; empty: they stayed as they were
    script_bag: str = ""  #: words of its script, as `sacct_ingest.scripts.script_bag` has them
    #: in place of a predicted wait: it starts by then if the jobs before it reach their limits
    wait_most_s: float | None = None
    request_wait_most_s: float | None = None
    inputs: str = ""  #: sizes of input files, as the client saw them: `runs.input_sizes`


#: Longer ones have no decision: nimod takes none of a job with them.
_Text = Annotated[str, msgspec.Meta(max_length=4096)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownJob:
    """A job as ``scontrol show job`` shows it: what it asked for, or was given since."""

    user: _Text
    name: _Text
    work_dir: _Text
    submit_s: int
    low_nodes: int = 1
    high_nodes: int | None = None  #: None: no upper bound is shown
    started: bool = False  #: both counts are then those of the nodes that it has
    tasks: int | None = None
    limit_s: int | None = None  #: None: unlimited
    least_limit_s: int | None = None  #: ``--time-min``
    deadline_s: float | None = None
    partitions: tuple[_Text, ...] = ()
    line: _Text = ""  #: as of an `Identity`; empty: the release does not show the arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingRow:
    """Whether an application's predictions still hold; see `evaluation.feedback`."""

    level: KeyLevel
    key: str
    label: str
    off: bool  #: its jobs are only observed
    ratio: float  #: median of realised over predicted run time of the last runs
    runs: int  #: how many these are
    low: float  #: the band that the ratio has to be in
    high: float
    since_s: float  #: when it was last switched on or off
    judged_s: float

    @property
    def broke_promises(self) -> bool:
        """Whether it is off though its predictions hold: too few changed jobs kept the guard."""
        return self.off and self.low <= self.ratio <= self.high


class Resource(StrEnum):
    """What a probe measures, and the unit of its value."""

    BANDWIDTH = "bandwidth"  #: bytes/s from source to target, one TCP message
    LATENCY = "latency"  #: s, round trip of one small TCP message
    CPU = "cpu"  #: share of one CPU that a new process would get, 0 to 1
    DISK_READ = "disk_read"  #: bytes/s
    DISK_WRITE = "disk_write"  #: bytes/s, with fsync
    DISK_LATENCY = "disk_latency"  #: s, one small read at a random place
    TRANSFER = "transfer"  #: bytes/s of a whole file from source to target, no probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One measurement of one series ``(resource, source, target)``.

    ``target`` is a host for the network, a folder for the disk, empty for the CPU.  A measurement
    that failed has no value, but says why.
    """

    resource: Resource
    source: str
    target: str = ""
    at_s: float
    value: float | None = None
    size_bytes: int | None = None  #: moved to measure it
    took_s: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProfile:
    """Benchmark figures of one node: NIMO's resource profile ρ.

    None means not measured; ``error`` then says why.
    """

    cluster: str
    node: str
    node_type: str
    at_s: float
    job_id: int | None = None
    cpus: int | None = None
    cpu_events_per_s: float | None = None  #: one thread
    cpu_all_events_per_s: float | None = None  #: a thread on each CPU
    mem_bandwidth_bytes_per_s: float | None = None
    mem_latency_s: float | None = None
    disk_read_bytes_per_s: float | None = None
    disk_write_bytes_per_s: float | None = None
    disk_latency_s: float | None = None
    net_bandwidth_bytes_per_s: float | None = None
    net_latency_s: float | None = None
    error: str = ""
