"""One job request with all data on it at that moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import msgspec
from msgspec.structs import replace

from predictor.table import for_limit, for_type
from predictor.types import PredictionTable
from sacct_ingest.records import Identity
from sacct_ingest.runs.attributes import attributes
from sacct_ingest.runs.layout import Unit
from sacct_ingest.runs.sharing import SharedTag
from sacct_ingest.scripts.bounded_cache import bounded_cache
from sacct_ingest.scripts.job_script import parse_script
from sacct_ingest.scripts.signature import words_of_request
from sacct_ingest.text.tag import Tag
from sacct_ingest.text.time_spec import parse_time
from slurm_plugin.config.setting_types import MemoryUse, TimeUse, Trust
from slurm_plugin.config.settings import JobSettings
from slurm_plugin.decision.candidates import Request
from slurm_plugin.decision.eligibility import CountRange
from slurm_plugin.decision.sizes import segment_of
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.footprint import memory_bytes


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """Where a job may run: nodes of one type, and the partition that has them, if there is one."""

    node_type: str
    partition: str = ""


class DecisionContext(msgspec.Struct, frozen=True):
    """A job with all data on it at the moment of its submission."""

    job: Job
    identity: Identity
    site: JobSettings
    request: Request
    table: PredictionTable | None
    partition: Partition | None  #: None: unknown, or several
    now_s: float
    node_type: str = ""  #: of the nodes it may get; empty: unknown, or they differ
    unready: bool = False  #: its nodes are not counted yet, so that the partition is left out
    sized: Partition | None = None  #: the partition in the unit of the table, where that is no node

    @property
    def place(self) -> Partition | None:
        """The partition, counted as the request is."""
        return self.partition if self.request.unit is Unit.NODES else self.sized

    def on(self, node_type: str) -> "DecisionContext":
        """Give the same job on nodes of this type."""
        table = self.table
        if table is None or not (table.by_type or table.at_limits):
            return replace(self, node_type=node_type) if node_type else self
        table = for_limit(for_type(table, node_type), self.request.limit_s)
        return replace(self, table=table, node_type=node_type)


def shared_by(tags: Sequence[SharedTag], identity: Identity, account: str) -> dict[str, SharedTag]:
    """Tags that the user of a job shares with others, by their key.

    account: the job's, as the accounting has it.
    """
    application = identity.application
    if not application:
        return {}
    return {
        one.key(application): one
        for one in tags
        if one.covers(application) and one.admits(identity.user, account)
    }


def distrust(
    table: PredictionTable | None,
    site: JobSettings,
    *,
    user: str,
    shared: Mapping[str, SharedTag],
    own_runs: int,
    off: bool,
) -> Reason | None:
    """Say why a prediction is only observed: not the user's own, of few runs, or often wrong.

    shared: what `shared_by` gives for the job.
    own_runs: fewer finished runs change nothing.
    off: whether what came of it switched it off.
    """
    if site.trust is Trust.OFF:
        return Reason.DISTRUSTED
    if table is None:
        return None
    decides = table.key in shared and shared[table.key].decide
    if not (decides or (user and table.owner == user)):
        return Reason.OTHERS_RUNS
    if table.runs < own_runs:
        return Reason.FEW_OWN_RUNS
    return Reason.OUT_OF_BAND if off and site.trust is Trust.AUTO else None


def application_of(job: Job, identity: Identity) -> str:
    """Name of the application for the site's rules: its tag, else the job's name."""
    return identity.application or job.name


def attributes_of(
    job: Job, partition: Partition | None, script: str, account: str
) -> dict[str, str]:
    """Give the attributes of a request by name, as its run will have them in the accounting.

    partition: whose default limit and memory hold where the job gives none.
    script: key of its script.
    """
    return attributes(
        words_of_request(job.script, job.argv, job.work_dir),
        account=account,
        limit_s=_limit_s(job, partition),
        mem_node_bytes=memory_bytes(job, partition),
        work_dir=job.work_dir,
        script=script,
    )


def _limit_s(job: Job, partition: Partition | None) -> float | None:
    default = (partition.default_time_s or partition.max_time_s) if partition else None
    return 60.0 * job.time_limit if job.time_limit else default


def request_of(
    job: Job,
    tag: Tag | None,
    span: CountRange,
    partition: Partition | None,
    *,
    time_use: TimeUse,
    now_s: float,
    distrusted: Reason | None = None,
) -> Request:
    """Put into a request what a job asks for, its deadline and time limit in seconds.

    tag: that of its comment.
    span: node counts that it may get.
    partition: whose default limit holds where the job gives none.
    time_use: what the site wants of its time limit; the job's comment may ask for less or more.
    now_s: time that relative deadlines count from, seconds since the epoch.
    distrusted: why the prediction is only observed.
    """
    deadline_s, fixed = None, span.fixed
    try:
        deadline_s = deadline_of(job, now_s=now_s)
    except ValueError:
        fixed = fixed or Reason.DEADLINE_UNREADABLE
    limit_s = _limit_s(job, partition)
    least_s = 60.0 * job.time_min if job.time_min else None
    return Request(
        low=span.low,
        high=span.high,
        segment=segment_of(job),
        limit_s=least_s or limit_s,  # backfill may shorten a job down to time_min
        asked_limit_s=limit_s,
        least_s=least_s,
        limit_raisable=job.time_min is None and job.time_limit is not None,
        deadline_s=deadline_s,
        begin_s=job.begin_time if job.begin_time else -inf,
        mem_node_bytes=memory_bytes(job, partition),
        fixed=fixed,
        distrusted=distrusted,
        time_use=time_use_of(job, tag, fixed, time_use),
    )


#: Requests whose jobs are not what the prediction is about, or that are to be left alone.
_UNTIMED = frozenset({Reason.OPTED_OUT, Reason.HET})


def lowers_memory(tag: Tag | None, fixed: Reason | None, use: MemoryUse) -> bool:
    """Whether memory that its runs do not need may be taken off a job.

    use: what the site wants.
    """
    word = tag.mem if tag else ""
    if fixed in _UNTIMED:
        return False
    if use is MemoryUse.AUTO:
        return word != MemoryUse.OFF
    return use is MemoryUse.TAG and word == MemoryUse.AUTO


def time_use_of(
    job: Job, tag: Tag | None, fixed: Reason | None, site: TimeUse, *, sized: bool = False
) -> TimeUse:
    """Say how the time limit is used; not at all where the job's size is unknown.

    sized: its size is not a node count.
    """
    if fixed in _UNTIMED:
        return TimeUse.OFF
    counted = sized or job.min_nodes is not None or max(job.num_tasks or 1, job.min_cpus or 1) == 1
    if fixed is not None and not counted:
        return TimeUse.OFF
    return next((use for use in TimeUse if tag and use.value == tag.time), site)


def deadline_of(job: Job, *, now_s: float) -> float | None:
    """Deadline of a job; that of its script where the hook could not see the option.

    Raises ValueError: it cannot be read.
    """
    text = job.deadline
    if not text and "deadline" in job.script:
        text = _script_deadline(job.script)
    return parse_time(text, now_s=now_s) if text else None


@bounded_cache(entries=256, characters=16_384)
def _script_deadline(script: str) -> str:
    return parse_script(script).options.get("deadline") or ""
