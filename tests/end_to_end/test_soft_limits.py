"""Slurm plans jobs with what their runs take, and ends none before its user's limit."""

import re
import signal
import time
from pathlib import Path

import pytest

from benchmarks.soft_limits_torture import start_nimod
from tests.end_to_end.site import site_on
from tests.processes import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.releases, pytest.mark.long]

OPTION = "time_min_as_soft_limit"
SCHEDULER = "SchedulerParameters=bf_interval=2,batch_sched_delay=1"
#: Runs of a moment, for which their user asks for an hour.
SHORT = ("-Jshort", "-N1", "-t60")
PLAN = "00:05:00"
#: Jobs that have to run until a test has cancelled them, however slow the machine is.
ENDLESS_S = 3600
#: Another user than the one whose runs are known, and a folder that may be written by all.
USER, TMP = "games", Path("/tmp")


@pytest.fixture(scope="module")
def site(slurm_cluster):
    with site_on(slurm_cluster, nodes=2, cpus=1, conf=[f"{SCHEDULER},{OPTION}"]) as made:
        made.script = made.write_script("short.sh", "#!/bin/sh\nsleep $(cat seconds)\n")
        made.set_number("seconds", 1)
        made.run_and_learn([(SHORT, made.script)], repeats=6)
        made.run_nimod("enforce", time_limit={"soft": "on"})
        yield made


@pytest.fixture
def plans(site):
    """Whether this release plans so; before it the option is a word without a meaning."""
    return site.cluster.settings.version >= (23, 11)


def test_the_limit_stays_and_a_gap_is_used(site, plans):
    site.settled()
    alone = ("--comment=nimo:off", "--wrap", f"sleep {ENDLESS_S}")
    cluster = site.cluster
    ahead = cluster.sbatch("-N1", "-t10", *alone)
    wait_until(lambda: cluster.job(ahead)["JobState"] == "RUNNING", what="the first job")
    both = cluster.sbatch("-N2", "-t30", *alone)
    # Its hour would delay the job of two nodes; what its runs take does not.
    short, decision = site.decided(*SHORT)
    job_id = int(short["JobId"])
    assert (short["TimeLimit"], decision.limit_s) == ("01:00:00", 3600)
    if plans:
        assert (short["TimeMin"], decision.soft_s) == (PLAN, 300)
        cluster.wait(job_id)
        assert cluster.job(job_id)["TimeLimit"] == "01:00:00"
        said = site.nimod.run("why", str(job_id)).stdout
        assert "Slurm plans with 5 min; the job may run its 1 h." in said
    else:
        assert (short["TimeMin"], decision.soft_s) == ("N/A", None)
        assert cluster.job(job_id)["JobState"] == "PENDING"
    assert cluster.job(both)["JobState"] == "PENDING"
    site.empty_queue()


def test_without_the_option_jobs_get_their_users_limit_back(site, plans):
    if not plans:
        pytest.skip("this release has no such option")
    cluster, conf = site.cluster, site.cluster.layout.slurm_conf
    site.set_number("seconds", ENDLESS_S)
    site.settled()
    waiting = site.submit(*SHORT, "-H", "--array=1-3")
    # Its user wants this task to have a least limit, and so it stays.
    cluster.run("scontrol", "update", f"jobid={waiting}_3", "timemin=7")
    running = site.submit(*SHORT)
    wait_until(lambda: cluster.job(running)["JobState"] == "RUNNING", what="the job")
    listed = site.nimod.run("limits").stdout
    jobs = (f"{waiting}_1", f"{waiting}_3", str(running))
    assert set(jobs) <= set(listed.split()), listed
    text = conf.read_text()
    try:
        conf.write_text(text.replace(f",{OPTION}", ""))
        cluster.reconfigure()
        wait_until(lambda: least(site, f"{waiting}_1") == "N/A", what="the plan to go")
        assert least(site, f"{waiting}_3") == "00:07:00"
        cluster.run("scontrol", "update", f"jobid={running}", "timelimit=40")
        watch(site)
        assert cluster.job(running)["TimeLimit"] == "00:40:00"
        later = site.submit(*SHORT, "-H")
        assert cluster.job(later)["TimeMin"] == "N/A"
    finally:
        conf.write_text(text)
        cluster.reconfigure()
        site.set_number("seconds", 1)
    wait_until(lambda: planned(site), what="nimod to see the option")
    done = site.nimod.run("limits", "--restore").stdout
    assert done.startswith("timemin=0: ")
    assert f"job {running} runs with 40 min of the 60 min" in done
    site.empty_queue()


