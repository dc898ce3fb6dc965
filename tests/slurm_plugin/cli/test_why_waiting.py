"""``nimo why`` of jobs that wait: what is printed, where Slurm hangs, refuses or shows little."""

import json
import os
import re
import subprocess
import time

import pytest

from sacct_ingest.errors import SlurmError
from slurm_plugin.cli import slurm_questions, waiting_jobs
from slurm_plugin.cli.commands import why
from slurm_plugin.cli.nimo import main
from slurm_plugin.nimod import client
from slurm_plugin.nimod.line_client import Unreachable
from slurm_plugin.protocol.status_messages import WaitRow, Waits
from slurm_plugin.slurm.job_edit import Edit
from slurm_plugin.slurm.pending_job import PendingJob
from slurm_plugin.wait_forecasts.changed_starts import StartRange
from tests.slurm_plugin.slurm.slurm_text import CONFIG

NOW = int(time.time())
SHOWN = f"""JobId=17 JobName=my job
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   Priority=100 Nice=0 Account=physics QOS=short
   JobState=PENDING Reason={{reason}} Dependency=(null)
   RunTime=00:00:00 TimeLimit=02:00:00 TimeMin=N/A
   SubmitTime={NOW - 60} EligibleTime={NOW - 60}
   StartTime={NOW + 7200} EndTime=Unknown Deadline=N/A
   Partition=batch AllocNode:Sid=login:1
   ReqNodeList=(null) ExcNodeList=(null)
   NumNodes=2-2 NumCPUs=4 NumTasks=4 CPUs/Task=1
   TRES=cpu=4,mem=1G,node=2,billing=4
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   WorkDir=/home/ada/run 1
"""
ASSOC_MGR = "QOS=short(3) GrpTRES=node=3(2) Account Limits=No Accounts User Limits=No Users\n"


