"""``nimo doctor``: check the installation and say how to fix each fault."""

import argparse
import os
import sys
import time
from functools import partial
from textwrap import wrap

from sacct_ingest.errors import NimoError
from slurm_plugin.cli.command_context import load_config
from slurm_plugin.config.settings_file import find
from slurm_plugin.doctor import Finding, FindingState, Installation, examine
from slurm_plugin.slurm import commands
from slurm_plugin.text.formatting import printable
from slurm_plugin.text.streams import json_text, unfiltered
from slurm_plugin.text.terminal_size import terminal_width

_INDENT = 24  #: columns of a finding's state and check
_NARROWEST = 30  #: of the messages, however narrow the terminal is
_COLOURS = {
    FindingState.OK: "32",
    FindingState.WARNING: "33",
    FindingState.ERROR: "31;1",
    FindingState.SKIPPED: "2",
}
_TIMEOUT_S = 10.0


def run(args: argparse.Namespace) -> int:
    """Check, and print each finding as it comes."""
    findings: list[Finding] = []
    width = terminal_width()
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for finding in examine(installation_of(args), limits=args.limits):
        findings.append(finding)
        if not args.json:
            fields = (finding.check, finding.state, finding.message, finding.fix)
            table = "|".join(map(printable, fields)) if args.parsable2 else ""
            text = table or _lines(finding, width, colour=colour)
            print(text, file=unfiltered(sys.stdout), flush=True)
    if args.json:
        print(json_text(findings))
    return int(any(finding.state is FindingState.ERROR for finding in findings))


def _lines(finding: Finding, width: int, *, colour: bool) -> str:
    """Lay out a finding: state, check and message, then the fix, folded at the terminal's width."""
    state = f"{finding.state:8}"
    if colour:
        state = f"\033[{_COLOURS[finding.state]}m{state}\033[0m"
    texts = [finding.message, *([f"fix: {finding.fix}"] if finding.fix else [])]
    rows = (line for text in texts for line in _folded(printable(text), width - _INDENT))
    return f"{state} {finding.check:14} " + f"\n{'':{_INDENT}}".join(rows)


def _folded(text: str, width: int) -> list[str]:
    """Fold at spaces only: paths and commands stay whole, to be copied."""
    return wrap(text, max(width, _NARROWEST), break_long_words=False, break_on_hyphens=False) or [
        ""
    ]


def installation_of(args: argparse.Namespace) -> Installation:
    """Give what is to be checked: an unreadable configuration is a finding, too."""
    ask = partial(commands.run, timeout_s=_TIMEOUT_S)
    try:
        config = load_config(args)
    except NimoError as error:
        return Installation(error, find(args.config), ask, time.time())
    return Installation(config, find(args.config), ask, time.time())
