import ast
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from string import Formatter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import predictor
from predictor import stored_table, table
from predictor.prediction_table import PredictionTable
from predictor.problems import WORDS, Problem
from predictor.types import Point, Verdict
from tests.predictor.rows import of_another_release


def make(nodes=(1, 4, 16), verdicts=()):
    times = tuple(160.0 / n for n in nodes)
    return PredictionTable(
        level="script",
        key="k",
        label="ann/solve",
        model="usl",
        verdict=Verdict.RELIABLE,
        problems=(Problem("linear_section", "all runs lie in the linear part", 32),),
        nodes=nodes,
        median_s=times,
        low_s=tuple(t / 2 for t in times),
        high_s=tuple(t * 2 for t in times),
        curve_sd=tuple(0.1 for _ in nodes),
        confidence=0.9,
        observed=(Point(1, 160.0, 2, 0.01),),
        knee=4,
        max_useful=None,
        runs=2,
        mem_node_bytes=None,
        fitted_s=1.0,
        verdicts=verdicts,
    )


def test_a_table_comes_back_from_its_text():
    assert stored_table.decode(stored_table.encode(make())) == make()


def test_a_text_begins_with_the_version_of_the_models_sources():
    text = stored_table.encode(make())
    assert json.loads(text)["models"] == stored_table.models_version()
    assert stored_table.is_current(text)
    assert stored_table.is_current(text.encode())


@pytest.mark.parametrize("aged", [of_another_release, lambda text: "{" + text.partition(",")[2]])
def test_what_other_models_predicted_is_not_read(aged):
    other = stored_table.decode(aged(stored_table.encode(make())))
    assert stored_table.is_outdated(other)
    assert (other.key, other.label, other.runs) == ("k", "ann/solve", 2)
    assert (other.nodes, other.observed, other.knee) == ((), (), None)
    assert other.verdict is Verdict.REFUSED
    assert not any(table.covers(other, n) for n in range(1, 17))
    assert "'nimo fit' makes it anew" in other.problems[0].text


def test_a_changed_source_is_another_version(monkeypatch, tmp_path):
    package = tmp_path / "predictor"
    shutil.copytree(Path(table.__file__).parent, package)
    with (package / "table.py").open("a") as source:
        source.write("# another release\n")
    before = stored_table.models_version()
    monkeypatch.setattr(stored_table, "__file__", str(package / "stored_table.py"))
    assert stored_table.models_version.__wrapped__() != before


def test_a_table_holds_what_differs_in_the_one_that_acts():
    shown = make(verdicts=(Verdict.RELIABLE,) * 3)
    acting = make(verdicts=(Verdict.RELIABLE, Verdict.DOUBTFUL, Verdict.REFUSED))
    both = stored_table.decode(stored_table.encode(stored_table.with_acting(shown, acting)))
    assert list(both.acting) == ["verdicts"]
    assert both.verdicts == shown.verdicts
    assert stored_table.acting_of(both) == acting
    assert stored_table.acting_of(shown) is shown


def test_what_is_no_table_is_refused():
    with pytest.raises(msgspec.DecodeError):
        stored_table.decode(b'{"level": 3}')


def test_entries_are_exact():
    result = table.at(make(), 4)
    assert (result.time_s, result.low_s, result.high_s) == (40.0, 20.0, 80.0)
    assert (result.level, result.curve_sd) == (0.9, 0.1)


@given(st.integers(1, 16))
def test_between_entries_a_power_law_is_exact(nodes):
    result = table.at(make(), nodes)
    assert math.isclose(result.time_s, 160 / nodes)
    assert math.isclose(result.low_s, 80 / nodes)
    assert math.isclose(result.high_s, 320 / nodes)


@pytest.mark.parametrize("nodes", [0, 17])
def test_outside_there_is_no_answer(nodes):
    assert not table.covers(make(), nodes)
    assert table.verdict_at(make(), nodes) is Verdict.REFUSED
    with pytest.raises(LookupError, match="outside"):
        table.at(make(), nodes)


def test_an_empty_table_covers_nothing():
    assert not table.covers(make(()), 1)


def test_the_verdict_between_entries_is_that_of_the_worse():
    given_ = make(verdicts=(Verdict.RELIABLE, Verdict.DOUBTFUL, Verdict.REFUSED))
    assert table.verdict_at(given_, 1) is Verdict.RELIABLE
    assert table.verdict_at(given_, 2) is Verdict.DOUBTFUL
    assert table.verdict_at(given_, 4) is Verdict.DOUBTFUL
    assert table.verdict_at(given_, 5) is Verdict.REFUSED
    assert table.verdict_at(make(), 5) is Verdict.RELIABLE


def test_reading_tables_loads_no_numerical_library():
    code = "import sys, predictor.table; print({'numpy', 'scipy'} & set(sys.modules) or 'none')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "none"


def test_each_problem_has_words_made_of_the_facts_that_are_given():
    reported = {}
    for path in Path(predictor.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = getattr(getattr(node, "func", None), "id", "") == "problem"
            if called and isinstance(name := node.args[0], ast.Constant):
                given = {one.arg for one in node.keywords if one.arg}
                reported.setdefault(name.value, set()).update(given)
    for name, given in reported.items():
        words = WORDS[name]
        assert given <= {field for _, field, _, _ in Formatter().parse(words) if field}, name
