"""Lever: less memory, where a job asks for more than its runs need.

Memory is taken off step by step.  A job never gets less than its owner's runs ever needed times the
margin, nor less than a share of what such runs completed with last.  After a run ended for lack of
memory, jobs keep what they ask for until enough of them have completed again.
"""

from dataclasses import dataclass
from math import ceil, inf

from msgspec.structs import replace

from predictor.memory import MemoryNeed
from sacct_ingest.runs.layout import Unit
from sacct_ingest.text.tag import Tag
from slurm_plugin.config.setting_types import MemoryUse, Mode
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.adjustment import Adjustment
from slurm_plugin.decision.levers.lever import Lever, Surroundings, TagWord
from slurm_plugin.decision.memory_need import most_between
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.sizes import nodes_of, resized
from slurm_plugin.protocol.decision_messages import Change
from slurm_plugin.protocol.request_messages import AllocationRequest, HookLevel
from slurm_plugin.slurm.footprint import footprint

_MIB = 2**20
#: Share of the judged runs for which it has to have been enough.
_INSIDE = 0.9
#: A job that names no memory gets no less, MiB: the hook may not see what it would have.
_LEAST_MIB = 256
#: A job that would keep more than this share of its memory keeps all.
_WORTH = 0.95


def _adjustment(case: Situation, decided: Decision, around: Surroundings) -> Adjustment | None:
    """Write less memory; what it would be is recorded in each mode."""
    memory = _lower(case, decided, around.config)
    if memory is None:
        return None
    recorded = {"given_mem_mib": memory.given_mib, "asked_mem_mib": memory.asked_mib}
    if case.site.mode is not Mode.ENFORCE:
        return Adjustment(recorded=recorded)
    return Adjustment(
        change=memory.change,
        line=f"this job has --mem={memory.given_mib}M instead of {memory.asked_mib}M",
        noted={"mem_mib": memory.given_mib},
        recorded=recorded,
    )


def _asked_in_vain(tag: Tag, case: Situation, decided: Decision) -> bool:
    lower = any("given_mem_mib" in adjustment.recorded for adjustment in decided.adjustments)
    return tag.mem == MemoryUse.AUTO and case.request.lower_memory and not lower


def _unmeasured(case: Situation, _: Decision) -> str:
    measured = case.table and case.table.need
    return "" if measured else "the accounting has no memory of its runs"


@dataclass(frozen=True, slots=True)
class _LowerMemory:
    """Memory of each node, MiB: what a job gets and what it asked for.

    ``per_cpu`` is what to write where the job asks by CPU; None: ``given_mib``.
    """

    given_mib: int
    asked_mib: int
    per_cpu: int | None = None

    @property
    def change(self) -> Change:
        if self.per_cpu is not None:
            return Change(min_mem_per_cpu=self.per_cpu)
        return Change(min_mem_per_node=self.given_mib)


def _lower(case: Situation, decided: Decision, config: Config) -> _LowerMemory | None:
    """Memory that a job gets instead of what it asks for; None: that stays."""
    part = case.partition
    need = _need(case, config.sharing.own_runs)
    span = _sizes(case, decided)
    if part is None or need is None or span is None:
        return None
    job = _of_size(case, span[1])
    taken = footprint(job, part)
    # As asked for, or by default.
    asked_mib = int(taken.mem_mib) if taken.mem_mib < inf else (part.node_mem_bytes or 0) // _MIB
    high, given = (most_between(one, *span) for one in (need.high, need.given))
    if taken.alone or job.min_mem_per_node == 0 or not asked_mib or high is None or given is None:
        return None
    least = max(high * config.policy.memory_margin, given * config.memory.step)
    unasked = job.min_mem_per_node is None and not job.min_mem_per_cpu
    given_mib = max(
        ceil(least / _MIB),
        ceil(config.memory.least_share * asked_mib),
        _LEAST_MIB if unasked else 0,
    )
    per_cpu = ceil(given_mib / taken.cpus) if job.min_mem_per_cpu else None
    given_mib = per_cpu * taken.cpus if per_cpu else given_mib
    lower = {"min_mem_per_cpu": per_cpu} if per_cpu else {"min_mem_per_node": given_mib}
    # Where memory brings CPUs, less of it would be another size.
    if given_mib > _WORTH * asked_mib or footprint(replace(job, **lower), part).cpus != taken.cpus:
        return None
    return _LowerMemory(given_mib, asked_mib, per_cpu)


def _need(case: Situation, own_runs: int) -> MemoryNeed | None:
    """Give what the owner's runs needed, where that may change a job; others' runs do not count."""
    request = case.request
    job = case.request.resources
    table = case.table
    if not request.lower_memory or request.distrusted or not request.script.text:
        return None
    if job.mem_per_tres or request.hook < HookLevel.SIZES:
        return None
    if table is None or table.is_guess or not job.user_name or table.owner != job.user_name:
        return None
    need = table.need
    if need is None or need.runs < own_runs or need.inside < _INSIDE * need.predictions:
        return None
    return need


def _sizes(case: Situation, decided: Decision) -> tuple[int, int] | None:
    """Fewest and most nodes, CPUs or GPUs that the job may get; None: not known."""
    request = case.request
    job = case.request.resources
    if decided.action is Action.SET and decided.chosen:
        return decided.chosen.nodes, decided.chosen.nodes
    if request.unit is not Unit.NODES:
        own = request.given[0]
        return (own, own) if own and nodes_of(job) == 1 else None
    if job.min_nodes is None and (job.num_tasks or 1) > 1:
        return None
    largest = case.partition.largest if case.partition else 0
    return request.low, max(min(request.high, largest), request.low)


def _of_size(case: Situation, size: int) -> AllocationRequest:
    job = case.request.resources
    if case.request.unit is Unit.NODES or case.table is None:
        return replace(job, min_nodes=size, max_nodes=size)
    return job if size == case.request.given[0] else resized(job, case.table, size)


_WORD = TagWord("mem=auto", "your own runs with their memory", _asked_in_vain, _unmeasured)
LEVER = Lever(_adjustment, _WORD)
