"""What a plan's copies measure: their own report, and what it becomes in the series."""

import os
import subprocess
from dataclasses import replace

import pytest
from msgspec import structs

from predictor.forecasts.transfer_time import transfer_time
from sacct_ingest.errors import SlurmError
from sacct_ingest.records import Probe, Resource
from sacct_ingest.store import Store
from slurm_plugin.config.settings import Config
from slurm_plugin.experiments.plan.chain import jobs
from slurm_plugin.experiments.plan.copy_records import CopyRecorder, measured
from slurm_plugin.experiments.plan.run_times import Copies
from slurm_plugin.experiments.plan.schedule import TaskOption, build
from slurm_plugin.experiments.plan.state_file import StepRun, Submitted
from tests.slurm_plugin.experiments.plan.made import NOW, problem

TEXT = """
storages: {{s: {{path: {folder}/s}}, t: {{path: {folder}/t}}}}
links: [{{from: s, to: t, bandwidth: 10M}}]
places: {{a: {{storage: s}}, b: {{storage: t}}}}
files: {{raw: {{at: s, size: 100M}}}}
tasks: {{x: {{command: x, reads: [raw], run_time: 50}}}}
"""
REPORT = f"nimo:off copied=2000000/{NOW}0/{NOW + 4}0/3.00/2/s/t/t"


def copied(folder="/data", text=TEXT):
    """Workflow, and the copy before its task."""
    made = problem(text.format(folder=folder))
    schedule = build(made, ["x"], {"x": TaskOption("b", 1)})
    return made.workflow, schedule, next(one for one in schedule.steps if not one.nodes)


def ended(began_s=NOW - 1, ended_s=NOW + 9):
    return StepRun(planned_s=int(NOW), step="raw to t", job_name="w", job_id=7, state="COMPLETED",
                   started_s=began_s, ended_s=ended_s)  # fmt: skip


class Told:
    """A stand-in for scontrol: prints a given text, or that there is no such job."""

    def __init__(self, **comments):
        self.comments, self.asked = comments, []

    def __call__(self, argv):
        self.asked.append(argv)
        if argv[0] not in self.comments:
            raise SlurmError("slurm_load_jobs error: Invalid job id specified")
        return self.comments[argv[0]] + "\n"


def test_a_report_is_one_transfer_and_the_load_where_it_ran():
    flow, _, step = copied()
    moved, load = measured(flow, step, ended(), REPORT)
    assert moved == Probe(resource=Resource.TRANSFER, source="s", target="t", at_s=NOW,
                          value=500_000.0, size_bytes=2_000_000, took_s=4.0)  # fmt: skip
    # Two CPUs for three processes and this one.
    assert load == Probe(resource=Resource.CPU, source="t", at_s=NOW, value=0.5)


@pytest.mark.parametrize(
    "comment",
    ["", "nimo:off", REPORT[:-20], REPORT.replace("2000000", ""), REPORT.replace("3.00", ""),
     REPORT.replace("/2/", "/0/"), f"nimo:off copied=9/{NOW:.0f}.%N/{NOW:.0f}.%N/1.0/2/n1"],
)  # fmt: skip
def test_without_a_whole_report_the_times_are_those_of_the_job(comment):
    flow, _, step = copied()
    (moved,) = measured(flow, step, ended(), comment)
    assert (moved.at_s, moved.took_s) == (NOW - 1, 10.0)
    assert moved.value == 10 * 2**20


def test_what_took_no_time_or_moved_nothing_is_no_transfer():
    flow, _, step = copied()
    assert measured(flow, step, ended(NOW, NOW), "") == []
    assert measured(flow, step, ended(None), "") == []
    assert measured(flow, step, ended(), REPORT.replace("2000000", "0")) == []
    backwards = REPORT.replace(f"{NOW + 4}0", f"{NOW - 4}0")
    assert measured(flow, step, ended(), backwards) == []


def test_hosts_name_the_series_and_of_one_host_the_folders():
    io = TEXT.replace("{folder}/t}}", "{folder}/t, host: io1}}")
    flow, _, step = copied(text=io)
    (moved,) = measured(flow, step, ended(), "")
    assert (moved.source, moved.target) == ("s", "io1")
    flow, _, step = copied(text=io.replace("{folder}/s}}", "{folder}/s, host: io1}}"))
    moved = measured(flow, step, ended(), "")[0]
    assert (moved.source, moved.target) == ("io1:/data/s", "io1:/data/t")


