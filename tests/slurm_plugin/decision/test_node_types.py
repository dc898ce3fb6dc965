"""Jobs are decided on by the type of the nodes that they would get; partitions side by side."""

from dataclasses import replace

import pytest

from predictor.prediction_table import ByType, Tail
from predictor.types import Verdict
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.decision.situation import PartitionContext
from slurm_plugin.slurm.cluster_state import Cluster, Partition
from slurm_plugin.slurm.node_pool import NodeGroup, NodePool, NodeShare
from slurm_plugin.stored_advice.advise import places_of
from tests.slurm_plugin.made import NOW, job, stored, table, thrifty
from tests.slurm_plugin.reports.rows import advised

TYPES = {("pine", f"a{i}"): "amber" for i in range(8)} | {
    ("pine", f"c{i}"): "cedar" for i in range(8)
}


def by_type(verdict=Verdict.RELIABLE, runs=2):
    """Cedar: all takes a third of the time."""
    base = table()
    third = tuple(t / 3 for t in base.median_s)
    return ByType(
        node_type="cedar", model="averaged, aprof", verdict=verdict, problems=(), nodes=base.nodes,
        median_s=third, low_s=tuple(t / 1.1 for t in third), high_s=tuple(t * 1.1 for t in third),
        curve_sd=base.curve_sd, verdicts=(verdict,) * len(third), observed=(), knee=8,
        max_useful=None, runs=runs, tails=(Tail(0.9, third),),
    )  # fmt: skip


def learned(**given):
    return table(node_type="amber", widest=16, **{"by_type": (by_type(),), **given})


def partition(name, nodes, features="", **given):
    groups = {
        NodeGroup(
            cpus=4, mem_mib=1000, features=frozenset({kind}), steps=((NOW, 4, 1000, ()),),
            empty_s=NOW,
        ): tuple(f"{kind}{i}" for i in range(8))
        for kind in nodes
    }  # fmt: skip
    pool = NodePool(now_s=NOW, groups=groups)
    free, count = pool.fitting(NodeShare())
    own = {"mem_cpu_mib": 0, "exclusive": True}
    return Partition(name=name, nodes=count, profile=free, pool=pool, **own | given)


def advisor(prediction, **partitions):
    made = DecisionService(thrifty(), new_id=lambda: "0" * 12)
    made.tables = stored(prediction, node_types=TYPES)
    made.cluster = Cluster(
        name="pine", taken_s=NOW, partitions=partitions, default_partition=next(iter(partitions))
    )
    return made


def advise(prediction, **asked):
    parts = {
        "slow": partition("slow", "a"),
        "fast": partition("fast", "c"),
        "mixed": partition("mixed", "ac"),
        "closed": partition("closed", "c", allowed_qos=frozenset({"special"})),
    }
    return advisor(prediction, **parts).advise(job(**asked), now_s=NOW)


def time_on(advice, nodes):
    return next(row.time_s for row in advice.rows if row.nodes == nodes)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"partition": "slow"}, 1000.0),
        ({"partition": "fast"}, 1000.0 / 3),
        ({"partition": "mixed", "features": "c"}, 1000.0 / 3),
        ({"partition": "mixed"}, 1000.0),
        ({"partition": "mixed", "exc_nodes": "a[0-7]"}, 1000.0 / 3),
    ],
)
def test_the_table_is_that_of_the_nodes_that_the_job_may_get(asked, expected):
    advice = advise(learned(), **asked)
    assert time_on(advice, 4) == pytest.approx(expected)
    assert "--partition" not in advice.directive


def test_partitions_are_put_side_by_side():
    advice = advise(learned())
    rows = {row.partition: row for row in advice.partitions if not row.constraint}
    assert set(rows) == {"slow", "fast"}
    # Of a partition with both types each can be asked for by a feature.
    kinds = [(row.constraint, row.node_type) for row in advice.partitions if row.constraint]
    assert sorted(kinds) == [("a", "amber"), ("c", "cedar")]
    assert rows["slow"].time_s == pytest.approx(3 * (rows["fast"].time_s or 0), rel=0.5)
    assert (rows["fast"].recommended, rows["slow"].recommended) == (True, False)
    assert advice.partition == "fast"
    assert advice.directive.startswith("#SBATCH --partition=fast\n#SBATCH --nodes=")
    text = advised(advice, now_s=NOW)
    assert "in partition fast, on nodes of the type cedar:" in text
    assert [line.split()[0] for line in text.splitlines() if " amber" in line] == ["slow", "mixed"]
    made = advisor(learned(), slow=partition("slow", "a"), fast=partition("fast", "c"))
    assert made.advise(job(), now_s=NOW, confidence=0.6).sure == 0.6


