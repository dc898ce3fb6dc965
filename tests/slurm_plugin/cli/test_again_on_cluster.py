"""Jobs that did not complete, run again on a real Slurm without nimod, by their user."""

import re
import sys

import pytest

from tests.cluster import cgroups
from tests.environments import PROJECT
from tests.processes import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.long]
TASKS = """\
#!/bin/sh
[ -e again ] || case $SLURM_ARRAY_TASK_ID in 2|4) echo "no input $1" >&2; exit 7 ;; esac
"""
HUNGRY = """\
#!/bin/sh
#SBATCH --mem=60M
(head -c 150M /dev/zero; sleep 4) | tail -c 150M > /dev/null
"""
SLOW = "#!/bin/sh\n#SBATCH -t 1\necho begun\nsleep ${1:-1}\n"
LONG = "#!/bin/sh\nsleep 600\n"


class User:
    """Runs the commands of a user on a cluster."""

    def __init__(self, cluster):
        self.cluster, self.work = cluster, cluster.layout.work
        self.env = {
            "HOME": str(self.work),
            "XDG_DATA_HOME": str(self.work / "data"),
            "NIMO_CONFIG": "",
            "PYTHONPATH": str(PROJECT),
            "OPENBLAS_NUM_THREADS": "1",
        }
        scripts = {"tasks.sh": TASKS, "hungry.sh": HUNGRY, "slow.sh": SLOW, "long.sh": LONG}
        for name, text in scripts.items():
            (self.work / name).write_text(text)

    def nimo(self, *words, check=True):
        argv = (sys.executable, "-m", "slurm_plugin", *words)
        return self.cluster.run(*argv, env=self.env, cwd=self.work, check=check, timeout_s=300)

    def ended(self, *words):
        """Submit a job and wait until the accounting has its end; give its id."""
        job_id = self.cluster.sbatch(*words, cwd=self.work)
        self.cluster.wait(job_id, accounted=True)
        return job_id

    def again(self, job_id):
        """Submit it again, and wait for its end."""
        said = self.nimo("again", str(job_id), "--submit").stdout
        new = int(re.match(r"Submitted batch job (\d+) for job ", said)[1])
        self.cluster.wait(new, accounted=True)
        return new, said

    def states(self, job_id):
        rows = self.cluster.sacct("-X", "-j", str(job_id), fields=("JobID", "State"))
        return {row["JobID"]: row["State"].split()[0] for row in rows}

    def request(self, job_id, *fields):
        (row,) = self.cluster.sacct("-X", "-j", str(job_id), fields=fields)
        return tuple(row[name] for name in fields)


@pytest.fixture(scope="module")
def user(slurm_cluster):
    conf = ["SelectTypeParameters=CR_Core_Memory", "OverTimeLimit=0"]
    conf += ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"]
    conf += ["PartitionName=urgent Nodes=n1,n2 MaxTime=1:00:00 PriorityTier=10"]
    limited = not cgroups.lacking()
    conf += [] if limited else ["JobAcctGatherParams=OverMemoryKill"]
    with slurm_cluster(nodes=2, conf=conf, memory_cgroups=limited) as cluster:
        yield User(cluster)


def test_of_an_array_the_failed_tasks_run_again_and_dependents_follow(user):
    job_id = user.ended("--array=1-5%3", "tasks.sh", "x")
    waits = user.cluster.sbatch(f"--dependency=afterok:{job_id}", "slow.sh", cwd=user.work)
    told = user.nimo("why", str(job_id)).stdout
    assert "2 of 5 tasks that ended did not complete: 2 FAILED." in told
    assert "  | no input x" in told
    line = f"sbatch --array=2,4%3 --chdir={user.work} {user.work}/tasks.sh x"
    assert user.nimo("again", str(job_id)).stdout == f"{line}\n"
    (user.work / "again").touch()
    new, said = user.again(job_id)
    assert f"{new} for job {job_id}, 2 tasks of it" in said
    # The accounting has the tasks of an array one by one.
    completed = {f"{new}_2": "COMPLETED", f"{new}_4": "COMPLETED"}
    wait_until(lambda: user.states(new) == completed, what="both tasks in the accounting")
    user.cluster.wait(waits, accounted=True)
    assert user.states(waits) == {str(waits): "COMPLETED"}


