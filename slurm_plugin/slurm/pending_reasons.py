"""Why a job waits: each of Slurm's reasons as a sentence, and what ends the wait: pure.

The table has all reasons of Slurm 22.05 to 26.05 (src/common/job_state_reason.c; before 23.02
slurm_protocol_defs.c).  Those that name a limit are read in `slurm_plugin.slurm.limit_reasons`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from sacct_ingest.text.durations import duration_text
from slurm_plugin.slurm.limit_reasons import (
    BindingLimit,
    LimitReason,
    Measure,
    Scope,
    limit_reason,
    need_of,
)
from slurm_plugin.slurm.pending_job import AFTER_WELL, DependsOn, PendingJob
from slurm_plugin.slurm.queue_facts import QueueFacts, before_reservation, shorter_limit
from slurm_plugin.text.formatting import count, hours, short_clock

_MANY_HOURS = 100  #: node-hours that are written without decimals
_NAMED = 5  #: nodes that are named, at most
_HAS_TO = {
    "after": "start",
    "afterok": "end well",
    "afternotok": "fail",
    "aftercorr": "end well, task by task",
}
_UNITS: Mapping[str, str] = {"cpu": "CPU", "node": "node", "mem": "MiB of memory"}
_ADMIN = "ask the administrators"


class Ends(StrEnum):
    """What ends a wait."""

    TURN = "turn"  #: free nodes, once it is the job's turn
    OTHERS = "others"  #: what others do, or time
    SOMEBODY = "somebody"  #: what its user or an administrator does
    NEVER = "never"  #: nothing, as the job is


@dataclass(frozen=True, slots=True)
class PendingReason:
    """Why a job waits, in words."""

    ends: Ends
    sentence: str  #: "it waits for …"
    change: str = ""  #: what would have to change, in words; empty: nothing has to


Sentence = Callable[[PendingJob, QueueFacts], str]


@dataclass(frozen=True, slots=True)
class _Entry:
    ends: Ends
    sentence: Sentence | str
    change: str = ""


def explain_reason(job: PendingJob, facts: QueueFacts) -> PendingReason:
    """Say why a job waits."""
    if (limit := limit_reason(job.reason)) is not None:
        return _beyond(limit, job, facts)
    entry = _TABLE.get(job.reason)
    if entry is None:
        said = f"Slurm says {job.reason!r}, which this release of NIMO does not know"
        return PendingReason(Ends.OTHERS, said, "ask the administrators what holds it")
    told = entry.sentence if isinstance(entry.sentence, str) else entry.sentence(job, facts)
    ends = entry.ends
    change = entry.change or shorter_limit(job, facts)
    if job.reason == "Licenses" and _licences_never(job, facts):
        ends = Ends.NEVER
        change = "ask for fewer licences"
    if entry.sentence is _never_satisfied and (failed := _had_to_end_well(job)):
        change = (
            f"run job {failed} again: after 'nimo again {failed} --submit' this one waits for it"
        )
    if job.reason in ("", "None", "Priority", "Resources") and _too_large(job, facts):
        where = ", ".join(job.partitions)
        told = f"it asks for {_nodes(job)}, and {where} has {facts.nodes} that are up"
        ends = Ends.NEVER
        change = "ask for fewer nodes, or for another partition"
    return PendingReason(ends, told, change)


def _too_large(job: PendingJob, facts: QueueFacts) -> bool:
    return facts.seen and 0 < facts.nodes < job.nodes


def _nodes(job: PendingJob) -> str:
    return count(job.nodes, "node")


def _where(job: PendingJob) -> str:
    return " or ".join(job.partitions) or "its partition"


def _priority(job: PendingJob, facts: QueueFacts) -> str:
    if facts.closing is not None and not facts.ahead:
        return before_reservation(job, facts.closing)
    if not facts.seen:
        return "jobs of higher priority go first"
    hidden = "; Slurm hides others' jobs from you (PrivateData)" if facts.private else ""
    if not facts.ahead and facts.private:
        return "others' jobs go first, which Slurm hides from you (PrivateData)"
    if not facts.ahead:
        return f"it is the next in {_where(job)}, and Slurm has not looked at it since"
    asks = "asks" if facts.ahead == 1 else "ask"
    ahead = facts.ahead_node_hours
    amount = hours(ahead) if ahead < _MANY_HOURS else f"{ahead:.0f}"
    whose = "of yours " if facts.private else ""
    jobs = count(facts.ahead, "job")
    return f"{jobs} {whose}before it in {_where(job)} {asks} for {amount} node-hours{hidden}"


def _resources(job: PendingJob, facts: QueueFacts) -> str:
    if facts.closing is not None and facts.idle >= job.nodes:
        return before_reservation(job, facts.closing)
    said = f"it is the next for {_nodes(job)} in {_where(job)}"
    if facts.seen and facts.out_of_use and facts.nodes < job.nodes:
        return _out_of_use(job, facts)
    if not facts.seen or not facts.nodes:
        return said
    if facts.ahead:
        said = f"it asks for {_nodes(job)} in {_where(job)} behind {count(facts.ahead, 'job')}"
    return f"{said}; {facts.idle} of {facts.nodes} nodes are idle"


def _out_of_use(job: PendingJob, facts: QueueFacts) -> str:
    named = ", ".join(facts.out_of_use[:_NAMED])
    more = len(facts.out_of_use) - _NAMED
    others = f" and {more} more" if more > 0 else ""
    are = "is" if len(facts.out_of_use) == 1 else "are"
    rest = f"{facts.nodes} of its nodes" if facts.nodes else "none of its nodes"
    return (
        f"it asks for {_nodes(job)}, and {_where(job)} has {rest} in service: "
        f"{named}{others} {are} down or drained"
    )


def _not_available(job: PendingJob, facts: QueueFacts) -> str:
    if "UnavailableNodes" in job.detail:
        names = job.detail.partition(":")[2].strip()
        return f"nodes that it needs are down, drained or reserved: {names or job.node_list}"
    if facts.unusable:
        return f"nodes that it needs are down or drained: {','.join(facts.unusable)}"
    if facts.closing is not None:
        return before_reservation(job, facts.closing)
    named = f" ({job.node_list})" if job.node_list else ""
    detail = f": {job.detail[:1].lower()}{job.detail[1:]}" if job.detail else ""
    return f"nodes that it needs{named} are not available{detail}"


def _other(one: DependsOn) -> str:
    return "your other jobs of its name" if one.job_id is None else f"job {one.job_id}"


def _dependency(job: PendingJob, facts: QueueFacts) -> str:
    del facts
    left = [one for one in job.depends if one.state != "fulfilled"]
    if not left:
        return "another job has to end first"
    *others, last = [f"{_has(one)} to {_HAS_TO.get(one.kind, 'end')}" for one in left]
    return f"{', '.join(others)} and {last}, before it starts" if others else f"{last} first"


def _has(one: DependsOn) -> str:
    return f"{_other(one)} {'have' if one.job_id is None else 'has'}"


def _never_satisfied(job: PendingJob, facts: QueueFacts) -> str:
    del facts
    failed = [one for one in job.depends if one.state == "failed"] or job.depends
    each = [f"{_other(one)} had to {_HAS_TO.get(one.kind, 'end')}" for one in failed]
    return f"{' and '.join(each) or 'what it depends on had to happen'}, and cannot any more"


def _had_to_end_well(job: PendingJob) -> int | None:
    """Give the id of a failed job that this one depends on; None: there is none."""
    ids = (one.job_id for one in job.depends if one.state == "failed" and one.kind in AFTER_WELL)
    return next(ids, None)


def _partition_nodes(job: PendingJob, facts: QueueFacts) -> str:
    ones = [facts.partitions[name] for name in job.partitions if name in facts.partitions]
    for one in ones:
        if one.max_nodes is not None and job.nodes > one.max_nodes:
            return f"it asks for {_nodes(job)}, and {one.name} gives {one.max_nodes} to a job"
        if job.nodes < one.min_nodes:
            return f"it asks for {_nodes(job)}, and {one.name} gives {one.min_nodes} at least"
    up = f" ({facts.nodes} are up)" if facts.seen and facts.nodes else ""
    return f"it asks for {_nodes(job)}, more than {_where(job)} has{up}"


def _partition_time(job: PendingJob, facts: QueueFacts) -> str:
    most = [
        one.max_time_s
        for name in job.partitions
        if (one := facts.partitions.get(name)) and one.max_time_s is not None
    ]
    allowed = f" allows {duration_text(max(most))}" if most else " allows less"
    limit = duration_text(job.limit_s) if job.limit_s else "without an end"
    return f"its time limit is {limit}, and {_where(job)}{allowed}"


def _partition_down(job: PendingJob, facts: QueueFacts) -> str:
    del facts
    return f"{_where(job)} starts no jobs now: an administrator has set it down"


def _begin(job: PendingJob, facts: QueueFacts) -> str:
    del facts
    when = f": not before {short_clock(job.eligible_s)}" if job.eligible_s else ""
    if job.put_back:
        # The moment that Slurm sets until all of its last start is cleaned up.
        return f"Slurm does not start it again at once{when}"
    return f"it is to begin later (--begin){when}"


def _licences(job: PendingJob, facts: QueueFacts) -> str:
    parts = []
    for name, wanted in job.licences.items():
        total = facts.licences.get(name)
        left = (
            ""
            if total is None
            else (f", and {max(total - facts.licences_used.get(name, 0), 0)} of {total} are free")
        )
        parts.append(f"{count(wanted, 'licence')} of {name}{left}")
    return f"it asks for {'; '.join(parts) or 'licences that are in use'}"


def _licences_never(job: PendingJob, facts: QueueFacts) -> bool:
    return any(wanted > facts.licences.get(name, inf) for name, wanted in job.licences.items())


def _array(job: PendingJob, facts: QueueFacts) -> str:
    most = f" {job.throttle}" if job.throttle else " so many"
    run = f"; {facts.running_tasks} run" if facts.running_tasks else ""
    return f"its array lets{most} of its tasks run at once{run}"


def _reservation(job: PendingJob, facts: QueueFacts) -> str:
    one = facts.reserved
    if one is None:
        return f"its reservation {job.reservation} has not begun, or has no free nodes"
    if one.start_s > facts.now_s:
        return f"its reservation {one.name} begins {short_clock(one.start_s)}"
    ends = short_clock(one.end_s)
    return f"its reservation {one.name} has too few free nodes; it ends {ends}"


def _constraints(job: PendingJob, facts: QueueFacts) -> str:
    del facts
    asked = [f"--constraint={job.features}"] if job.features else []
    asked += [f"--nodelist={job.node_list}"] if job.node_list else []
    asked += [f"--exclude={job.excluded}"] if job.excluded else []
    what = f" ({' '.join(asked)})" if asked else ""
    return f"no nodes of {_where(job)} fit what it asks for{what}"


def _memory(job: PendingJob, facts: QueueFacts) -> str:
    most = [
        one.max_mem_node_mib or one.max_mem_cpu_mib
        for name in job.partitions
        if (one := facts.partitions.get(name))
    ]
    allowed = [one for one in most if one]
    limit = f" {max(allowed)}M" if allowed else " less"
    asked = f"{job.mem_node_mib or job.mem_cpu_mib or 0}M"
    return f"it asks for {asked} of memory, and {_where(job)} allows{limit}"


def _beyond(limit: LimitReason, job: PendingJob, facts: QueueFacts) -> PendingReason:
    """Say which limit holds a job, with its value and what is used of it."""
    one = facts.binding
    whose = f"QOS {job.qos}" if limit.owner == "QOS" else "its association"
    if one is None:
        why = f"; {facts.limits_refused}" if facts.limits_refused else ""
        said = f"a limit of {whose} holds it ({limit.setting}){why}"
        ends = Ends.NEVER if limit.by_job else Ends.OTHERS
        return PendingReason(ends, said, _CHANGES[ends])
    ends = _ends(limit, one, job)
    return PendingReason(ends, f"{_of_limit(limit, one, job)} ({one.text})", _CHANGES[ends])


def _ends(limit: LimitReason, one: BindingLimit, job: PendingJob) -> Ends:
    if limit.by_job:
        return Ends.NEVER
    if limit.resource == "jobs":
        return Ends.NEVER if one.limit < 1 else Ends.OTHERS
    if limit.measure is Measure.MINUTES or limit.resource == "wall":
        return Ends.SOMEBODY
    need = _needed(limit, one, job)
    return Ends.NEVER if need > one.limit else Ends.OTHERS


def _needed(limit: LimitReason, one: BindingLimit, job: PendingJob) -> float:
    amount = need_of(job, one.resource)
    return amount if limit.measure is Measure.AMOUNT else amount * (job.limit_s or 0.0) / 60.0


_CHANGES: Mapping[Ends, str] = {
    Ends.NEVER: "ask for what the limit allows, or for another QOS or account",
    Ends.SOMEBODY: "use another account or QOS, or wait until its use is reset or has decayed",
    Ends.OTHERS: "",
}


def _amount(number: float, resource: str, measure: Measure = Measure.AMOUNT) -> str:
    unit = _UNITS.get(resource, resource or "job")
    if measure is not Measure.AMOUNT:
        return f"{number:g} {unit}-minutes"
    shown = f"{number:g}"
    return f"{shown} {unit}" if number == 1 or " " in unit or "/" in unit else f"{shown} {unit}s"


def _of_limit(limit: LimitReason, one: BindingLimit, job: PendingJob) -> str:
    if limit.resource == "wall" and limit.scope is Scope.JOB:
        limit_s = duration_text(job.limit_s) if job.limit_s else "without an end"
        return (
            f"its time limit is {limit_s}, and {one.owner} allows {duration_text(60 * one.limit)}"
        )
    if limit.resource == "wall":
        return f"jobs of {one.owner} have run for {one.used or 0:g} of {one.limit:g} minutes"
    if limit.resource in ("jobs", "submitted jobs"):
        runs = limit.resource == "jobs"
        used = one.used or 0
        what = "run" if runs else "are there"
        per = {Scope.USER: " of a user", Scope.ACCOUNT: " of an account"}.get(limit.scope, "")
        some = count(int(one.limit), "job") + (per if limit.owner == "QOS" else "")
        may = "run" if runs else "wait and run"
        return f"{one.owner} lets {some} {may} at once, and {used:g} {what}"
    need = _amount(_needed(limit, one, job), one.resource, limit.measure)
    most = _amount(one.limit, one.resource, limit.measure)
    if limit.scope is Scope.LEAST:
        return f"it asks for {need}, and {one.owner} wants {most} at least"
    if limit.by_job:
        per = "on a node" if limit.scope is Scope.NODE else "to a job"
        return f"it asks for {need}, and {one.owner} gives {most} {per}"
    per = {Scope.USER: " to a user", Scope.ACCOUNT: " to an account"}.get(limit.scope, "")
    state, when = "are in use", "at once"
    if limit.measure is Measure.MINUTES:
        state, when = "are used or set aside for running jobs", "in all"
    of_it = f"{one.used or 0:g} {state}"
    return f"it asks for {need}; {one.owner} gives {most}{per} {when}, and {of_it}"


_TABLE: Mapping[str, _Entry] = {
    "": _Entry(Ends.TURN, "Slurm has not looked at it yet"),
    "None": _Entry(Ends.TURN, "Slurm has not looked at it yet"),
    "Priority": _Entry(Ends.TURN, _priority),
    "Resources": _Entry(Ends.TURN, _resources),
    "Prolog": _Entry(Ends.OTHERS, "its nodes are being prepared (PrologSlurmctld)"),
    "Cleaning": _Entry(Ends.OTHERS, "its earlier start is cleaned up first"),
    "Dependency": _Entry(Ends.OTHERS, _dependency),
    "DependencyNeverSatisfied": _Entry(
        Ends.NEVER, _never_satisfied, "cancel it, or take the dependency away"
    ),
    "PartitionNodeLimit": _Entry(
        Ends.NEVER, _partition_nodes, "ask for another number of nodes, or another partition"
    ),
    "PartitionTimeLimit": _Entry(
        Ends.NEVER, _partition_time, "ask for a shorter time limit, or another partition"
    ),
    "PartitionDown": _Entry(Ends.SOMEBODY, _partition_down, "move it to another partition"),
    "PartitionInactive": _Entry(
        Ends.SOMEBODY, "its partition is inactive", "move it to another partition"
    ),
    "PartitionConfig": _Entry(
        Ends.NEVER, "its partition does not take such jobs", "ask for another partition"
    ),
    "JobHeldUser": _Entry(Ends.SOMEBODY, "its user holds it", "release it: scontrol release"),
    "JobHeldAdmin": _Entry(
        Ends.SOMEBODY, "an administrator holds it", f"{_ADMIN}; you cannot release it"
    ),
    "JobHoldMaxRequeue": _Entry(
        Ends.SOMEBODY,
        "it was requeued as often as Slurm allows (MaxBatchRequeue), and is held",
        "find out why it does not start, then release it: scontrol release",
    ),
    "BeginTime": _Entry(Ends.OTHERS, _begin),
    "Licenses": _Entry(Ends.OTHERS, _licences),
    "JobArrayTaskLimit": _Entry(Ends.OTHERS, _array),
    "Reservation": _Entry(Ends.OTHERS, _reservation),
    "ReservationDeleted": _Entry(
        Ends.NEVER, "its reservation was deleted", "take the reservation away, or name another"
    ),
    "ReservationInvalid": _Entry(
        Ends.NEVER,
        "its reservation is not valid for it",
        "take the reservation away, or name another",
    ),
    "ReqNodeNotAvail": _Entry(Ends.OTHERS, _not_available),
    "NodeDown": _Entry(Ends.SOMEBODY, "a node that it needs is down", "leave that node out"),
    "BadConstraints": _Entry(
        Ends.NEVER, _constraints, "ask for features, nodes or sizes that exist"
    ),
    "Constraints": _Entry(
        Ends.NEVER, _constraints, "ask for features, nodes or sizes that exist"
    ),
    "MaxMemPerLimit": _Entry(Ends.NEVER, _memory, "ask for less memory"),
    "InvalidAccount": _Entry(
        Ends.NEVER, "its account is not valid any more", "name another account"
    ),
    "InvalidQOS": _Entry(Ends.NEVER, "its QOS is not valid any more", "name another QOS"),
    "QOSNotAllowed": _Entry(
        Ends.NEVER, "its partition or account does not allow its QOS", "name another QOS"
    ),
    "AccountNotAllowed": _Entry(
        Ends.NEVER, "its partition does not allow its account", "name another account or partition"
    ),
    "AccountingPolicy": _Entry(
        Ends.SOMEBODY, "a limit of its QOS or association holds it", "use another QOS or account"
    ),
    "QOSUsageThreshold": _Entry(
        Ends.SOMEBODY,
        "its account has used more than its QOS lets it (UsageThreshold)",
        "use another QOS or account, or wait until its use has decayed",
    ),
    "QOSJobLimit": _Entry(Ends.OTHERS, "its QOS lets no more jobs run at once"),
    "QOSResourceLimit": _Entry(Ends.OTHERS, "its QOS has reached a limit on a resource"),
    "QOSTimeLimit": _Entry(Ends.SOMEBODY, "its QOS has used up its time", "use another QOS"),
    "AssociationJobLimit": _Entry(Ends.OTHERS, "its association lets no more jobs run at once"),
    "AssociationResourceLimit": _Entry(
        Ends.OTHERS, "its association has reached a limit on a resource"
    ),
    "AssociationTimeLimit": _Entry(
        Ends.SOMEBODY, "its association has used up its time", "use another account"
    ),
    "DeadLine": _Entry(Ends.NEVER, "it cannot end by its deadline any more", "submit it anew"),
    "BurstBufferResources": _Entry(Ends.OTHERS, "the burst buffer has no space for its data yet"),
    "BurstBufferStageIn": _Entry(Ends.OTHERS, "its data is brought into the burst buffer"),
    "BurstBufferOperation": _Entry(
        Ends.SOMEBODY, "an operation of its burst buffer failed, and it is held", _ADMIN
    ),
    "FedJobLock": _Entry(Ends.OTHERS, "clusters of the federation agree on who starts it"),
    "FrontEndDown": _Entry(Ends.SOMEBODY, "no front end node can start it", _ADMIN),
    "BlockMaxError": _Entry(Ends.SOMEBODY, "a block of the machine has too many errors", _ADMIN),
    "BlockFreeAction": _Entry(Ends.OTHERS, "a block of the machine is being freed"),
    "PowerNotAvail": _Entry(Ends.OTHERS, "there is not enough power for it now"),
    "PowerReserved": _Entry(Ends.OTHERS, "the power that it needs is reserved"),
    "MaxPoweredUpNodes": _Entry(
        Ends.OTHERS, "as many nodes are on as may be (MaxPoweredUpNodes)"
    ),
    "MpiPortsBusy": _Entry(Ends.OTHERS, "the ports that its MPI needs are in use"),
    "NvidiaImexChannels": _Entry(Ends.OTHERS, "all channels of NVIDIA's IMEX are in use"),
    "SchedDefer": _Entry(
        Ends.OTHERS, "Slurm starts no job at its submission (SchedulerParameters=defer)"
    ),
    "SystemFailure": _Entry(Ends.SOMEBODY, "Slurm or a node failed as it started", _ADMIN),
    "JobLaunchFailure": _Entry(
        Ends.SOMEBODY,
        "it could not be launched, and is held",
        "look into its output, then release it: scontrol release",
    ),
    "NonZeroExitCode": _Entry(Ends.SOMEBODY, "it failed and was requeued", "release or cancel it"),
    "RaisedSignal": _Entry(
        Ends.SOMEBODY, "a signal ended it, and it was requeued", "release or cancel it"
    ),
    "OutOfMemory": _Entry(
        Ends.SOMEBODY, "it ran out of memory and was requeued", "ask for more memory"
    ),
    "TimeLimit": _Entry(
        Ends.SOMEBODY, "it reached its time limit and was requeued", "ask for a longer limit"
    ),
    "InactiveLimit": _Entry(
        Ends.SOMEBODY, "it was inactive for too long (InactiveLimit)", "submit it anew"
    ),
}  # fmt: skip
