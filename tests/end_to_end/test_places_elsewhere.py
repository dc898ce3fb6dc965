"""Another cluster of the same slurmdbd among the places, on two real clusters."""

import json
import signal
import time

import pytest

from sacct_ingest.records import NodeProfile
from sacct_ingest.store import Store
from slurm_plugin.nimod import client
from tests.end_to_end.site import BEGAN, SLEEP_UNTIL, site_on
from tests.processes import LONGEST_WAIT_S, wait_until

#: Nodes of pine do a piece of work in a third of the time.
EVENTS_PER_S = {"oak": 1000.0, "pine": 3000.0}
PROGRAM = f"""\
#!/bin/bash
#SBATCH --job-name=pieces
#SBATCH --time=5
{BEGAN}
srun sh -c '
  {SLEEP_UNTIL}
  [ $SLURM_CLUSTER_NAME = pine ] && pace_ms=600 || pace_ms=1800
  sleep_until $((1000 + (12 - SLURM_PROCID + SLURM_NTASKS - 1) / SLURM_NTASKS * pace_ms))'
"""
pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture(scope="module")
def two_clusters(slurm_cluster):
    """A site on the cluster oak, with pine beside it, and a history of a program on both."""
    wide = ("PartitionName=wide Nodes=n[1-4] MaxTime=60 State=UP",)
    with (
        site_on(slurm_cluster, name="oak", nodes=4) as site,
        slurm_cluster(name="pine", nodes=4, conf=wide, beside=site.cluster) as pine,
    ):
        site.script = site.write_script("pieces.sh", PROGRAM)
        runs = [("-N", str(n)) for n in (1, 1, 2, 2, 4, 4)]
        for cluster in (site.cluster, pine):
            ids = [cluster.sbatch(*argv, site.script) for argv in runs]
            cluster.wait(*ids, accounted=True)
        with Store.open(site.nimod.store, create=True) as store:
            store.profiles.add([
                NodeProfile(
                    cluster=name, node=f"n{i}", node_type=name, at_s=time.time(),
                    cpu_events_per_s=events,
                )
                for name, events in EVENTS_PER_S.items() for i in range(1, 5)
            ])  # fmt: skip
        site.nimod.run("ingest", "-M", "pine")
        site.learn()
        site.run_nimod("enforce", cluster="oak")
        client.status(site.nimod.socket, reload=True, timeout_s=LONGEST_WAIT_S)
        yield site, pine


def advised(site, *argv):
    done = site.advise("--json", *argv, site.script, check=False)
    return json.loads(done.stdout)


@pytest.fixture
def busy(two_clusters):
    """All nodes of oak are taken for ten minutes, as far as anybody knows."""
    site, pine = two_clusters
    script = site.write_script("long.sh", "#!/bin/sh\nsleep 600\n")
    site.submit("-N4", "--exclusive", "-t10", "--comment=nimo:off", script=script)
    site.settled()
    # A busy machine may take longer than an answer waits.
    wait_until(
        lambda: "no answer yet" not in advised(site, "-N2")["place_text"], what="pine to be seen"
    )
    yield site, pine
    site.empty_queue()


def rows(advice):
    return {(one["cluster"], one["partition"]): one for one in advice["partitions"]}


def test_another_cluster_is_named_where_the_job_ends_sooner_there(busy):
    site, pine = busy
    advice = advised(site, "-N2")
    text = advice["place_text"]
    assert text.startswith("With --clusters=pine it would end "), advice
    assert "Its files and programs have to be there." in text
    there, here = rows(advice)["pine", "batch"], rows(advice)["oak", "batch"]
    assert (there["node_type"], there["recommended"], there["own"]) == ("pine", True, False)
    assert there["time_s"] < 0.6 * here["time_s"]
    assert there["end_low_s"] <= there["end_s"] <= there["end_high_s"]
    # The answer itself stays on this cluster.
    assert "--clusters" not in advice["directive"]
    assert here["own"]
    shown = site.advise("-N2", site.script).stdout
    (line,) = [line for line in shown.splitlines() if line.startswith("◆  pine")]
    assert line.split()[1:3] == ["pine", "batch"]

    # The line to paste goes there, and the job ends as was said.
    # Here a cluster's own environment names its slurm.conf.
    env = f"--export=ALL,SLURM_CONF={pine.env['SLURM_CONF']},PATH={pine.env['PATH']}"
    job_id = site.cluster.sbatch("--clusters=pine", "-N2", env, site.script)
    pine.wait(job_id, accounted=True)
    (row,) = pine.sacct("-X", "-M", "pine", "-j", str(job_id), fields=("Cluster", "ElapsedRaw"))
    assert row["Cluster"] == "pine"
    assert there["low_s"] - 2 <= int(row["ElapsedRaw"]) <= there["high_s"] + 2


def test_a_job_that_names_its_partition_is_told_the_other_ones_partition(busy):
    site, _ = busy
    advice = advised(site, "-N2", "-p", "small")
    assert "With --clusters=pine --partition=batch it would end " in advice["place_text"]


@pytest.mark.parametrize("named", ["oak", "oak,pine", "all"])
def test_clusters_that_the_job_names_are_compared(busy, named):
    site, _ = busy
    advice = advised(site, "-N2", "-M", named)
    compared = {one["cluster"] for one in advice["partitions"]}
    assert compared == ({"oak"} if named == "oak" else {"oak", "pine"})
    assert ("pine" in advice["place_text"]) == (named != "oak")
    other = advised(site, "-N2", "-M", f"oak,{named},bone")
    assert other["place_text"].endswith("NIMO here does not know the cluster bone.") == (
        named != "all"
    )


def test_a_job_for_the_other_cluster_alone_is_answered_for_that_one(busy):
    site, _ = busy
    advice = advised(site, "-N2", "-M", "pine", "-p", "wide")
    assert (advice["cluster"], advice["partition"]) == ("pine", "wide")
    assert all(row["wait_s"] < 60.0 for row in advice["rows"])
    refused = site.advise("-N2", "-M", "bone", site.script, check=False)
    assert "sbatch sends this job to the cluster bone, and nimod here knows oak" in refused.stderr


def test_a_job_that_waits_for_one_of_here_stays(busy):
    site, _ = busy
    first = site.submit("-N1")
    advice = advised(site, "-N2", "-d", f"afterok:{first}")
    assert "pine" not in json.dumps(advice["partitions"]) + advice["place_text"]


def test_a_silent_cluster_is_said_once(busy):
    site, pine = busy
    assert "--clusters=pine" in advised(site, "-N2")["place_text"]
    pine.processes.signal("slurmctld", signal.SIGSTOP)
    try:
        silent = "Not compared: the cluster pine (no answer)."
        wait_until(lambda: silent in advised(site, "-N2")["place_text"], what="pine to be silent")
        text = advised(site, "-N2")["place_text"]
        assert text.count("pine") == 1, text
    finally:
        pine.processes.signal("slurmctld", signal.SIGCONT)
