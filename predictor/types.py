"""What the models exchange: curves in, predictions out."""

from dataclasses import dataclass
from enum import StrEnum

from predictor.checks import need_finite, need_nodes, need_positive, need_rising

#: Model of a table without a curve: see :mod:`predictor.level.experts`.
HISTORY = "history"


class Verdict(StrEnum):
    """How far a prediction is to be trusted."""

    RELIABLE = "reliable"
    DOUBTFUL = "doubtful"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Point:
    """The typical run time at one node count.

    Raises ValueError: not a whole number of nodes and repeats, a time above zero, and a spread.
    """

    nodes: int
    time_s: float  #: median of the runs used
    repeats: int = 1
    spread: float = 0.0  #: standard deviation of log run time among the repeats, 0 for one run

    def __post_init__(self) -> None:
        need_nodes((self.nodes,))
        need_positive("run time in seconds", self.time_s)
        need_finite("repeats", self.repeats, least=1)
        need_finite("spread", self.spread, least=0)


@dataclass(frozen=True, slots=True)
class Drift:
    """Run times changed level: the last time that they did.

    ``factor`` is new over old run time.  ``renewed`` node counts were run since; the curve has
    ``stale`` ones that were not, with their old times scaled.
    """

    since_s: float  #: start of the first run at the new level, seconds since the epoch
    factor: float
    runs: int  #: finished runs at the new level
    renewed: tuple[int, ...] = ()
    stale: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Curve:
    """Run time over node counts of one application on one problem.

    ``points`` have distinct ``nodes`` in rising order.  ``censored`` are node counts where runs
    were only stopped by their limit, with the longest time survived: a lower bound of T(n).

    Raises ValueError: node counts do not rise, or the resolution is no time.
    """

    points: tuple[Point, ...]
    censored: tuple[Point, ...] = ()
    resolution_s: float = 0.0  #: run times are whole multiples of this; 0: exact
    drift: Drift | None = None
    #: log of run time over the median of the runs before on the same node count, of every
    #: run that had an earlier one; infinite where the run was stopped after that median
    surprises: tuple[float, ...] = ()
    each: int = 0  #: second size that all runs had, such as tasks on each node; 0: there is none
    others: tuple["Curve", ...] = ()  #: of the same application, with other second sizes
    #: sizes count the whole job, which ``each`` only lays out; else ``each`` is on each node
    in_all: bool = False

    def __post_init__(self) -> None:
        need_rising("node counts of a curve", (point.nodes for point in self.points))
        need_rising("node counts of stopped runs", (point.nodes for point in self.censored))
        need_finite("resolution in seconds", self.resolution_s, least=0)
        need_finite("second size", self.each, least=0)
        sizes = [one.each for one in (self, *self.others)]
        if self.others and (len(set(sizes)) < len(sizes) or min(sizes) < 1):
            raise ValueError(f"second sizes {sizes}: they must be 1 or more, each given once")


@dataclass(frozen=True, slots=True)
class Prediction:
    """Run time on ``nodes`` nodes: the median and an interval for one new run at ``level``.

    ``curve_sd`` is the uncertainty of the median itself, as a standard deviation of log time:
    what a decision between node counts has to fear, where one run's own noise cancels.  Where it is
    ``unbounded`` there is no median and no upper end: half of the runs take ``time_s`` or more, and
    ``high_s`` is the longest that was seen.
    """

    nodes: int
    time_s: float
    low_s: float
    high_s: float
    level: float
    curve_sd: float = 0.0
    unbounded: bool = False
