"""A plan's data of the site: nodes and limits from Slurm, run times from the store.

What few plans need is loaded where it is needed: a small plan is mostly loading.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from msgspec import structs

from predictor.forecasts.forecasters import forecast_series
from predictor.forecasts.transfer_time import transfer_time
from predictor.prediction_table import PredictionTable
from sacct_ingest.errors import NoHistory, StoreError
from sacct_ingest.probes.agreement import MEASURES
from sacct_ingest.records import KeyLevel, NodeProfile, Probe, Resource
from sacct_ingest.runs.sharing import SharedTag
from slurm_plugin.config.settings import Config
from slurm_plugin.experiments.learn.description import INPUT_BYTES
from slurm_plugin.experiments.plan import run_times
from slurm_plugin.experiments.plan.schedule import PlanningProblem
from slurm_plugin.experiments.plan.slurm_places import (
    SlurmPlaces,
    empty_places,
    places_in_slurm,
    task_request,
)
from slurm_plugin.experiments.plan.state_file import Submitted
from slurm_plugin.experiments.plan.workflow import PlanSite, Storage, Task, Workflow, link_ends
from slurm_plugin.slurm.job_request import user_name
from slurm_plugin.store_access import load_tables, matching_tables, open_store, own_tables

if TYPE_CHECKING:
    from predictor.occupancy.application_model import OccupancyFit, Sample
    from sacct_ingest.store import Store

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
_OR_GIVE = (
    "or give its run_time (run_times in the file of --site), samples, or a --time in sbatch within "
    "which it is guessed"
)
#: An older probe says nothing about now.
_PRESENT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    """What the store says."""

    tables: Mapping[str, PredictionTable]
    series: Sequence[Probe]
    profiles: Sequence[NodeProfile]
    newest: Sequence[Probe] = ()  #: of each series, if it tells of now
    fits: Mapping[str, OccupancyFit] = field(default_factory=dict)


_NOTHING_STORED = _Store(tables={}, series=(), profiles=())


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
    slurm = empty_places(flow, now_s) if empty else places_in_slurm(flow, config, now_s, submitted)
    # A store takes longer to load than all else of a small plan: only what may be used is read.
    tasks = flow.tasks.values()
    used = slurm.nodes or flow.links or any(task.samples or _by_history(task) for task in tasks)
    stored = _stored(flow, config, now_s) if used else _NOTHING_STORED
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


def _by_history(task: Task) -> bool:
    return task.samples == run_times.HISTORY or not (task.run_times_s or task.samples)


def _stored(flow: Workflow, config: Config, now_s: float) -> _Store:
    """Read what the workflow does not say itself; without a store there are no node profiles."""
    labels = {
        task.name: task.application or f"{flow.name}/{task.name}"
        for task in flow.tasks.values()
        if _by_history(task)
    }
    measured = any(link.bandwidth_bytes_per_s is None for link in flow.links.values())
    probed = measured or any(link.latency_s is None for link in flow.links.values())
    try:
        opened = open_store(config)
    except StoreError as error:
        if labels:
            place = f"tasks.{next(iter(labels))}"
            raise StoreError(f"{place}: its run time is not known: {error}; {_OR_GIVE}") from error
        if measured:
            raise StoreError(f"links: a bandwidth is not known: {error}; or give it") from error
        return _NOTHING_STORED
    with opened as store:
        all_tables = load_tables(store)
        tables = {}
        new: dict[str, NoHistory] = {}
        for name, label in labels.items():
            try:
                tables[name] = own_tables(matching_tables(all_tables, label))[0]
            except NoHistory as error:
                new[name] = error
        if new:
            tables |= _guessed(store, flow, labels, new, config, now_s)
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


def _guessed(
    store: Store,
    flow: Workflow,
    labels: Mapping[str, str],
    new: Mapping[str, NoHistory],
    config: Config,
    now_s: float,
) -> dict[str, PredictionTable]:
    """Guess the run times of tasks that never ran.

    labels: names of applications, by task.
    new: those tasks, and why each has no run times.
    Raises NoHistory: there is no guess of some task.
    """
    from predictor.neighbours import Neighbours  # noqa: PLC0415
    from sacct_ingest.store.fits import NEIGHBOURS  # noqa: PLC0415
    from slurm_plugin.experiments.plan.first_runs import guess  # noqa: PLC0415

    past = Neighbours(store.records.find(*NEIGHBOURS))
    tables = {}
    for name, error in new.items():
        task = flow.tasks[name]
        place = flow.places[next(iter(task.places or flow.places))]
        guessed = guess(past, task, task_request(task, place, now_s), labels[name], config)
        if guessed is None:
            raise NoHistory(f"tasks.{name}: {error}; {_OR_GIVE}") from error
        tables[name] = guessed
    return tables


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
    from predictor.occupancy.samples import history_samples  # noqa: PLC0415

    rows = store.runs.of_key(KeyLevel(table.level), table.key)
    for tags in () if rows else shared:
        rows = rows or dict(store.runs.shared(tags)).get(table.key, [])
    steps = store.runs.steps_of(row.run_id for row in rows)
    return history_samples(rows, steps, profiles)


def _said(flow: Workflow, task: Task) -> dict[str, float]:
    """Attributes that a task sets itself: what it reads, and what its options ask for."""
    job = task_request(task, next(iter(flow.places.values())), 0.0)
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


def _of_place(slurm: SlurmPlaces, place: str, profiles: Iterable[NodeProfile]) -> list[NodeProfile]:
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


def _present_of(
    flow: Workflow, place: PlanSite, slurm: SlurmPlaces, stored: _Store
) -> dict[str, float]:
    nodes = {node for _, node in slurm.nodes.get(place.name, ())}
    idle_since = slurm.idle_since.get(place.name, {})
    return _present(flow.storages[place.storage], nodes, idle_since, stored.newest)


def _profiled(slurm: SlurmPlaces, place: str, profiles: Iterable[NodeProfile]) -> dict[str, float]:
    """Medians of the profiles of a place's nodes, which are those of idle nodes."""
    own = _of_place(slurm, place, profiles)
    measured = {name: [v for one in own if (v := getattr(one, name))] for name in MEASURES}
    return {name: float(median(values)) for name, values in measured.items() if values}


def _speeds(flow: Workflow, slurm: SlurmPlaces, stored: _Store) -> dict[str, run_times.PlaceSpeed]:
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


def _with_figures(flow: Workflow, slurm: SlurmPlaces, stored: _Store) -> Workflow:
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


def _types(slurm: SlurmPlaces, profiles: Sequence[NodeProfile]) -> dict[str, str]:
    """Node type of each place whose nodes are all of one."""
    types = {
        place: {one.node_type for one in _of_place(slurm, place, profiles)} for place in slurm.nodes
    }
    return {place: node_types.pop() for place, node_types in types.items() if len(node_types) == 1}
