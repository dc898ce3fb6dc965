"""Plan a workflow: where each task runs, on how many nodes, and where its data goes.

It prints the best plan, alternatives, and the command lines of sbatch; --submit submits them.
The exit status is 4 where no plan meets the deadline.
"""

import argparse
import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sacct_ingest.errors import ConfigError, NimoError, NoHistory
from sacct_ingest.files.atomic_file import alone
from sacct_ingest.text.time_spec import parse_time
from slurm_plugin.cli.command_context import add_shared, load_config, moment
from slurm_plugin.cli.progress import waiting
from slurm_plugin.config.yaml_text import read_text
from slurm_plugin.experiments.plan import state_file
from slurm_plugin.experiments.plan.chain import PlannedJob, jobs
from slurm_plugin.experiments.plan.monitor import SLIP_S, PlanMonitor, failed, summary, unfinished
from slurm_plugin.experiments.plan.submit import submit_ready, waits_elsewhere
from slurm_plugin.experiments.plan.workflow import Workflow
from slurm_plugin.experiments.plan.workflow_file import load, parse
from slurm_plugin.experiments.plan_text import as_json, lines_of, progress_text, render
from slurm_plugin.text.table_columns import terminal_width

if TYPE_CHECKING:
    from slurm_plugin.experiments.plan.replan import Replan
    from slurm_plugin.experiments.plan.schedule import PlanningProblem

EXAMPLE = """\
  nimo plan workflow.yaml
  nimo plan --deadline now+2hours workflow.yaml
  nimo plan --submit --follow workflow.yaml
  nimo plan --follow workflow.yaml           # go on with one that was submitted"""
TOO_LATE = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("workflow", metavar="WORKFLOW", type=Path, help="YAML file")
    parser.add_argument(
        "--deadline", metavar="TIME", type=moment, help="time by which all tasks must have ended"
    )
    parser.add_argument(
        "--confidence",
        metavar="SHARE",
        type=float,
        default=0.95,
        help="probability of meeting the deadline (default: 0.95)",
    )
    parser.add_argument("--submit", action="store_true", help="submit the first plan")
    parser.add_argument("--dry-run", action="store_true", help="only print the plans (the default)")
    parser.add_argument("--follow", action="store_true", help="follow the jobs, print progress")
    parser.add_argument("--fixed", action="store_true", help="follow the plan without changing it")
    parser.add_argument(
        "--slip",
        metavar="S",
        type=float,
        default=SLIP_S,
        help=f"allowed difference from the plan, besides a tenth of a step's time ({SLIP_S:g} s)",
    )
    parser.add_argument(
        "--hard", action="store_true", help="let Slurm end jobs that will miss the deadline"
    )
    parser.add_argument(
        "--empty", action="store_true", help="plan for idle clusters, without asking Slurm"
    )
    parser.add_argument(
        "--interval",
        metavar="S",
        type=float,
        default=10.0,
        help="seconds between two queries of the queue (default: 10)",
    )
    add_shared(parser, "json", "store", "config")


def run(args: argparse.Namespace) -> int:
    """Plan, and submit or follow where that is asked for."""
    if args.submit and args.dry_run:
        raise ConfigError("--submit and --dry-run: give one of them")
    if not 0 < args.confidence < 1:
        raise ConfigError(f"--confidence {args.confidence}: give a share between 0 and 1")
    state = state_file.path_for(args.workflow)
    if not (args.submit or args.follow):
        return _plan(args, state)
    with alone(state, program="'nimo plan'", fix="submit from a folder that you may write to"):
        return _plan(args, state) if args.submit else _follow(state_file.load(state), state, args)


def _plan(args: argparse.Namespace, state: Path) -> int:
    from slurm_plugin.experiments.plan.plans import plans  # noqa: PLC0415 - numpy takes a second

    flow = load(args.workflow)
    now_s = time.time()
    deadline_s = _deadline(args.deadline, flow, now_s)
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
    if args.json:
        print(json.dumps(as_json(ranked, chain, problem.now_s)))
    else:
        print("\n".join(render(ranked, problem.now_s, deadline_s, width=terminal_width())))
        print("\n" + "\n".join(lines_of(flow.name, chain)))
    if args.submit:
        return _submit(args, flow.name, chain, deadline_s, state)
    late = deadline_s is not None and ranked[0].high_s > deadline_s
    return TOO_LATE if late else 0


def _problem(
    args: argparse.Namespace, flow: Workflow, submitted: state_file.Submitted | None
) -> "PlanningProblem":
    # Loaded here: numpy and scipy take a second that is neither the help's nor the plan's.
    from slurm_plugin.experiments.plan import site  # noqa: PLC0415

    return site.problem(
        flow, load_config(args), args.workflow.parent, empty=args.empty, submitted=submitted
    )


def _again(args: argparse.Namespace, submitted: state_file.Submitted) -> "Replan | None":
    """Plan what is left of the workflow as it was submitted."""
    flow = parse(submitted.text, name=str(args.workflow))
    problem = _problem(args, flow, submitted)
    from slurm_plugin.experiments.plan.replan import plan_again  # noqa: PLC0415

    try:
        return plan_again(problem, submitted)
    except LookupError as error:
        raise NoHistory(str(error.args[0])) from error


def _deadline(chosen_s: int | None, flow: Workflow, now_s: float) -> float | None:
    if chosen_s is not None:
        return float(chosen_s)
    if not flow.deadline:
        return None
    try:
        return float(parse_time(flow.deadline, now_s=now_s))
    except ValueError as error:
        raise ConfigError(f"deadline: {error}") from error


def _submit(
    args: argparse.Namespace,
    name: str,
    chain: Sequence[PlannedJob],
    deadline_s: float | None,
    state: Path,
) -> int:
    before = state_file.load(state)
    if before and (before.ids or before.trying) and unfinished(before):
        raise NimoError(
            f"{state}: this workflow was submitted before: follow it with --follow, or remove the "
            "file once its jobs are gone"
        )
    if (elsewhere := waits_elsewhere(chain)) and not args.follow:
        raise ConfigError(
            f"{elsewhere[0]} needs a job of another cluster, which Slurm cannot wait for: add "
            "--follow"
        )
    submitted = state_file.Submitted(
        workflow=name,
        deadline_s=deadline_s,
        submitted_s=time.time(),
        jobs=list(chain),
        text=read_text(args.workflow),
        confidence=args.confidence,
        hard=args.hard,
    )
    for job in submit_ready(submitted, state):
        print(f"{job.name}: submitted as {submitted.ids[job.name]}", flush=True)
    return _follow(submitted, state, args) if args.follow else 0


def _follow(submitted: state_file.Submitted | None, state: Path, args: argparse.Namespace) -> int:
    if submitted is None:
        raise NimoError(f"{state}: no such file, so this workflow was not submitted; use --submit")
    follower = PlanMonitor(
        submitted=submitted,
        path=state,
        planner=None if args.fixed else partial(_again, args),
        slip_s=args.slip,
    )
    for line in follower.lines(args.interval):
        print(line, flush=True)
    print(progress_text(summary(submitted)))
    return 1 if failed(submitted) else 0
