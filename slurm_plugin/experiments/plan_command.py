"""``nimo lab plan``: plan a workflow; submit and follow it."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sacct_ingest.errors import ConfigError, NimoError, NoHistory
from sacct_ingest.files.atomic_file import alone
from sacct_ingest.text.durations import duration_range, duration_text
from sacct_ingest.text.time_spec import parse_time
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.cli.progress import waiting
from slurm_plugin.experiments import held_jobs
from slurm_plugin.experiments.campaign import Campaign, spent
from slurm_plugin.experiments.plan import state_file
from slurm_plugin.experiments.plan.chain import PlannedJob, command_line, job_name, jobs
from slurm_plugin.experiments.plan.copy_records import CopyRecorder
from slurm_plugin.experiments.plan.followed_plan import FollowedPlan, waits_elsewhere
from slurm_plugin.experiments.plan.workflow import Workflow
from slurm_plugin.experiments.plan.workflow_file import parse, text_of
from slurm_plugin.text import table_columns as cols
from slurm_plugin.text.formatting import clock, hours, percent, wrapped
from slurm_plugin.text.terminal_size import terminal_width

if TYPE_CHECKING:
    from slurm_plugin.experiments.plan.plans import Plan
    from slurm_plugin.experiments.plan.replan import Replan
    from slurm_plugin.experiments.plan.schedule import PlanningProblem

TOO_LATE = 4
_SHOWN = 6  #: plans beside the first
#: Share of the time by which the end of all differs from that of the last step shown.
_NOTED = 0.01
_PLAN = ("label", "end_s", "low_s", "high_s", "confidence", "chance", "node_hours", "proven",
         "doubts")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Plan, and submit or follow where that is asked for."""
    if args.submit and args.dry_run:
        raise ConfigError("--submit and --dry-run: give one of them")
    if not 0 < args.confidence < 1:
        raise ConfigError(f"--confidence {args.confidence}: give a share between 0 and 1")
    state = state_file.path_for(args.workflow)
    if not (args.submit or args.follow):
        return _plan(args, state)
    with alone(state, program="'nimo lab plan'", fix="submit from a folder that you may write to"):
        return _plan(args, state) if args.submit else _follow(state, args)


def _plan(args: argparse.Namespace, state: Path) -> int:
    from slurm_plugin.experiments.plan.plans import plans  # noqa: PLC0415 - numpy takes a second

    text = text_of(args.workflow, args.site, args.trace)
    flow = parse(text, name=str(args.workflow))
    now_s = time.time()
    deadline_s = _deadline(args, flow, now_s)
    with waiting("planning"):
        problem = _problem(args, flow, None)
        try:
            ranked = plans(problem, deadline_s=deadline_s, confidence=args.confidence)
        except LookupError as error:
            raise NoHistory(f"{args.workflow}: {error.args[0]}") from error
    chain = jobs(
        problem.workflow,
        ranked[0].schedule,
        rooms=problem.rooms,
        deadline_s=deadline_s,
        hard=args.hard,
    )
    if args.json and not args.submit:
        print(json.dumps(as_json(ranked, chain, problem.now_s)))
    elif not args.json:
        print("\n".join(render(ranked, problem.now_s, deadline_s, width=terminal_width())))
        print("\n" + "\n".join(lines_of(flow.name, chain)))
    if args.submit:
        return _submit(args, flow, text, chain, deadline_s, state)
    late = deadline_s is not None and ranked[0].high_s > deadline_s
    return TOO_LATE if late else 0


def _problem(
    args: argparse.Namespace, flow: Workflow, submitted: state_file.Submitted | None
) -> PlanningProblem:
    # Loaded here: numpy and scipy take a second that is neither the help's nor the plan's.
    from slurm_plugin.experiments.plan import site  # noqa: PLC0415

    return site.problem(
        flow, load_config(args), args.workflow.parent, empty=args.empty, submitted=submitted
    )


def _again(args: argparse.Namespace, submitted: state_file.Submitted) -> Replan | None:
    """Plan what is left of the workflow as it was submitted."""
    flow = parse(submitted.text, name=str(args.workflow))
    problem = _problem(args, flow, submitted)
    from slurm_plugin.experiments.plan.replan import plan_again  # noqa: PLC0415

    try:
        return plan_again(problem, submitted)
    except LookupError as error:
        raise NoHistory(str(error.args[0])) from error


def _deadline(args: argparse.Namespace, flow: Workflow, now_s: float) -> float | None:
    if args.deadline is not None:
        return float(args.deadline)
    if not flow.deadline:
        return None
    try:
        return float(parse_time(flow.deadline, now_s=now_s))
    except ValueError as error:
        raise ConfigError(f"{args.workflow}: deadline: {error}") from error


