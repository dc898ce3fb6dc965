"""What ``nimo why`` takes where 10,000 jobs wait on a real slurmctld, and whether it knows all.

Starts a Slurm (``--release 26.05``; by default the installed one).  Arrays of unlike sizes and
limits wait there; each of their tasks is changed by itself, so that Slurm keeps a record of each.
Among them are jobs of another user, who asks about one that is early in the queue, one in its
middle, the last, and all at once.  One node is idle, and none of the jobs would have it.  Wall time
is that of the command; processor time is with the commands of Slurm that it runs, without
slurmctld's.  Takes three minutes.
"""

import json
import os
import random
import resource
import subprocess
import sys
import time
from typing import Any

import _bench

from tests.cluster import SlurmCluster
from tests.conftest import scratch_directory
from tests.environments import PROJECT
from tests.processes import wait_until

NODES, IN_ARRAY = 8, 250
#: Whose jobs they are, and who asks.
OTHERS, ASKS = "daemon", "games"
CONF = (
    "MaxJobCount=30000",
    f"MaxArraySize={IN_ARRAY + 1}",
    "SchedulerParameters=bf_interval=30,bf_max_job_test=500",
)
#: Takes a user's rights: users may not enter where the interpreter is.
AS_USER = """\
import os, pwd, sys
user = pwd.getpwnam(sys.argv[1])
import slurm_plugin.cli.options.why, slurm_plugin.cli.commands.why, slurm_plugin.cli.waiting_jobs
import slurm_plugin.config.loader, slurm_plugin.nimod.client, slurm_plugin.cli.own_history
import slurm_plugin.cli.slurm_estimates, encodings.idna, hashlib, json, zoneinfo
from slurm_plugin.cli.nimo import main
os.setgroups([])
os.setgid(user.pw_gid)
os.setuid(user.pw_uid)
sys.exit(main(sys.argv[2:]))
"""


def main() -> None:
    """Fill the queue, ask, print."""
    parser = _bench.options(__doc__)
    parser.add_argument("--release", help="release of Slurm (default: the installed one)")
    args = parser.parse_args()
    jobs = 1_000 if args.quick else 10_000
    with scratch_directory("nimo-why-") as directory:
        cluster = SlurmCluster(directory, nodes=NODES, conf=CONF, release=args.release)
        cluster.up()
        try:
            asked = filled(cluster, jobs)
            rows = [measured(cluster, name, *words) for name, words in asked.items()]
        finally:
            cluster.down()
    _bench.table(rows, title="nimo why")
    _bench.write(args.json, commands=rows)


def filled(cluster: SlurmCluster, jobs: int) -> dict[str, tuple[str, ...]]:
    """Submit jobs until so many wait; give what is asked about, with the arguments."""
    chance = random.Random(7)
    submit(cluster, OTHERS, f"--nodes={NODES - 1}", "--time=600", "--exclusive")
    arrays = jobs // IN_ARRAY
    own: list[int] = []
    for number in range(arrays):
        if number in (1, arrays // 2):
            own.append(submit(cluster, ASKS, "--nodes=1", "--time=60"))
        size = chance.choice((1, 2, 4))
        tasks = f"--array=1-{IN_ARRAY}"
        array = submit(cluster, OTHERS, tasks, f"--nodes={size}", "--time=120")
        limits = [chance.randrange(10, 120) for _ in range(IN_ARRAY)]
        lines = [
            f"update JobId={array}_{task} TimeLimit={limit}" for task, limit in enumerate(limits, 1)
        ]
        cluster.run("scontrol", "-Q", stdin="\n".join([*lines, "quit\n"]), timeout_s=300)
    own.append(submit(cluster, ASKS, "--nodes=1", "--time=60"))
    records = cluster.run("squeue", "-h", "-a", "-t", "PD", "-o", "%A", timeout_s=60).stdout.split()
    print(f"{len(records)} jobs wait")
    wait_until(lambda: named(cluster, own[-1]), timeout_s=300, what="a reason of the last job")
    about = {
        place: (str(job),) for place, job in zip(("early", "middle", "last"), own, strict=True)
    }
    return {**about, "all own": ()}


def submit(cluster: SlurmCluster, user: str, *options: str) -> int:
    """Submit a job as a user."""
    script = "#!/bin/sh\nexec sleep 7200\n"
    return cluster.sbatch(f"--exclude=n{NODES}", *options, user=user, script=script)


def named(cluster: SlurmCluster, job: int) -> bool:
    """Whether Slurm says why a job waits."""
    reason = cluster.run("squeue", "-h", "-j", str(job), "-o", "%r", timeout_s=60).stdout.strip()
    return reason not in ("", "None")


def measured(cluster: SlurmCluster, name: str, *words: str) -> dict[str, Any]:
    """Ask three times; the median by wall time."""
    runs = sorted((asked(cluster, *words) for _ in range(3)), key=lambda row: row["wall s"])
    return {"asked about": name, **runs[1]}


def asked(cluster: SlurmCluster, *words: str) -> dict[str, Any]:
    """Run the command once, and give what it took and said."""
    env = {
        **os.environ, **cluster.env, "NIMO_CONFIG": "", "PYTHONPATH": str(PROJECT),
        "HOME": str(cluster.layout.work), "XDG_DATA_HOME": str(cluster.layout.work / "data"),
    }  # fmt: skip
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", AS_USER, ASKS, "why", *words, "--json"],
        env=env, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    wall_s, after = time.monotonic() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    said = json.loads(done.stdout)["waiting"]
    return {
        "wall s": wall_s,
        "CPU s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "jobs": len(said),
        "changes": sum(len(one["edits"]) for one in said),
        "checked": sum(edit["agreed"] for one in said for edit in one["edits"]),
        "not found out": len({trouble for one in said for trouble in one["troubles"]}),
    }


if __name__ == "__main__":
    main()
