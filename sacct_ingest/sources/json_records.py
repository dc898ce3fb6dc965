"""What NIMO reads of a job in Slurm's JSON, as msgspec decodes it: all else is skipped, not built.

For data_parser 0.0.38 to 0.0.45.  A value is left as it stands, in any of its spellings; what is no
record where one should be counts as missing.
"""

from collections.abc import Callable
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct, structs


class CpuTime(Struct, frozen=True, gc=False):
    """A CPU time."""

    seconds: Any = None
    microseconds: Any = None


class JobTime(Struct, frozen=True, gc=False):
    """Times of a job."""

    submission: Any = None
    eligible: Any = None
    start: Any = None
    end: Any = None
    elapsed: Any = None
    limit: Any = None
    total: CpuTime = CpuTime()


class StepTime(Struct, frozen=True, gc=False):
    """Times of a step."""

    start: Any = None
    end: Any = None
    elapsed: Any = None
    total: CpuTime = CpuTime()
    user: CpuTime = CpuTime()
    system: CpuTime = CpuTime()


class Array(Struct, frozen=True, gc=False):
    """The array that a job is a task of."""

    job_id: Any = None
    task_id: Any = None
    task: Any = None  #: indexes of all that have not started


class Het(Struct, frozen=True, gc=False):
    """The heterogeneous job that a job is a component of."""

    job_id: Any = None
    job_offset: Any = None


class Named(Struct, frozen=True, gc=False):
    """Something with a name."""

    name: Any = None


class Association(Struct, frozen=True, gc=False):
    """Who a job is charged to."""

    user: Any = None


class State(Struct, frozen=True, gc=False):
    """State of a job."""

    current: Any = None


class ExitCode(Struct, frozen=True, gc=False):
    """How a job ended."""

    return_code: Any = None
    signal: Any = None


class Required(Struct, frozen=True, gc=False):
    """What a job needs."""

    cpus: Any = msgspec.field(default=None, name="CPUs")


class Comments(Struct, frozen=True, gc=False):
    """Comments on a job."""

    job: Any = None
    administrator: Any = None


class JobTres(Struct, frozen=True, gc=False):
    """Trackable resources of a job: lists."""

    allocated: Any = None
    requested: Any = None


class Usage(Struct, frozen=True, gc=False):
    """Use of resources by a step: lists."""

    max: Any = None
    total: Any = None


class StepTres(Struct, frozen=True, gc=False):
    """Trackable resources of a step."""

    allocated: Any = None
    requested: Usage = Usage()
    consumed: Usage = Usage()


class StepName(Struct, frozen=True, gc=False):
    """Which step it is."""

    id: Any = None
    name: Any = None


class Count(Struct, frozen=True, gc=False):
    """How many."""

    count: Any = None


class Energy(Struct, frozen=True, gc=False):
    """Energy that a step took."""

    consumed: Any = None


class Statistics(Struct, frozen=True, gc=False):
    """What was measured of a step."""

    energy: Energy = Energy()


class DbStep(Struct, frozen=True, gc=False):
    """A step of a job of slurmdbd."""

    step: StepName = StepName()
    state: Any = None
    time: StepTime = StepTime()
    nodes: Count = Count()
    tasks: Count = Count()
    tres: StepTres = StepTres()
    statistics: Statistics = Statistics()


class DbJob(Struct, frozen=True, gc=False):
    """A job of ``sacct --json`` and of slurmrestd's /slurmdb/.../jobs."""

    job_id: Any = None
    array: Array = Array()
    het: Het = Het()
    cluster: Any = None
    user: Any = None
    association: Association = Association()
    account: Any = None
    partition: Any = None
    qos: Any = None
    state: State = State()
    kill_request_user: Any = None
    exit_code: ExitCode = ExitCode()
    time: JobTime = JobTime()
    allocation_nodes: Any = None
    tres: JobTres = JobTres()
    required: Required = Required()
    nodes: Any = None
    constraints: Any = None
    reservation: Named = Named()
    submit_line: Any = None
    working_directory: Any = None
    comment: Comments = Comments()
    name: Any = None
    steps: list[DbStep] = []
    job_state: Any = UNSET  #: slurmctld's own jobs have it, and none of these


class LiveJob(Struct, frozen=True, gc=False):
    """A job of slurmrestd's /slurm/.../jobs and of ``squeue --json``: slurmctld's own."""

    job_state: Any = UNSET
    job_id: Any = None
    array_job_id: Any = None
    array_task_id: Any = None
    array_task_string: Any = None
    het_job_id: Any = None
    het_job_offset: Any = None
    cluster: Any = None
    user_name: Any = None
    user_id: Any = None
    account: Any = None
    partition: Any = None
    qos: Any = None
    exit_code: Any = None
    submit_time: Any = None
    eligible_time: Any = None
    start_time: Any = None
    end_time: Any = None
    time_limit: Any = None
    node_count: Any = None
    cpus: Any = None
    tasks: Any = None
    tres_req_str: Any = None
    tres_alloc_str: Any = None
    nodes: Any = None
    memory_per_cpu: Any = None
    memory_per_node: Any = None
    features: Any = None
    resv_name: Any = None
    submit_line: Any = None
    current_working_directory: Any = None
    comment: Any = None
    admin_comment: Any = None
    name: Any = None


Job = DbJob | LiveJob
_DECODE: Final[dict[type[Job], Callable[[str], Job]]] = {
    DbJob: msgspec.json.Decoder(DbJob).decode,
    LiveJob: msgspec.json.Decoder(LiveJob).decode,
}


def decode_like(kind: type[Job], text: str) -> Job:
    """Decode one whole job of a kind.

    Raises ValueError: it is not JSON, or a job of the other kind, or has no record where one should
        be.
    """
    job = _DECODE[kind](text)
    if (job.job_state is UNSET) is (kind is LiveJob):
        raise ValueError("a job of another kind")
    return job


def job_of(value: Any) -> Job:
    """Make a job of what Python's own decoder gives.

    Raises TypeError: it is no object.
    """
    if type(value) is not dict:
        raise TypeError("not a job")
    kind: type[Job] = LiveJob if "job_state" in value else DbJob
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return msgspec.convert(_fitting(value, kind), kind)


def _fitting(value: Any, kind: type[Struct]) -> dict[str, Any]:
    """Leave out what is no record where one should be."""
    record = value if type(value) is dict else {}
    fitting = {}
    for field in structs.fields(kind):
        if (part := record.get(field.encode_name, UNSET)) is UNSET:
            continue
        if get_origin(field.type) is list:
            (item,) = get_args(field.type)
            part = [_fitting(one, item) for one in part] if type(part) is list else []
        elif field.type is not Any:
            part = _fitting(part, field.type)
        fitting[field.encode_name] = part
    return fitting
