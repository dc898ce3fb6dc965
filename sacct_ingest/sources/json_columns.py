"""Slurm's JSON as rows of sacct's columns: one row of a table for a column.

The tables hold for data_parser 0.0.38 to 0.0.45.  The values then have the meaning that
`sacct_ingest.sources.columns` gives to those of the text.
"""

from collections.abc import Callable
from typing import Any, Final

from sacct_ingest.records import JobState
from sacct_ingest.sources.json_records import CpuTime, DbJob, DbStep, LiveJob
from sacct_ingest.sources.json_values import (
    column_at,
    cpu_microseconds,
    moment_at,
    plain,
    reach,
    seconds_text,
    tres,
    tres_text,
)
from sacct_ingest.text.slurm_text import parse_tres

#: What reads each column of a kind of record.
Rows = dict[str, Callable[[Any], str]]

#: Flags of a state that sacct shows in the state's place.
_SHOWN_FLAGS: Final = ("REQUEUED", "RESIZING", "REVOKED")
_NOT_ENDED: Final = frozenset(state.value for state in JobState if not state.ended)


def _base_state(value: Any, *, flags: bool) -> str:
    if type(value) is list and len(value) == 1:
        return plain(value[0])
    words = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    shown = [word for word in words if word in _SHOWN_FLAGS] if flags else []
    return plain((shown or words or [""])[0])


def _db_state(job: DbJob) -> str:
    """State as sacct prints it, with who cancelled the job."""
    state = _base_state(job.state.current, flags=True)
    by = plain(job.kill_request_user)
    return f"{state} by {by}" if state == "CANCELLED" and by else state


def _exit(code: Any, given: Any, state: Callable[[], str]) -> str:
    """``code:signal``."""
    number = plain(code)
    signal = plain(reach(given, "id")) or plain(reach(given, "signal_id"))
    # data_parser 0.0.38 and 0.0.39 give 0 for every exit code.
    if not signal and code == 0 and state() != "COMPLETED":
        return ""
    return f"{number or 0}:{signal or 0}" if number or signal else ""


def _db_exit(job: DbJob) -> str:
    return _exit(job.exit_code.return_code, job.exit_code.signal, lambda: _db_state(job))


def _cpu_text(time: CpuTime) -> str:
    return seconds_text(cpu_microseconds(time))


def _db_cpu(job: DbJob) -> str:
    """CPU time of a job; data_parser 0.0.38 gives it for the steps only."""
    cpu_us = cpu_microseconds(job.time.total)
    if cpu_us == 0:
        cpu_us = sum(cpu_microseconds(step.time.total) or 0 for step in job.steps)
    return seconds_text(cpu_us)


def _allocated_cpus(record: DbJob | DbStep) -> str:
    return tres(record.tres.allocated, "cpu")


def _requested_nodes(job: DbJob) -> str:
    return tres(job.tres.requested, "node")


def _db_nodes(job: DbJob) -> str:
    """Allocated nodes; requested nodes for a job that never had any, as sacct does."""
    nodes = plain(job.allocation_nodes)
    return nodes if nodes not in ("", "0") else _requested_nodes(job)


def _db_memory(job: DbJob) -> str:
    memory = tres(job.tres.requested, "mem")
    return f"{memory}M" if memory else ""


def _db_reservation(job: DbJob) -> str:
    name = job.reservation.name
    return plain(name) if isinstance(name, str) else ""


def job_id(job: int | str, array: str, task: str, het: str, offset: str, *, tasks: str = "") -> str:
    """Job id as sacct prints it: ``7``, ``6_3``, ``6_[0-3]`` of tasks that never ran, ``7+1``.

    >>> job_id(29, "6", "1", "0", ""), job_id(8, "0", "", "7", "1"), job_id(8, "", "", "", "")
    ('6_1', '7+1', '8')
    >>> job_id(6, "6", "", "0", "", tasks="0-3")
    '6_[0-3]'
    """
    if array not in _NO_ID and (task or tasks):
        return f"{array}_{task or f'[{tasks}]'}"
    if het not in _NO_ID and offset:
        return f"{het}+{offset}"
    return str(job)


_NO_ID: Final = ("0", "")


def _db_id(job: DbJob) -> str:
    number, array, het = plain(job.job_id), plain(job.array.job_id), plain(job.het.job_id)
    if array in _NO_ID and het in _NO_ID:
        return number
    task, tasks = plain(job.array.task_id), plain(job.array.task)
    return job_id(number, array, task, het, plain(job.het.job_offset), tasks=tasks)


def _step_id(step: DbStep) -> str:
    # Only data_parser 0.0.39 has the parts of the id in its place.
    identifier = step.step.id
    return plain(reach(identifier, "step_id") or identifier).rpartition(".")[2]


