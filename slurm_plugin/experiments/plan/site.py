"""A plan's data of the site: nodes and limits from Slurm, run times from the store."""

import os
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import inf
from operator import attrgetter
from pathlib import Path
from statistics import median

from msgspec import structs

from predictor.forecasts.forecasters import forecast_series
from predictor.forecasts.transfer_time import transfer_time
from predictor.neighbours import Neighbours
from predictor.occupancy.application_model import OccupancyFit, Sample
from predictor.occupancy.samples import history_samples
from predictor.prediction_table import PredictionTable
from sacct_ingest.errors import ConfigError, NoHistory, ScriptError, SlurmError, StoreError
from sacct_ingest.probes.agreement import MEASURES
from sacct_ingest.records import KeyLevel, NodeProfile, Probe, Resource
from sacct_ingest.runs.sharing import SharedTag
from sacct_ingest.scripts.job_script import parse_command_line
from sacct_ingest.store import Store
from sacct_ingest.store.fits import NEIGHBOURS, QUEUE, WAITS
from sacct_ingest.text.slurm_text import parse_epoch
from slurm_plugin.config.setting_types import Source
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.experiments.learn.description import INPUT_BYTES
from slurm_plugin.experiments.plan import run_times
from slurm_plugin.experiments.plan.first_runs import guess
from slurm_plugin.experiments.plan.replan import steps_begun
from slurm_plugin.experiments.plan.schedule import PlanningProblem, TaskBounds
from slurm_plugin.experiments.plan.state_file import Submitted
from slurm_plugin.experiments.plan.workflow import PlanSite, Storage, Task, Workflow, link_ends
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.cluster_state import Cluster, Partition, RawJob, RawState
from slurm_plugin.slurm.commands import run as run_slurm
from slurm_plugin.slurm.job_request import Submitter, job_fields, make_job, user_name
from slurm_plugin.slurm.node_pool import NodeAvailability, NodeShare, profile
from slurm_plugin.slurm.other_clusters import run_on
from slurm_plugin.slurm.partition_view import partition_for
from slurm_plugin.slurm.poller import ClusterPoller
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.store_access import load_tables, matching_tables, open_store, own_tables
from slurm_plugin.wait_forecasts.forecasts import Outlooks, QueueRunTimes

_MONTH_S = 30 * 86400.0
_MIB = 2.0**20
#: Of a place and its own storage, for occupancy models that depend on the way to the data.
_NEAR = {run_times.LATENCY: 1e-5, run_times.BANDWIDTH: 1e9}
#: Figure of a node profile that run times are taken to go with.
_SPEED = "cpu_all_events_per_s"
#: Figures of node profiles that series of probes measure.
_DISK = {
    Resource.DISK_READ: "disk_read_bytes_per_s",
    Resource.DISK_WRITE: "disk_write_bytes_per_s",
    Resource.DISK_LATENCY: "disk_latency_s",
}
#: Name of a node, and when its last job ended, in a line of ``scontrol show nodes``.
_LAST_BUSY = re.compile(r"^NodeName=(\S+).* LastBusyTime=(\S+)", re.MULTILINE)
_OR_GIVE = (
    "or give its run_time (run_times in the file of --site), samples, or a --time in sbatch within "
    "which it is guessed"
)
#: An older probe says nothing about now.
_PRESENT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slurm:
    """What Slurm says of the places."""

    free: Mapping[str, NodeAvailability]
    rooms: Mapping[tuple[str, str], TaskBounds] = field(default_factory=dict)
    nodes: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    #: nodes that no job is on, and since when, seconds since the epoch
    idle_since: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: CPUs and bytes of memory of the largest node
    largest: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    """What the store says."""

    tables: Mapping[str, PredictionTable]
    series: Sequence[Probe]
    profiles: Sequence[NodeProfile]
    newest: Sequence[Probe] = ()  #: of each series, if it tells of now
    fits: Mapping[str, OccupancyFit] = field(default_factory=dict)


