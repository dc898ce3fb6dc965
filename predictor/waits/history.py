"""How a cluster's jobs came and ran in the past, for its queue to be run forward.

Made by a refit from the newest runs of the store: which share of their limits jobs used (of each
user, and of all), how often jobs come, of what shape, how many of them go before others, and how
near estimates of their waits would have come.  nimod reads the result
(:mod:`predictor.waits.workload`).

Waits of the past (:mod:`predictor.waits.backtest`) give a record to begin with, and a correction:
the regression on the state of the queue is used only where its estimates were nearer by record,
each made from what was over at its time.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import inf, log
from statistics import fmean
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from predictor.waits import workload
from predictor.waits.backtest import PastWait, fair_shares, past_job, past_waits
from predictor.waits.error_record import WaitError, WaitRecord, error_of, log_error
from predictor.waits.estimate import ALLOWANCE_S, SHARES
from predictor.waits.features import COMMON, ESTIMATE, FAIR_SHARE, OF_ACCOUNT, columns_of
from predictor.waits.regression import QueueWaitModel
from sacct_ingest.errors import NimoError
from sacct_ingest.store.rows import RunRow

Floats = npt.NDArray[np.float64]

#: Fewer jobs that were asked about teach nothing.
FEWEST_ASKED = 400
#: Waits that are nearer than this on average need no correction, log10.
_NEAR = 0.05
#: A correction has to bring errors down to this share.
_BETTER = 0.95
#: Features of accounts and of fair-share have to bring its errors down to this share.
_USEFUL = 0.99
#: Spans that are looked at: a minute to three days.
SPANS_S: Final = tuple(60.0 * 2.0**power for power in range(13))
#: Moments of the past that are looked at, and quantiles that are left of them.
_MOMENTS, _LEVELS = 200, 21
#: Runs that are looked at, and runs of one user.
NEWEST, _OF_USER = 20_000, 50
#: Fewer runs say nothing.
_FEWEST = 10
#: Most job shapes of a partition.
_SHAPES = 200
#: Jobs whose waits are learned from.
_ASKS = 1_000
#: Jobs in the queue that one is compared with.
_WINDOW = 200


def learn_waits(waits: Sequence[PastWait]) -> workload.PastRecord:
    """Make a record of the past, and try the regression.

    waits: of one cluster, in the order of asking.
    """
    places = range(len(waits))
    errors = _recorded(waits)
    if len(waits) < FEWEST_ASKED or _mean_error(errors, places) < _NEAR:
        return workload.PastRecord(
            errors=errors, error=_mean_error(errors, places) if errors else None
        )
    model = QueueWaitModel(estimate=ESTIMATE, allowance_s=ALLOWANCE_S)
    try:
        features = _useful(waits, model)
        corrected = list(waits)
        judged = list[int]()
        for block, expected in model.validated(*_table(waits, features)):
            for place, draws in zip(block.tolist(), expected.tolist(), strict=True):
                corrected[place] = waits[place]._replace(draws_s=tuple(draws))
                judged.append(place)
    except NimoError:  # without scikit-learn there is no regression
        return workload.PastRecord(errors=errors, error=_mean_error(errors, places))
    after = _recorded(corrected)
    error = _mean_error(errors, judged)
    corrected_error = _mean_error(after, judged)
    if not judged or corrected_error > _BETTER * error:
        return workload.PastRecord(errors=errors, error=error, corrected_error=corrected_error)
    return workload.PastRecord(
        errors=[msgspec.structs.replace(after[place], corrected=True) for place in judged],
        correction=workload.encode(model.fit(*_table(waits, features))),
        error=error,
        corrected_error=corrected_error,
    )


def _useful(waits: Sequence[PastWait], model: QueueWaitModel) -> tuple[str, ...]:
    """Choose the features: what an account has, and fair-share, where they bring errors down.

    Each choice predicts the past from what was over by then.
    """
    best = COMMON
    least = _validation_error(waits, model, COMMON)
    for more in (OF_ACCOUNT, FAIR_SHARE):
        if (error := _validation_error(waits, model, (*best, *more))) <= _USEFUL * least:
            best = (*best, *more)
            least = error
    return best


def _validation_error(
    waits: Sequence[PastWait], model: QueueWaitModel, features: Sequence[str]
) -> float:
    """Mean absolute error of the corrected medians, log10; infinite where none could be judged."""
    names, rows, actual_s, asked_s = _table(waits, features)
    logs = np.log10(actual_s + ALLOWANCE_S)
    errors = [
        np.abs(np.log10(median_s + ALLOWANCE_S) - logs[block])
        for block, median_s in model.validated_medians(names, rows, actual_s, asked_s)
    ]
    return float(np.concatenate(errors).mean()) if errors else inf


def _table(
    waits: Sequence[PastWait], features: Sequence[str]
) -> tuple[Sequence[str], Floats, Floats, Floats]:
    return (
        features,
        np.array([one.features for one in waits])[:, columns_of(features)],
        np.array([one.actual_s for one in waits]),
        np.array([one.asked_s for one in waits]),
    )


def _recorded(waits: Sequence[PastWait]) -> list[WaitError]:
    """Errors of estimates, each made with the record of those that had started by then."""
    record = WaitRecord()
    started = list[tuple[float, int, WaitError]]()
    errors = []
    for place, one in enumerate(waits):
        while started and started[0][0] <= one.asked_s:
            record.add(heappop(started)[2])
        estimate = record.estimate(one.draws_s, one.of)
        error = error_of(
            one.draws_s, one.of, at_s=one.asked_s, actual_s=one.actual_s, estimate=estimate
        )
        errors.append(error)
        heappush(started, (one.asked_s + one.actual_s, place, error))
    return errors


def _mean_error(errors: Sequence[WaitError], places: Sequence[int]) -> float:
    return fmean(log_error(errors[place]) for place in places) if places else 0.0


def arrival_demand(
    submit_s: Sequence[float], sizes: Sequence[float], run_s: Sequence[float]
) -> workload.ArrivalDemand:
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
        return workload.ArrivalDemand()
    if not (np.isfinite([submit, size, run]).all() and min(size.min(), run.min()) >= 0):
        raise ValueError("times, sizes and run times of jobs are finite, and none is below zero")
    if (np.diff(submit) < 0).any():
        raise ValueError("jobs must be in the order of their submission")
    jobs = np.unique(np.linspace(0, len(submit) - 1, min(_MOMENTS, len(submit))).astype(int))
    peaks = [_peaks(submit, size, run, int(job)) for job in jobs]
    observed = [float(submit[-1] - submit[job]) for job in jobs]
    spans = []
    rows = []
    for place, span_s in enumerate(SPANS_S):
        whole = [one[place] for one, until in zip(peaks, observed, strict=True) if until >= span_s]
        if len(whole) < _LEVELS:
            break
        spans.append(span_s)
        rows.append(tuple(np.quantile(whole, np.linspace(0, 1, _LEVELS)).tolist()))
    return workload.ArrivalDemand(tuple(spans), tuple(rows))


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


def queue_past(runs: Iterable[RunRow]) -> workload.QueuePast:
    """Look at the runs of one cluster.

    runs: that have started, in any order.
    """
    ordered = sorted(runs, key=lambda run: (run.submit_s, run.job_id))
    partitions: dict[str, list[RunRow]] = defaultdict(list)
    for run in ordered:
        partitions[run.partition].append(run)
    return workload.QueuePast(
        shares=_shares(ordered),
        arrivals={
            name: _arrivals(members)
            for name, members in partitions.items()
            if len(members) >= _FEWEST
        },
        waits=learn_waits(past_waits(ordered, asks=_ASKS)),
        fair_shares=fair_shares([past_job(run) for run in ordered])[1],
    )


def _shares(runs: Sequence[RunRow]) -> workload.LimitShares:
    users: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.limit_s and run.elapsed_s > 0:
            users[run.user].append(min(log(run.elapsed_s / run.limit_s), 0.0))
    every = [share for shares in users.values() for share in shares]
    if len(every) < _FEWEST:
        return workload.LimitShares()
    own = {user: shares[-_OF_USER:] for user, shares in users.items() if len(shares) >= _FEWEST}
    return workload.LimitShares(
        site=_quantiles(every), users={user: _quantiles(shares) for user, shares in own.items()}
    )


def _quantiles(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(np.quantile(values, SHARES).tolist())


def _arrivals(runs: Sequence[RunRow]) -> workload.PastArrivals:
    """Describe the jobs that came to a partition; ``runs`` are in the order of submission."""
    span_s = max(runs[-1].submit_s - runs[0].submit_s, 1)
    step = max(len(runs) // _SHAPES, 1)
    submits = [float(run.submit_s) for run in runs]
    took = [run.elapsed_s for run in runs]
    # Share of jobs that passed an earlier one which asked for no more nodes and no more time.
    columns = [
        (run.submit_s, run.start_s or run.submit_s, run.nodes, run.limit_s or 0) for run in runs
    ]
    submit, start, nodes, limit = np.array(columns, dtype=float).T
    passed = 0
    for job in range(1, len(runs)):
        before = slice(max(job - _WINDOW, 0), job)
        waiting = (start[before] > start[job]) & (submit[before] < submit[job])
        smaller = (nodes[before] <= nodes[job]) & (limit[before] <= limit[job])
        passed += bool(np.any(waiting & smaller))
    return workload.PastArrivals(
        per_s=len(runs) / span_s,
        ahead=passed / len(runs),
        shapes=[
            workload.PastShape(
                run.nodes, run.cpus, float(run.limit_s or run.elapsed_s), run.elapsed_s
            )
            for run in runs[::-step][:_SHAPES]
        ],
        node_demand=arrival_demand(submits, [run.nodes for run in runs], took),
        cpu_demand=arrival_demand(submits, [run.cpus for run in runs], took),
    )
