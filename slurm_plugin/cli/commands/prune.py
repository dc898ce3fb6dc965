"""Delete rows that are older than their retention time, and free the space.

Runs behind prediction tables stay: of each application, on each node count, the 30 newest that
completed or reached their limit.  So do the runs of decisions that stay.
"""

import argparse
import json
import time
from dataclasses import asdict, fields

from sacct_ingest.errors import ConfigError
from sacct_ingest.store.rows import Pruned, RetentionTimes
from slurm_plugin.cli.command_context import Options, load_config
from slurm_plugin.cli.common_options import whole
from slurm_plugin.cli.progress import waiting
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import clock, count

EXAMPLE = """\
  nimo prune --dry-run
  nimo prune --runs 730 --steps 90 --decisions 365"""
_DAY_S = 86_400
_TABLES = [field.name for field in fields(RetentionTimes)]


def add_arguments(add: Options) -> None:
    """Declare the options."""
    for table in _TABLES:
        add(
            f"--{table} DAYS",
            f"delete {table} after this many days; 0: never (default: the configuration's)",
            type=whole,
        )
    add("--dry-run", "only count the rows that would be deleted")
    add.shared("json", "store", "config")


def run(args: argparse.Namespace) -> int:
    """Prune each table that has a limit."""
    config = load_config(args)
    now_s = int(time.time())
    days = {
        table: getattr(config.retention, f"{table}_days")
        if getattr(args, table) is None
        else getattr(args, table)
        for table in _TABLES
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
    if args.json:
        print(json.dumps([asdict(each) for each in done]))
    else:
        print("\n".join(_words(each, dry_run=args.dry_run) for each in done) or _NOTHING)
    return 0


_NOTHING = "no retention time is set, so nothing is deleted; see 'retention' in nimo.yaml"


def _words(done: Pruned, *, dry_run: bool) -> str:
    verb = "would be deleted" if dry_run else "deleted"
    return f"{done.table}: {count(done.rows, 'row')} from before {clock(done.before_s)} {verb}"
