"""What an application's runs showed beside their run times: ends, limits, use, power."""

from dataclasses import dataclass

from sacct_ingest.runs.layout import Unit


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
    #: of their limit, which 19 of 20 starts used at least; those that ended early among them
    least_share: float = 0.0


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
class SeenNodes:
    """Nodes of a partition, as far as runs show them: each node may have more."""

    nodes: int  #: how many were seen
    settled: bool  #: runs name nodes, and their newer half no others than the older one
    cpus: int  #: most that a run had on a node
    gpus: int  #: likewise
