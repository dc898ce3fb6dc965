"""How far the steps of a plan are off it, and when all will have ended.  Pure."""

from collections.abc import Callable
from dataclasses import replace

from sacct_ingest.text.durations import duration_text
from slurm_plugin.experiments.plan.chain import PlannedJob
from slurm_plugin.experiments.plan.state_file import COMPLETED, Submitted
from slurm_plugin.text.formatting import clock

#: Less than this is not reported as late, in seconds and as a share of what a step takes.
SLIP_S, SLIP = 30.0, 0.1
#: A step that waits for nodes is late again when it has waited so much longer, as a share.
_PATIENCE = 0.3


def late(submitted: Submitted, now_s: float, allowed: Callable[[PlannedJob], float]) -> str:
    """Name a step that is off the plan, and say how; empty: none is.

    allowed: by how many seconds a job may be off.
    """
    for job in submitted.unfinished:
        off_s = 0.0
        most_s = allowed(job)
        needs = job.needs
        if submitted.begun(job.name):
            off_s = _expected_end_s(submitted, job, now_s) - job.step.end_s
            how = f"is expected to end {off(off_s)}"
        elif submitted.job_id(job.name) and all(submitted.state(n) == COMPLETED for n in needs):
            ended_s = (submitted.ended_s(name) or 0.0 for name in needs)
            ready_s = max([submitted.submitted_s, *ended_s])
            off_s = max(now_s - job.step.start_s, 0.0)
            most_s = max(most_s, _PATIENCE * (now_s - ready_s))
            how = "waits for nodes longer than planned"
        if abs(off_s) > most_s:
            return f"{job.name} {how}"
    return ""


def rebased(submitted: Submitted, job: PlannedJob, now_s: float) -> PlannedJob:
    """Replace the planned times of a step by those expected now: so a delay is reported once."""
    step = job.step
    if submitted.begun(job.name):
        return replace(job, step=replace(step, end_s=_expected_end_s(submitted, job, now_s)))
    if submitted.pending(job.name) and step.start_s < now_s:
        moved = replace(step, start_s=now_s, end_s=now_s + step.estimate.time_s)
        return replace(job, step=moved)
    return job


def expected_end(submitted: Submitted) -> str:
    """Say when all will have ended, if the remaining steps take as long as planned."""
    ends: dict[str, float] = {}
    for job in submitted.jobs:
        before_s = max((ends[name] for name in job.needs if name in ends), default=0.0)
        likely_s = max(before_s, job.step.start_s) + job.step.end_s - job.step.start_s
        ended_s = submitted.ended_s(job.name)
        ends[job.name] = likely_s if ended_s is None else ended_s
    end_s = max(ends.values())
    return f"all ended by {clock(end_s)}{deadline_text(end_s, submitted.deadline_s)}"


def deadline_text(end_s: float, deadline_s: float | None) -> str:
    """Say whether a deadline, if there is one, is met."""
    if deadline_s is None:
        return ""
    verdict = "meets" if end_s <= deadline_s else "MAY MISS"
    return f"; that {verdict} the deadline {clock(deadline_s)}"


def off(seconds: float) -> str:
    """Say how far off the plan a time is.

    >>> off(-31.0)
    '31 s earlier than planned'
    """
    return f"{duration_text(abs(seconds))} {'later' if seconds > 0 else 'earlier'} than planned"


def _expected_end_s(submitted: Submitted, job: PlannedJob, now_s: float) -> float:
    started_s = submitted.started_s(job.name)
    gone_s = 0.0 if started_s is None else now_s - started_s
    return now_s + job.step.estimate.left(gone_s).time_s
