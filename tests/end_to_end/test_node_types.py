"""Two types of nodes on a real Slurm: seen on the slow one, told for the fast one, run there."""

import json
import time
from operator import itemgetter

import pytest

from sacct_ingest.records import NodeProfile
from sacct_ingest.store import Store
from slurm_plugin.nimod import client
from tests.end_to_end.site import BEGAN, SLEEP_UNTIL, site_on
from tests.processes import LONGEST_WAIT_S, wait_until

#: What a benchmark says of the nodes: those of the partition ``fast`` do a piece of work in a sixth
#: of the time.  All of them are this machine, so the benchmark itself cannot be run here.
EVENTS_PER_S = {"slow": 1000.0, "fast": 3000.0}
NODES = {"slow": range(1, 5), "fast": range(5, 9)}
PARTITIONS = (
    "PartitionName=slow Nodes=n[1-4] MaxTime=60 State=UP",
    "PartitionName=fast Nodes=n[5-8] MaxTime=60 State=UP",
)
#: Twelve pieces of work, dealt out to the tasks, one a node; to read them takes a while, however
#: many read: two fast nodes, but not four slow ones, wait for that.
PROGRAM = f"""\
#!/bin/bash
#SBATCH --job-name=pieces
#SBATCH --time=5
{BEGAN}
srun sh -c '
  {SLEEP_UNTIL}
  case $SLURMD_NODENAME in n[1-4]) pace_ms=2400 ;; *) pace_ms=800 ;; esac
  work_ms=$(((12 - SLURM_PROCID + SLURM_NTASKS - 1) / SLURM_NTASKS * pace_ms))
  sleep_until $((work_ms > 4800 ? work_ms : 4800))'
"""


@pytest.fixture(scope="module")
def two_types(slurm_cluster):
    """A site with a slow and a fast partition, and a history of the program on the slow one."""
    with site_on(slurm_cluster, hooks=False, conf=PARTITIONS) as site:
        site.script = site.write_script("pieces.sh", PROGRAM)
        yield site


def run_on(site, **counts):
    """Run the program in each partition on each of these node counts."""
    jobs = [site.submit("-p", name, "-N", str(n)) for name, those in counts.items() for n in those]
    site.cluster.wait(*jobs, accounted=True)


def advise(site, *argv):
    return json.loads(
        site.advise("--json", *argv, "-N", "1-4", str(site.script), check=False).stdout
    )


def row(reported, nodes):
    return next(one for one in reported["rows"] if one["nodes"] == nodes)


def test_what_is_reported_for_the_other_type_is_what_then_runs(two_types):
    site = two_types
    # Node time counts: these jobs take one CPU of each node, which is a part of its price.
    site.run_nimod("observe", cluster="nimo", policy={"price": 16.0})
    run_on(site, slow=(1, 1, 2, 4), fast=(1, 2, 4))
    profiles = [
        NodeProfile(
            cluster="nimo", node=f"n{i}", node_type=kind, at_s=time.time(),
            cpu_events_per_s=EVENTS_PER_S[kind],
        )
        for kind, numbers in NODES.items() for i in numbers
    ]  # fmt: skip
    with Store.open(site.nimod.store) as store:
        store.profiles.add(profiles)
    site.learn()
    client.status(site.nimod.socket, reload=True, timeout_s=LONGEST_WAIT_S)
    wait_until(lambda: advise(site)["partitions"], what="advice by node types")

    reported = advise(site)
    by_partition = {one["partition"]: one for one in reported["partitions"]}
    # "batch" has nodes of both types: what a job would get there is not known.
    assert {name: one["node_type"] for name, one in by_partition.items()} == {
        "slow": "slow", "fast": "fast", "small": "slow",
    }  # fmt: skip
    assert by_partition["fast"]["time_s"] < by_partition["slow"]["time_s"]
    # More than two fast nodes wait for the reading, four slow ones do not; of so few runs the prior
    # over shapes has its say, too.
    assert by_partition["fast"]["nodes"] <= by_partition["slow"]["nodes"] <= 4
    # What is to be pasted names the partition where the job ends first, and the count there.
    assert reported["directive"] == (
        f"#SBATCH --partition=fast\n#SBATCH --nodes={by_partition['fast']['nodes']}"
    )
    # The same without nimod, where nobody knows what is free: by what the runs were on.
    alone = advise(site, "--store", site.nimod.store)
    reported_alone = {one["partition"]: one for one in alone["partitions"]}
    assert {name: one["node_type"] for name, one in reported_alone.items()} == {
        "slow": "slow", "fast": "fast",
    }  # fmt: skip
    # Fewer fast nodes may cost less, though they take longer than more slow ones.
    assert reported_alone["fast"]["nodes"] <= reported_alone["slow"]["nodes"]
    first = min(reported_alone.values(), key=itemgetter("time_s"))
    assert alone["directive"] == (
        f"#SBATCH --partition={first['partition']}\n#SBATCH --nodes={first['nodes']}"
    )
    fast = advise(site, "-p", "fast")
    assert fast["runs"] == 3
    assert advise(site, "-p", "slow")["runs"] == 4

    run_on(site, fast=[3])
    site.nimod.run("ingest")
    with Store.open(site.nimod.store) as store:
        (real,) = [r for r in store.runs.started(partition="fast") if r.nodes == 3]
    predicted = row(fast, 3)
    # The accounting counts whole seconds, and a busy machine starts steps late.
    assert predicted["low_s"] - 5 <= real.elapsed_s <= predicted["high_s"] + 15
    assert predicted["time_s"] < row(advise(site, "-p", "slow"), 3)["time_s"]
