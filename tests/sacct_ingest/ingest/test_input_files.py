"""Sizes of the input files of runs from before."""

import base64
import json
import os
import time
import zlib
from dataclasses import replace
from functools import partial

import pytest
from msgspec.structs import replace as replaced

from sacct_ingest.ingest.input_files import Looked, look_at_inputs
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store
from tests.processes import LONGEST_WAIT_S
from tests.sacct_ingest.records import decision, run, runs_with

#: Files that the tests make were changed now: runs are yet to come, or long past.
LATER_S = 4_000_000_000
PAST_S = 1_500_000_000
#: A busy machine may take long.
look = partial(look_at_inputs, wait_s=LONGEST_WAIT_S)
AWAITS = "python3 -m snakemake --attempt 1 --wait-for-files '.snakemake/tmp.8' '{}.txt' --force"


@pytest.fixture
def store():
    with Store.open("sqlite://") as made:
        yield made


def of_job(number, folder, line, submit_s=LATER_S, **given):
    return run(
        job_id=number,
        submit_s=submit_s,
        start_s=submit_s + 10,
        end_s=submit_s + 110,
        submit_line=line,
        work_dir=str(folder),
        **given,
    )


def inputs(store):
    return {row.job_id: row.inputs for row in runs_with(store, KeyLevel.USER, "ada")}


def test_runs_get_the_sizes_of_what_is_still_there(store, tmp_path):
    (tmp_path / "in.bam").write_bytes(b"x" * 1000)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/1.csv").write_bytes(b"x" * 7)
    (tmp_path / "job.sh").write_text("#!/bin/sh\nsolve -i $1 ref.fa\n")
    (tmp_path / "ref.fa").write_bytes(b"x" * 50)
    (tmp_path / "7.txt").write_bytes(b"x" * 3)
    lines = {
        1: "sbatch -N2 job.sh in.bam",
        2: "sbatch other.sh data",
        3: "sbatch --wrap solve in.bam > out.bam",
        4: "sbatch --input=in.bam other.sh",
        5: "srun solve in.bam",
        6: "sbatch --comment=nimo:inputs=off job.sh in.bam",
        7: "sbatch --wrap solve $SLURM_ARRAY_TASK_ID.txt",
    }
    more = {7: {"array_job_id": 7, "array_task_id": 7}}
    store.runs.add([of_job(n, tmp_path, line, **more.get(n, {})) for n, line in lines.items()])
    assert look(store, "ada") == Looked(sized=5, without=2)
    assert inputs(store) == {
        1: "2Kbam=1000Kfa=50",
        2: "1K=7",
        3: "1Kbam=1000",
        4: "1Kbam=1000",
        5: "",
        6: "",
        7: "1Ktxt=3",
    }
    numbers = {row.job_id: row.numbers for row in runs_with(store, KeyLevel.USER, "ada")}
    assert numbers[1] == {
        "input bytes": 1050,
        "input files": 2,
        ".bam bytes": 1000,
        ".fa bytes": 50,
    }
    # Each once; and they are fitted anew.
    assert look(store, "ada") == Looked()


def snakemake_array(commands, first=1):
    """Give what Snakemake's plugin for Slurm wraps, as its release 2.8.0 does."""
    packed = {
        str(task): zlib.compress(command.encode(), level=9).hex()
        for task, command in enumerate(commands[1:], first + 1)
    }
    payload = base64.b64encode(json.dumps(packed).encode()).decode()
    return f"{commands[0]} --slurm-jobstep-array-execs={payload}"


