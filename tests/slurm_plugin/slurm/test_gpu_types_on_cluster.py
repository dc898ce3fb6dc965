"""Types of GPUs as a real Slurm says them, and the options that ask for them."""

import time

import pytest

from slurm_plugin.config.setting_types import Source
from slurm_plugin.config.settings import Snapshot
from slurm_plugin.decision.sizes import gpu_options, with_gpu_type
from slurm_plugin.slurm.node_pool import NodeShare
from slurm_plugin.slurm.poller import ClusterPoller
from tests.slurm_plugin.made import job

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(slurm_cluster):
    with slurm_cluster(nodes=2, gpus=2, gpu_types=("A100", "v100")) as made:
        yield made


@pytest.mark.releases
@pytest.mark.parametrize("source", [Source.TEXT, Source.JSON])
def test_nodes_have_the_type_of_their_gpus(cluster, source):
    def run(argv, *, timeout_s):
        env = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
        return cluster.run(*argv, env=env, timeout_s=timeout_s).stdout

    poller = ClusterPoller(time.time, run=run, how=Snapshot(source=source, timeout_s=60.0))
    pool = poller.look().partitions["batch"].pool
    by_type = {group.gpu_type: names for group, names in pool.groups.items()}
    assert by_type == {"A100": ("n1",), "v100": ("n2",)}
    assert list(pool.names(NodeShare(gres=(("gpu", 1),), gpu_type="v100"))) == ["n2"]
    assert list(pool.names(NodeShare(gres=(("gpu", 1),), gpu_type="a100"))) == ["n1"]


@pytest.mark.parametrize("field", ["tres_per_job", "tres_per_node", "tres_per_task"])
@pytest.mark.parametrize(("gpu_type", "node"), [("A100", "n1"), ("v100", "n2")])
def test_slurm_takes_the_options(cluster, field, gpu_type, node):
    option = gpu_options(with_gpu_type(job(**{field: "gres/gpu:1"}), gpu_type))
    job_id = cluster.sbatch("-N1", "-n1", option, "--wrap", "true")
    cluster.wait(job_id)
    assert cluster.job(job_id)["NodeList"] == node
