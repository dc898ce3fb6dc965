"""What jobs of an application had lately and the tables do not know yet: tries, and studies."""

from dataclasses import dataclass

from predictor.types import PredictionTable
from slurm_plugin.slurm.cluster_state import Cluster

#: A job is decided on this long before squeue can show it.
_UNLISTED_S = 5.0
#: A try of which nothing came does not count any more, seconds.
_FORGOTTEN_S = 7 * 86_400.0
_MOST = 4096
_DAY_S, _MOST_COUNTS = 86_400.0, 64


@dataclass(frozen=True, slots=True)
class _Try:
    decision_id: str
    at_s: float
    moved: int  #: runs on another count than asked for, in the table that it was decided by


class PendingTries:
    """The last try of each application: there is one at a time."""

    def __init__(self) -> None:
        self._tries: dict[str, _Try] = {}

    def add(self, table: PredictionTable, decision_id: str, at_s: float) -> None:
        """Note that a job is tried on another count."""
        self._tries.pop(table.key, None)
        self._tries[table.key] = _Try(decision_id, at_s, _moved(table))
        while len(self._tries) > _MOST:
            del self._tries[next(iter(self._tries))]

    def pending(self, table: PredictionTable, cluster: Cluster | None, now_s: float) -> bool:
        """Whether a try of this application waits, runs, or has ended since the last refit."""
        last = self._tries.get(table.key)
        if last is None or now_s - last.at_s > _FORGOTTEN_S:
            return False
        if now_s - last.at_s < _UNLISTED_S:
            return True
        listed = cluster is not None and cluster.taken_s - last.at_s > _UNLISTED_S
        if not listed or (cluster is not None and last.decision_id in cluster.shown):
            return not _moved(table) > last.moved
        # It is gone: the tables have it, or it failed and they are newer than the view.
        return not (_moved(table) > last.moved or table.fitted_s > last.at_s)


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
