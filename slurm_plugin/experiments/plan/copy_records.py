"""What a plan's copies moved, and how fast: into the series that transfers are predicted from.

A copy times itself and says so in its job's comment, which squeue shows for some minutes after it
ended, and sacct where the accounting keeps comments.  Where there is none (no scontrol on the
node), times are those of its job, and the size is what the workflow says.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sacct_ingest.errors import SlurmError, StoreError
from sacct_ingest.probes.reported_copies import reported, transfer
from sacct_ingest.records import Probe
from slurm_plugin.config.settings import Config
from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.plan.schedule import Step
from slurm_plugin.experiments.plan.state_file import COMPLETED, StepRun, Submitted
from slurm_plugin.experiments.plan.workflow import Workflow, link_ends
from slurm_plugin.store_access import open_store


def measured(flow: Workflow, step: Step, run: StepRun, comment: str) -> list[Probe]:
    """Give what a copy that completed says of its link, and of the CPUs where it ran.

    flow: the workflow whose step it was.
    run: its job; without a report its times count, which are whole seconds.
    comment: of its job.
    """
    probes = reported(comment)
    if probes is not None:
        return probes
    if run.started_s is None or run.ended_s is None:
        return []
    ends = link_ends(flow, step.source, step.target)
    return transfer(*ends, flow.files[step.file].size_bytes, run.started_s, run.ended_s)


@dataclass(slots=True)
class CopyRecorder:
    """Stores what copies measured; where that fails it tells so once.

    ask: asks Slurm for a job's comment.
    """

    flow: Workflow
    config: Config
    tell: Callable[[str], object]
    ask: Callable[[Sequence[str]], str] = held_jobs.command
    _silent: bool = False

    def record(self, submitted: Submitted, run: StepRun) -> None:
        """Store what a job measured that was a copy, and has completed."""
        steps = {job.name: job.step for job in submitted.jobs}
        step = steps.get(run.step)
        if step is None or step.nodes or run.state != COMPLETED:
            return
        probes = measured(self.flow, step, run, self._comment(run))
        try:
            if probes:
                with open_store(self.config) as store:
                    store.probes.add(probes)
        except StoreError as error:
            if not self._silent:
                self.tell(f"what copies measure is not stored: {error}")
            self._silent = True

    def _comment(self, run: StepRun) -> str:
        """Ask for a job's comment; empty: Slurm does not say."""
        where = held_jobs.on(run.where)
        job = f"--jobs={run.job_id}"
        for argv in (
            ["squeue", "-h", "-t", "all", "-o", "%k", job, *where],
            ["sacct", "-n", "-X", "-P", "-o", "Comment", job, *where],
        ):
            with suppress(SlurmError):
                if reported(comment := self.ask(argv)) is not None:
                    return comment
        return ""
