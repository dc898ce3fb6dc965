"""Waits behind jobs whose run time is known are those run times, not their limits."""

import json
import logging
import time
from dataclasses import replace
from statistics import median

import pytest

from slurm_plugin.config.setting_types import Source
from slurm_plugin.config.settings import Snapshot
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.slurm.poller import ClusterPoller
from slurm_plugin.wait_forecasts.forecasts import Outlooks, QueueRunTimes
from tests.processes import wait_until

_log = logging.getLogger(__name__)
HOUR = ("-N", "1", "--exclusive", "-t", "60")
#: As nimod writes it for a job that takes a quarter of an hour.
NOTE = "NIMO1:{:012x}:n=1,req=1-1,t=900,lo=800,hi=1000,v=reliable,m=enforce,r=fixed_count"
LONG = "NIMO1:{:012x}:n=8,req=8-8,t={},lo={},hi={},v=reliable,m=enforce,r=fixed_count"
#: Seconds that a short job takes, and its limit: fifty times as much.
SHORT_S, LIMIT_S = 12, 600


def test_a_cluster_full_of_short_jobs_with_long_limits_is_a_short_wait(enforcing):
    run, recorded = enforcing.cluster.run, enforcing.cluster.job
    full = [enforcing.cluster.sbatch(*HOUR, "--wrap=sleep 3600") for _ in range(8)]
    wait_until(
        lambda: all(recorded(one)["JobState"] == "RUNNING" for one in full), what="a full cluster"
    )
    enforcing.settled()
    assert waits_s(enforcing, *HOUR) <= 3600
    for one in full:
        run("scontrol", "update", f"JobId={one}", f"AdminComment={NOTE.format(one)}")
    enforcing.settled()
    assert 500 < waits_s(enforcing, *HOUR) <= 1100


def waits_s(site, *argv):
    """Wait that is predicted for the moldable program, which is withdrawn again."""
    job, decision = site.decided(*argv, "--hold")
    site.cluster.run("scancel", job["JobId"])
    return decision.request_wait_s or decision.request_wait_most_s


def test_a_queued_exclusive_job_keeps_all_its_nodes_for_its_time(enforcing):
    """One CPU of each node is what it asks for; all of them are what it gets."""
    busy = enforcing.cluster.sbatch("-N8", "--exclusive", "-t", "60", "--wrap=sleep 600")
    wait_until(
        lambda: enforcing.cluster.job(busy)["JobState"] == "RUNNING", what="the nodes to be taken"
    )
    queued = enforcing.cluster.sbatch("-N8", "--exclusive", "-t", "180", "--wrap=sleep 600")
    for one, seconds in ((busy, 3_000), (queued, 10_000)):
        note = LONG.format(one, seconds, seconds - 9, seconds + 9)
        enforcing.cluster.run("scontrol", "update", f"JobId={one}", f"AdminComment={note}")
    wait_until(
        lambda: enforcing.cluster.job(queued)["StartTime"] != "Unknown", what="backfill's plan"
    )
    enforcing.settled()
    assert 10_000 < waits_s(enforcing, "-N", "1", "-t", "60") < 16_000


def test_each_task_of_an_array_has_a_start_of_its_own(enforcing):
    """Tasks of a quarter of an hour on all nodes, one after the other."""
    cluster = enforcing.cluster
    busy = cluster.sbatch("-N8", "--exclusive", "-t", "60", "--wrap=sleep 600")
    array = cluster.sbatch("-N8", "--exclusive", "-t", "15", "--array=2,5,7", "--wrap=sleep 900")
    enforcing.settled()

    def rows():
        asked = [f"{array}_{task}" for task in (2, 5, 7)]
        return [
            row
            for row in json.loads(enforcing.nimod.run("wait", "--json", *asked).stdout)["rows"]
            if row["start_s"]
        ]

    wait_until(lambda: len(rows()) == 3, what="the queue to be run forward")
    made = rows()
    assert [row["task"] for row in made] == [2, 5, 7]
    starts_s = [row["start_s"] for row in made]
    assert starts_s == sorted(set(starts_s))
    cluster.run("scancel", str(busy), str(array))


