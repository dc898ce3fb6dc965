"""What is asked of nimod: a job or a command, and what is to be done about it.

Field names of ``Job`` are those of Slurm's ``job_desc`` (unset fields are absent, sentinels never
travel).
"""

from enum import IntEnum
from operator import attrgetter
from typing import Annotated, Any, Final, Literal

import msgspec

from sacct_ingest.records import ShownJob
from slurm_plugin.protocol.lines import version

#: The greatest lengths, in characters, and ranges that nimod takes.  Longer ones cost its loop
#: processor time; a job that has one passes unchanged.
Name = Annotated[str, msgspec.Meta(max_length=1024)]
Path = Annotated[str, msgspec.Meta(max_length=4096)]  #: Linux's PATH_MAX
Terms = Annotated[str, msgspec.Meta(max_length=4096)]  #: partitions, features, licences, TRES
Nodes = Annotated[str, msgspec.Meta(max_length=16_384)]  #: a node list
Text = Annotated[str, msgspec.Meta(max_length=65_536)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]  #: Slurm's are uint32
Mebibytes = Annotated[int, msgspec.Meta(ge=0, lt=2**43)]  #: their bytes fit the store's integers
Moment = Annotated[int, msgspec.Meta(ge=0, lt=2**43)]
Number = Annotated[float, msgspec.Meta(gt=-(2**43), lt=2**43)]  #: seconds since the epoch, hours
Script = Annotated[str, msgspec.Meta(max_length=131_072)]  #: the hooks cut longer ones
Words = Annotated[list[str], msgspec.Meta(max_length=16_384)]
_MOST_OF_WORDS = 65_536  #: characters of all together, as the hooks send them
#: As `slurm_plugin.text.local_time.UtcOffset`; less than a day.
UtcOffset = tuple[Moment, Annotated[int, msgspec.Meta(gt=-86_400, lt=86_400)]]
UtcOffsets = Annotated[list[UtcOffset], msgspec.Meta(max_length=64)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
#: Also indexes of array tasks: one below zero stands for the array.
JobIds = Annotated[
    list[Annotated[int, msgspec.Meta(ge=-1, lt=2**32)]], msgspec.Meta(max_length=1000)
]
#: What takes longer to answer than submissions should wait.
LONG_ANSWERS: Final = frozenset({"advise", "applications", "explain", "report", "waits"})


class ResourceRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a job asks for of its nodes: all that its size and its share of a node depend on."""

    min_nodes: Count | None = None
    max_nodes: Count | None = None
    num_tasks: Count | None = None
    ntasks_per_node: Count | None = None
    ntasks_per_socket: Count | None = None
    cpus_per_task: Count | None = None
    min_cpus: Count | None = None
    max_cpus: Count | None = None
    min_mem_per_node: Mebibytes | None = None  #: MiB
    min_mem_per_cpu: Mebibytes | None = None  #: MiB
    mem_per_tres: Terms = ""  #: of ``--mem-per-gpu``
    cpus_per_tres: Terms = ""  #: of ``--cpus-per-gpu``; of nimo-advise only
    tres_per_job: Terms = ""
    tres_per_node: Terms = ""
    tres_per_socket: Terms = ""
    tres_per_task: Terms = ""
    shared: Count | None = None
    features: Terms = ""
    exc_nodes: Nodes = ""


class AllocationRequest(ResourceRequest, frozen=True, omit_defaults=True):
    """What Slurm allocates nodes by: the resources, whose job it is, and where it may run."""

    user_id: Count | None = None
    user_name: Name = ""
    account: Name = ""
    qos: Name = ""
    partition: Terms = ""
    licenses: Terms = ""
    time_limit: Count | None = None  #: minutes

    @classmethod
    def of(cls, job: "AllocationRequest") -> "AllocationRequest":
        """Take it out of a whole job: a key of what follows from it, and from nothing else."""
        return job if type(job) is cls else cls(*_ALLOCATION(job))


_ALLOCATION = attrgetter(*AllocationRequest.__struct_fields__)
#: Slurm takes 128 components (MAX_HET_JOB_COMPS in src/common/slurm_protocol_defs.h).
Components = Annotated[tuple[AllocationRequest, ...], msgspec.Meta(max_length=127)]


class Job(AllocationRequest, frozen=True, omit_defaults=True, kw_only=True):
    """A job request as the hook sees it; ``time_limit`` and ``time_min`` are in minutes."""

    name: Name = ""
    time_min: Count | None = None
    begin_time: Moment | None = None  #: seconds since the epoch
    deadline: Name = ""  #: as the user wrote it (cli_filter) or the client made of it
    array_inx: Text = ""
    export: Text = ""  #: what ``--export`` names
    het_job_offset: Count | None = None
    #: of a heterogeneous job those behind the first; set by nimo-advise only
    components: Components = ()
    dependency: Text = ""
    reservation: Name = ""
    req_nodes: Nodes = ""
    contiguous: Count | None = None
    segment_size: Count | None = None  #: node counts are multiples of it (``--segment``, 25.11)
    req_switch: Count | None = None
    work_dir: Path = ""
    #: when its input files were changed last, seconds since the epoch; set by nimo-advise only
    inputs_changed_s: Number | None = None
    #: lines of input files that fix a number of tasks; of nimo-advise and commands that wait
    input_text: str = ""
    #: sizes of input files, as the client saw them: `sacct_ingest.runs.input_sizes`
    inputs: Name = ""
    comment: Text = ""  #: the user's own, what cli_filter had put before it taken off
    argv: Words = []  #: script and its arguments
    script: Script = ""  #: text of the batch script; empty for salloc and srun
    script_cut: bool = False  #: the script was longer than the hook sends
    ticket: Name = ""  #: of the decision that cli_filter had asked for
    #: which of account, QOS and partition the user named, in this order: the hook fills in the rest
    named: Name | None = None
    prefer: Terms = ""  #: features that the user prefers
    places: bool = False  #: the hook can write another order of partitions, and preferred features
    node_sizes: bool = False  #: the command line lists node counts, of which the ends are seen
    hook: Count = 0  #: what the hook that asks can write, one of `HookLevel`


class HookLevel(IntEnum):
    """What a hook can write; an older one takes no notice of the rest, and must not be sent it."""

    COUNTS = 0  #: node counts, with tasks and limits
    SIZES = 1  #: numbers of tasks, CPUs and GPUs, and memory
    COMMANDS = 2  #: these numbers before a command has worked out what depends on them


class Command(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A submit command as cli_filter sees it, before it has worked out its tasks."""

    program: Literal["sbatch", "salloc", "srun"] = "sbatch"
    options: dict[str, str] = {}  #: by long name, as far as they are set; times are ``uts...``
    argv: Words = []  #: script or program, and its arguments
    script: Script = ""  #: text of the batch script
    work_dir: str = ""
    input_text: str = ""  #: as of a job
    inputs: Name = ""  #: as of a job
    hook: Count = 0  #: as of a job
    places: bool = False  #: as of a job
    #: what ``slurm.json_cli_options`` says, in place of ``options`` and ``argv``
    given: msgspec.Raw = msgspec.Raw()
    times: dict[str, str] = {}  #: options in ``given`` that are points in time, as ``uts...``

    def resolved(self) -> "Command":
        """Give the command with its ``options`` and ``argv``, whichever way they came.

        Raises msgspec.DecodeError: what was given are no options.
        """
        if not bytes(self.given):
            return self
        given = msgspec.json.decode(self.given, type=dict[str, Any])
        argv = given.pop("argv", [])
        options = {name: value for name, value in given.items() if isinstance(value, str)}
        return msgspec.structs.replace(
            self,
            options={**options, **self.times},
            argv=_checked(msgspec.convert(argv, Words)),
            work_dir=options.get("chdir") or self.work_dir,
            given=msgspec.Raw(),
        )


class Selection(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Which decisions a ``report`` is about; what is empty or None says nothing.

    ``waits`` takes user and partition of it.
    """

    since_s: Number | None = None
    until_s: Number | None = None
    cluster: Name = ""
    partition: Terms = ""
    account: Name = ""
    user: Name = ""
    application: Name = ""
    least_node_hours: Number = 100.0  #: as of `slurm_plugin.evaluation.report_data.collect`


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
    "report",
]


class Ask(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A request to nimod."""

    v: int = msgspec.field(default_factory=version)
    op: Operation = "decide"
    via: Literal["job_submit", "advise"] = "job_submit"
    job: Job = msgspec.field(default_factory=Job)
    command: Command = msgspec.field(default_factory=Command)  #: to ``prepare``
    confidence: Share = 0.0  #: to ``advise``: required chance to make a deadline; 0: the site's
    clusters: Terms = ""  #: to ``advise``: those that ``-M`` names; empty: none
    #: to ``applications``: this one alone; to ``advise``: its usual job, for the user of ``job``
    name: Path = ""
    every: bool = False  #: to ``applications``: also those without a curve
    job_id: Moment | None = None  #: to ``explain``
    shown: ShownJob | None = None  #: to ``explain``: the job in scontrol's words; None: it has none
    selection: Selection = msgspec.field(default_factory=Selection)  #: to ``report``
    job_ids: JobIds = []  #: to ``waits``; none: all that the user has in the queue
    tasks: JobIds = []  #: to ``waits``: index of a task of each of them; below zero: the array
    decision_id: Name = ""  #: to ``explain``, where the job's admin_comment has it
    one_way: bool = False  #: the peer does not wait for an answer, and there is none
    ticket: Name = ""  #: names the decision that nimod should ``prepare`` for a command
    utc_offsets: UtcOffsets = []  #: local time of who reads the answer; empty: nimod's
    taken: bool = False  #: the decision that lay ready was taken, and is only to be recorded


_decoder = msgspec.json.Decoder(Ask)


def _checked(words: list[str]) -> list[str]:
    """Give words, where they are not too long together. Raises msgspec.DecodeError: they are."""
    if words and sum(map(len, words)) > _MOST_OF_WORDS:
        raise msgspec.DecodeError(f"arguments of more than {_MOST_OF_WORDS} characters")
    return words


def decode_ask(line: bytes) -> Ask:
    """Read one request line.

    Raises msgspec.DecodeError: not JSON, or a field of the wrong type
        (``msgspec.ValidationError``).
    """
    try:
        ask = _decoder.decode(line)
        _checked(ask.job.argv or ask.command.argv)
        return ask  # noqa: TRY300 - what is refused is an error, too
    except UnicodeDecodeError as error:  # of a tag or an enumeration
        raise msgspec.DecodeError("not UTF-8") from error
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error
