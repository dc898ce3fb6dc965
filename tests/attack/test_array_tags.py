"""A user who changes the comment of an array's tasks after the submission, on a real Slurm."""

import os

import pytest

from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store
from tests.end_to_end.site import site_on
from tests.processes import wait_until

USER = "games"
SCRIPT = "#!/bin/sh\ntrue\n"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@pytest.fixture(scope="module")
def site(slurm_cluster):
    with site_on(slurm_cluster) as site:
        yield site


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_tags_of_all_tasks_are_those_of_the_submission(site, mode):
    """In observe nothing is written to jobs: the array's id tells which tasks belong together."""
    site.run_nimod(mode)
    cluster = site.cluster
    argv = ("sbatch", "--parsable", "--hold", "--array=1-3", f"--comment=nimo:app={mode}")
    array = cluster.run(*argv, stdin=SCRIPT, user=USER).stdout.strip()
    # One task before it starts, the others together.
    for task, app in ((f"{array}_2", "melt"), (array, "cfd")):
        cluster.run("scontrol", "update", f"jobid={task}", f"comment=nimo:app={app}", user=USER)
    cluster.run("scontrol", "release", array)
    cluster.wait(int(array), accounted=True)
    wait_until(lambda: len(comments(site, array)) == 3, what="the accounting of each task")
    said = {row["JobID"]: row["Comment"] for row in comments(site, array)}
    assert f"nimo:app={mode}" not in said.values()
    site.nimod.run("ingest")
    with Store.open(site.nimod.store) as store:
        tagged = dict(store.runs.by_key(KeyLevel.TAG))
    assert sorted(row.array_task_id or 0 for row in tagged[f"{USER}/{mode}"]) == [1, 2, 3]
    assert not {f"{USER}/melt", f"{USER}/cfd"} & set(tagged)


def comments(site, array):
    """What the accounting has for the tasks of an array."""
    return site.cluster.sacct("-X", "-j", array, fields=("JobID", "Comment"))
