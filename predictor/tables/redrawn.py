"""A table's observations drawn by another model than the one that its refit believed."""

from dataclasses import fields, replace

from predictor.models.selection import fit_curve
from predictor.prediction_table import ByType, PredictionTable
from predictor.table import table_of
from predictor.tables.of_curve import knee_of, max_useful_of
from predictor.types import Curve

#: What the model of a curve says; the rest of a table is of its runs.
_COLUMNS = {one.name for one in fields(ByType)} - {"node_type", "runs", "observed"}


def redrawn(table: PredictionTable, model: str) -> PredictionTable:
    """Give the curve through a table's observations by another model, with its own judgment.

    model: its registered name.
    Raises predictor.models.base.UnknownModel: no model has this name;
        predictor.models.base.TooFewPoints: the table has fewer than three observations.
    """
    choice = fit_curve(Curve(table.observed), model)
    predictions = choice.predict(table.nodes, table.confidence)
    verdicts, problems = choice.judge(predictions)
    times = [one.time_s for one in predictions]
    made = replace(
        table_of(predictions, verdicts, table.confidence),
        model=choice.fit.model,
        problems=problems,
        knee=knee_of(table.nodes, times),
        max_useful=max_useful_of(table.nodes, times),
    )
    columns = {name: getattr(made, name) for name in _COLUMNS}
    # Record, time limits, sizes and changes of a count are those of the model that was believed.
    return replace(
        table, **columns, record=(), at_limits=(), by_type=(), parts=(), surface=None, asked=0
    )
