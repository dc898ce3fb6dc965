"""Outlooks to look at: a small partition, its jobs, what is learned of them."""

from dataclasses import replace

from slurm_plugin.slurm.cluster_state import RawPartition, RawState
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.snapshot import build as view
from slurm_plugin.wait_forecasts.forecasts import Outlooks, QueueRunTimes
from tests.slurm_plugin.made import stored
from tests.slurm_plugin.wait_forecasts.test_simulated_queue import NOW, node, running

CONF = SlurmConf(counts_memory=False)


def queued(made, *asked, **options):
    return list(made.queued_starts().queued(*asked, **options))


def outlooks(tables=None):
    return Outlooks(QueueRunTimes(lambda: tables or stored()), stopwatch=lambda: 0.0)


def visible(*jobs, nodes=4):
    nodes = [
        node(n, cpus_used=8 * any(f"n{n}" in j.node_names for j in jobs)) for n in range(nodes)
    ]
    return RawState(nodes=nodes, jobs=jobs, partitions=[RawPartition(name="batch", default=True)])


def attached(made, state, at_s=NOW):
    return made.add_wait_forecasts(view(state, CONF, cluster="pine", taken_s=at_s), state, CONF)


def wait_s(cluster, nodes=1, limit_s=60.0):
    part = cluster.partitions["batch"]
    return part.supply.wait(nodes, limit_s, now_s=cluster.taken_s, begin_s=0.0).median_s


def full(**fields):
    return visible(*(running(n, f"n{n}", end_s=NOW + 100_000, **fields) for n in range(4)))


def learned_queue(*more):
    state = full(user="eve")
    return replace(state, jobs=[*state.jobs, *more])
