"""Building blocks of pages: what users wrote stays text, and what is drawn is also said."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from predictor.types import Point
from slurm_plugin.reports import chart, html
from slurm_plugin.reports.html import Table, TableColumn
from slurm_plugin.reports.picture import Picture

EVIL = "<script>alert(1)</script>\"'&\x1b[2J\u202efdp"
PAGE = """\
{% extends "page.html.j2" %}
{% import "parts.html.j2" as parts %}
{% block content %}{{ parts.table(one) }}{{ parts.chart(drawn) }}{% endblock %}"""


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def filled(one: Table, drawn: chart.Chart) -> str:
    template = html.environment().from_string(PAGE)
    return template.render(title=EVIL, one=one, drawn=drawn)


def table(*rows: tuple[str, ...]) -> Table:
    columns = (TableColumn(key="who", title="who", left=True), TableColumn(key="n", title="n"))
    return Table(name="t", caption=EVIL, columns=columns, rows=rows)


def picture() -> Picture:
    nodes = (1, 2, 4, 8)
    return Picture(
        title=EVIL,
        nodes=nodes,
        median_s=(800.0, 420.0, 230.0, 150.0),
        low_s=(700.0, 380.0, 200.0, 100.0),
        high_s=(900.0, 460.0, 270.0, 220.0),
        confidence=0.9,
        observed=(Point(1, 800.0, 3, 0.05), Point(4, 230.0)),
        knee=4,
        observe=8,
        recommended=2,
    )


def test_what_users_wrote_is_text_everywhere():
    drawn = chart.bars(EVIL, [chart.Bar(EVIL, 1.0, EVIL)])
    made = filled(table((EVIL, EVIL)), drawn)
    assert "script" not in [tag for tag, _ in Tags(made).found]
    assert Tags(made).text.count("<script>alert(1)</script>") >= 4
    assert "\x1b" not in made
    assert "\u202e" not in made


def test_a_table_names_its_columns_and_rows():
    tags = Tags(filled(table(("ada", "3")), chart.bars("b", []))).found
    assert [a["scope"] for tag, a in tags if tag == "th"] == ["col", "col", "row"]
    assert "caption" in [tag for tag, _ in tags]


def test_a_table_without_rows_says_so():
    assert "<p>None.</p>" in filled(table(), chart.bars("b", []))


def test_no_element_needs_what_a_strict_policy_forbids():
    tags = Tags(filled(table(("ada", "3")), chart.curve(picture()))).found
    assert not [a for _, a in tags if "style" in a or any(name.startswith("on") for name in a)]
    assert not [a for _, a in tags if any("//" in (value or "") for value in a.values())]


@pytest.mark.parametrize(
    "drawn",
    [
        chart.bars("b", [chart.Bar("one", 1.0, "1"), chart.Bar("none", 0.0, "0")]),
        chart.columns("c", [chart.Bar(str(i), float(i), str(i)) for i in range(20)], guide=5),
        chart.against_nominal("n", [(0.5, 0.42), (0.9, 1.0)]),
        chart.curve(picture()),
    ],
    ids=["bars", "columns", "against_nominal", "curve"],
)
def test_all_marks_are_inside_the_drawing(drawn):
    made = filled(table(), drawn)
    svg = re.search(r"<svg.*</svg>", made, re.DOTALL)
    root = ElementTree.fromstring(svg[0])
    for one in root.iter():
        x, y = float(one.get("x", one.get("cx", "0"))), float(one.get("y", one.get("cy", "0")))
        assert 0 <= x + float(one.get("width", "0").replace("100%", "0")) <= drawn.width
        assert 0 <= y + float(one.get("height", "0")) <= drawn.height
    assert drawn.description


def test_a_curve_says_what_it_draws():
    said = chart.curve(picture()).description
    assert "1 nodes 00:13:20" in said
    assert "from 00:13:20 on 1 to 00:02:30 on 8 nodes" in said
