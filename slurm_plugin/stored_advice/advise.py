"""Advice without nimod: the same decision service, with the stored tables for one job."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import msgspec
from msgspec import structs

from predictor.facts import SeenNodes
from predictor.neighbours import Neighbours
from predictor.prediction_table import PredictionTable
from sacct_ingest.records import Identity, KeyLevel
from sacct_ingest.runs.layout import Layout
from sacct_ingest.runs.submission import SCRIPT
from sacct_ingest.store import FitRow, RunRow, Store
from sacct_ingest.store.fits import NEIGHBOURS, NODES, SEEN_NODES
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.lookup import PredictionLookup, shared_by
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.decision.situation import PartitionContext
from slurm_plugin.decision.submitted_job import identity_of
from slurm_plugin.protocol.advice_messages import Advice
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.cluster_state import Cluster
from slurm_plugin.slurm.job_request import make_job
from slurm_plugin.slurm.known_nodes import KnownNodes, idle_cluster, nodes_of_runs
from slurm_plugin.store_access import last_runs, open_store
from slurm_plugin.stored_advice.named_application import RUNS, usual_job_named, usual_request
from slurm_plugin.stored_advice.usual_job import UsualJob, usual_job, without_default_memory


def advise(job: Job, config: Config, *, now_s: float) -> Advice:
    """Advise on a job from the configured store, which has no state of the queue.

    Raises StoreError: there is no store, or it cannot be read.
    """
    identity = identity_of(job)
    with open_store(config) as store:
        tables, places = _read(store, job, config, identity)
        cluster = _cluster(store, job, config.cluster, now_s=now_s)
    return _advised(job, config, tables, cluster, places, now_s=now_s)


def advise_named(name: str, config: Config, *, user: str, now_s: float) -> Advice:
    """Advise on the job that a named application's runs usually were, from the configured store.

    user: who asks.
    Raises NoHistory: no run of such an application has finished; StoreError: there is no store, or
        it cannot be read.
    """
    with open_store(config) as store:
        usual = usual_job_named(store, name, user)
        cluster = _cluster_of(store, usual, config, now_s=now_s)
        if cluster is not None:
            usual = without_default_memory(usual, cluster)
        advice = _advise_there(store, usual, config, cluster, now_s=now_s)
    return replace(advice, usual=usual_request(usual, advice, cluster))


def advise_named_by(
    service: DecisionService,
    store: Store,
    name: str,
    submitter: Job,
    advise_on: Callable[[Job], Advice],
    *,
    own_only: bool,
) -> Advice:
    """Advise as `advise_named` does, by a service that has the tables and sees the queue.

    submitter: a request that says who asks.
    advise_on: has the service advise on a request.
    own_only: whether users must not see each other's jobs.
    Raises NoHistory: no run of such an application has finished.
    """
    usual = usual_job_named(store, name, submitter.user_name, own_only=own_only)
    cluster = service.cluster
    if cluster is not None:
        usual = without_default_memory(usual, cluster)
    job = structs.replace(make_job(usual.fields()), user_id=submitter.user_id)
    with _tables_of_run(service, usual.run):
        advice = advise_on(job)
    return replace(advice, usual=usual_request(usual, advice, cluster))


@contextmanager
def _tables_of_run(service: DecisionService, run: RunRow) -> Iterator[None]:
    """Have a service advise on jobs like a run, whose script is not known."""
    tables = service.tables
    service.tables = TablesOfRun(tables, run)
    try:
        yield
    finally:
        service.tables = tables


def advise_usual(
    store: Store, table: PredictionTable, config: Config, *, now_s: float
) -> tuple[UsualJob, Advice] | None:
    """Advise on the job that the runs of a table usually were; None: none of them has finished.

    It is what `advise` says of the same request.
    """
    usual = usual_job(table, last_runs(store, table, RUNS))
    if usual is None:
        return None
    cluster = _cluster_of(store, usual, config, now_s=now_s)
    if cluster is not None:
        usual = without_default_memory(usual, cluster)
    return usual, _advise_there(store, usual, config, cluster, now_s=now_s)


def advise_like(store: Store, usual: UsualJob, config: Config, *, now_s: float) -> Advice:
    """Advise on a job with these options that is like a run: tables are found by its keys."""
    cluster = _cluster_of(store, usual, config, now_s=now_s)
    return _advise_there(store, usual, config, cluster, now_s=now_s)


def _cluster_of(store: Store, usual: UsualJob, config: Config, *, now_s: float) -> Cluster | None:
    """Give the cluster, without its jobs, where jobs like a run are submitted; None: not known."""
    job = make_job(usual.fields())
    return _cluster(store, job, config.cluster or usual.run.cluster, now_s=now_s)


def _advise_there(
    store: Store, usual: UsualJob, config: Config, cluster: Cluster | None, *, now_s: float
) -> Advice:
    """Advise on a job that is like a run, by the nodes of a cluster."""
    job = make_job(usual.fields())
    tables, places = _read(store, job, config, usual.run.identity, usual.run)
    return _advised(job, config, tables, cluster, places, now_s=now_s)


def tables_like(store: Store, usual: UsualJob, config: Config) -> PredictionLookup:
    """Give the tables for jobs that are like a run."""
    return _read(store, make_job(usual.fields()), config, usual.run.identity, usual.run)[0]


def _advised(
    job: Job,
    config: Config,
    tables: PredictionLookup,
    cluster: Cluster | None,
    places: Sequence[PartitionContext],
    *,
    now_s: float,
) -> Advice:
    advisor = DecisionService(config, new_id=str)
    advisor.tables = tables
    if cluster is not None:
        advisor.cluster = cluster
    return advisor.advise_at(job, places, now_s=now_s)


class TablesOfRun(PredictionLookup):
    """Tables for jobs like a run, whose script and arguments the store does not have."""

    def __init__(self, tables: PredictionLookup, run: RunRow) -> None:
        super().__init__(
            version=tables.version,
            off=tables.off,
            node_types=tables.node_types,
            neighbours=tables.neighbours,
        )
        self._states = tables._states
        self._run = run

    def find(
        self,
        identity: Identity,  # noqa: ARG002 - of a script that is not known
        layouts: tuple[Layout, ...] | None = None,
        *,
        shared: Sequence[str] = (),
        attributes: Callable[[], Mapping[str, str]] = dict,
        acting: bool = False,
    ) -> PredictionTable | None:
        """Find the table that says most about jobs with the run's keys and attributes."""
        run = self._run

        def named() -> dict[str, str]:
            return {**run.attributes, **attributes(), SCRIPT: run.script}

        return super().find(run.identity, layouts, shared=shared, attributes=named, acting=acting)


