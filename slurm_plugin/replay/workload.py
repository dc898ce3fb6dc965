"""A history as a workload: what was submitted when, how long it ran, which jobs are moldable.

Moldable jobs could have run on other node counts: by the history's own curves, or by assumption.
The policy gets tables fitted to the runs before the replay begins.  The replayed run times come
from tables fitted to all runs.  So the prediction errors are those of the site: early tables
against late ones, with the error of the late ones drawn on top.

Archived logs have no curves.  Their jobs get Downey's speedup, with an average parallelism around
the nodes that they had.  The policy gets a prediction that is off as real fits are.  The results
depend on these assumptions, and every report names them.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Self

import numpy as np
import numpy.typing as npt

from predictor.application.count_changes import DRAWS, ratios
from predictor.application.request import for_request
from predictor.models.downey import speedup
from predictor.prediction_table import PredictionTable
from predictor.refit import RefitInput, fits_of
from predictor.table import covers
from predictor.tables.samples import asked_of
from predictor.tables.settings import TableSettings
from predictor.types import Point, Verdict
from sacct_ingest.errors import NimoError
from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import RunRow
from sacct_ingest.text.hostlist import expand
from slurm_plugin.decision.eligibility import proven_counts
from slurm_plugin.decision.explore import RecentCounts
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.slurm.job_request import LEFT_ALONE

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: What a job without a limit is taken to have asked for (Tsafrir et al. 2007, sec. 3, likewise).
_NO_LIMIT = 1.5
_NO_LIMIT_S = 3600.0
#: Options beside which a job keeps its count.
_TIES = {*(option for option, *_ in LEFT_ALONE), "ntasks", "ntasks-per-socket", "gpus"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs in order of submission; all arrays have the shape ``(jobs,)``."""

    submit_s: Floats  #: when the job could first start (eligible), seconds since the epoch
    nodes: Ints  #: nodes it had
    run_s: Floats  #: how long it ran
    limit_s: Floats  #: its time limit
    wait_s: Floats  #: how long it really waited
    users: tuple[str, ...]
    runs: tuple[RunRow, ...] = ()  #: the records, where there are any
    cluster_nodes: int  #: nodes of the cluster

    def __post_init__(self) -> None:
        if not len(self.submit_s):
            raise NimoError("no job with a run time and nodes: nothing to replay")

    @classmethod
    def of(cls, runs: Iterable[RunRow], *, cluster_nodes: int | None = None) -> Self:
        """Make a workload of the runs that started.

        runs: in any order; of one cluster, and of partitions that share their nodes.
        cluster_nodes: nodes of the cluster; None: those that the runs name, or where they name none
            as many as
        were in use at the busiest moment.
        Raises NimoError: no run can be replayed.
        """
        started = (run for run in runs if run.nodes > 0 and run.start_s is not None)
        usable = sorted((run for run in started if run.elapsed_s > 0), key=_submitted)
        nodes = np.array([run.nodes for run in usable], dtype=np.int64)
        if cluster_nodes is None:
            cluster_nodes = nodes_used(usable) or most_at_once(usable)
        else:
            usable = [run for run in usable if run.nodes <= cluster_nodes]
            nodes = nodes[nodes <= cluster_nodes]
        return cls(
            submit_s=np.array([_submitted(run) for run in usable], dtype=np.float64),
            nodes=nodes,
            run_s=np.array([run.elapsed_s for run in usable], dtype=np.float64),
            limit_s=np.array(
                [one.limit_s or max(_NO_LIMIT * one.elapsed_s, _NO_LIMIT_S) for one in usable],
                dtype=np.float64,
            ),
            wait_s=np.array([_waited(run) for run in usable], dtype=np.float64),
            users=tuple(run.user for run in usable),
            runs=tuple(usable),
            cluster_nodes=cluster_nodes,
        )

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def load(self) -> float:
        """Node time asked for, as a share of what the cluster has between the submissions."""
        span_s = float(self.submit_s[-1] - self.submit_s[0])
        return float(self.nodes @ self.run_s) / (self.cluster_nodes * max(span_s, 1.0))

    def at_load(self, load: float) -> Self:
        """Return the same jobs closer together or farther apart, so that their load is ``load``."""
        first = self.submit_s[0]
        stretch = self.load / load
        return replace(self, submit_s=first + (self.submit_s - first) * stretch)


