"""Nodes of a place over time, as the one estimate of waits has them.

A plan looks at a cluster by itself, and may do so without nimod.  So the queue is run forward here,
with what a refit and nimod left in the store.
"""

from math import inf

from sacct_ingest.errors import StoreError
from sacct_ingest.store.prediction_records import QUEUE, WAITS
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.slurm.availability import NodeAvailability, profile
from slurm_plugin.slurm.cluster_state import Cluster, Partition
from slurm_plugin.slurm.raw_state import RawState
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.store_access import open_store
from slurm_plugin.wait_forecasts.forecasts import Outlooks
from slurm_plugin.wait_forecasts.run_times import QueueRunTimes

#: A wait of so little is none, seconds.
_AT_ONCE_S = 60.0


def with_outlooks(look: Cluster, raw: RawState, settings: SlurmConf, config: Config) -> Cluster:
    """Give the partitions of a look their outlooks; without a store limits are all there is.

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
    changes, before = [(now_s, 0)], 0
    for nodes in range(1, partition.nodes + 1):
        wait_s = partition.wait(nodes, limit_s, now_s=now_s, begin_s=now_s).median_s
        if wait_s == inf:
            break
        start_s = now_s + (wait_s if wait_s > _AT_ONCE_S else 0.0)
        changes.append((max(start_s, changes[-1][0]), nodes - before))
        before = nodes
    return profile(changes)
