"""What would start a job sooner that waits: changes that its own user may make in the queue: pure.

Users may shorten a limit, lower node count and memory, and name another type of GPU, partition, QOS
or account of theirs; whether nodes are shared only operators change (src/slurmctld/job_mgr.c,
`_update_job`, of 22.05 and 26.05).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf

from sacct_ingest.text.durations import duration_text, slurm_time
from slurm_plugin.slurm.cluster_state import RawPartition
from slurm_plugin.slurm.job_edit import Edit
from slurm_plugin.slurm.limit_reasons import (
    BindingLimit,
    LimitReason,
    Measure,
    Scope,
    limit_reason,
    need_of,
)
from slurm_plugin.slurm.pending_job import PendingJob
from slurm_plugin.slurm.queue_facts import QueueFacts
from slurm_plugin.slurm.start_plan import StartPlan
from slurm_plugin.text.formatting import count

#: Seconds of a hole that stay free: Slurm looks at its queue every half minute.
_SPARE_S = 60.0
#: Shares of a job's memory that are tried, and the least share of its limit that is offered.
_LESS_MEMORY, _LEAST_LIMIT = (0.75, 0.5, 0.25), 0.1
#: What a shorter limit costs.
_NO_LONGER = "if it needs no longer"
_NO_MORE = "if it needs no more"
_LONGER = "it may take longer on fewer"
_OTHER_DEVICES = "if it runs on them, too"
_RELEASED = frozenset({
    "JobHeldUser", "JobHoldMaxRequeue", "JobLaunchFailure", "NonZeroExitCode", "RaisedSignal",
})  # fmt: skip
_PARTITION = frozenset({
    "PartitionNodeLimit", "PartitionTimeLimit", "PartitionDown", "PartitionInactive",
    "PartitionConfig", "AccountNotAllowed", "QOSNotAllowed",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAccess:
    """What a user may name instead."""

    qos: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    changes_devices: bool = True  #: Slurm changes types of devices in the queue
    priorities: Mapping[str, int] = field(default_factory=dict)  #: of the job in each of these QOS
    #: the limit that would hold the job, changed so; None: none
    binding: Callable[[PendingJob], BindingLimit | None] = lambda _: None


def qos_priorities(
    job: PendingJob, names: Iterable[str], listed: str, weight: float
) -> dict[str, int]:
    """Give a job's priority in other QOS, by Slurm's weight and the largest priority of a QOS.

    listed: ``sacctmgr -nP show qos format=Name,Priority``.
    """
    rows = (line.partition("|") for line in listed.splitlines())
    own = {name: int(number) for name, _, number in rows if number.isdecimal()}
    most = max(own.values(), default=0)
    if not most:
        return {}
    each = weight / most
    before = own.get(job.qos, 0)
    return {
        name: job.priority + round(each * (own[name] - before)) for name in names if name in own
    }


def edits_of(
    job: PendingJob,
    facts: QueueFacts,
    plan: StartPlan | None,
    access: OwnAccess,
    *,
    predicted_s: float | None = None,
) -> list[Edit]:
    """List changes that would start a job sooner, by the limits of all others.

    plan: None: the queue is not known.
    predicted_s: the longest run time to be expected; None: none is reliably predicted.
    """
    found = [
        *_ways_out(job, facts, access),
        *(_sooner(job, facts, plan, access, predicted_s) if plan else ()),
    ]
    now_s = _as_it_is(job, facts, plan)
    planned = [_planned(one, plan, now_s) for one in found]
    # The same change may follow from reason and queue.
    distinct = {tuple(one.fields.items()) or one.what: one for one in reversed(planned)}
    return list(reversed(distinct.values()))


def _as_it_is(job: PendingJob, facts: QueueFacts, plan: StartPlan | None) -> float | None:
    """Give when a job starts that is not changed; None: not known, or never."""
    if job.reason == "BeginTime":
        return job.eligible_s
    return plan.start_s(job) if plan is not None and waits_for_turn(job, facts) else None


def _planned(edit: Edit, plan: StartPlan | None, now_s: float | None) -> Edit:
    """Say when a changed job would start, and how much sooner that is."""
    # Nodes of a reservation are not in the plan, nor when jobs end that Slurm hides.
    if plan is None or edit.job.reservation or (start_s := plan.start_s(edit.job)) == inf:
        return edit
    gain_s = None if now_s is None or not now_s < inf else now_s - start_s
    return replace(edit, start_s=start_s, gain_s=gain_s)


def _ways_out(job: PendingJob, facts: QueueFacts, access: OwnAccess) -> Iterator[Edit]:
    """Give changes that take away what holds a job."""
    limit = limit_reason(job.reason)
    if limit is not None:
        yield from _within_limit(job, limit, facts)
        yield from _elsewhere(job, limit, access)
    elif job.reason in _RELEASED:
        yield Edit(release=True, what="released", job=job)
    elif job.reason == "DependencyNeverSatisfied":
        yield Edit(
            fields={"Dependency": ""},
            what="without its dependency",
            caution="if it can run without what failed",
            job=replace(job, depends=()),
        )
    elif job.reason == "BeginTime":
        begun = replace(job, reason="", eligible_s=facts.now_s)
        yield Edit(fields={"StartTime": "now"}, what="without --begin", job=begun)
    elif job.reason == "JobArrayTaskLimit":
        free = replace(job, reason="", throttle=None)
        yield Edit(
            fields={"ArrayTaskThrottle": "0"}, what="without the array's own limit", job=free
        )
    elif job.reason in ("Reservation", "ReservationDeleted", "ReservationInvalid"):
        yield Edit(
            fields={"Reservation": ""},
            what="without its reservation",
            job=replace(job, reservation=""),
        )
    elif job.reason in ("ReqNodeNotAvail", "NodeDown") and job.node_list:
        yield Edit(fields={"ReqNodeList": ""}, what="on any nodes", job=replace(job, node_list=""))
    elif job.reason in _PARTITION:
        yield from _within_partition(job, facts)
        yield from _partitions(job, facts)
    elif job.reason == "MaxMemPerLimit":
        yield from _within_memory(job, facts)


def _within_limit(job: PendingJob, limit: LimitReason, facts: QueueFacts) -> Iterator[Edit]:
    """Ask for what a limit leaves."""
    one = facts.binding
    if one is None or limit.scope is Scope.LEAST:
        return
    left = one.limit - (one.used or 0.0)
    if limit.resource == "wall" and limit.scope is Scope.JOB:
        yield shorter(job, one.limit * 60)
    elif limit.measure is not Measure.AMOUNT:
        amount = need_of(job, one.resource)
        if amount and left / amount >= 1:
            yield shorter(job, floor(left / amount) * 60)
    elif limit.scope is Scope.NODE:
        return
    elif one.resource == "node" and left >= 1:
        yield on_nodes(job, floor(left))
    elif one.resource == "mem" and job.mem_node_mib and left >= job.nodes:
        yield with_memory(job, floor(left / job.nodes))


def _elsewhere(job: PendingJob, limit: LimitReason, access: OwnAccess) -> Iterator[Edit]:
    """Name another QOS or account of the user's that has no such limit, or room."""
    if limit.owner == "QOS":
        others = ((f"in QOS {one}", {"QOS": one}, replace(job, qos=one)) for one in access.qos)
    else:
        others = (
            (f"in account {one}", {"Account": one}, replace(job, account=one))
            for one in access.accounts
        )
    for what, words, made in others:
        if made in (job,):
            continue
        one = access.binding(made)
        if one is None or _has_room(one, made):
            yield Edit(fields=words, what=what, job=replace(made, reason=""))


