"""Tables in the manner of squeue and sacct: chosen columns, an order, what fits the terminal.

``-o nodes,wait%12`` chooses columns by name, with a width where one is given.  Widths are those of
sacct's ``--format``: ``%-12`` aligns to the left; squeue's ``wait:.12`` and ``wait:12`` work, too.
Without ``-o`` the table fits the terminal: texts over 32 characters are cut, with a ``+`` at their
end, then the least important columns are left out, then texts are cut further.  Imports nothing
heavy.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any, Final, NamedTuple

from sacct_ingest.errors import NimoError
from sacct_ingest.text.durations import duration_text, slurm_time
from slurm_plugin.text import formatting, terminal_size

WIDTH: Final = terminal_size.WIDTH
ALWAYS = 9  #: worth of a column that is never left out
MARK = "◆"  #: of the recommended row, as in pictures
ON_REQUEST = 0  #: worth of a column that only ``-o`` shows
_SHORTEST = 8  #: texts are not cut to fewer characters
_READABLE = 32  #: longer texts are cut to this before a column is left out
#: What a spreadsheet would take for a formula.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
_FORM = re.compile(r"(?P<name>[A-Za-z_0-9]+)(?:[%:](?P<side>[-.]?)(?P<width>\d+))?")


class NoColumn(NimoError):  # noqa: N818 - a noun of the user's
    """``-o`` or ``--sort`` names no column of the table, or a width that is none."""

    exit_status = 2


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a number is of: the unit of its raw value, and how people read it."""

    unit: str
    write: Callable[[Any], str]

    def __call__(self, value: Any) -> str:
        """Write a value for people."""
        return self.write(value)


SECONDS: Final = Quantity("seconds", duration_text)
#: Time limits, as they are pasted.
LIMIT: Final = Quantity("seconds", slurm_time)
MOMENT: Final = Quantity("seconds since the epoch", formatting.short_clock)
SHARE: Final = Quantity("a share of 1", formatting.percent)
FINE_SHARE: Final = Quantity("a share of 1", lambda value: formatting.percent(value, 1))
#: Hours, kilowatt-hours, money: the title says of what.
AMOUNT: Final = Quantity("", formatting.hours)
FACTOR: Final = Quantity("a factor", "{:.2f}".format)
YES: Final = Quantity("1 or 0", lambda value: "yes" if value else "no")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a figure, said once: every form of its table is made of this.

    Text for people is the title and `text`; ``-P`` has the title and the raw value, CSV and JSON
    the name and the raw value; ``-o`` and ``--sort`` take the name; pages of the manual list the
    name with its unit and meaning.
    """

    name: str
    title: str
    value: Callable[[Any], Any] | None = None  #: raw, of a row; None: its attribute of this name
    as_text: Callable[[Any], str] | None = None  #: writes a value for people, with its unit
    show: Callable[[Any], str] | None = None  #: writes what people see of a whole row instead
    order: Callable[[Any], Any] | None = None  #: what rows are sorted by; None: the value
    left: bool = False
    worth: int = ALWAYS  #: columns of the lowest worth are left out first
    cuts: bool = False  #: long texts may be cut
    derived: bool = False  #: made of others, so that scripts have it only where ``-o`` names it
    width: int = 0  #: asked for; 0: as wide as the texts
    meaning: str = ""  #: a sentence without its full stop; empty: the title says it
    on_page: bool = True  #: pages have room for it
    link: Callable[[Any], str] | None = None  #: page that a row's cell leads to; empty: none
    paste: Callable[[Any], bool] | None = None  #: whether a row's cell is a line to paste
    rows_link: str = ""  #: page on which the rows are in the order of this column
    sorted: str = ""  #: ``ascending`` or ``descending`` where they are in its order

    def of(self, row: Any) -> Any:
        """Raw value of a row: text, number, yes or no, or None."""
        return self.value(row) if self.value else getattr(row, self.name)

    def text(self, row: Any) -> str:
        """Text of a row for people; nothing known is ``-``."""
        if self.show:
            return self.show(row)
        value = self.of(row)
        if value is None:
            return "-"
        return formatting.printable((self.as_text or formatting.plain)(value))

    @property
    def unit(self) -> str:
        """Unit of raw values; empty: they have none."""
        return self.as_text.unit if isinstance(self.as_text, Quantity) else ""

    @property
    def described(self) -> str:
        """What the column is, in words, with the unit of raw values."""
        about = f"{self.title}: {self.meaning}" if self.title and self.meaning else ""
        words = about or self.meaning or self.title
        return f"{words} ({self.unit})" if self.unit else words

    @property
    def heading(self) -> str:
        """Title as ``-P`` has it: marks, which have none on the screen, go by their name."""
        return self.title or self.name


def text_column(name: str, title: str, worth: int = ALWAYS, **fields: Any) -> Column:
    """Column of texts that may be cut; ``fields`` are the others of `Column`."""
    return Column(name, title, worth=worth, left=True, cuts=True, **fields)


def or_dash(name: str) -> str:
    """Write a name; ``-`` where it is empty."""
    return name or "-"


class TableOptions(NamedTuple):
    """What ``-o``, ``--sort`` and ``--noheader`` ask for; lists as they were typed."""

    form: str = ""
    sort: str = ""
    header: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table in all its forms: all columns that there are, in their usual order, and rows.

    >>> table = Table([Column("nodes", "nodes", lambda row: row)], [4, 16])
    >>> print(table.text(TableOptions(sort="-nodes", form="nodes%4")))
    node
      16
       4
    """

    columns: Sequence[Column]
    rows: Sequence[Any]
    name: str = ""  #: stable, for files and anchors
    caption: str = ""
    note: str = ""
    empty: str = "none"  #: stands where there is no row
    csv_link: str = ""  #: where a page has the whole table

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
        """Raw values with ``|`` between them below the titles of the screen, as ``sacct -P``.

        Raises NoColumn: the options name a column that there is not.
        """
        asked = options or TableOptions()
        shown = _chosen(self.columns, asked.form) if asked.form else self.raw_columns
        ordered = _arranged(self.columns, self.rows, asked.sort)
        lines = [[one.of(row) for one in shown] for row in ordered]
        header = [[one.heading for one in shown]] if asked.header else []
        return "\n".join(formatting.parsable([*header, *lines]))

    @property
    def raw_columns(self) -> list[Column]:
        """What scripts get: columns that are not made of others."""
        return [one for one in self.columns if not one.derived]

    def csv(self) -> str:
        """Raw values as CSV, below the names."""
        import csv  # noqa: PLC0415 - for files only

        text = StringIO()
        rows = csv.writer(text)
        rows.writerow([one.name for one in self.raw_columns])
        rows.writerows(
            [_no_formula(formatting.plain(one.of(row))) for one in self.raw_columns]
            for row in self.rows
        )
        return text.getvalue()

    def listing(self) -> list[tuple[str, str]]:
        """Names that ``-o`` takes, and what each column is, in which unit: for manuals."""
        return [(one.name, one.described) for one in self.columns]

    def cells(self) -> list[list[str]]:
        """Texts for people, all columns of all rows."""
        return [[one.text(row) for one in self.columns] for row in self.rows]

    def records(self) -> list[dict[str, Any]]:
        """Raw values by name, for JSON."""
        return [{one.name: one.of(row) for one in self.raw_columns} for row in self.rows]


