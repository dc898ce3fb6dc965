"""One table of a report: a list of fields with names, values and wording, as a page, CSV or lines.

Raw values keep their units (seconds, hours, shares).
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from sacct_ingest.errors import NimoError
from sacct_ingest.files import atomic_file
from slurm_plugin.reports.html import Table, TableColumn
from slurm_plugin.text import table_columns
from slurm_plugin.text.formatting import percent, plain, printable
from slurm_plugin.text.table_columns import WIDTH, OutputColumn, TableOptions

Value = str | int | float | bool | None
#: What a spreadsheet would take for a formula.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class SheetField:
    """Column of a sheet: stable name, title, where its value is, how it is shown to people."""

    key: str
    title: str
    get: Callable[[Any], Value]
    show: Callable[[Any], str] = str
    left: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One table of a report; ``rows`` are records that the fields look into."""

    name: str
    caption: str
    fields: tuple[SheetField, ...]
    rows: Sequence[Any]
    note: str = ""
    empty: str = "none"

    def table(self, most: int | None = None) -> Table:
        """Make the table that people see, of ``most`` rows (None: all)."""
        shown = self.rows[:most]
        left_out = len(self.rows) - len(shown)
        note = f"{self.note} {left_out} more are left out here." if left_out else self.note
        return Table(
            name=self.name,
            caption=self.caption,
            columns=tuple(TableColumn(key=f.key, title=f.title, left=f.left) for f in self.fields),
            rows=[[_shown(f, row) for f in self.fields] for row in shown],
            note=note.strip(),
            empty=self.empty,
        )

    def values(self) -> Iterator[list[Value]]:
        """Give the raw values, row by row."""
        for row in self.rows:
            yield [field.get(row) for field in self.fields]


def of(path: str) -> Callable[[Any], Any]:
    """Get the value at the end of a path of attributes; None where one on the way is None."""

    def get(row: Any) -> Any:
        for name in path.split("."):
            row = None if row is None else getattr(row, name)
        return row

    return get


def of_second(path: str) -> Callable[[Any], Any]:
    """Get the same of the second item of a row."""
    get = of(path)
    return lambda row: get(row[1])


def share(value: float) -> str:
    """Show a fraction as a percentage with one decimal."""
    return percent(value, 1)


def find(sheets: Sequence[Sheet], name: str) -> Sheet:
    """Find a table by its name.

    Raises NimoError: there is none.
    """
    for one in sheets:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in sheets)
    raise NimoError(f"there is no table {name!r} in a report; there are {names}")


def write_csv(sheets: Sequence[Sheet], folder: Path) -> list[Path]:
    """Write each table into a file ``NAME.csv`` of a folder, which is made where it is missing.

    Raises NimoError: they cannot be written.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in sheets:
            path = folder / f"{one.name}.csv"
            text = StringIO()
            rows = csv.writer(text)
            rows.writerow([field.key for field in one.fields])
            rows.writerows([_safe(plain(value)) for value in row] for row in one.values())
            atomic_file.write(path, text.getvalue().encode())
            written.append(path)
    except OSError as error:
        raise NimoError(f"{error.filename or folder}: {error.strerror or error}") from error
    return written


def parsable(one: Sheet, options: TableOptions | None = None) -> Iterator[str]:
    """Lines with ``|`` between the fields, as ``sacct -P``.

    Raises NoColumn: the options name a column that there is not.
    """
    return table_columns.parsable(_columns(one), one.rows, options)


def text(one: Sheet, options: TableOptions | None = None, *, width: int = WIDTH) -> str:
    """Lay the table out for a terminal.

    Raises NoColumn: the options name a column that there is not.
    """
    return table_columns.text(_columns(one), one.rows, options, width=width)


def _columns(one: Sheet) -> list[OutputColumn]:
    """Columns of a sheet: the first names the row and stays, of the others the last go first."""
    return [
        OutputColumn(
            name=field.key,
            title=field.title,
            value=field.get,
            show=lambda row, field=field: printable(_shown(field, row)),  # type: ignore[misc]
            left=field.left,
            worth=max(table_columns.ALWAYS - place, 1) if place else table_columns.ALWAYS,
            cuts=field.left,
        )
        for place, field in enumerate(one.fields)
    ]


def _safe(text: str) -> str:
    # Numbers are ours; what else begins like a formula is somebody's name.
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(_FORMULAS) else text
    return text


def _shown(field: SheetField, row: Any) -> str:
    value = field.get(row)
    return "-" if value is None else field.show(value)
