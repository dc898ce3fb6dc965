"""Fit the runs in the store: run time over node counts, as one prediction table each.

Nimod loads the new tables by itself.
"""

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING

from slurm_plugin.cli.command_context import add_shared, load_config
from slurm_plugin.cli.numbers import whole
from slurm_plugin.cli.progress import progress
from slurm_plugin.store_access import load_tables, open_store
from slurm_plugin.text.formatting import count

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from predictor.refit import RefitSummary
    from predictor.tables.settings import TableSettings
    from slurm_plugin.config.settings import Config

EXAMPLE = """\
  nimo fit
  nimo fit --workers 1 --json
  nimo fit --dask tcp://head:8786
  nimo fit --dask slurm --workers 8"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--workers",
        metavar="COUNT",
        type=whole,
        help="processes that fit (default: the configuration's; 0: one per core); with --dask "
        "slurm "
        "the jobs to submit (default: 4)",
    )
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="fit on a Dask cluster: tcp://HOST:PORT of its scheduler, or 'slurm' for workers that "
        "are Slurm jobs, as jobqueue.slurm in Dask's configuration describes them",
    )
    add_shared(parser, "json", "store", "config")


def run(args: argparse.Namespace) -> int:
    """Refit everything and say what came of it."""
    from predictor.refit import refit  # noqa: PLC0415 - scipy takes a second, help shall not
    from predictor.types import Verdict  # noqa: PLC0415
    from sacct_ingest.records import CURVE_LEVELS  # noqa: PLC0415
    from slurm_plugin.reports.curve_text import each_once  # noqa: PLC0415

    config = load_config(args)
    with ExitStack() as stack:
        store = stack.enter_context(open_store(config))
        workers, pool = _workers(args, config.fit.workers, stack)
        report = stack.enter_context(progress("fitting"))
        done = refit(
            store,
            now_s=time.time(),
            settings=table_settings(config),
            shared=config.sharing.tags,
            workers=workers,
            pool=pool,
            progress=lambda identities: report(identities, "applications"),
        )
        listed = each_once(one for one in load_tables(store) if one.level in CURVE_LEVELS)
    verdicts = {word.value: 0 for word in Verdict} | Counter(one.verdict.value for one in listed)
    shown = {**asdict(done), "applications": verdicts}
    print(json.dumps(shown) if args.json else describe(done, verdicts))
    return 0


def table_settings(config: "Config") -> "TableSettings":
    """Give the settings of prediction tables."""
    from predictor.level.calibration import BacktestSettings  # noqa: PLC0415
    from predictor.tables.settings import TableSettings  # noqa: PLC0415

    return TableSettings(
        confidence=config.fit.confidence,
        backtest=BacktestSettings(model=config.fit.model),
        memory_margin=config.policy.memory_margin,
        tails=(config.time_limit.min_quantile, config.time_limit.quantile),
    )


def _workers(
    args: argparse.Namespace, configured: int, stack: ExitStack
) -> tuple[int, "Executor | None"]:
    """How many fit at once, and where if not here; ``stack`` ends what was started for it."""
    if args.dask is None:
        workers = configured if args.workers is None else args.workers
        return workers or os.cpu_count() or 1, None
    from slurm_plugin.cli.dask_pool import JOBS, dask_pool  # noqa: PLC0415 - optional, and heavy

    pool = stack.enter_context(dask_pool(args.dask, args.workers or JOBS))
    return pool.workers, pool.executor


#: How the runs of a curve were recognised.
_RECOGNISED = {"tag": "by tag", "script": "by script", "line": "by command line"}


def describe(done: "RefitSummary", verdicts: Mapping[str, int]) -> str:
    """Describe a refit.

    An application can have a curve for its script and one for its command line: the numbers of each
    say so.

    verdicts: applications of each, as `nimo predict` and the first page list them.
    """
    levels = ", ".join(f"{n} {_RECOGNISED.get(level, level)}" for level, n in done.by_level.items())
    each = ", ".join(f"{number} {word}" for word, number in verdicts.items())
    return (
        f"{count(sum(verdicts.values()), 'application')}: {each}; "
        f"{count(done.curves, 'scaling curve')}{f' ({levels})' if levels else ''}, "
        f"{count(done.histories, 'history', 'histories')} without a curve; {done.seconds:.1f} s"
    )
