"""The rows of an advice: what each count would mean, beside the others."""

from collections.abc import Sequence
from math import inf, isfinite
from operator import le
from typing import Any

from predictor.application.request import counts_run
from predictor.facts import Starts
from predictor.prediction_table import PredictionTable
from predictor.table import at
from predictor.types import Prediction
from slurm_plugin.decision.allowed_counts import is_supported
from slurm_plugin.decision.limit_advice import LimitBasis, limits_to_ask
from slurm_plugin.decision.node_options import Option, end_differences
from slurm_plugin.protocol.advice_messages import SURE, Row


def advice_row(
    option: Option,
    table: PredictionTable,
    asked: Option | None,
    basis: LimitBasis,
    *,
    own_work: bool,
    best: int | None,
    waits: bool,
) -> Row:
    """Make the row of a count.

    asked: the count that the job asks for; None: it is not among the options.
    own_work: whether the table is of the user's own runs of this work, so that limits are named.
    best: the count that is recommended; None: there is none.
    waits: whether the queue is known.
    """
    limits = limits_to_ask(option, basis) if own_work else None
    supported = is_supported(table, option.nodes)
    later = end_differences(table, option, asked) if asked and supported else []
    at_most = later[int(SURE * len(later)) - 1] if later else inf
    ran = () if table.is_guess else counts_run(table)
    base = at(table, min(ran, default=table.nodes[0]))
    one = option.prediction
    speedup = None if table.is_guess else base.time_s / one.time_s
    return Row(
        nodes=option.nodes,
        time_s=one.time_s,
        low_s=one.low_s,
        high_s=one.high_s,
        speedup=speedup,
        efficiency=speedup and speedup * base.nodes / option.nodes,
        node_hours=option.nodes * one.time_s / 3600,
        wait_s=option.wait_s if waits and option.wait_s < inf else None,
        wait_bound=waits and option.bound,
        observed=option.nodes in ran and option.nodes not in table.never_had,
        recommended=option.nodes == best,
        no_later=sum(one <= 0 for one in later) / len(later) if later else None,
        later_s=at_most if isfinite(at_most) else None,
        **_outlook(option, one) if waits else {},
        limit_s=limits.limit_s if limits else None,
        time_min_s=limits.least_s if limits else None,
        keeps_limit=own_work and limits is None and basis.keeps(option.nodes),
        meets_deadline=option.meets_deadline,
    )


def _outlook(option: Option, one: Prediction) -> dict[str, Any]:
    """Give wait and end as intervals, and the chance to make the deadline."""
    wait = option.wait
    if wait is None or wait.median_s == inf:
        return {}
    if len(wait.waits_s) == 1 or wait.bound:  # computed from time limits alone: no interval
        return {"chance": option.chance}
    low_s, high_s = wait.interval_s
    return {
        "wait_low_s": low_s,
        "wait_high_s": high_s,
        "end_s": wait.end_s(one, 0.5),
        "end_low_s": wait.end_s(one, 0.05),
        "end_high_s": wait.end_s(one, 0.95),
        "chance": option.chance,
    }


def with_unbounded(rows: Sequence[Row], table: PredictionTable, low: int, high: int) -> list[Row]:
    """Add the rows of counts on which so many runs were cut off that there is no median."""
    bounded = {row.nodes for row in rows}
    unbounded = [one for one in table.starts if one.unbounded and low <= one.nodes <= high]
    never = table.nodes if table.is_guess else table.never_had
    more = [
        _unbounded_row(one, observed=one.nodes not in never)
        for one in unbounded
        if one.nodes not in bounded
    ]
    return sorted([*rows, *more], key=lambda row: row.nodes)


def _unbounded_row(one: Starts, *, observed: bool) -> Row:
    return Row(
        nodes=one.nodes,
        time_s=one.over_s,
        low_s=one.over_s,
        high_s=None,
        speedup=None,
        efficiency=None,
        node_hours=one.nodes * one.over_s / 3600,
        observed=observed,
        unbounded=True,
    )


def mark_front(rows: Sequence[Row]) -> None:
    """Mark the rows that no other beats in the end of the job and in node time, as cost goes."""
    ending = [row for row in rows if not row.unbounded]
    costs = [(row.time_s + (row.wait_s or 0.0), row.node_hours) for row in ending]
    for row, own in zip(ending, costs, strict=True):
        row.front = not any(one != own and all(map(le, one, own)) for one in costs)
