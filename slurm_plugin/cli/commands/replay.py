"""``nimo replay``: replay your history: as users asked, and under the policy."""

import argparse
import json
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from typing import TYPE_CHECKING

from sacct_ingest.errors import NimoError
from slurm_plugin.cli import command_context
from slurm_plugin.cli.progress import ProgressReport, progress
from slurm_plugin.config.setting_types import Bystanders
from slurm_plugin.config.settings import Config
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import count
from slurm_plugin.text.streams import json_text
from slurm_plugin.text.terminal_size import terminal_width

if TYPE_CHECKING:
    from sacct_ingest.store import RunRow
    from slurm_plugin.replay.soft_limits import LimitReplay
    from slurm_plugin.replay.what_if import Setting, WhatIf
    from slurm_plugin.replay.workload import Workload
    from slurm_plugin.reports.replay_text import ReplayReport
    from slurm_plugin.text.table_columns import Table

_DAY_S = 86400.0


def tables() -> "list[Table]":
    """Give what it prints, without rows."""
    from slurm_plugin.reports.limit_replay_text import limits_table  # noqa: PLC0415 - heavy
    from slurm_plugin.reports.replay_text import setting_columns  # noqa: PLC0415
    from slurm_plugin.text.table_columns import Table  # noqa: PLC0415

    return [Table(setting_columns(), []), limits_table([])]


def run(args: argparse.Namespace) -> int:
    """Replay each setting and say what came of it."""
    config = command_context.load_config(args)
    with ExitStack() as stack:
        report = stack.enter_context(progress("replaying"))
        if args.limits:
            _print_limits(_limits(args, config, report), args)
        else:
            _print(_replay(args, config, report, stack), args)
    return 0


def _limits(args: argparse.Namespace, config: Config, report: ProgressReport) -> "LimitReplay":
    """Replay the history with limits to plan with."""
    from predictor.tables.settings import TableSettings  # noqa: PLC0415
    from slurm_plugin.replay.soft_limits import LimitReplay, replay_limits, suggested  # noqa: PLC0415
    from slurm_plugin.replay.workload import Workload  # noqa: PLC0415

    rows, source = _rows(args, config, report)
    work = Workload.of(rows, cluster_nodes=_cluster_nodes(args))
    settings = TableSettings(confidence=config.fit.confidence)
    figures = replay_limits(work, config, settings, lambda jobs: report(jobs, "jobs replayed"))
    best = suggested(figures)
    share = round(1 - best.quantile, 3) if best and best.quantile else None
    return LimitReplay(log=source, jobs=len(work), figures=figures, outlasted_share=share)


def _print_limits(made: "LimitReplay", args: argparse.Namespace) -> None:
    from slurm_plugin.reports import limit_replay_text  # noqa: PLC0415

    if args.json:
        print(json_text(made))
    elif args.parsable2:
        command_context.print_table(limit_replay_text.limits_table(made.figures), args)
    else:
        options = command_context.table_options(args)
        command_context.print_parts(limit_replay_text.render(made, options, width=terminal_width()))


def _replay(
    args: argparse.Namespace, config: Config, report: ProgressReport, stack: ExitStack
) -> "ReplayReport":
    # Loaded here: numpy and scipy take a second, and the help shall not.
    from slurm_plugin.decision.allowed_counts import PolicySettings  # noqa: PLC0415
    from slurm_plugin.replay.what_if import (  # noqa: PLC0415
        GUARDS,
        PRICES,
        evaluate,
        gain_of_proven,
        settings,
        suggest,
    )
    from slurm_plugin.reports.replay_text import ReplayReport  # noqa: PLC0415

    what_if, source, assumptions = _prepared(args, config, report)
    variants = settings(
        config.policy,
        prices=args.price or (PRICES if args.suggest else ()),
        guards=args.guard or (GUARDS if args.suggest else ()),
        loads=args.load,
        bystanders=map(Bystanders, args.bystanders or (Bystanders if args.suggest else ())),
    )
    results = []
    pool = _pool(args, variants, stack)
    for result in evaluate(what_if, variants, config.deadline, executor=pool):
        results.append(result)
        report(result.jobs, "jobs replayed")
    work = what_if.workload
    return ReplayReport(
        source=source,
        days=float(work.submit_s[-1] - work.submit_s[0]) / _DAY_S,
        nodes=work.cluster_nodes,
        load=work.load,
        assumptions=(*assumptions, *_load_in_words(work)),
        results=tuple(results),
        present=config.policy,
        suggested=suggest(results, config.policy),
        proven=gain_of_proven(what_if, PolicySettings.of(config)),
    )


