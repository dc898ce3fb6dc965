"""A cluster's nodes without their jobs: out of a view, through the store, and as runs show them."""

import msgspec

from predictor.facts import SeenNodes
from slurm_plugin.protocol.request_messages import AllocationRequest
from slurm_plugin.slurm.known_nodes import KnownNodes, idle_cluster, known_nodes, nodes_of_runs
from slurm_plugin.slurm.partition_view import partition_for
from tests.slurm_plugin.made import NOW
from tests.slurm_plugin.stored_advice.test_announced import view

SEEN = {
    "batch": SeenNodes(nodes=8, settled=True, cpus=16, gpus=0),
    "gpu": SeenNodes(nodes=2, settled=False, cpus=8, gpus=2),
}


def largest(job, seen=SEEN):
    cluster = idle_cluster(nodes_of_runs(seen, job), "pine", now_s=NOW)
    return partition_for(cluster, job).largest


def test_who_reads_what_a_busy_cluster_left_sees_it_idle():
    busy = view(free=3)
    text = msgspec.json.encode(known_nodes(busy))
    idle = idle_cluster(msgspec.json.decode(text, type=KnownNodes), "pine", now_s=NOW)
    for job in (AllocationRequest(), AllocationRequest(min_mem_per_node=4000, min_nodes=2)):
        as_it_is, empty = partition_for(busy, job), partition_for(idle, job)
        assert as_it_is.profile.free_at(NOW) == 3
        assert empty.profile.free_at(NOW) == as_it_is.largest == empty.largest == 8
        assert empty.max_time_s == as_it_is.max_time_s
    assert idle.keeps_limit is busy.keeps_limit


def test_runs_show_how_many_nodes_a_partition_has():
    assert largest(AllocationRequest(partition="batch")) == 8
    # Where nothing ran, and where no partition is named, as elsewhere.
    assert largest(AllocationRequest(partition="other")) == 8
    assert largest(AllocationRequest()) == 8
    # Ever new nodes are named: there are at least as many as a job asks for.
    assert largest(AllocationRequest(partition="gpu", min_nodes=5)) == 5


def test_a_node_has_at_least_what_a_job_asks_for_of_it():
    for asked in (
        {"cpus_per_task": 12, "tres_per_node": "gres/gpu:4"},
        {"tres_per_node": "gres/gpu:a100:2,gres/nic:1"},
        {"features": "ib&big|ssd", "min_mem_per_node": 10**6, "exc_nodes": "n1"},
    ):
        assert largest(AllocationRequest(partition="gpu", **asked)) == 2
