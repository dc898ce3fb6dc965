"""A count that was not tried yet, for a job whose user gave a range: how an application scales.

The count is tried that is expected to improve most on the best one that was run (expected
improvement: Jones, Schonlau and Welch, Journal of Global Optimization 13, 1998), less what it is
expected to cost its own job.  Of what jobs had lately the tables do not know yet the last tries are
remembered, and series of single runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean, pstdev
from typing import NamedTuple

from predictor.application.count_changes import levels
from predictor.application.request import counts_run, range_of
from predictor.prediction_table import PredictionTable
from slurm_plugin.decision.node_options import Comparison, Option
from slurm_plugin.slurm.cluster_state import Cluster

#: Counts that are tried, the one asked for among them, and tries at most.
_COUNTS, _TRIES = 3, 5
#: Tries of an application, whatever range its users gave.
_TRIES_IN_ALL = 10
#: Share of the cost that a try is expected to save for each later job; more, once three are tried.
_WORTH, _MORE_WORTH = 0.005, 0.02
#: Later jobs that are to save what a try costs its own job.
_LATER = 20
#: Spread of a count's run time over that of a known one, from which on a try tells something.
_UNSURE = 0.05
#: A try counts for this long even where no view shows its job: slurmctld may be slow to take it.
UNLISTED_S = 5.0
#: A try of which nothing came does not count any more, seconds.
_FORGOTTEN_S = 7 * 86_400.0
_MOST = 4096
_DAY_S, _MOST_COUNTS = 86_400.0, 64


class TriedCount(NamedTuple):
    """Which of how many counts is tried, and whether it was run before."""

    number: int
    of: int
    again: bool = False

    @property
    def purpose(self) -> str:
        """Say what it is for; one that was tried before is none of those that are numbered."""
        if self.again:
            return "once more, to be surer how it scales"
        return f"to learn how it scales ({self.number} of {self.of})"


def count_to_try(
    scene: Comparison, options: Sequence[Option], best: Option, asked: Option
) -> Option | None:
    """Find the count to try; None: none, since it would hurt, or what is best is clear.

    best: what would be chosen otherwise.
    asked: what Slurm would give.
    """
    request = scene.request
    change = scene.table.change
    if not request.explore or change is None or request.deadline_s is not None:
        return None
    own = range_of(change, request.given)
    if change.tries >= _TRIES_IN_ALL or (own and own.tries >= _TRIES):
        return None
    ran = _counts_run(scene)
    least = _MORE_WORTH if len(ran) >= _COUNTS else _WORTH
    most_s = scene.rules.policy.explore_ratio * _turnaround_s(asked)
    # The cheapest of the counts that such jobs had; without any what would be chosen.
    counts = (scene.asked, *ran) if ran else (best.nodes,)
    known = min((one for one in options if one.nodes in counts), key=lambda one: one.cost_s)
    # Another count tells more than the same one again, until there are some.
    had = ran if len(ran) < _COUNTS else ()
    allowed = [
        one
        for one in options
        if one is not asked
        and one.nodes not in had
        and _unsure(one, known)
        and _turnaround_s(one) <= most_s
        and (one.no_later or one.opens)
        and _has_room(one, scene)
    ]
    costs = _costs(scene, known)
    usual = fmean(_costs(scene, best))
    worth = {}
    for one in allowed:
        gain = _gain(costs, its := _costs(scene, one))
        if gain > least:
            worth[one.nodes] = _LATER * gain - max(fmean(its) / usual - 1, 0.0)
    worthy = [one for one in allowed if worth.get(one.nodes, 0.0) > 0]
    tried = max(worthy, key=lambda one: (worth[one.nodes], -one.nodes), default=None)
    again = tried is not None and tried is best and tried.nodes in ran
    return None if again else tried


def tries_of(scene: Comparison, nodes: int) -> TriedCount:
    """Say which of how many counts is tried."""
    ran = _counts_run(scene) or (scene.asked,)
    number = len({*ran, nodes})
    return TriedCount(number, max(number, _COUNTS), again=nodes in ran)


def _counts_run(scene: Comparison) -> tuple[int, ...]:
    """List the counts that jobs of the same request had, or any job of the same problem."""
    change = scene.table.change
    if change is None:
        return ()
    if change.one_problem:
        return counts_run(scene.table, scene.request.given)
    own = range_of(change, scene.request.given)
    return own.counts if own else ()


def _unsure(one: Option, known: Option) -> bool:
    """Whether it is open how long a count takes beside a known one."""
    each = zip(one.ratios, known.ratios, strict=True)
    return pstdev(own / other for own, other in each) > _UNSURE * one.time_s / known.time_s


def _turnaround_s(one: Option) -> float:
    return one.wait_s + one.time_s


def _has_room(one: Option, scene: Comparison) -> bool:
    """Whether limit and memory hold even a long run, and enough nodes are left to others."""
    limit_s = one.limit_s or scene.supply.longest_s or inf
    holds = one.in_limit and one.prediction.high_s <= limit_s
    return holds and one.fits and one.leaves_room and one.wait_s < inf


def _costs(scene: Comparison, one: Option) -> list[float]:
    """Cost of a count, for each of the equally likely levels and changes.

    With the median wait: a try tells nothing of waits, and the mean of one is that of its tail.
    """
    drawn = [
        level_s * ratio for level_s, ratio in zip(levels(scene.table), one.ratios, strict=True)
    ]
    if not scene.hurries:
        return [one.nodes * run_s for run_s in drawn]
    return [one.wait_s + (1 + scene.price * one.nodes) * run_s for run_s in drawn]


def _gain(best: Sequence[float], other: Sequence[float]) -> float:
    """Share of the best cost that another count is expected to save where it is better."""
    saved = (max(one - two, 0.0) for one, two in zip(best, other, strict=True))
    return fmean(saved) / fmean(best)


@dataclass(frozen=True, slots=True)
class _Try:
    decision_id: str
    at_s: float
    moved: int  #: runs on another count than asked for, in the table that it was decided by


class PendingTries:
    """The last try of each application: there is one at a time."""

    def __init__(self) -> None:
        self._tries: dict[str, _Try] = {}
        self.changes = 0  #: grows with each try

    def listed(self) -> dict[str, "_Try"]:
        """Give the last try of each application, by the key of its table."""
        return dict(self._tries)

    def put(self, tries: dict[str, "_Try"]) -> None:
        """Take the tries of another service in place of one's own."""
        self._tries = tries

    def add(self, table: PredictionTable, decision_id: str, at_s: float) -> None:
        """Note that a job is tried on another count."""
        self._tries.pop(table.key, None)
        self._tries[table.key] = _Try(decision_id, at_s, _moved(table))
        self.changes += 1
        while len(self._tries) > _MOST:
            del self._tries[next(iter(self._tries))]

    def pending(self, table: PredictionTable, cluster: Cluster | None, now_s: float) -> bool:
        """Whether a try of this application waits, runs, or has ended since the last refit."""
        last = self._tries.get(table.key)
        if last is None or now_s - last.at_s > _FORGOTTEN_S or _moved(table) > last.moved:
            return False
        if cluster is None or cluster.taken_s - last.at_s <= UNLISTED_S:
            return True
        # It is gone where it is not shown: it failed, and the tables are newer than that.
        return last.decision_id in cluster.shown or table.fitted_s <= last.at_s


class RecentCounts:
    """Counts that jobs of each application asked for within a day."""

    def __init__(self) -> None:
        self._asked: dict[str, list[tuple[float, int]]] = {}

    def add(self, key: str, nodes: int, at_s: float) -> None:
        """Note what a job asks for."""
        within = [one for one in self._asked.pop(key, ()) if at_s - one[0] <= _DAY_S]
        self._asked[key] = [*within[-_MOST_COUNTS:], (at_s, nodes)]
        while len(self._asked) > _MOST:
            del self._asked[next(iter(self._asked))]

    def is_study(self, key: str, nodes: int, now_s: float) -> bool:
        """Whether a job would be one of a series with one run on each of several counts."""
        counts = [one for at_s, one in self._asked.get(key, ()) if now_s - at_s <= _DAY_S]
        return bool(counts) and len({*counts, nodes}) == len(counts) + 1


def _moved(table: PredictionTable) -> int:
    return table.change.moved if table.change else 0
