"""Turns Slurm's answers into a view of the cluster: pure.

A node is free for a job as soon as what the job wants of it is: until then its jobs hold what they
have up to their limits, or to the end that a reliable prediction lets expect.  Pending jobs to
which backfill gave a start take their nodes from then on, or earlier; reservations take theirs.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, exp, inf
from typing import NamedTuple

from msgspec.structs import asdict

from sacct_ingest.text.admin_comment import decision_id_in
from sacct_ingest.text.hostlist import NodeNames
from slurm_plugin.slurm import cluster_state
from slurm_plugin.slurm import node_pool as pools
from slurm_plugin.slurm.dependencies import JobTimes
from slurm_plugin.slurm.expected_ends import expected_end_s, expected_run_time_s
from slurm_plugin.slurm.limits import LimitTables
from slurm_plugin.slurm.node_states import UNUSABLE
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.startable import WAITS, StartableJobs, share_of_each

DAY_S = 86400.0
#: Nodes that are off, or on their way there or back.
_OFF = frozenset({
    "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "POWER_SAVING",
})  # fmt: skip
_DONE = frozenset({"COMPLETING", "CG"})


#: A job on a node: until when it runs, and what it has of the node.
_Use = tuple[float, int, int, dict[str, int]]
#: Planned jobs that are moved ahead, at most: each costs steps in proportion to those before.
_MOVED = 200


def build(
    raw: cluster_state.RawState,
    settings: SlurmConf,
    limits: LimitTables | None = None,
    *,
    cluster: str,
    taken_s: float,
    previous: cluster_state.Cluster | None = None,
) -> cluster_state.Cluster:
    """Make a view of the cluster.

    raw: Slurm's answers.
    settings: of its configuration.
    limits: those of QOS and associations.
    cluster: its name.
    taken_s: when Slurm was asked, seconds since the epoch.
    previous: the view before, whose mean queue is carried on.
    """
    nodes = _groups(raw, settings, taken_s)
    members: dict[str, list[str]] = defaultdict(list)
    for node in raw.nodes:
        if node.name in nodes:
            for name in node.partitions:
                members[name].append(node.name)
    waiting = _waiting(raw.jobs, StartableJobs(raw, settings, limits or LimitTables()))
    ends_predicted = any(expected_run_time_s(job) is not None for job in raw.jobs)
    scene = _SnapshotBuilder(
        *(settings, taken_s, previous, nodes, members, waiting, ends_predicted, NodeNames(nodes)),
        reserved_from(raw, taken_s),
    )
    made = [scene.partition(one) for one in raw.partitions]
    held: dict[str, list[tuple[float, int]]] = defaultdict(list)  # of licences
    for job in raw.jobs:
        if job.state not in WAITS:
            for name, n in job.licences.items():
                held[name] += [(taken_s, -n), (max(job.end_s, taken_s), n)]
    return cluster_state.Cluster(
        name=cluster,
        taken_s=taken_s,
        partitions={part.name: part for part in made},
        default_partition=next((part.name for part in raw.partitions if part.default), ""),
        limits=limits or LimitTables(),
        licences={
            name: pools.profile([(taken_s, n), *held[name]]) for name, n in raw.licences.items()
        },
        keeps_limit=settings.keeps_limit and not settings.plans_softly,
        plans_softly=settings.plans_softly and settings.may_update,
        reopens=settings.may_update,
        awaited=JobTimes(raw.jobs, taken_s).awaited,
        shown=frozenset(filter(None, (decision_id_in(job.admin_comment) for job in raw.jobs))),
    )


def reserved_from(raw: cluster_state.RawState, now_s: float) -> dict[str, float]:
    """Give for each partition when the next reservation begins that has one of its nodes.

    One that has begun counts no more: no job starts on its nodes before it ends.
    """
    starts: dict[str, float] = {}
    for reservation in raw.reservations:
        if reservation.start_s > now_s:
            for name in reservation.node_names:
                starts[name] = min(starts.get(name, inf), reservation.start_s)
    partitions: dict[str, float] = {}
    for node in raw.nodes if starts else ():
        if (start_s := starts.get(node.name)) is not None:
            for name in node.partitions:
                partitions[name] = min(partitions.get(name, inf), start_s)
    return partitions


class _Waiting(NamedTuple):
    """Jobs that wait for nodes of the same partitions: how many, and those with a planned start."""

    jobs: int
    planned: Sequence[cluster_state.RawJob]


def _waiting(
    jobs: Iterable[cluster_state.RawJob], startable: StartableJobs
) -> dict[Sequence[str], _Waiting]:
    """Group the jobs that wait for nodes by the partitions in which they may start."""
    counts: dict[Sequence[str], int] = defaultdict(int)
    planned: dict[Sequence[str], list[cluster_state.RawJob]] = defaultdict(list)
    for job in jobs:
        if names := startable.partitions(job):
            counts[names] += job.jobs
            if job.start_s < inf:
                planned[names].append(job)
    return {names: _Waiting(count, planned.get(names, ())) for names, count in counts.items()}


@dataclass(frozen=True, slots=True)
class _SnapshotBuilder:
    """What the partitions of one look have in common."""

    settings: SlurmConf
    taken_s: float
    previous: cluster_state.Cluster | None
    nodes: Mapping[str, pools.NodeGroup]
    members: Mapping[str, Sequence[str]]
    waiting: Mapping[Sequence[str], _Waiting]  #: by the partitions in which they may start
    ends_predicted: bool  #: of some jobs, by predictions
    listed: NodeNames  #: all nodes
    reserved: Mapping[str, float]  #: when the next reservation begins in a partition

    def partition(self, one: cluster_state.RawPartition) -> cluster_state.Partition:
        own = self.members.get(one.name, ())
        groups = [self.nodes[name] for name in own]
        inside = frozenset(own)
        # Jobs that wait for nodes of this partition.
        sharing = {p for p, names in self.members.items() if not inside.isdisjoint(names)}
        sharing.add(one.name)
        waiting = [it for names, it in self.waiting.items() if not sharing.isdisjoint(names)]
        depth = sum(alike.jobs for alike in waiting)
        cpus = min((g.cpus for g in groups), default=1)
        memory = min((g.mem_mib for g in groups), default=0)
        pool = pools.NodePool(
            now_s=self.taken_s,
            groups=pools.grouped((name, _capped(self.nodes[name], one)) for name in own),
            listed=self.listed,
        )
        plans = partial(self._planned, waiting, inside, (cpus, memory))
        planned = plans(None) if self.ends_predicted else None
        # Whole nodes that are free, but for these jobs.
        taken = plans(pool.fitting(pools.NodeShare())[0]) if self.ends_predicted else plans(None)
        pool = replace(pool, taken=taken, planned=planned, memo={})
        before = self.previous.partitions.get(one.name) if self.previous else None
        # Answer now what the pool before was asked.
        for share in list(before.pool.memo if before and before.pool else ()):
            pool.less(share, ())
        whole = pools.NodeShare()
        free, count = pool.fitting(whole)
        # Memory of a job that asks for none, and the most: a partition's limit for each CPU or for
        # each node replaces both of the site's; where none counts each CPU has none.
        limits = asdict(one)
        for names in (("mem_cpu_mib", "mem_node_mib"), ("max_mem_cpu_mib", "max_mem_node_mib")):
            if not any(limits[name] for name in names):
                limits |= {name: getattr(self.settings, name) for name in names}
        if not self.settings.counts_memory:
            limits |= {"mem_cpu_mib": 0, "mem_node_mib": None}
        limits["exclusive"] |= self.settings.whole_nodes
        limits |= {
            "node_mem_bytes": memory * 2**20 or None,
            "node_cpus": cpus,
            "whole_tasks": self.settings.whole_tasks,
            "threads_core": max((g.threads_core for g in groups), default=1),
        }
        return cluster_state.Partition(
            **limits,
            nodes=count,
            profile=free,
            limit_profile=pool.by_limits(whole),
            pool=pool,
            queue=depth,
            queue_mean=_mean(one.name, depth, self.taken_s, self.previous),
            reserved_s=self.reserved.get(one.name, inf),
        )

    def _planned(
        self,
        waiting: Iterable[_Waiting],
        own: frozenset[str],
        node: tuple[int, int],
        free: pools.NodeAvailability | None,
    ) -> tuple[pools.Promise, ...]:
        """Nodes that jobs will take for which backfill planned a start.

        Backfill plans by time limits.  Where jobs are expected to end before theirs, those that
        wait are moved ahead, in the order of their planned starts.

        own: names of the partition's nodes.
        node: CPUs and memory (MiB) of the smallest.
        free: whole nodes that are free as jobs are expected to end; None: plans stand as they are,
            and jobs take their limits.
        """
        jobs = [
            (job, sum(n in own for n in job.planned_names) if job.planned_names else job.nodes)
            for alike in waiting
            for job in alike.planned
        ]
        moves = free is not None
        memory = self.settings.counts_memory
        taken = []
        for number, (job, nodes) in enumerate(sorted(jobs, key=lambda one: one[0].start_s)):
            start_s = max(job.start_s, self.taken_s)
            longest_s = expected_run_time_s(job) if moves else None
            lasts_s = min(longest_s or inf, job.end_s - job.start_s)
            if free is not None and number < _MOVED:
                whole = whole_nodes(job, nodes, node if memory else (node[0], 0))
                start_s = min(start_s, free.earliest_start(whole, lasts_s, from_s=self.taken_s))
                free = free.reserve(whole, start_s, start_s + lasts_s)
            share = share_of_each(job, counts_memory=memory and node[1] > 0)
            taken.append((nodes, start_s, start_s + lasts_s, share))
        return tuple(taken)


def _groups(
    raw: cluster_state.RawState, settings: SlurmConf, taken_s: float
) -> dict[str, pools.NodeGroup]:
    """Usable nodes by name, each as the group it belongs to."""
    use: dict[str, list[_Use]] = defaultdict(list)
    held: dict[str, list[_Use]] = defaultdict(list)  # the same up to their limits
    for job in raw.jobs:
        if job.node_names and job.state not in WAITS:
            end = taken_s if job.state in _DONE else max(expected_end_s(job, taken_s), taken_s)
            limit_s = taken_s if job.state in _DONE else max(job.end_s, taken_s)
            each = _each(job)
            for name in job.node_names:
                use[name].append((end, *each))
                held[name].append((limit_s, *each))
    windows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in raw.reservations:
        for name in one.node_names:
            windows[name].append((one.start_s, one.end_s))
    closed = {name: _union(spans) for name, spans in windows.items()}
    return {
        node.name: _group(
            node, use.get(node.name, []), held.get(node.name, []), settings, taken_s, closed
        )
        for node in raw.nodes
        if node.state.isdisjoint(UNUSABLE)
    }


def _each(job: cluster_state.RawJob) -> tuple[int, int, dict[str, int]]:
    """Tell what a job has of each of its nodes, as if it were dealt out evenly."""
    nodes = len(job.node_names)
    gres = {name: ceil(amount / nodes) for name, amount in job.devices.items()}
    cpu = job.tres.get("cpu", 0.0)
    mem = job.tres.get("mem", 0.0)
    return ceil(cpu / nodes), ceil(mem / nodes), gres


def _group(
    node: cluster_state.RawNode,
    use: Sequence[_Use],
    held: Sequence[_Use],
    settings: SlurmConf,
    taken_s: float,
    closed: Mapping[str, tuple[tuple[float, float], ...]],
) -> pools.NodeGroup:
    ready_s = taken_s if node.state.isdisjoint(_OFF) else taken_s + settings.resume_s
    steps, empty_s = _steps(node, use, ready_s)
    return pools.NodeGroup(
        cpus=node.cpus,
        threads_core=node.threads_core if settings.whole_cores else 1,
        mem_mib=node.mem_mib,
        gres=tuple(sorted(node.gres.items())),
        gpu_type=node.gpu_type,
        features=node.features,
        steps=steps,
        empty_s=empty_s,
        by_limits=None if held == use else _steps(node, held, ready_s),
        closed=closed.get(node.name, ()),
    )


def _steps(
    node: cluster_state.RawNode, use: Sequence[_Use], ready_s: float
) -> tuple[tuple[pools.Step, ...], float]:
    """Tell what is free of a node from when on, and when all of it is."""
    whole = (node.cpus, node.mem_mib, tuple(sorted(node.gres.items())))
    busy = node.cpus_used or node.mem_used_mib or any(node.gres_used.values())
    if not busy and not use:
        return ((ready_s, *whole),), ready_s
    cpus = node.cpus - node.cpus_used
    mem = node.mem_mib - node.mem_used_mib
    gres = {name: n - node.gres_used.get(name, 0) for name, n in node.gres.items()}
    steps: list[pools.Step] = [(ready_s, cpus, mem, tuple(sorted(gres.items())))]
    if not use:
        # Used by jobs that we may not see (PrivateData): unknown for how long.
        return tuple(steps), inf
    *earlier, last = sorted(use, key=lambda end: end[0])
    for end_s, more_cpus, more_mem, more_gres in earlier:
        cpus = min(cpus + more_cpus, node.cpus)
        mem = min(mem + more_mem, node.mem_mib)
        for name in more_gres.keys() & gres.keys():
            gres[name] = min(gres[name] + more_gres[name], node.gres[name])
        steps.append((max(end_s, ready_s), cpus, mem, tuple(sorted(gres.items()))))
    empty_s = max(last[0], ready_s)
    return (*(s for s in steps if s[0] < empty_s), (empty_s, *whole)), empty_s


def _union(spans: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    joined: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return tuple(joined)


def _capped(group: pools.NodeGroup, one: cluster_state.RawPartition) -> pools.NodeGroup:
    """Group as the partition gives it out (MaxCPUsPerNode)."""
    if one.max_cpus_node is None or one.max_cpus_node >= group.cpus:
        return group
    most = one.max_cpus_node
    held = group.by_limits
    return replace(
        group,
        cpus=most,
        steps=_steps_within(group.steps, most),
        by_limits=held and (_steps_within(held[0], most), held[1]),
    )


def _steps_within(steps: Iterable[pools.Step], most: int) -> tuple[pools.Step, ...]:
    return tuple((time_s, min(cpus, most), mem, gres) for time_s, cpus, mem, gres in steps)


def _mean(name: str, depth: int, taken_s: float, previous: cluster_state.Cluster | None) -> float:
    """Average queue with a memory of a day."""
    before = previous.partitions.get(name) if previous else None
    if previous is None or before is None:
        return float(depth)
    share = 1 - exp(-max(taken_s - previous.taken_s, 0.0) / DAY_S)
    return before.queue_mean + share * (depth - before.queue_mean)


def whole_nodes(job: cluster_state.RawJob, nodes: int, node: tuple[int, int]) -> int:
    """Whole nodes that a waiting job is worth: all of them, where it shares none."""
    if job.alone:
        return nodes
    cpus, mem_mib = node
    each = job.tres.get("cpu", inf) / max(job.nodes, 1) / max(cpus, 1)
    memory = job.tres.get("mem", 0.0) / max(job.nodes, 1) / max(mem_mib, 1)
    return ceil(nodes * min(max(each, memory if mem_mib else 0.0), 1.0))
