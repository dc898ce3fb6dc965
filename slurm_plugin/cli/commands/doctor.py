"""Check the installation, from munge to the last fit, and say the mend for what is wrong.

Best run as root where slurmctld runs.  Exit status: 0 nothing is wrong (warnings may be told), 1
something is.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence

import msgspec

from sacct_ingest.errors import NimoError
from slurm_plugin.cli.context import add_config, add_json, add_parsable, add_store, load_config
from slurm_plugin.config.loader import find
from slurm_plugin.doctor import Finding, FindingState, Installation, examine
from slurm_plugin.slurm import commands

EXAMPLE = "  nimo doctor\n  nimo doctor --json | jq '.[] | select(.state == \"error\")'"
_TIMEOUT_S = 10.0
_COLOURS = {
    FindingState.OK: "32",
    FindingState.WARNING: "33",
    FindingState.ERROR: "31;1",
    FindingState.SKIPPED: "2",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_json(parser)
    add_parsable(parser)
    add_store(parser)
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Check, and print each finding as it comes."""
    found: list[Finding] = []
    for finding in examine(patient_of(args)):
        found.append(finding)
        if not args.json:
            print(_line(finding, parsable=args.parsable2, colour=_colour()), flush=True)
    if args.json:
        print(msgspec.json.encode(found).decode())
    return int(any(finding.state is FindingState.ERROR for finding in found))


def patient_of(args: argparse.Namespace) -> Installation:
    """Give what is to be checked: an unreadable configuration is a finding, too."""

    def ask(argv: Sequence[str]) -> str:
        return commands.run(argv, timeout_s=_TIMEOUT_S)

    try:
        config = load_config(args)
    except NimoError as error:
        return Installation(error, find(args.config), ask, time.time())
    return Installation(config, find(args.config), ask, time.time())


def _line(finding: Finding, *, parsable: bool, colour: bool) -> str:
    if parsable:
        return "|".join((finding.check, finding.state, finding.told, finding.mend))
    state = f"{finding.state:8}"
    if colour:
        state = f"\033[{_COLOURS[finding.state]}m{state}\033[0m"
    mend = f"\n{'':24}mend: {finding.mend}" if finding.mend else ""
    return f"{state} {finding.check:14} {finding.told}{mend}"


def _colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
