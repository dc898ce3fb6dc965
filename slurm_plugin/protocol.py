"""Messages between the hooks, ``nimo-advise`` and nimod: one JSON object a line, versioned.

A peer answers a message of another ``v`` with ``ok: false`` and its own version; the hooks then
let the job pass.  Unknown fields are ignored and new ones have defaults, so that releases in a row
understand each other without a new version (``tests/data/messages-*.json``: what they sent).  Where
a meaning has to change, nimod speaks both versions for one release before the hooks begin with the
new one.  Field names of
``Job`` are those of Slurm's ``job_desc`` (unset fields are absent, sentinels never travel).
"""

from typing import Any, Literal

import msgspec

from sacct_ingest.layout import Unit

VERSION = 1
MAX_LINE_BYTES = 256 * 1024  #: longer requests are refused; the hooks cut scripts to fit


def _version() -> int:
    # A factory: plain defaults are not sent, and the version must be.
    return VERSION


#: Comment of a request that only asks Slurm when it would start (``sbatch --test-only``).
ESTIMATE_COMMENT = "nimo:estimate"


class Job(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A job request as the hook sees it; ``time_limit`` and ``time_min`` are in minutes."""

    user_id: int | None = None
    user_name: str = ""
    name: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    min_nodes: int | None = None
    max_nodes: int | None = None
    num_tasks: int | None = None
    ntasks_per_node: int | None = None
    ntasks_per_socket: int | None = None
    cpus_per_task: int | None = None
    min_cpus: int | None = None
    max_cpus: int | None = None
    time_limit: int | None = None
    time_min: int | None = None
    begin_time: int | None = None  #: seconds since the epoch
    deadline: str = ""  #: as the user wrote it (cli_filter) or the client made of it
    array_inx: str = ""
    het_job_offset: int | None = None
    dependency: str = ""
    reservation: str = ""
    req_nodes: str = ""
    exc_nodes: str = ""
    features: str = ""
    licenses: str = ""
    contiguous: int | None = None
    segment_size: int | None = None  #: node counts are multiples of it (``--segment``, 25.11)
    shared: int | None = None
    req_switch: int | None = None
    min_mem_per_node: int | None = None  #: MiB
    min_mem_per_cpu: int | None = None  #: MiB
    tres_per_job: str = ""
    tres_per_node: str = ""
    tres_per_socket: str = ""
    tres_per_task: str = ""
    work_dir: str = ""
    #: when its input files were changed last, seconds since the epoch; only nimo-advise can tell
    inputs_changed_s: float | None = None
    comment: str = ""  #: the user's own, what cli_filter had put before it taken off
    argv: list[str] = []  #: script and its arguments
    script: str = ""  #: text of the batch script; empty for salloc and srun
    script_cut: bool = False  #: the script was longer than the hook sends
    ticket: str = ""  #: of the decision that cli_filter had asked for
    node_sizes: bool = False  #: the command line lists node counts, of which the ends are seen


class Command(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A submit command as cli_filter sees it, before it has worked out its tasks."""

    program: Literal["sbatch", "salloc", "srun"] = "sbatch"
    options: dict[str, str] = {}  #: by long name, as far as they are set; times are ``uts...``
    argv: list[str] = []  #: script or program, and its arguments
    script: str = ""  #: text of the batch script
    work_dir: str = ""
    #: what ``slurm.json_cli_options`` says, in place of ``options`` and ``argv``
    given: msgspec.Raw = msgspec.Raw()
    times: dict[str, str] = {}  #: options in ``given`` that are points in time, as ``uts...``

    def resolved(self) -> "Command":
        """Give the command with its ``options`` and ``argv``, whichever way they came.

        Raises
        ------
        msgspec.DecodeError
            What was given are no options.
        """
        if not bytes(self.given):
            return self
        given = msgspec.json.decode(self.given, type=dict[str, Any])
        argv = given.pop("argv", [])
        options = {name: value for name, value in given.items() if isinstance(value, str)}
        return msgspec.structs.replace(
            self,
            options={**options, **self.times},
            argv=msgspec.convert(argv, list[str]),
            work_dir=options.get("chdir") or self.work_dir,
            given=msgspec.Raw(),
        )


Operation = Literal[
    "decide",
    "prepare",
    "advise",
    "status",
    "reload",
    "applications",
    "explain",
    "links",
    "waits",
]


class Ask(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A request to nimod."""

    v: int = msgspec.field(default_factory=_version)
    op: Operation = "decide"
    via: Literal["job_submit", "advise"] = "job_submit"
    job: Job = msgspec.field(default_factory=Job)
    command: Command = msgspec.field(default_factory=Command)  #: to ``prepare``
    confidence: float = 0.0  #: to ``advise``: chance that is wanted of a deadline; 0: the site's
    name: str = ""  #: to ``applications``: this one alone
    every: bool = False  #: to ``applications``: also those without a curve
    job_id: int | None = None  #: to ``explain``
    job_ids: list[int] = []  #: to ``waits``; none: all that the user has in the queue
    decision_id: str = ""  #: to ``explain``, where the job's admin_comment has it
    tell: bool = False  #: the peer does not wait for an answer, and there is none
    ticket: str = ""  #: under which a command finds what it tells nimod to ``prepare``
    taken: bool = False  #: the decision that lay ready was taken, and is only to be recorded


class Change(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Fields of the job that the hook is to write; absent ones stay as they are."""

    min_nodes: int | None = None
    max_nodes: int | None = None
    num_tasks: int | None = None
    min_cpus: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    tres_per_job: str | None = None
    tres_per_node: str | None = None
    tres_per_task: str | None = None
    time_limit: int | None = None  #: minutes; raised only together with another size
    time_min: int | None = None  #: minutes, at most the limit; never where the user gave one


class Answer(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Nimod's answer to ``decide`` and ``prepare``.

    ``action`` is ``keep`` (pass unchanged), ``set`` (write ``set``) or ``refuse`` (only where the
    site says that deadlines are binding).  ``message`` is for the user, empty when silent.
    """

    v: int = msgspec.field(default_factory=_version)
    ok: bool = True
    action: Literal["keep", "set", "refuse"] = "keep"
    reason: str = ""
    set: Change | None = None
    admin_comment: str = ""  #: to be appended to what the job has; empty: leave it alone
    message: str = ""
    ticket: str = ""  #: to be shown with the job that ``prepare`` was asked about
    #: the settings change no job: on this connection the hook need not wait for answers any more,
    #: which costs slurmctld 170 to 270 µs a submission, not 670 to 740 (docs/measured.md)
    quiet: bool = False
    error: str = ""
    link_down: bool = False  #: there is no answer because a relay does not reach its controller


class WaitShares(msgspec.Struct, frozen=True, kw_only=True):
    """How near one kind of predicted waits came."""

    jobs: int
    #: most by which the wait of four in five of them differed, within half a percent
    within_s: float
    later: float  #: share that started more than a minute later than predicted


class ReadyDecision(msgspec.Struct, kw_only=True):
    """File in which a decision lies ready for job_submit, which reads it and does not ask.

    It is for a job whose ``fields`` have these ``values``; None: the field is not set.
    """

    v: int = msgspec.field(default_factory=_version)
    until_s: float  #: seconds since the epoch, after which it is not taken
    user_id: int
    fields: list[str]
    values: list[int | str | None]
    answer: Answer


class Row(msgspec.Struct, kw_only=True):
    """One node count of an advice."""

    nodes: int
    time_s: float
    low_s: float
    high_s: float
    speedup: float | None  #: against the fewest nodes of the table's observations; None: a guess
    efficiency: float | None
    node_hours: float
    wait_s: float | None = None  #: median
    slurm_wait_s: float | None = None  #: what ``sbatch --test-only`` says
    observed: bool = False
    recommended: bool = False
    meets_deadline: bool | None = None
    limit_s: float | None = None  #: time limit to ask for, whole minutes; None: keep one's own
    time_min_s: float | None = None  #: ``--time-min`` to go with it
    wait_low_s: float | None = None  #: nine in ten wait so long at least ...
    wait_high_s: float | None = None  #: ... and at most; None: it follows from time limits
    end_s: float | None = None  #: seconds from now on, as for the wait
    end_low_s: float | None = None
    end_high_s: float | None = None
    chance: float | None = None  #: of making the deadline


class PartitionRow(msgspec.Struct, kw_only=True):
    """What would come of a job in one partition, on the node count that is best there."""

    partition: str  #: empty: none is known that has nodes of this type alone
    node_type: str = ""
    nodes: int | None = None  #: None: nothing is recommended there, ``reason`` says why
    time_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    wait_s: float | None = None
    verdict: str = ""
    runs: int = 0  #: finished on nodes of this type
    recommended: bool = False
    reason: str = ""


class ObservedPoint(msgspec.Struct, frozen=True):
    """One observation of an advice, as `predictor.types.Point`, which takes long to load."""

    nodes: int
    time_s: float
    repeats: int = 1
    spread: float = 0.0


class Advice(msgspec.Struct, kw_only=True):
    """Nimod's answer to ``advise``."""

    v: int = msgspec.field(default_factory=_version)
    ok: bool = True
    application: str = ""
    unit: Unit = Unit.NODES  #: what the rows' ``nodes`` and ``node_hours`` count
    key_level: str = ""
    verdict: str = ""  #: reliable, doubtful, refused, or unknown
    verdict_text: str = ""  #: in plain words, with what would improve it
    largest: int | None = None  #: most nodes that such a job can get; None: not known
    guess: bool = False  #: made of the user's jobs, whatever they ran
    confidence: float = 0.0
    runs: int = 0
    rows: list[Row] = []
    nodes: int | None = None  #: the recommended count
    directive: str = ""  #: ``#SBATCH --nodes=4``
    memory_directive: str = ""  #: ``#SBATCH --mem=5300M``; empty: what the job asks for will do
    script_text: str = ""  #: what the script fixes itself, in plain words; empty: nothing
    time_directive: str = ""  #: ``#SBATCH --time=00:20:00 --time-min=00:15:00``
    reason: str = ""
    observe: int | None = None  #: node count where one more run would help most
    points: list[ObservedPoint] = []  #: what was observed
    knee: int | None = None  #: processor working set, argmax S²/n
    deadline_s: float | None = None
    meets_deadline: bool | None = None
    deadline_text: str = ""  #: in plain words; empty: there is none, or nothing to say
    sure: float = 0.0  #: chance that is wanted of a deadline
    cheapest_sure: int | None = None  #: node count that has it with the fewest node-hours
    waits: WaitShares | None = None  #: how near waits like the recommended one came
    partition: str = ""  #: that all this is about, where nodes differ in type
    node_type: str = ""
    partitions: list[PartitionRow] = []  #: side by side, where the job may use several
    error: str = ""


class WaitRow(msgspec.Struct, kw_only=True):
    """When a job in the queue is expected to start."""

    job_id: int  #: of an array that of its tasks in the queue: the first of them to start
    tasks: int = 1
    user: str = ""
    name: str = ""
    partition: str = ""
    nodes: int = 0
    reason: str = ""  #: Slurm's, why it waits
    submit_s: float | None = None  #: moments: seconds since the epoch
    start_s: float | None = None  #: half of such jobs have started by then; None: not known
    low_s: float | None = None  #: nine in ten start between these
    high_s: float | None = None
    slurm_start_s: float | None = None  #: planned by Slurm, as ``squeue --start`` has it


class Waits(msgspec.Struct, kw_only=True):
    """Nimod's answer to ``waits``."""

    v: int = msgspec.field(default_factory=_version)
    ok: bool = True
    made_s: float | None = None  #: when the queue was run forward; None: not yet
    recorded: int = 0  #: estimates whose outcome is on record
    rows: list[WaitRow] = []
    missing: list[int] = []  #: jobs that do not wait, or that the user may not see
    error: str = ""


class PartitionWait(msgspec.Struct, kw_only=True):
    """Outlook of one partition for one size of job."""

    partition: str
    waiting: int  #: jobs in its queue
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


class Status(msgspec.Struct, kw_only=True):
    """Nimod's answer to ``status`` and ``reload``."""

    v: int = msgspec.field(default_factory=_version)
    ok: bool = True
    release: str = ""
    identities: int = 0
    loaded_s: float | None = None
    snapshot_age_s: float | None = None
    answered: int = 0
    failed: int = 0
    decisions_pending: int = 0
    outlook_age_s: float | None = None  #: since the queue was run forward; None: not yet
    waits: list[PartitionWait] = []  #: what new jobs have to expect
    waits_recorded: int = 0  #: estimates whose outcome is on record
    waits_inside: float | None = None  #: share of them that were inside their interval
    store_trouble: str = ""  #: why the store cannot be read or written; empty: it can
    store_changed_s: float | None = (
        None  #: when it was deleted or replaced; None: not since the start
    )
    counts: Counts = msgspec.field(default_factory=Counts)
    relays: list[str] = []  #: login nodes that are linked
    #: longest processor time for which nobody was served, since the start
    longest_s: float = 0.0
    error: str = ""


class Uplinked(msgspec.Struct, kw_only=True):
    """One link of a relay."""

    controller: str  #: HOST:PORT
    trouble: str = ""  #: why there is no link; empty: there is one
    auth: str = ""
    release: str = ""  #: of nimod there
    clock_offset_s: float = 0.0  #: its clock less that of the login node
    used: bool = False  #: requests go there


class Uplinks(msgspec.Struct, kw_only=True):
    """Answer to ``links`` of a relay; nimod itself has none."""

    v: int = msgspec.field(default_factory=_version)
    ok: bool = True
    release: str = ""
    links: list[Uplinked] = []
    error: str = ""


_decoder = msgspec.json.Decoder(Ask)
_encoder = msgspec.json.Encoder()


def decode_ask(line: bytes) -> Ask:
    """Read one request line.

    Raises
    ------
    msgspec.DecodeError
        Not JSON, or a field of the wrong type (``msgspec.ValidationError``).
    """
    try:
        return _decoder.decode(line)
    except UnicodeDecodeError as error:  # of a tag or an enumeration
        raise msgspec.DecodeError("not UTF-8") from error
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error


def encode(message: Any) -> bytes:
    """One message as a line with its newline."""
    return _encoder.encode(message) + b"\n"
