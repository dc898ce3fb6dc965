"""What a prediction table says of memory."""

from dataclasses import dataclass

from predictor.checks import need_positive

#: More memory than any node has: no run on a count had enough.
UNBOUNDED = 2**62


@dataclass(frozen=True, slots=True)
class Memory:
    """Highest memory that one node needed in runs on ``nodes`` nodes."""

    nodes: int
    mem_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryTerm:
    """A number of a job's request by which its need of memory goes.

    A share of the need at the ``reference`` is ``fixed``, the rest goes as a power of the number.
    Beyond the runs, whose numbers were from ``low`` to ``high``, it grows in proportion, and does
    not fall.
    """

    name: str  #: of the attribute (:mod:`sacct_ingest.runs.attributes`)
    fixed: float
    power: float
    reference: float
    low: float
    high: float

    def __post_init__(self) -> None:
        need_positive("number of a size", self.reference, self.low, self.high)

    def factor(self, number: float) -> float:
        """Give the need with a number over that with the reference."""
        inside = min(max(number, self.low), self.high)
        ratio: float = (inside / self.reference) ** self.power
        return (self.fixed + (1 - self.fixed) * ratio) * max(number / self.high, 1.0)


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """How much memory new runs need: see `predictor.tables.memory_need`.

    ``high`` is what a run on each size is to be given, by what all runs needed.  Where needs go by
    numbers that jobs name, ``sized`` is that of a job with their references.
    ``given`` is the least that runs of a size completed with since one ended for lack of memory.
    """

    runs: int  #: completed since one ended for lack of memory
    predictions: int  #: runs that were judged by those before them ...
    inside: int  #: ... and for how many of them it would have been enough
    short_s: float = 0.0  #: end of the last run that ended for lack of memory; 0: none did
    high: tuple[Memory, ...] = ()
    given: tuple[Memory, ...] = ()
    terms: tuple[MemoryTerm, ...] = ()
    sized: tuple[Memory, ...] = ()
    #: numbers of which there are runs enough, and by what factor these say more or less
    same: tuple[tuple[tuple[float, ...], float], ...] = ()
