"""``nimo prune``: delete rows that are older than their retention time."""

import argparse
import json
import time
from dataclasses import asdict

from sacct_ingest.errors import ConfigError
from sacct_ingest.store.rows import Pruned, RetentionTimes
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.cli.options.prune import TABLES
from slurm_plugin.cli.progress import waiting
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import clock, count

_DAY_S = 86_400
_NOTHING = "no retention time is set, so nothing is deleted; see 'retention' in nimo.yaml"


def run(args: argparse.Namespace) -> int:
    """Prune each table that has a limit."""
    config = load_config(args)
    now_s = int(time.time())
    days = {
        table: getattr(config.retention, f"{table}_days")
        if getattr(args, table) is None
        else getattr(args, table)
        for table in TABLES
    }
    again = config.ingest.again_days
    for table in ("runs", "steps"):
        if 0 < days[table] <= again:
            raise ConfigError(
                f"retention.{table}_days is {days[table]}: ingests read the last {again} days "
                f"again (ingest.again_days) and would bring them back; keep more than {again} days"
            )
    retention = RetentionTimes(**{table: now_s - d * _DAY_S for table, d in days.items() if d > 0})
    with open_store(config) as store, waiting("pruning"):
        done = store.prune(retention, dry_run=args.dry_run)
        if not args.dry_run and any(each.table == "decisions" and each.rows for each in done):
            from slurm_plugin.evaluation.stored_reports import (  # noqa: PLC0415 - heavy
                forget_reports,
            )

            forget_reports(store, retention.decisions or 0)
    if args.json:
        print(json.dumps([asdict(each) for each in done]))
    else:
        print("\n".join(_words(each, dry_run=args.dry_run) for each in done) or _NOTHING)
    return 0


def _words(done: Pruned, *, dry_run: bool) -> str:
    verb = "would be deleted" if dry_run else "deleted"
    return f"{done.table}: {count(done.rows, 'row')} from before {clock(done.before_s)} {verb}"