def _no_formula(text: str) -> str:
    # Numbers are ours; what else begins like a formula is somebody's name.
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(_FORMULAS) else text
    return text


def _chosen(columns: Sequence[Column], form: str) -> list[Column]:
    """Choose columns as ``-o`` lists them."""
    return [_of_form(columns, one.strip()) for one in form.split(",")]


def _arranged(columns: Sequence[Column], rows: Sequence[Any], sort: str) -> list[Any]:
    """Sort rows as ``--sort`` lists columns, a minus before what is to fall; rows without last."""
    made = list(rows)
    for one in reversed([word.strip() for word in sort.split(",") if word.strip()]):
        order = _of_name(columns, one.lstrip("+-"))
        get: Callable[[Any], Any] = order.order or order.of
        filled = [row for row in made if get(row) is not None]
        filled.sort(key=get, reverse=one.startswith("-"))
        made = filled + [row for row in made if get(row) is None]
    return made


def _of_form(columns: Sequence[Column], form: str) -> Column:
    match = _FORM.fullmatch(form)
    if match is None:
        raise NoColumn(f"{form!r} is not a column; write NAME, NAME%20 or NAME%-20")
    column = _of_name(columns, match["name"])
    if not match["width"]:
        return column
    # A bare width: squeue's ``:`` aligns to the left, sacct's ``%`` to the right.
    left = match["side"] == "-" or (not match["side"] and ":" in form)
    return replace(column, width=int(match["width"]), left=left)


def _of_name(columns: Sequence[Column], name: str) -> Column:
    plain = _bare(name)
    # The title of one may be the name of another.
    for form in (lambda one: one.name, _bare_name, _name_without_unit, _bare_heading):
        for one in columns:
            if form(one) in (name, plain):
                return one
    begins = [one for one in columns if plain and _bare(one.name).startswith(plain)]
    if len(begins) == 1:
        return begins[0]
    names = ", ".join(one.name.removesuffix("_s") for one in columns)
    raise NoColumn(f"there is no column {name!r}; there are: {names}")


def _bare_name(column: Column) -> str:
    return _bare(column.name)


def _name_without_unit(column: Column) -> str:
    return _bare(column.name.removesuffix("_s"))


def _bare_heading(column: Column) -> str:
    return _bare(column.heading)


def _bare(name: str) -> str:
    """Name or title as it is compared: ``time_s``, ``TimeS`` and ``run time`` without its space."""
    return name.replace("_", "").replace(" ", "").lower()


def _fitted(columns: Sequence[Column], rows: Sequence[Any], width: int) -> str:
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
    columns: Sequence[Column], rows: Sequence[Any], excess: int, *, shortest: int
) -> list[Column]:
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
    return [replace(one, width=widths.get(one.name, 0)) for one in columns]


def _laid_out(columns: Sequence[Column], rows: Sequence[Any]) -> str:
    titles = [_sized(one, one.title, "") for one in columns]
    lines = [[_sized(one, one.text(row), "+" * one.cuts) for one in columns] for row in rows]
    left = frozenset(i for i, one in enumerate(columns) if one.left)
    return formatting.table(titles, lines, left=left)


def _sized(column: Column, cell: str, mark: str) -> str:
    """Text in a column's own width; what is cut ends in a mark."""
    width = column.width
    if not width:
        return cell
    if formatting.screen_width(cell) > width:
        cell = formatting.cut(cell, width - len(mark)) + mark
    return formatting.padded(cell, width, left=column.left)
