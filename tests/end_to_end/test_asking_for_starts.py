"""What users ask about starts: remedies for a deadline, confidence, and whose jobs they see."""

import json
import os
import re
import time
from contextlib import contextmanager

import pytest

from sacct_ingest.store import RecordRow, Store
from sacct_ingest.store.fits import QUEUE, WAITS
from slurm_plugin.config.setting_types import Source
from slurm_plugin.config.settings import Snapshot
from slurm_plugin.nimod import client
from slurm_plugin.protocol.advice_messages import ESTIMATE_COMMENT
from slurm_plugin.slurm.poller import ClusterPoller
from tests.cluster.host import Account
from tests.end_to_end.test_waits import LONG
from tests.processes import LONGEST_WAIT_S, wait_until

RUN_S = 3_000


@pytest.fixture
def enforcing(enforcing):
    """The site without a record of waits: no chance depends on the queues of earlier tests."""
    enforcing.nimod.stop()
    with Store.open(enforcing.nimod.store) as store:
        for level in (WAITS, QUEUE):
            for cluster in store.records.of_level(level):
                store.records.put(RecordRow(level=level, key=cluster, payload=""))
    enforcing.run_nimod("enforce")
    return enforcing


@contextmanager
def busy(site, *argv):
    """Run a job on whole nodes that is predicted to take fifty minutes."""
    job = site.cluster.sbatch("--exclusive", "-t", "60", "-J", "busy", *argv, "--wrap=sleep 3600")
    wait_until(lambda: site.cluster.job(job)["JobState"] == "RUNNING", what="busy nodes")
    note = LONG.format(job, RUN_S, RUN_S - 9, RUN_S + 9)
    nodes = site.cluster.job(job)["NumNodes"]
    note = note.replace("n=8", f"n={nodes}")
    site.cluster.run("scontrol", "update", f"JobId={job}", f"AdminComment={note}")
    site.settled()
    yield job
    site.empty_queue()


def remedies(message):
    """Options of each proposal in a message."""
    (text,) = re.findall(r"ould make it: (.*)", " ".join(message.split()))
    proposals = re.findall(r"((?:--[a-z]+=\S+ ?)+)\(>?\d+ %\)", text)
    return [one.split() for one in proposals]


def test_fewer_nodes_or_a_later_deadline_would_make_it(enforcing):
    asked = ("--exclusive", "-t", "1")
    with busy(enforcing, "-N5"):
        waiting, decision = enforcing.decided("-N", "6", *asked, "--deadline=now+10minutes")
        assert decision.reason == "deadline_unsure", decision
        proposed = remedies(decision.message)
        fewer = next(one for one in proposed if one[0].startswith("--nodes="))
        assert int(fewer[0].partition("=")[2]) <= 3
        (later,) = (one for one in proposed if one[0].startswith("--deadline="))
        enforcing.cluster.run("scancel", waiting["JobId"])
        enforcing.settled()
        held, sure = enforcing.decided("-N", "6", *asked, *later, "--hold")
        assert sure.reason != "deadline_unsure"
        enforcing.cluster.run("scancel", held["JobId"])
        enforcing.settled()
        now, made = enforcing.decided(*asked, *fewer, "--deadline=now+10minutes")
        assert made.reason != "deadline_unsure"
        enforcing.cluster.wait(int(now["JobId"]), accounted=True)
    rows = enforcing.cluster.sacct("-X", "-j", now["JobId"], fields=("State",))
    assert rows == [{"State": "COMPLETED"}]


def test_another_partition_would_make_it(enforcing):
    asked = ("-N", "2", "--exclusive", "-t", "1", "--deadline=now+10minutes")
    with busy(enforcing, "-p", "small", "-N2"):
        _, decision = enforcing.decided("-p", "small", *asked)
        assert ["--partition=batch"] in remedies(decision.message), decision.message
        job, made = enforcing.decided("-p", "batch", *asked)
        assert made.reason != "deadline_unsure"
        enforcing.cluster.wait(int(job["JobId"]), accounted=True)


def test_a_shorter_limit_would_make_it(enforcing):
    """The large job ahead keeps long ones from starting before it."""
    ahead = ("-N8", "--exclusive", "-t", "180", "--wrap=sleep 10000")
    asked = ("-N", "2", "--exclusive", "--deadline=now+3hours")
    with busy(enforcing, "-N5"):
        large = enforcing.cluster.sbatch(*ahead)
        note = LONG.format(large, 10_000, 9_990, 10_010)
        enforcing.cluster.run("scontrol", "update", f"JobId={large}", f"AdminComment={note}")
        enforcing.settled()
        waiting, decision = enforcing.decided("-t", "120", *asked)
        enforcing.cluster.run("scancel", waiting["JobId"])
        enforcing.settled()
        shorter = next(one for one in remedies(decision.message) if "--time=" in one[0])
        job, made = enforcing.decided(*shorter, *asked)
        assert made.reason != "deadline_unsure"
        enforcing.cluster.wait(int(job["JobId"]), accounted=True)


def test_the_cheapest_count_makes_the_deadline_with_the_confidence_that_is_asked_for(enforcing):
    script = ("-N", "1-8", "--exclusive", "-t", "1", "--deadline=now+10minutes", enforcing.script)
    with busy(enforcing, "-N2"):
        for percent in (60, 95, 99):
            text = enforcing.advise("--json", f"--confidence={percent}", *script).stdout
            advice = json.loads(text)
            assert advice["sure"] == pytest.approx(percent / 100)
            rows = {row["nodes"]: row for row in advice["rows"]}
            sure = [row for row in rows.values() if row["chance"] >= advice["sure"]]
            if not sure:
                assert advice["cheapest_sure"] is None
                continue
            cheapest = rows[advice["cheapest_sure"]]
            assert cheapest in sure
            assert cheapest["node_hours"] == min(row["node_hours"] for row in sure)
            assert rows[8]["chance"] < 0.5  # six nodes are free
            table = enforcing.advise(f"--confidence={percent}", *script).stdout
            assert "with a chance of" in table.partition("for the fewest node-hours")[0]
    wrong = enforcing.advise("--confidence=101", *script, check=False)
    assert wrong.returncode == 2 and "--confidence" in wrong.stderr


