"""What Slurm says of a plan's places: their free nodes over time, and what each task may have.

``--empty`` takes the nodes from the workflow itself, and asks nobody.
"""

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import inf
from operator import attrgetter

from msgspec import structs

from sacct_ingest.errors import ConfigError, ScriptError, SlurmError, StoreError
from sacct_ingest.scripts.job_script import parse_command_line
from sacct_ingest.text.slurm_text import parse_epoch
from slurm_plugin.config.setting_types import Source
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.experiments.plan.replan import steps_begun
from slurm_plugin.experiments.plan.schedule import TaskBounds
from slurm_plugin.experiments.plan.state_file import Submitted
from slurm_plugin.experiments.plan.workflow import PlanSite, Task, Workflow
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.cluster_state import Cluster, Partition, RawJob, RawState
from slurm_plugin.slurm.commands import run as run_slurm
from slurm_plugin.slurm.job_request import Submitter, job_fields, make_job, user_name
from slurm_plugin.slurm.node_pool import NodeAvailability, NodeShare, profile
from slurm_plugin.slurm.other_clusters import run_on
from slurm_plugin.slurm.partition_view import partition_for
from slurm_plugin.slurm.poller import ClusterPoller
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.store_access import open_store
from slurm_plugin.wait_forecasts.forecasts import Outlooks, QueueRunTimes

_MIB = 2.0**20
#: Name of a node, and when its last job ended, in a line of ``scontrol show nodes``.
_LAST_BUSY = re.compile(r"^NodeName=(\S+).* LastBusyTime=(\S+)", re.MULTILINE)
#: A wait of so little is none, seconds.
_AT_ONCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmPlaces:
    """What Slurm says of the places."""

    free: Mapping[str, NodeAvailability]
    rooms: Mapping[tuple[str, str], TaskBounds] = field(default_factory=dict)
    nodes: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    #: nodes that no job is on, and since when, seconds since the epoch
    idle_since: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: CPUs and bytes of memory of the largest node
    largest: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def empty_places(flow: Workflow, now_s: float) -> SlurmPlaces:
    """Nodes of places as the workflow has them, all free."""
    missing = [place.name for place in flow.places.values() if place.high is None]
    if missing:
        raise ConfigError(
            f"places.{missing[0]}: --empty does not ask Slurm: say how many nodes it has"
        )
    return SlurmPlaces(free={p.name: profile([(now_s, p.high or 0)]) for p in flow.places.values()})


def places_in_slurm(
    flow: Workflow, config: Config, now_s: float, submitted: Submitted | None
) -> SlurmPlaces:
    """Free nodes of all places over time, and the limits of all tasks there, as Slurm has them."""
    free: dict[str, NodeAvailability] = {}
    rooms: dict[tuple[str, str], TaskBounds] = {}
    nodes: dict[str, frozenset[tuple[str, str]]] = {}
    idle_since: dict[str, dict[str, float]] = {}
    largest: dict[str, dict[str, float]] = {}
    for name in sorted({place.cluster for place in flow.places.values()}):
        # PySlurm can only read the local cluster.
        how = config.snapshot
        if name and how.source in (Source.AUTO, Source.PYSLURM):
            how = structs.replace(how, source=Source.TEXT)
        poller = ClusterPoller(
            time.time,
            cluster=name,
            how=how,
            run=partial(_run_on, name),
            adapt=partial(_without_own, _own_ends(submitted, name, now_s)),
        )
        look = poller.look()
        look = with_outlooks(look, poller.raw, poller.settings, config)
        busy_s = _last_busy(name, config.snapshot.timeout_s)
        for place in (one for one in flow.places.values() if one.cluster == name):
            requests = {task.name: task_request(task, place, now_s) for task in flow.tasks.values()}
            free[place.name] = _nodes_over_time(look, place, requests.values(), now_s)
            pool = look.partitions[place.partition].pool
            names = pool.names(NodeShare()) if pool else ()
            nodes[place.name] = frozenset((look.name, node) for node in names)
            if pool and pool.groups:
                unused = (own for one, own in pool.groups.items() if one.empty_s <= look.taken_s)
                idle_since[place.name] = {
                    node: busy_s.get(node, inf) for node in chain.from_iterable(unused)
                }
                most = max(pool.groups, key=attrgetter("cpus", "mem_mib"))
                largest[place.name] = {"cpus": most.cpus, "memory": most.mem_mib * _MIB or inf}
            for task, request in requests.items():
                rooms[task, place.name] = room_for(look, request)
    return SlurmPlaces(free=free, rooms=rooms, nodes=nodes, idle_since=idle_since, largest=largest)


def room_for(cluster: Cluster, job: Job) -> TaskBounds:
    """Bounds of a job in its partition.

    cluster: as it is.
    job: its request; the fewest nodes that it can do with are ``min_nodes``.
    """
    named = cluster.partition(job.partition)
    if named is None or not named.up:
        return TaskBounds(high=0, why=f"partition {job.partition} is not up")
    account = cluster.limits.account_of(job.user_name, job.account)
    association = cluster.limits.association(job.user_name, account, named.name)
    qos = cluster.limits.qos_of(association, job.qos)
    if not named.admits(account, qos):
        return TaskBounds(high=0, why=f"partition {named.name} does not admit {account or qos}")
    bounds = partition_for(cluster, job)
    if bounds is None:
        return TaskBounds(high=0, why=f"partition {named.name} takes no such job")
    why = bounds.bound or (f"MaxNodes of partition {named.name}" if named.max_nodes else "")
    return TaskBounds(bounds.min_nodes, bounds.largest, bounds.max_time_s or inf, why)


