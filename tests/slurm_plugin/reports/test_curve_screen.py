"""The prediction of an application, and a list of many, fit a screen whatever there is to say."""

from dataclasses import replace

import pytest

from predictor.change import AskedRange
from predictor.facts import ResourceUse
from predictor.problems import WORDS, Problem
from predictor.tables.run_facts import change_of
from predictor.types import Point, Verdict
from sacct_ingest.runs.layout import Unit
from slurm_plugin.reports.curve_screen import LINES, list_on_screen, on_screen
from slurm_plugin.text.table_columns import TableOptions
from tests.slurm_plugin.made import amdahl, table
from tests.slurm_plugin.reports.test_curve_text import recorded

EVERYTHING = tuple(Problem(name, text[:400], 16) for name, text in WORDS.items())
LONG = {"label": "ada/" + "x" * 250, "command": "solve.sh " + "--steps=5 " * 40}


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"problems": EVERYTHING},
        {"nodes": range(1, 300), "observed": range(1, 300), "problems": EVERYTHING, **LONG},
        {"nodes": (), "observed": (), "verdict": Verdict.REFUSED, "problems": EVERYTHING},
        {"uses": (ResourceUse(Unit.CPUS, 0.93, 0.93, 0.93, 9, 9, 9),), "node_type": "rome"},
    ],
)
def test_an_application_fits_a_screen(given, width):
    one = table(amdahl(100.0, 36_000.0), **given)
    lines = on_screen(one, width=width).splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= max(width, 60)
    assert f"verdict: {one.verdict.value}" in "\n".join(lines)
    assert "--all shows all counts, memory and the record." in " ".join(lines)


def test_the_counts_around_the_usual_one_are_shown_and_what_is_left_out_is_said():
    counts = tuple(2**k for k in range(10))
    observed = tuple(Point(n, 3600.0 / n) for n in counts)
    many = recorded(
        nodes=counts,
        median_s=tuple(3600.0 / n for n in counts),
        low_s=(1.0,) * 10,
        high_s=(4000.0,) * 10,
        curve_sd=(0.1,) * 10,
        verdicts=(),
        observed=observed,
        knee=8,
    )
    text = on_screen(many)
    shown = [line.split()[0] for line in text.split("\n\n")[1].splitlines()[1:]]
    assert len(shown) == 7
    assert "7 of 10 counts are shown; --all" in text
    assert "(knee): 8 nodes" in text
    assert "5 of 6 counts are shown" in on_screen(recorded())


def test_a_list_fits_a_screen_and_says_how_many_are_left_out():
    tables = [recorded(label=f"app{i:02}", key=f"k{i}", runs=99 - i) for i in range(40)]
    lines = list_on_screen(tables, TableOptions(), width=80).splitlines()
    assert len(lines) <= LINES
    assert lines[1].startswith("app00")
    assert lines[-1] == f"{len(lines) - 3} of 40 applications are shown; --all shows all."
    few = list_on_screen(tables[:3], TableOptions(header=False), width=80).splitlines()
    assert [line.split()[0] for line in few] == ["app00", "app01", "app02"]


def test_on_which_counts_a_change_was_learnt_is_not_cut():
    tried = (AskedRange(3, 16, 16, (3, 6, 12, 16), 2),)
    learnt = replace(change_of((), Unit.NODES), ranges=tried)
    lines = on_screen(recorded(change=learnt, observed=(Point(4, 3600.0, 5),))).splitlines()
    assert "learnt on 3, 6, 12 and 16 nodes" in lines
    assert not any(line.endswith("+") for line in lines)
