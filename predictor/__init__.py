"""Numbers: run time as a function of the nodes, with an interval and a verdict."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from predictor.prediction_table import PredictionTable
    from predictor.problems import Problem
    from predictor.sample import Sample
    from predictor.types import Curve, Point, Prediction, Verdict

__all__ = ["Curve", "Point", "Prediction", "PredictionTable", "Problem", "Sample", "Verdict"]

_MODULES = {"PredictionTable": "prediction_table", "Problem": "problems", "Sample": "sample"}


def __getattr__(name: str) -> object:
    # What needs one module of the package starts without the others.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"predictor.{_MODULES.get(name, 'types')}"), name)