def _submit(
    args: argparse.Namespace,
    flow: Workflow,
    text: str,
    chain: Sequence[PlannedJob],
    deadline_s: float | None,
    state: Path,
) -> int:
    before = state_file.load(state)
    if before and before.steps and before.unfinished:
        raise NimoError(
            f"{state}: this workflow was submitted before: follow it with --follow, or remove the "
            "file once its jobs are gone"
        )
    if unknown := [task.name for task in flow.tasks.values() if not task.command]:
        raise ConfigError(f"{args.workflow}: tasks.{unknown[0]}: its command is not known")
    if (elsewhere := waits_elsewhere(chain)) and not args.follow:
        raise ConfigError(
            f"{elsewhere[0]} needs a job of another cluster, which Slurm cannot wait for: add "
            "--follow"
        )
    submitted = state_file.Submitted(
        workflow=flow.name,
        deadline_s=deadline_s,
        submitted_s=time.time(),
        jobs=list(chain),
        text=text,
        confidence=args.confidence,
        hard=args.hard,
        budget=args.budget,
        overrun_s=held_jobs.overrun_s(held_jobs.slurm_config()) if args.budget else 0.0,
    )
    return _made(submitted, state, args)


def _follow(state: Path, args: argparse.Namespace) -> int:
    submitted = state_file.load(state)
    if submitted is None:
        raise NimoError(f"{state}: no such file, so this workflow was not submitted; use --submit")
    if args.budget is not None:
        submitted.budget = args.budget
    return _made(submitted, state, args)


def _made(submitted: state_file.Submitted, state: Path, args: argparse.Namespace) -> int:
    """Submit what can be submitted, and follow it where that is asked for."""
    config = load_config(args)
    progress = sys.stderr if args.json else sys.stdout

    def tell(text: str) -> None:
        print(text, file=progress, flush=True)

    flow = FollowedPlan(
        submitted,
        state,
        jobs=held_jobs.HeldJobs(),
        tell=tell,
        again=f"nimo lab plan --follow {args.workflow}",
        planner=None if args.fixed else partial(_again, args),
        slip_s=args.slip,
    )
    copies = CopyRecorder(parse(submitted.text, name=str(args.workflow)), config, tell)

    def report(run: state_file.StepRun) -> None:
        tell(flow.line(run))
        copies.record(submitted, run)

    campaign = Campaign.of_command(flow, report, leave=args.leave)
    if args.follow:
        ended = campaign.follow()
    else:
        campaign.begin()
        ended = "submitted"
    states = Counter(submitted.state(job.name) for job in submitted.jobs)
    if args.json:
        print(json.dumps(_submitted_json(flow, ended)))
    elif args.follow:
        print(", ".join(f"{number} {state}" for state, number in states.items()))
    good = {state_file.COMPLETED} if args.follow else {state_file.COMPLETED, state_file.PENDING}
    return 0 if states.keys() <= good else 1


def _submitted_json(flow: FollowedPlan, ended: str) -> dict[str, Any]:
    own = flow.submitted
    names = ("job_id", "where", "nodes", "state", "started_s", "ended_s", "reason")
    steps = {
        name: {field: getattr(run, field) for field in names} for name, run in own.steps.items()
    }
    return {"ended": ended, "node_hours": spent(flow.runs), "steps": steps}


def render(
    plans: Sequence[Plan], now_s: float, deadline_s: float | None, *, width: int = cols.WIDTH
) -> Iterator[str]:
    """Lines about plans, the first of them in full, as wide as the terminal."""
    first = plans[0]
    text = (
        f"{first.label}: {duration_text(first.end_s - now_s)} from now, at {clock(first.end_s)} "
        f"({duration_range(first.low_s - now_s, first.high_s - now_s)}), "
        f"{hours(first.node_hours)} node-hours"
    )
    if first.proven:
        text += "; no plan is better"
    for name, why in first.doubts.items():
        text += f"\nDOUBTFUL {name}: {why}"
    if deadline_s is not None and first.chance is not None:
        late = "MISSED" if first.low_s > deadline_s else "NOT SURE"
        verdict = "met" if first.high_s <= deadline_s else late
        chance = percent(first.chance)
        text += f"\ndeadline {clock(deadline_s)}: {verdict}, in {chance} of the simulated cases"
    yield wrapped(text, width)
    yield ""
    yield steps_table(first, now_s).text(width=width)
    for step in first.schedule.steps:
        for file, storage in step.remote:
            yield wrapped(f"{step.name} reads {file} at {storage}", width)
    yield ""
    for line in _drawn(first, now_s):
        yield wrapped(line, width)
    yield wrapped(f"critical path: {' -> '.join(step.name for step in first.path)}", width)
    if len(plans) > 1:
        yield ""
        yield _others(plans, now_s, width)


