"""Run times of tasks that never ran: guesses from jobs like them, for a plan's order alone."""

from msgspec import structs

from predictor.neighbours import Neighbours, words_of
from predictor.prediction_table import PredictionTable
from slurm_plugin.config.setting_types import Whose
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.submitted_job import SubmittedJob
from slurm_plugin.experiments.plan.workflow import Task
from slurm_plugin.protocol.request_messages import Job


def guess(
    past: Neighbours, task: Task, job: Job, label: str, config: Config
) -> PredictionTable | None:
    """Guess the run time of a task on its fewest nodes; None: there is no guess.

    It takes a time limit of the task's own: none is made of a guess.

    past: jobs of the site.
    job: the request that the task makes at its first place.
    label: name of its application.
    """
    if task.samples or not job.time_limit:
        return None
    words = words_of(label, task.command)
    asked = structs.replace(SubmittedJob.of(job, None).beside_others(job.partition), words=words)
    return past.table(
        job.user_name,
        asked,
        others=config.sharing.first_runs is Whose.SITE,
        confidence=config.fit.confidence,
    )
