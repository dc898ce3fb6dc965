"""What the commands share: configuration, store, options that mean the same everywhere.

Imports nothing heavy: settings, times and YAML are loaded where they are read.
"""

import argparse
import os
import signal
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from slurm_plugin.config.settings_file import socket_of
from slurm_plugin.text.streams import Heading, printable_lines, unfiltered
from slurm_plugin.text.terminal_size import terminal_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from slurm_plugin.config.settings import Config
    from slurm_plugin.text.table_columns import Table, TableOptions


class Options:
    """Adds options and arguments to a parser, or to a group of options in it."""

    def __init__(self, parser: argparse._ActionsContainer) -> None:
        self._parser = parser

    def __call__(self, words: str, meaning: str, **how: Any) -> None:
        """Add an option or an argument; ``how`` as of argparse.

        words: its names and what its value is called, as the help shows them: ``-S --since TIME``.
            An option without a value is a flag, and one whose default is a number takes such
            numbers.
        """
        names = words.split()
        if len(names) > 1 and not names[-1].startswith("-"):
            how["metavar"] = names.pop()
        elif not how:
            how["action"] = "store_true"
        if isinstance(how.get("default"), int | float):
            how.setdefault("type", type(how["default"]))
        self._parser.add_argument(*names, help=meaning, **how)

    def one_of(self) -> "Options":
        """Begin options of which a command line has one at most."""
        return Options(self._parser.add_mutually_exclusive_group())

    def shared(self, *names: str) -> None:
        """Add options that mean the same everywhere: config, store, json, parsable, since."""
        for name in names:
            words, meaning, how = _SHARED[name]
            self(words, meaning, **how)

    def table(self, *letters: str) -> None:
        """Add ``--format``, ``--sort`` and ``--noheader``, as squeue and sacct have them.

        letters: short options of ``--format`` and ``--noheader`` where they are free, such as
            ``-o``.
        """
        form, header = (f"{letter} " for letter in letters) if letters else ("", "")
        columns = "columns of the table, each with an optional width: nodes,time%%12,ends%%-14"
        self(f"{form}--format COLUMNS", columns, default="")
        self("--sort COLUMNS", "order of the rows; -NAME: the largest first", default="")
        self(f"{header}--noheader", "no titles above the columns")

    def table_of_store(self) -> None:
        """Add what all commands have that print a table from the store."""
        self.table("-o", "-n")
        self.shared("parsable", "json", "store", "config")


def until_stopped(once: "Callable[[], object]", every_s: float) -> int:
    """Call ``once`` again and again until SIGTERM or SIGINT, through outages; gives the status."""
    from sacct_ingest.ingest.into_store import FollowSettings, follow  # noqa: PLC0415

    asked: list[int] = []

    def stop(number: int, frame: object) -> NoReturn:  # noqa: ARG001 - signal gives it
        asked.append(number)
        raise SystemExit(0)

    def pause(seconds: float) -> None:
        # Raised while Python was in a finalizer, the end was swallowed.
        if asked:
            raise SystemExit(0)
        time.sleep(seconds)

    # From here on an end that was asked for is no failure.
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, stop)
    follow(once, FollowSettings(every_s=every_s), pause=pause)
    return 0


def table_options(args: argparse.Namespace) -> "TableOptions":
    """Give what `Options.table` read."""
    from slurm_plugin.text.table_columns import TableOptions  # noqa: PLC0415

    return TableOptions(form=args.format, sort=args.sort, header=not args.noheader)


def print_table(table: "Table", args: argparse.Namespace) -> None:
    """Print a table for people, or as ``-P`` asks."""
    options = table_options(args)
    print(
        table.parsable(options) if args.parsable2 else table.text(options, width=terminal_width())
    )


def print_parts(parts: "Iterable[str]") -> None:
    """Print parts, one below the other, headings bold where the terminal can and may."""
    bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for part in parts:
        if bold and isinstance(part, Heading):
            text = f"\033[1m{printable_lines(part)}\033[0m"
            print(text, file=unfiltered(sys.stdout))
        else:
            print(part)


def moment(text: str) -> int:
    """Read a time as Slurm's commands take it, such as ``now-7days``: seconds since the epoch.

    Raises ArgumentTypeError: it is none: a usage error.
    """
    from sacct_ingest.text.time_spec import parse_time  # noqa: PLC0415

    try:
        return parse_time(text, now_s=time.time())
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; write it as 2026-01-31, 2026-01-31T18:00, 18:00 or now-7days"
        ) from error


_SHARED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "config": (
        "--config FILE",
        "configuration (default: $NIMO_CONFIG, then /etc/nimo/nimo.yaml, then built in)",
        {"type": Path},
    ),
    "store": (
        "--store STORE",
        "SQLite file or database URL (default: the configuration's)",
        {"default": ""},
    ),
    "local": (
        "--local",
        "from your own jobs in the accounting, without nimod (where there is none: the default)",
        {},
    ),
    "json": ("--json", "print JSON", {}),
    # As sacct has it.
    "parsable": ("-P --parsable2", "print fields with '|' between them", {}),
    "since": (
        "-S --since TIME",
        "only measurements since this time (default: now-30days)",
        {"type": moment, "default": "now-30days"},
    ),
}


def load_config(args: argparse.Namespace, *, for_user: bool = False) -> "Config":
    """Read the configuration in force, with the store that the command line names.

    for_user: the command can ask nimod, so that its user need not be able to read the site's file.
    Raises ConfigError: the file cannot be read or holds a wrong value.
    """
    from msgspec.structs import replace  # noqa: PLC0415

    from slurm_plugin.config.loader import load, load_for_user  # noqa: PLC0415

    config = load_for_user(args.config) if for_user else load(args.config)
    store = getattr(args, "store", "")
    return replace(config, store=store_url(store)) if store else config


def user_settings(args: argparse.Namespace) -> "Callable[[], Config]":
    """Give the configuration for a command that asks nimod, read when it is first needed.

    To load a reader of YAML takes longer than nimod takes to answer.
    """
    return cache(lambda: load_config(args, for_user=True))


def nimod_socket(args: argparse.Namespace, settings: "Callable[[], Config]") -> str:
    """Socket of nimod: the file's line where it is plain, else the configuration's."""
    return socket_of(args.config) or settings().socket


def store_url(store: str) -> str:
    """Make a database URL of what the user gave: a URL as it is, a path as an SQLite file.

    >>> store_url("postgresql+psycopg://nimo@db/nimo")
    'postgresql+psycopg://nimo@db/nimo'
    >>> store_url("/srv/nimo.db")
    'sqlite:////srv/nimo.db'
    """
    return store if "://" in store else f"sqlite:///{Path(store).absolute()}"