def _load_in_words(work: "Workload") -> Iterator[str]:
    """Say which load is assumed, and what of jobs that share nodes."""
    from slurm_plugin.replay.workload import most_at_once  # noqa: PLC0415

    nodes = count(work.cluster_nodes, "node")
    yield f"the load is {work.load:.2f}: node time of these jobs over that of {nodes}"
    if work.runs and most_at_once(work.runs) > work.cluster_nodes:
        yield "jobs shared nodes; the replay gives each job whole nodes, so its load is too high"


def _prepared(
    args: argparse.Namespace, config: Config, report: ProgressReport
) -> tuple["WhatIf", str, tuple[str, ...]]:
    """Read the history and choose the moldable jobs; what was assumed, in words."""
    from predictor.level.calibration import BacktestSettings  # noqa: PLC0415
    from predictor.tables.settings import TableSettings  # noqa: PLC0415
    from predictor.waits.easy import Order  # noqa: PLC0415
    from slurm_plugin.replay import workload  # noqa: PLC0415
    from slurm_plugin.replay.what_if import WhatIf  # noqa: PLC0415

    rows, source = _rows(args, config, report)
    order = Order.SHORTEST if args.sjbf else Order.SUBMITTED
    if args.assume is not None:
        made = workload.Assumptions(share=args.assume, range=args.range, seed=args.seed)
        work = workload.Workload.of(rows, cluster_nodes=_cluster_nodes(args))
        chosen = workload.assume(work, made)
        words = workload.assumptions_in_words(made)
    else:
        learned = rows[: round(args.learn * len(rows))]
        begin_s = float(learned[-1].submit_s) if learned else 0.0
        fit = TableSettings(
            confidence=config.fit.confidence, backtest=BacktestSettings(model=config.fit.model)
        )
        knowledge = workload.learn(rows, begin_s=begin_s, settings=fit)
        work = workload.Workload.of(rows[len(learned) :], cluster_nodes=_cluster_nodes(args))
        chosen = workload.moldable(work, knowledge, reach=args.range, seed=args.seed)
        words = workload.in_words(len(learned), args.range, args.adopt)
    return WhatIf(work, chosen, order).adopted(args.adopt, seed=args.seed), source, words


def _cluster_nodes(args: argparse.Namespace) -> int | None:
    """Nodes as the user says, or else the header of the log; None: by the jobs."""
    from sacct_ingest.sources.saved import cluster_nodes  # noqa: PLC0415

    if args.nodes or len(args.files) != 1:
        return args.nodes or None
    return cluster_nodes(args.files[0]) or None


def _rows(
    args: argparse.Namespace, config: Config, report: ProgressReport
) -> tuple[list["RunRow"], str]:
    """Select the runs; say where they are from.  Saved histories go through a store."""
    from sacct_ingest.ingest.into_store import ingest  # noqa: PLC0415
    from sacct_ingest.sources.saved import SavedSacct  # noqa: PLC0415
    from sacct_ingest.store import Store  # noqa: PLC0415

    with ExitStack() as stack:
        if args.files:
            store = stack.enter_context(Store.open("sqlite://"))
            source = ", ".join(path.name for path in args.files)
            for path in args.files:
                saved = SavedSacct(path, cluster=args.cluster or config.cluster)
                ingest(store, saved, now_s=0, progress=report)
        else:
            store = stack.enter_context(open_store(config))
            source = "the store"
        rows = list(
            store.runs.started(
                cluster=args.cluster,
                partition=args.partition,
                since_s=args.since,
                until_s=args.until,
            )
        )
    if not rows:
        raise NimoError(f"{source} holds no job that ran, for this selection")
    return rows, source


def _pool(args: argparse.Namespace, variants: "list[Setting]", stack: ExitStack) -> Executor | None:
    """Where several settings are replayed at once; None: here, one after the other."""
    if args.dask:
        from slurm_plugin.cli.dask_pool import JOBS, dask_pool  # noqa: PLC0415

        return stack.enter_context(dask_pool(args.dask, args.workers or JOBS)).executor
    workers = min(args.workers or os.cpu_count() or 1, len(variants))
    if workers == 1:
        return None
    return stack.enter_context(ProcessPoolExecutor(workers, mp_context=get_context("spawn")))


def _print(report: "ReplayReport", args: argparse.Namespace) -> None:
    from slurm_plugin.reports import replay_text  # noqa: PLC0415

    if args.json:
        print(json.dumps(replay_text.as_json(report)))
    elif args.parsable2:
        command_context.print_table(replay_text.setting_table(report), args)
    else:
        options = command_context.table_options(args)
        command_context.print_parts(replay_text.render(report, options, width=terminal_width()))
