"""Situations that users ask about on any day: sizes, failures, reservations, limits, engines."""

import time
from random import Random

from _situations import Day, situation

#: Seconds of `CONVERT` for each MB of its input.
CONVERT_S_PER_MB = 2
CONVERT = f"""#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=30
sleep $((1 + {CONVERT_S_PER_MB} * $(stat -c %s "$1") / 1000000))
"""
#: Asks for two GPUs, of which its history used one.
NET = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus=2
#SBATCH --time=01:00:00
sleep 15
"""
#: Two of its twelve tasks fail.
PARTS = """#!/bin/bash
#SBATCH --time=10
sleep 3
if [ $((SLURM_ARRAY_TASK_ID % 5)) = 0 ]; then
  echo "part $SLURM_ARRAY_TASK_ID: no convergence" >&2
  exit 3
fi
"""
LOGS = """#!/bin/bash
#SBATCH --time=10
#SBATCH --output=logs/%j.out
sleep 10
"""
FOAM = """#!/bin/bash
#SBATCH --time=02:00:00
module load openfoam/2406
sleep 2
simpleFoam -parallel
"""
STEADY = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=10
sleep 80
"""
#: Needs 150 MiB, of which `prepare` gives it a history.
TABLES = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=10
#SBATCH --mem=300M
python3 -c 'x = bytearray(150 * 2**20); import time; time.sleep(5)'
"""
#: A step that is larger than its job.
STEPS = """#!/bin/bash
#SBATCH --ntasks=4
#SBATCH --time=10
srun --ntasks=8 hostname
"""
THROTTLED = """#!/bin/bash
#SBATCH --time=10
sleep 10
"""
#: What Snakemake's plugin for Slurm wraps, shortened.
RULE = "sleep 12 # python -m snakemake --snakefile Snakefile --target-jobs map:sample={sample}"


def prepare(day: Day) -> None:
    """Write the scripts, and runs of the days before."""
    chance, site = Random(3), day.site
    day.write_scripts({
        "ada": {"steady.sh": STEADY},
        "ben": {"foam.sh": FOAM, "dos.sh": STEADY.replace("\n", "\r\n"), "bare.sh": "sleep 9\n",
                "steady.sh": STEADY},
        "chen": {"logs.sh": LOGS, "tables.sh": TABLES, "steps.sh": STEPS, "steady.sh": STEADY},
        "dina": {"parts.sh": PARTS, "throttled.sh": THROTTLED},
        "emil": {"net.sh": NET, "steady.sh": STEADY},
        "fatma": {"convert.sh": CONVERT},
    })  # fmt: skip
    for _ in range(12):
        run_s = 15 + chance.uniform(-1, 1)
        site.history("emil", "sbatch net.sh", run_s, gpus=2, gpu_percent=95, rss_mib=40)
        for user in ("ada", "chen", "emil"):
            site.history(user, "sbatch steady.sh", 80 + chance.uniform(-2, 2), limit_s=600)
        run_s = 5 + chance.uniform(0, 1)
        site.history("chen", "sbatch tables.sh", run_s, limit_s=600, rss_mib=158, mem="300Mn")
        run_s = 10 + chance.uniform(-0.5, 0.5)
        site.history("dina", "sbatch --array=1-8%2 throttled.sh", run_s, limit_s=600)


@situation("An input ten times as large as any before", "how long it takes")
def tenfold(day: Day) -> str:
    job = day.larger_input("fatma", "convert.sh", size_mb=25)
    return day.fact(job) + f"; the law is 1 + {CONVERT_S_PER_MB} s a MB, of 25 MB"


@situation("Two GPUs asked for, one used", "whether one would do")
def unused_gpu(day: Day) -> str:
    job = day.advise_and_submit("emil", "net.sh")
    return day.fact(job) + "; its twelve runs used 95 % of one of two GPUs"


@situation("An array of which a few tasks failed", "which, why, and only those again")
def few_failed(day: Day) -> str:
    job = day.submit("dina", "--array=1-12 parts.sh")
    day.ask_why("dina", job)
    day.do("dina", f"nimo why {job}_5")
    done = day.do("dina", f"nimo again --submit {job}")
    rows = day.ended(day.number(done))
    tasks = ", ".join(row["JobID"] for row in rows)
    return f"tasks 5 and 10 failed with 3; run again: {tasks}"


@situation("The folder of the output is missing", "why it failed, with no output to read")
def no_output_folder(day: Day) -> str:
    job = day.submit("chen", "logs.sh")
    day.ask_why("chen", job)
    day.do("chen", f"nimo again {job}")
    return day.fact(job) + "; logs/ is not there"


@situation("A module that does not exist", "why it failed after 2 s")
def no_module(day: Day) -> str:
    job = day.submit("ben", "foam.sh")
    day.ask_why("ben", job)
    return day.fact(job) + "; neither module nor simpleFoam is a command there"


@situation("A job that must wait for the end of maintenance", "when it starts")
def after_maintenance(day: Day) -> str:
    words = "reservationname=repair starttime=now+1minutes duration=1 users=root flags=maint"
    day.site.cluster.run("scontrol", "create", "reservation", *words.split(), "nodes=ALL")
    try:
        time.sleep(3)
        job = day.submit("chen", "-t 3 steady.sh")
        time.sleep(4)
        day.do("chen", f"date +%T; nimo why {job}; nimo wait {job}")
        day.do("chen", f"squeue --start -j {job}")
        rows = day.ended(job)
        return f"{day.fact(job)}; started {rows[-1]['Start']}"
    finally:
        day.site.cancel_all()
        day.site.cluster.run("scontrol", "delete", "reservationname=repair", check=False)


@situation("The job before it failed", "that it never starts, and what to do")
def never_satisfied(day: Day) -> str:
    first = day.submit("ben", "foam.sh")
    second = day.submit("ben", f"-d afterok:{first} steady.sh")
    day.ended(first)
    time.sleep(4)
    day.do("ben", f"nimo why {second}; nimo wait {second}")
    return f"job {second}: {day.job(second)['Reason']}"


@situation("srun on the login node", "that it works as ever; why it failed")
def srun(day: Day) -> str:
    day.do("ada", "srun -N 1-2 -n 2 -t 5 echo a task")
    day.do("ada", "srun -n 1 -t 5 sh -c 'echo $SLURM_JOB_ID; exit 7'")
    job = next(word for word in day.site.said[-1].output.split() if word.isdigit())
    day.ended(int(job))
    day.do("ada", f"nimo why {job}")
    day.do("ada", f"nimo again {job}")
    return f"job {job} ended with 7"


@situation("A Snakemake workflow, run a second time", "the times of the first run, by rule")
def workflow_twice(day: Day) -> str:
    runs = ("0b1f9f0e-5b1c-4c39-a4a8-01d6b2f6a5e1", "77a1c2d4-96f2-4a7f-8a53-9c2a4b3d1e55")
    options = "--job-name {run} --comment rule_map_wildcards_{sample} -t 30 --wrap '{rule}'"
    lines = []
    for number in range(6):
        sample = f"A{number}"
        rule = RULE.format(sample=sample)
        lines.append(options.format(run=runs[0], sample=sample, rule=rule))
    day.learn_from("fatma", lines)
    line = options.format(run=runs[1], sample="B1", rule=RULE.format(sample="B1"))
    job = day.advise_and_submit("fatma", line)
    return day.fact(job)


@situation("An array with two tasks at once", "how long a task and all take")
def throttled_array(day: Day) -> str:
    job = day.advise_and_submit("dina", "--array=1-8%2 throttled.sh")
    day.until_any_task_runs(job)
    day.do("dina", f"nimo why {job}; nimo wait {job}")
    began = time.monotonic()
    rows = day.ended(job)
    return f"{len(rows)} tasks of {rows[0]['ElapsedRaw']} s; {time.monotonic() - began:.0f} s more"


@situation("More than any node or the cluster has", "that it can never run, before it waits")
def too_large(day: Day) -> str:
    for options in ("--mem=900G", "-c 16", "-N 20", "-t 3-0 -p gpu"):
        job = day.advise_and_submit("emil", f"{options} steady.sh")
        if job:
            time.sleep(3)
            day.do("emil", f"nimo why {job}")
    return "8 nodes of 4 CPUs; the partition gpu has a limit of one day"


@situation("A limit on jobs of a user", "why the second waits, and until when")
def job_limit(day: Day) -> str:
    cluster = day.site.cluster
    cluster.run("sacctmgr", "-i", "add", "qos", "single", "maxjobsperuser=1")
    cluster.run("sacctmgr", "-i", "modify", "user", "chen", "set", "qos+=single")
    time.sleep(2)
    first = day.submit("chen", "--qos=single nightly.sh")
    day.until_running(first)
    second = day.submit("chen", "--qos=single nightly.sh")
    time.sleep(4)
    day.do("chen", f"date +%T; nimo why {second}; nimo wait {second}")
    reason = day.job(second)["Reason"]
    rows = day.ended(first, second)
    return f"{reason}; started {rows[-1]['Start']}"


@situation("A limit shorter than the runs were", "to hear of it before it is lost")
def short_limit(day: Day) -> str:
    job = day.advise_and_submit("ada", "-t 1 steady.sh")
    day.ask_why("ada", job)
    return day.fact(job) + "; twelve runs took 78 to 82 s"


@situation("Less memory than the runs needed", "to hear of it before it is lost")
def short_memory(day: Day) -> str:
    job = day.advise_and_submit("chen", "--mem=80M tables.sh")
    day.ask_why("chen", job)
    return day.fact(job) + "; twelve runs needed 158 MiB"


@situation("A job that its user cancelled", "what happened")
def cancelled(day: Day) -> str:
    job = day.submit("ada", "steady.sh")
    day.until_running(job)
    day.do("ada", f"scancel {job}")
    day.ask_why("ada", job)
    day.do("ada", f"nimo again {job}")
    return day.fact(job)


@situation("Scripts that sbatch refuses", "the fault in it, and the command that corrects it")
def refused_scripts(day: Day) -> str:
    for name in ("dos.sh", "bare.sh"):
        day.do("ben", f"nimo-advise {name}")
        day.do("ben", f"sbatch {name}")
    return "dos.sh has DOS line breaks, bare.sh no first line"


@situation("A held job, and one for later", "what they wait for")
def held(day: Day) -> str:
    job = day.submit("ada", "--hold steady.sh")
    later = day.submit("ada", "--begin=now+1hour steady.sh")
    time.sleep(4)
    day.do("ada", f"date +%T; nimo why {job}; nimo why {later}")
    day.do("ada", "nimo wait")
    return f"{day.job(job)['Reason']}, {day.job(later)['Reason']}"


@situation("A step that asks for more than its job", "why it failed")
def large_step(day: Day) -> str:
    job = day.submit("chen", "steps.sh")
    day.ask_why("chen", job)
    return day.fact(job) + "; srun asked for 8 tasks of 4"


@situation("A node failed under the job", "what happened, and whether it runs again")
def node_failed(day: Day) -> str:
    job = day.submit("emil", "steady.sh")
    day.until_running(job)
    node = day.job(job)["NodeList"]
    change = ("scontrol", "update", f"nodename={node}")
    day.site.cluster.run(*change, "state=down", "reason=power")
    try:
        time.sleep(4)
        day.do("emil", f"nimo why {job}")
    finally:
        # A node whose slurmd has reported since is up again by itself.
        day.site.cluster.run(*change, "state=resume", check=False)
    return f"job {job} was on {node}: {day.state(job)}"
