"""Which node counts a job may get, or why it keeps the count that it asks for."""

import re
from dataclasses import dataclass

from predictor.types import PredictionTable
from sacct_ingest.scripts.job_script import script_options
from sacct_ingest.scripts.script_sizes import fixed_sizes
from sacct_ingest.text.tag import Tag
from slurm_plugin.config.settings import OptIn
from slurm_plugin.decision.sizes import (
    fixed_by_script,
    offered_sizes,
    ranks_of_gpus,
    size_option_of,
)
from slurm_plugin.decision.task_layout import fixed_layout
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.request_messages import HookLevel, Job
from slurm_plugin.slurm.job_request import LEFT_ALONE

_EXPAND = re.compile(r"(?:^|[,?])expand:", re.IGNORECASE)
_MOST_DIGITS = 9  #: of a node count
#: What a list of node counts begins with; to read all options of each script takes longer.
_LISTED = re.compile(r"(?:N|-no[a-z]*)[ \t=]*[\"']*\d[\d\"'-]*[,:]")
_LEFT_ALONE = tuple((field, Reason[name]) for _, field, _, name in LEFT_ALONE)
UNBOUNDED = 2**31  #: most nodes of a request that names no most


@dataclass(frozen=True, slots=True)
class CountRange:
    """Node counts that a job may get; ``fixed`` says why it must not be changed."""

    low: int
    high: int
    fixed: Reason | None = None


def span_of(job: Job, tag: Tag | None, opt_in: OptIn, application: str) -> CountRange:
    """Node counts of a job as its user and the site want it.

    job: the request.
    tag: that of its comment.
    opt_in: the site's settings.
    application: name for the site's rules.
    """
    span = _asked(job, tag, opt_in, application)
    opted_out = Reason.OPTED_OUT if tag and tag.off else None
    fixed = opted_out or _placed(job) or span.fixed or fixed_layout(job) or _scripted(job)
    return CountRange(span.low, span.high, fixed)


def _scripted(job: Job) -> Reason | None:
    """Why a script runs on one node count alone: others would wait for each other for ever."""
    if "torchrun" not in job.script:
        return None
    return Reason.FIXED_BY_SCRIPT if "nodes" in fixed_sizes(job.script) else None


def size_span_of(
    job: Job, tag: Tag | None, opt_in: OptIn, application: str, table: PredictionTable
) -> CountRange:
    """Sizes of a job, in the unit of its table, as its user or the site wants them.

    0: only its own.
    """
    offered = offered_sizes(
        _ends(job, tag, opt_in, application, size_option_of(job, table).value), job, table
    )
    fixed = (Reason.OPTED_OUT if tag and tag.off else None) or _placed(job)
    if fixed is None and not job.script and job.hook < HookLevel.COMMANDS:
        fixed = Reason.INTERACTIVE
    if fixed is None and offered and job.hook < HookLevel.SIZES:
        fixed = Reason.OLD_HOOK
    if fixed is None and offered and ranks_of_gpus(job, table):
        fixed = Reason.FIXED_TASKS
    if fixed is None and offered and fixed_by_script(job, table):
        fixed = Reason.FIXED_BY_SCRIPT
    low, high = offered or (0, 0)
    return CountRange(low, high, fixed or (None if offered else Reason.FIXED_CPUS))


def _asked(job: Job, tag: Tag | None, opt_in: OptIn, application: str) -> CountRange:
    ends = _ends(job, tag, opt_in, application, "nodes")
    offered = CountRange(*ends) if ends else None
    if job.min_nodes is None and job.max_nodes is None:
        if offered is None:
            return CountRange(1, 1, fixed_layout(job) or Reason.NOT_OPTED_IN)
        return offered
    if job.min_nodes == 0 and not job.max_nodes:
        # It runs on no node at all, and only stages its burst buffer.
        return CountRange(1, 1, Reason.FIXED_COUNT)
    low, high = job.min_nodes or 1, job.max_nodes or UNBOUNDED
    if low == high:
        return CountRange(low, high, Reason.FIXED_COUNT)
    tagged = tag is not None and (tag.on or bool(tag.app)) and opt_in.tag
    chosen = opt_in.node_range or tagged or offered is not None
    return CountRange(low, high, None if chosen else Reason.NOT_OPTED_IN)


def _ends(
    job: Job, tag: Tag | None, opt_in: OptIn, application: str, size: str
) -> tuple[int, int] | None:
    """Fewest and most nodes, cpus, tasks or gpus: of the comment, or else of the site's rules."""
    own: tuple[int, int] | None = getattr(tag, size) if opt_in.tag and tag else None
    if own or (tag and tag.off):
        return own
    for rule in opt_in.rules:
        if (ends := rule.range(size)) and rule.holds(
            partition=job.partition,
            account=job.account,
            qos=job.qos,
            user=job.user_name,
            application=application,
        ):
            return ends
    return None


def _placed(job: Job) -> Reason | None:
    """Which other option of the job leaves no choice of nodes: a node list, an array, ..."""
    bound = (
        (job.het_job_offset is not None, Reason.HET),
        *((bool(getattr(job, field)), reason) for field, reason in _LEFT_ALONE),
        (_lists_sizes(job), Reason.NODE_SIZES),
        (bool(_EXPAND.search(job.dependency)), Reason.DEPENDENCY),
    )
    return next((reason for holds, reason in bound if holds), None)


def _lists_sizes(job: Job) -> bool:
    """Tell whether the job names several counts, of which slurmctld shows the hook the ends."""
    if job.node_sizes or job.min_nodes == job.max_nodes:
        return job.node_sizes
    # What the command line says goes before the script.
    listed = _LISTED.search(job.script)
    sizes = script_options(job.script).get("nodes") if listed else None
    return sizes is not None and _fewest(sizes) == job.min_nodes


def _fewest(sizes: str) -> int | None:
    """Smallest count of ``2,4,8`` or ``2-8:2`` (Slurm 23.02 and later); None for other texts."""
    if "," not in sizes and ":" not in sizes:
        return None
    counts = [part.partition(":")[0] for part in sizes.replace("-", ",").split(",")]
    if not all(count.isdecimal() and len(count) <= _MOST_DIGITS for count in counts):
        return None
    return min(map(int, counts))
