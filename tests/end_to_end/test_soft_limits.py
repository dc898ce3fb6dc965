"""Slurm plans jobs with what their runs take, and ends none before its user's limit."""

import time

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
    alone = ("--comment=nimo:off", "--wrap", "sleep 120")
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
    site.set_number("seconds", 100)
    site.settled()
    waiting = site.submit(*SHORT, "-H", "--array=1-3")
    running = site.submit(*SHORT)
    wait_until(lambda: cluster.job(running)["JobState"] == "RUNNING", what="the job")
    listed = site.nimod.run("limits").stdout
    assert all(f" {job} " in listed for job in (waiting, running))
    text = conf.read_text()
    try:
        conf.write_text(text.replace(f",{OPTION}", ""))
        cluster.reconfigure()
        cluster.run("scontrol", "update", f"jobid={running}", "timelimit=6")  # as backfill cuts it
        wait_until(lambda: cluster.job(waiting)["TimeMin"] == "N/A", what="the plan to go")
        wait_until(lambda: cluster.job(running)["TimeLimit"] == "01:00:00", what="its limit")
        assert site.nimod.run("limits").stdout.count("\n") == 2  # the one that runs
        later = site.submit(*SHORT, "-H")
        assert cluster.job(later)["TimeMin"] == "N/A"
    finally:
        conf.write_text(text)
        cluster.reconfigure()
        site.set_number("seconds", 1)
    wait_until(lambda: planned(site), what="nimod to see the option")
    done = site.nimod.run("limits", "--restore").stdout
    assert done.startswith("timemin=0: ")
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
        assert "has no limits to plan with: NIMO sets none" in said
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
    site.set_number("seconds", 200)
    cluster, short = site.cluster, ("-Jshort", "-N1", "-t20")
    longer = site.submit(*short)
    wait_until(lambda: cluster.job(longer)["JobState"] == "RUNNING", what="the job")
    first = cluster.sbatch("-N2", "-t1", "--comment=nimo:off", "--wrap", "true")
    assert planned(site, *short, plan="00:01:00")
    # It outlasts its minute, and Slurm plans with half of what is left of its twenty.
    wait_until(lambda: not planned(site, *short, plan="00:01:00"), what="the partition to rest")
    assert cluster.job(first)["JobState"] == "PENDING"
    assert cluster.job(longer)["JobState"] == "RUNNING"
    log = (cluster.layout.log / "nimod.out").read_text()
    assert f"batch: job {first} starts later: no limits to plan with" in log
    site.empty_queue()


def planned(site, *argv, plan=PLAN):
    """Tell whether a job is planned with its runs' time now."""
    time.sleep(1.0)
    return site.cluster.job(site.submit(*(argv or SHORT), "-H"))["TimeMin"] == plan
