"""Scaling studies: few runs, the right count, whatever fails; killed, resumed; what they leave."""

import csv
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sacct_ingest.errors import ConfigError, FormatError, NoHistory, SlurmError
from sacct_ingest.records import JobState
from sacct_ingest.store import RunRow
from sacct_ingest.text.tag import parse_tag, study_of
from slurm_plugin.cli.nimo import main
from slurm_plugin.experiments.scale import results as made
from slurm_plugin.experiments.scale.study import (
    Settings,
    Study,
    StudyRun,
    cancel_open,
    command,
    follow,
    next_count,
)
from slurm_plugin.slurm.commands import SubmissionRefused
from tests.slurm_plugin.reports.rows import run as job_of

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


class Killed(BaseException):
    """Nobody catches it, as nobody catches SIGKILL."""


@dataclass
class FakeSlurm:
    """Slurm's side of it: jobs run one after the other while a study sleeps."""

    time_of: Callable[[int], float]
    state_of: Callable[[int], JobState] = lambda _: JobState.COMPLETED
    refused: frozenset[int] = frozenset()
    kill_at: int = -1
    calls: int = 0
    held: dict[int, StudyRun] = field(default_factory=dict)
    running: dict[int, StudyRun] = field(default_factory=dict)
    over: dict[int, RunRow] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)

    def _call(self):
        self.calls += 1
        if self.calls == self.kill_at:
            raise Killed

    def submit(self, _settings, run):
        self._call()
        if run.count in self.refused:
            raise SubmissionRefused("sbatch: error: more nodes than there are")
        job_id = len(self.held) + len(self.running) + len(self.over) + len(self.cancelled) + 1
        self.held[job_id] = run
        self._call()
        return job_id

    def find(self, run):
        return next((j for j, one in self.held.items() if one.number == run.number), None)

    def release(self, job_id):
        self._call()
        if job_id in self.held:
            self.running[job_id] = self.held.pop(job_id)

    def cancel(self, *job_ids):
        for job_id in job_ids:
            self.held.pop(job_id, None)
            self.running.pop(job_id, None)
            self.cancelled.add(job_id)

    def impossible(self):
        return {}

    def queued(self):
        self._call()
        return {*self.held, *self.running}

    def sleep(self, _pause_s):
        """The shortest run ends."""
        if self.running:
            job_id = min(self.running, key=lambda j: self.time_of(self.running[j].count))
            n = self.running.pop(job_id).count
            self.over[job_id] = job_of(
                job_id=job_id, state=self.state_of(n), nodes=n, cpus=4 * n, partition="b",
                elapsed_s=float(round(self.time_of(n))),
            )  # fmt: skip

    def ended(self, planned_s):
        self._call()
        return {job_id: self.over[job_id] for job_id in planned_s if job_id in self.over}


def settings(**changes):
    given = {"script": "job.sh", "words": ("job.sh",), "counts": COUNTS, "budget": 1e6}
    return Settings(**{**given, **changes})


def studied(path, slurm, **changes):
    study = Study(path / "study.json", settings(**changes))
    follow(study, slurm, clock=lambda: 1e9, sleep=slurm.sleep, report=lambda _: None)
    return study


def knee(n):
    return 100 + 3200 / n


def grows(n):
    return 500 + 60 * n


@pytest.mark.parametrize("time_of", [knee, grows, lambda n: 6400 / n, lambda n: 900 / n + 9 * n])
def test_few_runs_find_a_count_that_costs_little_more_than_the_best(tmp_path, time_of):
    slurm = FakeSlurm(time_of)
    found = made.results_of(studied(tmp_path, slurm))
    cost = {n: n * time_of(n) ** 2 for n in COUNTS}
    assert cost[found.recommended] <= 1.03 * min(cost.values())
    assert len(slurm.over) <= 6
    assert not slurm.running and not slurm.held
    assert next(row for row in found.rows if row.count == found.recommended).runs


def test_a_study_whose_jobs_are_in_no_accounting_says_so(tmp_path):
    slurm, clock = FakeSlurm(knee), iter(range(10**6, 10**9, 60))
    slurm.ended = lambda planned_s: {}
    with pytest.raises(SlurmError, match=r"says how the jobs ended: see 'sacct -j 1,2,3'"):
        follow(
            Study(tmp_path / "study.json", settings()), slurm,
            clock=lambda: next(clock), sleep=slurm.sleep, report=lambda _: None,
        )  # fmt: skip