def problem(
    flow: Workflow,
    config: Config,
    folder: Path,
    *,
    empty: bool = False,
    submitted: Submitted | None = None,
) -> PlanningProblem:
    """Problem of a workflow on the site as it is now.

    flow: the workflow.
    config: the site's settings: its store, and how Slurm is asked.
    folder: where files of samples are.
    empty: whether to plan for idle clusters, without asking Slurm.
    submitted: jobs of the plan that are there already: their nodes are free once they have ended,
        and those that wait keep none.
    Raises sacct_ingest.errors.NimoError: Slurm or the store do not answer, or lack what the
        workflow names.
    """
    now_s = time.time()
    slurm = _empty(flow, now_s) if empty else _from_slurm(flow, config, now_s, submitted)
    stored = _stored(flow, config, now_s)
    speeds = _speeds(flow, slurm, stored)
    flow = _with_tags(_with_figures(flow, slurm, stored), stored.tables)
    runs = run_times.LearnedRunTimes(
        tables=stored.tables,
        fits={**run_times.fit_samples(flow, folder), **stored.fits},
        near=_NEAR,
        speeds=speeds,
        types=_types(slurm, stored.profiles),
        said={task.name: _said(flow, task) for task in flow.tasks.values()},
        room=slurm.largest,
    )
    return PlanningProblem(
        workflow=flow,
        runs=runs,
        transfers=run_times.Copies(
            flow=flow, measured=partial(transfer_time, stored.series, now_s=now_s)
        ),
        free=slurm.free,
        rooms=slurm.rooms,
        now_s=now_s,
    )


def _stored(flow: Workflow, config: Config, now_s: float) -> _Store:
    """Read what the workflow does not say itself; without a store there are no node profiles."""
    labels = {
        task.name: task.application or f"{flow.name}/{task.name}"
        for task in flow.tasks.values()
        if task.samples == run_times.HISTORY or not (task.run_times_s or task.samples)
    }
    measured = any(link.bandwidth_bytes_per_s is None for link in flow.links.values())
    probed = measured or any(link.latency_s is None for link in flow.links.values())
    try:
        opened = open_store(config)
    except StoreError:
        if labels or measured:
            raise
        return _Store(tables={}, series=(), profiles=())
    with opened as store:
        all_tables = load_tables(store)
        past = Neighbours(store.records.find(*NEIGHBOURS))
        tables = {}
        for name, label in labels.items():
            task = flow.tasks[name]
            try:
                tables[name] = own_tables(matching_tables(all_tables, label))[0]
            except NoHistory as error:
                asked = _request(task, flow.places[next(iter(task.places or flow.places))], now_s)
                if (guessed := guess(past, task, asked, label, config)) is None:
                    raise NoHistory(f"tasks.{name}: {error}; {_OR_GIVE}") from error
                tables[name] = guessed
        profiles = store.profiles.latest()
        return _Store(
            tables=tables,
            series=_series(store, flow, now_s - _MONTH_S, probed=probed),
            profiles=profiles,
            newest=[one for one in store.probes.latest() if one.at_s >= now_s - _PRESENT_S],
            fits={
                name: run_times.fit_history(
                    name, _runs_of(store, table, config.sharing.tags, profiles)
                )
                for name, table in tables.items()
                if flow.tasks[name].samples == run_times.HISTORY
            },
        )


def _series(store: Store, flow: Workflow, since_s: float, *, probed: bool) -> list[Probe]:
    """Read all series; without ``probed`` those of past transfers over the workflow's links."""
    if probed:
        return list(store.probes.since(since_s))
    ends = {link_ends(flow, *pair) for pair in flow.links}
    parts = [store.probes.series(Resource.TRANSFER, *pair, since_s=since_s) for pair in ends]
    return list(chain.from_iterable(parts))


