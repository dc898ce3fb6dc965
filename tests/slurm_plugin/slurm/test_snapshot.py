"""A view of the cluster from what squeue, sinfo and scontrol of Slurm 22.05 write."""

from math import exp, inf

import pytest

from sacct_ingest.errors import SlurmError
from slurm_plugin.slurm.snapshot import DAY_S, build

NOW = 1_795_256_400.0

SQUEUE = """\
4_[1-9,20%2]|PD|batch|4|1795259400|1795259700|Resources|
8|PD|debug,batch|1|N/A|N/A|Priority|
6|PD|batch|1|N/A|N/A|Dependency|(null)
5|PD|batch|1|N/A|N/A|JobHeldUser|(null)
9|PD|batch|1|N/A|N/A|QOSMaxJobsPerUserLimit|(null)
1|R|batch|2|1795256400|1795257000|None|n[1-2]
2|R|batch|1|1795256400|1795342800|None|n1
3|CG|batch|1|1795256400|1795257600|None|n3
"""

SINFO = """\
n1|batch*|alloc|2000|4
n2|batch*|mix|2000|4
n3|batch*|comp|2000|4
n4|batch*|idle|1500|4
n5|batch*|idle~|2000|4
n6|batch*|down*|2000|4
n7|batch*|drng|2000|4
n8|debug|plnd|4000+|4
n4|debug|idle|1500|4
n9|other|resv|2000|4
"""

PARTITIONS = """\
PartitionName=batch AllowGroups=ALL Default=YES DefaultTime=01:00:00 MaxNodes=UNLIMITED \
MaxTime=1-00:00:00 MinNodes=0 Nodes=n[1-7] State=UP TotalNodes=7 JobDefaults=(null)
PartitionName=debug AllowGroups=ALL Default=NO DefaultTime=NONE MaxNodes=2 \
MaxTime=UNLIMITED MinNodes=1 Nodes=n[4,8] State=DOWN TotalNodes=2 JobDefaults=(null)
PartitionName=other Default=NO DefaultTime=NONE MaxNodes=2 MaxTime=10 MinNodes=1 Nodes=n9 State=UP
"""


def view(squeue=SQUEUE, sinfo=SINFO, partitions=PARTITIONS, **fields):
    given = {"cluster": "pine", "taken_s": NOW, **fields}
    return build(squeue, sinfo, partitions, **given)


def test_limits_of_the_partitions():
    batch, debug = view().partitions["batch"], view().partitions["debug"]
    assert (batch.max_time_s, batch.default_time_s, batch.max_nodes) == (86400, 3600, None)
    assert (debug.max_time_s, debug.default_time_s, debug.max_nodes) == (None, None, 2)
    assert (batch.open, debug.open) == (True, False)
    assert batch.min_nodes == 1


def test_a_qos_of_the_partition_is_named():
    seen = view(partitions=PARTITIONS.replace("Nodes=n9", "Nodes=n9 QoS=group"))
    assert (seen.partitions["other"].qos, seen.partitions["batch"].qos) == ("group", "")


def test_nodes_that_are_down_or_draining_do_not_count():
    assert view().partitions["batch"].nodes == 5
    assert view().partitions["other"].nodes == 0


def test_the_smallest_node_tells_the_memory():
    assert view().partitions["batch"].node_mem_bytes == 1500 * 2**20


def test_nodes_become_free_when_the_limit_of_their_last_job_ends():
    free = view(squeue=SQUEUE.split("\n", 1)[1]).partitions["batch"].profile
    # n4 and n5 are idle, n3 is being cleaned up; then n2, at last n1.
    assert [free.earliest_start(n, 1.0) for n in range(1, 7)] == [
        *[NOW] * 3,
        1795257000.0,
        1795342800.0,
        inf,
    ]


def test_pending_jobs_take_the_nodes_that_backfill_planned_for_them():
    free = view().partitions["batch"].profile
    assert free.free_at(1795259399.0) == 4
    assert free.free_at(1795259400.0) == 0
    assert free.free_at(1795259700.0) == 4


def test_only_jobs_that_want_nodes_wait_in_the_queue():
    # Ten tasks of the array and job 8; its debug partition shares n4 with batch.
    assert view().partitions["batch"].queue == 11
    assert view().partitions["debug"].queue == 11
    assert view().partitions["other"].queue == 0


def test_nodes_used_by_jobs_that_are_hidden_are_not_counted_on():
    free = view(squeue="").partitions["batch"].profile
    assert free.free == (2,)


def test_the_mean_queue_follows_slowly():
    first = view(squeue="")
    second = view(taken_s=NOW + DAY_S, previous=first)
    assert first.partitions["batch"].queue_mean == 0.0
    assert second.partitions["batch"].queue_mean == pytest.approx(11 * (1 - exp(-1)))


def test_the_default_partition_is_that_of_jobs_that_name_none():
    assert view().partition("").name == "batch"
    assert view().partition("debug").name == "debug"
    assert view().partition("debug,batch") is None
    assert view().partition("nowhere") is None


@pytest.mark.parametrize(
    "broken",
    [
        {"squeue": "1|R|batch\n"},
        {"squeue": "1|R|batch|x|1|2|None|n1\n".replace("R", "PD")},
        {"sinfo": "n1 batch idle\n"},
        {"partitions": "PartitionName=batch Default=YES\n"},
        {"partitions": PARTITIONS.replace("01:00:00", "soon")},
    ],
)
def test_text_of_another_kind_is_an_error_of_ours(broken):
    with pytest.raises(SlurmError, match="something unknown"):
        view(**broken)