#: A job of ``sacct --json`` and of slurmrestd's /slurmdb/.../jobs.
DB_JOB: Final[Rows] = {
    "JobIDRaw": column_at("job_id"),
    "JobID": _db_id,
    "Cluster": column_at("cluster"),
    "User": lambda job: plain(job.user) or plain(job.association.user),
    "Account": column_at("account"),
    "Partition": column_at("partition"),
    "QOS": column_at("qos"),
    "State": _db_state,
    "ExitCode": _db_exit,
    "Submit": moment_at("time.submission"),
    "Eligible": moment_at("time.eligible"),
    "Start": moment_at("time.start"),
    "End": moment_at("time.end"),
    "TimelimitRaw": column_at("time.limit"),
    "NNodes": _db_nodes,
    "ReqNodes": _requested_nodes,
    "NCPUS": lambda job: _allocated_cpus(job) or plain(job.required.cpus),
    "ReqCPUS": column_at("required.cpus"),
    "AllocTRES": lambda job: tres_text(job.tres.allocated),
    "ReqTRES": lambda job: tres_text(job.tres.requested),
    "NodeList": column_at("nodes"),
    "ReqMem": _db_memory,
    "TotalCPU": _db_cpu,
    "Constraints": column_at("constraints"),
    "Reservation": _db_reservation,
    "SubmitLine": column_at("submit_line"),
    "WorkDir": column_at("working_directory"),
    "Comment": column_at("comment.job"),
    "AdminComment": column_at("comment.administrator"),
    "JobName": column_at("name"),
    "ElapsedRaw": column_at("time.elapsed"),
}

#: One of its steps; the part of JobID after the point.
DB_STEP: Final[Rows] = {
    "JobID": _step_id,
    "State": lambda step: _base_state(step.state, flags=True),
    "Start": moment_at("time.start"),
    "End": moment_at("time.end"),
    "NNodes": column_at("nodes.count"),
    "NCPUS": _allocated_cpus,
    "NTasks": column_at("tasks.count"),
    "TotalCPU": lambda step: _cpu_text(step.time.total),
    "UserCPU": lambda step: _cpu_text(step.time.user),
    "SystemCPU": lambda step: _cpu_text(step.time.system),
    # What is called "requested" is TRESUsageIn, "consumed" is TRESUsageOut.
    "MaxRSS": lambda step: tres(step.tres.requested.max, "mem"),
    "TRESUsageInTot": lambda step: tres_text(step.tres.requested.total),
    "TRESUsageOutTot": lambda step: tres_text(step.tres.consumed.total),
    "ConsumedEnergyRaw": column_at("statistics.energy.consumed"),
    "JobName": column_at("step.name"),
    "ElapsedRaw": column_at("time.elapsed"),
}


def _live_state(job: LiveJob) -> str:
    return _base_state(job.job_state, flags=False)


def _live_exit(job: LiveJob) -> str:
    code = job.exit_code
    # Before data_parser 0.0.39 it is the status that wait(2) gave.
    if isinstance(code, int):
        return f"{code >> 8 & 255}:{code & 127}"
    return _exit(reach(code, "return_code"), reach(code, "signal"), lambda: "COMPLETED")


def _live_end(job: LiveJob) -> str:
    """End; for a running job slurmctld gives the time at which it reaches its limit."""
    return "" if _live_state(job) in _NOT_ENDED else moment_at("end_time")(job)


def _live_start(job: LiveJob) -> str:
    """Start; for a waiting job slurmctld gives an estimate."""
    return "" if _live_state(job) == "PENDING" else moment_at("start_time")(job)


def _live_elapsed(job: LiveJob) -> str:
    """Run time; slurmctld gives only a job's start and end."""
    start, end = _live_start(job), _live_end(job)
    return str(max(int(end) - int(start), 0)) if start and end else ""


def _live_memory(job: LiveJob) -> str:
    per_cpu, per_node = plain(job.memory_per_cpu), plain(job.memory_per_node)
    return f"{per_cpu}Mc" if per_cpu else f"{per_node}Mn" if per_node else ""


def _live_id(job: LiveJob) -> str:
    parts = (job.job_id, job.array_job_id, job.array_task_id, job.het_job_id, job.het_job_offset)
    return job_id(*map(plain, parts), tasks=plain(job.array_task_string))


#: A job of slurmrestd's /slurm/.../jobs and of ``squeue --json``: slurmctld's own, without steps.
LIVE_JOB: Final[Rows] = {
    "JobIDRaw": column_at("job_id"),
    "JobID": _live_id,
    "Cluster": column_at("cluster"),
    "User": column_at("user_name"),
    "UID": column_at("user_id"),
    "Account": column_at("account"),
    "Partition": column_at("partition"),
    "QOS": column_at("qos"),
    "State": _live_state,
    "ExitCode": _live_exit,
    "Submit": moment_at("submit_time"),
    "Eligible": moment_at("eligible_time"),
    "Start": _live_start,
    "End": _live_end,
    "TimelimitRaw": column_at("time_limit"),
    "NNodes": column_at("node_count"),
    "ReqNodes": column_at("node_count"),
    "NCPUS": column_at("cpus"),
    "NTasks": column_at("tasks"),
    "ReqCPUS": lambda job: parse_tres(column_at("tres_req_str")(job)).get("cpu", ""),
    "AllocTRES": column_at("tres_alloc_str"),
    "ReqTRES": column_at("tres_req_str"),
    "NodeList": column_at("nodes"),
    "ReqMem": _live_memory,
    "Constraints": column_at("features"),
    "Reservation": column_at("resv_name"),
    "SubmitLine": column_at("submit_line"),
    "WorkDir": column_at("current_working_directory"),
    "Comment": column_at("comment"),
    "AdminComment": column_at("admin_comment"),
    "JobName": column_at("name"),
    "ElapsedRaw": _live_elapsed,
}