def seen(site, user, *job_ids, of=""):
    """Jobs of which nimod shows a user the start, and those that it does not."""
    account = Account.of(user)
    os.setegid(account.gid)
    os.seteuid(account.uid)
    try:
        asked = [(number, -1) for number in job_ids]
        made = client.waits(site.nimod.socket, asked, user=of, timeout_s=LONGEST_WAIT_S)
    finally:
        os.seteuid(0)
        os.setegid(0)
    return {row.job_id for row in made.rows}, made.missing


@pytest.mark.skipif(os.geteuid() != 0, reason="asks as several users")
def test_users_see_starts_of_others_as_far_as_squeue_shows_them(site):
    site.empty_queue()
    cluster, conf = site.cluster, site.cluster.layout.slurm_conf
    before = conf.read_text()
    late = ("-N8", "--exclusive", "-t", "10", "--wrap=sleep 1")
    with busy(site, "-N8"):
        own = cluster.sbatch(*late, user="nobody")
        array = cluster.sbatch("--array=1-3", *late)
        site.settled()
        assert seen(site, "nobody", own, array) == ({own, array}, [])
        assert seen(site, "nobody", of="root") == ({array}, [])
        conf.write_text(f"{before}\nPrivateData=jobs\n")
        try:
            cluster.reconfigure()
            site.run_nimod("enforce")
            site.settled()
            shown = cluster.run("squeue", "-h", "-t", "PD", "-o", "%A", user="nobody").stdout
            assert {int(word) for word in shown.split()} == {own}
            assert seen(site, "nobody") == ({own}, [])
            assert seen(site, "nobody", own, array) == ({own}, [array])
            assert seen(site, "nobody", of="root") == (set(), [])
            assert seen(site, "root", own, array) == ({own, array}, [])
        finally:
            conf.write_text(before)
            cluster.reconfigure()
            site.run_nimod("enforce")


@pytest.mark.parametrize("source", [Source.TEXT, Source.JSON])
def test_views_have_the_account_of_each_job(enforcing, source):
    job = enforcing.cluster.sbatch("--hold", "-t", "1", "--wrap=true")

    def run(argv, *, timeout_s):
        formats = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
        return enforcing.cluster.run(*argv, env=formats, timeout_s=timeout_s).stdout

    poller = ClusterPoller(time.time, how=Snapshot(source=source), run=run)
    poller.look()
    shown = enforcing.cluster.run("squeue", "-h", "-j", str(job), "-o", "%a").stdout.strip()
    assert shown
    assert [one.account for one in poller.raw.jobs if one.job_id == job] == [shown]


def test_slurm_is_asked_and_nothing_is_decided(enforcing):
    since = time.time()
    reported = enforcing.advise("--json", "--test-only", "-N", "1-8", "-t", "5", enforcing.script)
    rows = json.loads(reported.stdout)["rows"]
    said = {row["nodes"]: row["slurm_wait_s"] for row in rows if row["slurm_wait_s"] is not None}
    assert len(said) >= 2
    assert all(wait_s < 60 for wait_s in said.values())
    # The hook was called for each of them; only the job that comes after them is decided on.
    enforcing.submit("-N", "1-8", "-t", "5")
    assert ESTIMATE_COMMENT not in str(enforcing.decision(since_s=since))


def test_slurms_starts_come_after_the_advice(enforcing):
    reported = enforcing.advise("--test-only", "-N", "1-8", "-t", "5", enforcing.script).stdout
    assert reported.index("#SBATCH --nodes=") < reported.index("Starts as Slurm estimates them")


def test_a_job_that_waits_for_another_starts_when_that_has_ended(enforcing):
    with busy(enforcing, "-N1") as before:
        dependent = ("--json", "-N", "1-4", "-t", "5", f"--dependency=afterany:{before}")
        reported = json.loads(enforcing.advise(*dependent, enforcing.script).stdout)
        waits_s = [row["wait_s"] for row in reported["rows"]]
        assert all(RUN_S - 300 < wait_s < RUN_S + 60 for wait_s in waits_s), waits_s
        assert reported["awaited_text"].startswith(f"It waits for job {before}, until about ")
    enforcing.settled()
    reported = json.loads(enforcing.advise(*dependent, enforcing.script).stdout)
    assert not reported["awaited_text"]
    assert all(row["wait_s"] < RUN_S - 300 for row in reported["rows"])


def test_a_reservation_that_only_the_own_limit_reaches_is_named(enforcing):
    reserved = ("starttime=now+30minutes", "duration=120", "nodes=ALL", "users=root", "flags=maint")
    enforcing.cluster.run("scontrol", "create", "reservation", "reservationname=upgrade", *reserved)
    try:
        enforcing.settled()
        asked = ("--json", "-N", "4", "-t", "60", enforcing.script)
        reported = json.loads(enforcing.advise(*asked).stdout)
    finally:
        enforcing.cluster.run("scontrol", "delete", "reservationname=upgrade")
    later = (
        r"With its time limit of 1 h it would start 2\.[45] h later: after the reservation that "
    )
    assert re.search(later, reported["time_text"]), reported["time_text"]
