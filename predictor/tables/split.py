"""Which attributes of a job distinguish the problems of one identity.

Attributes are added one by one, for as long as they explain run times that node counts do not.
Each is judged by a backtest: every run is predicted from runs alike that had
ended when it was submitted, with the attribute and without.  So an attribute that merely has many
values explains nothing.  The attributes of the last fit stay unless others are clearly better.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median, stdev
from typing import Any

from predictor.level.experts import SLOPE

#: Attributes that a split is made by, at most; runs that are looked at; fewer make no split.
MOST, RECENT, FEWEST = 3, 400, 8
#: Mean accuracy that an attribute has to add, and by how many standard errors of that mean.
_GAIN, _SURE = 0.03, 3.0
#: What is split already needs less to stay so, and others more to replace it.
_STAYS, _REPLACES = 0.01, 0.03
#: Runs that are predicted as well as that are one problem.
_ONE_PROBLEM = 0.9
#: Last runs of a cell whose median predicts.
_LAST = 5


@dataclass(frozen=True, slots=True)
class Example:
    """One finished run: its size, its log run time, and what reads its attributes by name."""

    nodes: int
    size: Hashable  #: all of its size that run time depends on
    log_s: float
    submit_s: float
    end_s: float
    read: Callable[[], Mapping[str, str]]
    row: Any = None  #: what it was made of


#: Log run time that each example was predicted to have; None: there was none.
_Logs = Sequence[float | None]


def choose(examples: Sequence[Example], before: Sequence[str] = ()) -> tuple[str, ...]:
    """Attributes by which runs fall into problems; none for one problem, or without an explanation.

    before: what was chosen at the last fit.
    """
    ordered = sorted(examples, key=lambda one: one.submit_s)[-RECENT:]
    if len(ordered) < FEWEST:
        return ()
    tested = _SplitBacktest(ordered)
    alone = tested.predict((), [None] * len(ordered))
    if not before and tested.accuracy(alone) > _ONE_PROBLEM:
        return ()
    chosen, logs = _added(tested, alone)
    if not before or set(chosen) == set(before):
        return tuple(before) if before else chosen
    own = alone
    for i in range(len(before)):
        own = tested.predict(before[: i + 1], own)
    if fmean(tested.gains(alone, own)) < _STAYS:
        return chosen
    return chosen if fmean(tested.gains(own, logs)) > _REPLACES else tuple(before)


def predicted(examples: Sequence[Example], names: Sequence[str]) -> tuple[list[Example], _Logs]:
    """Give the last examples by submission, with the log run times that a split predicts."""
    ordered = sorted(examples, key=lambda one: one.submit_s)[-RECENT:]
    tested = _SplitBacktest(ordered)
    logs: _Logs = [None] * len(ordered)
    for i in range(len(names) + 1):
        logs = tested.predict(names[:i], logs)
    return ordered, logs


def _added(tested: _SplitBacktest, alone: _Logs) -> tuple[tuple[str, ...], _Logs]:
    """Add attributes for as long as one helps; with what is then predicted."""
    chosen: tuple[str, ...] = ()
    logs = alone
    while len(chosen) < MOST:
        best, most = None, _GAIN
        for name in tested.names:
            if name in chosen:
                continue
            with_it = tested.predict((*chosen, name), logs)
            gains = tested.gains(logs, with_it)
            gain = fmean(gains) if len(gains) >= FEWEST - 1 else 0.0
            if gain > most and gain > _SURE * stdev(gains) / math.sqrt(len(gains)):
                best, most = (name, with_it), gain
        if best is None:
            break
        chosen, logs = (*chosen, best[0]), best[1]
    return chosen, logs


class _SplitBacktest:
    """Runs in the order of their submission, each predicted from those that had ended."""

    def __init__(self, ordered: Sequence[Example]) -> None:
        self._ordered = ordered
        self._ended = sorted(range(len(ordered)), key=lambda i: ordered[i].end_s)

    @cached_property
    def names(self) -> list[str]:
        """Attributes that have several values, which come again."""
        every = dict.fromkeys(name for values in self._values for name in values)
        counts = ((name, len({values.get(name, "") for values in self._values})) for name in every)
        return [name for name, count in counts if 1 < count <= len(self._ordered) // 2]

    @cached_property
    def _values(self) -> list[Mapping[str, str]]:
        return [one.read() for one in self._ordered]

    def _of(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """Give the values of these attributes of each run."""
        if not names:
            return [()] * len(self._ordered)
        return [tuple(values.get(name, "") for name in names) for values in self._values]

    def predict(self, names: Sequence[str], otherwise: _Logs) -> _Logs:
        """Predict by the last runs of the same size and attributes.

        Where there was none of that size, the last one with these attributes stands in; where
        there was none at all, what is said ``otherwise``.
        """
        cells: dict[Hashable, deque[float]] = defaultdict(lambda: deque(maxlen=_LAST))
        latest: dict[tuple[str, ...], Example] = {}
        logs: list[float | None] = []
        every, ended = self._of(names), deque(self._ended)
        for one, values, other in zip(self._ordered, every, otherwise, strict=True):
            while ended and self._ordered[ended[0]].end_s <= one.submit_s:
                last = ended.popleft()
                cells[every[last], self._ordered[last].size].append(self._ordered[last].log_s)
                latest[every[last]] = self._ordered[last]
            if cell := cells.get((values, one.size)):
                logs.append(median(cell))
            elif like := latest.get(values):
                logs.append(like.log_s + SLOPE * math.log(one.nodes / like.nodes))
            else:
                logs.append(other)
        return logs

    def accuracy(self, logs: _Logs) -> float:
        """Mean of min(p, a) / max(p, a)."""
        return fmean(self._accuracies(logs).values() or (1.0,))

    def gains(self, one: _Logs, other: _Logs) -> list[float]:
        """Accuracy of each run that the other adds, where both say something."""
        first, second = self._accuracies(one), self._accuracies(other)
        return [second[i] - first[i] for i in first if i in second] or [0.0]

    def _accuracies(self, logs: _Logs) -> dict[int, float]:
        return {
            i: math.exp(-abs(log_s - one.log_s))
            for i, (log_s, one) in enumerate(zip(logs, self._ordered, strict=True))
            if log_s is not None
        }