def recent_mean(workload: Workload) -> list[float]:
    """Predict each run time as the mean of the user's last two that had ended, else the limit.

    Tsafrir, Etsion, Feitelson 2007, section 4.  In seconds.
    """
    last: dict[str, deque[tuple[float, float]]] = defaultdict(lambda: deque(maxlen=8))
    predicted = []
    for job, limit_s in enumerate(workload.limit_s.tolist()):
        now = workload.submit_s[job]
        user = workload.users[job]
        ended = [run_s for end_s, run_s in last[user] if end_s <= now][-2:]
        predicted.append(min(sum(ended) / len(ended), limit_s) if ended else limit_s)
        run_s = float(workload.run_s[job])
        last[user].append((now + workload.wait_s[job] + run_s, run_s))
    return predicted


def nodes_used(runs: Iterable[RunRow]) -> int:
    """Count the different nodes that runs name; zero where one names none.

    Jobs that share a node name the same one.
    """
    names: set[str] = set()
    for text in {run.node_list for run in runs}:
        try:
            node_names = expand(text)
        except ValueError:
            return 0
        if not node_names:
            return 0
        names.update(node_names)
    return len(names)


def most_at_once(runs: Iterable[RunRow]) -> int:
    """Most nodes that were in use at one moment.

    A node that two jobs shared counts twice; the largest job sets the least.
    """
    changes: list[tuple[float, int]] = []
    for run in runs:
        start_s = run.start_s if run.start_s is not None else run.submit_s
        changes += [(start_s, run.nodes), (start_s + run.elapsed_s, -run.nodes)]
    # Nodes given back at a moment are taken again at that moment: sorting puts them first.
    levels = np.cumsum([nodes for _, nodes in sorted(changes)])
    return int(levels.max(initial=0))


def _submitted(run: RunRow) -> float:
    """When the job could start for all that it waited for itself: dependencies, a begin time."""
    return max(run.submit_s, run.eligible_s or run.submit_s)


def _waited(run: RunRow) -> float:
    start_s = run.submit_s if run.start_s is None else run.start_s
    return max(start_s - _submitted(run), 0.0)


@dataclass(frozen=True, slots=True)
class Moldable:
    """A job that could have run on other node counts.

    ``truth`` gives its run time on so many nodes relative to that on the nodes it had.  The replay
    uses it; the policy has only the table.
    """

    low: int
    high: int
    table: PredictionTable
    truth: Callable[[int], float]
    counts: tuple[int, ...] = ()  #: that it may get; none: all of the range


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
    return [_moldable(run, workload.cluster_nodes, knowledge, reach, off) for run in workload.runs]


def proven(workload: Workload, moldable_jobs: Sequence[Moldable | None]) -> list[Moldable | None]:
    """Leave moldable the jobs of one count whose users completed them on others (opt_in.proven).

    What stands in their scripts is not known here.
    """
    recent = RecentCounts()
    return [
        _proven(run, one, recent) if one else None
        for run, one in zip(workload.runs, moldable_jobs, strict=True)
    ]


def _proven(row: RunRow, one: Moldable, recent: RecentCounts) -> Moldable | None:
    counts = proven_counts(one.table, row.nodes)
    asked = row.submission
    kept = asked_of(row, Unit.NODES)[1] != (row.nodes, row.nodes) or asked.off
    other = asked.program not in {"", "sbatch"}
    if not counts or kept or other or asked.het or not _TIES.isdisjoint(asked.options):
        return None
    study = recent.is_study(one.table.key, row.nodes, float(row.submit_s))
    recent.add(one.table.key, row.nodes, float(row.submit_s))
    return None if study else replace(one, low=counts[0], high=counts[-1], counts=counts)


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
    return ratios(for_request(table, own), (nodes,))[0][which]


def _moldable(
    row: RunRow, cluster_nodes: int, knowledge: Knowledge, reach: float, off: defaultdict[str, int]
) -> Moldable | None:
    asked = partial(getattr, row, "attributes")
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
    moldable: list[Moldable | None] = [None] * count
    for job in np.flatnonzero(chosen).tolist():
        truth, curve = ((max(p[job], 1.0), variance[job]) for p in (parallelism, believed))
        nodes = int(workload.nodes[job])
        moldable[job] = _assumed(nodes, workload.cluster_nodes, truth, curve, expected[job], made)
    return moldable


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
