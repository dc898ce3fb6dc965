"""What nimod answers to ``nimo-advise``: one row for each node count.

Dataclasses, apart from the other messages: to load msgspec takes three times as long as to start
Python, and ``nimo-advise`` needs no more than these.
"""

from __future__ import annotations  # `_value` reads them as texts

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from sacct_ingest.runs.layout import Unit
from slurm_plugin.protocol.version import VERSION
from slurm_plugin.protocol.wait_shares import WaitShares

SURE = 0.95  #: chance of what is said to be at most
#: Comment of a request that only asks Slurm when it would start (``sbatch --test-only``).
ESTIMATE_COMMENT = "nimo:estimate"
_KINDS: dict[str, type | tuple[type, ...]] = {
    "bool": bool,
    "float": (int, float),
    "int": int,
    "None": type(None),
    "str": str,
}


@dataclass(slots=True, kw_only=True)
class Row:
    """One node count of an advice."""

    nodes: int
    time_s: float  #: where it is ``unbounded`` half of the runs take so long or longer
    low_s: float
    high_s: float | None  #: None: it is unbounded
    speedup: float | None  #: against the fewest nodes of the table's observations; None: a guess
    efficiency: float | None
    node_hours: float
    wait_s: float | None = None  #: median
    slurm_wait_s: float | None = None  #: what ``sbatch --test-only`` says
    observed: bool = False
    recommended: bool = False
    meets_deadline: bool | None = None
    limit_s: float | None = (
        None  #: time limit to ask for, whole minutes; None: none is, see ``keeps_limit``
    )
    time_min_s: float | None = None  #: ``--time-min`` to go with it
    keeps_limit: bool = False  #: the limit that is asked for does, and no better one is known
    wait_low_s: float | None = None  #: nine in ten wait so long at least ...
    wait_high_s: float | None = None  #: ... and at most; None: it follows from time limits
    end_s: float | None = None  #: seconds from now on, as for the wait
    end_low_s: float | None = None
    end_high_s: float | None = None
    chance: float | None = None  #: of making the deadline
    #: chance that it ends no later than what was asked for; None: no run supports one
    no_later: float | None = None
    later_s: float | None = None  #: seconds that it ends later than that at most, `SURE` so
    wait_bound: bool = False  #: the wait is by other jobs' time limits: at most so long
    kwh: float | None = None  #: None: unknown
    kwh_low: float | None = None  #: None: by nameplate
    kwh_high: float | None = None
    cost: float | None = None  #: in the site's currency
    co2_g: float | None = None  #: CO2e in grams
    front: bool = False  #: no other row ends sooner and takes less money, or node time, than this
    #: so many runs were cut off that there is no median and no upper end
    unbounded: bool = False


@dataclass(slots=True, kw_only=True)
class PartitionRow:
    """What would come of a job in one place, on the node count that is best there."""

    partition: str  #: empty: no partition has nodes of this type alone
    cluster: str = ""  #: empty: none but the own one is compared
    constraint: str = ""  #: that asks for these nodes of the partition; empty: none
    gpu_type: str = ""  #: empty: of any, or the job's own
    node_type: str = ""
    nodes: int | None = None  #: None: nothing is recommended there, ``reason`` says why
    time_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    wait_s: float | None = None
    end_s: float | None = None  #: seconds from now on, median ...
    end_low_s: float | None = None  #: ... nine in ten end so late at least ...
    end_high_s: float | None = None  #: ... and at most
    node_hours: float | None = None  #: in the advice's unit
    cost: float | None = None
    kwh: float | None = None
    verdict: str = ""
    runs: int = 0  #: finished on nodes of this type
    own: bool = False  #: the job as it is asked for may run there
    recommended: bool = False
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class LayoutRow:
    """The job laid out in one way, on a size that all of them have."""

    layout: str  #: in words: ``4 tasks on each node``
    options: str  #: of sbatch
    size: int  #: in the advice's unit
    time_s: float
    low_s: float
    high_s: float
    size_hours: float  #: node-hours, CPU-hours or GPU-hours
    verdict: str
    own: bool = False  #: it is the job's


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualRequest:
    """What an application's usual job asks for, and what it has with the advised lines in it."""

    options: str  #: of sbatch, as such jobs ask for now
    nodes: int | None = None  #: with the lines; None: as many as its tasks happen to get
    cpus: int | None = None  #: in all, with the lines; None: not known
    limit_s: float | None = None  #: with the lines; None: none is known


@dataclass(frozen=True, slots=True)
class ObservedPoint:
    """One observation of an advice, as `predictor.types.Point`, which takes long to load."""

    nodes: int
    time_s: float
    repeats: int = 1
    spread: float = 0.0