def test_a_job_that_backfill_has_cut_has_its_users_limit_again(site, plans):
    if not plans:
        pytest.skip("this release has no such option")
    cluster, conf = site.cluster, site.cluster.layout.slurm_conf
    alone = ("--comment=nimo:off", "--wrap", f"sleep {ENDLESS_S}")
    site.set_number("seconds", ENDLESS_S)
    site.settled()
    ahead = cluster.sbatch("-N1", "-t8", *alone)
    wait_until(lambda: cluster.job(ahead)["JobState"] == "RUNNING", what="the first job")
    cluster.sbatch("-N2", "-t30", *alone)
    job = site.submit(*SHORT, "-H")  # behind both: backfill alone starts it
    assert cluster.job(job)["TimeMin"] == PLAN
    watch(site)
    text = conf.read_text()
    cluster.processes.signal("nimod", signal.SIGSTOP)
    try:
        conf.write_text(text.replace(f",{OPTION}", ""))
        cluster.reconfigure()
        cluster.run("scontrol", "release", str(job))
        wait_until(lambda: cluster.job(job)["JobState"] == "RUNNING", what="backfill to start it")
        assert cluster.job(job)["TimeLimit"] < "00:09:00"
        cluster.processes.signal("nimod", signal.SIGCONT)
        wait_until(lambda: cluster.job(job)["TimeLimit"] == "01:00:00", what="its limit")
        cluster.run("scontrol", "update", f"jobid={job}", "timelimit=40")  # as users may
        watch(site)
        assert cluster.job(job)["TimeLimit"] == "00:40:00"
    finally:
        cluster.processes.signal("nimod", signal.SIGCONT)
        conf.write_text(text)
        cluster.reconfigure()
        site.set_number("seconds", 1)
        site.empty_queue()
    wait_until(lambda: planned(site), what="nimod to see the option")
    site.empty_queue()


def test_what_a_user_shortened_stays_short(site, plans):
    if not plans:
        pytest.skip("this release has no such option")
    cluster = site.cluster
    site.set_number("seconds", ENDLESS_S)
    site.settled()
    changes = (("timelimit=20",), ("timemin=0", "timelimit=20"))
    jobs = [site.submit(*SHORT, "-H") for _ in changes]
    watch(site)
    for job, words in zip(jobs, changes, strict=True):
        assert cluster.job(job)["TimeMin"] == PLAN
        for word in words:
            cluster.run("scontrol", "update", f"jobid={job}", word)
        cluster.run("scontrol", "release", str(job))
    for job in jobs:
        wait_until(lambda job=job: cluster.job(job)["JobState"] == "RUNNING", what="the job")
    watch(site)
    assert [cluster.job(job)["TimeLimit"] for job in jobs] == ["00:20:00"] * 2
    site.set_number("seconds", 1)
    site.empty_queue()


