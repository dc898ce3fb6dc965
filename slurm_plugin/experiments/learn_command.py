"""``nimo lab learn``: learn an application's run time by running it, within a budget."""

import argparse
import json
import shlex
import time
from dataclasses import asdict, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from sacct_ingest.errors import ConfigError
from sacct_ingest.files.atomic_file import alone
from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.slurm import commands
from slurm_plugin.slurm.slurm_conf import cluster_name
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import count, hours, percent, wrapped
from slurm_plugin.text.table_columns import ALWAYS, ON_REQUEST, SECONDS, WIDTH, Column, Table
from slurm_plugin.text.terminal_size import terminal_width

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sacct_ingest.records import NodeProfile
    from slurm_plugin.config.settings import Config
    from slurm_plugin.experiments.campaign import Campaign
    from slurm_plugin.experiments.learn.description import (
        Assignment,
        AssignmentGroup,
        Choices,
        Description,
        Trial,
    )
    from slurm_plugin.experiments.learn.proposers import Chosen, Expected, ProposerState, Ranking
    from slurm_plugin.experiments.learn.workbench import Workbench

#: Inputs for which it says what to submit.
MOST_INPUTS = 4


def run(args: argparse.Namespace) -> int:
    """Learn, or show the design."""
    state = args.state or args.file.with_name(f"{args.file.stem}.learn.json")
    from slurm_plugin.experiments.campaign import spent  # noqa: PLC0415

    with alone(state, program="'nimo lab learn'", fix="name another file with --state"):
        bench = _workbench(args, state)
        if args.dry_run:
            print(_design(bench, as_json=args.json))
            return 0
        ended = _campaign(bench, leave=args.leave).follow()
    learned = bench.learned()
    runs = len(bench.runs)
    spent_node_h = spent(bench.runs)
    if args.json:
        print(json.dumps({"ended": ended, "node_hours": spent_node_h, **asdict(learned)}))
    else:
        width = terminal_width()
        print(summary(learned, runs, spent_node_h, ended, bench.runnable(), width=width))
        if proposal := bench.proposer.propose():
            left = bench.description.budget - spent_node_h
            print(wrapped(too_dear(bench.reserved_node_h(proposal), left), width))
        if learned.expected:
            print(next_steps(learned.expected, bench.runnable(), bench.description))
    return 0


def _workbench(args: argparse.Namespace, state: Path) -> "Workbench":
    from msgspec import structs  # noqa: PLC0415

    from slurm_plugin.experiments import held_jobs  # noqa: PLC0415
    from slurm_plugin.experiments.learn import description  # noqa: PLC0415
    from slurm_plugin.experiments.learn.description import (  # noqa: PLC0415
        Journal,
        ModelChoices,
        choices,
    )
    from slurm_plugin.experiments.learn.proposers import ByOccupancies  # noqa: PLC0415
    from slurm_plugin.experiments.learn.workbench import RunCommands, Workbench  # noqa: PLC0415

    config = load_config(args)
    task = description.load(args.file)
    if args.budget is not None:
        task = structs.replace(task, budget=args.budget)
    folder = args.file.absolute().parent
    chosen = choices(task, _profiles(config), name=str(args.file), folder=folder)
    if chosen.space.attributes == ("nodes",):
        raise ConfigError(
            f"{args.file}: the assignments differ in node counts alone: 'nimo scale' does those"
        )
    counters = _counters(state) if task.network_share is None else None
    model = ModelChoices(
        data_flow=task.data_flow,
        network_share=task.network_share or 0.0,
        form=task.learning.form,
        faster=frozenset(name for name, more in chosen.space.more_is_better.items() if more),
    )
    try:
        proposer = ByOccupancies(chosen.space, task.learning, model)
    except ValueError as error:
        raise ConfigError(f"{task.application}: learning: {error}") from error
    return Workbench(
        description=task,
        choices=chosen,
        proposer=proposer,
        journal=Journal(state, task.application, model),
        commands=RunCommands(task, counters),
        overrun_s=held_jobs.overrun_s(held_jobs.slurm_config()),
        again=f"nimo lab learn {args.file}",
    )


