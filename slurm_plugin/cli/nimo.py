"""The ``nimo`` command: its commands, and how one of them is run."""

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from slurm_plugin.cli import log
from slurm_plugin.cli.common_options import add_manners, did_you_mean
from slurm_plugin.cli.exit_status import EXIT_STATUSES, guarded

#: Command -> what it does, in the order in which one meets them.
COMMANDS = {
    "init": "write the first configuration by asking Slurm, and say what is left to do",
    "ingest": "read job accounting, live or from saved files, into the store",
    "prune": "delete what is older than the store is to keep it",
    "fit": "learn run time over node counts from the store",
    "merge": "merge what other stores know of run times on their types of nodes",
    "serve": "run nimod, which answers the hooks and nimo-advise",
    "status": "ask nimod how it is",
    "predict": "show what is known about an application",
    "why": "explain the decision about a job, for its owner too",
    "report": "compare what was predicted and decided with what happened",
    "web": "serve pages of applications, decisions and replays to browsers; read only",
    "metrics": "give figures on nimod, store and accuracy to Prometheus",
    "plan": "plan a workflow: places, node counts, copies, a deadline; submit and follow it",
    "replay": "what if: your own history, as asked and as the policy would have decided",
    "probe": "measure network, CPU and disk now and then; keep the series",
    "forecast": "the next value of each series of measurements, and how sure that is",
    "transfer": "how long a transfer between two hosts will take; record past ones",
    "profile": "benchmark nodes as Slurm jobs; see whether nodes of one type agree",
    "learn": "learn an application by running it: the runs that teach most, as Slurm jobs",
    "config": "check the configuration and show what is in force",
    "doctor": "check the installation, from munge to the last fit, and say how to fix it",
    "hook-path": "print the folder of the Lua hooks for slurmctld, or install them",
    "pages": "write manual pages and shell completion, after an installation by pip",
    "demo": "show the main job on a made-up cluster: no Slurm, no root",
}


class CommandModule(Protocol):
    """What a module under ``commands`` offers."""

    EXAMPLE: str  #: command lines for the end of the help

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit status."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``nimo`` with these arguments (default: the process's own); return its exit status."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    return guarded("nimo", lambda: _dispatch(arguments))


def command_parser(name: str) -> tuple[argparse.ArgumentParser, CommandModule]:
    """Make the parser of one command; imports its module."""
    module = import_module(f"slurm_plugin.cli.commands.{name.replace('-', '_')}")
    command = cast("CommandModule", module)
    parser = argparse.ArgumentParser(
        prog=f"nimo {name}",
        description=module.__doc__,
        epilog=f"examples:\n{command.EXAMPLE}\n\n{EXIT_STATUSES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="log more; twice: all")
    add_manners(parser)
    command.add_arguments(parser)
    return parser, command


def _dispatch(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] in COMMANDS:
        parser, command = command_parser(arguments[0])
        args = parser.parse_args(arguments[1:])
        _log(args.verbose)
        return command.run(args)
    overview = top_parser()
    overview.add_argument("command", metavar="COMMAND", help="see below")
    word = overview.parse_known_args(arguments)[0].command
    if word not in COMMANDS:
        overview.error(f"there is no command {word!r}; {did_you_mean(word, COMMANDS)}")
    return _dispatch([overview.parse_args(arguments).command])


def top_parser() -> argparse.ArgumentParser:
    """Make the parser of what may stand before the command's name."""
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:{width}}  {text}" for name, text in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="nimo",
        description="Learns from a Slurm cluster's own history how run time depends on nodes.",
        usage="nimo COMMAND [OPTION...]",
        epilog=f"commands:\n{listing}\n\n{EXIT_STATUSES}\n\n"
        "'nimo COMMAND --help' explains one with examples.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_manners(parser)
    return parser


def _log(verbosity: int) -> None:
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)]
    log.set_up(level)
