"""Slurm's JSON as rows of sacct's columns: one row of a table for a column.

The tables hold for data_parser 0.0.38 to 0.0.45.  The values then have the meaning that
`sacct_ingest.sources.columns` gives to those of the text.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, Final

from sacct_ingest.records import JobState
from sacct_ingest.sources.columns import REQUIRED_VALUES
from sacct_ingest.sources.json_values import (
    SPECIAL,
    ColumnAt,
    cpu_microseconds,
    plain,
    reach,
    seconds_text,
    tres,
    tres_text,
)
from sacct_ingest.text.slurm_text import parse_tres

#: What reads each column of a kind of record.
Rows = dict[str, Callable[[Any], str]]

#: Reads a point in time; 0 means none.
_moment = partial(ColumnAt, moment=True)
#: Flags of a state that sacct shows in the state's place.
_SHOWN_FLAGS: Final = ("REQUEUED", "RESIZING", "REVOKED")
_NOT_ENDED: Final = frozenset(state.value for state in JobState if not state.ended)
_NO_ID: Final = ("0", "")
#: What reading raises where a record holds something else than a value.
NOT_A_VALUE: Final = (ValueError, TypeError, AttributeError, OverflowError)


def _base_state(value: Any, *, flags: bool) -> str:
    if type(value) is list and len(value) == 1:
        return plain(value[0])
    words = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    shown = [word for word in words if word in _SHOWN_FLAGS] if flags else []
    return plain((shown or words or [""])[0])


def _db_state(job: Any) -> str:
    """State as sacct prints it, with who cancelled the job."""
    state = _base_state(job.state.current, flags=True)
    by = ""
    with suppress(ValueError):  # the state is required, who ended it is not
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


def _db_cpu(job: Any) -> str:
    """CPU time of a job; data_parser 0.0.38 gives it for the steps only."""
    cpu_us = cpu_microseconds(job.time.total)
    if cpu_us == 0:
        cpu_us = sum(cpu_microseconds(step.time.total) or 0 for step in job.steps)
    return seconds_text(cpu_us)


def _db_nodes(job: Any) -> str:
    """Allocated nodes; requested nodes for a job that never had any, as sacct does."""
    nodes = plain(job.allocation_nodes)
    return nodes if nodes not in ("", "0") else tres(job.tres.requested, "node")


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


def _db_id(job: Any) -> str:
    number = plain(job.job_id)
    array = plain(job.array.job_id)
    het = plain(job.het.job_id)
    if array in _NO_ID and het in _NO_ID:
        return number
    task = plain(job.array.task_id)
    tasks = plain(job.array.task)
    return job_id(number, array, task, het, plain(job.het.job_offset), tasks=tasks)


#: A job of ``sacct --json`` and of slurmrestd's /slurmdb/.../jobs.
DB_JOB: Final[Rows] = {
    "JobIDRaw": ColumnAt("job_id"),
    "JobID": _db_id,
    "Cluster": ColumnAt("cluster"),
    "User": lambda job: plain(job.user) or plain(job.association.user),
    "Account": ColumnAt("account"),
    "Partition": ColumnAt("partition"),
    "QOS": ColumnAt("qos"),
    "State": _db_state,
    "ExitCode": lambda job: _exit(
        job.exit_code.return_code, job.exit_code.signal, lambda: _db_state(job)
    ),
    "Submit": _moment("time.submission"),
    "Eligible": _moment("time.eligible"),
    "Start": _moment("time.start"),
    "End": _moment("time.end"),
    "TimelimitRaw": ColumnAt("time.limit"),
    "NNodes": _db_nodes,
    "ReqNodes": lambda job: tres(job.tres.requested, "node"),
    "NCPUS": lambda job: tres(job.tres.allocated, "cpu") or plain(job.required.cpus),
    "ReqCPUS": ColumnAt("required.cpus"),
    "AllocTRES": lambda job: tres_text(job.tres.allocated),
    "ReqTRES": lambda job: tres_text(job.tres.requested),
    "NodeList": ColumnAt("nodes"),
    "ReqMem": lambda job: f"{memory}M" if (memory := tres(job.tres.requested, "mem")) else "",
    "TotalCPU": _db_cpu,
    "Constraints": ColumnAt("constraints"),
    "Reservation": lambda job: (
        plain(job.reservation.name) if isinstance(job.reservation.name, str) else ""
    ),
    "SubmitLine": ColumnAt("submit_line"),
    "WorkDir": ColumnAt("working_directory"),
    "Comment": ColumnAt("comment.job"),
    "AdminComment": ColumnAt("comment.administrator"),
    "JobName": ColumnAt("name"),
    "ElapsedRaw": ColumnAt("time.elapsed"),
}

#: One of its steps; the part of JobID after the point.
DB_STEP: Final[Rows] = {
    # Only data_parser 0.0.39 has the parts of the id in its place.
    "JobID": lambda step: plain(reach(step.step.id, "step_id") or step.step.id).rpartition(".")[2],
    "State": lambda step: _base_state(step.state, flags=True),
    "Start": _moment("time.start"),
    "End": _moment("time.end"),
    "NNodes": ColumnAt("nodes.count"),
    "NCPUS": lambda step: tres(step.tres.allocated, "cpu"),
    "NTasks": ColumnAt("tasks.count"),
    "TotalCPU": lambda step: seconds_text(cpu_microseconds(step.time.total)),
    "UserCPU": lambda step: seconds_text(cpu_microseconds(step.time.user)),
    "SystemCPU": lambda step: seconds_text(cpu_microseconds(step.time.system)),
    # What is called "requested" is TRESUsageIn, "consumed" is TRESUsageOut.
    "MaxRSS": lambda step: tres(step.tres.requested.max, "mem"),
    "TRESUsageInTot": lambda step: tres_text(step.tres.requested.total),
    "TRESUsageOutTot": lambda step: tres_text(step.tres.consumed.total),
    "ConsumedEnergyRaw": ColumnAt("statistics.energy.consumed"),
    "JobName": ColumnAt("step.name"),
    "ElapsedRaw": ColumnAt("time.elapsed"),
}


def _live_state(job: Any) -> str:
    return _base_state(job.job_state, flags=False)


def _live_exit(job: Any) -> str:
    code = job.exit_code
    # Before data_parser 0.0.39 it is the status that wait(2) gave.
    if isinstance(code, int):
        return f"{code >> 8 & 255}:{code & 127}"
    return _exit(reach(code, "return_code"), reach(code, "signal"), lambda: "COMPLETED")


def _live_end(job: Any) -> str:
    """End; for a running job slurmctld gives the time at which it reaches its limit."""
    return "" if _live_state(job) in _NOT_ENDED else _moment("end_time")(job)


def _live_start(job: Any) -> str:
    """Start; for a waiting job slurmctld gives an estimate."""
    return "" if _live_state(job) == "PENDING" else _moment("start_time")(job)


def _live_elapsed(job: Any) -> str:
    """Run time; slurmctld gives only a job's start and end."""
    start = _live_start(job)
    end = _live_end(job)
    return str(max(int(end) - int(start), 0)) if start and end else ""


