"""The choices of NIMO's algorithm 1, as table 1 of its paper lists them, and some of our own."""

from collections.abc import Mapping
from enum import StrEnum
from math import inf, isfinite

import msgspec


class OccupancyPart(StrEnum):
    """The predictor functions."""

    COMPUTE = "compute"
    NETWORK = "network"
    DISK = "disk"
    DATA = "data"


class Reference(StrEnum):
    """Assignment of the first run (section 3.1)."""

    MIN = "min"  #: the slowest
    RAND = "rand"
    MAX = "max"  #: the fastest


class RefinementOrder(StrEnum):
    """In which order functions, or their attributes, are taken up (sections 3.2 and 3.3)."""

    RELEVANCE = "relevance"  #: by their effect in a Plackett-Burman design with foldover
    DOMAIN = "domain"  #: as given


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


class FunctionForm(StrEnum):
    """What the predictor functions are made of."""

    CHOSEN = "chosen"  #: terms and bottleneck by evidence; not in the paper
    PAPER = "paper"  #: one predetermined transformation of each attribute, linear (section 4.1)


class Purpose(StrEnum):
    """What a proposed run is for."""

    REFERENCE = "reference"
    SCREENING = "screening"  #: which attributes matter
    TEST = "test"  #: never learned from
    TRAINING = "training"


class LearnerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The choices of table 1; the defaults are what our own benchmark found best.

    Raises ValueError: a number is out of its range or not finite, or nothing is left to refine.
    """

    reference: Reference = Reference.MIN
    order: RefinementOrder = RefinementOrder.RELEVANCE  #: of functions
    attribute_order: RefinementOrder = RefinementOrder.RELEVANCE
    traversal: Traversal = Traversal.ROUND_ROBIN
    selection: Selection = Selection.INFORMATIVE
    error: Error = Error.AHEAD
    form: FunctionForm = FunctionForm.CHOSEN
    #: functions that are refined, the most important first where the order is the domain's; those
    #: left out learn from all attributes
    parts: tuple[OccupancyPart, ...] = tuple(OccupancyPart)
    #: for :attr:`RefinementOrder.DOMAIN`: the attributes of each function, most important first
    attributes: Mapping[OccupancyPart, tuple[str, ...]] = {}
    target: float = 10.0  #: MAPE in percent at which to stop
    fewest: int = 6  #: samples learned from before that
    in_a_row: int = 2  #: samples after which the error has to be that low: one may be luck
    improvement: float = 2.0  #: percent points below which a function counts as refined
    test_runs: int = 10
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("target", "improvement"):
            if not (isfinite(value := getattr(self, name)) and value >= 0):
                raise ValueError(f"{name} is {value}: a finite percentage of at least 0 is needed")
        for name in ("fewest", "in_a_row", "test_runs"):
            if not 1 <= getattr(self, name) < inf:
                raise ValueError(f"{name} is {getattr(self, name)}: at least 1 is needed")
        if not self.parts or len(set(self.parts)) < len(self.parts):
            raise ValueError("parts: give each function to refine once, and at least one")
        for part, names in self.attributes.items():
            if not names or len(set(names)) < len(names):
                raise ValueError(f"attributes of {part.value}: give each once, and at least one")
