"""Curves drawn as characters and as files."""

import re
from dataclasses import replace
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.problems import Problem
from predictor.types import Point, Verdict
from sacct_ingest.errors import PlotError
from slurm_plugin.cli.plot import show
from slurm_plugin.protocol.advice_messages import Advice, ObservedPoint, Row
from slurm_plugin.reports import chart, html, terminal_chart
from slurm_plugin.reports.chart_marks import Box, Chart, ChartLabel, ChartPath, Dot
from slurm_plugin.reports.curve_chart import curve
from slurm_plugin.reports.mark_looks import look_of
from slurm_plugin.reports.matplotlib_marks import draw as figure_of
from slurm_plugin.reports.matplotlib_marks import outline_of
from slurm_plugin.reports.picture import (
    NEXT_RUN,
    OBSERVED,
    RECOMMENDED,
    SIGNS,
    Picture,
    of_advice,
    of_table,
)
from slurm_plugin.reports.time_charts import Moment, ratios, series
from tests.slurm_plugin.made import history, table

DOT = SIGNS["observed"]

PROBLEM = Problem("linear_section", "all points in the linear section", 24)


def on_terminal(picture, columns=80, rows=25):
    return terminal_chart.draw(
        curve(picture, **terminal_chart.size_of(columns, rows)), picture.caption
    )


def plot_lines(text):
    """The chart alone, from the top: without title and key."""
    lines = text.splitlines()
    return lines[lines.index("run time") : lines.index("")]


def columns(text, sign):
    return sorted(line.index(sign) for line in plot_lines(text) if sign in line)


def test_refused_predictions_are_left_out():
    verdicts = tuple(Verdict.RELIABLE if n <= 20 else Verdict.REFUSED for n in range(1, 33))
    assert of_table(table(verdicts=verdicts)).nodes == tuple(range(1, 21))


def test_what_is_to_be_observed_is_the_first_that_a_problem_proposes():
    assert of_table(table(problems=(Problem("a", "b"), PROBLEM))).observe == 24


def test_nothing_observed_is_nothing_to_draw():
    with pytest.raises(PlotError, match="nothing to draw"):
        of_table(table(observed=()))


def test_an_advice_brings_its_recommendation():
    row = Row(
        nodes=4, time_s=10.0, low_s=9.0, high_s=11.0, speedup=1.0, efficiency=1.0, node_hours=1.0
    )
    advice = Advice(
        rows=[row], points=[ObservedPoint(4, 10.0)], nodes=4, knee=2, asked=2, cluster="pine"
    )
    made = of_advice(advice)
    assert made.marks == {"knee": 2, "asked": 2, "recommended": 4}
    assert re.fullmatch(r"0 runs, , \d{4}-\d\d-\d\d, cluster pine", made.caption)


def test_a_wide_interval_does_not_make_the_curve_flat():
    recorded = table()
    wide = replace(recorded, high_s=tuple(1e6 * t for t in recorded.median_s))
    *_, highest = of_table(wide).limits()
    assert highest <= 2.5 * max(recorded.median_s)


def test_signs_stand_at_their_node_counts():
    text = on_terminal(replace(of_table(table(problems=(PROBLEM,))), recommended=3))
    (axis,) = (line for line in plot_lines(text) if "╵" in line)
    places = [at for at, sign in enumerate(axis) if sign == "╵"]  # of 1, 2, 4 … 32 nodes
    assert len(places) == 6
    doubling = (places[5] - places[0]) / 5
    assert columns(text, DOT) == pytest.approx(places[:5], abs=1)
    assert columns(text, SIGNS[NEXT_RUN]) == pytest.approx([places[0] + 4.585 * doubling], abs=1)
    assert columns(text, SIGNS[RECOMMENDED]) == pytest.approx([places[0] + 1.585 * doubling], abs=1)
    assert columns(text, "┆") == pytest.approx([places[3]] * len(columns(text, "┆")), abs=1)
    assert "┆ knee: 8" in text


def test_the_curve_falls_and_its_labels_too():
    text = on_terminal(of_table(table()))
    rows = {line.index(DOT): i for i, line in enumerate(plot_lines(text)) if DOT in line}
    assert [rows[column] for column in sorted(rows)] == sorted(rows.values())
    labels = [line.split("┈")[0].strip() for line in plot_lines(text) if "┈" in line]
    assert [label for label in labels if label] == ["1 h", "30 min", "20 min", "10 min", "5 min"]


def test_a_history_of_one_node_count_is_a_point():
    text = on_terminal(of_table(history()))
    assert sum(line.count(SIGNS[OBSERVED]) for line in plot_lines(text)) == 1
    assert "├" in text


