"""Plan a workflow: where each task runs, on how many nodes, and where its data has to be.

Prints the best plan, others beside it and the command lines of sbatch; --submit submits them.
The exit status is 4 where no plan keeps the deadline.
"""

import argparse
import importlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from predictor.types import PredictionTable
from sacct_ingest.errors import ConfigError, NimoError, NoHistory
from sacct_ingest.time_spec import parse_time
from slurm_plugin.cli.commands.predict import load as load_tables
from slurm_plugin.cli.commands.predict import matching
from slurm_plugin.cli.context import add_config, add_json, add_store, load_config, moment
from slurm_plugin.cli.stores import open_store
from slurm_plugin.config import Config
from slurm_plugin.plan import record
from slurm_plugin.plan.chain import Job, jobs
from slurm_plugin.plan.file import load
from slurm_plugin.plan.follow import failed, follow, summary
from slurm_plugin.plan.submit import submit_ready, waits_elsewhere
from slurm_plugin.plan.workflow import Workflow
from slurm_plugin.profile import Profile, profile
from slurm_plugin.reports.plan import as_json, lines_of, progress_text, render
from slurm_plugin.slurm.commands import run as run_slurm
from slurm_plugin.slurm.watch import Watch

if TYPE_CHECKING:
    from slurm_plugin.plan.plans import Plan
    from slurm_plugin.plan.schedule import Problem

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
        "--deadline", metavar="TIME", type=moment, help="when all has to have ended, as sbatch's"
    )
    parser.add_argument(
        "--confidence",
        metavar="SHARE",
        type=float,
        default=0.95,
        help="share of the cases in which the deadline is to be kept (default: 0.95)",
    )
    parser.add_argument("--submit", action="store_true", help="submit the first plan")
    parser.add_argument("--dry-run", action="store_true", help="only print; what is done anyway")
    parser.add_argument("--follow", action="store_true", help="wait for the jobs, say what they do")
    parser.add_argument(
        "--hard", action="store_true", help="let Slurm end jobs that can no longer be in time"
    )
    parser.add_argument(
        "--empty", action="store_true", help="plan for idle clusters, without asking Slurm"
    )
    parser.add_argument(
        "--interval", metavar="S", type=float, default=10.0, help="between looks (default: 10)"
    )
    add_json(parser)
    add_store(parser)
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Plan, and submit or follow where that is asked for."""
    if args.submit and args.dry_run:
        raise ConfigError("--submit and --dry-run: give one of them")
    if not 0 < args.confidence < 1:
        raise ConfigError(f"--confidence {args.confidence}: give a share between 0 and 1")
    kept = record.path_for(args.workflow)
    if args.follow and not args.submit:
        return _follow(record.load(kept), kept, args)
    flow = load(args.workflow)
    # Loaded here: numpy and scipy take a second that is neither the help's nor the plan's.
    importlib.import_module("slurm_plugin.plan.known")
    now_s = time.time()
    deadline_s = _deadline(args.deadline, flow, now_s)
    found = _planned(args, flow, deadline_s, now_s)
    chain = jobs(flow, found[0].schedule, deadline_s=deadline_s, hard=args.hard)
    if args.json:
        print(json.dumps(as_json(found, chain, now_s)))
    else:
        print("\n".join(render(found, now_s, deadline_s)))
        print("\n" + "\n".join(lines_of(chain)))
    late = deadline_s is not None and found[0].high_s > deadline_s
    if args.submit:
        return _submit(args, flow.name, chain, deadline_s, kept)
    return TOO_LATE if late else 0


def _planned(
    args: argparse.Namespace, flow: Workflow, deadline_s: float | None, now_s: float
) -> "list[Plan]":
    from slurm_plugin.plan.plans import plans  # noqa: PLC0415

    problem = _problem(args, flow, now_s)
    try:
        return plans(problem, deadline_s=deadline_s, confidence=args.confidence)
    except LookupError as error:
        raise NoHistory(f"{args.workflow}: {error.args[0]}") from error


def _problem(args: argparse.Namespace, flow: Workflow, now_s: float) -> "Problem":
    from predictor.transfer import transfer_time  # noqa: PLC0415
    from slurm_plugin.plan.known import BANDWIDTH, LATENCY, Copies, Learned, fit_samples  # noqa: PLC0415
    from slurm_plugin.plan.schedule import Problem  # noqa: PLC0415

    config = load_config(args)
    wanted = {
        task.name: task.application or f"{flow.name}/{task.name}"
        for task in flow.tasks.values()
        if not (task.run_times_s or task.samples)
    }
    measured = any(link.bandwidth_bytes_per_s is None for link in flow.links.values())
    tables: Mapping[str, PredictionTable] = {}
    series = []
    if wanted or measured:
        with open_store(config) as store:
            known = load_tables(store)
            tables = {task: matching(known, label)[0] for task, label in wanted.items()}
            series = list(store.probes.since(now_s - 30 * 86400.0)) if measured else []
    return Problem(
        workflow=flow,
        runs=Learned(
            tables=tables,
            fits=fit_samples(flow, args.workflow.parent),
            near={LATENCY: 1e-5, BANDWIDTH: 1e9},
        ),
        transfers=Copies(flow=flow, measured=partial(transfer_time, series, now_s=now_s)),
        free=_empty(flow, now_s) if args.empty else _free(flow, config, now_s),
        now_s=now_s,
    )


def _empty(flow: Workflow, now_s: float) -> dict[str, Profile]:
    """Nodes of places as the workflow has them, all free."""
    missing = [place.name for place in flow.places.values() if place.high is None]
    if missing:
        raise ConfigError(f"places.{missing[0]}: --empty asks nobody: say how many nodes it has")
    return {p.name: profile([(now_s, p.high or 0)]) for p in flow.places.values()}


def _free(flow: Workflow, config: Config, now_s: float) -> dict[str, Profile]:
    """Free nodes of all places over time, as Slurm has them."""
    free: dict[str, Profile] = {}
    for cluster in sorted({place.cluster for place in flow.places.values()}):
        look = Watch(
            time.time, cluster=cluster, how=config.snapshot, run=partial(_asked, cluster)
        ).look()
        for place in flow.places.values():
            if place.cluster != cluster:
                continue
            seen = look.partition(place.partition)
            if seen is None:
                known = ", ".join(look.partitions)
                raise ConfigError(
                    f"places.{place.name}: no partition {place.partition!r}; there are {known}"
                )
            free[place.name] = replace(seen.profile, times_s=(now_s, *seen.profile.times_s[1:]))
    return free


def _asked(cluster: str, argv: Sequence[str], *, timeout_s: float) -> str:
    """Run a command of Slurm's for a cluster; empty: the one that is near."""
    where = [f"--clusters={cluster}"] if cluster else []
    return run_slurm([argv[0], *where, *argv[1:]], timeout_s=timeout_s)


