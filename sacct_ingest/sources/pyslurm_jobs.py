"""PySlurm's ``db.Jobs`` as rows of sacct's columns.

Its records lose what sacct keeps (see ``docs/sources.md``), so that sacct stays the default.
PySlurm is imported when it is asked for only: it exists for one release of Slurm at a time.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from sacct_ingest.errors import SacctError
from sacct_ingest.job_run import JobRun
from sacct_ingest.sources.columns import names
from sacct_ingest.sources.json_columns import NOT_A_VALUE, job_id, read_columns
from sacct_ingest.sources.run_source import Tally, take_unread
from sacct_ingest.sources.runs_from_rows import Row, runs_from_rows

_Read = Callable[[Any], str]


def _of(name: str) -> _Read:
    def read(record: Any) -> str:
        value = getattr(record, name, None)
        if isinstance(value, list | tuple):
            return ",".join(map(str, value))
        return "" if value is None else str(value)

    return read


def _statistic(name: str) -> _Read:
    """Figure of a step; PySlurm's 0 may be "not gathered"."""

    def read(record: Any) -> str:
        value = getattr(getattr(record, "stats", None), name, None)
        return str(value) if value else ""

    return read


def _disk(name: str) -> _Read:
    def read(step: Any) -> str:
        mean = getattr(getattr(step, "stats", None), name, None) or 0
        return f"fs/disk={mean * (step.ntasks or 1)}" if mean else ""

    return read


def _id(job: Any) -> str:
    shown = ("array_id", "array_task_id", "heterogeneous_id", "heterogeneous_offset")
    waiting = _of("array_tasks_waiting")(job)
    return job_id(job.id, *(_of(name)(job) for name in shown), tasks=waiting)


def _state(job: Any) -> str:
    by = _of("cancelled_by")(job)
    return f"{job.state} by {by}" if job.state == "CANCELLED" and by else _of("state")(job)


def _minutes(job: Any) -> str:
    # "PartitionLimit" stands for Slurm's INFINITE.
    value = _of("time_limit")(job)
    return value if value.isdecimal() else ""


JOB: Final[dict[str, _Read]] = {
    "JobIDRaw": _of("id"),
    "JobID": _id,
    "Cluster": _of("cluster"),
    "User": _of("user_name"),
    "UID": _of("user_id"),
    "Account": _of("account"),
    "Partition": _of("partition"),
    "QOS": _of("qos"),
    "State": _state,
    "ExitCode": lambda job: f"{job.exit_code or 0}:{job.exit_code_signal or 0}",
    "Submit": _of("submit_time"),
    "Eligible": _of("eligible_time"),
    "Start": _of("start_time"),
    "End": _of("end_time"),
    "TimelimitRaw": _minutes,
    "NNodes": _of("num_nodes"),
    "NCPUS": _of("cpus"),
    "NodeList": _of("nodelist"),
    "ReqMem": lambda job: f"{job.memory}M" if job.memory else "",
    "TotalCPU": _statistic("total_cpu_time"),
    "Constraints": _of("constraints"),
    "Reservation": _of("reservation"),
    "SubmitLine": _of("submit_command"),
    "WorkDir": _of("working_directory"),
    "Comment": _of("comment"),
    "AdminComment": _of("admin_comment"),
    "JobName": _of("name"),
    "ElapsedRaw": _of("elapsed_time"),
}

STEP: Final[dict[str, _Read]] = {
    "JobID": _of("id"),
    "State": _of("state"),
    "Start": _of("start_time"),
    "End": _of("end_time"),
    "NNodes": _of("num_nodes"),
    "NCPUS": _of("cpus"),
    "NTasks": _of("ntasks"),
    "UserCPU": _statistic("user_cpu_time"),
    "SystemCPU": _statistic("system_cpu_time"),
    "MaxRSS": _statistic("max_resident_memory"),
    "TRESUsageInTot": _disk("avg_disk_read"),
    "TRESUsageOutTot": _disk("avg_disk_write"),
    "ConsumedEnergyRaw": _statistic("consumed_energy"),
    "JobName": _of("name"),
    "ElapsedRaw": _of("elapsed_time"),
}

_HEADER: Final = [name for name in names() if name in {*JOB, *STEP}]


@dataclass(frozen=True, slots=True)
class PySlurmJobs:
    """The accounting that PySlurm reads from slurmdbd.

    cluster: cluster to ask for; empty: the one of this machine.
    module: name of the module to import.
    """

    cluster: str = ""
    module: str = "pyslurm"
    windowed: ClassVar[bool] = True  #: slurmdbd is asked for a window at a time

    @property
    def name(self) -> str:
        """Name of the watermark."""
        return f"pyslurm:{self.cluster}"

    def read(self, begin_s: int, end_s: int, tally: Tally) -> Iterator[JobRun]:
        """Give the runs of a window, all users'.

        Raises SacctError: PySlurm is not there, does not fit this release of Slurm, or slurmdbd did
            not answer.
        """
        try:
            pyslurm = importlib.import_module(self.module)
        except (ImportError, RuntimeError) as error:
            raise SacctError(f"no PySlurm for this Slurm: {error}; use sacct") from error
        query: dict[str, Any] = {"start_time": begin_s, "end_time": end_s}
        if self.cluster:
            query["clusters"] = [self.cluster]
        try:
            jobs = pyslurm.db.Jobs.load(pyslurm.db.JobFilter(**query))
        except Exception as error:
            # Its errors share no root; a job without memory even makes it raise a TypeError.
            raise SacctError(f"PySlurm could not read the jobs: {error}") from error
        yield from runs_from_rows(_rows(jobs.values(), tally), _HEADER, tally, cluster=self.cluster)


def _rows(jobs: Iterable[Any], tally: Tally) -> Iterator[Row]:
    for number, job in enumerate(jobs, 1):
        unread: list[str] = []
        try:
            record = _record(JOB, job, unread)
            steps = list(_steps(record, job, tally, number))
        except NOT_A_VALUE as error:
            tally.rows += 1
            tally.refuse(str(error), repr(job), number)
            continue
        take_unread(tally, "job", unread, number)
        yield number, record
        yield from ((number, step) for step in steps)


def _record(columns: Mapping[str, _Read], record: Any, unread: list[str]) -> list[str]:
    names = list(columns)
    texts = dict(zip(names, read_columns(columns, names, record, unread), strict=True))
    return [texts.get(name, "") for name in _HEADER]


def _steps(job: list[str], record: Any, tally: Tally, number: int) -> Iterator[list[str]]:
    at = _HEADER.index("JobID")
    for step in (record.steps or {}).values():
        unread: list[str] = []
        row = _record(STEP, step, unread)
        row[at] = f"{job[at]}.{row[at]}"
        take_unread(tally, "step", unread, number)
        yield row
