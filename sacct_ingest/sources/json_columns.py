"""Slurm's JSON as rows of sacct's columns: one row of a table for a column.

The tables hold for data_parser 0.0.38 to 0.0.45: a number may stand alone or as
``{"set", "infinite", "number"}``, a state as text or as list, and keys may be missing, null or "".
The values then have the meaning that `sacct_ingest.columns` gives to those of the text.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from sacct_ingest.records import JobState

Json = Mapping[str, Any]
Rows = dict[str, Callable[[Json], str]]

_NO_VALUES: Final = frozenset({0xFFFFFFFE, 2**64 - 2})
_LEAST_SPECIAL: Final = 0xFFFFFFFE  #: numbers below stand for themselves
_INFINITE: Final = frozenset({0xFFFFFFFF, 2**64 - 1})
#: Flags of a state that sacct shows in the state's place.
_SHOWN_FLAGS: Final = ("REQUEUED", "RESIZING", "REVOKED")
_NOT_ENDED: Final = frozenset(state.value for state in JobState if not state.ended)


def plain(value: Any) -> str:  # noqa: PLR0911 - a table of types
    """Text of a scalar in any of its spellings; empty where it is not set.

    Raises
    ------
    ValueError
        It is no scalar.

    Examples
    --------
    >>> plain({"set": True, "infinite": False, "number": 5}), plain(4294967294), plain(None)
    ('5', '', '')
    """
    # By type, the most frequent first: this is called thirty times for each row.
    kind = type(value)
    if kind is str:
        return value if value.isascii() else well_formed(value)
    if kind is int and 0 <= value < _LEAST_SPECIAL:
        return str(value)
    if value is None or kind is bool:
        return ""
    if kind is int or kind is float:
        return _number(value)
    if kind is dict and "number" in value:
        if value.get("infinite"):
            return "UNLIMITED"
        return plain(value["number"]) if value.get("set", True) else ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    raise ValueError(f"not one value: {str(value)[:60]}")


def well_formed(text: str) -> str:
    r"""Text without halves of characters: JSON may hold them, no database does.

    >>> well_formed("a\ud800b"), well_formed("\U0001f600")
    ('a\ufffdb', '\U0001f600')
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _number(value: float) -> str:
    if value in _INFINITE:
        return "UNLIMITED"
    # Below zero: "not set" of a signed counter, such as the energy's -2.
    return "" if value in _NO_VALUES or value < 0 else str(value)


def reach(record: Any, *keys: str) -> Any:
    """Value behind several keys; None where one of them is missing.

    >>> reach({"time": {"end": 5}}, "time", "end"), reach({"time": None}, "time", "end")
    (5, None)
    """
    for key in keys:
        if type(record) is not dict:
            return None
        record = record.get(key)
    return record


def _at(*keys: str) -> Callable[[Json], str]:
    """Read what stands behind one to three keys."""
    reader: Callable[..., str] = (_one, _two, _three)[len(keys) - 1]
    return partial(reader, *keys)


# One function for each number of keys, which asks for forgiveness: half of the time that reading
# JSON takes is spent here.
def _one(key: str, record: Any) -> str:
    try:
        value = record[key]
    except (KeyError, TypeError, IndexError):
        return ""
    return value if type(value) is str and value.isascii() else plain(value)


def _two(first: str, second: str, record: Any) -> str:
    try:
        value = record[first][second]
    except (KeyError, TypeError, IndexError):
        return ""
    return value if type(value) is str and value.isascii() else plain(value)


def _three(first: str, second: str, third: str, record: Any) -> str:
    try:
        value = record[first][second][third]
    except (KeyError, TypeError, IndexError):
        return ""
    return value if type(value) is str and value.isascii() else plain(value)


def _moment(*keys: str) -> Callable[[Json], str]:
    """Point in time; 0 means none."""
    at = _at(*keys)

    def read(record: Json) -> str:
        value = at(record)
        return "" if value == "0" else value

    return read


def _base_state(value: Any, *, flags: bool) -> str:
    words = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    shown = [word for word in words if word in _SHOWN_FLAGS] if flags else []
    return plain((shown or words or [""])[0])


def _db_state(job: Json) -> str:
    """State as sacct prints it, with who cancelled the job."""
    state = _base_state(reach(job, "state", "current"), flags=True)
    by = _one("kill_request_user", job)
    return f"{state} by {by}" if state == "CANCELLED" and by else state


def _exit(code: Any, state: str) -> str:
    """``code:signal``."""
    number = _one("return_code", code)
    signal = _two("signal", "id", code) or _two("signal", "signal_id", code)
    # data_parser 0.0.38 and 0.0.39 give 0 for every exit code.
    if state != "COMPLETED" and not signal and reach(code, "return_code") == 0:
        return ""
    return f"{number or 0}:{signal or 0}" if number or signal else ""