def _deadline(given: int | None, flow: Workflow, now_s: float) -> float | None:
    if given is not None:
        return float(given)
    if not flow.deadline:
        return None
    try:
        return float(parse_time(flow.deadline, now_s=now_s))
    except ValueError as error:
        raise ConfigError(f"deadline: {error}") from error


def _submit(
    args: argparse.Namespace, name: str, chain: Sequence[Job], deadline_s: float | None, kept: Path
) -> int:
    before = record.load(kept)
    if before and summary(before).keys() & {"PENDING", "RUNNING"}:
        raise NimoError(
            f"{kept}: this workflow was submitted before: follow it with --follow, or remove the "
            "file once its jobs are gone"
        )
    if (elsewhere := waits_elsewhere(chain)) and not args.follow:
        raise ConfigError(
            f"{elsewhere[0]} needs a job of another cluster, which Slurm cannot wait for: add "
            "--follow"
        )
    submitted = record.Submitted(
        workflow=name, deadline_s=deadline_s, submitted_s=time.time(), jobs=list(chain)
    )
    for job in submit_ready(submitted, kept):
        print(f"{job.name}: submitted as {submitted.ids[job.name]}")
    return _follow(submitted, kept, args) if args.follow else 0


def _follow(submitted: record.Submitted | None, kept: Path, args: argparse.Namespace) -> int:
    if submitted is None:
        raise NimoError(f"{kept}: not there: this workflow was not submitted; use --submit")
    for line in follow(submitted, kept, interval_s=args.interval):
        print(line, flush=True)
    print(progress_text(summary(submitted)))
    return 1 if failed(submitted) else 0
