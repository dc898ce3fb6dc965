"""Tables in the manner of squeue and sacct: chosen columns, an order, what fits the terminal.

``-o nodes,wait%12`` chooses columns by name, with a width where one is given.  Widths are those of
sacct's ``--format``: ``%-12`` aligns to the left; squeue's ``wait:.12`` and ``wait:12`` work, too.
Without ``-o`` the table fits the terminal: texts over 32 characters are cut, with a ``+`` at their
end, then the least important columns are left out, then texts are cut further.  Imports nothing
heavy.
"""

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sacct_ingest.errors import NimoError
from slurm_plugin.text import formatting

WIDTH = 80  #: of output that goes to no terminal
ALWAYS = 9  #: worth of a column that is never left out
MARK = "◆"  #: of the recommended row, as in pictures
ON_REQUEST = 0  #: worth of a column that only ``-o`` shows
_SHORTEST = 8  #: texts are not cut to fewer characters
_READABLE = 32  #: longer texts are cut to this before a column is left out
_FORM = re.compile(r"(?P<name>[A-Za-z_0-9]+)(?:[%:](?P<side>[-.]?)(?P<width>\d+))?")


class NoColumn(NimoError):  # noqa: N818 - a noun of the user's
    """``-o`` or ``--sort`` names no column of the table, or a width that is none."""

    exit_status = 2


class OutputColumn(NamedTuple):
    """One column: what ``-o`` and ``--sort`` call it, its title, raw value and text of a row."""

    name: str
    title: str
    value: Callable[[Any], Any] | None = None  #: of a row; None: its attribute of this name
    as_text: Callable[[Any], str] | None = None  #: writes a value, for people; none is ``-``
    show: Callable[[Any], str] | None = None  #: writes what people see of a whole row instead
    order: Callable[[Any], Any] | None = None  #: what rows are sorted by; None: the value
    left: bool = False
    worth: int = ALWAYS  #: columns of the lowest worth are left out first
    cuts: bool = False  #: long texts may be cut
    derived: bool = False  #: made of others, so that ``-P`` has it only where ``-o`` names it
    width: int = 0  #: asked for; 0: as wide as the texts

    def of(self, row: Any) -> Any:
        """Raw value of a row: text, number, yes or no, or None."""
        return self.value(row) if self.value else getattr(row, self.name)

    def text(self, row: Any) -> str:
        """Text of a row for people."""
        if self.show:
            return self.show(row)
        value = self.of(row)
        if value is None:
            return "-"
        return formatting.printable(
            self.as_text(value) if self.as_text else formatting.plain(value)
        )


def text_column(name: str, title: str, worth: int = ALWAYS, **fields: Any) -> OutputColumn:
    """Column of texts that may be cut; ``fields`` are the others of `OutputColumn`."""
    return OutputColumn(name, title, worth=worth, left=True, cuts=True, **fields)


def or_dash(name: str) -> str:
    """Write a name; ``-`` where it is empty."""
    return name or "-"


def between(low: float | None, high: float | None, as_text: Callable[[float], str]) -> str:
    """Write an interval; ``-`` where there is none.

    >>> between(60, 240, "{:.0f} s".format)
    '60 s to 240 s'
    """
    return "-" if low is None or high is None else f"{as_text(low)} to {as_text(high)}"


def span_between(low_s: float | None, high_s: float | None) -> str:
    """Write an interval of durations as people say it; ``-`` where there is none.

    >>> span_between(660, 840)
    '11 to 14 min'
    """
    return "-" if low_s is None or high_s is None else formatting.spans(low_s, high_s)


class TableOptions(NamedTuple):
    """What ``-o``, ``--sort`` and ``--noheader`` ask for; lists as they were typed."""

    form: str = ""
    sort: str = ""
    header: bool = True


class OutputTable(NamedTuple):
    """A table for people or scripts: all columns that there are, in their usual order, and rows.

    >>> table = OutputTable([OutputColumn("nodes", "nodes", lambda row: row)], [4, 16])
    >>> print(table.text(TableOptions(sort="-nodes", form="nodes%4")))
    node
      16
       4
    """

    columns: Sequence[OutputColumn]
    rows: Sequence[Any]

    def text(self, options: TableOptions | None = None, *, width: int = WIDTH) -> str:
        """Lay the table out for people.

        width: columns of the terminal, which a table without ``-o`` fits into.
        Raises NoColumn: the options name a column that there is not.
        """
        asked = options or TableOptions()
        ordered = _arranged(self.columns, self.rows, asked.sort)
        if asked.form:
            made = _laid_out(_chosen(self.columns, asked.form), ordered)
        else:
            made = _fitted([one for one in self.columns if one.worth != ON_REQUEST], ordered, width)
        return made if asked.header else made.partition("\n")[2]

    def parsable(self, options: TableOptions | None = None) -> str:
        """Raw values with ``|`` between them, as ``sacct -P``.

        Raises NoColumn: the options name a column that there is not.
        """
        asked = options or TableOptions()
        usual = [one for one in self.columns if not one.derived]
        shown = _chosen(self.columns, asked.form) if asked.form else usual
        ordered = _arranged(self.columns, self.rows, asked.sort)
        lines = formatting.parsable(
            (one.name for one in shown), ([one.of(row) for one in shown] for row in ordered)
        )
        if not asked.header:
            next(lines)
        return "\n".join(lines)


