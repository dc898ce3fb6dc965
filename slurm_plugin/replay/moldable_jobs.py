"""Jobs of a history that could have run on other node counts: by its own curves, or by assumption.

The policy gets tables fitted to the runs before the replay begins.  The replayed run times come
from tables fitted to all runs.  So the prediction errors are those of the site: early tables
against late ones, with the error of the late ones drawn on top.

Archived logs have no curves.  Their jobs get Downey's speedup, with an average parallelism around
the nodes that they had.  The policy gets a prediction that is off as real fits are.  The results
depend on these assumptions, and every report names them.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import numpy as np

from predictor.change.request import DRAWS, for_request, ratios
from predictor.models.downey import speedup
from predictor.refit import RefitInput, fits_of
from predictor.table import covers
from predictor.tables.run_facts import attributes_of_run
from predictor.tables.settings import TableSettings
from predictor.types import Point, PredictionTable, Verdict
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import RunRow
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.replay.what_if import Moldable
from slurm_plugin.replay.workload import Workload, recent_mean


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Tables fitted to the runs before the replay begins, and to all runs."""

    before: PredictionLookup
    now: PredictionLookup


def learn(rows: Sequence[RunRow], *, begin_s: float, settings: TableSettings) -> Knowledge:
    """Fit the runs that had ended by ``begin_s``, and all of them."""
    earlier = [row for row in rows if row.end_s is not None and row.end_s <= begin_s]
    return Knowledge(_tables(earlier, settings), _tables(rows, settings))


def moldable(
    workload: Workload, knowledge: Knowledge, *, reach: float, seed: int = 1
) -> list[Moldable | None]:
    """Choose the jobs of applications with a curve: 1/``reach`` to ``reach`` times their nodes.

    ``seed`` draws, once for each application, how far its real curve is from the present table,
    as far as the table itself says that it may be.
    """
    rng = np.random.default_rng(seed)
    off: defaultdict[str, int] = defaultdict(lambda: int(rng.integers(DRAWS)))
    return [
        _moldable(run, workload.cluster_nodes, knowledge, reach, off)
        if isinstance(run, RunRow)
        else None
        for run in workload.runs
    ]


def in_words(learned: int, reach: float, adopted: float) -> tuple[str, ...]:
    """Put the assumptions into words."""
    part = "all of them take part" if adopted == 1 else f"{adopted:.0%} of them take part"
    return (
        f"The policy learned from the first {learned} jobs; the jobs after them were replayed.",
        "Their run times on other nodes are predictions, too: by curves fitted to all jobs, with "
        "the curves' own error drawn on top.",
        f"Jobs of applications with a curve may get 1/{reach:g} to {reach:g} times their nodes; "
        f"{part}.",
    )


def _truth(table: PredictionTable, own: int, which: int, nodes: int) -> float:
    """Run time on ``nodes`` over that on ``own``: one of those that a table holds."""
    return ratios(for_request(table, own), nodes)[which]


def _moldable(
    row: RunRow, cluster_nodes: int, knowledge: Knowledge, reach: float, off: defaultdict[str, int]
) -> Moldable | None:
    asked = partial(attributes_of_run, row)
    before = knowledge.before.find(row.identity, attributes=asked, acting=True)
    now = knowledge.now.find(row.identity, attributes=asked)
    if before is None or now is None or not before.is_curve or not now.is_curve:
        return None
    if not (covers(before, row.nodes) and covers(now, row.nodes)):
        return None
    low = max(int(row.nodes / reach), before.nodes[0], now.nodes[0])
    high = min(int(row.nodes * reach), cluster_nodes, before.nodes[-1], now.nodes[-1])
    if not low <= row.nodes <= high:
        return None
    return Moldable(low, high, before, partial(_truth, now, row.nodes, off[now.key]))


def _tables(rows: Sequence[RunRow], settings: TableSettings) -> PredictionLookup:
    now_s = float(max((row.end_s or 0 for row in rows), default=0))

    def by_key(level: KeyLevel) -> Iterator[tuple[str, list[RunRow]]]:
        groups: defaultdict[str, list[RunRow]] = defaultdict(list)
        for row in rows:
            if key := row.identity.key(level):
                groups[key].append(row)
        for key in sorted(groups):
            yield key, sorted(groups[key], key=attrgetter("end_s", "submit_s", "job_id"))

    fits = fits_of(RefitInput(by_key), now_s=now_s, settings=settings)
    return PredictionLookup((fit.level, fit.key, fit.payload) for fit in fits)


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
        _assumed(
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


def assumptions_in_words(made: Assumptions) -> tuple[str, ...]:
    """Put the assumptions into words."""
    return (
        "A log does not say which jobs could use other node counts.  So NIMO assumes: "
        f"{made.share:.0%} of the jobs are moldable, to "
        f"between 1/{made.range:g} and {made.range:g} times their nodes, and scale as Downey's "
        "model does; the policy's prediction of it is off by about "
        f"{made.error:.0%}. Other assumptions give other results (--assume, --range, --seed).",
    )


def _assumed(
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
