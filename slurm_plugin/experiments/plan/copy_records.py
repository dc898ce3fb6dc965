"""What a plan's copies moved, and how fast: into the series that transfers are predicted from.

A copy times itself and says so in its job's comment, which squeue shows for some minutes after it
ended, and sacct where the accounting keeps comments.  Where there is none (no scontrol on the
node), times are those of its job, and the size is what the workflow says.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sacct_ingest.errors import SlurmError, StoreError
from sacct_ingest.probes.local import Activity, from_load
from sacct_ingest.records import Probe, Resource
from slurm_plugin.config.settings import Config
from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.plan.chain import REPORT, place_of_copy
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
    source, target = link_ends(flow, step.source, step.target)
    report = REPORT.search(comment)
    if report is None:
        size, began_s, ended_s = flow.files[step.file].size_bytes, run.started_s, run.ended_s
    else:
        size, began_s, ended_s = (float(report[name]) for name in ("bytes", "began", "ended"))
    if began_s is None or ended_s is None or not ended_s > began_s or not size > 0:
        return []
    moved = Probe(
        resource=Resource.TRANSFER,
        source=source,
        target=target,
        at_s=began_s,
        value=size / (ended_s - began_s),
        size_bytes=int(size),
        took_s=ended_s - began_s,
    )
    if report is None:
        return [moved]
    cpus, load = int(report["cpus"]), float(report["load"])
    activity = Activity(cpus=cpus, load=load, running=0.0, user=0.0, system=0.0, idle=0.0)
    end = _end_of_node(flow, step, report["node"])
    loaded = Probe(resource=Resource.CPU, source=end, at_s=began_s, value=from_load(activity))
    return [moved, loaded] if end else [moved]


def _end_of_node(flow: Workflow, step: Step, node: str) -> str:
    """Name the end of a copy's link that the node stands for, on which it ran; empty: none.

    A storage without a host is the nodes that are near to it.
    """
    near = place_of_copy(flow, step).storage
    ends = link_ends(flow, step.source, step.target)
    for storage, end in zip((step.source, step.target), ends, strict=True):
        if storage == near and flow.storages[storage].host in ("", node):
            return end
    return ""


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
        where, job = held_jobs.on(run.where), f"--jobs={run.job_id}"
        for argv in (
            ["squeue", "-h", "-t", "all", "-o", "%k", job, *where],
            ["sacct", "-n", "-X", "-P", "-o", "Comment", job, *where],
        ):
            with suppress(SlurmError):
                if REPORT.search(comment := self.ask(argv)):
                    return comment
        return ""