def with_outlooks(look: Cluster, raw: RawState, settings: SlurmConf, config: Config) -> Cluster:
    """Give the partitions of a look their outlooks; without a store limits are all there is.

    A plan may be made without nimod.  So the queue is run forward here, with what a refit and nimod
    left in the store.

    look: view of the cluster.
    raw, settings: what it was made of.
    config: the site's settings.
    """
    tables, past, record = PredictionLookup(), "", ""
    try:
        with open_store(config) as store:
            from sacct_ingest.store.fits import QUEUE, WAITS  # noqa: PLC0415 - as heavy as the store

            tables = PredictionLookup(store.fits.payloads(), off=store.standings.off())
            past = store.records.of_level(QUEUE).get(look.name, "")
            record = store.records.of_level(WAITS).get(look.name, "")
    except StoreError:
        pass
    outlooks = Outlooks(QueueRunTimes(lambda: tables))
    outlooks.remember(past)
    outlooks.corrections.restore(record)
    return outlooks.add_wait_forecasts(look, raw, settings)


def expected_nodes(
    partition: Partition, limit_s: float | None, *, now_s: float
) -> NodeAvailability:
    """Nodes that a job could have at each moment, by the medians of its waits.

    limit_s: time limit of the jobs; None: the longest of the partition.
    """
    if partition.outlook is None:
        return partition.profile
    limit_s = limit_s or partition.max_time_s or inf
    changes = [(now_s, 0)]
    before = 0
    supply = partition.supply
    for nodes in range(1, partition.nodes + 1):
        wait_s = supply.wait(nodes, limit_s, now_s=now_s, begin_s=now_s).median_s
        if wait_s == inf:
            break
        start_s = now_s + (wait_s if wait_s > _AT_ONCE_S else 0.0)
        changes.append((max(start_s, changes[-1][0]), nodes - before))
        before = nodes
    return profile(changes)


def task_request(task: Task, place: PlanSite, now_s: float) -> Job:
    """Job request that a task makes at a place."""
    argv = ["sbatch", *task.options, f"--partition={place.partition}", f"--nodes={task.low}"]
    try:
        line = parse_command_line(argv)
        user = user_name()
        uid = os.getuid()
        return make_job(job_fields(line, "", Submitter(user, uid, ""), now_s=now_s))
    except ScriptError as error:
        raise ConfigError(f"tasks.{task.name}.sbatch: {error}") from error


def _last_busy(cluster: str, timeout_s: float) -> dict[str, float]:
    """Give when a job was last on each node, seconds since the epoch; none that is not known."""
    try:
        shown = _run_on(cluster, ("scontrol", "show", "nodes", "-o"), timeout_s=timeout_s)
        each = [(one[1], parse_epoch(one[2])) for one in _LAST_BUSY.finditer(shown)]
    except (SlurmError, ValueError):
        return {}
    return {node: float(at_s) for node, at_s in each if at_s is not None}


def _nodes_over_time(
    look: Cluster, place: PlanSite, requests: Iterable[Job], now_s: float
) -> NodeAvailability:
    """Nodes as jobs with the longest time limit of the tasks could have them."""
    partition = look.partition(place.partition)
    if partition is None:
        names = ", ".join(look.partitions)
        raise ConfigError(
            f"places.{place.name}: no partition {place.partition!r}; there are {names}"
        )
    minutes = [request.time_limit for request in requests]
    limit_s = None if None in minutes else 60.0 * max(one for one in minutes if one is not None)
    free = expected_nodes(partition, limit_s, now_s=now_s)
    return replace(free, times_s=(now_s, *free.times_s[1:]))


def _own_ends(submitted: Submitted | None, cluster: str, now_s: float) -> dict[int, float | None]:
    """When jobs of the plan are expected to end, by id; None: they have not begun."""
    if submitted is None:
        return {}
    begun = {step.name: step.end_s for step in steps_begun(submitted, now_s)}
    return {
        job_id: begun.get(job.name) if submitted.begun(job.name) else None
        for job in submitted.jobs
        if job.cluster == cluster and (job_id := submitted.job_id(job.name))
    }


def _without_own(ends: Mapping[int, float | None], state: RawState) -> RawState:
    """Take the plan's own jobs out of the queue, and those that run as long as they will."""

    def as_planned(jobs: Iterable[RawJob]) -> Iterable[RawJob]:
        for job in jobs:
            end_s = ends.get(-1 if job.job_id is None else job.job_id, job.end_s)
            if end_s is not None:
                yield replace(job, end_s=end_s)
            elif job.state != "PENDING":
                yield job

    return replace(state, jobs=list(as_planned(state.jobs)))


def _run_on(cluster: str, argv: Sequence[str], *, timeout_s: float) -> str:
    return run_on(cluster, argv, timeout_s=timeout_s, run=run_slurm)