def test_what_is_doubtful_is_shown_but_not_recommended():
    advice = advise(learned(by_type=(by_type(Verdict.DOUBTFUL, runs=0),)))
    rows = {row.partition: row for row in advice.partitions if not row.constraint}
    assert rows["slow"].recommended
    assert (rows["fast"].verdict, rows["fast"].recommended) == ("doubtful", False)
    assert rows["fast"].nodes is not None


def test_the_count_of_the_partition_is_the_one_to_paste():
    """Also where a count that would cost less is not known well enough there."""
    sure = by_type()
    places = advise(learned()).partitions
    taken = {row.partition: row.nodes for row in places if not row.constraint}["fast"]
    doubted = tuple(
        Verdict.DOUBTFUL if nodes == taken else Verdict.RELIABLE for nodes in sure.nodes
    )
    advice = advise(learned(by_type=(replace(sure, verdicts=doubted),)))
    (fast,) = [row for row in advice.partitions if row.recommended]
    assert fast.nodes == advice.nodes != taken
    assert f"--nodes={fast.nodes}" in advice.directive


def test_nodes_alike_are_no_choice():
    advice = advise(table())
    assert (advice.partitions, advice.node_type) == ([], "")


def test_counts_reach_as_far_as_on_the_type_that_was_observed():
    one = advisor(learned(), fast=partition("fast", "c"))
    _, row = one.submit(job(min_nodes=1, max_nodes=8), via="job_submit", now_s=NOW)
    assert (row.nodes or 0) > 1
    assert row.predicted_s == pytest.approx((100 + 3600 / (row.nodes or 1)) / 3)


def test_a_new_view_or_new_tables_are_looked_at():
    one = advisor(learned(), fast=partition("fast", "c"))
    assert time_on(one.advise(job(), now_s=NOW), 4) == pytest.approx(1000 / 3)
    one.tables = stored(learned(), node_types={})
    assert time_on(one.advise(job(), now_s=NOW), 4) == pytest.approx(1000)


RAN = [
    ("pine", "slow", "amber"), ("pine", "mixed", "amber"), ("pine", "mixed", "cedar"),
    ("oak", "fast", "cedar"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("cluster", "asked", "places"),
    [
        ("", "", [PartitionContext("cedar", "fast"), PartitionContext("amber", "slow")]),
        ("pine", "", [PartitionContext("amber", "slow"), PartitionContext("cedar")]),
        ("pine", "slow", [PartitionContext("amber", "slow")]),
        ("pine", "mixed,other", [PartitionContext("amber"), PartitionContext("cedar")]),
    ],
)
def test_without_a_view_places_are_those_that_runs_tell_of(cluster, asked, places):
    assert places_of(learned(), RAN, cluster, asked) == places


def test_without_a_view_all_types_are_side_by_side():
    made = DecisionService(Config(), new_id=str)
    made.tables = stored(learned())
    advice = made.advise_at(
        job(), [PartitionContext("amber", "slow"), PartitionContext("cedar")], now_s=NOW
    )
    slow, fast = advice.partitions
    assert (slow.node_type, slow.partition, slow.recommended) == ("amber", "slow", False)
    assert (fast.node_type, fast.partition, fast.recommended) == ("cedar", "", True)
    assert (fast.time_s or 0) < (slow.time_s or 0)
    # Nobody knows which partition has such nodes: the line to paste does not say one.
    assert advice.directive.startswith("#SBATCH --nodes=")
    lines = advised(advice, now_s=NOW).splitlines()
    assert next(line.split()[:2] for line in lines if "cedar" in line) == ["◆", "-"]
    made.tables = stored(table())
    assert made.advise_at(job(), [], now_s=NOW).partitions == []