def test_dashes_are_where_nothing_was_observed():
    made = of_table(table(nodes=(1, 2, 4, 8, 16, 32), observed=(1, 2, 4)))
    rows = plot_lines(on_terminal(made))
    (axis,) = (line for line in rows if "╵" in line)
    places = [at for at, sign in enumerate(axis) if sign == "╵"]
    drawn = {at for line in rows for at, sign in enumerate(line) if "\u2801" <= sign <= "\u28ff"}
    drawn |= {at for line in rows for at, sign in enumerate(line) if sign in SIGNS.values()}
    assert {*range(places[0], places[2])} <= drawn
    assert not {*range(places[2] + 1, places[5])} <= drawn


@settings(deadline=None, max_examples=60)
@given(
    width=st.integers(1, 200),
    height=st.integers(1, 60),
    unit=st.floats(1e-3, 1e6),
    seen=st.lists(st.integers(1, 20_000), min_size=1, max_size=8, unique=True),
)
def test_any_curve_fits_its_frame(width, height, unit, seen):
    nodes = tuple(sorted({1, *seen, 4 * max(seen)}))
    times = tuple(unit * (100 + 3600 / n) for n in nodes)
    made = Picture(
        title="solve",
        nodes=nodes,
        median_s=times,
        low_s=tuple(t / 3 for t in times),
        high_s=tuple(t * 3 for t in times),
        confidence=0.9,
        observed=tuple(Point(n, unit * (100 + 3600 / n), 3, 0.1) for n in sorted(seen)),
        knee=nodes[0],
        observe=8 * max(seen),
    )
    lines = plot_lines(on_terminal(made, width, height))
    assert len(lines) == max(height, 12)
    assert all(len(line) <= max(width, 40) for line in lines)


def everything():
    """A picture with all that there is to draw."""
    return replace(
        of_table(table(problems=(PROBLEM,), label="so$lve$")),
        recommended=4,
        runs=((4, 900.0, False), (8, 700.0, True)),
        asked=6,
        asked_nodes=(2, 4, 8),
        asked_s=(1900.0, 1000.0, 500.0),
    )


