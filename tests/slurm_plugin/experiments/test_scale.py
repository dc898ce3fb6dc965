"""Scaling studies: few runs, the right count, whatever fails; killed, resumed; what they leave."""

import csv
import json
import os
from pathlib import Path

import pytest

from sacct_ingest.errors import ConfigError, FormatError, NoHistory, SlurmError
from sacct_ingest.records import JobState
from sacct_ingest.text.tag import parse_tag, study_of
from slurm_plugin.cli.nimo import main
from slurm_plugin.experiments.campaign import spent
from slurm_plugin.experiments.scale import results as made
from slurm_plugin.experiments.scale import study_folder
from slurm_plugin.experiments.scale.study import Settings, Study, StudyRun, command, next_count
from tests.slurm_plugin.experiments.fake_slurm import FakeSlurm, Killed, campaign, cuts
from tests.slurm_plugin.reports.rows import run as job_of

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


def slurm_of(time_of, state_of=lambda _: JobState.COMPLETED, refused=(), **more):
    """Slurm where jobs take so long on each count."""

    def outcome(slurm, argv):
        n = count_of(argv)
        if n in refused:
            return "sbatch: error: more nodes than there are"
        return job_of(
            job_id=len(slurm.jobs) + 1, state=state_of(n), nodes=n, cpus=4 * n, partition="b",
            elapsed_s=float(round(time_of(n))),
        )  # fmt: skip

    return FakeSlurm(outcome, **more)


def count_of(argv):
    return int(next(word for word in argv if word.startswith("--nodes=")).partition("=")[2])


def settings(**changes):
    given = {"script": "job.sh", "words": ("job.sh",), "counts": COUNTS, "budget": 1e6}
    return Settings(**{**given, **changes})


def studied(path, slurm, **changes):
    study = Study(path / "study.json", settings(**changes))
    study.end(campaign(study, slurm).follow())
    return study


@pytest.fixture(autouse=True)
def job_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("job.sh").write_text("#!/bin/sh\n")


def knee(n):
    return 100 + 3200 / n


def grows(n):
    return 500 + 60 * n


@pytest.mark.parametrize("time_of", [knee, grows, lambda n: 6400 / n, lambda n: 900 / n + 9 * n])
def test_few_runs_find_a_count_that_costs_little_more_than_the_best(tmp_path, time_of):
    slurm = slurm_of(time_of)
    found = made.results_of(studied(tmp_path, slurm))
    cost = {n: n * time_of(n) ** 2 for n in COUNTS}
    assert cost[found.recommended] <= 1.03 * min(cost.values())
    assert len(slurm.jobs) <= 6
    assert not slurm.left
    assert next(row for row in found.rows if row.count == found.recommended).runs


def test_a_study_whose_jobs_are_in_no_accounting_says_so(tmp_path):
    slurm = slurm_of(knee)
    slurm.ended = lambda planned_s: {}
    with pytest.raises(SlurmError, match=r"says how the jobs ended: see 'sacct -j 1,2,3'"):
        studied(tmp_path, slurm)


def test_a_problem_that_grows_has_its_own_best_count(tmp_path):
    found = made.results_of(studied(tmp_path, slurm_of(lambda n: 300 + 10 * n), weak=True))
    cost = {n: (300 + 10 * n) ** 2 / n for n in COUNTS}
    assert cost[found.recommended] <= 1.03 * min(cost.values())
    first, *_, last = found.measured
    assert last.efficiency == pytest.approx(first.time_s / last.time_s, rel=0.01)


@pytest.mark.parametrize(
    ("time_of", "doubt"),
    [
        (lambda n: {1: 5, 2: 3}.get(n, 1), "runs too short to tell"),
        (lambda n: {1: 1000, 2: 498}.get(n, 249), "within the noise of 100 %"),
        (lambda n: {1: 1000, 2: 600}.get(n, 400), ""),
    ],
)
def test_an_efficiency_that_says_little_says_so(tmp_path, time_of, doubt):
    found = made.results_of(studied(tmp_path, slurm_of(time_of), counts=(1, 2, 4)))
    last, table = found.measured[-1], made.table(found).text()
    assert last.count == 4
    assert (last.doubt, bool(doubt) and doubt in table) == (doubt, bool(doubt))
    assert (f" % ({doubt})" in made.proposal(found)) is bool(doubt)
    assert not found.measured[0].doubt


