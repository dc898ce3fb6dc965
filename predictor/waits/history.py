"""How a cluster's jobs came and ran in the past, for its queue to be run forward.

Made by a refit from the newest runs of the store: which share of their limits jobs used (of each
user, and of all), how often jobs come, of what shape, how many of them go before others, and how
near estimates of their waits would have come.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import log

import numpy as np

from predictor.waits.arrivals import arrival_demand
from predictor.waits.backtest import fair_shares, past_job, past_waits
from predictor.waits.estimate import SHARES
from predictor.waits.learning import learn_waits
from predictor.waits.regression import encode
from predictor.waits.workload import LimitShares, PastArrivals, PastRecord, PastShape, QueuePast
from sacct_ingest.store.rows import RunRow

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


def queue_past(runs: Iterable[RunRow]) -> QueuePast:
    """Look at the runs of one cluster.

    runs: that have started, in any order.
    """
    ordered = sorted(runs, key=lambda run: (run.submit_s, run.job_id))
    partitions: dict[str, list[RunRow]] = defaultdict(list)
    for run in ordered:
        partitions[run.partition].append(run)
    learned = learn_waits(past_waits(ordered, asks=_ASKS))
    return QueuePast(
        shares=_shares(ordered),
        arrivals={
            name: _arrivals(members)
            for name, members in partitions.items()
            if len(members) >= _FEWEST
        },
        waits=PastRecord(
            errors=learned.errors,
            correction=encode(learned.correction).decode() if learned.correction else "",
            error=learned.error,
            corrected_error=learned.corrected_error,
        ),
        fair_shares=fair_shares([past_job(run) for run in ordered])[1],
    )


def _shares(runs: Sequence[RunRow]) -> LimitShares:
    users: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.limit_s and run.elapsed_s > 0:
            users[run.user].append(min(log(run.elapsed_s / run.limit_s), 0.0))
    every = [share for shares in users.values() for share in shares]
    if len(every) < _FEWEST:
        return LimitShares()
    own = {user: shares[-_OF_USER:] for user, shares in users.items() if len(shares) >= _FEWEST}
    return LimitShares(
        site=_quantiles(every), users={user: _quantiles(shares) for user, shares in own.items()}
    )


def _quantiles(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(np.quantile(values, SHARES).tolist())


def _arrivals(runs: Sequence[RunRow]) -> PastArrivals:
    """Describe the jobs that came to a partition; ``runs`` are in the order of submission."""
    span_s = max(runs[-1].submit_s - runs[0].submit_s, 1)
    step = max(len(runs) // _SHAPES, 1)
    submits, took = [float(run.submit_s) for run in runs], [run.elapsed_s for run in runs]
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
    return PastArrivals(
        per_s=len(runs) / span_s,
        ahead=passed / len(runs),
        shapes=[
            PastShape(run.nodes, run.cpus, float(run.limit_s or run.elapsed_s), run.elapsed_s)
            for run in runs[::-step][:_SHAPES]
        ],
        node_demand=arrival_demand(submits, [run.nodes for run in runs], took),
        cpu_demand=arrival_demand(submits, [run.cpus for run in runs], took),
    )
