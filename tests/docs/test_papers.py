"""Each row of the papers' page names functions, tests and departures that exist."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE, TESTS = ("predictor", "sacct_ingest", "slurm_plugin", "benchmarks"), ("tests",)
#: What is quoted in the second column and is no name of the code.
PLAIN = {"form: paper", "load"}


@dataclass(frozen=True, slots=True)
class Row:
    section: str
    functions: tuple[str, ...]
    tests: tuple[str, ...]
    departures: tuple[int, ...]


def sections():
    whole = (ROOT / "docs" / "papers.md").read_text().split("\n## ")[1:]
    return {text.split("\n")[0]: text for text in whole if "| paper | function |" in text}


def rows():
    for name, text in sections().items():
        for line in text.split("\n### ")[0].splitlines():
            if not line.startswith("| ") or line.startswith(("| paper |", "| --- ")):
                continue
            _, functions, tests, departures = cells(line)
            named, tried = (tuple(re.findall(r"`([^`]+)`", cell)) for cell in (functions, tests))
            yield Row(name, named, tried, tuple(map(int, re.findall(r"\d+", departures))))


def cells(line):
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


@cache
def files(folder):
    return tuple(path for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts)


@cache
def names(folder):
    """Names that modules define, each alone, and with its module or its class before it."""
    made = set()
    for path in files(folder):
        if path.suffix == ".py":
            for owner, name in defined(ast.parse(path.read_text()), path.stem):
                made |= {name, f"{owner}.{name}"}
    return frozenset(made)


def defined(tree, owner):
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield owner, node.name
        if isinstance(node, ast.ClassDef):
            yield from defined(node, node.name)
        if isinstance(node, ast.Assign):
            yield from ((owner, one.id) for one in node.targets if isinstance(one, ast.Name))


def exists(word, folders):
    """Whether a quoted word is a file, a name of the code, or a target of make."""
    if word.startswith("make "):
        return f"\n{word.removeprefix('make ')}:" in (ROOT / "Makefile").read_text()
    if word.endswith(("/", ".py", ".c")) or (ROOT / word).is_dir():
        end = "/" + word.rstrip("/")
        return (
            any(
                f"/{path.relative_to(ROOT)}".endswith(end) for one in folders for path in files(one)
            )
            or (ROOT / word).exists()
        )
    defines = frozenset().union(*map(names, folders))
    if word.endswith("…"):
        return any(name.startswith(word.removesuffix("…")) for name in defines)
    # The last two parts are a module or a class, and what it defines.
    return ".".join(word.partition("(")[0].rpartition("/")[2].split(".")[-2:]) in defines


ROWS = list(rows())


def test_the_page_has_its_four_tables():
    assert len(sections()) == 4
    assert len(ROWS) > 50


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_row_names_what_exists(row):
    assert [word for word in row.functions if word not in PLAIN and not exists(word, CODE)] == []
    assert [word for word in row.tests if not exists(word, TESTS)] == []


@pytest.mark.parametrize("name", sections())
def test_departures_are_those_that_rows_name(name):
    own = sections()[name].split("\n### ")[0]
    listed = [int(number) for number in re.findall(r"^(\d+)\. ", own, re.MULTILINE)]
    assert listed == list(range(1, len(listed) + 1))
    assert {number for row in ROWS if row.section == name for number in row.departures} == {*listed}


@pytest.mark.parametrize(
    "word", ["nothing_of_the_kind", "Sums.divide", "models/none.py", "make nothing", "test_none_…"]
)
def test_what_does_not_exist_is_noticed(word):
    assert not exists(word, CODE + TESTS)