def _db_exit(job: Json) -> str:
    return _exit(reach(job, "exit_code"), _db_state(job))


def _microseconds(record: Any, name: str) -> int | None:
    moment = reach(record, "time", name)
    whole, rest = _one("seconds", moment), _one("microseconds", moment)
    return int(whole) * 10**6 + int(rest or 0) if whole else None


def _seconds(name: str) -> Callable[[Json], str]:
    """CPU time in seconds, to the millisecond that sacct's text shows too."""

    def read(record: Json) -> str:
        cpu_us = _microseconds(record, name)
        return "" if cpu_us is None else f"{cpu_us // 10**6}.{cpu_us // 1000 % 1000:03}"

    return read


_total_cpu = _seconds("total")


def _db_cpu(job: Json) -> str:
    """CPU time of a job; data_parser 0.0.38 gives it for the steps only."""
    steps = reach(job, "steps")
    if _microseconds(job, "total") == 0 and isinstance(steps, list):
        total = sum(_microseconds(step, "total") or 0 for step in steps)
        return f"{total // 10**6}.{total // 1000 % 1000:03}"
    return _total_cpu(job)


def tres(listed: Any, kind: str, name: str = "") -> str:
    """Count of one trackable resource out of a list of them.

    >>> tres([{"type": "fs", "name": "disk", "id": 6, "count": 51184}], "fs", "disk")
    '51184'
    """
    for one in listed if type(listed) is list else ():
        if type(one) is dict and one.get("type") == kind and plain(one.get("name")) == name:
            return plain(one.get("count"))
    return ""


def _tres_text(*keys: str) -> Callable[[Json], str]:
    """Resources as in sacct's TRESUsageInTot."""

    def read(step: Json) -> str:
        listed = reach(step, "tres", *keys)
        pairs = (_tres_pair(one) for one in (listed if type(listed) is list else ()))
        return ",".join(filter(None, pairs))

    return read


def _tres_pair(one: Any) -> str:
    """``fs/disk=51184``; empty for a resource without a count."""
    count = _one("count", one)
    if not count:
        return ""
    return "/".join(filter(None, (_one("type", one), _one("name", one)))) + f"={count}"


def _allocated(kind: str) -> Callable[[Json], str]:
    return lambda record: tres(reach(record, "tres", "allocated"), kind)


def _requested(kind: str) -> Callable[[Json], str]:
    return lambda record: tres(reach(record, "tres", "requested"), kind)


_allocated_cpus, _requested_memory, _requested_nodes = (
    _allocated("cpu"),
    _requested("mem"),
    _requested("node"),
)


def _db_nodes(job: Json) -> str:
    """Allocated nodes; requested nodes for a job that never had any, as sacct does."""
    nodes = _one("allocation_nodes", job)
    return nodes if nodes not in ("", "0") else _requested_nodes(job)


def _db_memory(job: Json) -> str:
    memory = _requested_memory(job)
    return f"{memory}M" if memory else ""


def _db_reservation(job: Json) -> str:
    name = reach(job, "reservation", "name")
    return plain(name) if isinstance(name, str) else ""


def job_id(job: int | str, array: str, task: str, het: str, offset: str) -> str:
    """Job id as sacct prints it: ``7``, ``6_3``, ``7+1``.

    >>> job_id(29, "6", "1", "0", ""), job_id(8, "0", "", "7", "1"), job_id(8, "", "", "", "")
    ('6_1', '7+1', '8')
    """
    if array not in ("", "0") and task:
        return f"{array}_{task}"
    if het not in ("", "0") and offset:
        return f"{het}+{offset}"
    return str(job)


_ID_PARTS: Final = (
    ("array", "job_id"),
    ("array", "task_id"),
    ("het", "job_id"),
    ("het", "job_offset"),
)


def _db_id(job: Json) -> str:
    return job_id(_one("job_id", job), *(_two(first, second, job) for first, second in _ID_PARTS))


def _step_id(step: Json) -> str:
    # Only data_parser 0.0.39 has the parts of the id in its place.
    identifier = reach(step, "step", "id", "step_id") or reach(step, "step", "id")
    return plain(identifier).rpartition(".")[2]


