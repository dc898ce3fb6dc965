"""The demo as a newcomer runs it, from the wheel alone."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_plugin.cli.nimo import main
from slurm_plugin.nimod import client
from tests.docs.pages import ROOT, blocks
from tests.docs.test_gallery import numbers

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tour") / "demo"


#: Where the commands of the tests' own environment are, which draws pictures, too.
PROGRAMS = Path(sys.executable).parent


def nimo(programs, folder, *words, environment):
    """Run the command nimo as a newcomer does."""
    # No Slurm is needed, and none that happens to be there is asked.
    own = {"PATH": f"{programs}:{os.defpath}", "SLURM_CONF": str(folder / "none.conf")}
    return subprocess.run(
        [programs / "nimo", *words, "--directory", folder],
        cwd=folder.parent,
        capture_output=True,
        text=True,
        check=False,
        env={**environment, **own},
    )


@pytest.fixture(scope="module")
def short(folder):
    """What the demo prints by itself; its nimod runs for as long as the tests do."""
    yield nimo(PROGRAMS, folder, "demo", environment=os.environ)
    nimo(PROGRAMS, folder, "demo", "--stop", environment=os.environ)


@pytest.fixture(scope="module")
def shown(tmp_path_factory, scripts):
    """Every step of it, from the wheel alone."""
    folder = tmp_path_factory.mktemp("every") / "demo"
    done = nimo(scripts, folder, "demo", "--all", environment={})
    stopped = nimo(scripts, folder, "demo", "--stop", environment={})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert stopped.stdout == "nimod is stopped\n"
    assert not (folder / "nimod.sock").exists()
    return done.stdout


def test_the_demo_is_read_in_a_minute_and_ends_with_what_to_try(short, folder):
    assert (short.returncode, short.stderr) == (0, "")
    assert len(short.stdout.splitlines()) <= 100
    assert max(map(len, short.stdout.splitlines())) <= 160
    assert f". ./{folder.name}/env; cd {folder.name}" in short.stdout
    assert "NIMO changed the node count of" in short.stdout
    assert "Traceback" not in short.stdout


def test_every_step_is_there_and_says_what_is_made_up(shown):
    for command in ("nimo ingest", "nimo fit", "nimo serve", "nimo-advise", "nimo report"):
        assert f"$ {command}" in shown
    assert "Made up: " in shown
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
    rows = shown.partition("\njobs  submitted ")[2].partition("\n\n")[0].splitlines()[1:]
    assert sum(int(row.split()[0]) for row in rows) == 12
    assert ["--array" in row for row in rows if "  keep  " in row] == [True]
    # Of one count, and set to one that its user completed.
    assert all("set --nodes=" in row for row in rows if "-N 2" in row)
    # Waits of jobs like these are on record, so that the benefit has them.
    assert re.search(
        r"NIMO changed the node count of .* jobs\. On average each ended .* sooner",
        shown.replace("\n", " "),
    )


def test_every_decision_finds_its_outcome(shown):
    assert "12 decisions joined with an outcome" in shown
    assert "12 decisions, " in shown
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


def test_the_example_of_the_readme_is_what_the_demo_prints(short):
    """But for who asks and when."""

    def told(text):
        example = text.partition("$ nimo-advise wrf.sh d02\n")[2].partition("--all shows all.")[0]
        return re.sub(r"\d\d-\d\d \d\d:\d\d|\w+/wrf", "…", example)

    shown = told((ROOT / "README.md").read_text())
    assert "#SBATCH" in shown
    assert re.sub(r"[\d.:]+", "0", told(short.stdout)) == re.sub(r"[\d.:]+", "0", shown)
    pairs = zip(numbers(told(short.stdout)), numbers(shown), strict=True)
    assert all(now == pytest.approx(then, rel=0.15, abs=1.0) for now, then in pairs)


def typed(folder, lines):
    """Type lines into one shell in the demo's parent folder; gives what each printed."""
    mark = "=====next"
    text = "".join(f"echo '{mark}'; echo '{mark}' >&2\n{line}\n" for line in lines)
    run = subprocess.run(
        ["bash", "-e", "-o", "pipefail"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder.parent,
        env={**os.environ, "PATH": f"{PROGRAMS}:{os.defpath}"},
    )
    printed = run.stdout.split(f"{mark}\n")[1:], run.stderr.split(f"{mark}\n")[1:]
    assert run.returncode == 0, (lines[len(printed[0]) - 1], run.stderr)
    return dict(zip(lines, map("".join, zip(*printed, strict=True)), strict=True))


def lines_of(page, language):
    return [
        line.removeprefix("$ ")
        for one in blocks(language)
        if one.page == page
        for line in one.text.splitlines()
    ]


def test_every_line_of_the_tutorial_for_users_works(short, folder):
    lines = lines_of("tutorial-user.md", "console")
    assert lines.pop(0) == "nimo demo --directory demo"
    numbered = [f"{line}  # {i}" for i, line in enumerate(lines)]
    said = typed(folder, numbered)
    told = {line: said[name] for name, line in zip(numbered, lines, strict=True)}
    assert told["nimo-advise wrf.sh d02"].splitlines()[1].startswith("#SBATCH --nodes=")
    assert "AdminComment=NIMO1:" in told["scontrol show job $job | grep AdminComment"]
    assert "NIMO1:" in next(text for line, text in told.items() if line.startswith("sacct"))
    assert "NIMO chose " in told["nimo why $job"]
    heat = [said[name] for name in numbered if name.startswith("sbatch heat.sh")]
    assert len(heat) == 4
    assert "nimo: " not in heat[0]
    assert all("to learn how it scales" in text for text in heat[1:3])
    assert "learnt on" in told["nimo-advise heat.sh"]
    assert "/heat, 4 runs" in told["nimo-advise heat.sh"]
    assert "<svg" in (folder / "curve.svg").read_text()
    assert json.loads((folder / "advice.json").read_text())["rows"]


def test_every_line_of_the_tutorial_for_admins_works(short, folder):
    lines = lines_of("tutorial-admin.md", "sh")
    assert lines.pop(0) == "nimo demo --directory demo"
    told = typed(folder, lines)
    assert "3213 stored before" in told["nimo ingest -S now-90days"]
    assert "/wrf-d02" in told["nimo predict"]
    assert "Switching NIMO on would" in told["nimo replay --suggest"].replace("\n", " ")
    assert (folder / "slurm" / "job_submit.lua").exists()
    assert "Submitted batch job " in told["sbatch -N 1-4 --wrap hostname"]
    assert " decision" in told["nimo report -S now-1hour"]
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_no_job_of_the_demo_s_user_waits(short, folder):
    lines = [". demo/env", "cd demo", "sbatch heat.sh", "nimo why"]
    assert typed(folder, lines)["nimo why"] == "none of your jobs is waiting\n"


def test_slurm_s_commands_of_the_demo_refuse_what_slurm_refuses(short, folder):
    refused = {
        "sbatch -N 99 heat.sh": "Node count specification invalid",
        "sbatch missing.sh": "No such file",
        "sacct -o NoColumn": "Invalid field requested",
        "scontrol show job 17": "Invalid job id specified",
    }
    for line, words in refused.items():
        said = typed(folder, [". demo/env", "cd demo", f"! {line}"])
        assert words in said[f"! {line}"]
    assert "to start at" in typed(
        folder, [". demo/env", "cd demo", "sbatch --test-only heat.sh"]
    )["sbatch --test-only heat.sh"]  # fmt: skip
