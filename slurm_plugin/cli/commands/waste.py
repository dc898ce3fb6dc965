"""``nimo waste``: show which node-hours bought nothing, and how many could come back."""

import argparse
import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sacct_ingest.errors import PlotError
from slurm_plugin.cli import command_context
from slurm_plugin.cli.plot import is_file
from slurm_plugin.text.formatting import wrapped
from slurm_plugin.text.table_columns import Table
from slurm_plugin.text.terminal_size import terminal_width

if TYPE_CHECKING:  # heavy, and --help needs none
    from sacct_ingest.store import DecisionSelection
    from slurm_plugin.cli.waste_runs import Runs
    from slurm_plugin.config.settings import Config
    from slurm_plugin.evaluation.waste_report import WasteReport


def tables() -> list[Table]:
    """Give what it prints, without rows."""
    from slurm_plugin.evaluation.waste_report import WasteTally  # noqa: PLC0415 - heavy
    from slurm_plugin.reports import waste_text  # noqa: PLC0415

    nothing = WasteTally({}, at_knee=lambda _: None).result(by="user")
    return [
        replace(waste_text.causes(nothing), caption="by cause"),
        replace(waste_text.groups(nothing), caption="with --by"),
    ]


def run(args: argparse.Namespace) -> int:
    """Sum up and print."""
    if args.plot and not is_file(args.plot):
        raise PlotError(f"{args.plot}: a picture's name ends in .svg, .png, .pdf")
    report = _report(args)
    if args.plot:
        from slurm_plugin.reports.waste_chart import save  # noqa: PLC0415

        save(report, Path(args.plot))
    if args.json:
        from slurm_plugin.text.streams import json_text  # noqa: PLC0415

        print(json_text(report))
        return 0
    from slurm_plugin.reports import waste_text  # noqa: PLC0415

    table = waste_text.groups(report) if args.by else waste_text.causes(report)
    if args.parsable2 or args.format or args.sort or args.noheader:
        command_context.print_table(table, args)
        return 0
    width = terminal_width()
    print(wrapped(waste_text.title_of(report), width))
    if not report.starts:
        return 0
    print(wrapped(waste_text.period(report), width))
    tables = [waste_text.causes(report)] if report.causes else []
    tables += [table] if args.by else []
    for one in tables:
        print(f"\n{one.text(width=width)}")
    if lines := waste_text.text(report):
        print("\n" + "\n".join(wrapped(line, width) for line in lines))
    return 0


def _report(args: argparse.Namespace) -> "WasteReport":
    from slurm_plugin.cli.progress import progress  # noqa: PLC0415 - heavy
    from slurm_plugin.evaluation.waste_data import collect  # noqa: PLC0415

    config = command_context.load_config(args, for_user=True)
    chosen = _selection(args)
    with _runs(args, config, chosen) as runs, progress("jobs") as show:
        if runs.why:
            print(f"nimo: only your own jobs are shown: {runs.why}", file=sys.stderr)
        seen = replace(chosen, only_user=runs.only_user, only_accounts=runs.only_accounts)
        return collect(
            runs.store,
            seen,
            table_of=runs.table_of,
            slurm=runs.slurm,
            margin=config.policy.memory_margin,
            own=runs.own,
            by=args.by,
            report_progress=lambda read: show(read, "read"),
        )


def _runs(
    args: argparse.Namespace, config: "Config", chosen: "DecisionSelection"
) -> AbstractContextManager["Runs"]:
    """Choose where the runs are."""
    from slurm_plugin.cli import waste_runs  # noqa: PLC0415 - heavy

    if args.files:
        return waste_runs.runs_of_files(args.files, config, chosen)
    if not args.local and (args.store or waste_runs.has_store(config)):
        return waste_runs.runs_of_store(config)
    if not args.local and waste_runs.is_admin(config):
        return waste_runs.runs_of_site(config, chosen)
    return waste_runs.runs_of_user(config, chosen)


def _selection(args: argparse.Namespace) -> "DecisionSelection":
    from sacct_ingest.store import DecisionSelection  # noqa: PLC0415 - heavy

    since = args.since
    if since is None and not args.files:
        since = command_context.moment("now-30days")
    names = ("cluster", "partition", "account", "user")
    chosen = {name: getattr(args, name) for name in names}
    return DecisionSelection(since_s=since, until_s=args.until, **chosen)
