"""Pages for browsers: Jinja2 templates that escape whatever is put into them.

Building blocks for one self-contained file (``nimo report --html``) as for served pages: a page
with its style, tables with captions, figures as inline SVG.  Nothing in them needs a script, and no
element has a ``style`` of its own, so that a strict Content-Security-Policy can forbid both.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from slurm_plugin.text import formatting
from slurm_plugin.text.table_columns import Column, Table

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_PACKAGE = "slurm_plugin.reports"
_WIDEST = 8  #: columns of a table on a page
_ENDS = ("_low", "_high")  #: of the names of an interval's ends
#: Options of commands and dates, which browsers would break at their hyphens, and shares; long
#: options may be.
_WHOLE = re.compile(r"(?<![^\s(])(?:(?:--[a-z]|\d{4}-\d\d-\d\d)\S{0,32}(?!\S)|\d+(?:\.\d+)? %)")


@dataclass(frozen=True, slots=True)
class PageLink:
    """Text that leads somewhere."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class PasteLine:
    """A line to paste into a script or a shell."""

    text: str


Cell = str | PageLink | PasteLine


def for_page(table: Table, most: int | None = None) -> Table:
    """Fit a table to a page: so many rows (None: all), and the columns that it has room for.

    A table with more columns, all of which matter, is turned: its rows stand side by side.
    """
    columns = [one for one in table.columns if one.on_page]
    if len(columns) > _WIDEST:
        return _turned(table)
    rows = table.rows[:most]
    note = table.note
    if left_out := len(table.rows) - len(rows):
        note = f"{note} {left_out} more are left out here.".strip()
    return replace(table, columns=columns, rows=rows, note=note)


def _turned(table: Table) -> Table:
    """Make a row of each column: the first one heads them, ends stand behind their value."""
    head, *rest = table.columns
    named = {one.name: one for one in rest}

    def of(row: Any) -> Callable[[Column], str]:
        def text(column: Column) -> str:
            ends = [named[name] for end in _ENDS if (name := f"{column.name}{end}") in named]
            tail = f" ({' to '.join(end.text(row) for end in ends)})" if ends else ""
            return column.text(row) + tail

        return text

    columns = [Column("field", head.title, lambda column: column.title, left=True)]
    for row in table.rows[: _WIDEST - 1]:
        title = head.text(row)
        columns.append(Column(title, title, of(row)))
    shown = [one for one in rest if table.rows and not one.name.endswith(_ENDS)]
    return replace(table, columns=columns, rows=shown)


def render(template: str, **values: Any) -> str:
    """Fill a template of ``templates/``; all values are escaped.

    Raises jinja2.UndefinedError: the template needs a value that is missing.
    """
    return environment().get_template(template).render(**values)


@cache
def environment() -> "Environment":
    """Templates with their filters.

    Control characters, and those that turn the direction of writing, become spaces.
    """
    # Loaded here: terminals need none of it.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    made = Environment(
        loader=PackageLoader(_PACKAGE),
        autoescape=True,
        finalize=lambda value: formatting.printable(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(clock=formatting.clock, anchor=anchor, unbroken=unbroken)
    made.globals["style"] = style()
    return made


@cache
def style() -> "Markup":
    """Style sheet of all pages, for light and dark screens and for print."""
    from markupsafe import Markup  # noqa: PLC0415

    return Markup(f"{template('style.css')}{template('chart.css')}")  # noqa: S704 - our own files


def template(name: str) -> str:
    """Read a file of ``templates/`` as it is."""
    return (files(_PACKAGE) / "templates" / name).read_text(encoding="utf-8")


def unbroken(text: str) -> "Markup":
    """Escape a text, with options, dates and shares in it that stay on one line."""
    from markupsafe import Markup, escape  # noqa: PLC0415

    safe = str(escape(formatting.printable(text)))
    return Markup(_WHOLE.sub(r'<span class="whole">\g<0></span>', safe))  # noqa: S704 - escaped


def anchor(title: str) -> str:
    """Make an identifier for an element of a page.

    >>> anchor("Node-hours & waits")
    'node-hours-waits'
    """
    words = "".join(char if char.isalnum() and char.isascii() else " " for char in title.lower())
    return "-".join(words.split())
