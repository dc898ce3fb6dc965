"""Check the installation, from munge to the last fit, and say how to fix each fault.

Run it as root where slurmctld runs.  Exit status: 0 nothing is wrong (there may be warnings), 1
something is.
"""

import argparse
import os
import sys

from slurm_plugin.cli.command_context import add_config, add_json, add_parsable, add_store
from slurm_plugin.cli.local_installation import installation_of
from slurm_plugin.doctor import Finding, FindingState, examine
from slurm_plugin.formatting import printable
from slurm_plugin.streams import json_text, unfiltered

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
    findings: list[Finding] = []
    for finding in examine(installation_of(args)):
        findings.append(finding)
        if not args.json:
            line = _line(finding, parsable=args.parsable2, colour=_colour())
            print(line, file=unfiltered(sys.stdout), flush=True)
    if args.json:
        print(json_text(findings))
    return int(any(finding.state is FindingState.ERROR for finding in findings))


def _line(finding: Finding, *, parsable: bool, colour: bool) -> str:
    if parsable:
        return "|".join(
            map(printable, (finding.check, finding.state, finding.message, finding.fix))
        )
    state = f"{finding.state:8}"
    if colour:
        state = f"\033[{_COLOURS[finding.state]}m{state}\033[0m"
    fix = f"\n{'':24}fix: {printable(finding.fix)}" if finding.fix else ""
    return f"{state} {finding.check:14} {printable(finding.message)}{fix}"


def _colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
