"""Jobs of 0.2 to 3 times their plan on a real cluster that is disturbed: none may end early.

Starts a Slurm (``--release 26.05``; by default the installed one) with NIMO, plans jobs with one
minute, holds them to ten (some to two), and meanwhile freezes, restarts and kills slurmctld, takes
the option away for a minute and kills nimod.  Arrays, heterogeneous jobs, requeues, preemption and
jobs with their users' own ``--time-min`` are among them.  The figures are the jobs that ended as
TIMEOUT before their users' limit, and those that were lost.
"""

import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tests.cluster import SlurmCluster
from tests.cluster.nimod import hooks_for
from tests.conftest import scratch_directory
from tests.end_to_end.site import Site
from tests.processes import ProcessError

OPTION = "time_min_as_soft_limit"
CONF = (
    f"SchedulerParameters=bf_interval=2,batch_sched_delay=1,{OPTION}",
    *("PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"),
    "PartitionName=urgent Nodes=ALL PriorityTier=9",
)
PLAN_S, LIMIT_MIN, OWN_MIN = 60.0, 10, 2
#: nimod as it is, but with plans of a minute, and another rest where a queue's first is put off.
NIMOD = """\
import sys
from slurm_plugin.cli.nimo import main
from slurm_plugin.decision import soft_plans
from slurm_plugin.slurm import soft_limits
soft_plans._LEAST_S = 60.0
soft_limits.DAY_S = float(sys.argv.pop(1))
sys.exit(main(sys.argv[1:]))
"""


def main() -> None:
    """Run it."""
    import _bench  # noqa: PLC0415 - the test of a few jobs has no such folder in its path

    parser = _bench.options(str(__doc__))
    parser.add_argument("--release", help="of Slurm; in a root directory")
    parser.add_argument("--auth", default="munge", help="munge or slurm")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=10.0, help="that nimod is dead")
    args = parser.parse_args()
    count, away_s, dead_s = (12, 10.0, 0.0) if args.quick else (args.jobs, 60.0, 60 * args.minutes)
    with scratch_directory("nimo-torture-") as directory:
        cluster = SlurmCluster(
            directory / "cluster",
            nodes=8,
            conf=CONF,
            lua=hooks_for(directory),
            release=args.release,
            auth=args.auth,
        )
        cluster.up()
        try:
            rows = [tortured(Site(directory, cluster), count, away_s, dead_s)]
        finally:
            cluster.down()
    _bench.table(rows, title="Jobs that ended before their users' limit")
    _bench.write(args.json, torture=rows)


def tortured(site: Site, count: int, away_s: float, dead_s: float) -> dict[str, Any]:
    """Submit the jobs, disturb them, and count what became of them.

    away_s: for how long slurmctld stands still, and the option is away.
    dead_s: for how long nimod is dead.
    """
    cluster, chance = site.cluster, random.Random(1)
    site.script = site.write_script("short.sh", "#!/bin/sh\nsleep $1\n")
    history = [cluster.sbatch("-N1", "-t10", "-Jtorture", site.script, "1") for _ in range(6)]
    cluster.wait(*history, accounted=True)
    site.learn()
    start_nimod(site)
    steps = disturbances(site, away_s, dead_s)
    limits: dict[int, int] = {}
    planned = 0
    for number in range(count):
        limit_min = OWN_MIN if number % 12 == 7 else LIMIT_MIN
        job_id = submit(site, chance, number, limit_min)
        limits[job_id] = limit_min
        planned += "TimeMin=00:01:00" in shown(site, job_id)
        if (number + 1) % max(count // (len(steps) + 1), 1) == 0 and steps:
            steps.pop(0)()
        if number % 12 == 9:
            again(cluster, "scontrol", "requeue", str(chance.choice([*limits][-12:])))
        time.sleep(0.2)
    for step in steps:
        step()
    cluster.wait(*limits, timeout_s=3600, accounted=True)
    fields = ("JobID", "State", "ElapsedRaw", "Start", "End")
    rows = cluster.sacct("-X", "-S", "now-3hours", "-D", fields=fields)
    rows = [row for row in rows if job_of(row) in limits]
    states = Counter(row["State"].split()[0] for row in rows)
    ended = [row for row in rows if row["State"] == "TIMEOUT"]
    early = [row for row in ended if int(row["ElapsedRaw"]) < 60 * limits[job_of(row)]]
    return {
        "jobs": len(rows),
        "planned with a minute": planned,
        "ran longer": sum(int(row["ElapsedRaw"]) > PLAN_S for row in rows),
        "TIMEOUT": len(ended),
        "before the user's limit": len(early),
        "lost": len(limits.keys() - {job_of(row) for row in rows if row["End"] != "Unknown"}),
        "states": " ".join(f"{name} {n}" for name, n in sorted(states.items())),
        "early": "; ".join(f"{row['JobID']} {row['Start']} {row['ElapsedRaw']} s" for row in early),
    }


def job_of(row: Mapping[str, str]) -> int:
    """Give the id that sbatch printed: of a task or a component, that of the whole."""
    return int(re.split(r"\D", row["JobID"])[0])


def start_nimod(site: Site, rest_s: float = 0.0) -> None:
    """Start nimod with plans of a minute; no partition rests from them, unless told to."""
    program = site.nimod.config.with_name("nimod.py")
    program.write_text(NIMOD)
    site.nimod.configure(
        {"mode": "enforce", "snapshot": {"interval_s": 2.0}, "time_limit": {"soft": "on"}}
    )
    site.cluster.processes.start(
        "nimod",
        [sys.executable, str(program), f"{rest_s}", "serve", "--config", str(site.nimod.config)],
        env=site.cluster.env,
    )
    site.cluster.processes.wait_for("nimod", site.nimod.answers)


def submit(site: Site, chance: random.Random, number: int, limit_min: int) -> int:
    """Submit one job of 0.2 to 3 times the plan."""
    seconds = str(round(PLAN_S * chance.uniform(0.2, 3.0)))
    limit = f"-t{limit_min}"
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


def disturbances(site: Site, away_s: float, dead_s: float) -> list[Callable[[], None]]:
    """List what happens meanwhile, one after the other."""
    cluster, conf = site.cluster, site.cluster.layout.slurm_conf

    def kill_nimod() -> None:
        site.kill_nimod()
        time.sleep(dead_s)
        site.cluster.processes.stop("nimod")
        start_nimod(site)

    def restart() -> None:
        cluster.restart("slurmctld")

    def kill() -> None:
        time.sleep(6.0)  # a job that it has not saved yet, within five seconds, is lost
        cluster.processes.signal("slurmctld", signal.SIGKILL)
        time.sleep(5.0)
        cluster.processes.stop("slurmctld")
        cluster.start("slurmctld")

    def freeze() -> None:
        cluster.processes.signal("slurmctld", signal.SIGSTOP)
        time.sleep(away_s)
        cluster.processes.signal("slurmctld", signal.SIGCONT)

    def without_option() -> None:
        text = conf.read_text()
        conf.write_text(text.replace(f",{OPTION}", ""))
        again(cluster, "scontrol", "reconfigure")
        time.sleep(away_s)
        conf.write_text(text)
        again(cluster, "scontrol", "reconfigure")

    return [freeze, restart, kill, without_option, kill_nimod]


if __name__ == "__main__":
    main()
