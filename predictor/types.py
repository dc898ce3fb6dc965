"""What the models exchange: curves in, fits and predictions out, with reasons not to trust them."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from predictor.checks import need_finite, need_nodes, need_positive, need_rising
from sacct_ingest.runs.layout import ANY, Layout, Unit
from sacct_ingest.runs.submission import JobKind

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


@dataclass(frozen=True, slots=True)
class Problem:
    """One named reason not to trust a prediction, in words, with the run that would improve it."""

    name: str  #: stable name, e.g. ``linear_section``
    text: str  #: plain words for users
    observe: int | None = None  #: node count where one more run would help most
    beyond: int = 0  #: it is about counts from this one on, none of them run; 0: about others, too


@dataclass(frozen=True, slots=True)
class Starts:
    """What the starts on ``nodes`` nodes say of run times: some of them may have been cut off.

    Where it is ``unbounded`` there is no median: half of the starts or more were cut off, or what
    half of them take is beyond all that was seen.  Half of them ran for ``over_s`` or longer.
    """

    nodes: int
    starts: int
    cut_off: int
    out_of_time: int  #: how many of these by their limit or deadline
    unbounded: bool
    over_s: float
    longest_s: float  #: of those that were cut off; 0: none was
    #: pairs of a share and the time that it of the starts takes at most; None: beyond what was seen
    ends: tuple[tuple[float, float | None], ...]

    def end_s(self, share: float) -> float | None:
        """Time in seconds that ``share`` of the starts take at most, or a larger one; None: none.

        >>> Starts(1, 9, 3, 3, False, 60.0, 90.0, ((0.5, 60.0), (0.9, None))).end_s(0.4)
        60.0
        """
        return next((end_s for least, end_s in self.ends if least >= share), None)


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


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """Which share of its CPUs or GPUs an application uses: see `predictor.tables.resource_use`."""

    unit: Unit  #: CPUs or GPUs
    share: float  #: the median run's
    low: float  #: nine in ten runs use no less ...
    high: float  #: ... and no more
    runs: int
    predictions: int  #: runs that were judged by those before them ...
    inside: int  #: ... and how many of them were inside the range


@dataclass(frozen=True, slots=True)
class ToLimit:
    """How many of the latest ``of`` starts ran until their limit, and used which share of CPUs."""

    runs: int
    of: int
    cpu_share: float | None = None  #: None: the accounting does not say


@dataclass(frozen=True, slots=True)
class NodePower:
    """Mean power in watts of each node in runs that had whole ones; fields as `ResourceUse`."""

    watts: float
    low: float
    high: float
    runs: int
    predictions: int
    inside: int


@dataclass(frozen=True, slots=True)
class Ending:
    """How many of an application's latest runs ended in one state of Slurm's."""

    state: str  #: such as ``TIMEOUT``
    runs: int
    longest_s: float = 0.0  #: of these runs
    exit_code: int | None = None  #: of most of them; None: not known


@dataclass(frozen=True, slots=True)
class Failures:
    """How many of an application's latest runs failed, and where the last of them wrote to."""

    runs: int  #: in a row, up to the newest one
    often: int  #: in a row or not ...
    of: int  #: ... of the latest ones
    low_s: float  #: the shortest of those that failed
    high_s: float  #: the longest of them
    exit_code: int | None  #: of most of them; None: not known
    job_id: int  #: of the last one that failed
    array_job_id: int | None = None
    array_task_id: int | None = None
    name: str = ""
    output: str = ""  #: file that its command line names, with Slurm's ``%j``; empty: none


@dataclass(frozen=True, slots=True)
class LimitReached:
    """Limit that ended the latest runs, one after the other, or many of those that had it."""

    state: str  #: ``TIMEOUT`` or ``OUT_OF_MEMORY``
    runs: int  #: that it ended in a row, up to the newest one
    limit: float  #: their time limit in seconds, or their memory of each node in bytes
    often: int = 0  #: runs that it ended, in a row or not ...
    of: int = 0  #: ... of the latest ones that had it


@dataclass(frozen=True, slots=True)
class Longest:
    """Longest run on ``nodes`` nodes, whether it completed or was stopped.

    ``cut_s``: the longest that its limit stopped, with few completed runs since; 0: there is none.
    """

    nodes: int
    time_s: float
    cut_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AskedRange:
    """Runs whose users asked for one range of counts, and so for one problem or the like."""

    low: int
    high: int
    level: int  #: count on which the table has their run time
    counts: tuple[int, ...]  #: that they had, rising
    tries: int = 0  #: how many of them were to learn
    memory: tuple[Memory, ...] = ()  #: highest of a node on each count, where it was measured


#: A hypothesis that is less likely than this is not considered.
UNDECIDED: Final = 0.05


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


