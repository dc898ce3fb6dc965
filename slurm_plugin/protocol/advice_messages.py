"""What nimod answers to ``nimo-advise``: one row for each node count."""

import msgspec

from sacct_ingest.layout import Unit
from slurm_plugin.protocol.lines import version


class Row(msgspec.Struct, kw_only=True):
    """One node count of an advice."""

    nodes: int
    time_s: float
    low_s: float
    high_s: float
    speedup: float | None  #: against the fewest nodes of the table's observations; None: a guess
    efficiency: float | None
    node_hours: float
    wait_s: float | None = None  #: median
    slurm_wait_s: float | None = None  #: what ``sbatch --test-only`` says
    observed: bool = False
    recommended: bool = False
    meets_deadline: bool | None = None
    limit_s: float | None = None  #: time limit to ask for, whole minutes; None: keep one's own
    time_min_s: float | None = None  #: ``--time-min`` to go with it
    wait_low_s: float | None = None  #: nine in ten wait so long at least ...
    wait_high_s: float | None = None  #: ... and at most; None: it follows from time limits
    end_s: float | None = None  #: seconds from now on, as for the wait
    end_low_s: float | None = None
    end_high_s: float | None = None
    chance: float | None = None  #: of making the deadline


class PartitionRow(msgspec.Struct, kw_only=True):
    """What would come of a job in one partition, on the node count that is best there."""

    partition: str  #: empty: no partition has nodes of this type alone
    node_type: str = ""
    nodes: int | None = None  #: None: nothing is recommended there, ``reason`` says why
    time_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    wait_s: float | None = None
    verdict: str = ""
    runs: int = 0  #: finished on nodes of this type
    recommended: bool = False
    reason: str = ""


class ObservedPoint(msgspec.Struct, frozen=True):
    """One observation of an advice, as `predictor.types.Point`, which takes long to load."""

    nodes: int
    time_s: float
    repeats: int = 1
    spread: float = 0.0


class WaitShares(msgspec.Struct, frozen=True, kw_only=True):
    """How near one kind of predicted waits came."""

    jobs: int
    #: most by which the wait of four in five of them differed, within half a percent
    within_s: float
    later: float  #: share that started more than a minute later than predicted


class Advice(msgspec.Struct, kw_only=True):
    """Nimod's answer to ``advise``."""

    v: int = msgspec.field(default_factory=version)
    ok: bool = True
    application: str = ""
    unit: Unit = Unit.NODES  #: what the rows' ``nodes`` and ``node_hours`` count
    key_level: str = ""
    verdict: str = ""  #: reliable, doubtful, refused, or unknown
    verdict_text: str = ""  #: in plain words, with what would improve it
    largest: int | None = None  #: most nodes that such a job can get; None: unknown
    guess: bool = False  #: made of the user's jobs, whatever they ran
    confidence: float = 0.0
    runs: int = 0
    rows: list[Row] = []
    nodes: int | None = None  #: the recommended count
    directive: str = ""  #: ``#SBATCH --nodes=4``
    memory_directive: str = ""  #: ``#SBATCH --mem=5300M``; empty: what the job asks for will do
    script_text: str = ""  #: what the script fixes itself, in plain words; empty: nothing
    time_directive: str = ""  #: ``#SBATCH --time=00:20:00 --time-min=00:15:00``
    reason: str = ""
    observe: int | None = None  #: node count where one more run would help most
    points: list[ObservedPoint] = []  #: what was observed
    knee: int | None = None  #: processor working set, argmax S²/n
    deadline_s: float | None = None
    meets_deadline: bool | None = None
    deadline_text: str = ""  #: in plain words; empty: there is none, or nothing to say
    sure: float = 0.0  #: required chance to make a deadline
    cheapest_sure: int | None = None  #: node count that has it with the fewest node-hours
    waits: WaitShares | None = None  #: how near waits like the recommended one came
    partition: str = ""  #: that all this is about, where nodes differ in type
    node_type: str = ""
    partitions: list[PartitionRow] = []  #: side by side, where the job may use several
    error: str = ""
