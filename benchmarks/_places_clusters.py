"""The cluster that advice names, of two real ones under one slurmdbd; see `places`.

All jobs of a round are in one state of the queues, and each is run on both clusters at once: four
nodes each, so that none waits for another one of the round.
"""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from places import BUSY_S, KINDS, NODES_EACH, Law, Places, judged, run_of

from sacct_ingest.records import NodeProfile
from sacct_ingest.store import Store
from tests.cluster import SlurmCluster
from tests.cluster.nimod import hooks_for
from tests.conftest import scratch_directory
from tests.end_to_end.site import BEGAN, SLEEP_UNTIL, Site
from tests.processes import wait_until

#: What is busy in a round; ``fast ends``: the fast cluster, for a few seconds more.
STATES = ("free", "slow", "fast", "fast ends", "free")
#: Of the busy job so much has run when "fast ends" is asked about.
_NEARLY_S = BUSY_S - 5
PROGRAM = f"""\
#!/bin/bash
#SBATCH --time=5
[ -z "$SLURM_ARRAY_JOB_ID" ] || SLURM_JOB_ID=${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID
{BEGAN}
{SLEEP_UNTIL}
[ $SLURM_CLUSTER_NAME = slow ] && base=$1 || base=$2
sleep_until $((base * (20 + 80 / SLURM_JOB_NUM_NODES) / 100))
"""
_CONF = ("SchedulerParameters=bf_interval=2,batch_sched_delay=1,sched_interval=2",)

Clusters = dict[str, SlurmCluster]


def measured_on_clusters(jobs: Sequence[Law], release: str | None) -> list[dict[str, Any]]:
    """Learn the laws on both clusters, then ask about each job and run it on both."""
    with scratch_directory("nimo-places-") as directory:
        common = {"nodes": NODES_EACH, "conf": _CONF, "release": release}
        slow = SlurmCluster(directory / "slow", name="slow", lua=hooks_for(directory), **common)
        slow.up()
        try:
            fast = SlurmCluster(directory / "fast", name="fast", beside=slow, **common)
            fast.up()
            try:
                return _measured(Site(directory, slow), {"slow": slow, "fast": fast}, jobs)
            finally:
                fast.down()
        finally:
            slow.down()


def _measured(site: Site, clusters: Clusters, jobs: Sequence[Law]) -> list[dict[str, Any]]:
    site.script = site.write_script("law.sh", PROGRAM)
    busy = Law("busy", 1000 * BUSY_S, 1000 * BUSY_S)
    for cluster in clusters.values():
        ids = [
            _submit(site, cluster, law, f"-N{nodes}", "--array=1-2")
            for law in (*jobs, busy)
            for nodes in (1, 2, 4)
        ]
        cluster.wait(*ids, accounted=True)
    with Store.open(site.nimod.store, create=True) as store:
        store.profiles.add(_profiles())
    site.nimod.run("ingest", "-M", "fast")
    site.learn()
    site.run_nimod("enforce", cluster="slow")
    rows: list[dict[str, Any]] = []
    for number, first in enumerate(range(0, len(jobs), NODES_EACH)):
        some = jobs[first : first + NODES_EACH]
        rows += _round(site, clusters, some, busy, STATES[number % len(STATES)])
        print(f"{len(rows)} of {len(jobs)} jobs", file=sys.stderr)
    return rows


def _profiles() -> list[NodeProfile]:
    return [
        NodeProfile(
            cluster=kind,
            node=f"n{i}",
            node_type=kind,
            at_s=time.time(),
            cpu_events_per_s=1000.0 * (1 + 2 * number),
        )
        for number, kind in enumerate(KINDS)
        for i in range(1, NODES_EACH + 1)
    ]


def _submit(site: Site, cluster: SlurmCluster, law: Law, *options: str) -> int:
    words = ("-J", law.name, *options, site.script, str(law.slow_ms), str(law.fast_ms))
    return cluster.sbatch(*words)


def _round(
    site: Site, clusters: Clusters, jobs: Sequence[Law], busy: Law, state: str
) -> list[dict[str, Any]]:
    """Put the queues into a state, then ask about each job and run it on both clusters."""
    waited = {kind: list[int]() for kind in KINDS}
    kind = state.partition(" ")[0]
    if kind in clusters:
        blocker = _submit(site, clusters[kind], busy, f"-N{NODES_EACH}", "--exclusive")
        waited[kind].append(blocker)

        def runs() -> bool:
            return clusters[kind].job(blocker)["JobState"] == "RUNNING"

        wait_until(runs, what="the busy cluster to be so")
        time.sleep(_NEARLY_S if state.endswith("ends") else 0.0)
    site.settled()
    asked = []
    for law in jobs:
        told = _places(site, law)
        ids = {
            one: _submit(site, cluster, law, "-N1", "--exclusive", "--comment=nimo:off")
            for one, cluster in clusters.items()
        }
        asked.append((law, told, ids))
        for one, job_id in ids.items():
            waited[one].append(job_id)
    for one, cluster in clusters.items():
        cluster.wait(*waited[one], accounted=True)
    rows = []
    for law, told, ids in asked:
        cheap = _places(site, law, "--comment=nimo:objective=cost")
        ran = {one: run_of(cluster, ids[one]) for one, cluster in clusters.items()}
        rows.append(judged(law, state, told, ran, cheap))
    return rows


def _places(site: Site, law: Law, *options: str) -> Places:
    """Ask what comes of a job on both clusters, each in its default partition."""
    words = ("--json", "-N1", "--exclusive", "-J", law.name, "-M", "slow,fast", *options)
    told = site.advise(*words, site.script, str(law.slow_ms), str(law.fast_ms), check=False)
    places = json.loads(told.stdout)["partitions"]
    return {one["cluster"]: one for one in places if one["cluster"] == "fast" or one["own"]}
