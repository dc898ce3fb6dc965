"""``nimo why`` before the accounting is read: of jobs that were submitted in the same second."""

import json
import subprocess

import pytest

from tests.end_to_end.site import site_on

pytestmark = [pytest.mark.cluster, pytest.mark.releases]
SCRIPT = "#!/bin/sh\n#SBATCH --hold\nsleep 60\n"
#: Options of sbatch, and fewest and most nodes and the limit in minutes that they ask for.
REQUESTS = {
    ("-N2", "-t10"): (2, 2, 10),
    ("-N4", "-t10"): (4, 4, 10),
    ("-N5", "-t20"): (5, 5, 20),
    ("-N8", "-t20"): (8, 8, 20),
    ("-N2-8", "-t10"): (2, 8, 10),
    ("-N2-8", "-t40", "--deadline=now+2hours"): (2, 8, 40),
    ("-N2-8", "-t30"): (2, 8, 30),
}


@pytest.fixture(scope="module")
def observing(slurm_cluster):
    """A site whose nimod only observes: jobs get no note of their decisions."""
    with site_on(slurm_cluster) as site:
        site.run_nimod("observe")
        site.script = site.write_script("work.sh", SCRIPT)
        yield site


def test_each_job_is_told_its_own_request(observing):
    cluster = observing.cluster
    argv = [["sbatch", "--parsable", *options, str(observing.script)] for options in REQUESTS]
    begun = [
        subprocess.Popen(
            words, env=cluster.env, cwd=cluster.layout.work, stdout=subprocess.PIPE, text=True
        )
        for words in argv
    ]
    ids = [int(process.communicate()[0]) for process in begun]
    for job_id, (low, high, minutes) in zip(ids, REQUESTS.values(), strict=True):
        said = json.loads(observing.nimod.run("why", "--json", str(job_id)).stdout)["decision"]
        assert (said["min_nodes"], said["max_nodes"]) == (low, high), cluster.job(job_id)
        assert said["limit_s"] == 60 * minutes
        assert not said["applied"]


def test_jobs_that_nothing_tells_apart_and_one_that_was_changed(observing):
    cluster = observing.cluster
    changed = observing.submit("-N3", "-t10")
    twins = [observing.submit("-N6", "-t10") for _ in range(2)]
    cluster.run("scontrol", "update", f"jobid={changed}", "timelimit=5")
    done = observing.nimod.run("why", str(changed))
    assert "its user holds it" in " ".join(done.stdout.split())
    assert "none asked for what scontrol shows" in " ".join(done.stderr.split())
    # What was decided about the second one, after the first one waited, may be the same.
    for job_id in twins:
        done = observing.nimod.run("why", str(job_id), check=False)
        assert "asked for 6 nodes" in done.stdout or "with the same request" in done.stderr
    # Once each is in the accounting it is told its own.
    cluster.run("scancel", *map(str, [changed, *twins]))
    cluster.wait(changed, *twins, accounted=True)
    observing.nimod.run("ingest")
    for job_id, nodes in zip([changed, *twins], (3, 6, 6), strict=True):
        assert f"asked for {nodes} nodes" in observing.nimod.run("why", str(job_id)).stdout
