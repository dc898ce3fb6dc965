"""Jobs of a history that could have run on other node counts, by the history's own curves.

The policy gets tables fitted to the runs before the replay begins.  The replayed run times come
from tables fitted to all runs.  So the prediction errors are those of the site: early tables
against late ones, with the error of the late ones drawn on top.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import numpy as np

from predictor.change.request import DRAWS, for_request, ratios
from predictor.refit import RefitInput, fits_of
from predictor.table import covers
from predictor.tables.run_facts import attributes_of_run
from predictor.tables.settings import TableSettings
from predictor.types import PredictionTable
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import RunRow
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.replay.what_if import Moldable
from slurm_plugin.replay.workload import Workload


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


@dataclass(frozen=True, slots=True)
class _Truth:
    """Run time on other nodes over that on the job's own: one of those that a table holds."""

    table: PredictionTable
    own: int
    which: int

    def __call__(self, nodes: int) -> float:
        return ratios(for_request(self.table, self.own), nodes)[self.which]


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
    return Moldable(low, high, before, _Truth(now, row.nodes, off[now.key]))


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
