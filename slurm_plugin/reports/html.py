"""Pages for browsers: Jinja2 templates that escape whatever is put into them.

Building blocks for one self-contained file (``nimo report --html``) as for served pages: a page
with its style, tables with captions, figures as inline SVG.  Nothing in them needs a script, and no
element has a ``style`` of its own, so that a strict Content-Security-Policy can forbid both.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from slurm_plugin.text import formatting

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_PACKAGE = "slurm_plugin.reports"
#: Options of commands and dates, which browsers would break at their hyphens; long ones may be.
_WHOLE = re.compile(r"(?<![^\s(])(?:--[a-z]|\d{4}-\d\d-\d\d)\S{0,32}(?!\S)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """Column of a table; ``key`` is its stable name in files, ``title`` what people read."""

    key: str
    title: str
    left: bool = False  #: words; numbers stand to the right
    href: str = ""  #: page on which the rows are in the order of this column
    order: str = ""  #: ``ascending`` or ``descending`` where they are in its order


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with its caption; cells are text that the template escapes.

    The first cell of a row names it.  ``empty`` stands where there is no row.
    """

    name: str  #: stable, for files and anchors
    caption: str
    columns: tuple[TableColumn, ...]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    empty: str = "none"
    csv: str = ""  #: where the whole table is


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

    source = files(_PACKAGE) / "templates" / "style.css"
    return Markup(source.read_text(encoding="utf-8"))  # noqa: S704 - our own file


def unbroken(text: str) -> "Markup":
    """Escape a text, with options and dates in it that stay on one line."""
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