def test_a_chain_of_three_jobs_starts_when_it_is_said(enforcing):
    """Their limits are fifty times as long as they take; Slurm itself plans no start of them."""
    cluster = enforcing.cluster
    script = enforcing.write_script("link.sh", f"#!/bin/sh\nsleep {SHORT_S}\n")
    asks = ("-n", "1", "-t", str(LIMIT_S // 60), "-J", "link")
    cluster.wait(*(cluster.sbatch(*asks, script) for _ in range(8)), accounted=True)
    enforcing.learn()
    enforcing.run_nimod("enforce")

    first = cluster.sbatch(*asks, script)
    second = cluster.sbatch(*asks, "-d", f"afterok:{first}", script)
    third = cluster.sbatch(*asks, "-d", f"afterok:{second}", script)

    def rows():
        asked = json.loads(enforcing.nimod.run("wait", "--json").stdout)["rows"]
        return [row for row in asked if row["job_id"] in (second, third) and row["start_s"]]

    wait_until(lambda: len(rows()) == 2, what="the queue to be run forward")
    said = rows()
    assert [row["condition"] for row in said] == [
        f"if job {first} ends well", f"if job {second} ends well",
    ]  # fmt: skip
    assert [row["slurm_start_s"] for row in said] == [None, None]
    table = enforcing.nimod.run("wait", str(third)).stdout
    assert f"Job {third} starts then if job {second} ends well." in table
    why = " ".join(enforcing.nimod.run("why", str(third)).stdout.split())
    assert "It starts about " in why
    assert f", if job {second} ends well" in why
    cluster.wait(first, second, third, accounted=True)
    began = [started_s(enforcing, job) for job in (second, third)]
    errors = [row["start_s"] - start_s for row, start_s in zip(said, began, strict=True)]
    _log.warning("a chain's starts were said %s s late", errors)
    assert max(map(abs, errors)) < SHORT_S


@pytest.mark.long
def test_starts_of_200_jobs_whose_limits_are_fifty_times_their_run_times(enforcing):
    """A tenth of the error of the limits' profile, and of Slurm's own estimate."""
    cluster = enforcing.cluster
    script = enforcing.write_script("short.sh", f"#!/bin/sh\nsleep {SHORT_S}\n")
    asks = ("-n", "1", "-t", str(LIMIT_S // 60), "-J", "short", script)
    first = [cluster.sbatch(*asks) for _ in range(8)]
    cluster.wait(*first, accounted=True)
    enforcing.learn()
    enforcing.run_nimod("enforce")

    jobs = [cluster.sbatch(*asks) for _ in range(200)]
    slurm_s = slurm_start_s(enforcing, *asks[:-1])
    limits_s = starts_by_limits(enforcing)
    submitted_s = time.time()
    wait_until(lambda: bool(starts(enforcing, submitted_s)), what="the queue to be run forward")
    rows = starts(enforcing, submitted_s)
    cluster.wait(*jobs, timeout_s=600, accounted=True)

    began = {job: started_s(enforcing, job) for job in jobs}
    waited = [job for job in rows if job in limits_s]
    assert len(waited) > 20  # on a busy machine most start while others are submitted
    ours = median(abs(rows[job] - began[job]) for job in waited)
    theirs = median(abs(limits_s[job] - began[job]) for job in waited)
    _log.warning("error of %d starts: %.0f s, by limits %.0f s", len(waited), ours, theirs)
    assert ours <= theirs / 10
    # Slurm was asked about one more job, which starts when the last one does.
    last = max(waited, key=lambda job: began[job])
    slurm = abs(slurm_s - began[last])
    own = abs(rows[last] - began[last])
    _log.warning("error of the last start: %.0f s, Slurm's own %.0f s", own, slurm)
    assert own <= slurm / 10


def slurm_start_s(site, *asks):
    """When one more job starts by ``sbatch --test-only``."""
    words = site.cluster.run("sbatch", "--test-only", *asks, "--wrap=true").stderr.split()
    when = words[words.index("at") + 1]
    return time.mktime(time.strptime(when, "%Y-%m-%dT%H:%M:%S"))


def starts_by_limits(site):
    """When the jobs in the queue start by the limits of those before them."""

    def run(argv, *, timeout_s):
        formats = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
        return site.cluster.run(*argv, env=formats).stdout

    poller = ClusterPoller(time.time, how=Snapshot(source=Source.TEXT), run=run)
    outlooks = Outlooks(QueueRunTimes(PredictionLookup))
    cluster = poller.look()
    jobs = [replace(job, admin_comment="") for job in poller.raw.jobs]  # which nimod reads
    outlooks.add_wait_forecasts(cluster, replace(poller.raw, jobs=jobs), poller.settings)
    rows = outlooks.queued_starts().queued([], user=None, own="root")
    return {row.job_id: row.start_s for row in rows if row.start_s is not None}


def starts(site, since_s):
    """When the jobs in the queue start by nimod, as soon as it has seen them all; else nothing."""
    answer = json.loads(site.nimod.run("wait", "--json").stdout)
    if (answer["made_s"] or 0) < since_s:
        return {}
    return {row["job_id"]: row["start_s"] for row in answer["rows"] if row["start_s"]}


def started_s(site, job):
    """When a job began, by the accounting."""
    asked = ("sacct", "-nXP", "-j", str(job), "-o", "Start")
    return float(site.cluster.run(*asked, env={"SLURM_TIME_FORMAT": "%s"}).stdout.split()[0])
