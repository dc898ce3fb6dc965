"""Tries that wait, run or are not in the tables yet: there is one of an application at a time."""

from dataclasses import dataclass

from predictor.types import PredictionTable
from slurm_plugin.slurm.cluster_state import Cluster

#: A job is decided on this long before squeue can show it.
_UNLISTED_S = 5.0
#: A try of which nothing came does not count any more, seconds.
_FORGOTTEN_S = 7 * 86_400.0
_MOST = 4096


@dataclass(frozen=True, slots=True)
class _Try:
    decision_id: str
    at_s: float
    moved: int  #: runs on another count than asked for, in the table that it was decided by


class PendingTries:
    """The last try of each application."""

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


def _moved(table: PredictionTable) -> int:
    return table.change.moved if table.change else 0
