"""What nimod counts of its own work, for those who watch it."""

from bisect import bisect_left
from collections import Counter

from sacct_ingest.records import DecisionRow
from slurm_plugin.protocol.status_messages import Counts, Decided

#: Upper ends of the bins of answer times, seconds.
BOUNDS_S = (0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)


class AnswerCounts:
    """Counts since nimod began.

    began_s: when that was, seconds since the epoch.
    """

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._decisions: Counter[tuple[str, str, str, bool]] = Counter()
        self._bins = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def took(self, seconds: float) -> None:
        """Take the time that the answer to a submission was made in."""
        self._bins[bisect_left(BOUNDS_S, seconds)] += 1
        self._sum_s += seconds

    def decided(self, row: DecisionRow) -> None:
        """Take a decision."""
        self._decisions[row.mode, row.action, row.reason, row.applied] += 1

    def counts(self) -> Counts:
        """Give all of it."""
        return Counts(
            began_s=self._began_s,
            decisions=[
                Decided(mode=mode, action=action, reason=reason, applied=applied, count=count)
                for (mode, action, reason, applied), count in self._decisions.items()
            ],
            bounds_s=list(BOUNDS_S),
            bins=list(self._bins),
            sum_s=self._sum_s,
        )
