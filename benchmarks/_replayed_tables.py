"""Run times of a replayed log as a site's prediction tables say them, each from the past only.

The jobs keep what the log says of them and end when the replay ends them.  Tables are made by the
product's own fits, as in ``history_accuracy.py``.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
from _logs import runs
from history_accuracy import Fits, histories
from numpy.typing import NDArray

from predictor.job_table import for_limit
from predictor.table import at, covers
from predictor.types import Prediction
from predictor.waits.easy import Engine, JobShape
from sacct_ingest.job_run import JobRun
from sacct_ingest.runs.layout import layouts_of_run
from sacct_ingest.store import RunRow, Store
from slurm_plugin.replay.workload import Workload

#: A table is made anew once so many of its runs ended, or an hour passed.
_EVERY = 10


def predictions(path: Path, work: Workload, ids: NDArray[np.int64]) -> Mapping[int, Prediction]:
    """Predict the run time of each job of a replay at its submission, where there is a table.

    path: the log.
    work: its jobs as they are replayed.
    ids: their numbers in the log.
    """
    rows = _replayed(path, work, ids)
    fits, made = Fits(histories(rows), _EVERY), dict[int, Prediction]()
    for row in sorted(rows, key=lambda one: (one.submit_s, one.job_id)):
        attributes = partial(getattr, row, "attributes")
        layouts = layouts_of_run(row)
        table = fits.find(row.identity, layouts, attributes, float(row.submit_s))
        if table is None:
            continue
        size = table.unit.size_of(row)
        limited = for_limit(table, float(row.limit_s) if row.limit_s else None)
        if covers(limited, size):
            made[row.job_id] = at(limited, size)
    return made


def _replayed(path: Path, work: Workload, ids: NDArray[np.int64]) -> list[RunRow]:
    """Give the runs of a log the times of its replay; job ids are places in the workload."""
    limits, nodes, run_s = work.limit_s.tolist(), work.nodes.tolist(), work.run_s.tolist()

    def shape(job: int, _: float) -> JobShape:
        return JobShape(nodes[job], limits[job], run_s[job])

    starts = Engine(work.cluster_nodes).run(work.submit_s.tolist(), shape).start_s
    recorded: dict[int, JobRun] = {}
    for one in runs(path):
        recorded.setdefault(one.job_id, one)
    first = next(job for job, number in enumerate(ids.tolist()) if number in recorded)
    zero_s = recorded[int(ids[first])].submit_s - float(work.submit_s[first])
    made = [
        msgspec.structs.replace(
            recorded[number],
            job_id=job,
            submit_s=round(zero_s + float(work.submit_s[job])),
            start_s=round(zero_s + float(starts[job])),
            end_s=round(zero_s + float(starts[job]) + run_s[job]),
            elapsed_s=run_s[job],
            limit_s=round(limits[job]),
            nodes=nodes[job],
        )
        for job, number in enumerate(ids.tolist())
        if number in recorded
    ]
    with Store.open("sqlite://") as store:
        store.runs.add(made)
        return list(store.runs.started())
