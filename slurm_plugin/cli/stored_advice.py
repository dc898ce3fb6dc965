"""Advice without nimod: the same decision service, with the stored tables for one job."""

from collections.abc import Iterable

from predictor.types import PredictionTable
from sacct_ingest.records import Identity, KeyLevel
from sacct_ingest.store import FitRow
from slurm_plugin.cli.own_history import refreshed
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.context import PartitionContext
from slurm_plugin.decision.lookup import PredictionLookup, identity_of, shared_by
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.protocol.advice_messages import Advice
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.store_access import open_store


def advise(job: Job, config: Config, *, now_s: float, local: bool = False) -> Advice:
    """Advise on a job from the configured store, which has no state of the queue.

    local: from the user's own history instead, brought up to date.
    Raises StoreError: there is no store, or it cannot be read.
    """
    identity = identity_of(job)
    if local:
        keys = [(level, key) for level in KeyLevel if (key := identity.key(level))]
        config = refreshed(config, keys, program="nimo-advise")
    tables, places = _read(job, config, identity)
    advisor = DecisionService(config, new_id=str)
    advisor.tables = tables
    return advisor.advise_at(job, places, now_s=now_s)


def _read(
    job: Job, config: Config, identity: Identity
) -> tuple[PredictionLookup, list[PartitionContext]]:
    """Give the tables for one job, and the partitions where it may run."""
    shared = tuple(shared_by(config.sharing.tags, identity, job.account))
    keys = [(level, key) for level in KeyLevel if (key := identity.key(level))]
    keys += [(KeyLevel.TAG, key) for key in shared]
    with open_store(config) as store:
        rows = list(store.fits.find(keys))
        rows += store.fits.find(_lookup(rows).parts())
        tables = _lookup(rows)
        table = tables.find(identity, shared=shared)
        if table is None or not table.node_type:
            return tables, []
        ran = store.sums.partition_types()
    return tables, places_of(table, ran, config.cluster, job.partition)


def _lookup(rows: Iterable[FitRow]) -> PredictionLookup:
    return PredictionLookup((row.level, row.key, row.payload) for row in rows)


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
