"""Stored runs for tests."""

import json
from collections.abc import Iterator
from dataclasses import replace

from predictor.stored_table import models_version
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState
from sacct_ingest.runs.reading import submission_of
from sacct_ingest.store import RecordRow, RunRow, Store
from sacct_ingest.store.fits import BASIS


def job(job_id: int, nodes: int, elapsed_s: float, **given: object) -> JobRun:
    values = {
        "cluster": "pine",
        "job_id": job_id,
        "submit_s": 1_790_000_000 + 100 * job_id,
        "start_s": 1_790_000_000 + 100 * job_id,
        "end_s": 1_790_000_000 + 100 * job_id + int(elapsed_s),
        "state": JobState.COMPLETED,
        "user": "ann",
        "name": "solve",
        "submit_line": f"sbatch -N {nodes} solve.sh",
        "nodes": nodes,
        "cpus": 4 * nodes,
        "elapsed_s": elapsed_s,
    }
    return JobRun(**values | given)


def applications(count: int, *, repeats: int = 2) -> Iterator[JobRun]:
    """Runs of ``count`` applications on 1 to 16 nodes."""
    number = 0
    for app in range(count):
        for repeat in range(repeats):
            for nodes in (1, 2, 4, 8, 16):
                number += 1
                time = round((900 + 70 * app) / nodes + 5 * app + repeat)
                line = f"sbatch -N {nodes} solve{app}.sh"
                yield job(number, nodes, time, name=f"solve{app}", submit_line=line)


def row(nodes: int, elapsed_s: float, state: JobState = JobState.COMPLETED) -> RunRow:
    return RunRow(
        run_id=1,
        cluster="pine",
        job_id=1,
        submit_s=0,
        state=state,
        user="ann",
        name="solve",
        partition="main",
        nodes=nodes,
        cpus=nodes,
        tasks=None,
        elapsed_s=elapsed_s,
        limit_s=3600,
        eligible_s=0,
        start_s=0,
        end_s=int(elapsed_s),
        mem_bytes=None,
        array_task_id=None,
        tag="",
        script="s",
        line="l",
    )


def submitted(row: RunRow, submit_line: str = "", comment: str = "", **changes: object) -> RunRow:
    """Give a stored run as if it had been submitted so."""
    other = replace(row, **changes)
    return replace(
        other,
        submission=submission_of(
            name=other.name, comment=comment, submit_line=submit_line, work_dir=other.work_dir
        ),
    )


def of_another_release(payload: str) -> str:
    """Give the text of a table as the models of another release left it."""
    return payload.replace(f'"models":"{models_version()}"', '"models":"of another release"')


def outdate(store: Store) -> None:
    """Make all tables of a store those of another release, and no run new."""
    rows = store.fits.all()
    assert store.changes.collect() == 0
    aged = [replace(row, payload=of_another_release(row.payload)) for row in rows]
    store.fits.replace(aged, basis=1)
    (level, key), text = BASIS, store.records.find(*BASIS)
    basis = {**json.loads(text), "settings": "of another release"}
    store.records.put(RecordRow(level=level, key=key, payload=json.dumps(basis)))
