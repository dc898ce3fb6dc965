"""Numbers: run time as a function of the nodes, with an interval and a verdict."""

from predictor.prediction_table import PredictionTable
from predictor.problems import Problem
from predictor.sample import Sample
from predictor.types import Curve, Point, Prediction, Verdict

__all__ = ["Curve", "Point", "Prediction", "PredictionTable", "Problem", "Sample", "Verdict"]
