"""Compare what was predicted and decided with what happened.

Outcomes are those that 'nimo ingest' has read so far.
"""

import argparse
import sys

import msgspec

from slurm_plugin.cli.context import (
    add_config,
    add_json,
    add_parsable,
    add_store,
    load_config,
    moment,
)
from slurm_plugin.cli.stores import open_store
from slurm_plugin.reasons import Reason
from slurm_plugin.reports import terminal
from slurm_plugin.reports.outcomes import OutcomeReport, select, summarise

EXAMPLE = "  nimo report -S now-7days\n  nimo report -p batch -u ada\n  nimo report --json"

_WORDS = {
    **{reason.value: reason.text for reason in Reason},
    "observe": "in observe mode nothing is changed",
    "advise": "in advise mode users are told, nothing is changed",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "-S", "--since", metavar="TIME", type=moment, help="decisions from this time on"
    )
    parser.add_argument("-p", "--partition", default="", help="decisions about this partition")
    parser.add_argument("-u", "--user", default="", help="decisions about this user's jobs")
    parser.add_argument("--app", default="", metavar="APPLICATION", help="this application alone")
    add_parsable(parser)
    add_json(parser)
    add_store(parser)
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    config = load_config(args)
    with open_store(config) as store:
        pairs = select(
            store.decisions.with_outcomes(args.since),
            user=args.user,
            partition=args.partition,
            application=args.app,
        )
        report = summarise(pairs, confidence=config.fit.confidence, standings=store.standings.all())
        _print(report, args)
    return 0


def _print(report: OutcomeReport, args: argparse.Namespace) -> None:
    if args.json:
        print(msgspec.json.encode(report).decode())
    elif args.parsable2:
        print("\n".join(terminal.parsable(report)))
    else:
        console = terminal.console_for(terminal=sys.stdout.isatty())
        console.print(terminal.render(report, _WORDS))
