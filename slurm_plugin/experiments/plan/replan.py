"""Plans the remaining steps of a plan again, after those that have begun or ended.  Pure.

Steps that have begun stay, with their remaining time; the others may be placed anew.
Runs of one application share the error of its curve: where they took longer than planned, those to
come are expected to, too.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean

from slurm_plugin.experiments.plan.chain import PlannedJob, jobs
from slurm_plugin.experiments.plan.plans import Plan, judged, plans
from slurm_plugin.experiments.plan.run_times import RunFactors, TaskEstimate
from slurm_plugin.experiments.plan.schedule import PlanningProblem, Step, TaskOption, build
from slurm_plugin.experiments.plan.state_file import COMPLETED, Submitted
from slurm_plugin.experiments.plan.workflow import DataAccess, ordered

#: A plan is exchanged for one that ends so much sooner or takes so much less, as shares of it ...
_WORTH = 0.05
_WORTH_S = 30.0  #: ... but not for less than this


@dataclass(frozen=True, slots=True)
class Replan:
    """The remaining jobs, each after those that it needs."""

    jobs: list[PlannedJob]
    plan: Plan
    before: Plan | None  #: what was planned, from now on; None: it is not possible any more
    changed: bool  #: whether another plan was taken


def plan_again(problem: PlanningProblem, submitted: Submitted) -> Replan | None:
    """Plan the steps that have not begun; None where there are none.

    problem: the workflow, the site as it is now, and the time; its free nodes are without those
        that jobs of the plan wait for.
    submitted: the submitted jobs and their states.
    Raises LookupError: the remaining steps cannot run anywhere.
    """
    left = _left(problem, submitted)
    done = {step.name for step in left.done}
    if left.workflow.tasks.keys() <= done:
        return None
    terms = {"deadline_s": submitted.deadline_s, "confidence": submitted.confidence}
    plan = plans(left, **terms)[0]  # type: ignore[arg-type]
    # The present plan's choices, from now on.
    flow = left.workflow
    steps = [job.step for job in submitted.jobs if job.name in flow.tasks and job.name not in done]
    place = {name: i for i, name in enumerate(flow.tasks)}
    order = sorted(steps, key=lambda step: (step.start_s, place[step.name]))
    chosen = {}
    for step in steps:
        in_place = any(flow.files[file].access is DataAccess.ANY for file, _ in step.remote)
        chosen[step.name] = TaskOption(step.pool, step.nodes, not in_place, step.resources)
    schedule = build(left, [step.name for step in order], chosen)
    before = judged(left, "as planned", schedule, **terms) if schedule else None  # type: ignore[arg-type]
    changed = before is None or worth_changing(plan, before, submitted.deadline_s, left.now_s)
    taken = plan if changed or before is None else before
    made = jobs(
        problem.workflow,
        taken.schedule,
        rooms=left.rooms,
        deadline_s=submitted.deadline_s,
        hard=submitted.hard,
    )
    return Replan([job for job in made if submitted.pending(job.name)], taken, before, changed)


def steps_begun(submitted: Submitted, now_s: float) -> list[Step]:
    """List the steps that stay, each with its remaining time from now on.

    Copies that bring a result home belong to the task that made it: they stay once it has begun.
    """
    steps: dict[str, Step] = {}
    for job in submitted.jobs:
        step = job.step
        if submitted.state(job.name) == COMPLETED:
            steps[job.name] = _from(step, now_s, TaskEstimate(0.0))
        elif submitted.begun(job.name):
            started_s = submitted.started_s(job.name)
            gone_s = 0.0 if started_s is None else now_s - started_s
            steps[job.name] = _from(step, now_s, step.estimate.left(gone_s))
        elif not step.nodes and step.task in steps and submitted.active(job.name):
            ready_s = max([now_s, *(steps[name].end_s for name in step.needs if name in steps)])
            steps[job.name] = replace(
                step, start_s=ready_s, ready_s=ready_s, end_s=ready_s + step.estimate.time_s
            )
    return list(steps.values())


def factors(submitted: Submitted) -> dict[str, RunFactors]:
    """Factors by which runs of each application take longer, from those that ended.

    Each is the mean error of the runs, as far as it is the curve's.  What was measured of a place
    when a run was planned, as the share of a CPU, may have been over when it began: a run between
    the idle estimate and the one with that says nothing against the latter.
    """
    by_group: dict[str, list[_RunError]] = defaultdict(list)
    for job in submitted.jobs:
        estimate = job.step.estimate
        ran_s = (submitted.ended_s(job.name) or 0.0) - (submitted.started_s(job.name) or 0.0)
        completed = submitted.state(job.name) == COMPLETED and ran_s > 0
        if completed and job.step.nodes and estimate.common:
            by_group[estimate.group].append(_RunError.of(estimate, ran_s))
    return {group: _factors(errors) for group, errors in by_group.items()}


@dataclass(frozen=True, slots=True)
class _RunError:
    """Errors of a run's log time, and the variances of its curve and of its own."""

    idle: float
    now: float
    common: float
    own: float

    @classmethod
    def of(cls, estimate: TaskEstimate, ran_s: float) -> "_RunError":
        idle_s = estimate.undisturbed_s
        between_s = min(max(ran_s, idle_s), max(estimate.time_s, idle_s))
        now = log(ran_s / between_s)
        whole = estimate.down if ran_s <= idle_s else estimate.up
        common = estimate.common**2
        return cls(log(ran_s / idle_s), now, common, max(whole**2 - common, 0))


def _factors(errors: Sequence[_RunError]) -> RunFactors:
    """Factors of n runs: errors of their curve (standard deviation c) and of their own (o).

    The curve's is expected to be n c² / (n c² + o²) of the mean of both.
    """
    common = len(errors) * fmean(one.common for one in errors)
    part = common / (common + fmean(one.own for one in errors))
    idle = fmean(one.idle for one in errors)
    now = fmean(one.now for one in errors)
    return RunFactors(exp(part * idle), exp(part * now))


def _left(problem: PlanningProblem, submitted: Submitted) -> PlanningProblem:
    """Problem of the remaining steps, after those that have begun."""
    flow = problem.workflow
    tasks = {name: task for name, task in flow.tasks.items() if not submitted.lost(name)}
    return replace(
        problem,
        workflow=ordered(replace(flow, tasks=tasks)),
        factors=factors(submitted),
        done=tuple(steps_begun(submitted, problem.now_s)),
        memo={},
    )


def _from(step: Step, now_s: float, left: TaskEstimate) -> Step:
    return replace(
        step, start_s=now_s, ready_s=now_s, end_s=now_s + left.time_s, estimate=left, needs=()
    )


def worth_changing(new: Plan, before: Plan, deadline_s: float | None, now_s: float) -> bool:
    """Whether a plan is so much better that it is worth a change.

    new, before: the plan made now, and what was planned, from now on.
    deadline_s: none: the new one ends a twentieth sooner, and half a minute.  Else one is in time
        and the other is not, or both are, and the new one takes a twentieth fewer node-hours.
    now_s: seconds since the epoch.
    """
    sooner_s = before.high_s - new.high_s
    sooner = sooner_s > max(_WORTH_S, _WORTH * (before.high_s - now_s))
    if deadline_s is None:
        return sooner
    in_time = [plan.high_s <= deadline_s for plan in (new, before)]
    if all(in_time):
        return new.node_hours < (1 - _WORTH) * before.node_hours
    return sooner or in_time[0]
