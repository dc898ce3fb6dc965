"""What releases of Slurm do with soft limits, as doctor shows it, and where nimod then sets none.

Minutes of waiting: a file of its own, so that test_soft_limits waits meanwhile.
"""

import pytest

from benchmarks.soft_limits_torture import start_nimod
from tests.end_to_end import test_soft_limits
from tests.end_to_end.test_soft_limits import planned
from tests.processes import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.releases, pytest.mark.long]

site, plans = test_soft_limits.site, test_soft_limits.plans


def test_doctor_shows_with_two_jobs_what_this_release_does(site, plans):
    site.settled()
    doctor = ("nimo", "doctor", "--limits")
    said = " ".join(site.cluster.run(*doctor, check=False, timeout_s=900).stdout.split())
    if not plans:
        assert "has no limits to plan with: NIMO sets none" in said
        return
    # Of jobs that run the plan counts since 25.05.4.
    end = "" if site.cluster.settings.version >= (25, 5) else ", not its --time-min"
    assert (
        f"a running job is planned to end by its {'--time' if end else '--time-min'}{end}" in said
    )
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