def test_what_waits_for_tasks_follows_them(user):
    (user.work / "again").unlink(missing_ok=True)
    job_id = user.ended("--array=1-5", "tasks.sh", "x")
    of_task, of_all, of_each = (
        user.cluster.sbatch(*words, cwd=user.work)
        for words in (
            (f"--dependency=afterok:{job_id}_2", "slow.sh"),
            (f"--dependency=afterok:{job_id}", "slow.sh"),
            ("--array=1-5", f"--dependency=aftercorr:{job_id}", "slow.sh"),
        )
    )
    (user.work / "again").touch()
    said = user.nimo("again", f"{job_id}_2", "--submit").stdout
    new = int(re.match(r"Submitted batch job (\d+) for job ", said)[1])
    assert f"Job {of_task} waits for the new one now: afterok:{new}_2\n" in said
    assert f"Job {of_all} waits as before: " in said
    # Slurm tells the accounting of a job once nothing but nodes keeps it.
    queued = user.cluster.run("squeue", "-h", "-j", str(of_all), "-o", "%T")
    assert queued.stdout.split() == ["PENDING"]
    newer, said = user.again(job_id)
    assert f"Job {of_all} waits for the new one now: afterok:{newer}\n" in said
    for one in (of_task, of_all, of_each):
        user.cluster.wait(one, accounted=True)
        assert set(user.states(one).values()) == {"COMPLETED"}
    assert len(user.states(of_each)) == 5


def test_a_job_that_ran_out_of_memory_gets_more_of_it_alone(user):
    job_id = user.ended("hungry.sh")
    assert "hungry.sh" in user.nimo("why", str(job_id)).stdout
    new, _ = user.again(job_id)
    newer, _ = user.again(new) if user.states(new) != {str(new): "COMPLETED"} else (new, "")
    assert user.states(newer) == {str(newer): "COMPLETED"}
    before, after = (user.request(one, "ReqMem", "TimelimitRaw") for one in (job_id, newer))
    assert (before[0], after[0]) == ("60M", "240M")
    assert before[1] == after[1]


def test_a_job_that_reached_its_limit_gets_a_longer_one_alone(user):
    job_id = user.ended("slow.sh", "75")
    assert user.states(job_id) == {str(job_id): "TIMEOUT"}
    (user.work / "slow.sh").unlink()  # Slurm has it
    told = user.nimo("why", str(job_id)).stdout
    assert "reached its time limit of 1 min" in told
    assert "  | begun" in told
    new, _ = user.again(job_id)
    assert user.states(new) == {str(new): "COMPLETED"}
    assert user.request(new, "TimelimitRaw", "JobName") == ("2", "slow.sh")


def told_of(user, job_id, *words):
    """Ask why until all of these words are said; give what is said, in one line."""
    told = []

    def is_told():
        told.append(" ".join(user.nimo("why", str(job_id), check=False).stdout.split()))
        return all(word in told[-1] for word in words)

    wait_until(is_told, timeout_s=60, what=f"{words!r} in {told}")
    return told[-1]


def runs(user, job_id):
    """Wait until a job runs."""
    words = ("squeue", "-h", "-j", str(job_id), "-o", "%T")
    wait_until(lambda: "RUNNING" in user.cluster.run(*words).stdout, what="the job to run")


def test_why_says_that_a_job_whose_node_failed_runs_again(user):
    job_id = user.cluster.sbatch("--requeue", "-w", "n1", "long.sh", cwd=user.work)
    runs(user, job_id)
    user.cluster.run("scontrol", "update", "nodename=n1", "state=down", "reason=test")
    try:
        told = told_of(user, job_id, "was on a node that failed", f"Job {job_id} (long.sh) waits: ")
        assert "Slurm has put it back into the queue, where it waits to run again. Job" in told
        assert "nimo again" not in told
        refused = user.nimo("again", str(job_id), check=False).stderr
        assert "in the queue again: Slurm runs it once more by itself" in refused
    finally:
        # Slurm may have done so by itself.
        user.cluster.run("scontrol", "update", "nodename=n1", "state=resume", check=False)
        user.cluster.run("scancel", str(job_id))


def test_why_says_that_a_job_that_was_preempted_runs_again(user):
    job_id = user.cluster.sbatch("--requeue", "--exclusive", "-N2", "long.sh", cwd=user.work)
    runs(user, job_id)
    words = ("-p", "urgent", "--exclusive", "-N2", "long.sh")
    urgent = user.cluster.sbatch(*words, cwd=user.work)
    try:
        told = told_of(
            user,
            job_id,
            "was preempted by a job of higher priority",
            f"Job {job_id} (long.sh) waits: ",
        )
        assert "Slurm has put it back into the queue, where it waits to run again. Job" in told
    finally:
        user.cluster.run("scancel", str(job_id), str(urgent))


def test_what_is_not_there_or_done_is_refused(user):
    done = user.ended("tasks.sh")
    assert f"job {done} completed" in user.nimo("again", str(done), check=False).stderr
    gone = user.nimo("again", "999999", check=False)
    assert (gone.returncode, "no job 999999" in gone.stderr) == (3, True)
