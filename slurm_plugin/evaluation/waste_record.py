"""What an application's record says of each of its starts: what was needed, and what came before.

Everything is told from what had ended before a start began, as one would have known it then.
"""

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from statistics import median

from predictor.tables.kinds import kind_of_runs
from sacct_ingest.records import JobState
from sacct_ingest.runs.evidence import node_memory, ran_short
from sacct_ingest.runs.submission import JobKind
from sacct_ingest.store.rows import RunRow
from slurm_plugin.evaluation.resource_usage import LEAST_RUNS
from slurm_plugin.evaluation.waste import Cause, Used

#: States of starts whose use says what the next one needs.
_SAY_NEED = frozenset({JobState.COMPLETED, JobState.TIMEOUT})
#: Starts that ended for lack of memory which are looked at.
_SHORTAGES = 200
#: A start that failed within this share of what others took did so early.
_EARLY = 0.5
#: Latest starts by which the kind of an application is told, and how long it takes.
_LATEST = 20


@dataclass(frozen=True, slots=True)
class Lost:
    """A start that its time limit ended; what it occupied came to so many node-hours."""

    end_s: float
    elapsed_s: float
    nodes: int
    hours: float
    place: tuple[str, ...]  #: whose hours they are


@dataclass(slots=True)
class ApplicationRecord:
    """One application's starts, in the order of their submission.

    margin: by which advice goes beyond the highest need.
    """

    margin: float
    completed: int = 0
    cut_off: int = 0  #: starts that their limit ended
    #: what began anew after its limit had ended it, and what nothing followed
    again: list[Lost] = field(default_factory=list)
    open: list[Lost] = field(default_factory=list)
    _failures: list[float] = field(default_factory=list)
    _successes: list[float] = field(default_factory=list)
    _shortages: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_SHORTAGES))
    _most: dict[tuple[Cause, int], tuple[int, float]] = field(default_factory=dict)
    #: what starts say of the need that had not ended when the last one began, by their ends
    _running: list[tuple[float, Cause, int, float]] = field(default_factory=list)
    _took: deque[float] = field(default_factory=lambda: deque(maxlen=_LATEST))
    _latest: deque[RunRow] = field(default_factory=lambda: deque(maxlen=_LATEST))

    def failures_before(self, run: RunRow) -> int:
        """Count the starts in a row that had failed early when this one began, which did so, too.

        One that ran for as long as those that completed may have left what it was for.
        """
        start_s = float(run.start_s or 0)
        if not self._is_early(run):
            return 0
        ended = bisect_right(self._successes, start_s)
        last_s = self._successes[ended - 1] if ended else -inf
        return bisect_right(self._failures, start_s) - bisect_right(self._failures, last_s)

    def shortages_before(self, run: RunRow) -> int:
        """Count the starts that had ended for lack of as much memory, or more, when it began."""
        start_s = float(run.start_s or 0)
        given = node_memory(run)
        return sum(end_s <= start_s and had >= given for end_s, had in self._shortages)

    def advised(self, run: RunRow, usage: Mapping[Cause, Used]) -> dict[Cause, float]:
        """Give what the starts of its size that had ended say to ask for of each resource."""
        while self._running and self._running[0][0] <= float(run.start_s or 0):
            _, cause, nodes, used = heappop(self._running)
            starts, most = self._most.get((cause, nodes), (0, 0.0))
            self._most[cause, nodes] = starts + 1, max(most, used)
        made = {}
        for cause, one in usage.items():
            starts, most = self._most.get((cause, run.nodes), (0, 0.0))
            if one.used is not None and starts >= LEAST_RUNS:
                made[cause] = most * self.margin
        return made

    def take(self, run: RunRow, usage: Mapping[Cause, Used]) -> None:
        """Take a start for what comes after it."""
        end_s = float(run.start_s or 0) + run.elapsed_s
        self._latest.append(run)
        short = ran_short(run)
        if short or run.state in _SAY_NEED:
            for cause, one in usage.items():
                used = one.had if short and cause is Cause.MEMORY else one.used
                if used is not None:
                    heappush(self._running, (end_s, cause, run.nodes, used))
        if run.state is JobState.COMPLETED:
            self.completed += 1
            insort(self._successes, end_s)
            self._took.append(run.elapsed_s)
            self._followed(run)
        elif short:
            self._shortages.append((end_s, node_memory(run)))
        elif run.state is JobState.FAILED and self._is_early(run):
            insort(self._failures, end_s)

    def _is_early(self, run: RunRow) -> bool:
        return not self._took or run.elapsed_s < _EARLY * median(self._took)

    def lose(self, lost: Lost) -> None:
        """Take a start that its limit ended."""
        self.cut_off += 1
        self.open.append(lost)

    def _followed(self, run: RunRow) -> None:
        """Judge lost starts by one that completed after them.

        Where it ran for longer than they could, it had begun anew; where it did not, it went on
        from what they had saved, or was other work: nothing is said to be lost.
        """
        start_s = float(run.start_s or 0)
        waiting = []
        for lost in self.open:
            if lost.end_s > start_s or lost.nodes != run.nodes:
                waiting.append(lost)
            elif run.elapsed_s > lost.elapsed_s:
                self.again.append(lost)
        self.open = waiting

    @property
    def until_limit(self) -> bool:
        """Whether its jobs run until their limit by design: pilots, sessions, chains of jobs."""
        return kind_of_runs(tuple(self._latest))[0] is not JobKind.WORK

    @property
    def completes(self) -> float:
        """How likely a start completes that is not cut off by its limit (Jeffreys' prior)."""
        return (self.completed + 0.5) / (self.completed + self.cut_off + 1.0)
