"""Submissions without Slurm: the hook's requests to nimod, and the runs of the jobs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from msgspec import structs

from predictor.waits.easy import Engine, JobShape
from sacct_ingest.records import JobRun
from slurm_plugin.demo.history import CORES, NODES, Application, start_run
from slurm_plugin.demo.sandbox import job_script
from slurm_plugin.demo.stand_ins import RUNNING
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

    application: Application
    nodes: str = ""  #: instead of the script's own
    array: str = ""
    deadline: str = ""

    def job(self, uid: int) -> Job:
        """Make the fields that job_submit.lua reads of the job."""
        return Job(
            user_id=uid,
            user_name=self.application.user,
            name=self.application.name,
            account=self.application.account,
            partition=self.application.partition,
            min_nodes=self.low,
            max_nodes=int(self.range.rpartition("-")[2]),
            ntasks_per_node=CORES,
            time_limit=self.application.script_min,
            array_inx=self.array,
            deadline=self.deadline,
            work_dir=work_dir_of(self.application),
            comment=self.application.comment,
            argv=self.application.argv,
            script=job_script(self.application),
        )

    @property
    def range(self) -> str:
        """Requested node counts, ``2-16`` or ``4``."""
        return self.nodes or self.application.script_nodes

    @property
    def low(self) -> int:
        """Fewest nodes requested."""
        return int(self.range.partition("-")[0])

    @property
    def line(self) -> str:
        """Command line of sbatch."""
        options = (("-N ", self.nodes), ("--array=", self.array), ("--deadline=", self.deadline))
        arguments = [name + value for name, value in options if value]
        return " ".join(["sbatch", *arguments, self.application.command])


def submit(socket: Path, jobs: Iterable[Job]) -> list[Answer]:
    """Ask nimod about each job as the hook does.

    Raises slurm_plugin.nimod.client.Unreachable: nimod does not answer.
    """
    asks = (Ask(op="decide", via="job_submit", job=job) for job in jobs)
    return [client.exchange(socket, ask, Answer, _TIMEOUT_S) for ask in asks]


def run(
    planned: Sequence[DemoSubmission],
    answers: Sequence[Answer],
    *,
    first_id: int,
    submit_s: int,
    uid: int,
    rng: Random,
) -> list[JobRun]:
    """Run the jobs beside those of the made-up cluster, and return their accounting.

    EASY backfilling starts them, on the node counts that they were given.
    """
    done = [
        _ended(one, answer, job_id=first_id + number, submit_s=submit_s, uid=uid, rng=rng)
        for number, (one, answer) in enumerate(zip(planned, answers, strict=True))
    ]
    shapes = [
        *(_shape(nodes, hours * rng.uniform(*_USED), hours) for nodes, hours in RUNNING),
        *(
            JobShape(job.nodes, 60.0 * one.application.script_min, job.elapsed_s)
            for one, job in zip(planned, done, strict=True)
        ),
    ]
    schedule = Engine(NODES).run([0.0] * len(shapes), lambda job, _: shapes[job])
    after_s = [round(one) for one in schedule.start_s[-len(done) :]]
    return [
        structs.replace(
            job,
            start_s=submit_s + start_s + _STARTING_S,
            end_s=submit_s + start_s + _STARTING_S + round(job.elapsed_s),
        )
        for job, start_s in zip(done, after_s, strict=True)
    ]


def _shape(nodes: int, hours: float, limit_hours: float) -> JobShape:
    return JobShape(nodes, 3600.0 * limit_hours, 3600.0 * hours)


def _ended(
    submission: DemoSubmission, answer: Answer, *, job_id: int, submit_s: int, uid: int, rng: Random
) -> JobRun:
    """Run a job by itself."""
    change = answer.set
    nodes = (change.min_nodes if change else None) or submission.low
    done = start_run(
        replace(submission.application, trouble=0.0),
        nodes=nodes,
        job_id=job_id,
        submit_s=submit_s,
        uid=uid,
        free_s=[0] * NODES,
        rng=rng,
    )
    return structs.replace(
        done,
        admin_comment=answer.admin_comment,
        submit_line=submission.line,
        work_dir=work_dir_of(submission.application),
    )


def work_dir_of(application: Application) -> str:
    """Directory that the demo's jobs are submitted from."""
    return f"/scratch/{application.user}"
