"""Nodes of a place over time, by the one estimate of waits."""

from math import inf

import msgspec
import pytest

from predictor.waits.workload import LimitShares, QueuePast, encode
from sacct_ingest.store import Store
from sacct_ingest.store.fits import QUEUE
from sacct_ingest.store.rows import RecordRow
from slurm_plugin.config.settings import Config
from slurm_plugin.experiments.plan.slurm_places import expected_nodes, with_outlooks
from slurm_plugin.slurm.cluster_state import RawPartition, RawState
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.snapshot import build
from tests.slurm_plugin.wait_forecasts.test_simulated_queue import NOW, node, pending, running

CONF = SlurmConf(counts_memory=False, whole_nodes=True)


def look(store_url, *, waiting=()):
    """Four nodes: two are free, two run until their limit in 100,000 s."""
    jobs = [running(n, f"n{n}", end_s=NOW + 100_000, user="eve", limit_s=100_050) for n in (2, 3)]
    raw = RawState(
        nodes=[node(n, cpus_used=8 * (n > 1)) for n in range(4)],
        jobs=[*jobs, *waiting],
        partitions=[RawPartition(name="batch", default=True)],
    )
    cluster = build(raw, CONF, cluster="pine", taken_s=NOW)
    config = msgspec.structs.replace(Config(), store=store_url)
    return with_outlooks(cluster, raw, CONF, config).partitions["batch"]


@pytest.fixture
def store_url(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    with Store.open(url) as store:
        past = QueuePast(shares=LimitShares(site=(-4.0,) * 3))
        store.records.put(RecordRow(level=QUEUE, key="pine", payload=encode(past)))
    return url


def test_nodes_are_free_when_their_jobs_are_expected_to_end(store_url):
    free = expected_nodes(look(store_url), 3_600.0, now_s=NOW)
    assert free.free_at(NOW) == 2
    assert free.earliest_start(4, 60.0) - NOW == pytest.approx(100_050 * 0.0183 - 50, rel=0.2)
    assert free.earliest_start(5, 60.0) == inf


def test_without_a_store_limits_are_all_there_is(tmp_path):
    part = look(f"sqlite:///{tmp_path}/no/such/store.db")
    free = expected_nodes(part, 3_600.0, now_s=NOW)
    assert free.free_at(NOW) == 2
    assert free.earliest_start(4, 60.0) - NOW == pytest.approx(100_000, rel=0.1)
    # Nor is anything else where the queue was not run forward.
    alone = msgspec.structs.replace(part, outlook=None)
    assert expected_nodes(alone, None, now_s=NOW) is part.profile


def test_short_jobs_pass_those_that_wait_and_long_ones_do_not(store_url):
    first = pending(9, nodes=3, submit_s=NOW - 5, limit_s=50_000.0)
    part = look(store_url, waiting=[first])
    assert expected_nodes(part, 600.0, now_s=NOW).free_at(NOW) == 2
    assert expected_nodes(part, None, now_s=NOW).free_at(NOW) < 2
