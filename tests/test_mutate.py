"""The tool that measures the tests: what it changes, what it leaves alone, what it excuses."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"


@pytest.fixture(name="mutate", scope="module")
def _mutate() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        yield importlib.import_module("mutate")


def changed(mutate: ModuleType, path: Path, text: str) -> Iterator[str]:
    path.write_text(text)
    return (ast.unparse(mutant.tree()) for mutant in mutate.mutants(path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 2 * y", ["x = 3 * y", "x = 2 / y"]),
        ("x = -y", ["x = +y"]),
        ("x = 0.5", ["x = 1.0"]),
        ("x = a and b", ["x = a or b"]),
        ("x = not a", ["x = not not a"]),
        ("x = min(a)", ["x = max(a)"]),
        ("x = a.argmax()", ["x = a.argmin()"]),
        ("x = a < b", ["x = a <= b", "x = a >= b"]),
        (
            "x = a < b <= c",
            ["x = a <= b <= c", "x = a >= b <= c", "x = a < b < c", "x = a < b > c"],
        ),
        ("if a:\n    pass", ["if not a:\n    pass"]),
        ("x += y", ["x -= y"]),
    ],
)
def test_each_change_is_made_by_itself(mutate, tmp_path, text, expected):
    assert sorted(changed(mutate, tmp_path / "m.py", text)) == sorted(expected)


@pytest.mark.parametrize(
    "text",
    [
        '"""Text."""',
        "def f(x: tuple[int, 3]) -> 'Literal[2]':\n    pass",
        "raise ValueError(2)",
        "x = f'{y:.2f}'",
        "@dataclass(frozen=True)\nclass A:\n    pass",
        "x = zip(a, b, strict=True)",
    ],
)
def test_what_changes_nothing_that_matters_is_left_alone(mutate, tmp_path, text):
    assert list(changed(mutate, tmp_path / "m.py", text)) == []


def test_a_mutant_takes_the_place_of_its_module(mutate):
    path = mutate.ROOT / "predictor" / "occupancy" / "linear_form.py"
    mutant = next(m for m in mutate.mutants(path) if m.change == "100 -> 101")
    assert not mutate.passes(["tests/predictor/occupancy/test_linear_form.py"], mutant, 600)
    assert mutate.passes(["tests/predictor/occupancy/test_linear_form.py"], None, 600)


def test_every_survivor_that_is_listed_is_still_a_mutant(mutate):
    for group in mutate.groups().values():
        made = {
            (m.path.name, m.source, m.change)
            for path in group.modules
            for m in mutate.mutants(path)
        }
        assert group.modules
        assert group.tests
        assert [each for each in group.equivalent if each not in made] == []


def test_only_tests_that_call_a_function_run_for_its_mutants(mutate, tmp_path):
    """What runs on import is every test's business."""
    path = mutate.ROOT / "predictor" / "occupancy" / "linear_form.py"
    own = "tests/predictor/occupancy/test_linear_form.py"
    group = mutate.Group("metrics", (path,), (own,), ())
    calls = mutate.calls_of(group, 600)
    every = mutate.mutants(path)
    mutant = next(m for m in every if m.change == "100 -> 101")
    assert path.read_text().splitlines()[mutant.function - 1].startswith("def ")
    chosen = mutate.chosen_tests(group, mutant, calls)
    assert chosen
    assert all(one.startswith(f"{own}::") for one in chosen)
    assert not mutate.passes(chosen, mutant, 600)
    module = tmp_path / "m.py"
    module.write_text("A = 1\n\n@cache\ndef f(x=2):\n    return [y + 3 for y in x]\n")
    assert {(m.source[:3], m.function) for m in mutate.mutants(module)} == {
        ("A =", 0), ("def", 0), ("ret", 3),
    }  # fmt: skip
    failing = tmp_path / "test_fails.py"
    failing.write_text("def test_it():\n    assert False\n")
    assert mutate.calls_of(mutate.Group("no", (path,), (str(failing),), ()), 600) is None
