"""What a job asks for, resolved once: nothing that decides on it looks at the wire's job again."""

from collections.abc import Mapping
from math import inf
from operator import attrgetter

import msgspec

from sacct_ingest.runs.layout import Unit
from sacct_ingest.scripts.job_script import parse_script
from sacct_ingest.scripts.script_sizes import fixed_sizes, task_multiple
from sacct_ingest.text.tag import Tag
from slurm_plugin.config.setting_types import Objective, TimeUse
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.request_messages import AllocationRequest

_NOTHING: Mapping[str, str] = {}


class JobScript(msgspec.Struct, frozen=True):
    """Texts of a job that may say sizes themselves; they are read when somebody asks."""

    text: str = ""  #: of the batch script; empty: there is none
    input_text: str = ""  #: of input files that fix a number of tasks
    arguments: str = ""  #: of the script, with spaces between them

    def option(self, name: str) -> str:
        """Give what a ``#SBATCH`` line says of an option; empty: nothing."""
        return parse_script(self.text).options.get(name) or "" if self.text else ""

    def fixed_sizes(self) -> Mapping[str, str]:
        """Give the words that fix sizes; see `sacct_ingest.scripts.script_sizes.fixed_sizes`."""
        return fixed_sizes(self._whole) if self.text else _NOTHING

    def task_multiple(self) -> int:
        """Say what the number of tasks has to be a multiple of."""
        return task_multiple(self._whole, self.arguments) if self.text else 1

    @property
    def _whole(self) -> str:
        return f"{self.text}\n{self.input_text}" if self.input_text else self.text


class CountRequest(msgspec.Struct, frozen=True):
    """All of a request that its counts follow from: a small key of what is cached of them."""

    low: int  #: fewest nodes it may get
    high: int  #: most nodes
    segment: int = 1  #: node counts are multiples of it
    asked: int | None = None  #: what to compare with; None: what Slurm would give
    limit_s: float | None = None  #: the least that it may be cut down to; None: no limit
    asked_limit_s: float | None = None  #: its time limit before that
    least_s: float | None = None  #: its own ``--time-min``
    limit_raisable: bool = True  #: the user gave it; a default of the partition is not ours
    deadline_s: float | None = None  #: seconds since the epoch
    mem_node_bytes: int | None = None  #: memory it asks for on each node
    distrusted: Reason | None = None  #: why the prediction is only observed
    time_use: TimeUse = TimeUse.OFF  #: of a limit from the prediction
    with_least: bool = False  #: a ``--time-min`` may go with it
    counts: tuple[int, ...] = ()  #: that it may get, its own apart; none: all of the range

    @classmethod
    def of(cls, request: "CountRequest") -> "CountRequest":
        """Take it out of a whole request."""
        return request if type(request) is cls else cls(*_COUNTED(request))


_COUNTED = attrgetter(*CountRequest.__struct_fields__)


class Request(CountRequest, frozen=True, kw_only=True):
    """What a job asks for: sizes in one unit, times in seconds, and what may be changed."""

    #: what Slurm holds against the deadline; None: ``limit_s``
    deadline_limit_s: float | None = None
    begin_s: float = -inf  #: not before this, seconds since the epoch
    begin_given: bool = False  #: by its user, and not only by the jobs that it waits for
    awaited: tuple[int, ...] = ()  #: jobs that it waits for
    begin_known: bool = True  #: when these have ended is known
    #: when the last of its tasks may start that wait each for another one; -inf: with the first
    last_begin_s: float = -inf
    fixed: Reason | None = None  #: why its count must not be changed
    soft: bool = False  #: Slurm may plan with less than its time limit
    unit: Unit = Unit.NODES  #: of all counts
    lower_memory: bool = False  #: memory that its runs do not need may be taken off
    orders_places: bool = False  #: the faster of its partitions or constraints may be tried first
    advised: bool = False  #: before a deadline it gets the limit of the line to paste
    reopens: bool = False  #: nimod gives it its range back where it does not start as planned
    given: tuple[int, int] = (0, 0)  #: fewest and most nodes that its user gave; 0: none
    explore: bool = False  #: it may run on a count that was not tried
    proven: tuple[int, ...] = ()  #: counts that its user completed the same script on, too
    objective: Objective = Objective.TURNAROUND
    resources: AllocationRequest = AllocationRequest()  #: what Slurm allocates nodes by
    script: JobScript = JobScript()
    tag: Tag | None = None  #: of its comment
    tag_fault: str = ""  #: which word of it is not read
    array: str = ""  #: indexes of its tasks, as ``--array`` has them
    components: tuple[int, ...] = ()  #: fewest nodes of each one of a heterogeneous job
    hook: int = 0  #: what the hook that asks can write, one of `HookLevel`
    name: str = ""
    work_dir: str = ""
    inputs: str = ""  #: sizes of its input files
    script_bag: str = ""  #: words of its script
    deadline: str = ""  #: in its user's words, which mean another moment each time

    def least_limit_s(self, limit_s: float | None) -> float:
        """Least time in seconds that Slurm wants between start and deadline of a job.

        limit_s: its time limit; of the one that it asks for Slurm may take less.
        """
        if self.deadline_limit_s is not None and limit_s == self.limit_s:
            return self.deadline_limit_s
        return limit_s or 0.0

    def latest_start_s(self, limit_s: float | None) -> float:
        """Moment until which Slurm starts a job with this limit, seconds since the epoch.

        Later it ends the job without a run, or refuses it: ``deadline_ok`` in slurmctld, at each
        look at the queue, and from 24.11 on at submission.
        """
        return inf if self.deadline_s is None else self.deadline_s - self.least_limit_s(limit_s)
