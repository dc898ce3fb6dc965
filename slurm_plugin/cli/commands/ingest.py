"""Read job accounting into the store: from sacct what is new since the last time, or saved files.

Doing it twice changes nothing.  Decisions find the runs that came of them.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from sacct_ingest.ingest import IngestSettings, IngestSummary, ingest
from sacct_ingest.sources.base import Source
from sacct_ingest.sources.sacct import LiveSacct
from sacct_ingest.sources.saved import SavedSacct
from sacct_ingest.store import Store
from slurm_plugin.cli.context import add_config, add_json, add_store, load_config, moment
from slurm_plugin.cli.progress import Report, progress
from slurm_plugin.cli.stores import open_store
from slurm_plugin.config import Config
from slurm_plugin.reports.text import clock, count

EXAMPLE = """\
  nimo ingest
  nimo ingest -S now-30days
  SLURM_TIME_FORMAT=%s sacct -aDP --noconvert -o ALL -S now-90days | xz > jobs.xz
  nimo ingest -M pine jobs.xz"""
_REFUSED_SHOWN = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        type=Path,
        help="saved output of 'sacct -P', also .gz, .bz2, .xz; - for stdin",
    )
    parser.add_argument(
        "-S", "--since", metavar="TIME", type=moment, help="ask sacct for runs since then"
    )
    parser.add_argument("-E", "--until", metavar="TIME", type=moment, help="and until then")
    parser.add_argument(
        "-M", "--cluster", default="", help="cluster to ask for, or that of a file without it"
    )
    add_json(parser)
    add_store(parser)
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Read each source and say what came of it."""
    config = load_config(args)
    with open_store(config, create=True) as store, progress("reading") as report:
        done = [_read(args, config, store, source, report) for source in _sources(args, config)]
        shown = [reject for one in done for reject in _refused(store, one)]
    if args.json:
        print(json.dumps([asdict(summary) for summary in done]))
    else:
        print("\\n".join([*map(describe, done), *shown]))
    return 0


def describe(done: IngestSummary) -> str:
    """Put the summary of an ingest into words."""
    span = f", {clock(done.begin_s)} to {clock(done.end_s)}" if done.begin_s is not None else ""
    runs = f"{done.new} new, {done.changed} changed, {done.same} known before"
    parts = [f"{done.source.rstrip(':')}{span}: {count(done.read, 'row')} read", f"runs: {runs}"]
    if done.unfinished:
        parts.append(f"{done.unfinished} still to end")
    if done.joined:
        parts.append(f"{count(done.joined, 'decision')} joined with an outcome")
    if done.refused:
        parts.append(f"{count(done.refused, 'row')} refused and kept in the store")
    return "; ".join(parts)


def _sources(args: argparse.Namespace, config: Config) -> Iterator[Source]:
    cluster = args.cluster or config.cluster
    if not args.files:
        yield LiveSacct(cluster=args.cluster)
    for path in args.files:
        yield SavedSacct(path, cluster=cluster)


def _read(
    args: argparse.Namespace, config: Config, store: Store, source: Source, report: Report
) -> IngestSummary:
    chosen = config.ingest
    return ingest(
        store,
        source,
        now_s=int(time.time()),
        since_s=args.since,
        until_s=args.until,
        settings=IngestSettings(
            window_s=round(chosen.window_days * 86_400),
            overlap_s=round(chosen.overlap_s),
            first_s=chosen.first_days * 86_400,
        ),
        progress=report,
    )


def _refused(store: Store, done: IngestSummary) -> Iterator[str]:
    """Give the first refused rows of a source, so that one sees what they look like."""
    if done.refused:
        rows = [row for row in store.rejects.all() if row.source == done.source]
        for row in rows[-_REFUSED_SHOWN:]:
            yield f"  {row.reason}: {row.text[:60]!r}"
