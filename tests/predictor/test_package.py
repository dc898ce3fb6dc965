"""What the package exports, and that the examples in its docstrings are true."""

import doctest
import importlib
import pkgutil

import pytest

import predictor

MODULES = [
    module.name for module in pkgutil.walk_packages(predictor.__path__, predictor.__name__ + ".")
]


def test_exported_members() -> None:
    assert predictor.__all__ == [
        "Curve",
        "Point",
        "Prediction",
        "PredictionTable",
        "Problem",
        "Run",
        "Verdict",
    ]
    assert all(hasattr(predictor, name) for name in predictor.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    found = (doctest.testmod(importlib.import_module(name)).attempted for name in MODULES)
    assert sum(found) >= 5
