"""Runs and decisions with only what a test is about."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, text

from sacct_ingest.job_run import JobRun
from sacct_ingest.records import DecisionRow, JobState, KeyLevel, StepRun
from sacct_ingest.store import RunRow, Store

SUBMIT_S = 1_790_000_000


def run(**given: Any) -> JobRun:
    """Make a completed run on two nodes."""
    fields: dict[str, Any] = {
        "cluster": "pine",
        "job_id": 17,
        "submit_s": SUBMIT_S,
        "state": JobState.COMPLETED,
        "user": "ada",
        "name": "wrf",
        "uid": 1001,
        "start_s": SUBMIT_S + 10,
        "end_s": SUBMIT_S + 110,
        "elapsed_s": 100.0,
        "limit_s": 3600,
        "nodes": 2,
        "cpus": 8,
        "submit_line": "sbatch -N2 wrf.sh d01",
        "work_dir": "/home/ada",
    }
    return JobRun(**fields | given)


def step(**given: Any) -> StepRun:
    """Make a completed step on two nodes."""
    fields: dict[str, Any] = {
        "step": "0",
        "name": "wrf.exe",
        "state": JobState.COMPLETED,
        "nodes": 2,
        "tasks": 8,
        "cpus": 8,
        "start_s": SUBMIT_S + 10,
        "end_s": SUBMIT_S + 110,
        "elapsed_s": 100.0,
        "cpu_s": 760.5,
        "disk_read_bytes": 10,
        "disk_write_bytes": 20,
        "mem_bytes": 3 << 30,
    }
    return StepRun(**fields | given)


def decision(**given: Any) -> DecisionRow:
    """Make a decision about the job of `run`."""
    fields: dict[str, Any] = {
        "decision_id": "0123456789ab",
        "cluster": "pine",
        "at_s": SUBMIT_S + 0.25,
        "uid": 1001,
        "user": "ada",
        "name": "wrf",
        "work_dir": "/home/ada",
    }
    return DecisionRow(**fields | given)


def runs_with(store: Store, level: KeyLevel, key: str) -> list[RunRow]:
    """Give the runs with this key, the newest last."""
    return next((rows for result, rows in store.runs.by_key(level) if result == key), [])


def scaling_runs() -> Iterator[JobRun]:
    """Runs of ada's application solve: 20 s, and 400 s that its nodes share."""
    for n in (1, 2, 3, 4, 6, 8):
        tasks = step(nodes=n, tasks=4 * n, cpu_s=1600.0, disk_read_bytes=10**6)
        size = {"nodes": n, "cpus": 4 * n, "elapsed_s": 20 + 400.0 / n, "steps": (tasks,)}
        yield run(job_id=n, submit_s=SUBMIT_S + n, comment="nimo:app=solve", **size)


def to_first_schema(connection: Connection) -> None:
    """Take off a store what releases after the first schema added, but for its rows."""
    added = {
        "decisions": (
            *("wait_most_s", "request_wait_most_s", "soft_s", "inputs"),
            *("given_place", "asked_place", "script_bag"),
        ),
        "fits": ("basis", "version"),
        "runs": (
            *("node_watts", "failed_steps", "part_of", "pieces", "submission", "rules"),
            *("inputs", "script_bag"),
        ),
    }
    for name in added["fits"]:
        connection.execute(text(f"DROP INDEX ix_fits_{name}"))
    for table, columns in added.items():
        for column in columns:
            connection.execute(text(f"ALTER TABLE {table} DROP COLUMN {column}"))
    for table in ("changed", "job_pieces"):
        connection.execute(text(f"DROP TABLE {table}"))
    connection.execute(text("UPDATE alembic_version SET version_num = '0013'"))
