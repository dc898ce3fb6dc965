"""How run time goes by the sizes that jobs name, as a prediction table has it."""

from dataclasses import dataclass

from predictor.checks import need_positive


@dataclass(frozen=True, slots=True)
class SizeTerm:
    """A number of a job's request by which its run time goes, in words of one power of it.

    Times of a table are those of its ``reference``; runs had numbers from ``low`` to ``high``.
    How exactly run time goes by it, at each count, is in the table's `Surface`.
    """

    name: str  #: of the attribute (:mod:`sacct_ingest.runs.attributes`)
    exponent: float  #: at the references, on the middle count
    error: float  #: standard error of the exponent
    reference: float
    low: float
    high: float

    def __post_init__(self) -> None:
        need_positive("number of a size", self.reference, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a run time over sizes and counts: a sum of products of powers.

    Each of ``terms`` is the log of a part of the run time in seconds at the centre of a `Surface`,
    the exponent of each size, and that of the count.  ``steps``: by how much log run time leaves
    that sum at each of the surface's counts.  ``constant``: the part of each size that run time
    does not go by; empty: none.
    """

    fold: int  #: of the runs that it was fitted without; 0: it was fitted to all
    weight: float  #: those of one fold have the sum 1
    terms: tuple[tuple[float, ...], ...]
    steps: tuple[float, ...] = ()
    constant: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Surface:
    """Run time over the sizes of a problem and counts at once: see `predictor.application.surface`.

    ``centre``: a size each, in the order of the table's, and ``count``: where terms are given.
    ``covariance``: of the level, the exponents of sizes and that of the count, of a log-linear
    regression on the same runs; empty where there is none.
    """

    centre: tuple[float, ...]
    count: float
    forms: tuple[Form, ...]
    counts: tuple[float, ...] = ()  #: rising: those of ``steps``
    covariance: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        need_positive("centre of a surface", self.count, *self.centre, *self.counts)
