"""Peak demand of the jobs that arrive within a time span, from past arrivals.

A refit and a replay make it; nimod reads the result
(:class:`predictor.waits.workload.ArrivalDemand`).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from predictor.waits.workload import ArrivalDemand

Floats = npt.NDArray[np.float64]

#: Spans that are looked at: a minute to three days.
SPANS_S: Final = tuple(60.0 * 2.0**power for power in range(13))
#: Moments of the past that are looked at, and quantiles that are left of them.
_MOMENTS, _LEVELS = 200, 21


def arrival_demand(
    submit_s: Sequence[float], sizes: Sequence[float], run_s: Sequence[float]
) -> ArrivalDemand:
    """Measure the peak demand after past submissions.

    Jobs come in bursts, so that the moments are those at which a job came.  Each later job is taken
    to start when it comes.

    submit_s: when jobs came, in seconds, rising, of length ``jobs``.
    sizes: what each took, in nodes or another unit.
    run_s: how long each ran, in seconds.
    Raises ValueError: lengths differ, jobs are not in the order of submission, or a number is not
        finite or below zero.
    """
    submit, size, run = (np.asarray(values, dtype=float) for values in (submit_s, sizes, run_s))
    if not len(submit) == len(size) == len(run):
        raise ValueError(f"{len(submit)} times, {len(size)} sizes, {len(run)} run times of jobs")
    if not len(submit):
        return ArrivalDemand()
    if not (np.isfinite([submit, size, run]).all() and min(size.min(), run.min()) >= 0):
        raise ValueError("times, sizes and run times of jobs are finite, and none is below zero")
    if (np.diff(submit) < 0).any():
        raise ValueError("jobs must be in the order of their submission")
    jobs = np.unique(np.linspace(0, len(submit) - 1, min(_MOMENTS, len(submit))).astype(int))
    peaks = [_peaks(submit, size, run, int(job)) for job in jobs]
    observed = [float(submit[-1] - submit[job]) for job in jobs]
    spans, rows = [], []
    for place, span_s in enumerate(SPANS_S):
        whole = [one[place] for one, until in zip(peaks, observed, strict=True) if until >= span_s]
        if len(whole) < _LEVELS:
            break
        spans.append(span_s)
        rows.append(tuple(np.quantile(whole, np.linspace(0, 1, _LEVELS)).tolist()))
    return ArrivalDemand(tuple(spans), tuple(rows))


def _peaks(submit: Floats, size: Floats, run: Floats, job: int) -> Floats:
    """Most that the jobs after one had together within each span, shape ``(spans,)``."""
    now = submit[job]
    later = slice(job + 1, int(np.searchsorted(submit, now + SPANS_S[-1], side="right")))
    times = np.concatenate([submit[later], submit[later] + run[later]]) - now
    changes = np.concatenate([size[later], -size[later]])
    # What is given back at a moment is there to be taken at that moment.
    order = np.lexsort((changes, times))
    highest = np.maximum.accumulate(np.concatenate([[0.0], np.cumsum(changes[order])]))
    peaks: Floats = highest[np.searchsorted(times[order], SPANS_S, side="right")]
    return peaks
