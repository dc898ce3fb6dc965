"""Types of GPUs among the places, and nodes of other types are none for a job that names one."""

import msgspec
import pytest

from sacct_ingest.runs.layout import Layout
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.decision.sizes import gpu_options, with_gpu_type
from slurm_plugin.slurm.cluster_state import Cluster
from slurm_plugin.slurm.node_pool import NodeGroup, NodePool, NodeShare
from tests.slurm_plugin.decision.test_node_types import partition
from tests.slurm_plugin.made import NOW, job, stored, table, thrifty

LATER_S = 7200.0


def gpu_nodes(**free_s):
    """A partition with eight nodes of each type of GPU, free from then on."""
    groups = {
        NodeGroup(
            cpus=4, mem_mib=1000, gres=(("gpu", 2),), gpu_type=name,
            steps=((NOW + at_s, 4, 1000, (("gpu", 2),)),), empty_s=NOW + at_s,
        ): tuple(f"{name}{i}" for i in range(8))
        for name, at_s in free_s.items()
    }  # fmt: skip
    pool = NodePool(now_s=NOW, groups=groups)
    made = partition("gpu", "a")
    free, count = pool.fitting(NodeShare())
    return msgspec.structs.replace(made, nodes=count, profile=free, pool=pool)


def advised(**asked):
    made = DecisionService(thrifty(), new_id=str)
    made.tables = stored(table(layout=Layout(gpus=2, gpu_type="")))
    part = gpu_nodes(a100=LATER_S, v100=0.0)
    made.cluster = Cluster(
        name="pine", taken_s=NOW, partitions={"gpu": part}, default_partition="gpu"
    )
    return made.advise(job(**asked), now_s=NOW)


def test_each_type_of_gpu_is_a_place():
    advice = advised(tres_per_node="gres/gpu:2", partition="gpu")
    rows = {row.gpu_type: row for row in advice.partitions}
    assert rows.keys() == {"a100", "v100"}
    assert (rows["a100"].wait_s, rows["v100"].wait_s) == (pytest.approx(LATER_S), 0.0)
    assert all(row.own for row in rows.values())
    assert rows["v100"].recommended


def test_a_job_that_names_a_type_waits_for_nodes_of_that_type():
    waits = {
        name: next(row.wait_s for row in advised(tres_per_node=f"gres/gpu:{name}:2").rows)
        for name in ("a100", "v100", "A100")
    }
    assert waits == {"a100": pytest.approx(LATER_S), "v100": 0.0, "A100": pytest.approx(LATER_S)}


@pytest.mark.parametrize(
    ("field", "asked", "option"),
    [
        ("tres_per_job", "gres/gpu:2", "--gpus=a100:2"),
        ("tres_per_node", "gres:gpu:4", "--gpus-per-node=a100:4"),
        ("tres_per_node", "gres/gpu=4,gres/nic:1", "--gpus-per-node=a100:4"),
        ("tres_per_task", "gres/gpu", "--gpus-per-task=a100:1"),
        ("tres_per_node", "gpu:1", "--gpus-per-node=a100:1"),
    ],
)
def test_the_options_ask_for_the_type(field, asked, option):
    typed = with_gpu_type(job(**{field: asked}), "a100")
    assert gpu_options(typed) == option
    assert "nic:1" in getattr(typed, field) or "nic" not in asked


def test_other_devices_are_no_gpus():
    one = job(tres_per_node="gres/mygpu:2,gres/gpu:v100:1")
    assert with_gpu_type(one, "a100") == one