def lines_of(workflow: str, chain: Sequence[PlannedJob]) -> Iterator[str]:
    """Give the command lines with which a chain would be submitted; ids are shown as names."""
    ids = {job.name: f"<{job.name.replace(' ', '-')}>" for job in chain}
    clusters = {job.name: job.cluster for job in chain}
    for job in chain:
        own = {name: ids[name] for name in job.needs if clusters[name] == job.cluster}
        yield shlex.join(command_line(job, job_name(workflow, job.name), own))
        yield from (f"    {line}" for line in job.script.splitlines()[2:])


def as_json(plans: Sequence[Plan], chain: Sequence[PlannedJob], now_s: float) -> dict[str, Any]:
    """Plans as numbers, the first with its steps."""
    return {
        "now_s": now_s,
        "plans": [_plan_json(plan) for plan in plans],
        "sbatch": [{"name": job.name, "options": job.options, "needs": job.needs} for job in chain],
    }


def _plan_json(plan: Plan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in _PLAN} | {
        "critical_path": [step.name for step in plan.path],
        "why_not": plan.why,
        "steps": [
            {"name": step.name, "place": step.pool, "read_in_place": dict(step.remote)}
            | dict(step.resources)
            | {name: getattr(step, name) for name in ("nodes", "start_s", "end_s", "wait_s")}
            for step in plan.schedule.steps
        ],
    }


def steps_table(plan: Plan, now_s: float) -> cols.Table:
    """Make the table of a plan's steps, in seconds from now."""
    from slurm_plugin.experiments.learn.description import amount  # noqa: PLC0415

    critical = {step.name for step in plan.path}

    def after(name: str, title: str, get: Callable[[Any], float], worth: int) -> cols.Column:
        return cols.Column(name, title, get, cols.SECONDS, worth=worth)

    def resource(name: str) -> cols.Column:
        return cols.Column(
            name, name, lambda step: dict(step.resources).get(name), amount(name), worth=9
        )

    columns = [
        cols.Column(
            "critical",
            "",
            lambda step: step.name in critical,
            lambda value: "*" if value else "",
            left=True,
            meaning="1: on the critical path",
        ),
        cols.text_column("step", "step", value=lambda step: step.name),
        cols.text_column("where", "where", value=lambda step: step.pool),
        cols.Column("nodes", "nodes", lambda step: step.nodes or None),
        *map(resource, dict(one for step in plan.schedule.steps for one in step.resources)),
        after("start_s", "start", lambda step: step.start_s - now_s, 8),
        after("wait_s", "wait", lambda step: step.wait_s, 6),
        after("time_s", "takes", lambda step: step.estimate.time_s, 7),
        after("end_s", "end", lambda step: step.end_s - now_s, cols.ALWAYS),
    ]
    return cols.Table(columns, plan.schedule.steps)


def _drawn(plan: Plan, now_s: float) -> Iterator[str]:
    """Explain an expected end that is later than the last step of the table."""
    if plan.end_s - plan.schedule.end_s > _NOTED * (plan.end_s - now_s):
        yield (
            "Each step is shown with its median; the latest of several is later than that: half of "
            f"the cases end by {duration_text(plan.end_s - now_s)}."
        )


def plans_table(plans: Sequence[Plan], now_s: float) -> cols.Table:
    """Plans side by side, in seconds from now."""
    sure = percent(plans[0].confidence)
    columns = [
        cols.text_column("plan", "plan", value=lambda plan: plan.label),
        cols.Column("end_s", "ends after", lambda plan: plan.end_s - now_s, cols.SECONDS),
        cols.Column(
            "high_s", f"{sure} by", lambda plan: plan.high_s - now_s, cols.SECONDS, worth=5
        ),
        cols.Column("node_hours", "node-hours", as_text=cols.AMOUNT, worth=6),
        cols.Column("chance", "in time", as_text=cols.SHARE, worth=7),
    ]
    return cols.Table(columns, plans)


def _others(plans: Sequence[Plan], now_s: float, width: int) -> str:
    """Compare plans; what speaks against each stands below the table."""
    shown = plans[: _SHOWN + 1]
    table = plans_table(shown, now_s).text(width=width)
    against = (f"{plan.label}: {plan.why or 'taken'}" for plan in shown)
    return "\n".join([table, "", *(wrapped(line, width) for line in against)])
