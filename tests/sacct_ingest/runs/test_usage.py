"""Steps to T, U and D: the arithmetic, and a real program on a real Slurm."""

import time
from functools import partial

import pytest
from msgspec.structs import replace

from sacct_ingest.records import JobState, KeyLevel, StepRun
from sacct_ingest.runs.usage import usage
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct import LiveSacct
from sacct_ingest.store import Store
from tests.conftest import need_in_jobs
from tests.sacct_ingest.records import run, runs_with

MIB = 1 << 20


def step(name="0", **given):
    fields = {
        "step": name,
        "state": JobState.COMPLETED,
        "nodes": 2,
        "tasks": 8,
        "cpu_s": 400.0,
        "disk_read_bytes": 600,
        "disk_write_bytes": 400,
    }
    return StepRun(**fields | given)


def test_time_utilisation_and_data_flow_give_the_occupancies_of_the_paper():
    used = usage(run(elapsed_s=100.0, cpus=8), [step()])
    assert (used.elapsed_s, used.utilisation, used.data_bytes) == (100.0, 0.5, 1000)
    compute = used.utilisation * used.elapsed_s / used.data_bytes
    stall = (1 - used.utilisation) * used.elapsed_s / used.data_bytes
    assert (compute + stall) * used.data_bytes == pytest.approx(used.elapsed_s)


def test_what_is_not_gathered_is_unknown_not_zero():
    bare = step(cpu_s=0.0, disk_read_bytes=None, disk_write_bytes=None)
    for steps in ([], [bare], [replace(bare, cpu_s=None)]):
        used = usage(run(), steps)
        assert (used.utilisation, used.data_bytes) == (None, None)


def test_no_time_no_utilisation():
    assert usage(run(elapsed_s=0.0), [step()]).utilisation is None
    assert usage(run(cpus=0), [step()]).utilisation is None


def test_utilisation_is_at_most_all():
    assert usage(run(elapsed_s=49.9, cpus=8), [step()]).utilisation == 1.0


def test_what_srun_relays_is_not_counted_twice():
    relaying = step("batch", nodes=1, tasks=1, disk_read_bytes=400, disk_write_bytes=400)
    assert usage(run(), [relaying, step()]).data_bytes == 1000


def test_what_the_script_itself_read_is_counted():
    busy = step("batch", nodes=1, tasks=1, disk_read_bytes=5400, disk_write_bytes=100)
    assert usage(run(), [busy, step()]).data_bytes == 1000 + 5000
    assert usage(run(), [busy]).data_bytes == 5500


def test_counters_of_nodes_are_not_multiplied_by_their_tasks():
    lustre = partial(step, disk_read_bytes=None, disk_write_bytes=None)
    counted = lustre(lustre_read_bytes=800, lustre_write_bytes=1600)
    batch = lustre("batch", nodes=1, tasks=1, lustre_read_bytes=100, lustre_write_bytes=200)
    assert usage(run(), [batch, counted]).data_bytes == 600
    assert usage(run(), [batch]).data_bytes == 300


def test_lustre_speaks_where_no_process_was_watched():
    lustre = step(
        disk_read_bytes=None, disk_write_bytes=None, lustre_read_bytes=4 * MIB, lustre_write_bytes=0
    )
    used = usage(run(), [lustre])
    assert used.data_bytes == MIB
    assert usage(run(), [lustre, step()]).data_bytes == 1000


PROGRAM = """
import os, time
began, path = time.monotonic(), os.environ["NIMO_FILE"]
block = b"x" * (1 << 20)
with open(path, "wb", buffering=0) as file:
    for _ in range(96):
        file.write(block)
with open(path, "rb", buffering=0) as file:
    while file.read(1 << 20):
        pass
while time.process_time() < 3.0:
    pass
# Long enough that each size is seen by a sample.
time.sleep(max(3.0, 7.0 - (time.monotonic() - began)))
"""


def test_a_program_that_reads_and_computes_is_recognised_as_what_it_is(slurm, tmp_path):
    need_in_jobs(slurm, "python3")
    program = slurm.layout.work / "flow.py"
    program.write_text(PROGRAM)
    data = slurm.layout.work / "flow.dat"
    script = f"#!/bin/sh\nNIMO_FILE={data} srun -n1 python3 {program}\n"
    job_id = slurm.sbatch("-N1", "-n1", script=script)
    slurm.wait(job_id, accounted=True)
    result = stored(slurm, job_id, tmp_path)
    used = usage(result, result.steps)
    (application,) = (each for each in result.steps if each.step == "0")
    assert used.elapsed_s >= 6
    # 96 MiB out and in again; Python's own modules are some MiB more.
    assert 192 * MIB <= used.data_bytes < 212 * MIB
    assert application.user_cpu_s is not None
    assert used.cpu_s == pytest.approx(3.3, abs=1.2)
    assert used.utilisation == pytest.approx(used.cpu_s / (result.cpus * used.elapsed_s))
    data.unlink()


def stored(slurm, job_id, folder):
    """Read one job with sacct, keep it, and give it with the steps that the store gives back."""
    source = LiveSacct(command=[str(slurm.bin / "sacct")])
    now_s = int(time.time())
    window = (now_s - 3600, now_s + 60)
    runs = [each for each in source.read(*window, Tally()) if each.job_id == job_id]
    with Store.open(str(folder / "nimo.db")) as store:
        store.runs.add(runs)
        (row,) = runs_with(store, KeyLevel.USER, runs[0].user)
        return replace(runs[0], steps=tuple(store.runs.steps_of([row.run_id])[row.run_id]))
