"""Options of every command, as Slurm's own have them; their numbers; hints for typos."""

import argparse
import os
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from slurm_plugin.text.formatting import wrapped
from slurm_plugin.text.terminal_size import terminal_width


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal, without the library that argparse loads to ask for its width.

    It does so for each option that a parser gets: a quarter of a bare Python's start.
    """

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() and int(columns) else terminal_width()
        super().__init__(prog, width=width - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Fold prose; lists and examples, whose lines are indented, stay as they are."""
        parts = text.strip("\n").split("\n\n")
        folded = (
            part if "\n " in f"\n{part}" else wrapped(" ".join(part.split()), width)
            for part in parts
        )
        return indent + "\n\n".join(folded) + "\n"


def add_manners(parser: argparse.ArgumentParser) -> None:
    """Add ``-V`` and ``--usage``, beside argparse's ``-h``."""
    parser.add_argument("-V", "--version", action=_Release, help="print the release")
    parser.add_argument("--usage", action=_Usage, help="print the usage line")


class _InfoAction(argparse.Action):
    """An option that prints something and ends."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        del dest
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **options)


class _Release(_InfoAction):
    def __call__(self, parser: argparse.ArgumentParser, *parsed: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415 - 25 ms of every other start

        del parsed
        print(f"nimo {version('nimo-slurm')}")
        parser.exit()


class _Usage(_InfoAction):
    def __call__(self, parser: argparse.ArgumentParser, *parsed: object) -> None:
        del parsed
        parser.print_usage()
        parser.exit()


def whole(text: str) -> int:
    """Read a whole number from 0 on.

    >>> whole("12")
    12
    """
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def from_one(text: str) -> int:
    """Read a whole number from 1 on."""
    count = whole(text)
    if not count:
        raise argparse.ArgumentTypeError("0 is not a whole number from 1 on")
    return count


def number(holds: Callable[[float], bool], what: str) -> Callable[[str], float]:
    """Make a reader of numbers of which something holds; ``what`` says it of others.

    >>> number(lambda one: one > 1, "above 1")("1.5")
    1.5
    """

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from error
        if not holds(value):
            raise argparse.ArgumentTypeError(f"{text} is not {what}")
        return value

    return read


share = number(lambda one: 0 <= one <= 1, "a share from 0 to 1")
not_negative = number(lambda one: 0 <= one < inf, "0 or above")
positive = number(lambda one: 0 < one < inf, "above 0")
