"""Waits behind jobs whose run time is known are those run times, not their limits."""

from __future__ import annotations

from tests.end_to_end.site import Site
from tests.processes import wait_until

HOUR = ("-N", "1", "--exclusive", "-t", "60")
#: As nimod writes it for a job that takes a quarter of an hour.
NOTE = "NIMO1:{:012x}:n=1,req=1-1,t=900,lo=800,hi=1000,v=reliable,m=enforce,r=fixed_count"


def test_a_cluster_full_of_short_jobs_with_long_limits_is_a_short_wait(enforcing: Site) -> None:
    run, known = enforcing.cluster.run, enforcing.cluster.job
    full = [enforcing.cluster.sbatch(*HOUR, "--wrap=sleep 3600") for _ in range(8)]
    wait_until(
        lambda: all(known(one)["JobState"] == "RUNNING" for one in full), what="a full cluster"
    )
    enforcing.settled()
    assert 3000 < waits_s(enforcing, *HOUR) <= 3600
    for one in full:
        run("scontrol", "update", f"JobId={one}", f"AdminComment={NOTE.format(one)}")
    enforcing.settled()
    assert waits_s(enforcing, *HOUR) <= 1000


def waits_s(site: Site, *argv: str) -> float:
    """Wait that is predicted for the moldable program, which is withdrawn again."""
    job, decision = site.decided(*argv, "--hold")
    site.cluster.run("scancel", job["JobId"])
    assert decision.request_wait_s is not None
    return decision.request_wait_s


def test_a_queued_exclusive_job_keeps_all_its_nodes_for_its_time(enforcing: Site) -> None:
    """One CPU of each node is what it asks for; all of them are what it gets."""
    busy = enforcing.cluster.sbatch("-N8", "--exclusive", "-t", "60", "--wrap=sleep 600")
    wait_until(
        lambda: enforcing.cluster.job(busy)["JobState"] == "RUNNING", what="the nodes to be taken"
    )
    queued = enforcing.cluster.sbatch("-N8", "--exclusive", "-t", "180", "--wrap=sleep 600")
    wait_until(
        lambda: enforcing.cluster.job(queued)["StartTime"] != "Unknown", what="backfill's plan"
    )
    enforcing.settled()
    assert waits_s(enforcing, "-N", "1", "-t", "60") > 3.9 * 3600
