"""Fields of requests that would cost nimod its memory or its time."""

import subprocess
import sys
from importlib import import_module
from itertools import count

import pytest

from slurm_plugin.config.settings import OptIn
from slurm_plugin.decision.submitted_job import SubmittedJob
from slurm_plugin.slurm.footprint import devices, gpu_count
from tests.sacct_ingest.test_hostile_texts import full, takes_little
from tests.slurm_plugin.made import job


def submitted(**fields):
    return SubmittedJob.of(job(**fields), None)


PARSERS = [
    (
        "slurm_plugin.decision.eligibility",
        lambda m: lambda text: m.span_of(
            submitted(script=text, min_nodes=1, max_nodes=4), OptIn()
        ),
        [
            full("#SBATCH -N 2 \n"),
            full(" ", before="#SBATCH -N 2", after="x"),
            full("1,", before="#SBATCH -N 1,", after="x"),
            full("9", before="#SBATCH -N 1,"),
            full("\n", before="#SBATCH"),
        ],
    ),
    (
        "slurm_plugin.decision.eligibility",
        lambda m: lambda text: m.span_of(submitted(dependency=text), OptIn()),
        [full(",expand"), full("?")],
    ),
    (
        "slurm_plugin.slurm.footprint",
        lambda m: m.devices,
        [full("gres/"), full("gres:", after="="), full("gres/a,"), full("9", before="gres/gpu:")],
    ),
    (
        "slurm_plugin.slurm.converters",
        lambda m: m.gres,
        [full("a", after="("), full("(", before="gpu:1"), full("gpu:1(IDX:0),"), full(":")],
    ),
    (
        "slurm_plugin.slurm.converters",
        lambda m: m.array_tasks,
        [full("0-9,", before="4_[", after="1]"), full("_[", after="-"), full("]", before="0-")],
    ),
    (
        "slurm_plugin.slurm.node_pool",
        lambda m: m.alternatives,
        [full("a"), full("a|", after="]"), full("a&", after="a"), full("|")],
    ),
    (
        "sacct_ingest.text.admin_comment",
        lambda m: m.parse,
        [full(" NIMO1:0123456789ab:n=1,req=1-1,t="), full("1", before="NIMO1:0123456789ab:n=")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "parser", "text"),
    [(name, parser, text) for name, parser, texts in PARSERS for text in texts],
    ids=map("{}".format, count()),
)
def test_the_worst_text_takes_time_in_proportion_to_its_length(name, parser, text):
    takes_little(parser(import_module(name)), text)


def test_a_long_list_of_devices_is_not_read():
    long = "gres/gpu:1," * 1000
    assert (devices(long), gpu_count(long)) == ((), None)
    assert gpu_count(long[:4000]) == 363


def test_a_billion_excluded_nodes_take_no_memory():
    """In a process that may have little more memory than it has once it is loaded."""
    program = """
import resource
from slurm_plugin.slurm.node_pool import NodeGroup, NodePool, NodeShare
group = NodeGroup(cpus=8, mem_mib=100, steps=((0.0, 8, 100, ()),), empty_s=0.0)
pool = NodePool(now_s=0.0, groups={group: ("n1", "n2", "gpu1")})
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 32 * 2**20,) * 2)
for excluded, total in (("n[1-1000000000]", 1), ("n[2-1000000000],x", 2), ("n[1-", 3)):
    share = NodeShare(excluded=excluded)
    assert pool.fitting(share)[1] == total == len(pool.names(share)), excluded
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
