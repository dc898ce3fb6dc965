"""``nimo lab transfer``: predict how long a transfer between two hosts takes."""

import argparse
import time
from collections.abc import Iterator
from math import isfinite

from predictor.forecasts.transfer_time import LEVEL, TransferTime, transfer_time
from predictor.types import Verdict
from sacct_ingest.errors import NoHistory
from sacct_ingest.records import Probe, Resource
from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.config.settings import Config
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import count, percent, printable, wrapped
from slurm_plugin.text.streams import json_text
from slurm_plugin.text.table_columns import ON_REQUEST, SECONDS, SHARE, Column, Table
from slurm_plugin.text.terminal_size import terminal_width


def tables() -> list[Table]:
    """Give what it prints with ``-P``, without the row."""
    return [Table(_columns(), [])]


def run(args: argparse.Namespace) -> int:
    """Predict, or record."""
    config = load_config(args)
    return _predict(args, config) if args.took is None else _record(args, config)


def _predict(args: argparse.Namespace, config: Config) -> int:
    path = (args.source, args.target)
    with open_store(config) as store:
        parts = [(Resource.BANDWIDTH, *path), (Resource.TRANSFER, *path)]
        parts += [(Resource.CPU, end, "") for end in path]
        series = [each for part in parts for each in store.probes.series(*part, since_s=args.since)]
    made = transfer_time(series, args.size, *path, now_s=time.time())
    if made.verdict is Verdict.REFUSED:
        raise NoHistory(made.problems[0].text)
    if args.json:
        print(json_text(made))
    elif args.parsable2:
        print(transfer_table(made).parsable())
    else:
        print(wrapped("\n".join(transfer(made)), terminal_width()))
    return 0


def _record(args: argparse.Namespace, config: Config) -> int:
    made = Probe(
        resource=Resource.TRANSFER,
        source=args.source,
        target=args.target,
        at_s=time.time() - args.took if args.at is None else float(args.at),
        value=args.size / args.took,
        size_bytes=args.size,
        took_s=args.took,
    )
    with open_store(config, create=True) as store:
        store.probes.add([made])
    return 0


def transfer(made: TransferTime) -> Iterator[str]:
    """Time of a transfer, what it is made of, and what speaks against it."""
    path = f"from {printable(made.source)} to {printable(made.target)}"
    yield (
        f"{made.size_bytes / 1e6:.4g} MB {path}: {duration_text(made.time_s)} ({percent(LEVEL)}: "
        f"{duration_range(made.low_s, made.high_s)}), {made.verdict.value}"
    )
    source = f"{made.method} from {count(made.transfers, 'past transfer')}"
    if made.probe_bytes_per_s is not None:
        source += f", the path now at {made.probe_bytes_per_s / 1e6:.4g} MB/s by its probes"
    if made.cpu_share is not None:
        source += f", a new process at the busier end gets {percent(made.cpu_share)} of a CPU"
    if isfinite(made.error):
        source += f"; past predictions off by {percent(made.error)}"
    yield source
    yield from (problem.text for problem in made.problems)


def transfer_table(made: TransferTime) -> Table:
    """Give the same as a table of one row."""
    return Table(_columns(), [made])


def _columns() -> list[Column]:
    def figure(name: str, title: str) -> Column:
        return Column(name, title, lambda one: _finite(getattr(one, name)), SECONDS)

    return [
        Column("source", "from"),
        Column("target", "to"),
        Column("size_bytes", "bytes"),
        figure("time_s", "time"),
        figure("low_s", "at least"),
        figure("high_s", "at most"),
        Column("verdict", "verdict", lambda one: one.verdict.value),
        Column("method", "method"),
        Column("transfers", "transfers"),
        Column("cpu_share", "share", as_text=SHARE, worth=ON_REQUEST),
        Column("error", "error", lambda one: _finite(one.error), SHARE),
        Column("problems", "problems", lambda one: ",".join(p.name for p in one.problems)),
    ]


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
