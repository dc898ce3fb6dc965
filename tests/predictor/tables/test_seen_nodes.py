"""What runs show of the nodes of each partition."""

from predictor.facts import SeenNodes
from predictor.tables.seen_nodes import seen_nodes
from tests.predictor.rows import row, submitted


def ran(lists, **given):
    """Runs with these lists of nodes, the newest first."""
    made = {"cluster": "pine", "partition": "batch", "nodes": 1, "cpus": 4} | given
    return [submitted(row(number, 60.0), node_list=text, **made) for number, text in lists]


def test_nodes_that_runs_name_are_settled_once_no_new_ones_come():
    lists = list(enumerate(["n1", "n2", "n[1-2]", "n1"], 1))
    seen = seen_nodes(ran(lists, cpus=16, gpus=2))
    assert seen == {("pine", "batch"): SeenNodes(nodes=2, settled=True, cpus=16, gpus=2)}
    growing = seen_nodes(ran([(1, "n3"), *lists[1:]]))["pine", "batch"]
    assert (growing.nodes, growing.settled) == (3, False)


def test_each_partition_has_its_own_and_the_widest_run_counts_where_none_are_named():
    runs = ran([(1, ""), (2, "")], nodes=4, cpus=32) + ran([(3, "")], partition="gpu", gpus=1)
    seen = seen_nodes(runs)
    assert seen["pine", "batch"] == SeenNodes(nodes=4, settled=False, cpus=8, gpus=0)
    assert seen["pine", "gpu"] == SeenNodes(nodes=1, settled=False, cpus=4, gpus=1)
