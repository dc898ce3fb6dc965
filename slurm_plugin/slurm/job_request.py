"""A job script and sbatch's options as the job request that slurmctld would make of them.

Only the fields that take part in an advice are filled.
"""

import math
import os
import pwd
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sacct_ingest.errors import ScriptError
from sacct_ingest.scripts.job_script import CommandLine, Options, Script, parse_script
from sacct_ingest.text.slurm_text import parse_size, parse_time_limit

if TYPE_CHECKING:  # to load messages takes longer than to start Python
    from slurm_plugin.protocol.request_messages import Job

#: Fields of a `slurm_plugin.protocol.request_messages.Job` that are set.
JobFields = dict[str, Any]
_Reader = Callable[[str], dict[str, object]]

_NO_OPTIONS: Options = {}
_STDIN = ("", "-")
_MULTIPLES = {"": 1, "k": 1024, "m": 1024**2}
_COUNT = re.compile(r"(\d+)([kKmM]?)")
#: Those that each component of a heterogeneous job has its own of.
_OF_COMPONENTS = frozenset({
    *("constraint", "cpus-per-gpu", "cpus-per-task", "exclusive", "gpus", "gpus-per-node"),
    *("gpus-per-task", "gres", "mem", "mem-per-cpu", "mem-per-gpu", "nodes", "ntasks"),
    *("ntasks-per-node", "ntasks-per-socket", "partition", "time"),
})  # fmt: skip


def make_job(fields: JobFields) -> "Job":
    """Make the request that has these fields.

    Raises ScriptError: an option's value is greater than nimod takes.
    """
    import msgspec  # noqa: PLC0415 - see above

    from slurm_plugin.protocol.request_messages import Job  # noqa: PLC0415

    try:
        return msgspec.convert(fields, Job)
    except msgspec.ValidationError as error:
        raise ScriptError(str(error)) from error


class Submitter(NamedTuple):
    """Who submits a job, and from where."""

    user: str
    uid: int | None  #: None: there is no such account
    work_dir: str  #: ``--chdir`` goes before it
    #: options that sbatch takes from its environment, which go before those of the script
    environment: Options = _NO_OPTIONS


def job_fields(
    command: CommandLine, script: str, submitter: Submitter, *, now_s: float
) -> JobFields:
    """Fields of the request of a batch job.

    command: sbatch's command line; its options go before those of the script.
    script: text of the job script.
    now_s: time that ``--begin=now+1hour`` counts from, seconds since the epoch.
    Raises ScriptError: the value of an option is not what sbatch would take.
    """
    parsed = parse_script(script)
    argv = [command.script, *command.arguments] if command.script not in _STDIN else []
    # What sbatch calls a job without --job-name.
    name = argv[0].rpartition("/")[2] if argv else "sbatch"
    if "wrap" in command.options:
        name = "wrap"
    fields: JobFields = {
        "user_id": submitter.uid,
        "user_name": submitter.user,
        "name": name,
        "work_dir": submitter.work_dir,
        "argv": argv,
        "script": script,
    }
    readers = _READERS | {
        "begin": lambda text: {"begin_time": _parse_time(text, now_s=now_s)},
        # Handed on as it is: nimod reads it by its own clock.
        "deadline": lambda text: {"deadline": text} if _parse_time(text, now_s=now_s) else {},
    }
    for name, value in {**parsed.options, **submitter.environment, **command.options}.items():
        if name in readers:
            fields |= _read(name, value, readers[name])
    if parsed.het or command.het:
        fields["het_job_offset"] = 0
        fields["components"] = _components(parsed, command, submitter.environment)
    return fields


def _components(script: Script, command: CommandLine, environment: Options) -> list[JobFields]:
    """Fields of the components behind the first, as far as they may differ from it.

    A command line without ``:`` is about all components, one with it about each its own; so it was
    seen on Slurm 22.05.
    """
    count = max(len(script.components), len(command.components))
    read: list[JobFields] = []
    for place in range(count):
        directives = script.components[place] if place < len(script.components) else _NO_OPTIONS
        typed = (command.options, *command.components)[-1]
        if place < len(command.components):
            typed = command.components[place]
        fields: JobFields = {}
        for name, value in {**directives, **environment, **typed}.items():
            if name in _OF_COMPONENTS:
                fields |= _read(name, value, _READERS[name])
        read.append(fields)
    return read


def _read(name: str, value: str | None, read: _Reader) -> dict[str, object]:
    """Read an option. Raises ScriptError: its value is not what sbatch would take."""
    try:
        return read(value or "")
    except ValueError as error:
        raise ScriptError(f"--{name}={value or ''}: {error}") from error


def check_times(job: JobFields, *, now_s: float) -> None:
    """Refuse times of a job that slurmctld refuses, with its words.

    Raises ScriptError: it would not take the job.
    """
    time_min = job.get("time_min")
    limit = job.get("time_limit")
    if time_min and limit and time_min > limit:
        raise ScriptError(
            f"--time-min: {time_min} minutes are more than --time; Slurm says: Invalid "
            "time-min specification (exceeds job's time or other limits)"
        )
    deadline = job.get("deadline")
    begin_s = job.get("begin_time")
    if not deadline:
        return
    deadline_s = _parse_time(deadline, now_s=now_s)
    if begin_s and deadline_s < begin_s:
        raise ScriptError(
            f"--deadline={deadline}: before --begin; Slurm says: Incompatible begin and "
            "deadline time specification"
        )
    if deadline_s < now_s:
        raise ScriptError(
            f"--deadline={deadline}: this time is over; Slurm says: Requested time limit is "
            "invalid (missing or exceeds some limit)"
        )


