"""Memory that a job asks for and its runs do not need: taken off step by step.

A job never gets less than its owner's runs ever needed times the margin, nor less than a share of
what such runs completed with last.  After a run ended for lack of memory, jobs keep what they ask
for until enough of them have completed again.
"""

from math import ceil, inf

from msgspec.structs import replace

from predictor.types import MemoryNeed
from sacct_ingest.runs.layout import Unit
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.context import DecisionContext
from slurm_plugin.decision.memory import LowerMemory, most_between
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.decision.sizes import nodes_of, resized, sizes_of
from slurm_plugin.protocol.request_messages import HookLevel, Job
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.footprint import Footprint, footprint

_MIB = 2**20
#: Share of the judged runs for which it has to have been enough.
_INSIDE = 0.9
#: A job that names no memory gets no less, MiB: the hook may not see what it would have.
_LEAST_MIB = 256
#: A job that would keep more than this share of its memory keeps all.
_WORTH = 0.95


def lower_memory(case: DecisionContext, decided: Decision, config: Config) -> LowerMemory | None:
    """Memory that a job gets instead of what it asks for; None: that stays."""
    part, need = case.partition, _need(case, config.sharing.own_runs)
    span = _sizes(case, decided)
    if part is None or need is None or span is None:
        return None
    job = _resized(case, span[1])
    taken = footprint(job, part)
    asked_mib = _asked_mib(job, taken, part)
    least = _least_bytes(need, span, config)
    if asked_mib is None or least is None:
        return None
    unasked = job.min_mem_per_node is None and not job.min_mem_per_cpu
    given_mib = max(
        ceil(least / _MIB),
        ceil(config.memory.least_share * asked_mib),
        _LEAST_MIB if unasked else 0,
    )
    per_cpu = ceil(given_mib / taken.cpus) if job.min_mem_per_cpu else None
    given_mib = per_cpu * taken.cpus if per_cpu else given_mib
    lower = (
        replace(job, min_mem_per_cpu=per_cpu)
        if per_cpu
        else replace(job, min_mem_per_node=given_mib)
    )
    # Where memory brings CPUs, less of it would be another size.
    if given_mib > _WORTH * asked_mib or footprint(lower, part).cpus != taken.cpus:
        return None
    return LowerMemory(given_mib, asked_mib, per_cpu)


def _need(case: DecisionContext, own_runs: int) -> MemoryNeed | None:
    """Give what the owner's runs needed, where that may change a job; others' runs do not count."""
    job, request, table = case.job, case.request, case.table
    if not request.lower_memory or request.distrusted or not job.script or job.mem_per_tres:
        return None
    if job.hook < HookLevel.SIZES:
        return None
    if table is None or table.is_guess or not job.user_name or table.owner != job.user_name:
        return None
    need = table.need
    if need is None or need.runs < own_runs or need.inside < _INSIDE * need.predictions:
        return None
    return need


def _sizes(case: DecisionContext, decided: Decision) -> tuple[int, int] | None:
    """Fewest and most nodes, CPUs or GPUs that the job may get; None: not known."""
    job, request = case.job, case.request
    if decided.action is Action.SET and decided.chosen:
        return decided.chosen.nodes, decided.chosen.nodes
    if request.unit is not Unit.NODES:
        own = sizes_of(job, case.partition)[request.unit]
        return (own, own) if own and nodes_of(job) == 1 else None
    if job.min_nodes is None and (job.num_tasks or 1) > 1:
        return None
    largest = case.partition.largest if case.partition else 0
    return request.low, max(min(request.high, largest), request.low)


def _resized(case: DecisionContext, size: int) -> Job:
    if case.request.unit is Unit.NODES or case.table is None:
        return replace(case.job, min_nodes=size, max_nodes=size)
    own = sizes_of(case.job, case.partition)[case.request.unit]
    return case.job if size == own else resized(case.job, case.table, size)


def _asked_mib(job: Job, taken: Footprint, part: Partition) -> int | None:
    """Memory of each node that the job asks for, or gets by default; None: it is to stay."""
    if taken.alone or not taken.mem_mib or job.min_mem_per_node == 0:
        return None
    if taken.mem_mib < inf:
        return int(taken.mem_mib)
    return part.node_mem_bytes // _MIB if part.node_mem_bytes else None


def _least_bytes(need: MemoryNeed, span: tuple[int, int], config: Config) -> float | None:
    """Least memory on any of these sizes; None: they were not run."""
    high, given = (most_between(one, *span) for one in (need.high, need.given))
    if high is None or given is None:
        return None
    return max(high * config.policy.memory_margin, given * config.memory.step)
