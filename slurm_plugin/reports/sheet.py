"""One table of a report: a list of fields with names, values and wording, as a page, CSV or lines.

Raw values keep their units (seconds, hours, shares).
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from sacct_ingest.errors import NimoError
from sacct_ingest.files import atomic_file
from slurm_plugin.reports.html import Table, TableColumn
from slurm_plugin.text import table_columns
from slurm_plugin.text.formatting import plain
from slurm_plugin.text.table_columns import OutputColumn, OutputTable

_WIDEST = 8  #: columns of a table on a page
#: What a spreadsheet would take for a formula.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table of a report; ``rows`` are records that the fields look into."""

    name: str
    caption: str
    rows: Sequence[Any]
    fields: Sequence[OutputColumn]
    note: str = ""
    empty: str = "none"
    #: names of fields that a page has no room for; empty where there are more: it turns them
    out: str = ""

    def table(self, most: int | None = None) -> Table:
        """Make the table that people see, of ``most`` rows (None: all) and eight columns."""
        note = self.note
        if len(self.fields) > _WIDEST and not self.out:
            # The few rows side by side; the first field heads them.
            head, *rest = self.fields
            rows = self.rows[: _WIDEST - 1]
            titles = [head.text(row) for row in rows]
            columns = [TableColumn(key="field", title=head.title, left=True)]
            columns += [TableColumn(key=title, title=title) for title in titles]
            cells = [[f.title, *(f.text(row) for row in rows)] for f in rest] if rows else []
        else:
            fields = [f for f in self.fields if f.name not in self.out.split()]
            columns = [TableColumn(key=f.name, title=f.title, left=f.left) for f in fields]
            cells = [[f.text(row) for f in fields] for row in self.rows[:most]]
            if left_out := len(self.rows) - len(cells):
                note = f"{note} {left_out} more are left out here.".strip()
        return Table(
            name=self.name,
            caption=self.caption,
            columns=tuple(columns),
            rows=cells,
            note=note,
            empty=self.empty,
        )

    def output(self) -> OutputTable:
        """Give the table for terminals; of the columns but the first the last go first."""
        columns = [
            field._replace(
                worth=max(table_columns.ALWAYS - place, 1) if place else table_columns.ALWAYS,
                cuts=field.left,
            )
            for place, field in enumerate(self.fields)
        ]
        return OutputTable(columns, self.rows)


def of(path: str) -> Callable[[Any], Any]:
    """Get the value at the end of a path of attributes; None where one on the way is None."""

    def get(row: Any) -> Any:
        for name in path.split("."):
            row = None if row is None else getattr(row, name)
        return row

    return get


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
            atomic_file.write(path, csv_text(one).encode())
            written.append(path)
    except OSError as error:
        raise NimoError(f"{error.filename or folder}: {error.strerror or error}") from error
    return written


def csv_text(one: Sheet) -> str:
    """Write a table as CSV, all its columns and rows."""
    text = StringIO()
    rows = csv.writer(text)
    rows.writerow([field.name for field in one.fields])
    rows.writerows([_safe(plain(f.of(row))) for f in one.fields] for row in one.rows)
    return text.getvalue()


def _safe(text: str) -> str:
    # Numbers are ours; what else begins like a formula is somebody's name.
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(_FORMULAS) else text
    return text
