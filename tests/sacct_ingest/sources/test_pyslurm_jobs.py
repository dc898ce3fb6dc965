"""PySlurm's records: objects shaped as those of pyslurm 25.11, and the real ones where they are."""

import importlib.util
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

from sacct_ingest.errors import SacctError
from sacct_ingest.records import JobState
from sacct_ingest.sources.pyslurm_jobs import PySlurmJobs
from sacct_ingest.sources.run_source import Tally

STEP = {
    "id": 0,
    "job_id": 7,
    "name": "solve",
    "state": "COMPLETED",
    "start_time": 1_000_000_011,
    "end_time": 1_000_000_070,
    "elapsed_time": 59,
    "num_nodes": 2,
    "cpus": 4,
    "ntasks": 4,
    "exit_code": 0,
    "exit_code_signal": 0,
    "stats": SimpleNamespace(
        user_cpu_time=9,
        system_cpu_time=0,
        max_resident_memory=3_000_000,
        avg_disk_read=1024,
        avg_disk_write=0,
        consumed_energy=0,
    ),
}
JOB = {
    "id": 7,
    "array_id": None,
    "array_task_id": None,
    "heterogeneous_id": None,
    "heterogeneous_offset": 4294967294,
    "cluster": "oak",
    "user_name": "ann",
    "user_id": 1001,
    "account": "physics",
    "partition": "batch",
    "qos": "normal",
    "state": "COMPLETED",
    "cancelled_by": None,
    "exit_code": 0,
    "exit_code_signal": 0,
    "submit_time": 1_000_000_000,
    "eligible_time": 1_000_000_001,
    "start_time": 1_000_000_010,
    "end_time": 1_000_000_070,
    "elapsed_time": 60,
    "time_limit": 5,
    "num_nodes": 2,
    "cpus": 4,
    "nodelist": "n[1-2]",
    "memory": 4000,
    "constraints": [],
    "reservation": None,
    "submit_command": "sbatch -N2 solve.sh",
    "working_directory": "/home/ann",
    "comment": "nimo:app=solve",
    "admin_comment": None,
    "name": "solve",
    "stats": SimpleNamespace(total_cpu_time=9),
    "steps": {0: SimpleNamespace(**STEP)},
}


class FakeModule(ModuleType):
    """``pyslurm`` with these jobs; ``asked`` is what the filter was made with."""

    def __init__(self, *jobs, error=None):
        super().__init__("pyslurm")
        self.asked = {}

        def load(_):
            if error:
                raise error
            return {job["id"]: SimpleNamespace(**job) for job in jobs}

        self.db = SimpleNamespace(
            Jobs=SimpleNamespace(load=load), JobFilter=lambda **asked: self.asked.update(asked)
        )


@pytest.fixture
def install(monkeypatch):
    def install(*jobs, error=None):
        module = FakeModule(*jobs, error=error)
        monkeypatch.setitem(sys.modules, "pyslurm", module)
        return module

    return install


def read(tally=None):
    return list(PySlurmJobs().read(1, 2, tally or Tally()))


def test_a_record_becomes_a_run(install):
    install(JOB)
    (run,) = read()
    assert (run.job_id, run.cluster, run.user, run.uid) == (7, "oak", "ann", 1001)
    assert (run.submit_s, run.start_s, run.end_s) == (1_000_000_000, 1_000_000_010, 1_000_000_070)
    assert (run.nodes, run.cpus, run.tasks, run.limit_s) == (2, 4, 4, 300)
    assert (run.elapsed_s, run.cpu_s, run.mem_bytes) == (60, 9, 3_000_000)
    assert run.req_mem_bytes == 4000 * 2**20
    assert run.disk_read_bytes == 4 * 1024
    assert (run.name, run.comment, run.submit_line) == (
        "solve",
        "nimo:app=solve",
        "sbatch -N2 solve.sh",
    )
    assert [step.step for step in run.steps] == ["0"]


@pytest.mark.parametrize(
    ("changes", "field", "expected"),
    [
        ({"state": "CANCELLED", "cancelled_by": "root"}, "cancelled_by", "root"),
        ({"time_limit": "PartitionLimit"}, "limit_s", None),
        ({"time_limit": None}, "limit_s", None),
        ({"elapsed_time": None}, "elapsed_s", 60),
        ({"num_nodes": None}, "nodes", 0),
        ({"array_id": 6, "array_task_id": 3}, "array_task_id", 3),
        ({"array_id": 6, "array_tasks_waiting": "0-3"}, "array_job_id", 6),
        ({"heterogeneous_id": 7, "heterogeneous_offset": 1}, "het_offset", 1),
        ({"constraints": ["fast", "big"]}, "constraints", "fast,big"),
        ({"start_time": None}, "start_s", None),
        ({"state": "OUT_OF_MEMORY"}, "state", JobState.OUT_OF_MEMORY),
    ],
)
def test_what_is_unknown_is_none(install, changes, field, expected):
    install(JOB | changes)
    (run,) = read()
    assert getattr(run, field) == expected


def test_a_record_that_cannot_be_read_costs_only_itself(install):
    install(JOB, JOB | {"id": 8, "submit_time": "soon"}, JOB | {"id": 9, "steps": 5})
    tally = Tally()
    assert [run.job_id for run in read(tally)] == [7]
    assert tally.refused == tally.rows - 2 == 3  # with the step of the second job


def test_is_asked_for_a_window_of_a_cluster(install):
    module = install(JOB)
    list(PySlurmJobs(cluster="oak").read(5, 9, Tally()))
    assert module.asked == {"start_time": 5, "end_time": 9, "clusters": ["oak"]}


def test_errors_name_the_fix(install, monkeypatch):
    install(error=RuntimeError("Failed to get Jobs from slurmdbd"))
    with pytest.raises(SacctError, match="could not read the jobs: Failed"):
        read()
    monkeypatch.setitem(sys.modules, "pyslurm", None)
    with pytest.raises(SacctError, match="use sacct"):
        read()


@pytest.mark.skipif(importlib.util.find_spec("pyslurm") is None, reason="no PySlurm here")
def test_the_real_one_reads_the_last_day():
    """Run it on a machine with PySlurm and a cluster: whatever is there must be readable."""
    tally = Tally()
    now = int(time.time())
    runs = PySlurmJobs().read(now - 86_400, now, tally)
    assert all(run.submit_s > 0 for run in runs)
    assert tally.refused == 0
