"""The demo as a newcomer runs it, from the wheel alone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_plugin.cli.nimo import main
from slurm_plugin.nimod import client
from tests.docs.pages import blocks

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tour") / "demo"


@pytest.fixture(scope="module")
def shown(folder, scripts):
    done = subprocess.run(
        [scripts / "nimo", "demo", "--directory", folder],
        cwd=folder.parent,
        capture_output=True,
        text=True,
        check=False,
        # No Slurm is needed, and none that happens to be there is asked.
        env={"PATH": f"{scripts}:{os.defpath}", "SLURM_CONF": str(folder / "none.conf")},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_every_step_is_there_and_says_what_is_made_up(shown):
    for command in ("nimo ingest", "nimo fit", "nimo serve", "nimo-advise", "nimo report"):
        assert f"$ {command}" in shown
    assert "The demo generates" in shown
    assert shown.index("$ nimo ingest") < shown.index("$ nimo fit") < shown.index("$ nimo report")


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["demo", "--directory", str(tmp_path / "file" / "demo")]) == 1
    assert "Not a directory; see --directory" in capsys.readouterr().err


def test_history_becomes_reliable_curves(shown):
    result = re.search(r"applications: (\d+) reliable, .*; (\d+) scaling curves ", shown)
    assert int(result[1]) >= 5
    assert int(result[2]) == 7


def test_moldable_jobs_are_changed_and_the_others_are_not(shown):
    rows = shown.partition("\nsubmitted ")[2].partition("\n\n")[0].splitlines()[1:]
    assert len(rows) == 12
    assert ["--array" in row for row in rows if "  keep  " in row] == [True]
    # Of one count, and set to one that its user completed.
    assert all("set --nodes=" in row for row in rows if "-N 2" in row)
    # Waits of jobs like these are on record, so that the benefit has them.
    assert re.search(r"whose node count NIMO changed ended .* sooner", shown.replace("\n", " "))


def test_every_decision_finds_its_outcome(shown):
    assert "12 decisions joined with an outcome" in shown
    assert "12 decisions from " in shown
    assert ", 12 with an outcome" in shown


def test_statuses_for_scripts_are_shown(shown):
    assert "(exit status 4)" in shown


def test_an_application_that_never_ran_has_a_curve_after_four_submissions(shown):
    told = shown.partition("What sbatch prints:")[2].split("$ sbatch heat.sh\n")[1:]
    assert told[0].startswith("(nothing: Slurm gives it 8 nodes)")
    assert told[1].endswith("to learn how it scales (2 of 3)\n")
    assert told[2].endswith("to learn how it scales (3 of 3)\n")
    assert told[3].startswith("nimo: ")
    advice = shown.partition("$ nimo-advise heat.sh")[2].replace("\n", " ")
    assert "How this job scales was learnt on " in advice
    assert "in this directory" not in advice


def test_a_nimod_of_an_earlier_demo_is_not_taken_for_ones_own(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(client, "status", lambda *_, **__: None)
    assert main(["demo", "--directory", str(tmp_path / "demo")]) == 1
    shown = capsys.readouterr()
    assert "nimod of an earlier demo still runs" in shown.err
    assert not shown.out


def test_what_the_tutorial_for_users_tells_works(shown, folder):
    lines = [
        line.removeprefix("$ ")
        for shown in blocks("console")
        if shown.page == "tutorial-user.md"
        for line in shown.text.splitlines()
    ]
    assert lines.pop(0) == "nimo demo --directory demo"
    run = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder.parent,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    assert run.returncode == 0, run.stderr
    assert "◆" in run.stdout
    assert "<svg" in (folder.parent / "curve.svg").read_text()


def test_no_traceback_and_no_leftover(shown, folder):
    assert "Traceback" not in shown
    assert not (folder / "nimod.sock").exists()