#: A job of ``sacct --json`` and of slurmrestd's /slurmdb/.../jobs.
DB_JOB: Final[Rows] = {
    "JobIDRaw": _at("job_id"),
    "JobID": _db_id,
    "Cluster": _at("cluster"),
    "User": lambda job: _one("user", job) or _two("association", "user", job),
    "Account": _at("account"),
    "Partition": _at("partition"),
    "QOS": _at("qos"),
    "State": _db_state,
    "ExitCode": _db_exit,
    "Submit": _moment("time", "submission"),
    "Eligible": _moment("time", "eligible"),
    "Start": _moment("time", "start"),
    "End": _moment("time", "end"),
    "TimelimitRaw": _at("time", "limit"),
    "NNodes": _db_nodes,
    "ReqNodes": _requested_nodes,
    "NCPUS": lambda job: _allocated_cpus(job) or _two("required", "CPUs", job),
    "AllocTRES": _tres_text("allocated"),
    "NodeList": _at("nodes"),
    "ReqMem": _db_memory,
    "TotalCPU": _db_cpu,
    "Constraints": _at("constraints"),
    "Reservation": _db_reservation,
    "SubmitLine": _at("submit_line"),
    "WorkDir": _at("working_directory"),
    "Comment": _at("comment", "job"),
    "AdminComment": _at("comment", "administrator"),
    "JobName": _at("name"),
    "ElapsedRaw": _at("time", "elapsed"),
}

#: One of its steps; the part of JobID after the point.
DB_STEP: Final[Rows] = {
    "JobID": _step_id,
    "State": lambda step: _base_state(reach(step, "state"), flags=True),
    "Start": _moment("time", "start"),
    "End": _moment("time", "end"),
    "NNodes": _at("nodes", "count"),
    "NCPUS": _allocated_cpus,
    "NTasks": _at("tasks", "count"),
    "TotalCPU": _seconds("total"),
    "UserCPU": _seconds("user"),
    "SystemCPU": _seconds("system"),
    # What is called "requested" is TRESUsageIn, "consumed" is TRESUsageOut.
    "MaxRSS": lambda step: tres(reach(step, "tres", "requested", "max"), "mem"),
    "TRESUsageInTot": _tres_text("requested", "total"),
    "TRESUsageOutTot": _tres_text("consumed", "total"),
    "ConsumedEnergyRaw": _at("statistics", "energy", "consumed"),
    "JobName": _at("step", "name"),
    "ElapsedRaw": _at("time", "elapsed"),
}


def _live_state(job: Json) -> str:
    return _base_state(reach(job, "job_state"), flags=False)


def _live_exit(job: Json) -> str:
    code = reach(job, "exit_code")
    # Before data_parser 0.0.39 it is the status that wait(2) gave.
    if isinstance(code, int):
        return f"{code >> 8 & 255}:{code & 127}"
    return _exit(code, "COMPLETED")


def _live_end(job: Json) -> str:
    """End; for a running job slurmctld gives the time at which it reaches its limit."""
    return "" if _live_state(job) in _NOT_ENDED else _moment("end_time")(job)


def _live_start(job: Json) -> str:
    """Start; for a waiting job slurmctld gives an estimate."""
    return "" if _live_state(job) == "PENDING" else _moment("start_time")(job)


def _live_elapsed(job: Json) -> str:
    """Run time; slurmctld gives only a job's start and end."""
    start, end = _live_start(job), _live_end(job)
    return str(max(int(end) - int(start), 0)) if start and end else ""


def _live_memory(job: Json) -> str:
    per_cpu = plain(reach(job, "memory_per_cpu"))
    per_node = plain(reach(job, "memory_per_node"))
    return f"{per_cpu}Mc" if per_cpu else f"{per_node}Mn" if per_node else ""


def _live_id(job: Json) -> str:
    names = ("job_id", "array_job_id", "array_task_id", "het_job_id", "het_job_offset")
    return job_id(*(plain(reach(job, name)) for name in names))


#: A job of slurmrestd's /slurm/.../jobs and of ``squeue --json``: slurmctld's own, without steps.
LIVE_JOB: Final[Rows] = {
    "JobIDRaw": _at("job_id"),
    "JobID": _live_id,
    "Cluster": _at("cluster"),
    "User": _at("user_name"),
    "UID": _at("user_id"),
    "Account": _at("account"),
    "Partition": _at("partition"),
    "QOS": _at("qos"),
    "State": _live_state,
    "ExitCode": _live_exit,
    "Submit": _moment("submit_time"),
    "Eligible": _moment("eligible_time"),
    "Start": _live_start,
    "End": _live_end,
    "TimelimitRaw": _at("time_limit"),
    "NNodes": _at("node_count"),
    "ReqNodes": _at("node_count"),
    "NCPUS": _at("cpus"),
    "NTasks": _at("tasks"),
    "AllocTRES": _at("tres_alloc_str"),
    "NodeList": _at("nodes"),
    "ReqMem": _live_memory,
    "Constraints": _at("features"),
    "Reservation": _at("resv_name"),
    "SubmitLine": _at("submit_line"),
    "WorkDir": _at("current_working_directory"),
    "Comment": _at("comment"),
    "AdminComment": _at("admin_comment"),
    "JobName": _at("name"),
    "ElapsedRaw": _live_elapsed,
}
