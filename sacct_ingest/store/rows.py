"""What the store takes and gives besides the records of :mod:`sacct_ingest.records`."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from msgspec import structs

from sacct_ingest.records import Component, Identity, JobPieces, JobState, KeyLevel, Start, StepRun
from sacct_ingest.runs.input_sizes import numbers_in
from sacct_ingest.runs.submission import ARRAY_INDEX, SAMPLE, UNKNOWN, Submission, named

#: Amounts of a heterogeneous job that are sums over its components.
_SUMS: Final = (
    *("nodes", "cpus", "tasks", "gpus"),
    *("req_cpus", "req_gpus", "req_mem_bytes", "cpu_s"),
)
#: CPU time, as a multiple of that of the CPUs asked for, from which on a run used others, too.
_MORE: Final = 1.1


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of the runs that were handed in."""

    new: int = 0
    changed: int = 0
    same: int = 0

    def __add__(self, other: "Stored") -> "Stored":
        return Stored(self.new + other.new, self.changed + other.changed, self.same + other.same)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSelection:
    """Which decisions are meant; what is empty or None says nothing.

    ``only_user`` and ``only_accounts`` say whose jobs may be seen: those of the user, and all of
    the accounts.
    """

    since_s: float | None = None
    until_s: float | None = None
    cluster: str = ""
    partition: str = ""
    account: str = ""
    user: str = ""
    mode: str = ""
    reason: str = ""
    decision_id: str = ""
    key_level: str = ""  #: of the identity that predicted
    key: str = ""
    label: str = ""
    job_id: int = 0
    state: str = ""  #: of the job's run
    changed: bool | None = None  #: only jobs that NIMO changed, or did not
    ratio: tuple[float, float] | None = None  #: actual over predicted run time, from and below
    only_user: str | None = None
    only_accounts: tuple[str, ...] = ()