def test_a_problem_that_grows_has_its_own_best_count(tmp_path):
    found = made.results_of(studied(tmp_path, FakeSlurm(lambda n: 300 + 10 * n), weak=True))
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
    found = made.results_of(studied(tmp_path, FakeSlurm(time_of), counts=(1, 2, 4)))
    last, table = found.measured[-1], made.table(found).text()
    assert last.count == 4
    assert (last.doubt, bool(doubt) and doubt in table) == (doubt, bool(doubt))
    assert (f" % ({doubt})" in made.proposal(found)) is bool(doubt)
    assert not found.measured[0].doubt


FAILURES = {
    "memory": (lambda n: JobState.OUT_OF_MEMORY if n < 4 else JobState.COMPLETED, "OUT_OF_MEMORY"),
    "limit": (lambda n: JobState.TIMEOUT if n < 3 else JobState.COMPLETED, "TIMEOUT"),
    "largest": (lambda n: JobState.FAILED if n == 64 else JobState.COMPLETED, "FAILED"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_count_that_fails_is_a_row_with_its_reason_and_another_is_tried(tmp_path, failure):
    state_of, word = FAILURES[failure]
    slurm = FakeSlurm(knee, state_of)
    found = made.results_of(studied(tmp_path, slurm, limit_s=1700.0))
    failed = [row for row in found.rows if word in row.note]
    assert failed and not any(row.runs for row in failed)
    cost = {n: n * knee(n) ** 2 for n in COUNTS if state_of(n) is JobState.COMPLETED}
    assert cost[found.recommended] <= 1.03 * min(cost.values())
    assert word in made.proposal(found)


def test_what_never_runs_well_is_given_up(tmp_path):
    slurm = FakeSlurm(knee, lambda _: JobState.FAILED, refused=frozenset({64}))
    study = studied(tmp_path, slurm)
    assert study.ended == "all of the first 3 runs failed"
    assert made.results_of(study).recommended is None


def test_a_kill_at_every_moment_loses_no_run_and_makes_none_twice(tmp_path):
    whole = studied(tmp_path, FakeSlurm(knee))
    for kill_at in range(1, 60):
        path = tmp_path / f"{kill_at}"
        path.mkdir()
        slurm = FakeSlurm(knee, kill_at=kill_at)
        try:
            studied(path, slurm)
        except Killed:
            study = Study(path / "study.json")
            follow(study, slurm, clock=lambda: 1e9, sleep=slurm.sleep, report=lambda _: None)
            assert sorted(r.count for r in study.runs) == sorted(r.count for r in whole.runs)
            assert not slurm.held and not slurm.running and not slurm.cancelled
        else:
            break
    assert kill_at > 20


def test_after_ctrl_c_nothing_is_left_in_the_queue_and_resuming_runs_it_again(tmp_path):
    slurm, study = FakeSlurm(knee), Study(tmp_path / "study.json", settings())

    def interrupted(_pause_s):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(study, slurm, clock=lambda: 1e9, sleep=interrupted, report=lambda _: None)
    assert len(cancel_open(study, slurm)) == 3
    assert not slurm.held and not slurm.running
    again = Study(tmp_path / "study.json")
    follow(again, slurm, clock=lambda: 1e9, sleep=slurm.sleep, report=lambda _: None)
    assert made.results_of(again).recommended


@pytest.mark.parametrize("budget", [10.0, 50.0, 100.0])
def test_the_budget_holds_whatever_a_run_takes(tmp_path, budget):
    slurm = FakeSlurm(lambda n: 1860.0)
    study = studied(tmp_path, slurm, budget=budget, overrun_s=60.0)
    assert study.hours <= budget
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
    study = studied(tmp_path, FakeSlurm(knee, FAILURES["memory"][0]))
    found = made.results_of(study)
    names = {path.name for path in made.write(found, tmp_path)}
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
    with pytest.raises(FormatError, match="is this the folder of a study"):
        Study(tmp_path / "study.json")


def test_a_run_that_no_limit_allows_is_cancelled_and_a_row(tmp_path):
    class Limited(FakeSlurm):
        def release(self, job_id):
            if self.held[job_id].count != max(COUNTS):
                super().release(job_id)

        def impossible(self):
            return dict.fromkeys(self.held, "QOSMaxNodePerJobLimit")

    slurm = Limited(knee)
    study = studied(tmp_path, slurm)
    failed = [(one.count, one.reason) for one in study.runs if one.reason]
    assert failed == [(max(COUNTS), "QOSMaxNodePerJobLimit")]
    assert slurm.cancelled and not slurm.held


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