def _read(
    store: Store, job: Job, config: Config, identity: Identity, run: RunRow | None = None
) -> tuple[PredictionLookup, list[PartitionContext]]:
    """Give the tables for one job, and the partitions where it may run.

    run: one with the job's keys and attributes, where its script is not known.
    """
    shared = tuple(shared_by(config.sharing.tags, identity, job.account))
    keys = [(level, key) for level in KeyLevel if (key := identity.key(level))]
    keys += [(KeyLevel.TAG, key) for key in shared]
    rows = list(store.fits.find(keys))
    rows += store.fits.find(PredictionLookup(map(_payload, rows)).parts())
    past = None if run else Neighbours(store.records.find(*NEIGHBOURS))
    tables = PredictionLookup(map(_payload, rows), neighbours=past)
    if run:
        tables = TablesOfRun(tables, run)
    table = tables.find(identity, shared=shared)
    if table is None or not table.node_type:
        return tables, []
    ran = store.sums.partition_types()
    return tables, places_of(table, ran, config.cluster, job.partition)


def _cluster(store: Store, job: Job, name: str, *, now_s: float) -> Cluster | None:
    """Give a cluster without its jobs, as Slurm showed it or else its runs do; None: neither did.

    name: of the cluster; empty: the only one of the store.
    """
    shown = store.records.of_level(NODES)
    seen = store.records.of_level(SEEN_NODES)
    clusters = {*shown, *seen}
    if not name and len(clusters) == 1:
        (name,) = clusters
    if name in shown:
        known = msgspec.json.decode(shown[name], type=KnownNodes)
    elif name in seen:
        of_runs = msgspec.json.decode(seen[name], type=dict[str, SeenNodes])
        known = nodes_of_runs(of_runs, job)
    else:
        return None
    return idle_cluster(known, name, now_s=now_s)


def _payload(row: FitRow) -> tuple[str, str, str]:
    return row.level, row.key, row.payload


def places_of(
    table: PredictionTable, ran: Iterable[tuple[str, str, str]], cluster: str, requested: str
) -> list[PartitionContext]:
    """Give the partitions whose runs were on one type of node; other types without a partition.

    ran: cluster, partition and node type of runs.
    requested: partitions that the job requests; their node types may be unknown.
    """
    node_types: dict[str, set[str]] = {}
    for at, partition, node_type in ran:
        if cluster in ("", at):
            node_types.setdefault(partition, set()).add(node_type)
    names_requested = set(filter(None, requested.split(",")))
    types = [table.node_type, *(one.node_type for one in table.by_type)]
    contexts = [
        PartitionContext(min(names), partition)
        for partition, names in sorted(node_types.items())
        if len(names) == 1
        and names <= set(types)
        and (not names_requested or partition in names_requested)
    ]
    if contexts and names_requested:
        return contexts
    covered = {place.node_type for place in contexts}
    return contexts + [PartitionContext(one) for one in sorted(set(types) - covered)]