@dataclass(slots=True, kw_only=True)
class Advice:
    """Nimod's answer to ``advise``."""

    v: int = VERSION
    ok: bool = True
    cluster: str = ""
    application: str = ""
    unit: Unit = Unit.NODES  #: what the rows' ``nodes`` and ``node_hours`` count
    key_level: str = ""
    verdict: str = ""  #: reliable, doubtful, refused, or unknown
    verdict_text: str = ""  #: a sentence
    problems: list[str] = field(default_factory=list)  #: why it is no better, a sentence each
    largest: int | None = None  #: most nodes that such a job can get; None: unknown
    until_limit: bool = False  #: its times are those of its limit: it runs until then
    guess: bool = False  #: made of the user's jobs, whatever they ran
    confidence: float = 0.0
    runs: int = 0
    rows: list[Row] = field(default_factory=list)
    nodes: int | None = None  #: the recommended count
    #: of a heterogeneous job, which has no such count, the fewest nodes of each component
    components: list[int] = field(default_factory=list)
    directive: str = ""  #: ``#SBATCH --nodes=4``
    memory_directive: str = ""  #: ``#SBATCH --mem=5300M``; empty: what the job asks for will do
    #: what sbatch will do with the job as it is, where that is not what is recommended
    submit_text: str = ""
    size_text: str = ""  #: what the recommended size is made of, and when an array ends
    script_text: str = ""  #: what the script fixes itself, in plain words; empty: nothing
    job_text: str = ""  #: in what it differs from the runs, in plain words; empty: in nothing
    awaited_text: str = ""  #: jobs that it waits for, and when these end; empty: none
    time_directive: str = ""  #: ``#SBATCH --time=00:20:00 --time-min=00:15:00``
    time_text: str = ""  #: how sure that limit is, and what keeps it from being shorter
    reason: str = ""
    asked: int | None = None  #: the count that rows are compared with: what the job would get
    #: where no row is of the count that the job would get: the row nearest to it, and that count
    nearest: int | None = None
    uncovered: int | None = None
    observe: int | None = None  #: node count where one more run would help most
    points: list[ObservedPoint] = field(default_factory=list)  #: what was observed
    knee: int | None = None  #: processor working set, argmax S²/n
    deadline_s: float | None = None
    meets_deadline: bool | None = None
    deadline_text: str = ""  #: in plain words; empty: there is none, or nothing to say
    failure_text: str = ""  #: how many of the last runs failed, and where to look; empty: few did
    limit_text: str = ""  #: what ended the last runs too early, in plain words; empty: nothing
    comment_text: str = ""  #: what its tag has that is not read, in plain words; empty: nothing
    energy_text: str = ""  #: what kWh rest on, in plain words; empty: unknown
    currency: str = ""
    begin_text: str = ""  #: when a run would emit less, in plain words; empty: no better time known
    begin_directive: str = ""  #: ``#SBATCH --begin=2026-10-01T22:00:00``
    sure: float = 0.0  #: required chance to make a deadline
    cheapest_sure: int | None = None  #: node count that has it with the fewest node-hours
    waits: WaitShares | None = None  #: how near waits like the recommended one came
    partition: str = ""  #: that all this is about, where nodes differ in type
    node_type: str = ""
    place_text: str = ""  #: what another place gives; empty: nothing to speak of
    #: side by side, where the job may use several
    partitions: list[PartitionRow] = field(default_factory=list)
    layouts: list[LayoutRow] = field(default_factory=list)  #: laid out otherwise, side by side
    usual: UsualRequest | None = None  #: where an application was named, and no job
    error: str = ""


def read_advice(given: object) -> Advice:
    """Make an advice of nimod's decoded answer.  Fields that are new to this release are left out.

    Raises ValueError: it is no advice.
    """
    return _message(Advice, given)


_Message = TypeVar("_Message")
_MESSAGES = {
    one.__name__: one
    for one in (Row, PartitionRow, LayoutRow, UsualRequest, ObservedPoint, WaitShares)
}


def _message(kind: type[_Message], given: object) -> _Message:
    if not isinstance(given, dict):
        raise ValueError(f"{given!r} is no {kind.__name__}")  # noqa: TRY004 - of the data, not a call
    values = {}
    for one in fields(kind):  # type: ignore[arg-type]
        if one.name in given:
            values[one.name] = _value(str(one.type), given[one.name])
        elif one.default is MISSING and one.default_factory is MISSING:
            raise ValueError(f"{kind.__name__} has no {one.name}")
    return kind(**values)


def _value(kind: str, given: object) -> Any:
    """Value of a field whose annotation is ``kind``."""
    if kind.startswith("list["):
        if not isinstance(given, list):
            raise ValueError(f"{given!r} is no list")
        return [_value(kind[5:-1], one) for one in given]
    for word in kind.split(" | "):
        if word == "Unit":
            return Unit(str(given))
        if word in _MESSAGES:
            if given is not None:
                return _message(_MESSAGES[word], given)
        elif isinstance(given, _KINDS[word]):
            return given
    raise ValueError(f"{given!r} is no {kind}")
