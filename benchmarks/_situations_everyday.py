"""Twenty situations of an ordinary day: a new script, a curve, an array, a deadline, memory."""

import time
from random import Random

from _situations import Day, situation

HEAT = """#!/bin/bash
#SBATCH --job-name=heat
#SBATCH --nodes=1-8
#SBATCH --time=10
sleep $((3 + 48 / SLURM_NNODES))
"""
THREADS = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=20
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
sleep $((2 + 40 / SLURM_CPUS_PER_TASK))
"""
NIGHTLY = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=04:00:00
#SBATCH --mem=1500M
sleep 20
"""
STUDY = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=02:00:00
sleep 15
"""
SOLVER = """#!/bin/bash
#SBATCH --job-name=solver
#SBATCH --nodes=1-8
#SBATCH --time=02:00:00
srun sleep $((10 + 2400 / SLURM_NNODES))
"""
SWEEP = """#!/bin/bash
#SBATCH --time=01:00:00
sleep 12
"""
MPI = """#!/bin/bash
#SBATCH --time=01:00:00
srun sleep $((4 + 160 / SLURM_NTASKS))
"""
MODEL = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=01:00:00
case $1$INPUT in
  *small) sleep 10 ;;
  *medium) sleep 20 ;;
  *large) sleep 40 ;;
esac
"""
SLOW = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=1
sleep 95
"""


def prepare(day: Day) -> None:
    """Scripts, and runs of the days before."""
    chance = Random(1)
    day.write_scripts({
        "ada": {"heat.sh": HEAT},
        "ben": {"threads.sh": THREADS, "new.sh": HEAT.replace("heat", "new"), "slow.sh": SLOW},
        "chen": {"nightly.sh": NIGHTLY, "other.sh": STUDY.replace("15", "18")},
        "dina": {"model.sh": MODEL, "sweep.sh": SWEEP, "input.sh": MODEL},
        "emil": {"solver.sh": SOLVER},
        "fatma": {"mpi.sh": MPI, "mpi1.sh": MPI.replace("--time", "--nodes=1 --time")},
    })  # fmt: skip
    _serial(day, chance)
    _parallel(day, chance)


def _serial(day: Day, chance: Random) -> None:
    """Add runs on one node."""
    site = day.site
    for run in range(12):
        cpus = (1, 2, 4)[run % 3]
        run_s = 2 + 40 / cpus + chance.uniform(0, 1)
        site.history("ben", f"sbatch -c {cpus} threads.sh", run_s, cpus=cpus, limit_s=1200)
    for _ in range(30):
        run_s = chance.uniform(18, 22)
        line = "sbatch nightly.sh"
        site.history("chen", line, run_s, limit_s=14_400, rss_mib=70, mem="1500Mn", days_ago=20)
    for run in range(8):
        site.write("chen", f"run{run:02}/study.sh", STUDY)
        for _ in range(2):
            line, run_s = "sbatch study.sh", chance.uniform(14, 16)
            site.history("chen", line, run_s, folder=f"run{run:02}", limit_s=7200)
    for run in range(16):
        kind, typical = (("small", 10), ("medium", 20))[run % 2]
        run_s = typical + chance.uniform(-1, 1)
        site.history("dina", f"sbatch model.sh {kind}", run_s)
        site.history("dina", f"sbatch --export=ALL,INPUT={kind} input.sh", run_s)
        site.history("dina", "sbatch --array=1-16 sweep.sh", 12 + chance.uniform(-1, 1))


def _parallel(day: Day, chance: Random) -> None:
    """Add runs on several nodes."""
    site = day.site
    for run in range(20):
        nodes = (1, 2, 4, 8)[run % 4]
        run_s = 10 + 2400 / nodes * chance.gauss(1, 0.03)
        line = f"sbatch -N {nodes} solver.sh"
        more = {"nodes": nodes, "cpus": nodes, "tasks": nodes}
        site.history("emil", line, run_s, name="solver", limit_s=7200, **more)
    for run in range(12):
        tasks = (4, 8, 16)[run % 3]
        run_s = 4 + 160 / tasks + chance.uniform(0, 1)
        nodes = tasks // 4
        more = {"nodes": nodes, "cpus": tasks, "tasks": tasks}
        site.history("fatma", f"sbatch -n {tasks} mpi.sh", run_s, **more)
        few = (1, 2, 4)[run % 3]
        run_s = 4 + 160 / few + chance.uniform(0, 1)
        site.history("fatma", f"sbatch -n {few} mpi1.sh", run_s, cpus=few, tasks=few)


@situation("A script that never ran, with a range", "how many nodes, which limit")
def never_ran(day: Day) -> str:
    job = day.advise_and_submit("ben", "new.sh")
    return day.fact(job)


@situation("The same range again and again on an idle cluster", "that NIMO learns how it scales")
def again_and_again(day: Day) -> str:
    jobs: list[int] = []
    for _ in range(5):
        jobs += day.learn_from("ada", ["heat.sh"])
    return day.fact(*jobs)


@situation("After runs on several counts", "the best count and a limit")
def after_tries(day: Day) -> str:
    day.do("ada", "nimo-advise heat.sh")
    day.do("ada", "nimo predict heat")
    job = day.submit("ada", "heat.sh")
    return day.fact(job) + "; the law is 3 + 48/n s"


@situation("One node, and runs on 1, 2 and 4 CPUs", "how many CPUs")
def cpus(day: Day) -> str:
    day.do("ben", "nimo-advise -c 1 threads.sh")
    job = day.submit("ben", "-c 1 --comment=nimo:cpus=1-4 threads.sh")
    return day.fact(job) + "; the law is 2 + 40/c s"


@situation("The same job every night on one node", "a limit; whether more nodes help")
def nightly(day: Day) -> str:
    job = day.advise_and_submit("chen", "nightly.sh")
    return day.fact(job)


@situation("The same script in a new directory", "the same as in the old ones")
def new_directory(day: Day) -> str:
    day.site.write("chen", "run99/study.sh", STUDY)
    job = day.advise_and_submit("chen", "study.sh", folder="run99")
    return day.fact(job)


@situation("The same script with an argument that is new", "a hint how long")
def new_argument(day: Day) -> str:
    job = day.advise_and_submit("dina", "model.sh large")
    return day.fact(job)


@situation("An array", "how long a task and all take, and a limit")
def array(day: Day) -> str:
    job = day.advise_and_submit("dina", "--array=1-16 sweep.sh")
    rows = day.ended(job)
    return f"{len(rows)} tasks, {rows[0]['State']}, {rows[0]['ElapsedRaw']} s each"


@situation("A deadline shorter than the limit", "a count that makes it, and a limit that fits")
def deadline(day: Day) -> str:
    job = day.advise_and_submit("emil", "--deadline=now+30minutes solver.sh")
    state = day.job(job)
    day.cancel_all()
    return (
        f"got {state.get('NumNodes')} nodes, limit {state.get('TimeLimit')}, deadline "
        f"{state.get('Deadline')}; by the law 1 node takes 40 min, 2 take 20"
    )


@situation("A deadline that cannot be met", "to know now")
def missed_deadline(day: Day) -> str:
    job = day.advise_and_submit("emil", "--deadline=now+3minutes solver.sh")
    day.cancel_all()
    return f"job {job}; by the law 8 nodes take 5:10"


@situation("-n 8, after runs with 4 to 16 tasks on 1 to 4 nodes", "a limit; more or fewer tasks")
def tasks(day: Day) -> str:
    job = day.advise_and_submit("fatma", "-n 8 mpi.sh")
    return day.fact(job) + "; the law is 4 + 160/tasks s"


@situation("No tasks asked for, after runs with 1 to 4", "how many tasks")
def tasks_of_none(day: Day) -> str:
    day.do("fatma", "nimo-advise mpi1.sh")
    job = day.submit("fatma", "-n 4 mpi1.sh")
    return day.fact(job) + "; the law is 4 + 160/tasks s"


@situation("--wrap on two nodes", "how long, and a limit")
def wrap(day: Day) -> str:
    line = "-N 2 --wrap 'srun sleep 12'"
    day.learn_from("emil", [line] * 4)
    job = day.advise_and_submit("emil", line)
    return day.fact(job)


@situation("A script from standard input, with a job name", "the same as from the file")
def standard_input(day: Day) -> str:
    job = day.advise_and_submit("ada", "-J mine < heat.sh")
    return day.fact(job) + "; the law is 3 + 48/n s"


@situation("The input in a variable (--export)", "the time of this input")
def variable(day: Day) -> str:
    job = day.advise_and_submit("dina", "--export=ALL,INPUT=medium input.sh")
    return day.fact(job)


@situation("Three runs that reached their limit", "to know why, and which limit is enough")
def limit_reached(day: Day) -> str:
    jobs = day.learn_from("ben", ["slow.sh"] * 3)
    day.do("ben", "nimo-advise slow.sh")
    day.do("ben", f"nimo why {jobs[-1]}")
    again = day.submit("ben", "slow.sh")
    day.do("ben", f"scancel {again}")
    done = day.do("ben", f"nimo again --submit {jobs[-1]}")
    new = day.number(done)
    return day.fact(jobs[-1], new) if new else "not submitted again"


@situation("1500M asked for and 70M needed", "less memory, and that it is enough")
def memory(day: Day) -> str:
    job = day.submit("chen", "--comment=nimo:mem=auto nightly.sh")
    return day.fact(job)


@situation("Three submissions at once on an idle cluster", "each as good as one alone")
def at_once(day: Day) -> str:
    done = day.do("ada", "for i in 1 2 3; do sbatch heat.sh; done")
    jobs = day.numbers(done)
    return day.fact(*jobs) + "; the law is 3 + 48/n s"


@situation("When does my waiting job start?", "a time that holds")
def when(day: Day) -> str:
    ahead = day.occupy(8, limit_min=3, run_s=50)
    job = day.submit("chen", "-N 1 --exclusive nightly.sh")
    day.do("chen", f"nimo wait {job}")
    time.sleep(5)
    day.do("chen", f"nimo wait {job}")
    day.do("chen", f"squeue --start -j {job}")
    day.do("chen", "date +%T")
    start = day.ended(ahead, job)[-1]["Start"]
    return f"started {start}"


@situation("A new script of a user with much history", "what can be said of it, for what was asked")
def new_of_a_veteran(day: Day) -> str:
    job = day.advise_and_submit("chen", "-N 2 other.sh")
    return day.fact(job)
