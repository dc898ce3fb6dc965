"""Numbers: run time as a function of the nodes, with an interval and a verdict."""

from predictor.types import Curve, Point, Prediction, PredictionTable, Problem, Run, Verdict

__all__ = ["Curve", "Point", "Prediction", "PredictionTable", "Problem", "Run", "Verdict"]