def _has_room(one: BindingLimit, job: PendingJob) -> bool:
    if one.reason.scope is Scope.LEAST:
        return need_of(job, one.resource) >= one.limit
    if one.reason.resource == "wall":
        return one.reason.scope is Scope.JOB and (job.limit_s or inf) <= 60 * one.limit
    amount = need_of(job, one.resource) if one.resource else 1.0
    if one.reason.measure is not Measure.AMOUNT:
        amount *= (job.limit_s or 0.0) / 60
    return (one.used or 0.0) + amount <= one.limit


def _within_partition(job: PendingJob, facts: QueueFacts) -> Iterator[Edit]:
    """Ask for what the job's partition allows."""
    for name in job.partitions:
        one = facts.partitions.get(name)
        if one is None or not one.up:
            continue
        made = job
        most = min(one.max_nodes or inf, facts.nodes or inf)
        if job.reason == "PartitionNodeLimit" and job.nodes > most:
            edit = on_nodes(job, int(most))
        elif job.reason == "PartitionNodeLimit" and job.nodes < one.min_nodes:
            edit = on_nodes(job, one.min_nodes)
        elif job.reason == "PartitionTimeLimit" and one.max_time_s:
            edit = shorter(made, one.max_time_s)
        else:
            continue
        yield edit


