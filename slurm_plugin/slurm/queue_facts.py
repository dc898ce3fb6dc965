"""What the queue and the limits say of a job that waits: pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import inf

from sacct_ingest.text.durations import duration_text, slurm_time
from sacct_ingest.text.hostlist import expand
from slurm_plugin.slurm.cluster_state import RawJob, RawPartition, RawReservation, RawState
from slurm_plugin.slurm.limit_reasons import BindingLimit
from slurm_plugin.slurm.node_states import UNUSABLE
from slurm_plugin.slurm.pending_job import PendingJob
from slurm_plugin.slurm.startable import WAITS, waits_for_nodes
from slurm_plugin.text.formatting import short_clock

_SPARE_S = 60.0  #: that stay free before a reservation: Slurm looks at its queue now and then
#: Reasons that Slurm gives where nothing but a reservation keeps a job from its nodes.
_CLOSED = frozenset({"", "None", "Priority", "Resources", "ReqNodeNotAvail"})
_NEXT_WEEK_S = 6 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """What the queue and the limits say of a job that waits."""

    now_s: float
    private: bool = False  #: PrivateData hides others' jobs
    seen: bool = True  #: Slurm showed its queue
    ahead: int = 0  #: jobs that go before it
    ahead_node_hours: float = 0.0  #: that they ask for
    idle: int = 0  #: nodes of its partitions with no job
    idle_named: int = 0  #: the same of those that it names, if it names any
    nodes: int = 0  #: nodes of its partitions that are up
    #: by partitions and types of devices, as ``gpu:a100``: how many each node has that has any
    device_types: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    unusable: tuple[str, ...] = ()  #: nodes that it names and that are down or drained
    out_of_use: tuple[str, ...] = ()  #: nodes of its partitions that are
    partitions: Mapping[str, RawPartition] = field(default_factory=dict)
    closing: RawReservation | None = None  #: the next that its limit reaches into
    reserved: RawReservation | None = None  #: that it asks for
    licences: Mapping[str, int] = field(default_factory=dict)  #: how many there are
    licences_used: Mapping[str, int] = field(default_factory=dict)
    binding: BindingLimit | None = None
    limits_refused: str = ""  #: why limits are not known
    running_tasks: int = 0  #: of its array


def facts_of(raw: RawState, job: PendingJob, *, now_s: float, private: bool = False) -> QueueFacts:
    """Gather what Slurm's view of the queue says of a job."""
    partitions = {one.name: one for one in raw.partitions}
    members = [node for node in raw.nodes if not set(node.partitions).isdisjoint(job.partitions)]
    usable = [node for node in members if node.state.isdisjoint(UNUSABLE)]
    before = jobs_before(raw, job)
    names = frozenset(expand(job.node_list)) or {node.name for node in members}
    limit_s = job.limit_s or inf
    closing = [
        one
        for one in raw.reservations
        if now_s < one.start_s < now_s + limit_s
        and one.name != job.reservation
        and not names.isdisjoint(one.node_names)
    ]
    used: dict[str, int] = {}
    for one in raw.jobs:
        if one.state not in WAITS:
            for name, number in one.licences.items():
                used[name] = used.get(name, 0) + number
    named = names if job.node_list else frozenset()
    unusable = {one.name for one in members if one.name in named} - {one.name for one in usable}
    array = job.array_id or 0
    return QueueFacts(
        now_s=now_s,
        private=private,
        ahead=sum(one.jobs for one in before),
        ahead_node_hours=sum(one.jobs * one.nodes * (one.limit_s or 0.0) / 3600 for one in before),
        idle=sum(node.cpus_used == 0 for node in usable),
        idle_named=sum(node.cpus_used == 0 and node.name in names for node in usable),
        nodes=len(usable),
        device_types=_device_types(raw) if job.device_types else {},
        unusable=tuple(sorted(unusable)),
        out_of_use=tuple(one.name for one in members if not one.state.isdisjoint(UNUSABLE)),
        partitions=partitions,
        closing=min(closing, key=lambda one: one.start_s, default=None),
        reserved=next((one for one in raw.reservations if one.name == job.reservation), None),
        licences=raw.licences,
        licences_used=used,
        running_tasks=sum(
            bool(array) and one.array_id == array and one.state not in WAITS for one in raw.jobs
        ),
    )


def _device_types(raw: RawState) -> Mapping[str, Mapping[str, Sequence[int]]]:
    """List how many GPUs of each type the usable nodes of each partition have."""
    found: dict[str, dict[str, list[int]]] = {}
    for node in raw.nodes:
        if node.gpu_type and node.state.isdisjoint(UNUSABLE):
            for name in node.partitions:
                of_type = found.setdefault(name, {}).setdefault(f"gpu:{node.gpu_type}", [])
                of_type.append(node.gres["gpu"])
    return found


def jobs_before(raw: RawState, job: PendingJob) -> Sequence[RawJob]:
    """List the jobs for the same partitions that go first: by tier, priority, submission."""
    partitions = {one.name: one for one in raw.partitions}

    def tier(names: Sequence[str]) -> int:
        return max((partitions[name].tier for name in names if name in partitions), default=1)

    own = (-tier(job.partitions), -job.priority, job.submit_s, job.job_id)
    wanted = frozenset(job.partitions)
    return [
        one
        for one in raw.jobs
        if one.state in WAITS
        and waits_for_nodes(one.reason)
        and not wanted.isdisjoint(one.partitions)
        and (-tier(one.partitions), -one.priority, one.submit_s, one.job_id or 0) < own
    ]


def before_reservation(job: PendingJob, one: RawReservation) -> str:
    """Say that a time limit reaches into a reservation."""
    limit = duration_text(job.limit_s) if job.limit_s else "without an end"
    return (
        f"its time limit ({limit}) reaches into the {_kind(one)} {one.name}, which begins "
        f"{short_clock(one.start_s)}"
    )


def shorter_limit(job: PendingJob, facts: QueueFacts) -> str:
    """Name the limit with which a job would start before what is reserved."""
    closing = facts.closing
    by_closing = job.reason in _CLOSED and not ("UnavailableNodes" in job.detail or facts.ahead)
    if closing is None or not by_closing or facts.idle_named < job.nodes:
        return ""
    limit_s = (closing.start_s - facts.now_s - _SPARE_S) // 60 * 60
    if limit_s < max(job.least_s or 0.0, 60.0):
        return ""
    return f"with --time={slurm_time(limit_s)} it would start now, if it needs no longer"


def starts_after(facts: QueueFacts, start_s: float | None) -> str:
    """Say which reservation a start is behind; empty: none."""
    closing = facts.closing
    if closing is None or start_s is None or start_s < closing.end_s - _SPARE_S:
        return ""
    day = datetime.fromtimestamp(closing.start_s).astimezone().strftime("%A")
    near = closing.start_s - facts.now_s < _NEXT_WEEK_S
    when = f"{day}'s" if near else f"the {short_clock(closing.start_s)}"
    return f"{when} {_kind(closing)} {closing.name}"


def _kind(one: RawReservation) -> str:
    return "maintenance" if "MAINT" in one.flags else "reservation"