#: Words by stable name; a name after a colon is a variant, of which only the words are another's.
WORDS: Final = {
    # What the observations show.
    "noisy_repeats": "runs on {nodes} nodes differ by {spread:.0%}: they may be of different "
    "problems, which a tag in the job's comment would separate",
    "drift": "run times {change} by {by:.0%} with the run of {when}; earlier runs are left out",
    "drift:scaled": "run times {change} by {by:.0%} with the run of {when}; on {stale} nodes none "
    "has finished since, so older times are scaled",
    "cut_short": "runs on {nodes} nodes were cut off, the longest after {limit}; a longer limit "
    "would show how long they take",
    "unbounded": "run time on {counts}: over {over} ({cut} of {starts} runs {how})",
    "cut_off": "{cut} of {starts} runs on {counts} {how}: it may take longer than predicted",
    "unfinished": "{which} of this command {what}",
    "pilot": "a pilot runs as long as it gets work: its run time says nothing of a longer or "
    "shorter limit",
    "session": "a session lasts as long as its user stays: its run time says nothing of a longer "
    "or shorter limit",
    "until_limit": "it runs until its limit: {runs} of the last {of} runs did{used}; a longer or "
    "shorter limit changes how long it runs, not what is left to do",
    "failed_steps": "steps of {failed} of the last {runs} completed runs failed or were cancelled: "
    "they may not have done their work",
    "record": "half of the last {predictions} predictions on node counts that {counts} were within "
    "{error:.0f} %, and {inside} inside their interval; a reliable prediction has half within 5 % "
    "and nine in ten within 20 %",
    # What the models of a curve show.
    "wide_interval": "{where} the prediction may be off by more than {off:.0f} %",
    "special_counts": "it runs well only on {family}; other node counts are left out",
    "declining_or_anomaly": "slower on {nodes} nodes than on fewer: the decline begins, or that "
    "run was unusual",
    "declining": "time rises again from {nodes} nodes on",
    "anomaly": "the run on {nodes} nodes does not fit those on fewer and more",
    "stepwise": "run time takes a step between {before} and {after} nodes",
    "high_fitting_error": "its curve is off by {error:.0%} from the runs on {nodes:.0f} nodes",
    "linear_section": "twice the nodes halve the run time on all counts that ran: where that ends "
    "is not known",
    "alternative_fit": "the runs do not show how far it scales: on {nodes} nodes it may take "
    "{shorter} or {longer}",
    "disagreement": "on {nodes} nodes the second model, ADEPT, predicts {other} instead of {own}",
    "two_sizes": "only {runs} run with this layout; the rest is predicted from other layouts",
    # Runs that are not one problem, or not the job's.
    "no_curve": "finished runs on {counts} only; a curve needs {least} node counts",
    "no_curve:moved": "only {runs} had another count than its job asked for: too few for a curve",
    "no_identity": "recognised by {by} only, which may stand for many applications",
    "not_one_problem": "several problems: runs on the same node count differ too much; "
    "'#SBATCH --comment=nimo:app={app},problem=INPUT' in the script, with another word for each "
    "input, separates them",
    "not_one_problem:two": "two kinds of runs: {few} of the last {runs} took about {short}, {many} "
    "about {long}; '#SBATCH --comment=nimo:app={app},problem=INPUT' in the script, with another "
    "word for each input, separates them",
    "several_problems": "several problems: run times differ by {names} (runs with {listed})",
    "layouts": "runs had {number} layouts ({listed}), each with its own curve",
    "undecided": "either jobs on more nodes had larger problems, or more nodes hardly help: the "
    "runs fit both, and one run of this very problem on {where} would tell",
    "no_size": "the job does not name {names}, by which run times go: all that ran count",
    "not_run": "no job asked for {where}: predicted from those on {near}",
    "other_layout": "all runs had {had}, this job has {asked}: their run times do not apply",
    "other_models": "another release of NIMO made its prediction, which is not used: 'nimo fit' "
    "makes it anew",
    "new_work_dir": "no earlier run of this command was in this directory: its input may be "
    "different",
    "edited_script": "the script was edited after its last run: it may take longer, or shorter",
    "new_input": "an input file was changed after the last run of this command had started",
    # Other types of nodes.
    "few_on_node_type": "{runs} on {node_type}; the rest is predicted {how}",
    "few_on_node_type:moved": "too few runs on {node_type}: runs on other node types count, "
    "scaled to it",
    "unseen_node_type": "no run on {node_type}: predicted {how}",
    # Transfers.
    "nothing_measured": "nothing was measured from {source} to {target}: let 'nimo lab probe' "
    "measure, or record past transfers",
    "no_transfer": "no transfer from {source} to {target} is recorded, and a small probe alone is "
    "often off by half: record one",
    "no_probe": "no recent probe from {source} to {target}: only past transfers say how fast it "
    "is; let 'nimo lab probe' measure",
    "other_sizes": "no transfer of about {megabytes:.3g} MB is recorded: those of other sizes may "
    "be faster or slower",
    "few_transfers": "{tried} past transfers were predicted to compare with; {enough} would do",
    "erratic": "past predictions were off by {error:.0%} on average",
}


def problem(name: str, observe: int | None = None, beyond: int = 0, /, **facts: Any) -> Problem:
    """Report a problem by its name, with what its words need.

    observe, beyond: as in `Problem`.
    """
    return Problem(name.partition(":")[0], WORDS[name].format(**facts), observe, beyond)