def _chosen(columns: Sequence[OutputColumn], form: str) -> list[OutputColumn]:
    """Choose columns as ``-o`` lists them."""
    return [_of_form(columns, one.strip()) for one in form.split(",")]


def _arranged(columns: Sequence[OutputColumn], rows: Sequence[Any], sort: str) -> list[Any]:
    """Sort rows as ``--sort`` lists columns, a minus before what is to fall; rows without last."""
    made = list(rows)
    for one in reversed([word.strip() for word in sort.split(",") if word.strip()]):
        order = _of_name(columns, one.lstrip("+-"))
        get: Callable[[Any], Any] = order.order or order.of
        filled = [row for row in made if get(row) is not None]
        filled.sort(key=get, reverse=one.startswith("-"))
        made = filled + [row for row in made if get(row) is None]
    return made


def terminal_width() -> int:
    """Columns of the terminal on standard output; `WIDTH` where it is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH


def _of_form(columns: Sequence[OutputColumn], form: str) -> OutputColumn:
    match = _FORM.fullmatch(form)
    if match is None:
        raise NoColumn(f"{form!r} is not a column; write NAME, NAME%20 or NAME%-20")
    column = _of_name(columns, match["name"])
    if not match["width"]:
        return column
    # A bare width: squeue's ``:`` aligns to the left, sacct's ``%`` to the right.
    left = match["side"] == "-" or (not match["side"] and ":" in form)
    return column._replace(width=int(match["width"]), left=left)


def _of_name(columns: Sequence[OutputColumn], name: str) -> OutputColumn:
    plain = _bare(name)
    for one in columns:
        if plain in (_bare(one.name), _bare(one.name.removesuffix("_s"))):
            return one
    begins = [one for one in columns if plain and _bare(one.name).startswith(plain)]
    if len(begins) == 1:
        return begins[0]
    names = ", ".join(one.name.removesuffix("_s") for one in columns)
    raise NoColumn(f"there is no column {name!r}; there are: {names}")


def _bare(name: str) -> str:
    """Name as it is compared: ``-P`` writes ``TimeS`` for ``time_s``, and people ``time``."""
    return name.replace("_", "").lower()


def _fitted(columns: Sequence[OutputColumn], rows: Sequence[Any], width: int) -> str:
    """Lay out what fits: long texts are cut, columns left out by their worth, texts cut further."""
    shown = list(columns)
    while True:
        least = min(shown, key=lambda one: one.worth)
        last = least.worth == ALWAYS
        excess = _width(_laid_out(shown, rows)) - width
        cut = _cut(shown, rows, excess, shortest=_SHORTEST if last else _READABLE)
        made = _laid_out(cut, rows)
        if last or _width(made) <= width:
            return made
        shown.remove(least)


def _width(table: str) -> int:
    return max(map(formatting.screen_width, table.splitlines()))


def _cut(
    columns: Sequence[OutputColumn], rows: Sequence[Any], excess: int, *, shortest: int
) -> list[OutputColumn]:
    """Narrow the columns whose texts may be cut, the widest first."""
    widths = {
        one.name: max(len(one.title), *(formatting.screen_width(one.text(row)) for row in rows))
        for one in columns
        if one.cuts and rows
    }
    while excess > 0 and widths and max(widths.values()) > shortest:
        widest = max(widths, key=lambda name: widths[name])
        widths[widest] -= 1
        excess -= 1
    return [one._replace(width=widths.get(one.name, 0)) for one in columns]


def _laid_out(columns: Sequence[OutputColumn], rows: Sequence[Any]) -> str:
    titles = [_sized(one, one.title, "") for one in columns]
    lines = [[_sized(one, one.text(row), "+" * one.cuts) for one in columns] for row in rows]
    left = frozenset(i for i, one in enumerate(columns) if one.left)
    return formatting.table(titles, lines, left=left)


def _sized(column: OutputColumn, cell: str, mark: str) -> str:
    """Text in a column's own width; what is cut ends in a mark."""
    width = column.width
    if not width:
        return cell
    if formatting.screen_width(cell) > width:
        cell = formatting.cut(cell, width - len(mark)) + mark
    return formatting.padded(cell, width, left=column.left)