def epoch_words(text: str, *, now_s: float) -> str:
    """Write a time of sbatch's in words that mean the same in every time zone."""
    return f"uts{_parse_time(text, now_s=now_s)}"


def _filled(field: str, read: Callable[[str], object]) -> _Reader:
    return lambda value: {field: read(value)}


_text = partial(_filled, read=str)


def _counted(value: str, *, least: int = 0) -> int:
    """Read a count as sbatch does: ``4``, ``2k``."""
    match = _COUNT.fullmatch(value.strip())
    if match is None:
        raise ValueError("not a number")
    count = int(match[1]) * _MULTIPLES[match[2].lower()]
    if count < least:
        raise ValueError(f'Invalid numeric value "{value.strip()}"')
    return count


def _nodes(value: str) -> dict[str, object]:
    """Read ``-N 4``, ``-N 2-16``, and lists such as ``2,4,8`` or ``2-8:2``, whose ends are seen."""
    listed = value.split(",")
    ends = [[_counted(n.partition(":")[0]) for n in part.split("-", 1)] for part in listed]
    for low, *high in ends:
        if high and high[0] < low:
            raise ValueError(f"Maximum node count {high[0]} is less than minimum node count {low}")
    fewest = min(map(min, ends))
    most = max(map(max, ends))
    if most == 0:
        raise ValueError("Slurm gives such a job no node at all: there is nothing to predict")
    counts: dict[str, object] = {"min_nodes": fewest, "max_nodes": most}
    return counts | {"node_sizes": True} if re.search("[:,]", value) and fewest < most else counts


def _minutes(field: str) -> _Reader:
    def read(value: str) -> dict[str, object]:
        seconds = parse_time_limit(value)
        return {} if seconds is None else {field: math.ceil(seconds / 60)}

    return read


def _mebibytes(field: str) -> _Reader:
    def read(value: str) -> dict[str, object]:
        # A bare number is MiB (sbatch(1), --mem).
        size = parse_size(value if value[-1:].isalpha() else f"{value}M")
        return {} if size is None else {field: math.ceil(size / 2**20)}

    return read


_number = partial(_filled, read=partial(_counted, least=1))
#: Options with which a job keeps what it asks for: long name, the job's field that they fill with
#: what the reader gives, and the member of `slurm_plugin.protocol.reasons.Reason`.
LEFT_ALONE: tuple[tuple[str, str, Callable[[str], object], str], ...] = (
    ("array", "array_inx", str, "ARRAY"),
    ("reservation", "reservation", str, "RESERVATION"),
    ("nodelist", "req_nodes", str, "NODE_LIST"),
    ("exclude", "exc_nodes", str, "EXCLUDED_NODES"),
    ("contiguous", "contiguous", lambda _: 1, "LAYOUT"),
    ("switches", "req_switch", lambda value: _counted(value.partition("@")[0]), "LAYOUT"),
)
#: Option by long name -> the job's fields it fills.
_READERS: dict[str, _Reader] = {
    "account": _text("account"),
    "chdir": _text("work_dir"),
    "comment": _text("comment"),
    "constraint": _text("features"),
    "prefer": _text("prefer"),
    "cpus-per-gpu": lambda value: {"cpus_per_tres": f"gres/gpu:{value}"},
    "cpus-per-task": _number("cpus_per_task"),
    "dependency": _text("dependency"),
    "exclusive": lambda _: {"shared": 0},
    "export": _text("export"),
    "gpus": lambda value: {"tres_per_job": f"gres/gpu:{value}"},
    "gpus-per-node": lambda value: {"tres_per_node": f"gres/gpu:{value}"},
    "gpus-per-task": lambda value: {"tres_per_task": f"gres/gpu:{value}"},
    # As slurmctld has it; cli_filter shows ``gres:gpu:1`` for ``--gres=gpu:1``.
    "gres": lambda value: {
        "tres_per_node": ",".join(f"gres/{re.sub('^gres[:/]', '', p)}" for p in value.split(","))
    },
    "job-name": _text("name"),
    "licenses": _text("licenses"),
    "mem": _mebibytes("min_mem_per_node"),
    "mem-per-cpu": _mebibytes("min_mem_per_cpu"),
    "mem-per-gpu": _text("mem_per_tres"),
    "nodes": _nodes,
    "ntasks": _number("num_tasks"),
    "ntasks-per-node": _number("ntasks_per_node"),
    "ntasks-per-socket": _number("ntasks_per_socket"),
    "partition": _text("partition"),
    "qos": _text("qos"),
    "segment": _number("segment_size"),
    "time": _minutes("time_limit"),
    "time-min": _minutes("time_min"),
    **{option: _filled(field, read) for option, field, read, _ in LEFT_ALONE},
}


def _parse_time(text: str, *, now_s: float) -> int:
    from sacct_ingest.text.time_spec import parse_time  # noqa: PLC0415 - few requests name a time

    return parse_time(text, now_s=now_s)


def user_name() -> str:
    """Name of the user whose process this is; the number where there is no name (containers)."""
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