def test_a_file_says_all_that_the_drawing_says(tmp_path):
    made = everything()
    show(made, str(tmp_path / "curve.svg"))
    text = unescape((tmp_path / "curve.svg").read_text())
    for reported in (
        "so$lve$",
        "10 runs, reliable, fitted 2026-09-21",
        "observed range",
        "90 % of runs",
        "run time",
        *("knee: 8", "recommended: 4", "best next run: 24", "observed, with spread"),
    ):
        assert f">{reported}<" in text
    # One vocabulary: the terminal and the page name the same.
    assert {"change", "run", "try"} < made.names.keys()
    for words in made.names.values():
        assert words in on_terminal(made)
        assert words in curve(made).legend
        assert f">{words}<" in text


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_equal_pictures_are_equal_files(suffix, tmp_path):
    for name in (f"a.{suffix}", f"b.{suffix}"):
        show(of_table(table()), str(tmp_path / name))
    first, second = (tmp_path / f"{name}.{suffix}" for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_files_have_the_looks_of_the_pages(tmp_path):
    show(of_table(table()), str(tmp_path / "curve.svg"))
    text = (tmp_path / "curve.svg").read_text()
    for look in ("ink", "soft", "first", "band", "range", "paper"):
        assert PALETTES[0][look] in text
    assert "var(" not in text  # many programs read no variables
    assert look_of("path", "first dashed") == {
        "fill": "none",
        "stroke": PALETTES[0]["first"],
        "stroke-width": "2",
        "stroke-dasharray": "6 4",
    }
    assert look_of("text", "faint middle")["text-anchor"] == "middle"


def test_every_look_of_a_mark_is_in_the_style_sheet():
    for mark in curve(everything()).marks:
        element = {Box: "rect", Dot: "circle", ChartPath: "path", ChartLabel: "text"}[type(mark)]
        assert "fill" in look_of(element, mark.look), mark


def test_png_and_pdf_have_the_marks_of_the_pages():
    made = curve(everything())
    axes = figure_of(made).axes[0]
    texts = [mark for mark in made.marks if isinstance(mark, ChartLabel)]
    assert [one.get_text() for one in axes.texts] == [mark.text for mark in texts]
    assert [one.get_position() for one in axes.texts] == [(mark.x, mark.y) for mark in texts]
    assert len(axes.patches) == len(made.marks) - len(texts)
    band = next(mark for mark in made.marks if mark.look == "band")
    filled = axes.patches[[m for m in made.marks if m not in texts].index(band)]
    assert filled.get_path().vertices.tolist() == outline_of(band.data).vertices.tolist()
    assert filled.get_facecolor()[:3] == pytest.approx(
        [int(PALETTES[0]["band"][at : at + 2], 16) / 255 for at in (1, 3, 5)]
    )


@pytest.mark.parametrize(
    ("data", "corners"),
    [
        ("M1 2L3.5 -4Z", [(1, 2), (3.5, -4), (1, 2)]),
        ("M1 2m-5 -5h10v10h-10Z", [(1, 2), (-4, -3), (6, -3), (6, 7), (-4, 7), (-4, -3)]),
        ("M0 1H5V3l-1 -1", [(0, 1), (5, 1), (5, 3), (4, 2)]),
    ],
)
def test_paths_are_read_as_browsers_read_them(data, corners):
    assert list(map(tuple, outline_of(data).vertices)) == corners


def test_the_spread_of_the_repeats_is_drawn():
    recorded = replace(table(), observed=(Point(1, 3700.0, 5, 0.5), Point(4, 1000.0)))
    made = curve(of_table(recorded))
    bar = next(mark for mark in made.marks if mark.look == "spread")
    (_, low), (_, high) = outline_of(bar.data).vertices
    assert low - high > 20
    (_, low), (_, high) = outline_of(
        [mark for mark in made.marks if mark.look == "spread"][1].data
    ).vertices
    assert low == high


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_the_suffix_says_the_format(suffix, start, tmp_path):
    show(of_table(history()), str(tmp_path / f"curve.{suffix}"))
    assert (tmp_path / f"curve.{suffix}").read_bytes().startswith(start)


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_file_that_cannot_be_written_is_reported(suffix, tmp_path):
    with pytest.raises(PlotError, match="No such file or directory"):
        show(of_table(table()), str(tmp_path / "none" / f"curve.{suffix}"))


def test_braille_dots_are_those_of_unicode():
    lines = "".join(f"M{x} 0V13.9" for x in (0, 3.5))
    made = Chart("", "", [ChartPath("first", lines)], 14, width=7)
    assert terminal_chart.draw(made) == "\n⣿"


STYLE = html.style()
#: The palettes of light and dark screens and of print.
PALETTES = [
    dict(re.findall(r"--(\w+): (#\w{6})", block))
    for block in re.findall(r":root \{(.*?)\}", STYLE, re.S)
]


def luminance(colour):
    """WCAG 2.2, relative luminance."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * p for weight, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, two):
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


def looks(made):
    return [mark.look for mark in made.marks]


def test_level_and_change_are_drawn_apart_and_the_legend_names_no_more():
    bare = of_table(table())
    assert "change" not in looks(curve(bare))
    assert "purple" not in curve(bare).legend
    assert "a try" not in curve(bare).legend
    runs = ((4, 900.0, False), (8, 700.0, True))
    job = {"asked": 4, "asked_nodes": (2, 4, 8), "asked_s": (1900.0, 1000.0, 500.0)}
    made = curve(replace(bare, runs=runs, **job, recommended=3))
    assert [looks(made).count(one) for one in ("run", "try", "change", "mark second")] == [1] * 4
    for words in (
        "○ the last run",
        "× 1 try",
        "one job that asks for 4, on other",
        "■ asked: 4",
        "◆ recommended: 3",
    ):
        assert words in made.legend
    assert "A job that asks for 4 takes 32 min on 2" in made.description


def test_one_count_has_its_interval_too():
    one = of_table(table(nodes=(4,), observed=(4,)))
    assert "edge" in looks(curve(one))


def test_run_times_on_one_count_have_their_limit_as_a_line():
    given = {"low_s": 80.0, "high_s": 150.0}
    made = chart.histogram("x", [100.0, 101.0, 140.0], **given, limit_s=3600.0)
    assert looks(made).count("second") == 1
    assert "time limit, 1 h" in made.legend
    assert sum(look == "first" for look in looks(made)) == 2
    assert "second" not in looks(chart.histogram("x", [5.0], **given, limit_s=None))


@pytest.mark.parametrize(("high", "cut"), [(3.0, False), (900.0, True)])
def test_a_band_that_leaves_the_picture_is_said_to(high, cut):
    weeks = [Moment("d", value, "t", value - 0.5, high) for value in (1.0, 2.0, 2.5)]
    drawn = series("saved", weeks, up="hours", write=str, legend="Each week.")
    assert drawn.legend.startswith("Each week.")
    assert ("reaches beyond" in drawn.legend) == cut


def test_every_mark_is_inside_the_drawing():
    made = [
        curve(of_table(table())),
        ratios("x", [Moment("d", one, "t", 0.5, 2.0) for one in (0.2, 1.0, 9.0)]),
        series("y", [Moment("d", one, "t", -9.0, 9.0) for one in (-2.0, 0.0)], up="u", write=str),
        series("z", [Moment("d", 0.0, "t")], up="u", write=str),
        chart.bars("x", [chart.Bar("a" * 99, 1.0, "1"), chart.Bar("b", 0.0, "0")]),
    ]
    for one in made:
        assert one.width == 360
        for mark in one.marks:
            if isinstance(mark, Dot | Box | ChartLabel):
                assert 0 <= mark.x <= one.width
                assert 0 <= mark.y <= one.height
