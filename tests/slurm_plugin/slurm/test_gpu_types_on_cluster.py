"""Types of GPUs as a real Slurm says them, and the options that ask for them."""

import time

import pytest

from sacct_ingest.runs.layout import Layout
from sacct_ingest.sources.columns import gpu_types
from slurm_plugin.config.setting_types import Source
from slurm_plugin.config.settings import Snapshot
from slurm_plugin.decision.other_layouts import layout_rows
from slurm_plugin.decision.sizes import gpu_options, with_gpu_type
from slurm_plugin.slurm.node_pool import NodeShare
from slurm_plugin.slurm.poller import ClusterPoller
from tests.processes import wait_until
from tests.slurm_plugin.made import job, table

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(slurm_cluster):
    types = ("AccountingStorageTRES=gres/gpu,gres/gpu:A100,gres/gpu:v100",)
    with slurm_cluster(nodes=2, gpus=2, gpu_types=("A100", "v100"), conf=types) as made:
        yield made


def view(cluster, source=Source.TEXT):
    def run(argv, *, timeout_s):
        env = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
        return cluster.run(*argv, env=env, timeout_s=timeout_s).stdout

    poller = ClusterPoller(time.time, run=run, how=Snapshot(source=source, timeout_s=60.0))
    return poller.look()


@pytest.mark.releases
@pytest.mark.parametrize("source", [Source.TEXT, Source.JSON])
def test_nodes_have_the_type_of_their_gpus(cluster, source):
    pool = view(cluster, source).partitions["batch"].pool
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


@pytest.mark.releases
def test_slurm_takes_the_options_of_layouts_that_ran(cluster):
    def recorded(job_id):
        listed = cluster.run("sacct", "-X", "-n", "-P", "-j", str(job_id), "-o", "AllocTRES")
        return gpu_types(listed.stdout.strip())

    layouts = []
    for gpu_type in ("A100", "v100"):
        asked = ("-N1", "--ntasks-per-node=1", f"--gpus-per-node={gpu_type}:2")
        job_id = cluster.sbatch(*asked, "--wrap", "true")
        cluster.wait(job_id)
        wait_until(lambda job_id=job_id: recorded(job_id), what="the accounting")
        counted = recorded(job_id)
        assert counted == f"{gpu_type.lower()}=2"
        layouts.append(Layout(1, gpus=2, gpu_type=counted.partition("=")[0]))
    tables = [table(key=layout.gpu_type, layout=layout) for layout in layouts]
    rows = layout_rows(tables, tables[0], 1, view(cluster).gpu_types())
    for row, node in zip(rows, ("n1", "n2"), strict=True):
        tested = cluster.run("sbatch", "--test-only", *row.options.split(), "--wrap", "true")
        assert f"on nodes {node} in partition" in tested.stdout + tested.stderr
