"""What another count does to the run time of one problem, as a prediction table has it."""

from dataclasses import dataclass
from typing import Final

from predictor.memory import Memory

#: A hypothesis that is less likely than this is not considered.
UNDECIDED: Final = 0.05


@dataclass(frozen=True, slots=True)
class AskedRange:
    """Runs whose users asked for one range of counts, and so for one problem or the like."""

    low: int
    high: int
    level: int  #: count on which the table has their run time
    counts: tuple[int, ...]  #: that they had, rising
    tries: int = 0  #: how many of them were to learn
    memory: tuple[Memory, ...] = ()  #: highest of a node on each count, where it was measured


@dataclass(frozen=True, slots=True)
class Change:
    """What another count does to the run time of one problem: see `predictor.application`.

    Each of the paths is as likely as the next: thousandths of log T(n)/T(m) at doublings from a
    reference.  That is the count asked for where ``references`` has 0, else that count.

    ``runs`` is how many runs they follow from; 0: they are the prior's, or those of a `Surface`,
    which are as sure as they say.

    ``same`` is how likely it is that jobs which asked for different counts had one problem.
    ``visible``: arguments, input or measured memory show that they had, so that only run times
    which speak clearly against it are believed.
    """

    doublings: tuple[float, ...]
    paths: tuple[tuple[int, ...], ...]
    references: tuple[float, ...]
    ranges: tuple[AskedRange, ...] = ()
    proven: tuple[int, ...] = ()  #: counts that users asked for and completed on, but for studies
    moved: int = 0  #: runs on another count than was asked for
    tries: int = 0  #: runs to learn: those that NIMO moved, and those of studies
    runs: int = 0
    same: float = 0.0
    visible: bool = False

    @property
    def one_problem(self) -> bool:
        """Whether what was measured on a count holds for every job, whatever it asks for."""
        return self.visible and self.same >= 0.5

    @property
    def undecided(self) -> bool:
        """Whether runs fit one problem, and problems that grew with the count asked for, too."""
        return UNDECIDED <= self.same <= 1 - UNDECIDED

    @property
    def learnt(self) -> tuple[int, ...]:
        """Counts of the tries for one range and of its other runs; empty for fewer than three."""
        tried = (one.counts for one in self.ranges if one.tries)
        counts = max(tried, key=len, default=())
        return counts if len(counts) > 2 else ()
