"""The ``nimo`` command: its commands, and how one of them is run."""

import argparse
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

from slurm_plugin.cli.command_context import Options
from slurm_plugin.cli.common_options import HelpFormatter, add_manners
from slurm_plugin.cli.exit_status import guarded, listed
from slurm_plugin.text import log
from slurm_plugin.text.formatting import did_you_mean

if TYPE_CHECKING:  # the overview is printed without loading tables
    from slurm_plugin.text.table_columns import Table

#: Heading of the help -> its commands -> what each does.
GROUPS = {
    "for users": {
        "predict": "show the predicted run times of an application",
        "wait": "predict when jobs in the queue start",
        "why": "say why jobs wait, and explain what was decided about a job",
        "again": "run a failed job again, with more of what it ran out of",
        "waste": "show which node-hours bought nothing, and how many could come back",
        "export": "write what your workflows' rules need as a profile for their engine",
        "scale": "make a scaling study of a job script with the fewest runs",
        "local": "show or delete what is kept of your own jobs where no nimod runs",
    },
    "for admins": {
        "init": "ask Slurm and you, and write the first configuration",
        "doctor": "check the installation and say how to fix each fault",
        "report": "compare predictions and decisions with what happened",
        "replay": "replay your history: as users asked, and under the policy",
        "web": "serve read-only pages of applications, decisions and replays",
        "status": "show the state of nimod",
        "limits": "list jobs planned with less than their limit; take that back",
        "config": "check the configuration and print it",
        "hook-path": "print the folder of the Lua hooks, or install them",
        "demo": "show NIMO on a simulated cluster: no Slurm, no root",
    },
    "for the daemon and cron": {
        "serve": "run nimod, which answers the hooks and nimo-advise",
        "ingest": "read job accounting into the store, from sacct or saved files",
        "fit": "fit the runs in the store: a prediction table for each application",
        "prune": "delete rows that are older than their retention time",
        "merge": "merge run times by node type from other stores",
        "metrics": "export metrics to Prometheus",
    },
}
LAB = "lab"  #: the word before the commands of experiments
#: Experiments: what each does.
EXPERIMENTS = {
    "learn": "learn an application's run time by running it, within a budget",
    "plan": "plan a workflow; submit and follow it",
    "probe": "measure network, CPU and disk at intervals",
    "forecast": "forecast the next value of each measured series",
    "transfer": "predict how long a transfer between two hosts takes",
    "profile": "benchmark nodes in Slurm jobs; compare nodes of one type",
}
#: Every command by the words after ``nimo``.
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()} | {
    f"{LAB} {name}": text for name, text in EXPERIMENTS.items()
}
_ADVISE = "recommend a node count and limits for a job script, as nimo-advise"
_EXPERIMENTS = "experiments: run times by trial runs, workflows, probes, transfers"
#: Commands whose work is among the experiments.
_BESIDE_EXPERIMENTS = ("scale",)


class OptionsModule(Protocol):
    """What a module under ``options`` offers; its docstring is the help."""

    EXAMPLE: str  #: command lines for the end of the help

    def add_arguments(self, add: Options) -> None:
        """Declare the command's options."""


class CommandModule(Protocol):
    """What a module under ``commands`` offers; it may be heavy."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit status."""


def tables_of(name: str) -> "Sequence[Table]":
    """Tables that a command prints, without rows: what manuals list; of most commands none."""
    make = getattr(command_module(name), "tables", None)
    return make() if make else ()


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``nimo`` with these arguments (default: the process's own); return its exit status."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    return guarded("nimo", lambda: _dispatch(arguments))


def command_parser(name: str) -> argparse.ArgumentParser:
    """Make the parser of one command; imports its options alone.

    name: the words after ``nimo``, a key of `COMMANDS`.
    """
    last = _last(name)
    place = f"slurm_plugin.cli.options.{_file(last)}"
    options = cast("OptionsModule", import_module(place))
    parser = argparse.ArgumentParser(
        prog=f"nimo {name}",
        description=options.__doc__,
        epilog=f"examples:\n{options.EXAMPLE}\n\n{listed(last)}",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="log more; twice: all")
    add_manners(parser)
    options.add_arguments(Options(parser))
    return parser


def command_module(name: str) -> CommandModule:
    """Import what a command does.

    name: as of `command_parser`.
    """
    last = _last(name)
    experiment = last in EXPERIMENTS or last in _BESIDE_EXPERIMENTS
    place = f"experiments.{_file(last)}_command" if experiment else f"cli.commands.{_file(last)}"
    return cast("CommandModule", import_module(f"slurm_plugin.{place}"))


def _last(name: str) -> str:
    return name.removeprefix(f"{LAB} ")


def _file(last: str) -> str:
    return last.replace("-", "_")


def _dispatch(arguments: Sequence[str]) -> int:
    words = list(arguments)
    if not words or words[0] == "help":
        words = [*words[1:], "--help"]
    if words[0] in EXPERIMENTS:  # their names before 0.3
        words.insert(0, LAB)
    if words[0] == "advise":
        return cast("int", import_module("slurm_plugin.cli.advise").main(words[1:]))
    overview = top_parser()
    names = COMMANDS
    place = ""
    if words[0] == LAB:
        words = words[1:] or ["--help"]
        overview = lab_parser()
        names = EXPERIMENTS
        place = f"{LAB} "
    if words[0] not in names:
        _end(overview, words, names)
    name = f"{place}{words[0]}"
    args = command_parser(name).parse_args(words[1:])
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(args.verbose, 2)]
    log.set_up(level)
    return command_module(name).run(args)


def _end(overview: argparse.ArgumentParser, words: Sequence[str], names: Iterable[str]) -> NoReturn:
    """Print what is asked for in place of a command, or that there is no such command."""
    word = next((one for one in words if not one.startswith("-")), None)
    if word is not None:
        overview.error(f"there is no command {word!r}; {did_you_mean(word, names)}")
    overview.parse_args(words)
    overview.error("there is no command")


def top_parser() -> argparse.ArgumentParser:
    """Make the parser of what may stand before the command's name."""
    groups = {heading: dict(rows) for heading, rows in GROUPS.items()}
    groups["for users"] = {"advise": _ADVISE, **groups["for users"]}
    groups["more"] = {LAB: _EXPERIMENTS}
    return _overview(
        "nimo",
        "Predicts run times of Slurm jobs from history, and recommends node counts.",
        groups,
        "'nimo help COMMAND' explains one, with examples and exit statuses.",
    )


def lab_parser() -> argparse.ArgumentParser:
    """Make the parser of what may stand before the name of an experiment."""
    return _overview(
        f"nimo {LAB}",
        "Experiments beside the jobs that users submit.",
        {"experiments": EXPERIMENTS},
        f"'nimo help {LAB} COMMAND' explains one, with examples and exit statuses.",
    )


def _overview(
    program: str, description: str, groups: Mapping[str, Mapping[str, str]], end: str
) -> argparse.ArgumentParser:
    width = max(len(name) for rows in groups.values() for name in rows)
    listing = "\n\n".join(
        f"{heading}:\n" + "\n".join(f"  {name:{width}}  {text}" for name, text in rows.items())
        for heading, rows in groups.items()
    )
    parser = argparse.ArgumentParser(
        prog=program,
        description=description,
        usage=f"{program} COMMAND [OPTION...]",
        epilog=f"{listing}\n\n{end}",
        formatter_class=HelpFormatter,
    )
    add_manners(parser)
    return parser
