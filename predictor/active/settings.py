"""The choices of NIMO's algorithm 1, as table 1 of its paper lists them, and one of our own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Part(StrEnum):
    """The predictor functions that are refined; the data flow's learns from every sample."""

    COMPUTE = "compute"
    NETWORK = "network"
    DISK = "disk"


class Reference(StrEnum):
    """Assignment of the first run (section 3.1)."""

    MIN = "min"  #: the slowest
    RAND = "rand"
    MAX = "max"  #: the fastest


class Order(StrEnum):
    """In which order functions, or their attributes, are taken up (sections 3.2 and 3.3)."""

    RELEVANCE = "relevance"  #: by their effect in a Plackett-Burman design with foldover
    DOMAIN = "domain"  #: as told


class Traversal(StrEnum):
    """How the next function to refine is chosen (section 3.2)."""

    ROUND_ROBIN = "round robin"
    IMPROVEMENT = "improvement"
    DYNAMIC = "dynamic"


class Selection(StrEnum):
    """How the next assignment is chosen (section 3.4)."""

    LMAX_I1 = "Lmax-I1"  #: all levels of one attribute, the others at the reference
    L2_I2 = "L2-I2"  #: two levels of each, by Plackett-Burman with foldover
    INFORMATIVE = "informative"  #: most uncertainty removed for its run time; not in the paper


class Error(StrEnum):
    """What the current error is measured on (section 3.6)."""

    AHEAD = "ahead"  #: of the last runs, each predicted before it was made; not in the paper
    CROSS_VALIDATION = "cross-validation"
    RANDOM_TEST = "random test set"
    PBDF_TEST = "Plackett-Burman test set"


class Purpose(StrEnum):
    """What a proposed run is for."""

    REFERENCE = "reference"
    SCREENING = "screening"  #: which attributes matter
    TEST = "test"  #: never learned from
    TRAINING = "training"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The choices of table 1; the defaults are what our own benchmark found best."""

    reference: Reference = Reference.MIN
    order: Order = Order.RELEVANCE  #: of functions
    attribute_order: Order = Order.RELEVANCE
    traversal: Traversal = Traversal.ROUND_ROBIN
    selection: Selection = Selection.INFORMATIVE
    error: Error = Error.AHEAD
    #: for :attr:`Order.DOMAIN`: the functions, and the attributes of each, most important first
    parts: tuple[Part, ...] = tuple(Part)
    attributes: Mapping[Part, tuple[str, ...]] = field(default_factory=dict)
    target: float = 10.0  #: MAPE in percent at which to stop
    fewest: int = 6  #: samples learned from before that
    in_a_row: int = 2  #: samples after which the error has to be that low: one may be luck
    improvement: float = 2.0  #: percent points below which a function counts as refined
    test_runs: int = 10
    seed: int = 1