def test_runs_of_no_second_are_runs_of_one(tmp_path):
    study = studied(tmp_path, slurm_of(lambda _: 0.0))
    assert {run.elapsed_s for run in study.runs} == {1.0}
    assert "runs too short to tell" in made.table(made.results_of(study)).text()


FAILURES = {
    "memory": (lambda n: JobState.OUT_OF_MEMORY if n < 4 else JobState.COMPLETED, "OUT_OF_MEMORY"),
    "limit": (lambda n: JobState.TIMEOUT if n < 3 else JobState.COMPLETED, "TIMEOUT"),
    "largest": (lambda n: JobState.FAILED if n == 64 else JobState.COMPLETED, "FAILED"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_count_that_fails_is_a_row_with_its_reason_and_another_is_tried(tmp_path, failure):
    state_of, word = FAILURES[failure]
    slurm = slurm_of(knee, state_of)
    found = made.results_of(studied(tmp_path, slurm, limit_s=1700.0))
    failed = [row for row in found.rows if word in row.note]
    assert failed and not any(row.runs for row in failed)
    cost = {n: n * knee(n) ** 2 for n in COUNTS if state_of(n) is JobState.COMPLETED}
    assert cost[found.recommended] <= 1.03 * min(cost.values())
    assert word in made.proposal(found)


def test_what_never_runs_well_is_given_up(tmp_path):
    slurm = slurm_of(knee, lambda _: JobState.FAILED, refused=frozenset({64}))
    study = studied(tmp_path, slurm)
    assert study.ended == "all of the first 3 runs failed"
    assert made.results_of(study).recommended is None


def test_a_kill_at_every_moment_loses_no_run_and_makes_none_twice(tmp_path):
    whole = studied(tmp_path, slurm_of(knee))
    for kill_at in range(1, 80):
        path = tmp_path / f"{kill_at}"
        path.mkdir()
        slurm = slurm_of(knee, kill_at=kill_at)
        try:
            studied(path, slurm)
        except Killed:
            if not (path / "study.json").exists():
                continue
            study = Study(path / "study.json")
            campaign(study, slurm).follow()
            assert sorted(r.count for r in study.runs) == sorted(r.count for r in whole.runs)
            assert not slurm.left
            assert len(slurm.jobs) == len(whole.runs)
        else:
            break
    assert kill_at > 20


@pytest.mark.parametrize("leave", [False, True])
def test_after_an_interruption_no_job_is_left_unless_told_to_and_resuming_goes_on(tmp_path, leave):
    slurm, study, told = slurm_of(knee), Study(tmp_path / "study.json", settings()), []

    def interrupted(_pause_s):
        slurm.now_s += 60.0
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        campaign(study, slurm, sleep=interrupted, tell=told.append, leave=leave).follow()
    assert slurm.left == ([1, 2, 3] if leave else [])
    goes_on = f"cancelled (1, 2, 3); 'nimo scale --resume {tmp_path}' goes on"
    assert told == ([] if leave else [goes_on])
    again = Study(tmp_path / "study.json")
    # What the cancelled jobs took counts in the budget.
    taken = 0.0 if leave else sum(run.count for run in again.runs) / 60
    assert sum(run.amount * run.cancelled_s for run in again.runs) / 3600 == pytest.approx(taken)
    campaign(again, slurm).follow()
    assert made.results_of(again).recommended
    assert len(slurm.jobs) == len(again.runs) + (0 if leave else 3)


def test_a_job_that_was_submitted_twice_is_not_left(tmp_path):
    """An sbatch that outlives its killed campaign submits after the next one has looked."""
    slurm, study = slurm_of(knee), Study(tmp_path / "study.json", settings(together=1))

    def late(seconds):
        if len(slurm.jobs) == 1:
            slurm.submit(slurm.jobs[1].argv, "")
        slurm.sleep(seconds)

    campaign(study, slurm, sleep=late).follow()
    assert slurm.left == []
    assert [run.job_id for run in study.runs[:2]] == [1, 3]


def test_a_journal_cut_at_any_byte_is_refused_with_the_place(tmp_path):
    study = studied(tmp_path, slurm_of(knee))
    path = tmp_path / "study.json"
    for data in cuts(path.read_bytes()):
        path.write_bytes(data)
        with pytest.raises(FormatError, match=rf"study\.json: cut off at byte {len(data)}; "):
            Study(path)
    path.write_bytes(b"\xff" + data)
    with pytest.raises(FormatError, match=r"study\.json: .*byte 0.*; is this the folder"):
        Study(path)
    assert study.ended


@pytest.mark.parametrize("budget", [10.0, 50.0, 100.0])
def test_the_budget_holds_whatever_a_run_takes(tmp_path, budget):
    slurm = slurm_of(lambda n: 1860.0)
    study = studied(tmp_path, slurm, budget=budget, overrun_s=60.0)
    assert spent(study.runs) <= budget
    assert study.ended


def test_the_middle_is_first_and_what_may_not_run_is_left_out():
    assert next_count([], COUNTS, COUNTS) is None
    first = next_count([], COUNTS, ())
    assert first is not None and first.count == 8


def test_the_command_line_keeps_the_users_options_and_fills_in_the_count(tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH --comment=nimo:app=wrf\nCELLS=1\n")
    run = StudyRun(number=1, count=4, why="", planned_s=0)
    words = ("-p", "long", str(script), "in.{n}")
    argv, text = command(settings(script=str(script), words=words), run, "nimo:off,study=a-1")
    tag = "nimo:off,study=a-1,app=wrf"
    assert argv[4:] == [
        *("-p", "long", f"--comment={tag}", "--nodes=4", "--time=30", str(script), "in.4")
    ]
    assert (study_of("", f"sbatch {' '.join(argv[1:])}"), parse_tag(tag).key) == ("a", "wrf")
    given = settings(script=str(script), words=words, filter="sed s/=1/=$N/", sizes="gpus")
    argv, text = command(given, run, "nimo:off")
    assert "--gpus=4" in argv and "--job-name=job.sh" in argv and argv[-2:] == ["-", "in.4"]
    assert text.endswith("\nCELLS=4\n")


def test_the_folder_holds_tables_plot_paragraph_and_job_ids(tmp_path):
    study = studied(tmp_path, slurm_of(knee, FAILURES["memory"][0]))
    found = made.results_of(study)
    names = {path.name for path in study_folder.write(found, tmp_path)}
    assert names == {
        *("table.csv", "table.md", "table.tex", "proposal.txt", "jobs.txt"),
        *("plot.svg", "plot.pdf", "plot.png"),
    }
    rows = list(csv.DictReader((tmp_path / "table.csv").open()))
    best = next(row for row in rows if row["count"] == str(found.recommended))
    assert float(best["time_s"]) == round(knee(found.recommended))
    assert float(best["hours"]) == pytest.approx(
        found.recommended * round(knee(found.recommended)) / 3600, rel=1e-5
    )
    ids = (tmp_path / "jobs.txt").read_text().split("\n")
    assert len(ids) - 1 == len(study.runs)
    assert "OUT\\_OF\\_MEMORY" in (tmp_path / "table.tex").read_text()
    text = (tmp_path / "proposal.txt").read_text()
    assert text.startswith("Strong scaling of job.sh was measured on partition b of pine")
    assert "ideal" in (tmp_path / "plot.svg").read_text()


def test_a_folder_without_a_study_is_named(tmp_path):
    with pytest.raises(FormatError, match=r"json: No such file .*; is this the folder of a study"):
        Study(tmp_path / "study.json")


def test_a_run_that_no_limit_allows_is_cancelled_and_a_row(tmp_path):
    largest = max(COUNTS)
    slurm = slurm_of(knee)
    slurm.starts = lambda job: "QOSMaxNodePerJobLimit" if count_of(job.argv) == largest else ""
    study = studied(tmp_path, slurm)
    failed = [(one.count, one.reason) for one in study.runs if one.reason]
    assert failed == [(max(COUNTS), "QOSMaxNodePerJobLimit")]
    assert not slurm.left


@pytest.mark.parametrize(
    ("limit", "options", "said"),
    [
        ("08:00:00", [], "time limit is 8 h, each run gets 30 min (--time)"),
        ("08:00:00", ["--time", "30"], ""),
        ("30", [], ""),
    ],
)
def test_a_limit_in_place_of_the_scripts_is_named(
    tmp_path, monkeypatch, capsys, limit, options, said
):
    monkeypatch.chdir(tmp_path)
    Path("job.sh").write_text(f"#!/bin/sh\n#SBATCH --time={limit}\n")
    assert main(["scale", "-N", "1-4", *options, "--dry-run", "job.sh"]) == 0
    shown = capsys.readouterr()
    assert "--time=30 job.sh" in shown.out
    assert (said in shown.err) if said else not shown.err


def test_the_next_run_is_shown_without_a_submission(tmp_path, monkeypatch, capsys):
    argv = [
        *("sbatch", "--parsable", "--hold", "--no-requeue"),
        "--comment=nimo:off,study=0123456789ab-1",
        *("--nodes=2", "--time=30", "job.sh"),
    ]
    monkeypatch.setattr(Study, "mark", lambda *_: "study=0123456789ab-1")
    assert main(["scale", "-N", "1-4", "--time", "30", "--dry-run", "job.sh"]) == 0
    assert capsys.readouterr().out == (
        "counts: 1, 2, 3, 4\n"
        "next: 2 (the first of a curve), at most 1.0 of the 200.0 node-hours left\n"
        f"{' '.join(argv)}\n"
    )
    options = ["--budget", "0.5", "--time", "30", "--dry-run", "job.sh"]
    assert main(["scale", "-N", "1-4", *options]) == 0
    assert capsys.readouterr().out == (
        "counts: 1, 2, 3, 4; 0.5 node-hours left\nnothing is to be run: the budget is used\n"
    )
    assert main(["scale", "-N", "1-4", "--time", "30", "--dry-run", "--json", "job.sh"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "next": {"count": 2},
        "why": "the first of a curve",
        "argv": argv,
        "node_hours_left": 200.0,
        "node_hours_reserved": 1.0,
        "counts": [1, 2, 3, 4],
    }
    assert not (tmp_path / "job.scale").exists()


@pytest.mark.parametrize("where", ["typed", "script", "environment"])
def test_runs_on_another_cluster_are_refused(tmp_path, monkeypatch, capsys, where):
    (tmp_path / "scontrol").write_text("#!/bin/sh\necho 'ClusterName = pine'\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    line = "#SBATCH -M oak\n" if where == "script" else ""
    Path("job.sh").write_text(f"#!/bin/sh\n{line}")
    if where == "environment":
        monkeypatch.setenv("SBATCH_CLUSTERS", "oak")
    typed = ["--", "-M", "oak"] if where == "typed" else []
    ask = ["scale", "-N", "1-4", "--dry-run", *typed, "job.sh"]
    assert main(ask) == ConfigError.exit_status
    assert "--clusters=oak: runs are followed on the cluster of this machine" in (
        capsys.readouterr().err
    )
    if where == "typed":
        assert main(["scale", "-N", "1-4", "--dry-run", "--", "-M", "pine", "job.sh"]) == 0


def test_a_study_whose_jobs_were_all_refused_begins_anew(tmp_path, monkeypatch, capsys):
    refused = "sbatch: error: Batch job submission failed: Requested node configuration is not"
    for name in ("scontrol", "squeue", "sacct"):
        (tmp_path / name).write_text("#!/bin/sh\n")
    (tmp_path / "sbatch").write_text(f"#!/bin/sh\necho '{refused} available' >&2\nexit 1\n")
    for path in tmp_path.iterdir():
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    Path("job.sh").write_text("#!/bin/sh\n")
    for _ in range(2):
        assert main(["scale", "-N", "1-4", "job.sh"]) == NoHistory.exit_status
        shown = capsys.readouterr()
        assert "1: Requested node configuration is not available\n" in shown.err
        assert "  Requested n" in shown.out
        assert "may lack these runs" not in shown.err
    saved = Study(tmp_path / "job.scale" / "study.json")
    saved.save(StudyRun(number=1, count=1, why="", planned_s=0, job_id=7, state="FAILED"))
    assert main(["scale", "-N", "1-4", "job.sh"]) == ConfigError.exit_status