def _live_memory(job: Any) -> str:
    per_cpu = plain(job.memory_per_cpu)
    per_node = plain(job.memory_per_node)
    return f"{per_cpu}Mc" if per_cpu else f"{per_node}Mn" if per_node else ""


def _live_id(job: Any) -> str:
    parts = (job.job_id, job.array_job_id, job.array_task_id, job.het_job_id, job.het_job_offset)
    return job_id(*map(plain, parts), tasks=plain(job.array_task_string))


#: A job of slurmrestd's /slurm/.../jobs and of ``squeue --json``: slurmctld's own, without steps.
LIVE_JOB: Final[Rows] = {
    "JobIDRaw": ColumnAt("job_id"),
    "JobID": _live_id,
    "Cluster": ColumnAt("cluster"),
    "User": ColumnAt("user_name"),
    "UID": ColumnAt("user_id"),
    "Account": ColumnAt("account"),
    "Partition": ColumnAt("partition"),
    "QOS": ColumnAt("qos"),
    "State": _live_state,
    "ExitCode": _live_exit,
    "Submit": _moment("submit_time"),
    "Eligible": _moment("eligible_time"),
    "Start": _live_start,
    "End": _live_end,
    "TimelimitRaw": ColumnAt("time_limit"),
    "NNodes": ColumnAt("node_count"),
    "ReqNodes": ColumnAt("node_count"),
    "NCPUS": ColumnAt("cpus"),
    "NTasks": ColumnAt("tasks"),
    "ReqCPUS": lambda job: parse_tres(ColumnAt("tres_req_str")(job)).get("cpu", ""),
    "AllocTRES": ColumnAt("tres_alloc_str"),
    "ReqTRES": ColumnAt("tres_req_str"),
    "NodeList": ColumnAt("nodes"),
    "ReqMem": _live_memory,
    "Constraints": ColumnAt("features"),
    "Reservation": ColumnAt("resv_name"),
    "SubmitLine": ColumnAt("submit_line"),
    "WorkDir": ColumnAt("current_working_directory"),
    "Comment": ColumnAt("comment"),
    "AdminComment": ColumnAt("admin_comment"),
    "JobName": ColumnAt("name"),
    "ElapsedRaw": _live_elapsed,
}