def test_tasks_of_an_array_of_snakemake_s_have_sizes_of_their_own(store, tmp_path):
    for name, size in (("a", 10), ("b", 200), ("c", 3000)):
        (tmp_path / f"{name}.txt").write_bytes(b"x" * size)
    wraps = {
        40: snakemake_array([AWAITS.format(name) for name in "cab"], first=4),
        50: f"{AWAITS.format('c')} --slurm-jobstep-array-execs=eyIyIjogIjc4In0=",
    }
    runs = [
        of_job(
            job + task, tmp_path, f"sbatch --comment rule_sort_wildcards_c --wrap={wrap}",
            array_job_id=job, array_task_id=task, comment="rule_sort_wildcards_c",
            name="ee3804f1-8c5d-4ecf-8cc5-7ae76818885e",
        )
        for job, wrap in wraps.items()
        for task in (4, 5, 6)
    ]  # fmt: skip
    store.runs.add(runs)
    assert look(store, "ada") == Looked(sized=3, without=3)
    seen = {44: "1Ktxt=3000", 45: "1Ktxt=10", 46: "1Ktxt=200"}
    assert inputs(store) == seen | dict.fromkeys((54, 55, 56), "")
    rows = runs_with(store, KeyLevel.USER, "ada")
    assert {row.identity.tag for row in rows} == {"ada/snakemake:sort"}
    # The comment names the sample of the first task for all of them.
    assert not any("sample" in row.attributes or "sample" in row.numbers for row in rows)


def test_nothing_is_made_up(store, tmp_path):
    (tmp_path / "in.dat").write_bytes(b"x" * 1000)
    now_s = int(time.time())
    given = [
        of_job(1, tmp_path, "sbatch job.sh in.dat", PAST_S),  # changed long after it
        of_job(2, tmp_path, "sbatch job.sh gone.dat"),
        of_job(3, tmp_path, "sbatch job.sh in.dat", now_s - 50),  # changed while it ran
        of_job(4, tmp_path, "sbatch job.sh in.dat", user="bob"),
    ]
    store.runs.add(given)
    assert look(store, "ada") == Looked(changed=2, without=1)
    assert inputs(store) == {1: "", 2: "", 3: ""}


def test_a_file_system_that_hangs_leaves_the_runs_for_later(store, tmp_path, monkeypatch):
    (tmp_path / "in.dat").write_bytes(b"x" * 1000)
    store.runs.add([of_job(n, tmp_path, "sbatch job.sh in.dat") for n in (1, 2)])
    stat = os.stat

    def hangs(path, *given, **more):
        if str(path).endswith("in.dat"):
            time.sleep(600)
        return stat(path, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", hangs)
        assert look_at_inputs(store, "ada", wait_s=0.3) == Looked(unanswered=2)
    assert inputs(store) == {1: None, 2: None}
    assert look(store, "ada") == Looked(sized=2)


def test_names_that_are_no_names_do_no_harm(store, tmp_path):
    os.mkfifo(tmp_path / "fifo.dat")
    os.mkfifo(tmp_path / "job.sh")
    (tmp_path / "loop.dat").symlink_to("loop.dat")
    lines = ["sbatch job.sh fifo.dat loop.dat", f"sbatch {'x' * 5000} {'y' * 5000}.dat", "", "\0"]
    store.runs.add([of_job(n, tmp_path, line) for n, line in enumerate(lines)])
    assert look(store, "ada") == Looked(without=4, skipped=2)


def test_what_the_client_saw_at_the_submission_goes_first(store, tmp_path):
    (tmp_path / "in.dat").write_bytes(b"x" * 1000)
    made = of_job(1, tmp_path, "sbatch job.sh in.dat")
    note = "NIMO1:0123456789ab:n=2,m=observe"
    store.runs.add([replaced(made, admin_comment=note)])
    store.decisions.add([replace(decision(), at_s=LATER_S, inputs="1Kdat=999")])
    store.decisions.join_outcomes()
    assert inputs(store) == {1: "1Kdat=999"}
    assert look(store, "ada") == Looked()
    # And stays when the run is read once more.
    store.runs.add([replaced(made, admin_comment=note, exit_code=1)])
    assert inputs(store) == {1: "1Kdat=999"}


def test_a_decision_without_sizes_leaves_what_was_seen(store, tmp_path):
    (tmp_path / "in.dat").write_bytes(b"x" * 1000)
    made = of_job(1, tmp_path, "sbatch job.sh in.dat")
    store.runs.add([replaced(made, admin_comment="NIMO1:0123456789ab:n=2,m=observe")])
    look(store, "ada")
    store.decisions.add([replace(decision(script="abc"), at_s=LATER_S)])
    store.decisions.join_outcomes()
    assert inputs(store) == {1: "1Kdat=1000"}