def total(amounts: Iterable[Any]) -> Any:
    """Sum of amounts; None where one of them is not known."""
    listed = list(amounts)
    return None if None in listed else sum(listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A job as it is stored: one record, of however many rows of the accounting it was made.

    Its amounts are those of its last start, of a heterogeneous job the sums over its components;
    ``state``, ``limit_s`` and times are those of the last start of its first component.  ``tag``,
    ``script`` and ``line`` are the keys of its identity.
    """

    run_id: int
    cluster: str
    job_id: int
    submit_s: int
    state: JobState
    user: str
    name: str
    partition: str
    nodes: int
    cpus: int
    tasks: int | None
    elapsed_s: float
    limit_s: int | None
    eligible_s: int | None
    start_s: int | None
    end_s: int | None
    mem_bytes: int | None
    array_task_id: int | None
    tag: str
    script: str
    line: str
    cpu_s: float | None = None
    work_dir: str = ""
    gpus: int | None = None  #: in all
    node_list: str = ""  #: only of those that `Runs.started` and `NodeSums.unknown` give
    digest: str = ""  #: of the run as it was stored; only of those that `NodeSums.unknown` gives
    node_type: str = ""  #: of all its nodes; only where runs are read by key
    req_mem_bytes: int | None = None  #: in all
    gpu_percent: float | None = None  #: highest use of GPUs; 100: of one
    gpu_types: str = ""  #: ``a100=3,v100=1``
    req_cpus: int | None = None
    req_gpus: int | None = None
    req_gpu_types: str = ""
    node_watts: float | None = None  #: mean power of each of its nodes, with all that ran there
    failed_steps: int | None = None  #: that failed or were cancelled; None: not known
    exit_code: int | None = None
    exit_signal: int | None = None
    array_job_id: int | None = None
    earlier: tuple[Start, ...] = ()  #: its starts but the last, in their order: see `starts`
    components: tuple[Component, ...] = ()  #: empty unless it is heterogeneous
    steps: tuple[StepRun, ...] = ()  #: only of those of `sacct_ingest.ingest.ended_jobs`
    # What its attributes are made of; runs that are joined with decisions do not have it.
    account: str = ""
    submission: Submission = UNKNOWN  #: what its texts say
    inputs: str | None = None  #: `sacct_ingest.runs.input_sizes`; None: nobody has looked
    script_bag: str = ""  #: `sacct_ingest.scripts.script_bag`; empty: not known
    # What was decided of its job; only where runs are read by key.
    asked_size: int | None = None  #: what it would have had without NIMO, in ``asked_unit``
    asked_unit: str = ""
    asked_low: int | None = None  #: fewest and most nodes that its user asked for
    asked_high: int | None = None
    asked_limit_s: int | None = None  #: ``--time`` that its user asked for
    least_nodes: int | None = None  #: fewest nodes that Slurm was asked for, in the end
    try_of: str = ""  #: the decision's reason, where NIMO changed its count

    @property
    def identity(self) -> Identity:
        """Its identity keys."""
        return Identity(self.user, self.name, self.tag, self.script, self.line)

    @property
    def attributes(self) -> dict[str, str]:
        """Its attributes by name: see `sacct_ingest.runs.attributes`."""
        return named(
            self.submission.said,
            account=self.account,
            limit_s=self.limit_s,
            mem_node_bytes=(self.req_mem_bytes or 0) / max(self.nodes, 1),
            folder=self.submission.folder,
            script=self.script,
            array="" if self.array_task_id is None else str(self.array_task_id),
        )

    @property
    def numbers(self) -> dict[str, float]:
        """Its attributes that may be sizes of the problem, as numbers; all are above zero."""
        numbers = self.submission.said.numbers
        if self.inputs:
            numbers = numbers | numbers_in(self.inputs)
        if self.array_task_id is None:
            return numbers
        numbers = {name: number for name, number in numbers.items() if name != SAMPLE}
        return numbers | {ARRAY_INDEX: self.array_task_id} if self.array_task_id else numbers

    @property
    def starts(self) -> tuple[Start, ...]:
        """Each of its starts that began to run, in their order; the last one is that of its fields.

        All have a start time and ended.  Only the last can be COMPLETED: what stopped the earlier
        ones is in their ``state``.  A job that never started has none.  In ``Runs.by_key`` and
        ``Runs.of_keys`` a job appears once, with all of its starts that were read; in
        ``Runs.started`` and ``Runs.newest`` each start of each component is a row by itself, as
        queues see it, and has one start.
        """
        if self.start_s is None:
            return self.earlier
        last = Start(
            submit_s=self.submit_s,
            start_s=self.start_s,
            end_s=self.end_s,
            elapsed_s=self.elapsed_s,
            state=self.state,
            limit_s=self.limit_s,
            nodes=self.nodes,
            cpus=self.cpus,
            exit_code=self.exit_code,
            exit_signal=self.exit_signal,
            tasks=self.tasks,
            mem_bytes=self.mem_bytes,
            req_mem_bytes=self.req_mem_bytes,
            cpu_s=self.cpu_s,
        )
        return (*self.earlier, last)

    def each_start(self) -> tuple["RunRow", ...]:
        """Give the job as a row for each of its starts, in their order: each is evidence."""
        if not self.earlier:
            return (self,)
        names = Start.__struct_fields__
        earlier = [{name: getattr(one, name) for name in names} for one in self.earlier]
        last = replace(self, earlier=())
        return (*(replace(last, **fields) for fields in earlier), last)

    @property
    def shape(self) -> str:
        """What its components have, in words; empty unless it is heterogeneous.

        It is part of what was asked: jobs of another shape, and plain ones, are no repeats of it.
        """
        return " + ".join(map(str, self.components))

    def lasting(self, elapsed_s: float) -> "RunRow":
        """Job as it would be if its last start took so long, seconds; the others in proportion."""
        factor = elapsed_s / self.elapsed_s if self.elapsed_s > 0 else 1.0
        earlier = (structs.replace(one, elapsed_s=one.elapsed_s * factor) for one in self.earlier)
        return replace(self, elapsed_s=elapsed_s, earlier=tuple(earlier))

    def with_pieces(self, pieces: JobPieces) -> "RunRow":
        """Job of which this was one row, with what the others of its rows say."""
        parts = pieces.components
        sums: dict[str, Any] = {}
        if parts:
            sums = {name: total(getattr(one, name) for one in parts) for name in _SUMS}
            measured = (one.mem_bytes for one in parts if one.mem_bytes is not None)
            sums["mem_bytes"] = max(measured, default=None)
            types = [one.gpu_types for one in parts if one.gpu_types]
            sums["gpu_types"] = ",".join(dict.fromkeys(types))
        return replace(self, earlier=pieces.earlier, components=parts, **sums)

    def without_added_cpus(self) -> "RunRow":
        """Run with the CPUs that it asked for, where Slurm gave it more that it did not use.

        Slurm adds CPUs for memory (``MaxMemPerCPU``), and gives whole nodes.  Those that fill a
        core stay: at most one for each task.
        """
        asked = self.req_cpus or 0
        if not asked or self.cpus - asked <= max(self.tasks or 0, self.nodes):
            return self
        if self.cpu_s is None or max(self.cpu_s, (self.tasks or 0) * self.elapsed_s) > (
            _MORE * asked * self.elapsed_s
        ):
            return self
        return replace(self, cpus=asked)

    @property
    def gpu_type(self) -> str:
        """Types of its GPUs, such as ``a100+v100``; empty where the accounting has none."""
        return "+".join(pair.partition("=")[0] for pair in self.gpu_types.split(",") if pair)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRow:
    """A job array, summed up over its tasks that started."""

    cluster: str
    array_job_id: int
    user: str
    account: str
    name: str
    submit_s: int
    tasks: int
    completed: int
    shortest_s: float
    mean_s: float
    longest_s: float
    cpu_had_s: float  #: allocated CPU time of tasks whose use was measured ...
    cpu_used_s: float  #: ... and what they used
    mem_bytes: int | None  #: highest resident size of one task of any step

    @property
    def application(self) -> str:
        """What to call it."""
        return self.name

    @property
    def used_cpus(self) -> float | None:
        """Share of the CPU time that was used; None: not measured."""
        return min(self.cpu_used_s / self.cpu_had_s, 1.0) if self.cpu_had_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SumsRow:
    """Sums of an application on a node type, in one form; ``payload`` is their JSON text."""

    level: KeyLevel
    key: str
    node_type: str
    form: str
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRow:
    """One prediction table; ``payload`` is its JSON text (``predictor.table``)."""

    level: KeyLevel
    key: str
    label: str
    verdict: str
    model: str
    fitted_s: float
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRow:
    """The record of an identity's predictions; ``payload`` is JSON (``predictor.level.record``).

    ``level`` is that of the identity, or ``site`` with an empty key.
    """

    level: str
    key: str
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectRow:
    """A row of accounting text that could not be read, stored for the admin."""

    source: str
    reason: str
    text: str
    read_s: int


@dataclass(frozen=True, slots=True)
class RetentionTimes:
    """For each table the time before which rows may go, seconds since the epoch; None: never."""

    runs: int | None = None
    steps: int | None = None
    decisions: int | None = None
    rejects: int | None = None
    probes: int | None = None
    profiles: int | None = None


@dataclass(frozen=True, slots=True)
class Pruned:
    """What went, or would go, from a table."""

    table: str
    before_s: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What one run adds to the sums of its application, see :mod:`predictor.node_types.sums`.

    ``cluster``, ``submit_s`` and ``job_id`` are the run's key, ``digest`` that of the run as it was
    stored.
    """

    cluster: str
    submit_s: int
    job_id: int
    digest: str
    tag: str = ""
    script: str = ""
    line: str = ""
    basis: str = ""  #: digest of the node type's data
    node_type: str = ""  #: empty: unknown, or several
    nodes: int
    tasks_node: float  #: tasks on each node
    time_s: float  #: 0: adds nothing, as a run that did not complete
    figures: str = ""  #: JSON, figure of the node type by name
