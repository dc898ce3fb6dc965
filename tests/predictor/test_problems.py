"""Problems have words, made of the facts that are given where they are found."""

import ast
from pathlib import Path
from string import Formatter

import predictor
from predictor.types import WORDS


def test_each_problem_has_words_made_of_the_facts_that_are_given():
    reported: dict[str, set[str]] = {}
    for path in Path(predictor.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = getattr(getattr(node, "func", None), "id", "") == "problem"
            if called and isinstance(name := node.args[0], ast.Constant):  # type: ignore[attr-defined]
                given = {one.arg for one in node.keywords if one.arg}  # type: ignore[attr-defined]
                reported.setdefault(name.value, set()).update(given)  # type: ignore[arg-type]
    for name, given in reported.items():
        words = WORDS[name]
        assert given <= {field for _, field, _, _ in Formatter().parse(words) if field}, name
