"""What NIMO reads of a job in Slurm's JSON, as msgspec decodes it: all else is skipped, not built.

For data_parser 0.0.38 to 0.0.45.  A value is left as it stands, in any of its spellings; what is no
record where one should be counts as missing.
"""

from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct, structs


def _record(name: str, places: str, *more: tuple[str, Any, Any]) -> type[Struct]:
    """Make a kind of record with these places, such as ``time.end``; None stands where nothing is.

    more: name, type and default of further fields.
    """
    parts: dict[str, list[str]] = {}
    for place in places.split():
        field, _, rest = place.partition(".")
        parts.setdefault(field, []).append(rest)
    fields: list[tuple[str, Any, Any]] = []
    for field, rests in parts.items():
        kind = Any if rests == [""] else _record(field, " ".join(rests))
        fields.append((field, kind, None if kind is Any else kind()))
    rename = {"cpus": "CPUs"} if name == "required" else None
    return msgspec.defstruct(name, [*fields, *more], frozen=True, gc=False, rename=rename)


#: A step of a job of slurmdbd.
DbStep: Final = _record(
    "DbStep",
    """step.id step.name state nodes.count tasks.count
    time.start time.end time.elapsed
    time.total.seconds time.total.microseconds time.user.seconds time.user.microseconds
    time.system.seconds time.system.microseconds
    tres.allocated tres.requested.max tres.requested.total tres.consumed.total
    statistics.energy.consumed""",
)
#: A job of ``sacct --json`` and of slurmrestd's /slurmdb/.../jobs.
DbJob: Final = _record(
    "DbJob",
    """job_id array.job_id array.task_id array.task het.job_id het.job_offset
    cluster user association.user account partition qos state.current kill_request_user
    exit_code.return_code exit_code.signal
    time.submission time.eligible time.start time.end time.elapsed time.limit
    time.total.seconds time.total.microseconds
    allocation_nodes tres.allocated tres.requested required.cpus nodes constraints
    reservation.name submit_line working_directory comment.job comment.administrator name""",
    ("steps", list[DbStep], []),  # type: ignore[valid-type]
    ("job_state", Any, UNSET),  # slurmctld's own jobs have it, and none of these
)
#: A job of slurmrestd's /slurm/.../jobs and of ``squeue --json``: slurmctld's own.
LiveJob: Final = _record(
    "LiveJob",
    """job_id array_job_id array_task_id array_task_string het_job_id het_job_offset
    cluster user_name user_id account partition qos exit_code
    submit_time eligible_time start_time end_time time_limit node_count cpus tasks
    tres_req_str tres_alloc_str nodes memory_per_cpu memory_per_node features resv_name
    submit_line current_working_directory comment admin_comment name""",
    ("job_state", Any, UNSET),
)

_DECODE: Final = {kind: msgspec.json.Decoder(kind).decode for kind in (DbJob, LiveJob)}


def decode_like(kind: type[Struct], text: str) -> Any:
    """Decode one whole job of a kind.

    Raises ValueError: it is not JSON, or a job of the other kind, or has no record where one should
        be.
    """
    job: Any = _DECODE[kind](text)
    if (job.job_state is UNSET) is (kind is LiveJob):
        raise ValueError("a job of another kind")
    return job


def job_of(value: Any) -> Any:
    """Make a job of what Python's own decoder gives. Raises TypeError: it is no object."""
    if type(value) is not dict:
        raise TypeError("not a job")
    kind = LiveJob if "job_state" in value else DbJob
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
