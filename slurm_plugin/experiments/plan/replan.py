"""Plans the remaining steps of a plan again, after those that have begun or ended.  Pure.

Steps that have begun stay, with their remaining time; the others may be placed anew.
Runs of one application share the error of its curve: where they took longer than planned, those to
come are expected to, too.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean

from slurm_plugin.experiments.plan.chain import PlannedJob, jobs
from slurm_plugin.experiments.plan.plans import Plan, judged, plans
from slurm_plugin.experiments.plan.run_times import TaskEstimate
from slurm_plugin.experiments.plan.schedule import PlanningProblem, Step, TaskOption, build
from slurm_plugin.experiments.plan.state_file import ACTIVE, COMPLETED, Submitted
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
            gone_s = now_s - submitted.started_s.get(job.name, now_s)
            steps[job.name] = _from(step, now_s, step.estimate.left(gone_s))
        elif not step.nodes and step.task in steps and submitted.state(job.name) in ACTIVE:
            ready_s = max([now_s, *(steps[name].end_s for name in step.needs if name in steps)])
            steps[job.name] = replace(
                step, start_s=ready_s, ready_s=ready_s, end_s=ready_s + step.estimate.time_s
            )
    return list(steps.values())


def factors(submitted: Submitted) -> dict[str, float]:
    """Factor by which runs of each application take longer than planned, from those that ended.

    The errors r of n runs are the error of the curve (standard deviation c) and one of their own
    (o): the curve's is expected to be n c² / (n c² + o²) of their mean.
    """
    by_group: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for job in submitted.jobs:
        estimate = job.step.estimate
        ran_s = submitted.ended_s.get(job.name, 0.0) - submitted.started_s.get(job.name, 0.0)
        if (
            submitted.state(job.name) == COMPLETED
            and job.step.nodes
            and estimate.common
            and ran_s > 0
        ):
            error = log(ran_s / estimate.time_s)
            whole = estimate.up if error > 0 else estimate.down
            by_group[estimate.group].append(
                (error, estimate.common**2, max(whole**2 - estimate.common**2, 0))
            )
    made = {}
    for group, errors in by_group.items():
        number = len(errors)
        mean, common, own = (fmean(one[i] for one in errors) for i in range(3))
        made[group] = exp(mean * number * common / (number * common + own))
    return made


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
