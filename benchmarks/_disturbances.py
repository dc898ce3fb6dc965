"""Small changes to a log, none of them a policy: how many jobs they make twice as slow.

A schedule answers a small change with many: one job that ends a minute later takes a gap from
another, and so on until the queue is empty.  What a policy does to jobs that take no part can only
be told from this where it does more.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from predictor.waits.easy import ReplaySchedule
from slurm_plugin.replay.measures import compare
from slurm_plugin.replay.what_if import WhatIf
from slurm_plugin.replay.workload import Workload

_Bools = npt.NDArray[np.bool_]
#: A log with some jobs changed, and which ones those are.
_Changed = tuple[Workload, _Bools]
_Change = Callable[[Workload, np.random.Generator], _Changed]


def disturbance_rows(
    workload: Workload, as_asked: ReplaySchedule, *, load: float
) -> list[dict[str, Any]]:
    """Replay each change as asked, and compare the jobs that it leaves as they are.

    workload: the log, at this load.
    as_asked: its schedule.
    load: for the table.
    """
    return [
        {"load": load, "change": name, **_came(workload, as_asked, change)}
        for name, change in _CHANGES.items()
    ]


def _came(workload: Workload, as_asked: ReplaySchedule, change: _Change) -> dict[str, float]:
    changed, which = change(workload, np.random.default_rng(0))
    schedule = WhatIf(changed, [None] * len(changed)).rigid()
    others = compare(workload, as_asked, schedule, ~which)
    return {
        "response": others.response_ratio,
        "slowdown before": others.slowdown[0],
        "slowdown": others.slowdown[1],
        "> 2 times %": 100 * others.much_worse,
        "< half %": 100 * others.much_better,
    }


def _one_node_less(workload: Workload, rng: np.random.Generator) -> _Changed:
    which = rng.random(len(workload)) < 0.01
    nodes = np.where(which, np.maximum(workload.nodes - 1, 1), workload.nodes)
    return replace(workload, nodes=nodes), which


def _tenth_longer(workload: Workload, rng: np.random.Generator) -> _Changed:
    which = rng.random(len(workload)) < 0.1
    return replace(workload, run_s=workload.run_s * np.where(which, 1.02, 1.0)), which


def _half_shorter(workload: Workload, rng: np.random.Generator) -> _Changed:
    which = rng.random(len(workload)) < 0.5
    return replace(workload, run_s=workload.run_s * np.where(which, 0.98, 1.0)), which


def _some_reshaped(workload: Workload, rng: np.random.Generator) -> _Changed:
    """Give one job in twenty half or twice its nodes; its node time stays what it was."""
    which = rng.random(len(workload)) < 0.05
    factor = np.where(which, rng.choice([0.5, 2.0], len(workload)), 1.0)
    nodes = np.clip(np.round(workload.nodes * factor), 1, workload.cluster_nodes).astype(np.int64)
    longer = workload.nodes / nodes
    return replace(
        workload, nodes=nodes, run_s=workload.run_s * longer, limit_s=workload.limit_s * longer
    ), which


def _half_gone(workload: Workload, rng: np.random.Generator) -> _Changed:
    which = rng.random(len(workload)) < 0.5
    run_s, limit_s = (np.where(which, 1.0, a) for a in (workload.run_s, workload.limit_s))
    nodes = np.where(which, 1, workload.nodes)
    return replace(workload, nodes=nodes, run_s=run_s, limit_s=limit_s), which


_CHANGES: dict[str, _Change] = {
    "1 job in 100 asks for a node less": _one_node_less,
    "1 in 10 runs for 2 % longer": _tenth_longer,
    "1 in 2 runs for 2 % less": _half_shorter,
    "1 in 20 gets half or twice its nodes, same node time": _some_reshaped,
    "1 in 2 ends after a second, on one node": _half_gone,
}
