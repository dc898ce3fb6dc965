"""What a refit leaves for one identity, and all that a submission reads."""

from dataclasses import dataclass, field
from typing import Any

from predictor.change import Change
from predictor.facts import (
    Ending,
    Failures,
    LimitReached,
    Longest,
    NodePower,
    ResourceUse,
    Starts,
    ToLimit,
)
from predictor.memory import Memory, MemoryNeed
from predictor.problems import Problem
from predictor.sizes import SizeTerm, Surface
from predictor.types import HISTORY, Point, Verdict
from sacct_ingest.runs.layout import ANY, Layout, Unit
from sacct_ingest.runs.submission import JobKind


@dataclass(frozen=True, slots=True)
class AtLimit:
    """Columns of a history's table for jobs that ask for one time limit."""

    limit_s: float
    median_s: tuple[float, ...]
    low_s: tuple[float, ...]
    high_s: tuple[float, ...]
    starts: tuple[Starts, ...] = ()


@dataclass(frozen=True, slots=True)
class Tail:
    """Column of a table: run times that a share of new runs stays below."""

    share: float
    time_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of an identity's last predictions: the record that verdicts are earned by.

    ``repeated`` says whether they were for node counts that had been run before.
    """

    repeated: bool
    predictions: int
    median_error: float  #: of the predicted time, as a share of the actual one
    inside: int  #: how many ended inside their interval


@dataclass(frozen=True, slots=True)
class Part:
    """Runs of an identity that have something in common, and a table of their own.

    ``key`` is that of their table, at the same level; ``values`` are pairs of an attribute's name
    and its value (:mod:`sacct_ingest.runs.attributes`), an empty one where runs did not have it.
    """

    key: str
    layout: Layout = ANY
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ByType:
    """Run times on one node type: of `PredictionTable` what another type may have otherwise.

    The four tuples run over ``nodes`` (rising).  Between two entries log time is linear in log
    nodes.
    """

    node_type: str
    model: str
    verdict: Verdict
    problems: tuple[Problem, ...]
    nodes: tuple[int, ...]
    median_s: tuple[float, ...]
    low_s: tuple[float, ...]
    high_s: tuple[float, ...]
    curve_sd: tuple[float, ...]
    #: verdict for each of ``nodes``: inside the observed range a curve may be reliable where
    #: beyond it is doubtful.  ``verdict`` is the one at the best supported nodes.
    verdicts: tuple[Verdict, ...] = ()
    observed: tuple[Point, ...]
    knee: int | None  #: processor working set, argmax S²/n; None: beyond the table
    max_useful: int | None  #: nodes beyond which T stops falling
    runs: int  #: that finished on this type
    #: high quantiles of a curve, rising; what time limits are made of
    tails: tuple[Tail, ...] = ()
    #: sizes are those asked for; another size changes run times by this.  None: the table's own
    #: times say what a change does, and of another node type those of the table's
    change: Change | None = None
    power: NodePower | None = None  #: None: not measured, or its runs shared their nodes
    #: of counts where starts were cut off, or took longer than the columns say; rising in nodes
    starts: tuple[Starts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionTable(ByType):
    """What a refit leaves for one identity, and all that a submission reads.

    Serialised as JSON into ``store.fits``.
    """

    level: str  #: KeyLevel value of the identity
    key: str
    label: str  #: what to call the application in front of people
    confidence: float  #: level of the interval [low, high] for one new run
    mem_node_bytes: int | None  #: highest measured memory of one node, if any
    fitted_s: float
    #: where there is no curve, the limit that is asked for says something; the columns of the
    #: table are for the one asked for last
    at_limits: tuple[AtLimit, ...] = ()
    #: rising in nodes; empty where the accounting has no memory
    memory: tuple[Memory, ...] = ()
    #: type of the nodes that the table is about; empty: unknown, or they are all alike
    node_type: str = ""
    #: largest node count observed on any node type; 0: all that counts is in ``observed``
    widest: int = 0
    in_cluster: int = 0  #: nodes or CPUs of the cluster, as far as it was seen; 0: unknown
    #: how runs ended, most frequent first; see `predictor.tables.run_facts`
    endings: tuple[Ending, ...] = ()
    #: digests of the working directories of the runs, where these are few
    work_dirs: tuple[str, ...] = ()
    script: str = ""  #: key of the script that the latest runs had; empty: unknown, or they differ
    last_s: float = 0.0  #: start of the newest run that says a run time, seconds since the epoch
    #: the other node types that there are; their node counts may be fewer
    by_type: tuple[ByType, ...] = ()
    #: what all runs have in common; nothing where the identity has ``parts``
    layout: Layout = ANY
    #: where runs are not one curve, the tables that are; this one is for what is none of them
    parts: tuple[Part, ...] = ()
    #: numbers that run time goes by: all times are those of a job with their references
    sizes: tuple[SizeTerm, ...] = ()
    #: how it goes by them, at each count; None: it does not
    surface: Surface | None = None
    #: whose runs these are; empty: several users'
    owner: str = ""
    #: rising in nodes
    longest: tuple[Longest, ...] = ()
    asked_limit_s: float = 0.0  #: longest time limit that its last runs asked for; 0: not known
    record: tuple[Recorded, ...] = ()
    command: str = ""  #: script and arguments of the newest run, where one key has one command
    #: what the table's sizes count: wherever it or what is made of it says ``nodes``
    unit: Unit = Unit.NODES
    need: MemoryNeed | None = None  #: None: the accounting has no memory
    uses: tuple[ResourceUse, ...] = ()  #: empty: the accounting does not say
    limit_reached: LimitReached | None = None
    failures: Failures | None = None  #: None: none of the latest runs failed
    one_cpu: bool = False  #: all its runs had one CPU of one node
    shares_nodes: bool = False  #: others may run on the nodes of its runs
    #: of ``observed`` and ``starts`` the sizes that no job had: they are those that jobs asked for
    never_had: tuple[int, ...] = ()
    asked: int = 0  #: this is one job, asked for on so many, on each size; 0: jobs as asked for
    kind: JobKind = JobKind.WORK  #: whether the length of its jobs is a property of the work
    to_limit: ToLimit | None = None  #: None: fewer than half of them ran until their limit
    #: it is made of a user's other jobs and of those of so many other users, for a command without
    #: runs (:mod:`predictor.neighbours`)
    neighbours: tuple[int, int] | None = None
    #: applications that tags of its runs name, two at most: enough to say that there are others
    tagged: tuple[str, ...] = ()
    #: fields that differ where the owner's runs alone may have a say: what decisions go by
    acting: dict[str, Any] = field(default_factory=dict)

    @property
    def is_curve(self) -> bool:
        """Whether there is a curve over node counts, not only runs as they were."""
        return self.model != HISTORY

    @property
    def is_guess(self) -> bool:
        """Whether only the user, or user and job name, were recognised: no application at all."""
        return self.level in ("name", "user") and not self.is_curve and not self.sizes

    def __hash__(self) -> int:
        # Tables are keys of what is worked out of them: not all their numbers have to be hashed.
        # Those of a fit have no key yet, and those of one key differ by the sizes of their jobs.
        need = self.need.high[:1] if self.need else ()
        return hash((self.level, self.key, self.node_type, self.fitted_s, self.median_s[:1], need))


#: A table of an identity about which nothing is predicted.
EMPTY = PredictionTable(
    level="",
    key="",
    label="",
    confidence=0.9,
    fitted_s=0.0,
    node_type="",
    model="",
    verdict=Verdict.REFUSED,
    problems=(),
    nodes=(),
    median_s=(),
    low_s=(),
    high_s=(),
    curve_sd=(),
    observed=(),
    knee=None,
    max_useful=None,
    mem_node_bytes=None,
    runs=0,
)