@pytest.mark.parametrize(("host", "end"), [("", "t"), (", host: n9", "n9"), (", host: n1", None)])
def test_the_script_times_the_copy_and_reports_it(tmp_path, host, end):
    """A stand-in for scontrol keeps the comment; without one the copy succeeds all the same."""
    text = TEXT.replace("{folder}/t}}", f"{{folder}}/t{host}}}}}")
    flow, schedule, step = copied(tmp_path, text)
    (job, _) = jobs(flow, schedule, rooms={})
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "raw").write_bytes(bytes(300_000))
    (tmp_path / "bin").mkdir()
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/asked\n')
    scontrol.chmod(0o755)
    env = os.environ | {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n9"}
    with_it = env | {"PATH": f"{tmp_path}/bin:{env['PATH']}"}
    subprocess.run(["sh"], input=job.script, text=True, check=True, env=with_it)
    update, which, comment = (tmp_path / "asked").read_text().splitlines()
    assert (update, which) == ("update", "JobId=7")
    moved, *loads = measured(flow, step, ended(), comment.removeprefix("Comment="))
    assert (moved.size_bytes, moved.target) == (300_000, flow.storages["t"].host or "t")
    assert 0 < moved.took_s < 60
    assert [load.source for load in loads] == ([end] if end else [])
    assert all(0 < load.value <= 1 for load in loads)
    assert (tmp_path / "t" / "raw").read_bytes() == bytes(300_000)
    scontrol.write_text("#!/bin/sh\nexit 1\n")
    subprocess.run(["sh"], input=job.script, text=True, check=True, env=with_it)


def plan(flow, schedule):
    planned = jobs(flow, schedule, rooms={})
    return Submitted(workflow="w", deadline_s=None, submitted_s=NOW, jobs=planned)


def stored(url):
    with Store.open(url) as store:
        return list(store.probes.since(0.0))


def test_a_copy_that_completed_is_stored_once_and_a_failed_one_or_a_task_is_not(tmp_path):
    url = f"sqlite:///{tmp_path}/nimo.db"
    with Store.open(url, create=True):
        pass
    flow, schedule, step = copied()
    slurm, said, submitted = Told(squeue=REPORT), [], plan(flow, schedule)
    recorder = CopyRecorder(flow, Config(store=url), said.append, ask=slurm)
    recorder.record(submitted, structs.replace(ended(), state="FAILED"))
    recorder.record(submitted, structs.replace(ended(), state="RUNNING"))
    recorder.record(submitted, structs.replace(ended(), step="x"))
    recorder.record(submitted, structs.replace(ended(), step="planned away"))
    assert (stored(url), slurm.asked) == ([], [])
    recorder.record(submitted, ended())
    expected = measured(flow, step, ended(), REPORT)
    assert stored(url) == expected[::-1]
    recorder.record(submitted, ended())
    assert (stored(url), said) == (expected[::-1], [])
    assert slurm.asked[0] == ["squeue", "-h", "-t", "all", "-o", "%k", "--jobs=7"]


def test_the_accounting_is_asked_where_the_queue_has_forgotten_the_job(tmp_path):
    url = f"sqlite:///{tmp_path}/nimo.db"
    with Store.open(url, create=True):
        pass
    flow, schedule, _ = copied()
    run = structs.replace(ended(), where="big")
    for slurm, took_s in ((Told(sacct=REPORT), 4.0), (Told(squeue="nimo:off", sacct=""), 10.0)):
        CopyRecorder(flow, Config(store=url), print, ask=slurm).record(plan(flow, schedule), run)
        assert stored(url)[-1 if took_s == 4.0 else 0].took_s == took_s
        assert [argv[-1] for argv in slurm.asked] == ["--clusters=big"] * 2


def test_a_store_that_is_not_there_is_reported_once(tmp_path):
    flow, schedule, _ = copied()
    said = []
    recorder = CopyRecorder(
        flow, Config(store=f"sqlite:///{tmp_path}/none.db"), said.append, ask=Told(squeue=REPORT)
    )
    recorder.record(plan(flow, schedule), ended())
    recorder.record(plan(flow, schedule), ended())
    (line,) = said
    assert line.startswith("what copies measure is not stored: ")


def test_past_copies_count_before_the_bandwidth_that_the_file_gives():
    """10 MiB/s by the file; copies of its size take 50 s, a much smaller one says nothing."""
    flow, _, step = copied()
    (moved,) = measured(flow, step, ended(NOW - 60, NOW - 10), "")

    def copy_s(*series):
        copies = Copies(flow=flow, measured=lambda *ends: transfer_time(series, *ends, now_s=NOW))
        return copies.copy(flow.files["raw"].size_bytes, "s", "t").time_s

    assert copy_s() == pytest.approx(10.0)
    assert copy_s(moved) == pytest.approx(50.0)
    assert copy_s(replace(moved, size_bytes=moved.size_bytes // 5)) == pytest.approx(10.0)
    assert copy_s(replace(moved, source="elsewhere")) == pytest.approx(10.0)