def _runs_of(
    store: Store,
    table: PredictionTable,
    shared: Sequence[SharedTag],
    profiles: Sequence[NodeProfile],
) -> Sequence[Sample]:
    """Give the ingested runs that a table was made of, as samples."""
    rows = store.runs.of_key(KeyLevel(table.level), table.key)
    for tags in () if rows else shared:
        rows = rows or dict(store.runs.shared(tags)).get(table.key, [])
    steps = store.runs.steps_of(row.run_id for row in rows)
    return history_samples(rows, steps, profiles)


def _empty(flow: Workflow, now_s: float) -> _Slurm:
    """Nodes of places as the workflow has them, all free."""
    missing = [place.name for place in flow.places.values() if place.high is None]
    if missing:
        raise ConfigError(
            f"places.{missing[0]}: --empty does not ask Slurm: say how many nodes it has"
        )
    return _Slurm(free={p.name: profile([(now_s, p.high or 0)]) for p in flow.places.values()})


def _from_slurm(
    flow: Workflow, config: Config, now_s: float, submitted: Submitted | None
) -> _Slurm:
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
            requests = {task.name: _request(task, place, now_s) for task in flow.tasks.values()}
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
    return _Slurm(free=free, rooms=rooms, nodes=nodes, idle_since=idle_since, largest=largest)


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


def _said(flow: Workflow, task: Task) -> dict[str, float]:
    """Attributes that a task sets itself: what it reads, and what its options ask for."""
    job = _request(task, next(iter(flow.places.values())), 0.0)
    cpus = job.cpus_per_task
    each_mib = job.min_mem_per_cpu or 0
    if each_mib:  # sbatch takes no --mem beside it, and more CPUs would be more memory
        cpus = cpus or 1
    said = {
        INPUT_BYTES: sum(flow.files[name].size_bytes for name in task.reads),
        "cpus": cpus,
        "memory": (job.min_mem_per_node or each_mib * (cpus or 0)) * _MIB,
    }
    return {name: float(value) for name, value in said.items() if value}


def _request(task: Task, place: PlanSite, now_s: float) -> Job:
    """Job request that a task makes at a place."""
    argv = ["sbatch", *task.options, f"--partition={place.partition}", f"--nodes={task.low}"]
    try:
        line = parse_command_line(argv)
        user = user_name()
        uid = os.getuid()
        return make_job(job_fields(line, "", Submitter(user, uid, ""), now_s=now_s))
    except ScriptError as error:
        raise ConfigError(f"tasks.{task.name}.sbatch: {error}") from error


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


def _of_place(slurm: _Slurm, place: str, profiles: Iterable[NodeProfile]) -> list[NodeProfile]:
    nodes = slurm.nodes.get(place, frozenset())
    return [one for one in profiles if (one.cluster, one.node) in nodes]


def _present(
    storage: Storage,
    nodes: Collection[str],
    idle_since: Mapping[str, float],
    newest: Iterable[Probe],
) -> dict[str, float]:
    """Medians of what probes see now: of idle nodes' CPUs, and of the disk where the data lies.

    What a job takes of its node is not taken from the next one, which begins after it: probes on a
    node count from after its last job.
    """
    seen: dict[str, list[float]] = defaultdict(list)
    for one in newest:
        host = one.source if one.source in nodes else one.source.partition(".")[0]
        near = host in nodes and one.at_s > idle_since.get(host, inf)
        if one.resource in _DISK:
            within = Path(storage.path).is_relative_to(one.target)
            near = within and (near or one.source == storage.host)
        if near and one.value:
            seen[one.resource].append(one.value)
    return {resource: median(values) for resource, values in seen.items()}


def _present_of(flow: Workflow, place: PlanSite, slurm: _Slurm, stored: _Store) -> dict[str, float]:
    nodes = {node for _, node in slurm.nodes.get(place.name, ())}
    idle_since = slurm.idle_since.get(place.name, {})
    return _present(flow.storages[place.storage], nodes, idle_since, stored.newest)


