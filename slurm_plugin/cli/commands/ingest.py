"""``nimo ingest``: read job accounting into the store, from sacct or saved files."""

import argparse
import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from sacct_ingest.errors import ConfigError, FormatError
from sacct_ingest.ingest.input_files import Looked
from sacct_ingest.ingest.into_store import IngestSettings, IngestSummary, ingest
from sacct_ingest.ingest.windows import PaceSettings, SpanSettings
from sacct_ingest.records import Fault
from sacct_ingest.sources.pyslurm_jobs import PySlurmJobs
from sacct_ingest.sources.run_source import RunSource
from sacct_ingest.sources.sacct import LiveSacct
from sacct_ingest.sources.saved import SavedSacct
from slurm_plugin.cli.command_context import load_config, until_stopped
from slurm_plugin.cli.input_files import look_at_own
from slurm_plugin.cli.progress import progress
from slurm_plugin.config.setting_types import Whose
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation import feedback
from slurm_plugin.reports.curve_text import standing_line
from slurm_plugin.slurm.job_request import user_name
from slurm_plugin.store_access import open_store
from slurm_plugin.text.formatting import clock, count, interval

if TYPE_CHECKING:  # the database is heavy, and --help needs none
    from sacct_ingest.store import Store

_log = logging.getLogger(__name__)
#: What can be asked for a cluster's accounting.
LIVE: Final[dict[str, Callable[[str, float], RunSource]]] = {
    "sacct": lambda cluster, timeout_s: LiveSacct(cluster, timeout_s=timeout_s),
    "sacct-json": lambda cluster, timeout_s: LiveSacct(cluster, timeout_s=timeout_s, as_json=True),
    "pyslurm": lambda cluster, _: PySlurmJobs(cluster),
}
_REFUSED_SHOWN = 3
_DAY_S = 86_400


def run(args: argparse.Namespace) -> int:
    """Read each source and say what came of it."""
    now_s = time.time()
    options = [name for name in ("since", "until") if getattr(args, name) is not None]
    if args.files and options:
        raise ConfigError(f"--{' and --'.join(options)}: only for sacct; files are read whole")
    end_s = now_s if args.until is None else min(args.until, now_s)
    if args.since is not None and args.since >= end_s:
        raise ConfigError(f"--since {clock(args.since)}: give a time before {clock(end_s)}")
    config = load_config(args)
    if not args.follow:
        return _once(args, config)
    minutes = args.every or config.ingest.follow_minutes
    return until_stopped(lambda: _once(args, config), minutes * 60)


def _once(args: argparse.Namespace, config: Config) -> int:
    done = list[IngestSummary]()
    failed = list[FormatError]()
    with open_store(config, create=True) as store, progress("reading") as report:
        for source in _sources(args, config):
            try:
                done.append(
                    ingest(
                        store,
                        source,
                        now_s=int(time.time()),
                        since_s=args.since,
                        until_s=args.until,
                        settings=ingest_settings(config),
                        progress=report,
                    )
                )
            except FormatError as error:
                failed.append(error)  # of a file: the others are read all the same
        shown = [reject for one in done for reject in _refused(store, one)]
        shown += [line for one in done for line in unknown_lines(one)]
        looked = look_at_own(store, report) if args.stat and config.inputs else None
        turned = feedback.judge_applications(store, config, now_s=time.time())
        memory = feedback.keep_memory(store, requeue=config.memory.requeue, now_s=time.time())
    if args.json:
        print(json.dumps([asdict(summary) for summary in done]), flush=True)
    elif lines := [
        *map(describe, done),
        *shown,
        *filter(None, [looked and describe_inputs(looked)]),
        *map(standing_line, turned),
        *memory,
    ]:
        print("\n".join(lines), flush=True)
    failed += [
        FormatError(f"{one.source}: no row could be read: check --format")
        for one in done
        if args.files and one.refused and not one.new + one.changed + one.same + one.unfinished
    ]
    for other in failed[1:]:
        _log.error("%s", other)
    if failed:
        raise failed[0]
    return 0


def describe(done: IngestSummary) -> str:
    """Describe an ingest."""
    span = f", {interval(done.begin_s, done.end_s, clock)}" if done.begin_s is not None else ""
    runs = f"{done.new} new, {done.changed} changed, {done.same} stored before"
    parts = [f"{done.source.rstrip(':')}{span}: {count(done.read, 'row')} read", f"runs: {runs}"]
    if done.unfinished:
        parts.append(f"{done.unfinished} still to end")
    if done.joined:
        parts.append(f"{count(done.joined, 'decision')} joined with an outcome")
    if done.refused:
        parts.append(f"{count(done.refused, 'row')} refused (text is in the store)")
    if done.unknown:
        number = sum(values.count for values in done.unknown)
        parts.append(f"{count(number, 'value')} unknown")
    return "; ".join(parts)


def describe_inputs(looked: Looked) -> str:
    """Say what became of the runs whose input files were looked at."""
    parts = [f"{count(looked.sized, 'run')} got them"]
    if looked.changed:
        parts.append(f"of {looked.changed} something was changed or is gone")
    if looked.without:
        parts.append(f"{looked.without} name no files that were there before")
    if looked.skipped:
        parts.append(
            f"{count(looked.skipped, 'name')} skipped: unreadable, no plain file, or a folder too "
            "large"
        )
    if looked.unanswered:
        parts.append(f"{looked.unanswered} left: a file system does not answer")
    return f"sizes of input files: {'; '.join(parts)}"


def unknown_lines(done: IngestSummary) -> Iterator[str]:
    """Say which columns had values that could not be used, with an example of each."""
    for values in done.unknown:
        where = count(values.count, values.kind)
        yield f"  {values.column} {Fault(values.fault).words} in {where}: {values.example}"


def _sources(args: argparse.Namespace, config: Config) -> Iterator[RunSource]:
    cluster = args.cluster or config.cluster
    if not args.files:
        yield LIVE[args.source](args.cluster, config.ingest.timeout_s)
    for path in args.files:
        yield SavedSacct(path, cluster, args.fields, args.delimiter, args.format)


def ingest_settings(config: Config) -> IngestSettings:
    """Give the settings of an ingest in its own units."""
    chosen = config.ingest
    copies_of = None if config.sharing.copies is Whose.SITE else user_name()
    return IngestSettings(
        PaceSettings(
            window_s=chosen.window_days * _DAY_S, slow_s=chosen.slow_s, share=chosen.share
        ),
        SpanSettings(
            overlap_s=round(chosen.overlap_s),
            again_s=chosen.again_days * _DAY_S,
            every_s=round(chosen.again_every_hours * 3600),
            first_s=chosen.first_days * _DAY_S,
        ),
        copies_of,
    )


def _refused(store: "Store", done: IngestSummary) -> Iterator[str]:
    """Give the first refused rows of a source, so that one sees what they look like."""
    if done.refused:
        rows = [row for row in store.rejects.all() if row.source == done.source]
        for row in rows[-_REFUSED_SHOWN:]:
            yield f"  {row.reason}: {row.text[:60]!r}"
