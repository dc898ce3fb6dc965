"""Learn an application by running its most informative jobs, within a budget.

A YAML file describes the application and its possible resources and inputs (docs/learning.md).  A
journal beside it records each run.  After an interruption, give the same command again.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sacct_ingest.errors import ConfigError
from slurm_plugin.cli.command_context import add_shared, load_config
from slurm_plugin.cli.numbers import positive
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import wrapped
from slurm_plugin.text.table_columns import terminal_width

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sacct_ingest.records import NodeProfile
    from slurm_plugin.config.settings import Config
    from slurm_plugin.experiments.learn.description import AssignmentGroup
    from slurm_plugin.experiments.learn.workbench import Workbench

EXAMPLE = """\
  nimo learn blast.yaml --dry-run
  nimo learn blast.yaml
  nimo learn blast.yaml --budget 20 --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("file", metavar="FILE", type=Path, help="description of the application")
    parser.add_argument("--dry-run", action="store_true", help="show the next run, submit nothing")
    parser.add_argument(
        "--budget", type=positive, metavar="NODE-HOURS", help="budget, instead of the one in FILE"
    )
    parser.add_argument(
        "--state", type=Path, metavar="FILE", help="journal of the runs (default: beside the file)"
    )
    add_shared(parser, "json", "store", "config")


def run(args: argparse.Namespace) -> int:
    """Learn, or show the design."""
    # Loaded here: scipy takes a second, and the help shall not.
    from slurm_plugin.experiments import learning_text as words  # noqa: PLC0415
    from slurm_plugin.experiments.learn.journal import alone  # noqa: PLC0415

    state = args.state or args.file.with_name(f"{args.file.stem}.learn.json")
    with alone(state):
        bench = _workbench(args, state)
        if args.dry_run:
            print(_design(bench, as_json=args.json))
            return 0
        ended = bench.run().value
    learned = bench.proposer.learned()
    runs, spent_node_h = len(bench.journal.trials), bench.spent_node_h
    if args.json:
        print(json.dumps({"ended": ended, "node_hours": spent_node_h, **asdict(learned)}))
    else:
        width = terminal_width()
        print(words.summary(learned, runs, spent_node_h, ended, width=width))
        if proposal := bench.proposer.propose():
            left = bench.description.budget - spent_node_h
            print(wrapped(words.too_dear(bench.reserved_node_h(proposal), left), width))
    return 0


def _workbench(args: argparse.Namespace, state: Path) -> "Workbench":
    from msgspec.structs import replace  # noqa: PLC0415

    from slurm_plugin.experiments import learning_text as words  # noqa: PLC0415
    from slurm_plugin.experiments.learn import description, jobs  # noqa: PLC0415
    from slurm_plugin.experiments.learn.assignments import choices  # noqa: PLC0415
    from slurm_plugin.experiments.learn.journal import Journal, ModelChoices  # noqa: PLC0415
    from slurm_plugin.experiments.learn.proposers import ByOccupancies  # noqa: PLC0415
    from slurm_plugin.experiments.learn.workbench import LearningSite, Workbench  # noqa: PLC0415

    config = load_config(args)
    task = description.load(args.file)
    if args.budget is not None:
        task = replace(task, budget=args.budget)
    folder = args.file.absolute().parent
    chosen = choices(task, _profiles(config), name=str(args.file), folder=folder)
    if chosen.space.attributes == ("nodes",):
        raise ConfigError(
            f"{args.file}: the assignments differ in node counts alone: 'nimo scale' does those"
        )
    counters = _counters(state) if task.network_share is None else None
    site = LearningSite(
        jobs=jobs.SlurmJobs(task, time.time, counters),
        clock=time.time,
        sleep=time.sleep,
        report=lambda trial: print(words.progress_line(trial), file=sys.stderr, flush=True),
        overrun_s=jobs.overrun_s(jobs.slurm_config()),
    )
    model = ModelChoices(
        data_flow=task.data_flow,
        network_share=task.network_share or 0.0,
        form=task.learning.form,
        faster=frozenset(name for name, more in chosen.space.more_is_better.items() if more),
    )
    try:
        proposer = ByOccupancies(chosen.space, task.learning.settings(), model)
    except ValueError as error:
        raise ConfigError(f"{task.application}: learning: {error}") from error
    return Workbench(task, chosen, proposer, Journal(state, task.application, model), site)


def _counters(state: Path) -> Path | None:
    """Make the folder for what the runs' nodes count; without it nothing is counted."""
    folder = state.absolute().with_suffix(".io")
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    return folder


def _profiles(config: "Config") -> "Callable[[AssignmentGroup], Sequence[NodeProfile]]":
    """Give the newest profiles of the nodes that a group may get."""
    from slurm_plugin.experiments.benchmark_jobs import nodes  # noqa: PLC0415

    def of_group(group: "AssignmentGroup") -> "Sequence[NodeProfile]":
        features = set(group.constraint.split("&")) - {""}
        names = {
            node.name
            for node in nodes(nodelist=group.nodelist, partition=group.partition)
            if features <= set(node.features.split(","))
        }
        with open_store(config) as store:
            newest = store.profiles.latest(config.cluster or None)
        return [profile for profile in newest if profile.node in names]

    return of_group


def _design(bench: "Workbench", *, as_json: bool) -> str:
    """Show the next run without submitting it."""
    from slurm_plugin.experiments import learning_text as words  # noqa: PLC0415

    proposal = bench.replay()
    argv = bench.argv(proposal) if proposal else []
    left = bench.description.budget - bench.spent_node_h
    reserved = bench.reserved_node_h(proposal) if proposal else 0.0
    candidates = len(bench.choices.space.candidates)
    if as_json:
        design = asdict(proposal) if proposal else None
        return json.dumps(
            {
                "next": design,
                "argv": argv,
                "candidates": candidates,
                "node_hours_left": left,
                "node_hours_reserved": reserved,
            }
        )
    shown = words.design(proposal, argv, candidates, left)
    return f"{shown}\n{words.too_dear(reserved, left)}" if reserved > left else shown
