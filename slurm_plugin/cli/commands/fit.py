"""``nimo fit``: fit the runs in the store: a prediction table for each application."""

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from slurm_plugin.cli.command_context import load_config, until_stopped
from slurm_plugin.cli.fit_time import FitTimeLimit
from slurm_plugin.cli.progress import progress
from slurm_plugin.cli.table_settings import table_settings
from slurm_plugin.service.accountant import Accountant
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import count

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from predictor.refit import RefitSummary
    from sacct_ingest.store import Store
    from slurm_plugin.config.settings import Config

#: Pauses of --follow.
_EVERY_S = 30.0
#: How the runs of a curve were recognised.
_RECOGNISED = {"tag": "by tag", "script": "by script", "line": "by command line"}


def run(args: argparse.Namespace) -> int:
    """Refit what changed and say what came of it."""
    once = partial(_once, args, load_config(args))
    if args.follow:
        return until_stopped(once, _EVERY_S)
    once()
    return 0


def _once(args: argparse.Namespace, config: "Config") -> None:
    from predictor.refit import refit  # noqa: PLC0415 - scipy takes a second, help shall not
    from predictor.types import Verdict  # noqa: PLC0415
    from sacct_ingest.records import CURVE_LEVELS  # noqa: PLC0415
    from slurm_plugin.evaluation.report_data import keep_sums  # noqa: PLC0415
    from slurm_plugin.evaluation.stored_reports import keep_reports  # noqa: PLC0415
    from slurm_plugin.web.data import Catalogue, CatalogueQuery, entry_of  # noqa: PLC0415

    with ExitStack() as stack:
        store = stack.enter_context(open_store(config))
        workers, pool = _workers(args, config.fit.workers, stack)
        read_anew(store)
        report = stack.enter_context(progress("fitting"))
        done = refit(
            store,
            now_s=time.time(),
            settings=table_settings(config),
            shared=config.sharing.tags,
            whole=args.all,
            workers=workers,
            pool=pool,
            progress=lambda identities: report(identities, "applications"),
            time_limit=FitTimeLimit(Accountant()),
        )
        keep_sums(store, config, now_s=time.time())
        keep_reports(store, config, now_s=time.time())
        if args.follow and not done.fitted:
            return
        listed = Catalogue(entry_of(row, off=False) for row in store.fits.each(CURVE_LEVELS))
    once = listed.select(CatalogueQuery(), lambda _: True)
    verdicts = {word.value: 0 for word in Verdict} | Counter(one.verdict for one in once)
    shown = {**asdict(done), "applications": verdicts}
    print(json.dumps(shown) if args.json else describe(done, verdicts), flush=True)


def read_anew(store: "Store") -> None:
    """Read runs by this release's rules that an earlier one stored, and say how far that is."""
    with progress("reading stored runs by the rules of this release") as report:
        store.resolve(lambda done: report(0, f"{done.runs:,} runs", done.runs / done.of))


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


def describe(done: "RefitSummary", verdicts: Mapping[str, int]) -> str:
    """Describe a refit.

    An application can have a curve for its script and one for its command line: the numbers of each
    say so.

    verdicts: applications of each, as `nimo predict` and the first page list them.
    """
    levels = ", ".join(f"{n} {_RECOGNISED.get(level, level)}" for level, n in done.by_level.items())
    each = ", ".join(f"{number} {word}" for word, number in verdicts.items())
    put_off = sum(done.waiting.values())
    waiting = f"; {put_off} more at the next fit" if put_off else ""
    return (
        f"{count(sum(verdicts.values()), 'application')}: {each}; "
        f"{count(done.curves, 'scaling curve')}{f' ({levels})' if levels else ''}, "
        f"{count(done.histories, 'history', 'histories')} without a curve; "
        f"{done.fitted or 'nothing'} new or changed, {done.seconds:.1f} s{waiting}"
    )