@pytest.fixture
def slurm(monkeypatch, tmp_path):
    """Stand-ins of Slurm's commands; give how to write one, and what was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    calls = tmp_path / "calls"
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(why, "own_history_is_meant", lambda _: True)
    monkeypatch.setattr(client, "waits", unreachable)
    monkeypatch.setattr(slurm_questions, "PATIENCE_S", 1.0)

    def write(name, *cases, default="exit 0"):
        """``cases``: words that the arguments hold, and what the command prints or does then."""
        lines = ["#!/bin/sh", f'echo "{name} $*" >> {calls}', 'case "$*" in']
        for number, (words, text) in enumerate(cases):
            printed = folder / f"{name}.{number}"
            printed.write_text(text)
            act = text[1:] if text.startswith("!") else f"cat {printed}"
            lines.append(f'*"{words}"*) {act} ;;')
        lines += [f"*) {default} ;;", "esac"]
        (folder / name).write_text("\n".join(lines) + "\n")
        (folder / name).chmod(0o755)

    write.calls = lambda: calls.read_text() if calls.exists() else ""
    for name in ("sinfo", "squeue", "sbatch", "sacctmgr"):
        write(name)
    return write


def unreachable(*_, **__):
    raise Unreachable("nimod at nowhere")


def shown(slurm, reason, *more):
    slurm("scontrol", *more, ("show job", SHOWN.format(reason=reason)), ("show config", CONFIG))


def test_why_when_and_that_the_queue_is_not_seen(slurm, capsys):
    shown(slurm, "Priority")
    slurm("sinfo", default="echo 'sinfo: error: Access denied' >&2; exit 1")
    assert main(["why", "17"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("Job 17 (my job) waits: jobs of higher priority go first. Slurm plans ")
    assert "Not found out: the queue (sinfo: sinfo: error: Access denied)." in out


def test_the_estimate_goes_before_slurm_s_plan(slurm, monkeypatch, capsys):
    shown(slurm, "Priority")
    row = WaitRow(job_id=17, start_s=NOW + 600, low_s=NOW + 60, high_s=NOW + 900)
    monkeypatch.setattr(client, "waits", lambda *_, **__: Waits(rows=[row]))
    assert main(["why", "17", "--json"]) == 0
    (said,) = json.loads(capsys.readouterr().out)["waiting"]
    assert (said["start_s"], said["low_s"], said["high_s"]) == (NOW + 600, NOW + 60, NOW + 900)
    assert (said["slurm_reason"], said["ends"]) == ("Priority", "turn")
    assert main(["why", "17"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "It starts about " in out
    assert "(nine in ten of such jobs between " in out
    assert "; Slurm plans " in out


def test_nimod_s_start_is_not_that_of_a_job_that_names_its_nodes(slurm, monkeypatch, capsys):
    row = WaitRow(job_id=17, start_s=NOW + 600, low_s=NOW + 60, high_s=NOW + 900)
    monkeypatch.setattr(client, "waits", lambda *_, **__: Waits(rows=[row]))
    own = StartRange(NOW + 5000.0, NOW + 4000.0, NOW + 6000.0)
    monkeypatch.setattr(waiting_jobs, "edits", lambda *_: (own, []))

    def said(text):
        slurm("scontrol", ("show job", text), ("show config", CONFIG))
        assert main(["why", "17", "--json"]) == 0
        return json.loads(capsys.readouterr().out)["waiting"][0]["start_s"]

    text = SHOWN.format(reason="Priority")
    assert said(text) == NOW + 600
    assert said(text.replace("ReqNodeList=(null)", "ReqNodeList=n7")) == NOW + 5000
    monkeypatch.setattr(client, "waits", unreachable)
    assert said(text) == NOW + 5000


def test_limits_that_slurm_refuses_to_show(slurm, capsys):
    refused = "!echo 'scontrol: error: Access/permission denied' >&2; exit 1"
    shown(slurm, "QOSGrpNodeLimit", ("assoc_mgr", refused))
    assert main(["why", "17"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "a limit of QOS short holds it (GrpTRES); scontrol: " in out
    assert "Access/permission denied" in out
    shown(slurm, "QOSGrpNodeLimit", ("assoc_mgr", ASSOC_MGR))
    assert main(["why", "17"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "it asks for 2 nodes; QOS short gives 3 nodes at once, and 2 are in use" in out
    assert "scontrol update JobId=17 NumNodes=1-1" in out


def test_slurm_that_hangs_is_said_and_not_asked_again(slurm, capsys):
    slurm("scontrol", default="exec sleep 60")
    slurm("sacct", default="exec sleep 60")
    began = time.monotonic()
    assert main(["why", "17"]) == 1
    assert time.monotonic() - began < 20
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "nimo why: scontrol: no answer within 1 s\n")
    assert slurm.calls() == "scontrol show job 17\n"


def test_a_queue_that_hangs_leaves_the_reason(slurm, capsys):
    shown(slurm, "JobHeldUser")
    slurm("squeue", default="exec sleep 60")
    assert main(["why", "17"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Job 17 (my job) does not start by itself: its user holds it." in out
    assert "1. released: its start is not known" in out
    assert " scontrol release 17 " in out
    assert re.search(r"Not found out: the queue \(squeue: no answer within (1|0\.\d) s\)\.", out)


def test_a_page_has_its_user_s_own_jobs_alone(slurm):
    shown(slurm, "JobHeldUser")
    slurm("squeue", ("--user=", "17\n"))
    (one,) = waiting_jobs.of_user("/nowhere", "ada")
    assert (one.job_id, one.sentence, one.may_change) == (17, "its user holds it", True)
    assert one.edits[0].argv == ["scontrol", "release", "17"]
    # What squeue lists by mistake, or by a name that it reads in another way, is not shown.
    assert waiting_jobs.of_user("/nowhere", "bob") == []
    assert "squeue --user=bob -h" in slurm.calls()
    slurm("squeue", default="exec sleep 60")
    assert waiting_jobs.of_user("/nowhere", "ada") == []


def test_own_jobs_where_squeue_hangs_or_has_none(slurm, capsys):
    assert main(["why"]) == 0
    assert capsys.readouterr().out == "none of your jobs is waiting\n"
    slurm("squeue", default="exec sleep 60")
    assert main(["why"]) != 0
    assert "squeue: no answer within 1 s" in capsys.readouterr().err


def test_all_own_jobs_have_the_best_of_their_changes(slurm, monkeypatch, capsys):
    limited = "QOSGrpNodeLimit"
    more = f"{ASSOC_MGR}QOS=big(4) GrpTRES= Account Limits=No Accounts User Limits=No Users\n"
    shown(slurm, limited, ("show assoc_mgr", more))
    slurm("squeue", ("--me", "17\n"))
    slurm("sacctmgr", ("show assoc", "pine|physics||short,big\n"))
    assert main(["why", "--json"]) == 0
    (said,) = json.loads(capsys.readouterr().out)["waiting"]
    assert [one["argv"][3:] for one in said["edits"]] == [["NumNodes=1-1"]]
    assert said["looked"]
    assert main(["why"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "1. on 1 node: its start is not known" in out
    assert "scontrol update JobId=17 NumNodes=1-1" in out
    assert "JOBID" not in out
    monkeypatch.setattr(waiting_jobs, "CHANGES_S", -1.0)
    assert main(["why"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "What would start 1 more job sooner: 'nimo why JOBID' says it." in out


def test_of_changes_that_slurm_refuses_the_next_is_listed(monkeypatch):
    job = PendingJob(job_id=17)
    three = [Edit(what=what, job=job) for what in ("a", "b", "c")]
    refused = {"a"}
    monkeypatch.setattr(
        waiting_jobs, "_checked", lambda edit, **_: None if edit.what in refused else edit
    )
    patience = slurm_questions.Patience()
    few = waiting_jobs.agreed({0: three, 5: three[2:]}, 1, patience)
    assert few == ({0: [three[1]], 5: [three[2]]}, "")
    assert waiting_jobs.agreed({0: three}, 5, patience)[0] == {0: three[1:]}


def test_all_questions_about_jobs_have_one_time_to_be_answered_in(monkeypatch):
    given = []

    def run(argv, *, timeout_s):
        given.append(timeout_s)
        time.sleep(0.2)
        return SHOWN.format(reason="Priority").replace("JobId=17", f"JobId={argv[-1]}")

    monkeypatch.setattr(slurm_questions.commands, "run", run)
    assert len(waiting_jobs.shown_jobs(range(20), slurm_questions.Patience())) == 20
    assert min(given) < max(given) <= slurm_questions.PATIENCE_S


class HangingSlurm:
    """A Slurm that shows a job and its settings, hangs at all else, and moves a clock of its own.

    One that hangs is waited for as long as it is given.
    """

    def __init__(self, shown_after_s):
        self.now_s, self.shown_after_s, self.given = 0.0, shown_after_s, []

    def monotonic(self):
        return self.now_s

    def run(self, argv, *, timeout_s):
        began_s = self.now_s
        self.given.append(timeout_s)
        words = " ".join(argv)
        if "show job" in words:
            self.now_s = began_s + self.shown_after_s
            return SHOWN.format(reason="QOSGrpNodeLimit")
        if "show config" in words:
            return CONFIG
        self.now_s = max(self.now_s, began_s + timeout_s)
        raise SlurmError(f"{argv[0]}: no answer within {timeout_s:g} s")


def test_all_that_hangs_has_one_time_and_is_said(slurm, monkeypatch, capsys):
    hanging = HangingSlurm(shown_after_s=0.6)
    monkeypatch.setattr(slurm_questions.commands, "run", hanging.run)
    monkeypatch.setattr(slurm_questions, "time", hanging)
    assert main(["why", "17"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "a limit of QOS short holds it (GrpTRES); scontrol: no" in out
    assert re.search(r"Not found out: the queue \(\w+: no", out)
    assert re.search(r"Not found out: your accounts and QOS \(sacctmgr: no", out)
    assert hanging.now_s == pytest.approx(1.0)
    assert hanging.given[0] == 1.0
    assert max(hanging.given[1:]) <= 0.4


def test_slurm_that_does_not_check_changes_is_said(slurm, capsys):
    shown(slurm, "QOSGrpNodeLimit", ("assoc_mgr", ASSOC_MGR))
    slurm("sbatch", default="exec sleep 60")
    changed = SHOWN.format(reason="QOSGrpNodeLimit").replace("(1000)", f"({os.getuid()})")
    slurm("scontrol", ("assoc_mgr", ASSOC_MGR), ("show job", changed), ("show config", CONFIG))
    assert main(["why", "17"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "NumNodes=1-1" in out
    assert "Slurm would take it" not in out
    assert "Not found out: whether Slurm takes a change (sbatch --test-only: no answer " in out


def test_nothing_is_asked_once_the_time_is_over(monkeypatch):
    monkeypatch.setattr(slurm_questions, "PATIENCE_S", 0.0)
    patience = slurm_questions.Patience()
    with pytest.raises(SlurmError, match="squeue: not asked after 0 s of waiting for Slurm"):
        patience.ask(("squeue",))


def test_computing_takes_no_time_of_slurm_s():
    patience = slurm_questions.Patience()
    with patience.paused():
        time.sleep(0.3)
    assert patience.left_s > slurm_questions.PATIENCE_S - 0.3


def test_a_job_that_leaves_while_it_is_looked_at(slurm, capsys):
    slurm("squeue", default="echo 17; echo 18")
    gone = "!echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
    shown(slurm, "JobHeldUser", ("show job 18", gone))
    assert main(["why", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [one["job_id"] for one in said["waiting"]] == [17]


@pytest.mark.parametrize(
    ("typed", "status", "words"),
    [
        ("1\n", 0, "Done: scontrol release 17"),
        ("\n", 0, "Nothing was changed."),
        ("", 0, "Nothing was changed."),
        ("7\n", 1, "'7' is none of these changes: nothing was changed"),
        ("x; rm\n", 1, "'x; rm' is none of these changes"),
    ],
)
def test_a_change_is_made_only_where_its_number_is_typed(
    slurm, monkeypatch, tmp_path, capsys, typed, status, words
):
    shown(slurm, "JobHeldUser")
    answer = tmp_path / "typed"
    answer.write_text(typed)
    with answer.open() as text:
        monkeypatch.setattr("sys.stdin", text)
        assert main(["why", "17", "--apply"]) == status
    said = capsys.readouterr()
    assert words in said.out + said.err
    assert ("scontrol release 17" in slurm.calls()) is words.startswith("Done")


def test_slurm_refuses_a_change(slurm, monkeypatch, tmp_path, capsys):
    refused = "!echo 'Access/permission denied for job 17' >&2; exit 1"
    shown(slurm, "JobHeldUser", ("release", refused))
    (tmp_path / "typed").write_text("1\n")
    with (tmp_path / "typed").open() as text:
        monkeypatch.setattr("sys.stdin", text)
        assert main(["why", "17", "--apply"]) != 0
    said = capsys.readouterr()
    assert "Access/permission denied for job 17" in said.err
    assert "Done" not in said.out


@pytest.mark.parametrize("words", [["--apply"], ["17", "--apply", "--json"]])
def test_apply_takes_a_job_and_a_terminal(slurm, capsys, words):
    assert main(["why", *words]) != 0
    assert "--apply takes a job that waits" in capsys.readouterr().err
    assert slurm.calls() == ""


def test_what_users_write_into_names_drives_no_terminal_and_no_shell(slurm, capsys):
    text = SHOWN.format(reason="JobHeldUser").replace("my job", "a\x1b[2J$(touch x)")
    slurm("scontrol", ("show job", text), ("show config", CONFIG))
    assert main(["why", "17"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert subprocess.run(["ls", "x"], check=False, capture_output=True).returncode != 0
