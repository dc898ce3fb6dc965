"""Sizes of input files in the commands of their user."""

import os
import time

import pytest

from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store
from slurm_plugin.cli.nimo import main
from slurm_plugin.cli.sbatch_request import request
from slurm_plugin.slurm.job_request import user_name
from tests.hanging_mount import hanging_mount
from tests.processes import LONGEST_WAIT_S

HEADER = "JobID|Cluster|User|State|Submit|Start|End|ElapsedRaw|NNodes|WorkDir|SubmitLine|JobName\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NIMO_INPUTS", raising=False)
    # As long as a busy machine takes.
    for module in ("slurm_plugin.cli.input_files", "sacct_ingest.ingest.input_files"):
        monkeypatch.setattr(f"{module}.WAIT_S", LONGEST_WAIT_S)
    (tmp_path / "in.bam").write_bytes(b"x" * 1000)
    (tmp_path / "ref.fa").write_bytes(b"x" * 50)
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -i ref.fa\nsolve $1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "inputs"),
    [
        (["job.sh", "in.bam"], "2Kbam=1000Kfa=50"),
        (["-i", "in.bam", "job.sh"], "1Kbam=1000"),
        (["--wrap", "solve in.bam"], "1Kbam=1000"),
        (["--wrap", "solve gone.bam 3 --fast"], ""),
        (["--comment=nimo:inputs=off", "job.sh", "in.bam"], ""),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_a_request_has_the_sizes_of_what_it_names(folder, words, inputs):
    assert request(words, user="")["inputs"] == inputs


def test_of_another_user_nothing_is_looked_at(folder):
    job = request(["job.sh", "in.bam"], user="somebody")
    assert (job["inputs"], job["inputs_changed_s"]) == ("", None)


def test_the_site_and_the_user_can_switch_it_off(folder, monkeypatch):
    assert request(["job.sh", "in.bam"], user="", look=False)["inputs"] == ""
    monkeypatch.setenv("NIMO_INPUTS", "off")
    assert request(["job.sh", "in.bam"], user="")["inputs"] == ""


def test_advice_does_not_wait_for_a_file_system_that_hangs(folder, monkeypatch):
    monkeypatch.setattr("slurm_plugin.cli.input_files.WAIT_S", 0.1)
    (folder / "mount").mkdir()
    with hanging_mount(folder / "mount"):
        begun_s = time.monotonic()
        assert request(["job.sh", "mount/in.bam"], user="")["inputs"] == ""
        assert time.monotonic() - begun_s < LONGEST_WAIT_S / 2


def ingested(folder, *options, settings=""):
    later_s = 4_000_000_000
    os.mkfifo(folder / "fifo.dat") if not (folder / "fifo.dat").exists() else None
    lines = ["sbatch job.sh in.bam", "sbatch job.sh gone.bam", "sbatch job.sh fifo.dat"]
    rows = [
        f"{n}|pine|{user_name()}|COMPLETED|{later_s}|{later_s + 10}|{later_s + 110}|100|1|"
        f"{folder}|{line}|job\n"
        for n, line in enumerate(lines, 1)
    ]
    (folder / "jobs.txt").write_text(HEADER + "".join(rows))
    (folder / "nimo.yaml").write_text(f"store: sqlite:///{folder}/nimo.db\n{settings}")
    return main(["ingest", "--config", f"{folder}/nimo.yaml", *options, f"{folder}/jobs.txt"])


def test_an_ingest_says_what_it_saw(folder, capsys):
    assert ingested(folder, "--stat") == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "sizes of input files: 2 runs got them; of 1 something was changed or is gone; "
        "1 name skipped: unreadable, no plain file, or a folder too large"
    ]
    with Store.open(f"{folder}/nimo.db") as store:
        ((_, rows),) = store.runs.by_key(KeyLevel.USER)
    assert [row.inputs for row in rows] == ["2Kbam=1000Kfa=50", "", "1Kfa=50"]


@pytest.mark.parametrize("settings", ["", "inputs: false\n"], ids=["not asked for", "site"])
def test_an_ingest_looks_at_nothing_else(folder, capsys, settings):
    assert ingested(folder, *["--stat"] * bool(settings), settings=settings) == 0
    assert "input files" not in capsys.readouterr().out
