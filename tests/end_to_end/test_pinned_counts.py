"""A job that does not start as planned on its one count gets its own range back."""

import re
import time

import pytest

from sacct_ingest.store import Store
from sacct_ingest.text.admin_comment import parse
from tests.end_to_end.site import site_on
from tests.processes import wait_until
from tests.slurm_plugin.test_poisoning import runs_of

pytestmark = [pytest.mark.cluster, pytest.mark.releases]

RANGE = ("--comment=nimo:app=cfd", "-N1-4", "-t50")
#: Others' jobs, which nothing is learned from.
OTHER = ("--comment=nimo:off", "--exclusive", "-t60")
SCRIPT = "#!/bin/sh\n#SBATCH -J solve -o /dev/null\nsleep 300\n"


@pytest.fixture(scope="module")
def site(slurm_cluster):
    """Four nodes, and a user whose application is known; nimod runs as root."""
    with site_on(slurm_cluster, nodes=4) as made:
        made.script = made.write_script("solve.sh", SCRIPT)
        with Store.open(made.nimod.store) as store:
            store.runs.add(runs_of("root", 1800.0))
        for _ in range(3):  # what a refit learns of predictions counts from the next one on
            made.nimod.run("fit")
        made.run_nimod("enforce")
        wait_until(lambda: made.status().identities > 0, what="nimod to have tables")
        yield made
        made.nimod.kill_switch.unlink(missing_ok=True)


def pinned(site):
    """Submit a job behind others that have all nodes; it waits with one count."""
    site.settled()
    job_id = site.submit(*RANGE)
    shown = site.cluster.job(job_id)
    assert re.fullmatch(r"(\d)-\1", shown["NumNodes"]), shown["NumNodes"]
    assert parse(shown["AdminComment"]).planned_s
    return job_id, shown


def has_range(site, job_id):
    return site.cluster.job(job_id)["NumNodes"] == "1-4"


def planned_for(site, job_id, moment_s):
    """Let a job's note say that it was planned to start at another moment."""
    comment = re.sub(r",p=\d+", f",p={moment_s:.0f}", site.cluster.job(job_id)["AdminComment"])
    site.cluster.run("scontrol", "update", f"jobid={job_id}", f"admincomment={comment}")


def test_a_job_whose_planned_start_has_passed_starts_on_what_is_free(site):
    busy = [site.submit(*OTHER, "-N", nodes) for nodes in ("3", "1")]
    wait_until(lambda: site.cluster.job(busy[1])["JobState"] == "RUNNING", what="the others")
    job_id, shown = pinned(site)
    count = int(shown["NumNodes"].split("-")[0])
    unchanged = site.submit(*OTHER[:1], "-N1-4", "-t50", "-H")
    planned_for(site, job_id, time.time() - 90)
    wait_until(lambda: has_range(site, job_id), what="the range to come back")
    wait_until(
        lambda: site.cluster.job(job_id)["NumCPUs"] == site.cluster.job(unchanged)["NumCPUs"],
        what="its CPUs to come back",
    )

    def noted():
        return parse(site.cluster.job(job_id)["AdminComment"]).opened_s

    wait_until(noted, what="its note")
    said = site.nimod.run("why", str(job_id)).stdout
    assert "got its own range back" in said, said
    site.cluster.run("scancel", str(busy[1]), str(unchanged))
    wait_until(lambda: site.cluster.job(job_id)["JobState"] == "RUNNING", what="it to start")
    assert site.cluster.job(job_id)["NumNodes"] == "1"
    assert count >= 1
    site.empty_queue()


def test_who_changed_a_job_is_left_alone_and_the_kill_switch_gives_the_others_their_ranges(site):
    busy = site.submit(*OTHER, "-N4")
    wait_until(lambda: site.cluster.job(busy)["JobState"] == "RUNNING", what="the other")
    (own, _), (left, _) = pinned(site), pinned(site)
    site.cluster.run("scontrol", "update", f"jobid={own}", "numnodes=2-3")
    site.settled()
    planned_for(site, own, time.time() - 90)
    site.settled()
    try:
        site.nimod.kill_switch.touch()
        wait_until(lambda: has_range(site, left), what="the range to come back")
    finally:
        site.nimod.kill_switch.unlink()
    log = (site.cluster.layout.log / "nimod.out").read_text()
    assert site.cluster.job(own)["NumNodes"] == "2-3", log
    site.empty_queue()