def test_no_plan_reaches_across_a_reservation(site, plans):
    cluster = site.cluster
    site.settled()
    before = site.submit(*SHORT, "-H")
    assert least(site, before) == (PLAN if plans else "N/A")
    words = ("reservationname=maint", "duration=60", "nodes=ALL", "flags=maint", "user=root")
    cluster.run("scontrol", "create", "reservation", "starttime=now+40minutes", *words)
    try:
        wait_until(lambda: least(site, before) == "N/A", what="the plan to go")
        site.settled()
        short, decision = site.decided(*SHORT)
        assert (short["TimeMin"], decision.soft_s) == ("N/A", None)
        cluster.run("scontrol", "release", str(before))
        watch(site)
        assert {cluster.job(int(job))["JobState"] for job in (before, short["JobId"])} == {
            "PENDING"
        }
        brief, decision = site.decided("-Jshort", "-N1", "-t30")
        assert decision.soft_s == (300 if plans else None), brief
    finally:
        cluster.run("scontrol", "delete", "reservationname=maint")
    site.empty_queue()


def test_the_kill_switch_takes_plans_back(site, plans):
    if not plans:
        pytest.skip("this release has no such option")
    site.settled()
    waiting = site.submit(*SHORT, "-H")
    assert site.cluster.job(waiting)["TimeMin"] == PLAN
    try:
        site.nimod.kill_switch.touch()
        wait_until(lambda: site.cluster.job(waiting)["TimeMin"] == "N/A", what="the plan to go")
        assert site.cluster.job(waiting)["TimeLimit"] == "01:00:00"
    finally:
        site.nimod.kill_switch.unlink()
    site.empty_queue()


def test_doctor_shows_with_two_jobs_what_this_release_does(site, plans):
    site.settled()
    doctor = ("nimo", "doctor", "--limits")
    said = " ".join(site.cluster.run(*doctor, check=False, timeout_s=900).stdout.split())
    if not plans:
        assert "has no limits to plan with: time_limit.soft does nothing" in said
        return
    since = (25, 5)  # of jobs that run the plan counts, from 25.05.4 on
    end = "--time-min" if site.cluster.settings.version >= since else "--time, not its --time-min"
    assert f"a running job is planned to end by its {end}" in said
    assert "a job that outlasts its --time-min runs on" in said
    assert not site.cluster.run("squeue", "-h").stdout


def test_a_partition_rests_where_the_first_of_its_queue_is_put_off(site):
    if site.cluster.settings.version < (25, 5):
        pytest.skip("this release plans running jobs by their limits: the first is not put off")
    site.nimod.stop()
    start_nimod(site, rest_s=86_400.0)  # with plans of a minute
    wait_until(site.watching, what="nimod to see the cluster")
    site.set_number("seconds", ENDLESS_S)
    cluster, short = site.cluster, ("-Jshort", "-N1", "-t20")
    longer = site.submit(*short)
    wait_until(lambda: cluster.job(longer)["JobState"] == "RUNNING", what="the job")
    text = "#!/bin/sh\ntrue\n"
    first = cluster.sbatch("-N2", "-t1", "--comment=nimo:off", script=text, user=USER, cwd=TMP)
    assert planned(site, *short, plan="00:01:00")
    # It outlasts its minute, and Slurm plans with half of what is left of its twenty.
    wait_until(lambda: not planned(site, *short, plan="00:01:00"), what="the partition to rest")
    assert cluster.job(first)["JobState"] == "PENDING"
    assert cluster.job(longer)["JobState"] == "RUNNING"
    log = (cluster.layout.log / "nimod.out").read_text()
    assert f"batch: job {first} starts later: no limits to plan with" in log
    site.empty_queue()


def least(site, job):
    """Least limit of a job, or of a task."""
    shown = site.cluster.run("scontrol", "show", "job", str(job)).stdout
    return re.search(r"TimeMin=(\S+)", shown)[1]


def watch(site, looks=4):
    """Let nimod look at the cluster some times."""
    for _ in range(looks):
        site.settled()


def planned(site, *argv, plan=PLAN):
    """Tell whether a job is planned with its runs' time now."""
    time.sleep(1.0)
    return site.cluster.job(site.submit(*(argv or SHORT), "-H"))["TimeMin"] == plan
