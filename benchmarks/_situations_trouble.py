"""Situations of days on which something is amiss, or unusual."""

import os
import signal
import time
from pathlib import Path
from random import Random

from _situations import Day, situation

from tests.cluster.host import write_file
from tests.processes import Account

#: Takes memory and keeps it; a second later it is done.
HUNGRY = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=10
#SBATCH --mem=60M
python3 -c 'x = bytearray(120 * 2**20); import time; time.sleep(3)'
"""
MISSING = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=30
cat missing-input.dat
"""
EDITED = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=01:00:00
sleep 10
"""
GRID = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=01:00:00
sleep $(($1 * $1 / 4000))
"""
SORT = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=30
sleep $((2 + 4 * $(stat -c %s "$1") / 1000000))
"""
TRAIN = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=02:00:00
sleep $((4 + 32 / ${SLURM_GPUS:-1}))
"""
CONDA = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=01:00:00
source ~/miniconda3/etc/profile.d/conda.sh 2>/dev/null
conda activate genomics 2>/dev/null
module load gcc/12.2 2>/dev/null
sleep 14
"""
SHORT = """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --time=20
sleep 8
"""
WIDE = """#!/bin/bash
#SBATCH --time=10
timeout 40 sh -c 'while :; do :; done'
true
"""
STUCK = """#!/bin/bash
#SBATCH --time=1
sleep 600
"""
ENGINE = """#!/bin/sh
# properties = {"rule": "align", "wildcards": {"sample": "%s"}}
sleep 9
"""


def prepare(day: Day) -> None:
    """Scripts, and runs of the days before."""
    chance, site = Random(2), day.site
    day.write_scripts({
        "ada": {"conda.sh": CONDA, "short.sh": SHORT, "wide.sh": WIDE, "stuck.sh": STUCK},
        "ben": {"hungry.sh": HUNGRY, "missing.sh": MISSING, "short.sh": SHORT},
        "dina": {"grid.sh": GRID, "edited.sh": EDITED},
        "emil": {"train.sh": TRAIN, "short.sh": SHORT},
        "fatma": {"sort.sh": SORT, "short.sh": SHORT.replace("8", "11")},
    })  # fmt: skip
    for run in range(20):
        size = (100, 200, 250, 300)[run % 4]
        run_s = size * size / 4000 * chance.gauss(1, 0.03)
        site.history("dina", f"sbatch grid.sh {size}", max(run_s, 1))
    for run in range(18):
        gpus = (1, 2)[run % 2]
        run_s = 4 + 32 / gpus + chance.uniform(0, 1)
        site.history("emil", f"sbatch --gpus={gpus} train.sh", run_s, gpus=gpus, limit_s=7200)
        site.history("ada", "sbatch conda.sh", 14 + chance.uniform(-1, 1))
        site.history("ben", "sbatch short.sh", 8 + chance.uniform(-0.5, 0.5), limit_s=1200)
        site.history("emil", "sbatch short.sh", 8 + chance.uniform(-0.5, 0.5), limit_s=1200)
        name = f"snakejob.align.{run}.sh"
        run_s = 9 + chance.uniform(-0.5, 0.5)
        site.history("fatma", f"sbatch .snakemake/tmp.abc123/{name}", run_s, name=name)


@situation("A job that ran out of memory", "what happened, and to run it with enough")
def out_of_memory(day: Day) -> str:
    job = day.submit("ben", "hungry.sh")
    day.ask_why("ben", job)
    second = day.number(day.do("ben", f"nimo again --submit {job}"))
    day.ended(second)
    third = day.number(day.do("ben", f"nimo again --submit {second}"))
    return day.fact(job, second, third) + "; it needs 120 MiB and Python"


@situation("A job that failed at once", "what happened; not to spend another try on it")
def failed_at_once(day: Day) -> str:
    jobs = day.learn_from("ben", ["missing.sh"] * 3)
    day.do("ben", f"nimo why {jobs[-1]}")
    day.do("ben", f"nimo again {jobs[-1]}")
    day.do("ben", "nimo-advise missing.sh")
    return day.fact(jobs[-1]) + "; the file missing-input.dat is not there"


@situation("A script that was edited", "whether the old times still hold")
def edited(day: Day) -> str:
    day.learn_from("dina", ["edited.sh"] * 6)
    day.site.write("dina", "edited.sh", EDITED.replace("sleep 10", "sleep 10 # faster?\nsleep 8"))
    job = day.advise_and_submit("dina", "edited.sh")
    return day.fact(job)


@situation("A size between those that ran, and one beyond", "how long it takes")
def sizes(day: Day) -> str:
    between = day.advise_and_submit("dina", "grid.sh 270")
    beyond = day.advise_and_submit("dina", "grid.sh 400")
    return day.fact(between, beyond) + "; the law is size²/4000 s"


@situation("Input files of several sizes", "how long the next one takes")
def input_files(day: Day) -> str:
    job = day.larger_input("fatma", "sort.sh", size_mb=5)
    return day.fact(job) + "; the law is 2 + 4 s a MB, of 5 MB"


@situation("GPUs, after runs with one and two", "how many GPUs")
def gpus(day: Day) -> str:
    job = day.advise_and_submit("emil", "--gpus=1 train.sh", comment="nimo:gpus=1-2")
    return day.fact(job) + "; the law is 4 + 32/GPUs s"


@situation("A limit that reaches into maintenance", "to run before it")
def maintenance(day: Day) -> str:
    words = "reservationname=upgrade starttime=now+45minutes duration=60 users=root flags=maint"
    day.site.cluster.run("scontrol", "create", "reservation", *words.split(), "nodes=ALL")
    try:
        time.sleep(3)
        job = day.submit("chen", "nightly.sh")
        time.sleep(4)
        said = day.do("chen", f"nimo why {job}")
        day.paste_change(said)
        day.until_running(job)
        return day.fact(job)
    finally:
        day.site.cancel_all()
        day.site.cluster.run("scontrol", "delete", "reservationname=upgrade")


@situation("No, thank you (nimo:off)", "that the job stays as it is")
def opted_out(day: Day) -> str:
    job = day.submit("emil", "--comment=nimo:off -N 1-8 solver.sh")
    day.do("emil", f"nimo why {job}")
    state = day.job(job)
    return f"NumNodes {state['NumNodes']}, limit {state['TimeLimit']}, {state['Comment']}"


@situation("Another user's jobs of the same name are poison", "that they change nothing of mine")
def poison(day: Day) -> str:
    before = day.do("ben", "nimo-advise short.sh")
    for _ in range(30):
        day.site.history("fatma", "sbatch short.sh", 3500, limit_s=3600)
        comment = "nimo:app=short,user=ben"
        day.site.history("fatma", "sbatch short.sh", 1, limit_s=3600, comment=comment)
    day.site.learn()
    after = day.do("ben", "nimo-advise short.sh")
    # The hour at which it ends moves on.
    first, second = (said.output.partition("nodes  run time")[0] for said in (before, after))
    return "the same" if first == second else "it changed"


@situation("The queue is full: why does my job wait?", "a reason, a time, and what would be sooner")
def full_queue(day: Day) -> str:
    day.occupy(7, limit_min=4, run_s=70)
    job = day.submit("ada", "-N 4 -t 60 --exclusive --comment=nimo:off heat.sh")
    time.sleep(4)
    said = day.do("ada", f"nimo why {job}")
    asked_s = time.time()
    day.paste_change(said)
    row = day.ended(job)[-1]
    started_s = time.mktime(time.strptime(row["Start"], "%Y-%m-%dT%H:%M:%S"))
    return f"{day.fact(job)}; started {started_s - asked_s:.0f} s after asking"


@situation("A chain of jobs", "when the last one starts, and why it waits")
def chain(day: Day) -> str:
    first = day.submit("chen", "nightly.sh")
    second = day.submit("chen", f"-d afterok:{first} nightly.sh")
    third = day.submit("chen", f"-d afterok:{second} nightly.sh")
    day.until_running(first)
    day.do("chen", "date +%T; nimo wait")
    day.do("chen", f"nimo why {third}")
    rows = day.ended(first, second, third)
    return "; ".join(f"{row['JobID']} started {row['Start']}" for row in rows)


@situation("A workflow engine's jobs", "that the rule's times are used, whatever the sample")
def engine(day: Day) -> str:
    script = ".snakemake/tmp.zzz999/snakejob.align.77.sh"
    day.site.write("fatma", ".snakemake/README", "")
    day.site.write("fatma", script, ENGINE % "S77")
    job = day.advise_and_submit("fatma", f"-t 60 {script}")
    return day.fact(job)


@situation("A script that activates conda and loads modules", "a limit that fits")
def conda(day: Day) -> str:
    job = day.advise_and_submit("ada", "conda.sh", comment="nimo:time=set")
    return day.fact(job)


@situation("salloc, and srun in it", "that it works as ever")
def interactive(day: Day) -> str:
    inside = "echo $SLURM_NNODES nodes; srun hostname | wc -l"
    said = day.do("ada", f"salloc -N 1-2 -t 5 bash -c '{inside}'")
    return f"ended with {said.status} after {said.seconds:.0f} s"


@situation("Wrong input", "to learn what is wrong")
def wrong_input(day: Day) -> str:
    for command in (
        "nimo-advise nosuch.sh",
        "nimo-advise --nodse=2 solver.sh",
        "nimo-advise -t 5x solver.sh",
        "nimo-advise -p nosuch solver.sh",
        "nimo why abc",
        "nimo why 99999",
        "nimo wait 99999",
        "nimo again 99999",
        "nimo predict sovler",
        "nimo predcit",
    ):
        day.do("emil", command)
    return "each names something that is not there"


@situation("nimod is down, then hangs", "that jobs go in as ever")
def nimod_down(day: Day) -> str:
    day.site.cluster.stop("nimod")
    try:
        job = day.submit("emil", "-N 1-8 solver.sh")
        first_s = day.site.said[-1].seconds
        day.do("emil", "nimo-advise solver.sh")
        day.do("emil", f"nimo why {job}")
        day.do("emil", "nimo wait")
    finally:
        day.site.start_nimod()
    day.site.cluster.processes.signal("nimod", signal.SIGSTOP)
    try:
        other = day.submit("emil", "-N 1-8 solver.sh")
        second_s = day.site.said[-1].seconds
        day.do("emil", "nimo-advise solver.sh")
    finally:
        day.site.cluster.processes.signal("nimod", signal.SIGCONT)
    states = [day.job(one)["NumNodes"] for one in (job, other)]
    return f"sbatch took {first_s:.1f} and {second_s:.1f} s, nodes {states}"


@situation("The accounting (slurmdbd) is down", "advice as ever, and plain words elsewhere")
def accounting_down(day: Day) -> str:
    day.site.cluster.stop("slurmdbd")
    try:
        day.do("emil", "nimo-advise solver.sh")
        job = day.submit("emil", "solver.sh")
        day.do("emil", f"nimo why {job}")
        day.do("emil", "nimo waste")
        day.do("emil", "nimo again 500001")
        day.do("emil", "nimo predict")
    finally:
        day.site.cluster.start("slurmdbd")
        time.sleep(5)
    return f"job {job} was taken"


@situation("squeue hangs", "an answer within a few seconds, or plain words")
def hanging_squeue(day: Day) -> str:
    squeue = day.site.cluster.bin / "squeue"
    before = squeue.read_text()
    write_file(squeue, b"#!/bin/sh\nexec sleep 300\n", 0o755, Account.mine())
    try:
        day.do("emil", "nimo wait")
        day.do("emil", "nimo-advise solver.sh")
        day.do("emil", "nimo why")
    finally:
        write_file(squeue, before.encode(), 0o755, Account.mine())
    return "; ".join(f"{one.command}: {one.seconds:.0f} s" for one in day.site.said)


@situation("German locale and Tokyo's clock", "the same answer, with times of that clock")
def locale_and_clock(day: Day) -> str:
    env = {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo"}
    day.do("emil", "nimo-advise --deadline=now+30minutes solver.sh", env=env)
    ahead = day.occupy(8, limit_min=3, run_s=40)
    job = day.submit("chen", "-N 1 --exclusive nightly.sh", env=env)
    time.sleep(3)
    day.do("chen", f"date +%T; nimo wait {job}", env=env)
    start = day.ended(ahead, job)[-1]["Start"]
    return f"started {start} UTC"


@situation("A requeued job", "what it is doing, and that both starts are not one run")
def requeued(day: Day) -> str:
    job = day.submit("chen", "nightly.sh")
    day.until_running(job)
    day.do("chen", f"scontrol requeue {job}")
    time.sleep(3)
    day.do("chen", f"nimo why {job}")
    day.site.cluster.wait(job, timeout_s=240, accounted=True)
    day.site.learn()
    day.do("chen", f"nimo why {job}")
    return day.fact(job)


@situation("Nodes are drained, and my job waits", "to know whom to ask, and another way")
def drained(day: Day) -> str:
    day.site.cluster.run("scontrol", "update", "nodename=n[7-8]", "state=drain", "reason=fans")
    try:
        time.sleep(3)
        job = day.submit("emil", "-p gpu --gpus=1 train.sh")
        time.sleep(3)
        day.do("emil", f"nimo why {job}")
        day.do("emil", "nimo-advise -p gpu --gpus=1 train.sh")
        day.do("emil", "nimo wait")
        return f"job {job}: {day.state(job)}"
    finally:
        day.site.cancel_all()
        day.site.cluster.run("scontrol", "update", "nodename=n[7-8]", "state=resume")


@situation("Which of my node-hours bought nothing?", "the worst, and what to do")
def waste(day: Day) -> str:
    wide = [day.submit("ada", "-c 4 wide.sh") for _ in range(3)]
    stuck = [day.submit("ada", "-N 2 stuck.sh") for _ in range(2)]
    day.ended(*wide, *stuck)
    day.do("ada", "nimo waste")
    day.do("ada", "nimo waste --by application")
    return f"{day.fact(*wide, *stuck)}; wide.sh used one of its four CPUs"


@situation("A heterogeneous job", "that it goes in as asked, and an answer about it")
def het(day: Day) -> str:
    day.do("emil", "nimo-advise -N 1 : -N 2 short.sh")
    job = day.submit("emil", "-N 1 -t 5 : -N 2 -t 5 short.sh")
    day.do("emil", f"nimo why {job}")
    day.site.cluster.wait(job, timeout_s=120, accounted=True)
    return f"job {job} ended"


@situation("A home that nobody but its user reads, without a place for files", "an answer")
def no_home(day: Day) -> str:
    home = day.site.home("emil")
    home.chmod(0o500)
    env = {"TMPDIR": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"}
    try:
        day.do("emil", "nimo-advise solver.sh", env=env)
        day.do("emil", "nimo predict solver", env=env)
        day.do("emil", "nimo waste --local", env=env)
    finally:
        home.chmod(0o700)
    return f"{Path(home).name}'s home could not be written; root's umask {os.umask(0o022):o}"
