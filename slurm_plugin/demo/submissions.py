"""Submissions of the demo: what nimod is asked, and how the job then runs."""

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from predictor.waits.easy import Engine, JobShape
from slurm_plugin.demo import history
from slurm_plugin.demo.sandbox import RUNNING, job_script
from slurm_plugin.nimod import client
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.request_messages import Ask, Job

_TIMEOUT_S = 5.0
#: Shares of their limits that the other jobs take, from and to.
_USED = 0.3, 0.9
#: The scheduler itself takes so long.
_STARTING_S = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSubmission:
    """One made-up sbatch: the application, the requested nodes, and other options."""

    application: history.Application
    nodes: str = ""  #: instead of the script's own
    array: str = ""
    deadline: str = ""
    place: str = ""  #: directory that it is submitted from; empty: the user's own

    def job(self, uid: int) -> Job:
        """Make the fields that job_submit.lua reads of the job."""
        return Job(
            user_id=uid,
            user_name=self.application.user,
            name=self.application.name,
            account=self.application.account,
            partition=self.application.partition,
            min_nodes=self.low,
            max_nodes=self.high,
            ntasks_per_node=history.CORES,
            time_limit=self.application.script_min,
            array_inx=self.array,
            deadline=self.deadline,
            work_dir=self.work_dir,
            comment=self.application.comment,
            argv=self.application.argv,
            script=job_script(self.application),
        )

    @property
    def work_dir(self) -> str:
        """Directory that it is submitted from."""
        return self.place or f"/scratch/{self.application.user}"

    @property
    def range(self) -> str:
        """Requested node counts, ``2-16`` or ``4``."""
        return self.nodes or self.application.script_nodes

    @property
    def low(self) -> int:
        """Fewest nodes requested."""
        return int(self.range.partition("-")[0])

    @property
    def high(self) -> int:
        """Most nodes requested: Slurm gives them where they are free."""
        return int(self.range.rpartition("-")[2])

    @property
    def line(self) -> str:
        """Command line of sbatch."""
        options = (("-N ", self.nodes), ("--array=", self.array), ("--deadline=", self.deadline))
        arguments = [name + value for name, value in options if value]
        return " ".join(["sbatch", *arguments, self.application.command])


def submit(socket: Path, job: Job) -> Answer:
    """Ask nimod about a job as the hook does.

    Raises slurm_plugin.nimod.client.Unreachable: nimod does not answer.
    """
    return client.exchange(socket, Ask(op="decide", via="job_submit", job=job), Answer, _TIMEOUT_S)


def run(
    submission: DemoSubmission, answer: Answer, *, job_id: int, submit_s: int, uid: int, rng: Random
) -> history.MadeJob:
    """Run a job beside those of the made-up cluster, and return its accounting.

    EASY backfilling starts it, on the node count that it was given.
    """
    change = answer.set
    nodes = (change.min_nodes if change else None) or submission.high
    own = submission.application
    arrival = history.Arrival(submit_s, replace(own, trouble=0.0, limit_min=own.script_min), nodes)
    done = history.start_run(arrival, job_id=job_id, uid=uid, free_s=[0] * history.NODES, rng=rng)
    shapes = [
        JobShape(count, 3600.0 * hours, 3600.0 * (hours * rng.uniform(*_USED)))
        for count, hours in RUNNING
    ]
    shapes.append(JobShape(nodes, 60.0 * submission.application.script_min, done.elapsed_s))
    schedule = Engine(history.NODES).run([0.0] * len(shapes), lambda job, _: shapes[job])
    start_s = submit_s + round(schedule.start_s[-1]) + _STARTING_S
    return replace(
        done,
        start_s=start_s,
        end_s=start_s + round(done.elapsed_s),
        admin_comment=answer.admin_comment,
        submit_line=submission.line,
        work_dir=submission.work_dir,
    )
