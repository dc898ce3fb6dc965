"""Moldable jobs by assumption, for histories that do not show how jobs scale.

Archived logs have no curves.  Their jobs get Downey's speedup, with an average parallelism around
the nodes that they had.  The policy gets a prediction that is off as real fits are.  The results
depend on these assumptions, and every report names them.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from predictor.models.downey import speedup
from predictor.types import Point, PredictionTable, Verdict
from slurm_plugin.replay.what_if import Moldable
from slurm_plugin.replay.workload import Workload, recent_mean


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The assumptions of such a replay.

    ``share`` of the jobs are moldable, to between 1/``range`` and ``range`` times their nodes.
    Average parallelism is log-uniform from half of the nodes they had to eight times them, its
    variance uniform from 0 to 2 (A. Downey, *A parallel workload model and its implications for
    processor allocation*, 1997, section 4).  The predicted parallelism is off by a factor whose
    logarithm has the standard deviation ``error``.
    """

    share: float = 0.5
    range: float = 4.0
    error: float = 0.3
    seed: int = 1


def assume(workload: Workload, made: Assumptions) -> list[Moldable | None]:
    """Choose the moldable jobs of a workload and how they scale."""
    rng = np.random.default_rng(made.seed)
    count = len(workload)
    chosen = rng.random(count) < made.share
    parallelism = workload.nodes * 2.0 ** rng.uniform(-1.0, 3.0, count)
    variance = rng.uniform(0.0, 2.0, count)
    believed = parallelism * rng.lognormal(0.0, made.error, count)
    expected = recent_mean(workload)
    return [
        _moldable(
            int(workload.nodes[job]),
            workload.cluster_nodes,
            (max(parallelism[job], 1.0), variance[job]),
            (max(believed[job], 1.0), variance[job]),
            expected[job],
            made,
        )
        if chosen[job]
        else None
        for job in range(count)
    ]


def in_words(made: Assumptions) -> tuple[str, ...]:
    """Put the assumptions into words."""
    return (
        "A log does not say which jobs could use other node counts.  So NIMO assumes: "
        f"{made.share:.0%} of the jobs are moldable, to "
        f"between 1/{made.range:g} and {made.range:g} times their nodes, and scale as Downey's "
        "model does; the policy's prediction of it is off by about "
        f"{made.error:.0%}. Other assumptions give other results (--assume, --range, --seed).",
    )


def _moldable(
    nodes: int,
    cluster_nodes: int,
    truth: tuple[float, float],
    believed: tuple[float, float],
    expected_s: float,
    made: Assumptions,
) -> Moldable:
    low = max(int(nodes / made.range), 1)
    high = min(int(nodes * made.range), cluster_nodes)
    counts = sorted(
        {low, nodes, high, *np.unique(np.geomspace(low, high, 12).astype(int)).tolist()}
    )
    speedups = speedup(np.array([nodes, *counts], dtype=np.float64), *believed)
    times = (expected_s * speedups[0] / speedups[1:]).tolist()
    off = abs(np.log(np.array(counts) / nodes)) * made.error / 2
    table = PredictionTable(
        level="name",
        key="",
        label="assumed",
        model="downey",
        verdict=Verdict.RELIABLE,
        problems=(),
        nodes=tuple(counts),
        median_s=tuple(times),
        low_s=tuple(t / 2 for t in times),
        high_s=tuple(t * 2 for t in times),
        curve_sd=tuple(off.tolist()),
        confidence=0.9,
        observed=(Point(low, times[0]), Point(high, times[-1])) if low < high else (),
        knee=None,
        max_useful=None,
        runs=2,
        mem_node_bytes=None,
        fitted_s=0.0,
    )
    return Moldable(low, high, table, partial(_relative, nodes, truth))


def _relative(own: int, curve: tuple[float, float], nodes: int) -> float:
    """Run time on ``nodes`` over that on ``own``, by Downey's speedup."""
    at_own, at_nodes = speedup(np.array([own, nodes], dtype=np.float64), *curve)
    return float(at_own / at_nodes)
