"""``nimo report``: compare predictions and decisions with what happened."""

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from slurm_plugin.cli import command_context
from slurm_plugin.cli.through_nimod import TIMEOUT_S, nimod_or_store
from slurm_plugin.nimod import client
from slurm_plugin.protocol.request_messages import Ask, Selection
from slurm_plugin.protocol.status_messages import Reported
from slurm_plugin.reports.headline import Head, title_of
from slurm_plugin.text.formatting import clock, wrapped
from slurm_plugin.text.terminal_size import terminal_width

if TYPE_CHECKING:  # heavy, and --help needs none
    from collections.abc import Sequence

    from slurm_plugin.config.settings import Config
    from slurm_plugin.evaluation.outcomes import OutcomeReport
    from slurm_plugin.text.table_columns import Table


def tables() -> "Sequence[Table]":
    """Give what it prints, without rows."""
    from slurm_plugin.evaluation.outcomes import OutcomeTally  # noqa: PLC0415 - heavy
    from slurm_plugin.reports.sheets import sheets_of  # noqa: PLC0415

    return sheets_of(OutcomeTally(0.9).report(), {})


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    settings = command_context.user_settings(args)
    report = nimod_or_store(
        settings,
        lambda: _of_nimod(command_context.nimod_socket(args, settings), args),
        lambda config: _stored(config, args),
        store_named=bool(args.store),
        local=args.local,
    )
    asked = _asked(args)
    times = {"since": asked.since_s, "until": asked.until_s}
    chosen = {name: clock(at_s) for name, at_s in times.items() if at_s is not None}
    for name in ("cluster", "partition", "account", "user", "application"):
        chosen |= {name: value} if (value := getattr(asked, name)) else {}
    report = replace(report, selection=chosen)
    if args.anonymise:
        from slurm_plugin.evaluation.outcomes import anonymous  # noqa: PLC0415

        report = anonymous(report)
    _print(report, args)
    return 0


def _of_nimod(socket: str, args: argparse.Namespace) -> "OutcomeReport":
    """Ask nimod, and print the first line before all else is loaded."""
    ask = Ask(op="report", selection=_asked(args))
    answer = client.exchange(socket, ask, Reported, TIMEOUT_S)
    if answer.own_only:
        why = "PrivateData hides others' jobs; operators name the store: --store"
        print(f"nimo: only your own jobs are shown: {why}", file=sys.stderr)
    if _for_terminal(args):
        _print_title(msgspec.json.decode(answer.report, type=Head))
    from slurm_plugin.evaluation.outcomes import OutcomeReport  # noqa: PLC0415 - heavy

    return msgspec.json.decode(answer.report, type=OutcomeReport)


def _stored(config: "Config", args: argparse.Namespace) -> "OutcomeReport":
    """Read the store, which few users may, and print the first line."""
    from slurm_plugin.cli.progress import progress  # noqa: PLC0415 - heavy
    from slurm_plugin.evaluation.report_data import collect, selection_of  # noqa: PLC0415
    from slurm_plugin.slurm.job_request import user_name  # noqa: PLC0415
    from slurm_plugin.store_access import open_store, visibility_for  # noqa: PLC0415

    rules = visibility_for(config, os.getuid(), user_name())
    asked = _asked(args)
    if rules.why:
        print(f"nimo: only your own jobs are shown: {rules.why}", file=sys.stderr)
    chosen = selection_of(asked, only_user=rules.only_user, only_accounts=rules.accounts)
    with open_store(config) as store, progress("decisions") as show:
        report = collect(
            store,
            chosen,
            config=config,
            application=asked.application,
            least_node_hours=asked.least_node_hours,
            report_progress=lambda read: show(read, "read"),
        )
    if _for_terminal(args):
        _print_title(report)
    return report


def _asked(args: argparse.Namespace) -> Selection:
    return Selection(
        since_s=args.since,
        until_s=args.until,
        cluster=args.cluster,
        partition=args.partition,
        account=args.account,
        user=args.user,
        application=args.app,
        least_node_hours=args.least_waste,
    )


def _for_terminal(args: argparse.Namespace) -> bool:
    """Whether the report is printed as text, not as data or into files."""
    table = args.parsable2 or args.table or args.format or args.sort
    return not (table or args.json or args.csv or args.html)


def _print_title(report: "Head | OutcomeReport") -> None:
    print(wrapped(title_of(report), terminal_width()), flush=True)


def _print(report: "OutcomeReport", args: argparse.Namespace) -> None:
    from slurm_plugin.protocol.reasons import WORDS  # noqa: PLC0415
    from slurm_plugin.reports import sheets  # noqa: PLC0415

    if args.csv:
        for path in sheets.write_csv(sheets.sheets_of(report, WORDS), args.csv):
            print(path)
    if args.html:
        _page(report, args.html)
    if args.json:
        from slurm_plugin.text.streams import json_text  # noqa: PLC0415

        tables = sheets.sheets_of(report, WORDS)
        print(json_text(sheets.find(tables, args.table).records() if args.table else report))
    elif args.parsable2 or args.table or args.format or args.sort:
        one = sheets.find(sheets.sheets_of(report, WORDS), args.table or "applications")
        command_context.print_table(one, args)
    elif _for_terminal(args):
        _terminal(report)


def _page(report: "OutcomeReport", path: Path) -> None:
    from sacct_ingest.errors import NimoError, system_errors  # noqa: PLC0415
    from sacct_ingest.files import atomic_file  # noqa: PLC0415
    from slurm_plugin.protocol.reasons import WORDS  # noqa: PLC0415
    from slurm_plugin.reports.page import page  # noqa: PLC0415

    text = page(report, WORDS, now_s=time.time())
    if str(path) == "-":
        print(text)
        return
    with system_errors(NimoError, path):
        atomic_file.write(path, text.encode())


def _terminal(report: "OutcomeReport") -> None:
    if not (report.decisions or report.waste or report.unused or report.arrays):
        return
    from slurm_plugin.protocol.reasons import WORDS  # noqa: PLC0415
    from slurm_plugin.reports import terminal  # noqa: PLC0415

    command_context.print_parts(terminal.render(report, WORDS, width=terminal_width()))
