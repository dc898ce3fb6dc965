"""Jobs of 0.2 to 3 times their plan on a real cluster that is disturbed: none may end early.

Starts a Slurm (``--release 26.05``; by default the installed one) with NIMO, plans jobs with one
minute, holds them to ten, and meanwhile freezes, restarts and kills slurmctld, takes the option
away for a minute and kills nimod.  Arrays, heterogeneous jobs, requeues, preemption and jobs with
their users' own ``--time-min`` are among them.  The figures are the jobs that ended as TIMEOUT, and
those that were lost.
"""

import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _bench

from tests.cluster.nimod import hooks_for
from tests.cluster.slurm import SlurmCluster
from tests.conftest import scratch_directory
from tests.end_to_end.site import Site
from tests.processes import ProcessError

OPTION = "time_min_as_soft_limit"
SCHEDULER = f"SchedulerParameters=bf_interval=2,batch_sched_delay=1,{OPTION}"
PREEMPTION = (
    *("PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"),
    "PartitionName=urgent Nodes=n[1-8] PriorityTier=9",
)
PLAN_S, LIMIT_MIN = 60.0, 10
#: nimod as it is, but with plans of a minute.
NIMOD = """\
import sys
from slurm_plugin.cli.nimo import main
from slurm_plugin.decision import soft_limits
soft_limits._LEAST_S = 60.0
sys.exit(main(sys.argv[1:]))
"""


def main() -> None:
    """Run it."""
    parser = _bench.options(str(__doc__))
    parser.add_argument("--release", help="of Slurm; in a root directory")
    parser.add_argument("--auth", default="munge", help="munge or slurm")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=10.0, help="that nimod is dead")
    args = parser.parse_args()
    count, dead_min = (12, 0.0) if args.quick else (args.jobs, args.minutes)
    with scratch_directory("nimo-torture-") as directory:
        cluster = SlurmCluster(
            directory / "cluster",
            nodes=8,
            conf=[SCHEDULER, *PREEMPTION],
            lua=hooks_for(directory),
            release=args.release,
            auth=args.auth,
        )
        cluster.up()
        try:
            rows = [tortured(Site(directory, cluster), directory, count, dead_min)]
        finally:
            cluster.down()
    _bench.table(rows, title="Jobs that ended before their users' limit")
    _bench.write(args.json, torture=rows)


def tortured(site: Site, directory: Path, count: int, dead_min: float) -> dict[str, Any]:
    """Submit the jobs, disturb them, and count what became of them."""
    cluster, chance = site.cluster, random.Random(1)
    site.script = site.write_script("short.sh", "#!/bin/sh\nsleep $1\n")
    history = [cluster.sbatch("-N1", "-t10", "-Jtorture", site.script, "1") for _ in range(6)]
    cluster.wait(*history, accounted=True)
    site.learn()
    start_nimod(site, directory)
    steps = disturbances(site, directory, dead_min)
    submitted: list[int] = []
    planned = 0
    for number in range(count):
        submitted.append(submit(site, chance, number))
        planned += "TimeMin=00:01:00" in shown(site, submitted[-1])
        if (number + 1) % max(count // (len(steps) + 1), 1) == 0 and steps:
            steps.pop(0)()
        if number % 25 == 24:
            again(cluster, "scontrol", "requeue", str(chance.choice(submitted[-25:])))
        time.sleep(0.2)
    for step in steps:
        step()
    cluster.wait(*submitted, timeout_s=3600, accounted=True)
    fields = ("JobID", "State", "ElapsedRaw")
    ended = cluster.sacct("-X", "-S", "now-3hours", "-D", fields=fields)
    states: dict[str, int] = {}
    for row in ended:
        states[row["State"].split()[0]] = states.get(row["State"].split()[0], 0) + 1
    beyond = sum(int(row["ElapsedRaw"]) > PLAN_S for row in ended)
    lost = sum(not any(row["JobID"].startswith(str(one)) for row in ended) for one in submitted)
    return {
        "jobs": len(ended),
        "planned with a minute": planned,
        "ran longer": beyond,
        "TIMEOUT": states.get("TIMEOUT", 0),
        "lost": lost,
        "states": " ".join(f"{name} {n}" for name, n in sorted(states.items())),
    }


def start_nimod(site: Site, directory: Path) -> None:
    """Start nimod with plans of a minute."""
    program = directory / "nimod.py"
    program.write_text(NIMOD)
    site.nimod.configure(
        {"mode": "enforce", "snapshot": {"interval_s": 2.0}, "time_limit": {"soft": "on"}}
    )
    site.cluster.processes.start(
        "nimod",
        [sys.executable, str(program), "serve", "--config", str(site.nimod.config)],
        env=site.cluster.env,
    )
    site.cluster.processes.wait_for("nimod", site.nimod.answers)


def submit(site: Site, chance: random.Random, number: int) -> int:
    """Submit one job of 0.2 to 3 times the plan."""
    seconds = str(round(PLAN_S * chance.uniform(0.2, 3.0)))
    limit = f"-t{LIMIT_MIN}"
    kinds = {
        0: ("--array=1-2",),
        1: ("--time-min=9",),
        2: ("-N2",),
        3: ("-N1", limit, ":", "-N1"),
        4: ("-N2", "--exclusive", "--partition=urgent"),
    }
    own = kinds.get(number % 12, ("-N1",))
    while True:
        try:
            return site.cluster.sbatch(
                "-Jtorture", "--requeue", limit, *own, str(site.script), seconds
            )
        except ProcessError:
            time.sleep(2.0)  # slurmctld is down


def shown(site: Site, job_id: int) -> str:
    """Give what scontrol shows of a job; nothing while slurmctld is away."""
    return site.cluster.run("scontrol", "show", "job", str(job_id), check=False).stdout


def again(cluster: SlurmCluster, *argv: str) -> None:
    """Run a command that may fail."""
    cluster.run(*argv, check=False)


def disturbances(site: Site, directory: Path, dead_min: float) -> list[Callable[[], None]]:
    """List what happens meanwhile, one after the other."""
    cluster, conf = site.cluster, site.cluster.layout.slurm_conf

    def kill_nimod() -> None:
        site.kill_nimod()
        time.sleep(60.0 * dead_min)
        site.cluster.processes.stop("nimod")
        start_nimod(site, directory)

    def restart() -> None:
        cluster.restart("slurmctld")

    def kill() -> None:
        cluster.processes.signal("slurmctld", signal.SIGKILL)
        time.sleep(5.0)
        cluster.processes.stop("slurmctld")
        cluster.start("slurmctld")

    def freeze() -> None:
        cluster.processes.signal("slurmctld", signal.SIGSTOP)
        time.sleep(60.0)
        cluster.processes.signal("slurmctld", signal.SIGCONT)

    def without_option() -> None:
        text = conf.read_text()
        conf.write_text(text.replace(f",{OPTION}", ""))
        again(cluster, "scontrol", "reconfigure")
        time.sleep(60.0)
        conf.write_text(text)
        again(cluster, "scontrol", "reconfigure")

    return [freeze, restart, kill, without_option, kill_nimod]


if __name__ == "__main__":
    main()
