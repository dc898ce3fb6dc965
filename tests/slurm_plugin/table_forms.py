"""The forms of a table, read back."""

import csv
import io
import json
import re
from html import unescape

from slurm_plugin.reports import html
from slurm_plugin.text import formatting
from slurm_plugin.text.streams import json_text
from slurm_plugin.text.table_columns import Table, TableOptions

_PAGE = '{% import "parts.html.j2" as parts %}{{ parts.table(one) }}'
_CELL = re.compile(r"<(?P<tag>t[hd])\b[^>]*>(?P<text>.*?)</(?P=tag)>", re.DOTALL)


def check_all_forms(table: Table) -> None:
    """Text, ``-P``, CSV, JSON and HTML have the same columns and the same values."""
    raw = table.raw_columns
    values = [[formatting.plain(one.of(row)) for one in raw] for row in table.rows]
    names = [one.name for one in table.columns]
    headings = [one.heading for one in raw]
    assert len(set(names)) == len(names), names
    assert len(set(headings)) == len(headings), headings
    head, *lines = table.parsable().split("\n")
    assert head.split("|") == headings
    assert [line.split("|") for line in lines] == [list(map(_field, row)) for row in values]
    head_of_file, *rows_of_file = csv.reader(io.StringIO(table.csv()))
    assert head_of_file == [one.name for one in raw]
    assert [[cell.removeprefix("'") for cell in row] for row in rows_of_file] == [
        [cell.removeprefix("'") for cell in row] for row in values
    ]
    records = json.loads(json_text(table.records()))
    assert [list(record) for record in records] == [head_of_file] * len(values)
    assert [list(map(formatting.plain, record.values())) for record in records] == values
    for one in table.columns:
        shown = table.text(TableOptions(form=one.name)).split("\n")
        assert (one.name, shown[0].strip()) == (one.name, one.title)
        assert [line.strip() for line in shown[1:]] == [one.text(row).strip() for row in table.rows]
    _check_page(html.for_page(table))


def _check_page(shown: Table) -> None:
    page = html.environment().from_string(_PAGE).render(one=shown)
    cells = [_words(cell["text"]) for cell in _CELL.finditer(page)]
    titles = [one.title for one in shown.columns]
    expected = [*titles, *(cell for row in shown.cells() for cell in row)]
    assert cells == (list(map(_words, expected)) if shown.rows else [])


def _field(value: str) -> str:
    return formatting.printable(value).replace("|", "_")


def _words(cell: str) -> str:
    return " ".join(unescape(re.sub(r"</?(bdi|a|span|code)[^>]*>", "", cell)).split())