def _within_memory(job: PendingJob, facts: QueueFacts) -> Iterator[Edit]:
    for name in job.partitions:
        one = facts.partitions.get(name)
        if one is not None and job.mem_node_mib and one.max_mem_node_mib:
            yield with_memory(job, one.max_mem_node_mib)
        elif one is not None and job.mem_cpu_mib and one.max_mem_cpu_mib:
            yield with_memory(job, one.max_mem_cpu_mib)


def _partitions(job: PendingJob, facts: QueueFacts) -> Iterator[Edit]:
    """Name another partition whose own limits take the job."""
    for name, one in facts.partitions.items():
        if name not in job.partitions and takes(one, job):
            yield in_partition(job, name)


def takes(one: RawPartition, job: PendingJob) -> bool:
    """Whether a partition takes such a job, by its own limits."""
    return (
        one.up
        and one.admits(job.account, job.qos)
        and one.min_nodes <= job.nodes <= (one.max_nodes or inf)
        and (job.limit_s or inf) <= (one.max_time_s or inf)
    )


def _sooner(
    job: PendingJob,
    facts: QueueFacts,
    plan: StartPlan,
    access: OwnAccess,
    predicted_s: float | None,
) -> Iterator[Edit]:
    """Give changes with which the queue lets a job start sooner."""
    if not waits_for_turn(job, facts):
        return
    found = (
        *_sooner_qos(job, access),
        *_holes(job, plan, plan.start_s(job), predicted_s),
        *_fewer(job, plan),
        *_partitions(job, facts),
        *_other_nodes(job),
        *_other_devices(job, facts, access),
        *_less_memory(job),
        *_shared(job),
    )
    yield from (replace(edit, passes=True) for edit in found)


def waits_for_turn(job: PendingJob, facts: QueueFacts) -> bool:
    """Whether a job starts once nodes are free and it is its turn."""
    by_closing = job.reason == "ReqNodeNotAvail" and facts.closing is not None
    return by_closing or job.reason in ("", "None", "Priority", "Resources")


def _holes(
    job: PendingJob, plan: StartPlan, now_s: float, predicted_s: float | None
) -> Iterator[Edit]:
    """Shorten the limit so that the job fits before what is planned or reserved."""
    if not job.limit_s:
        return
    least_s = max(predicted_s or _LEAST_LIMIT * job.limit_s, job.least_s or 0.0, 60.0)
    for name in job.partitions:
        view = plan.view(job, name)
        if view is None:
            continue
        free = view.by_limits
        for begin_s in (plan.now_s, *(t for t in free.times_s if plan.now_s < t < now_s)):
            if free.free_at(begin_s) < job.nodes:
                continue
            ends = (t for t in free.times_s if t > begin_s and free.free_at(t) < job.nodes)
            hole_s = next(ends, inf) - begin_s - _SPARE_S
            if least_s <= hole_s < job.limit_s:
                caution = _NO_LONGER
                if predicted_s:
                    caution += f" (predicted: up to {duration_text(ceil(predicted_s / 60) * 60)})"
                yield shorter(job, hole_s, caution)
                break


