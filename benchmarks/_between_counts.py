"""Intervals of one problem's runs on counts between those that it ran on."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from predictor.application.request import for_request
from predictor.prediction_table import PredictionTable
from predictor.table import at, covers
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.store import RunRow

_REPEATS = 6
_ASKED = 5  #: runs on each count that was not run
_DAY_S = 86_400
#: Of all tasks together, so that memory shows one problem.
_MEMORY = 2**38
_TYPICAL_S = 3600.0

Times = Mapping[int, float]


def between(curves: Sequence[Times], noise: float) -> dict[str, Any]:
    """Score 90 % intervals on the counts between; means over the runs asked.

    curves: run time of one problem by node count, seconds.
    noise: standard deviation of log run time; six runs each on the first, the last and two counts
        between, in random order.
    """
    scored = [one for seed, curve in enumerate(curves) for one in _of_curve(curve, noise, seed)]
    inside, score, width = np.mean(scored, axis=0).tolist()
    return {
        "noise": noise,
        "runs": len(scored),
        "inside %": 100 * inside,
        "interval score": score,
        "width": width,
    }


def _of_curve(curve: Times, noise: float, seed: int) -> Iterator[tuple[bool, float, float]]:
    rng, counts = random.Random(seed), sorted(curve)
    typical = _TYPICAL_S / float(np.median(list(curve.values())))
    ran = [counts[0], counts[len(counts) // 3], counts[2 * len(counts) // 3], counts[-1]]
    order = rng.sample(ran * _REPEATS, len(ran) * _REPEATS)
    times = [typical * curve[n] * math.exp(rng.gauss(0, noise)) for n in order]
    table = _table(order, times)
    if table is None or not table.is_curve:
        return
    job = for_request(table, ran[1], (ran[1], ran[1]))
    if job.change is None or not job.change.one_problem:
        return
    for n in (n for n in counts if n not in ran and covers(job, n)):
        low, high = (math.log(end_s) for end_s in (at(job, n).low_s, at(job, n).high_s))
        for _ in range(_ASKED):
            actual = math.log(typical * curve[n]) + rng.gauss(0, noise)
            outside = max(low - actual, actual - high, 0.0)
            yield not outside, high - low + 20 * outside, high - low


def _table(counts: Sequence[int], times: Sequence[float]) -> PredictionTable | None:
    rows = [
        RunRow(
            run_id=number,
            cluster="made",
            job_id=number,
            submit_s=number * _DAY_S,
            state=JobState.COMPLETED,
            user="ann",
            name="app",
            partition="batch",
            nodes=nodes,
            cpus=nodes,
            tasks=None,
            elapsed_s=time_s,
            limit_s=100 * _DAY_S,
            eligible_s=number * _DAY_S,
            start_s=number * _DAY_S,
            end_s=number * _DAY_S + round(time_s),
            mem_bytes=_MEMORY // nodes,
            array_task_id=None,
            tag="",
            script="s",
            line="l",
        )
        for number, (nodes, time_s) in enumerate(zip(counts, times, strict=True), 1)
    ]
    runs = IdentityRuns(KeyLevel.LINE, "l", rows, float(len(rows) * _DAY_S))
    first, *_ = tables_of(runs, TableSettings())
    return first.table
