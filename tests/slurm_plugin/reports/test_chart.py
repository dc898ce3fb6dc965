"""Charts of pages: what is drawn, what the legend names, and whether it can be told apart."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_plugin.reports import chart, figure
from slurm_plugin.reports.picture import of_table
from tests.slurm_plugin.made import table

STYLE = (Path(figure.__file__).parent / "templates" / "style.css").read_text()
#: The palettes of light and dark screens and of print.
PALETTES = [
    dict(re.findall(r"--(\w+): (#\w{6})", block))
    for block in re.findall(r":root \{(.*?)\}", STYLE, re.S)
]


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * p for weight, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, two: str) -> float:
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", PALETTES, ids=["light", "dark", "print"])
def test_marks_stand_out_three_to_one_and_text_four_and_a_half(palette):
    for ground in ("paper", "panel"):
        for ink in ("ink", "soft", "link", "good", "bad"):
            assert contrast(palette[ink], palette[ground]) >= 4.5, (ink, ground)
    # The curve, the edges of its interval, runs, tries, the change, the marked counts, the spread.
    for ground in ("paper", "panel", "range", "band"):
        for mark in ("first", "second", "third", "change", "soft", "ink"):
            assert contrast(palette[mark], palette[ground]) >= 3, (mark, ground)


def test_the_edges_are_drawn_in_a_colour_that_stands_out():
    assert "svg path.edge { stroke: var(--first)" in STYLE
    assert contrast("#ffffff", "#000000") == pytest.approx(21)


def looks(made: chart.Chart) -> list[str]:
    return [mark.look for mark in made.marks]


def test_level_and_change_are_drawn_apart_and_the_legend_names_no_more():
    bare = of_table(table())
    assert "change" not in looks(chart.curve(bare))
    assert "purple" not in chart.curve(bare).legend
    assert "a try" not in chart.curve(bare).legend
    runs = ((4, 900.0, False), (8, 700.0, True))
    job = {"asked": 4, "asked_nodes": (2, 4, 8), "asked_s": (1900.0, 1000.0, 500.0)}
    made = chart.curve(replace(bare, runs=runs, **job, recommended=3))
    assert [looks(made).count(one) for one in ("run", "try", "change", "mark second")] == [1] * 4
    for words in (
        "○ the last run",
        "× 1 try",
        "one job that asks for 4, on other",
        "■ asked: 4",
        "◆ recommended: 3",
    ):
        assert words in made.legend
    assert "A job that asks for 4 takes 00:31:40 on 2" in made.description


def test_one_count_has_its_interval_too():
    one = of_table(table(nodes=(4,), observed=(4,)))
    assert "edge" in looks(chart.curve(one))


def test_run_times_on_one_count_have_their_limit_as_a_line():
    given = {"low_s": 80.0, "high_s": 150.0}
    made = chart.histogram("x", [100.0, 101.0, 140.0], **given, limit_s=3600.0)
    assert looks(made).count("second") == 1
    assert "time limit, 1 h" in made.legend
    assert sum(look == "first" for look in looks(made)) == 2
    assert "second" not in looks(chart.histogram("x", [5.0], **given, limit_s=None))


def test_every_mark_is_inside_the_drawing():
    made = [
        chart.curve(of_table(table())),
        chart.ratios("x", [0.2, 1.0, 9.0]),
        chart.bars("x", [chart.Bar("a" * 99, 1.0, "1"), chart.Bar("b", 0.0, "0")]),
    ]
    for one in made:
        assert one.width == 360
        for mark in one.marks:
            if isinstance(mark, chart.Dot | chart.Box | chart.ChartLabel):
                assert 0 <= mark.x <= one.width
                assert 0 <= mark.y <= one.height
