"""Curves drawn as characters and as files."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.types import Point, Problem, Verdict
from sacct_ingest.errors import PlotError
from slurm_plugin.protocol.advice_messages import Advice, ObservedPoint, Row
from slurm_plugin.reports import chart, figure
from slurm_plugin.reports.picture import (
    COLOURS,
    KNEE,
    NEXT_RUN,
    OBSERVED,
    RECOMMENDED,
    SIGNS,
    Picture,
    of_advice,
    of_table,
)
from slurm_plugin.reports.terminal_plot import Canvas, draw
from slurm_plugin.reports.time_charts import Moment, ratios, series
from tests.slurm_plugin.made import history, table

DOT = SIGNS["observed"]

PROBLEM = Problem("linear_section", "all points in the linear section", 24)


def plot_lines(text):
    """What stands right of the axis, from the top."""
    return [line.split("│", 1)[1] for line in text.splitlines() if "│" in line]


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
    text = draw(replace(of_table(table(problems=(PROBLEM,))), recommended=3), width=75)
    area = 75 - 10
    # From 1 to 32 nodes on a logarithmic axis each doubling is a fifth of the way.
    fifth = (area - 1) / 5
    assert columns(text, DOT) == pytest.approx([0, fifth, 2 * fifth, 3 * fifth, 4 * fifth], abs=1)
    assert columns(text, SIGNS[NEXT_RUN]) == pytest.approx([4.585 * fifth], abs=1)
    assert columns(text, SIGNS[RECOMMENDED]) == pytest.approx([1.585 * fifth], abs=1)
    assert "knee: 8" in text
    assert columns(text, SIGNS[KNEE]) == []  # an observation was made there


def test_the_curve_falls_and_its_labels_too():
    text = draw(of_table(table()))
    rows = {line.index(DOT): i for i, line in enumerate(plot_lines(text)) if DOT in line}
    assert [rows[column] for column in sorted(rows)] == sorted(rows.values())
    labels = [line.split("│")[0].strip() for line in text.splitlines() if "│" in line]
    shown = [label for label in labels if label]
    assert shown == ["1 h", "30 min", "20 min", "10 min", "5 min"]


def test_a_history_of_one_node_count_is_a_point():
    text = draw(of_table(history()))
    assert sum(line.count(SIGNS[OBSERVED]) for line in plot_lines(text)) == 1
    assert "┴" in text


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
    lines = plot_lines(draw(made, width=width, height=height))
    assert len(lines) == max(height, 8)
    assert all(len(line) <= max(width, 40) - 10 for line in lines)


def test_a_file_says_all_that_the_drawing_says(tmp_path):
    made = replace(
        of_table(table(problems=(PROBLEM,), label="so$lve$")),
        recommended=4,
        runs=((4, 900.0, False), (8, 700.0, True)),
        asked=4,
        asked_nodes=(2, 4, 8),
        asked_s=(1900.0, 1000.0, 500.0),
    )
    figure.save(made, tmp_path / "curve.svg")
    text = (tmp_path / "curve.svg").read_text()
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
        assert words in draw(made)
        assert words in chart.curve(made).legend
        assert f">{words}<" in text


def test_equal_pictures_are_equal_files(tmp_path):
    for name in ("a.svg", "b.svg"):
        figure.save(of_table(table()), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_files_have_the_colours_of_the_pages():
    for look, colour in COLOURS.items():
        assert f"--{look}: {colour};" in STYLE


def test_the_spread_of_the_repeats_is_drawn():
    recorded = replace(table(), observed=(Point(1, 3700.0, 5, 0.5), Point(4, 1000.0)))
    (axes,) = figure.draw(of_table(recorded)).axes
    (bars,) = (c for c in axes.collections if hasattr(c, "get_segments"))
    low, high = bars.get_segments()[0][:, 1]
    assert (low, high) == pytest.approx((3700 / 1.6487, 3700 * 1.6487), rel=1e-3)


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_the_suffix_says_the_format(suffix, start, tmp_path):
    figure.save(of_table(history()), tmp_path / f"curve.{suffix}")
    assert (tmp_path / f"curve.{suffix}").read_bytes().startswith(start)


def test_a_file_that_cannot_be_written_is_reported(tmp_path):
    with pytest.raises(PlotError, match="No such file or directory"):
        figure.save(of_table(table()), tmp_path / "none" / "curve.svg")


def test_braille_dots_are_those_of_unicode():
    canvas = Canvas(1, 1, (1, 2, 1.0, 2.0))
    for column in (0, 1):
        for row in range(4):
            canvas.dot(column, row)
    assert list(canvas.lines()) == ["⣿"]


STYLE = (Path(figure.__file__).parent / "templates" / "style.css").read_text()
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
    assert "A job that asks for 4 takes 32 min on 2" in made.description


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
        ratios("x", [Moment("d", one, "t", 0.5, 2.0) for one in (0.2, 1.0, 9.0)]),
        series("y", [Moment("d", one, "t", -9.0, 9.0) for one in (-2.0, 0.0)], up="u", write=str),
        series("z", [Moment("d", 0.0, "t")], up="u", write=str),
        chart.bars("x", [chart.Bar("a" * 99, 1.0, "1"), chart.Bar("b", 0.0, "0")]),
    ]
    for one in made:
        assert one.width == 360
        for mark in one.marks:
            if isinstance(mark, chart.Dot | chart.Box | chart.ChartLabel):
                assert 0 <= mark.x <= one.width
                assert 0 <= mark.y <= one.height