class RowPlan:
    """How a row is made of a record: most columns are taken as they stand, all of them at once.

    With a call for each, reading JSON took twice as long.

    columns: what reads each column.
    header: names of the row's columns.
    """

    def __init__(self, columns: Rows, header: Sequence[str]) -> None:
        self._columns = columns
        at = {name: it for name, it in columns.items() if isinstance(it, ColumnAt)}
        self._values = attrgetter(*(it.place for it in at.values()))
        self._moments = [i for i, it in enumerate(at.values()) if it.moment]
        self._made = [read for name, read in columns.items() if name not in at]
        self._names = [*at, *(name for name in columns if name not in at)]
        # What has no column is read from the end, where an empty text stands.
        places = [self._names.index(name) if name in columns else -1 for name in header]
        self._in_order = itemgetter(*places)

    def row(self, record: Any, unread: list[str]) -> list[str]:
        """Make the row of a record.

        unread: takes the names of optional columns whose value is none that the column can have.
        Raises ValueError: so is that of a required one; the message names the column.
        """
        values = self._values(record)
        try:
            texts = [
                ""
                if v is None
                else v
                if type(v) is str and v.isascii()
                else str(v)
                if type(v) is int and 0 <= v < SPECIAL
                else plain(v)
                for v in values
            ]
            for i in self._moments:
                if texts[i] == "0":
                    texts[i] = ""
            texts += [read(record) for read in self._made]
        except NOT_A_VALUE:
            texts = read_columns(self._columns, self._names, record, unread)
        texts.append("")
        return list(self._in_order(texts))


def read_columns(
    columns: Mapping[str, Callable[[Any], str]],
    names: Sequence[str],
    record: Any,
    unread: list[str],
) -> list[str]:
    """Read columns one by one: what one of them holds does not cost the others.

    unread: takes the names of optional columns that cannot be read, which are left empty.
    Raises ValueError: a required one cannot be read; the message names the column.
    """
    texts = []
    for name in names:
        try:
            texts.append(columns[name](record))
        except NOT_A_VALUE as error:
            if name in REQUIRED_VALUES:
                raise ValueError(f"{name}: {error}") from error
            unread.append(name)
            texts.append("")
    return texts