def _campaign(bench: "Workbench", *, leave: bool) -> "Campaign[Trial]":
    from slurm_plugin.experiments.campaign import Campaign, tell  # noqa: PLC0415

    return Campaign.of_command(bench, lambda trial: tell(progress_line(trial)), leave=leave)


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
    from slurm_plugin.experiments.profile_command import nodes  # noqa: PLC0415

    def of_group(group: "AssignmentGroup") -> "Sequence[NodeProfile]":
        features = set(group.constraint.split("&")) - {""}
        names = {
            node.name
            for node in nodes(nodelist=group.nodelist, partition=group.partition)
            if features <= set(node.features.split(","))
        }
        # Nodes of several clusters may have the same names.
        ask = partial(commands.run, timeout_s=config.snapshot.timeout_s)
        cluster = config.cluster or cluster_name(ask)
        with open_store(config) as store:
            newest = store.profiles.latest(cluster)
        return [profile for profile in newest if profile.node in names]

    return of_group


def _design(bench: "Workbench", *, as_json: bool) -> str:
    """Show the next run without submitting it."""
    from slurm_plugin.experiments.campaign import Design, spent  # noqa: PLC0415
    from slurm_plugin.experiments.learn.description import in_units  # noqa: PLC0415

    trial = bench.next(time.time())
    candidates = len(bench.choices.space.candidates)
    left = bench.description.budget - spent(bench.runs)
    design = Design(
        found=count(candidates, "assignment"), left=left, also={"candidates": candidates}
    )
    proposal = bench.proposer.propose()
    if trial is None:
        design = replace(design, why="a run is under way")
    elif isinstance(trial, str):
        dear = too_dear(bench.reserved_node_h(proposal), left) if proposal else ""
        design = replace(design, why=dear or trial)
    else:
        design = replace(
            design,
            next={name: getattr(trial, name) for name in ("attributes", "purpose", "why")},
            what=in_units(trial.attributes),
            why=trial.why,
            argv=bench.command(trial)[0],
            reserved=trial.hours,
        )
    return design.json() if as_json else design.text()


def progress_line(trial: "Trial") -> str:
    """Describe the state of a run in one line."""
    from slurm_plugin.experiments.learn.description import Stage, in_units  # noqa: PLC0415

    what = in_units(trial.attributes)
    if trial.stage is Stage.SUBMITTED:
        return f"job {trial.job_id}: {what} ({trial.why})"
    if trial.stage is Stage.FAILED:
        return f"failed: {what}: {trial.reason}"
    busy = percent(trial.utilisation)
    return f"{duration_text(trial.elapsed_s)} on {what}, CPUs {busy} busy"


def too_dear(reserved_node_h: float, left_node_h: float) -> str:
    """Say that the next run needs more than the rest of the budget.

    >>> too_dear(0.5, 0.25)
    'the next run needs 0.5 node-hours to itself, and 0.25 are left: --budget, or a shorter limit'
    """
    return (
        f"the next run needs {reserved_node_h:.3g} node-hours to itself, and "
        f"{left_node_h:.3g} are left: --budget, or a shorter limit"
    )


def next_steps(
    expected: "Sequence[Expected]", choices: "Choices", description: "Description"
) -> str:
    """Give what to submit: for each size of the input what is fastest and what costs least.

    The tag is that of the runs: by it jobs are predicted from them.
    """
    from predictor.types import Verdict  # noqa: PLC0415
    from slurm_plugin.experiments.learn.description import INPUT_BYTES  # noqa: PLC0415

    inputs: dict[float, list[tuple[float, float, Assignment]]] = {}
    sure = [one for one in expected if one.verdict is not Verdict.REFUSED]
    for one in sure or expected:
        assignment = choices.at(one.attributes)[0]
        rows = inputs.setdefault(one.attributes.get(INPUT_BYTES, 0.0), [])
        rows.append((one.time_s, _node_h(one, choices), assignment))
    lines = [""]
    for _, rows in sorted(inputs.items())[:MOST_INPUTS]:
        fastest = min(rows, key=itemgetter(0))
        least = min(rows, key=itemgetter(1, 0))
        named = {"fastest": fastest} | ({"least node-hours": least} if least != fastest else {})
        for name, (time_s, node_h, chosen) in named.items():
            comment = f"--comment=nimo:{description.tag(chosen)}"
            asked = (f"--time={description.limit}", comment)
            argv = ["sbatch", *asked, *chosen.options, *chosen.command]
            lines += [f"{name}: {duration_text(time_s)}, {node_h:.3g} node-hours", shlex.join(argv)]
    later = "Later: 'nimo-advise' with these options tells what runs by then have taken."
    return "\n".join([*lines, later])