def _fewer(job: PendingJob, plan: StartPlan) -> Iterator[Edit]:
    """Ask for fewer nodes: as many as are free now, or half."""
    counts = {job.nodes // 2}
    for name in job.partitions:
        if (view := plan.view(job, name)) is not None:
            counts.add(min(view.by_limits.free_at(plan.now_s), job.nodes - 1))
    yield from (on_nodes(job, nodes) for nodes in sorted(counts, reverse=True) if nodes >= 1)


def _other_nodes(job: PendingJob) -> Iterator[Edit]:
    """Let a job run on nodes that it does not ask for."""
    without = f"without --constraint={job.features}"
    asked = (
        ("ReqNodeList", job.node_list, "on any nodes", replace(job, node_list="")),
        ("ExcNodeList", job.excluded, "with no nodes left out", replace(job, excluded="")),
        ("Features", job.features, without, replace(job, features="")),
    )
    for option, value, what, changed in asked:
        if value:
            yield Edit(
                fields={option: ""}, what=what, caution="if it runs on others, too", job=changed
            )


def _other_devices(job: PendingJob, facts: QueueFacts, access: OwnAccess) -> Iterator[Edit]:
    """Name another type of the same devices, of as many nodes as the job asks for."""
    for kind, total in job.device_types.items():
        each = ceil(total / max(job.nodes, 1))
        for name, types in facts.device_types.items():
            for other, on_nodes_each in types.items():
                able = sum(count >= each for count in on_nodes_each)
                if other.lower() == kind.lower() or able < job.nodes:
                    continue
                made = on_devices(job, kind, other, in_queue=access.changes_devices)
                if name in job.partitions:
                    yield made
                elif kind not in types and takes(facts.partitions[name], job):
                    there = in_partition(made.job, name)
                    yield replace(
                        made,
                        fields={**made.fields, **there.fields} if made.fields else {},
                        what=f"{made.what} {there.what}",
                        job=there.job,
                    )


def _sooner_qos(job: PendingJob, access: OwnAccess) -> Iterator[Edit]:
    """Name another QOS of the user's in which the job has a higher priority."""
    for name, priority in access.priorities.items():
        if priority > job.priority:
            yield Edit(
                fields={"QOS": name},
                what=f"in QOS {name}",
                job=replace(job, qos=name, priority=priority),
            )


def _less_memory(job: PendingJob) -> Iterator[Edit]:
    each = job.mem_cpu_mib or job.mem_node_mib
    if each and not job.exclusive:
        yield from (with_memory(job, max(floor(share * each), 1)) for share in _LESS_MEMORY)


def _shared(job: PendingJob) -> Iterator[Edit]:
    if job.exclusive:
        yield Edit(
            what="without --exclusive",
            caution="only operators change that in the queue: cancel it and submit it anew",
            job=replace(job, exclusive=False),
        )


def shorter(job: PendingJob, limit_s: float, caution: str = _NO_LONGER) -> Edit:
    """Give a job a shorter time limit, in whole minutes."""
    limit_s = max(limit_s // 60, 1) * 60
    return Edit(
        fields={"TimeLimit": slurm_time(limit_s)},
        what=f"with a time limit of {duration_text(limit_s)}",
        caution=caution,
        job=replace(job, limit_s=limit_s),
    )


def on_nodes(job: PendingJob, nodes: int) -> Edit:
    """Give a job fewer nodes; what it takes in all stays, but for memory of each node.

    Of one number alone Slurm 22.05 takes only the least.
    """
    memory = job.tres.get("mem", 0.0)
    if job.mem_cpu_mib is None:
        memory = memory * nodes / max(job.nodes, 1)
    made = replace(
        job, nodes=nodes, max_nodes=nodes, tres={**job.tres, "node": nodes, "mem": memory}
    )
    more = nodes > job.nodes
    return Edit(
        fields={"NumNodes": f"{nodes}-{nodes}"},
        what=f"on {count(nodes, 'node')}",
        caution="" if more else _LONGER,
        job=made,
    )


def with_memory(job: PendingJob, each_mib: int) -> Edit:
    """Give a job less memory, for each CPU or each node as it asked."""
    if job.mem_cpu_mib is not None:
        name = "MinMemoryCPU"
        of = "CPU"
        total = float(each_mib * job.cpus)
        made = replace(job, mem_cpu_mib=each_mib)
    else:
        name = "MinMemoryNode"
        of = "node"
        total = float(each_mib * job.nodes)
        made = replace(job, mem_node_mib=each_mib)
    return Edit(
        fields={name: f"{each_mib}"},
        what=f"with {each_mib}M of memory for each {of}",
        caution=_NO_MORE,
        job=replace(made, tres={**job.tres, "mem": total}),
    )


def in_partition(job: PendingJob, name: str) -> Edit:
    """Put a job into another partition."""
    return Edit(
        fields={"Partition": name},
        what=f"in partition {name}",
        job=replace(job, partitions=(name,)),
    )


def on_devices(job: PendingJob, kind: str, other: str, *, in_queue: bool) -> Edit:
    """Give a job devices of another type.

    kind: type that it asks for, ``gpu:a100``.
    other: the one instead.
    in_queue: whether Slurm changes it of a job that waits: releases before 23.02 add the new type
        to the old one, and the job never starts (src/slurmctld/job_mgr.c, ``_update_job``).
    """
    named = re.compile(rf"(?<=[:/]){re.escape(kind)}(?=[:=,]|$)")
    devices = {name: named.sub(lambda _: other, value) for name, value in job.devices.items()}
    # Slurm lists resources in lower case.
    before = f"gres/{kind.lower()}"
    after = f"gres/{other.lower()}"
    tres = {after if name == before else name: amount for name, amount in job.tres.items()}
    made = replace(job, devices=devices, tres=tres)
    changed = {name: value for name, value in devices.items() if value != job.devices[name]}
    options = " ".join(
        f"{name}={value}"
        for name, value in made.device_options.items()
        if value != job.device_options[name]
    )
    anew = f"{_OTHER_DEVICES}: Slurm changes this from 23.02 on; submit it anew with {options}"
    return Edit(
        fields=changed if in_queue else {},
        what=f"with {other} in place of {kind}",
        caution=_OTHER_DEVICES if in_queue else anew,
        job=made,
    )
