"""The place that advice names, on a real Slurm with partitions of unlike speed.

Starts a Slurm with NIMO and pairs of partitions, ``slow`` and ``fast``, whose nodes take other
times for the same job by its law.  Laws are learnt by runs on both.  Then the queue is put into
states (both free, or one busy with a job of a known program), and each of 20 jobs is asked about
with ``nimo-advise -p slow,fast`` and run in both at once: pairs share no nodes, so each run shows
what would have come of the job there.  What it would have had as it was asked follows from Slurm's
own rule: it starts in the place that is free first, of two in the first of the list.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sacct_ingest.records import NodeProfile
from sacct_ingest.store import Store
from tests.cluster import SlurmCluster
from tests.cluster.nimod import hooks_for
from tests.conftest import scratch_directory
from tests.end_to_end.site import BEGAN, SLEEP_UNTIL, Site
from tests.processes import wait_until

KINDS = ("slow", "fast")
NODES_EACH, PAIRS = 4, 4
#: Run time on fast nodes over that on slow ones.
RATIOS = (0.35, 0.5, 0.75, 1.4)
BUSY_S = 20
#: Accounting has whole seconds, and Slurm starts jobs a second apart.
SAME_S = 2.0
PROGRAM = f"""\
#!/bin/bash
#SBATCH --time=5
[ -z "$SLURM_ARRAY_JOB_ID" ] || SLURM_JOB_ID=${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID
{BEGAN}
{SLEEP_UNTIL}
case $SLURMD_NODENAME in n[1-{NODES_EACH}]) base=$1 ;; *) base=$2 ;; esac
sleep_until $((base * (20 + 80 / SLURM_JOB_NUM_NODES) / 100))
"""


#: What advice says of the places of a job, by partition.
Places = Mapping[str, Mapping[str, Any]]


class Law(NamedTuple):
    """A job, with its run times on one node of each kind, milliseconds."""

    name: str
    slow_ms: int
    fast_ms: int


def laws(count: int) -> list[Law]:
    """Make laws: 8 to 20 s on a slow node."""
    made = []
    for i in range(count):
        slow_ms = 1000 * (8 + 7 * i % 13)
        made.append(Law(f"law{i}", slow_ms, round(slow_ms * RATIOS[i % len(RATIOS)])))
    return made


def main() -> None:
    """Run it."""
    import _bench  # noqa: PLC0415 - other benchmarks have no such folder in their path

    parser = _bench.options(str(__doc__))
    parser.add_argument("--release", help="of Slurm; in a root directory")
    parser.add_argument("--clusters", action="store_true", help="two clusters of one slurmdbd")
    args = parser.parse_args()
    jobs = laws(4 if args.quick else 20)
    rows = _of_clusters(jobs, args.release) if args.clusters else _of_partitions(jobs, args.release)
    _bench.table(rows, title="Each job: seconds from submission to end")
    _bench.table([summary(rows)], title="Places")
    _bench.write(args.json, jobs=rows, places=summary(rows))


def _of_clusters(jobs: Sequence[Law], release: str | None) -> list[dict[str, Any]]:
    from _places_clusters import measured_on_clusters  # noqa: PLC0415 - see above

    return measured_on_clusters(jobs, release)


def _of_partitions(jobs: Sequence[Law], release: str | None) -> list[dict[str, Any]]:
    with scratch_directory("nimo-places-") as directory:
        cluster = SlurmCluster(
            directory / "cluster",
            nodes=2 * NODES_EACH,
            conf=_conf(),
            lua=hooks_for(directory),
            release=release,
        )
        cluster.up()
        try:
            return measured(Site(directory, cluster), jobs)
        finally:
            cluster.down()


def _conf() -> tuple[str, ...]:
    lines = ["SchedulerParameters=bf_interval=2,batch_sched_delay=1,sched_interval=2"]
    for number, kind in enumerate(KINDS):
        before = NODES_EACH * number
        lines.append(f"PartitionName={kind} Nodes=n[{before + 1}-{before + NODES_EACH}] State=UP")
        lines += [
            f"PartitionName={kind}{i} Nodes=n{before + i} State=UP" for i in range(1, PAIRS + 1)
        ]
    return tuple(lines)


def measured(site: Site, jobs: Sequence[Law]) -> list[dict[str, Any]]:
    """Learn the laws, then ask about each job and run it in both of its places."""
    site.script = site.write_script("law.sh", PROGRAM)
    busy = Law("busy", 1000 * BUSY_S, 1000 * BUSY_S)
    ids = [
        _submit(site, law, kind, f"-N{nodes}", "--array=1-2")
        for law in (*jobs, busy)
        for kind in KINDS
        for nodes in (1, 2, 4)
    ]
    site.cluster.wait(*ids, accounted=True)
    site.run_nimod("observe", cluster="nimo")
    with Store.open(site.nimod.store) as store:
        store.profiles.add(_profiles())
    site.learn()
    site.run_nimod("enforce", cluster="nimo")
    rows = []
    for first in range(0, len(jobs), PAIRS):
        rows += _round(site, jobs[first : first + PAIRS], first, busy)
        print(f"{len(rows)} of {len(jobs)} jobs", file=sys.stderr)
    return rows


def _profiles() -> list[NodeProfile]:
    return [
        NodeProfile(
            cluster="nimo",
            node=f"n{i + NODES_EACH * number}",
            node_type=kind,
            at_s=time.time(),
            cpu_events_per_s=1000.0 * (1 + 2 * number),
        )
        for number, kind in enumerate(KINDS)
        for i in range(1, NODES_EACH + 1)
    ]


def _submit(site: Site, law: Law, partition: str, *options: str) -> int:
    words = ("-p", partition, "-J", law.name, *options)
    return site.cluster.sbatch(*words, site.script, str(law.slow_ms), str(law.fast_ms))


def _round(site: Site, jobs: Sequence[Law], first: int, busy: Law) -> list[dict[str, Any]]:
    """Put the queue into a state for each pair, then ask about its job and run it in both."""
    states = [("free", *KINDS)[(first + i + (first + i) // 3) % 3] for i in range(len(jobs))]
    blockers = [
        _submit(site, busy, f"{state}{i + 1}", "-N1", "--exclusive")
        for i, state in enumerate(states)
        if state in KINDS
    ]

    def all_run() -> bool:
        return all(site.cluster.job(one)["JobState"] == "RUNNING" for one in blockers)

    wait_until(all_run, what="the busy places to be so")
    site.settled()
    asked = []
    for i, law in enumerate(jobs):
        names = [f"{kind}{i + 1}" for kind in KINDS]
        told = _places(site, law, names)
        ids = [_submit(site, law, one, "-N1", "--exclusive", "--comment=nimo:off") for one in names]
        asked.append((law, states[i], told, ids))
    site.cluster.wait(*[one for *_, ids in asked for one in ids], *blockers, accounted=True)
    cheap = [
        _places(site, law, [f"{kind}{i + 1}" for kind in KINDS], "--comment=nimo:objective=cost")
        for i, law in enumerate(jobs)
    ]
    ended = []
    for (law, state, told, ids), cheapest in zip(asked, cheap, strict=True):
        runs = {kind: run_of(site.cluster, one) for kind, one in zip(KINDS, ids, strict=True)}
        ended.append(judged(law, state, told, runs, cheapest))
    site.empty_queue()
    return ended


def _places(site: Site, law: Law, names: Sequence[str], *options: str) -> Places:
    """Ask what comes of a job in both of its places."""
    words = ("--json", "-N1", "--exclusive", "-J", law.name, "-p", ",".join(names), *options)
    told = site.advise(*words, site.script, str(law.slow_ms), str(law.fast_ms), check=False)
    places = json.loads(told.stdout)["partitions"]
    return {one["partition"]: one for one in places if one["partition"] in names}


def judged(
    law: Law, state: str, told: Places, runs: Mapping[str, Mapping[str, int]], cheap: Places
) -> dict[str, Any]:
    """Compare what was said of both places with the runs there."""
    ends = {kind: one["end"] - one["submit"] for kind, one in runs.items()}
    begins = {kind: one["start"] - one["submit"] for kind, one in runs.items()}
    named = _least(told, lambda one: one["wait_s"] + one["time_s"])
    cheapest = _least(cheap, lambda one: one["nodes"] * one["time_s"])
    # Slurm starts a job in the place that is free first, of two in the first of the list.
    free_first = begins["fast"] < begins["slow"] - SAME_S
    asked = "fast" if free_first else "slow"
    ran = {kind: one["end"] - one["start"] for kind, one in runs.items()}
    return {
        "job": law.name,
        "busy": state,
        "slow_s": ends["slow"],
        "fast_s": ends["fast"],
        "asked": asked,
        "named": named,
        "predicted_s": named and _predicted(told, named),
        "first": bool(named) and ends[named] <= min(ends.values()) + SAME_S,
        "later_s": ends[named] - ends[asked] if named else None,
        "cheapest": cheapest,
        "cheap": bool(cheapest) and ran[cheapest] <= min(ran.values()) + SAME_S,
        "asked_first": ends[asked] <= min(ends.values()) + SAME_S,
    }


def _least(told: Places, value: Any) -> str:
    """Kind of the place that is best by what was said; empty: of one nothing is known."""
    if len(told) < len(KINDS) or any(one["time_s"] is None for one in told.values()):
        return ""
    return min(told, key=lambda name: value(told[name])).rstrip("0123456789")


def _predicted(told: Places, kind: str) -> float:
    (one,) = (one for name, one in told.items() if name.startswith(kind))
    return float(one["wait_s"] + one["time_s"])


def run_of(cluster: SlurmCluster, job_id: int) -> dict[str, int]:
    """Moments of a job, by sacct."""
    words = ("-X", "-n", "-P", "-j", str(job_id), "-o", "Submit,Start,End")
    text = cluster.run("env", "SLURM_TIME_FORMAT=%s", "sacct", *words).stdout.strip()
    return dict(zip(("submit", "start", "end"), map(int, text.split("|")), strict=True))


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count in how many the named place held, beside the simple rules."""
    later = [row["later_s"] for row in rows if row["later_s"] is not None]
    return {
        "jobs": len(rows),
        "named ends first": sum(row["first"] for row in rows),
        "as asked ends first": sum(row["asked_first"] for row in rows),
        "always fast ends first": sum(row["fast_s"] <= row["slow_s"] + SAME_S for row in rows),
        "cheapest named": sum(row["cheap"] for row in rows),
        "most later than asked, s": max(later, default=None),
        "sooner than asked in all, s": -sum(later),
    }


if __name__ == "__main__":
    main()