def _node_h(one: "Expected", choices: "Choices") -> float:
    return one.time_s * choices.at(one.attributes)[0].nodes / 3600


def summary(
    state: "ProposerState",
    runs: int,
    spent_node_h: float,
    why: str,
    choices: "Choices",
    *,
    width: int = WIDTH,
) -> str:
    """Summarise the fitted model, and say why learning ended, as wide as the terminal."""
    head = f"{why}: {count(runs, 'run')}, {hours(spent_node_h)} node-hours"
    if not state.expected:
        return f"{head}; nothing was learned"
    error = "no estimate yet" if state.error is None else f"{state.error:.1f} %"
    lines = [f"{head}; error {error}", ""]
    ranked = sorted(state.effects.items(), key=lambda pair: -pair[1])
    lines += [f"{name}: {factor:.2f} times from best to worst" for name, factor in ranked]
    lines += chosen_lines(state.chosen)
    if state.ranking:
        lines.append(ranking_line(state.ranking))
    first = "Functions of attributes divided by those of the first run:"
    lines += ["", first, *(f"{name} = {text}" for name, text in state.functions.items()), ""]
    shown = assignments_table(state.expected, choices).text(width=width)
    text = "\n".join(lines)
    return f"{wrapped(text, width)}\n{shown}"


def chosen_lines(chosen: "Chosen") -> list[str]:
    """Say what was chosen by evidence, beside what else was tried."""
    if not chosen.data_flows:
        return []
    profile = ", ".join(chosen.data_profile) or "nothing of the data changes the run time"
    return [
        "",
        "Chosen by how far runs are off, each predicted from the others:",
        f"data flow: {_tried(chosen.data_flow, chosen.data_flows)}",
        f"form: {_tried(chosen.form or 'between the others', chosen.forms)}",
        f"data profile: {profile}",
        "",
    ]


def ranking_line(ranking: "Ranking") -> str:
    """Say whether rankings hold, by the measures of NIMO's paper."""
    distances = ", ".join(f"RD({k}) {far:.2f}" for k, far in ranking.ranking_distance.items())
    opd = percent(ranking.order_preserving_degree)
    return f"Rankings of these: {opd} of pairs in the measured order (OPD), {distances}; 0 is best"


def _tried(name: str, errors: "Mapping[str, float]") -> str:
    """Name a choice and its error, then the others.

    >>> _tried("none", {"input_bytes": 4.94, "none": 3.0})
    'none (3.0 %); not input_bytes (4.9 %)'
    """
    texts = {each: f"{each} ({error:.1f} %)" for each, error in errors.items()}
    chosen = texts.pop(name, name)
    return "; not ".join([chosen, ", ".join(texts.values())]) if texts else chosen


def assignments_table(expected: "Sequence[Expected]", choices: "Choices") -> Table:
    """Make the table of assignments, the fastest first; the verdict is left out first."""
    from slurm_plugin.experiments.learn.description import amount  # noqa: PLC0415

    def of(name: str, place: int) -> Column:
        worth = max(ALWAYS - 1 - place, 2)
        return Column(name, name, lambda one: one.attributes[name], amount(name), worth=worth)

    def interval(one: "Expected") -> str:
        return duration_range(one.low_s, one.high_s)

    best = sorted(expected, key=lambda one: one.time_s)
    names = list(best[0].attributes)
    columns = [
        *map(of, names, range(len(names))),
        Column("time_s", "time", as_text=SECONDS),
        Column("interval", "90 %", interval, worth=ALWAYS - 1, derived=True),
        Column("low_s", "at least", as_text=SECONDS, worth=ON_REQUEST),
        Column("high_s", "at most", as_text=SECONDS, worth=ON_REQUEST),
        Column("node_h", "node-h", lambda one: _node_h(one, choices), "{:.3g}".format),
        Column("verdict", "verdict", lambda one: one.verdict.value, left=True, worth=1),
    ]
    return Table(columns, best)