def _profiled(slurm: _Slurm, place: str, profiles: Iterable[NodeProfile]) -> dict[str, float]:
    """Medians of the profiles of a place's nodes, which are those of idle nodes."""
    own = _of_place(slurm, place, profiles)
    measured = {name: [v for one in own if (v := getattr(one, name))] for name in MEASURES}
    return {name: float(median(values)) for name, values in measured.items() if values}


def _speeds(flow: Workflow, slurm: _Slurm, stored: _Store) -> dict[str, run_times.PlaceSpeed]:
    """Speeds of places, against the first one when it is idle, as run times are of that.

    The reference is a profile: what is measured of the first place now says nothing of the others.
    """
    idle = {
        name: place.attributes.get(_SPEED) or _profiled(slurm, name, stored.profiles).get(_SPEED)
        for name, place in flow.places.items()
    }
    reference = next(iter(idle.values()), None)
    speeds: dict[str, run_times.PlaceSpeed] = {}
    for name, figure in idle.items():
        if figure and reference:
            place = flow.places[name]
            share = 1.0
            if _SPEED not in place.attributes:  # what the workflow says is the figure of now
                share = _present_of(flow, place, slurm, stored).get(Resource.CPU, 1.0)
            speeds[name] = run_times.PlaceSpeed(figure / reference, share)
    return speeds


def _with_figures(flow: Workflow, slurm: _Slurm, stored: _Store) -> Workflow:
    """Workflow whose places have the medians of what was measured of their nodes.

    Of CPUs that is the figure of an idle node times the share that a new process gets now.
    Links without a latency have the one that is forecast from probes between their hosts.
    """
    places = {}
    for place in flow.places.values():
        figures = _profiled(slurm, place.name, stored.profiles)
        now = _present_of(flow, place, slurm, stored)
        share = now.get(Resource.CPU, 1.0)
        figures |= {name: share * v for name, v in figures.items() if name.startswith("cpu_")}
        figures |= {name: now[one] for one, name in _DISK.items() if one in now}
        places[place.name] = structs.replace(place, attributes={**figures, **place.attributes})
    trips = (one for one in stored.series if one.resource is Resource.LATENCY)
    latencies = {(one.source, one.target): one.value for one in forecast_series(trips)}
    hosts = {name: storage.host or name for name, storage in flow.storages.items()}
    links = {
        ends: structs.replace(
            link, latency_s=latencies.get((hosts[link.source], hosts[link.target]))
        )
        if link.latency_s is None
        else link
        for ends, link in flow.links.items()
    }
    return replace(flow, places=places, links=links)


def _with_tags(flow: Workflow, tables: Mapping[str, PredictionTable]) -> Workflow:
    """Workflow whose tasks name their application as a tag does: runs join that history.

    The label that a workflow gives may have the user's name in front, or be the last part alone.
    """
    tasks = {}
    for task in flow.tasks.values():
        table = tables.get(task.name)
        owner = user_name()
        label = task.application
        if table is not None:
            owner = table.owner or owner
            label = table.key if table.level == KeyLevel.TAG else label
        label = label.removeprefix(f"{owner}/")
        if label.count("/") > 1:  # a user, application and problem, of whom nothing is known
            label = label.partition("/")[2]
        tasks[task.name] = structs.replace(task, application=label)
    return replace(flow, tasks=tasks)


def _types(slurm: _Slurm, profiles: Sequence[NodeProfile]) -> dict[str, str]:
    """Node type of each place whose nodes are all of one."""
    types = {
        place: {one.node_type for one in _of_place(slurm, place, profiles)} for place in slurm.nodes
    }
    return {place: node_types.pop() for place, node_types in types.items() if len(node_types) == 1}


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


#: A wait of so little is none, seconds.
_AT_ONCE_S = 60.0


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
