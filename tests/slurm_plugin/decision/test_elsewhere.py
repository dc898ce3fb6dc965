"""Places of another cluster beside the own ones: named, never the answer, honest where unknown."""

import msgspec
import pytest

from sacct_ingest.records import Probe, Resource
from slurm_plugin.config.settings import Advise
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.decision.submitted_job import may_leave
from slurm_plugin.slurm.cluster_state import Cluster, ClusterViews
from tests.slurm_plugin.decision.test_node_types import TYPES, learned, partition
from tests.slurm_plugin.decision.test_places import LATER_S, nodes, nodes_of_type_c
from tests.slurm_plugin.made import NOW, job, stored, table, thrifty
from tests.slurm_plugin.reports.rows import advised

#: Pine is the own cluster; nodes of oak are of the type cedar, three times as fast.
OF_OAK = {("oak", f"c{i}"): "cedar" for i in range(8)}


def seen(name, *partitions):
    parts = {one.name: one for one in partitions}
    return Cluster(name=name, taken_s=NOW, partitions=parts, default_partition=next(iter(parts)))


def compared(
    prediction, here, there, *, silent=None, clusters=(), types=TYPES, links=None, **asked
):
    hosts = Advise(copy_hosts={"pine": "pine-dtn", "oak": "oak-dtn"})
    made = DecisionService(msgspec.structs.replace(thrifty(), advise=hosts), new_id=str)
    made.links = links or {}
    made.tables = stored(prediction, node_types={**types, **OF_OAK})
    made.cluster = seen("pine", *here)
    views = {"oak": seen("oak", *there)} if there else {}
    made.others = ClusterViews(views, silent or {})
    return made.advise(job(**asked), now_s=NOW, clusters=clusters)


def slow(*, free_s=0.0):
    """Nodes of the own cluster, of the type amber."""
    made = nodes("slow", free_s=free_s, kind="a")
    (group,) = made.pool.groups
    names = tuple(f"a{i}" for i in range(8))
    return msgspec.structs.replace(made, pool=type(made.pool)(now_s=NOW, groups={group: names}))


def of_oak(advice):
    return [row for row in advice.partitions if row.cluster == "oak"]


def test_the_faster_cluster_is_named_and_the_answer_stays():
    advice = compared(learned(), [slow()], [nodes_of_type_c(free_s=0.0)])
    assert advice.place_text.startswith("With --clusters=oak it would end ")
    assert "--clusters" not in advice.directive
    assert advice.cluster == "pine"
    (row,) = of_oak(advice)
    assert (row.node_type, row.recommended, row.own) == ("cedar", True, False)
    assert [one.own for one in advice.partitions if one.cluster == "pine"] == [True]
    text = advised(advice, now_s=NOW)
    assert next(line.split()[1] for line in text.splitlines() if line.startswith("◆")) == "oak"


def test_a_job_that_names_its_partition_gets_that_of_the_other_cluster():
    advice = compared(learned(), [slow()], [nodes_of_type_c(free_s=0.0)], partition="slow")
    assert "With --clusters=oak --partition=fast it would end " in advice.place_text


def test_a_cluster_that_is_busy_is_not_named():
    advice = compared(learned(), [slow()], [nodes_of_type_c(free_s=LATER_S)])
    assert advice.place_text == ""
    assert not of_oak(advice)[0].recommended


def test_many_partitions_of_the_same_nodes_are_one_row():
    one = nodes_of_type_c(free_s=0.0)
    more = [msgspec.structs.replace(one, name=name) for name in ("long", "short")]
    (row,) = of_oak(compared(learned(), [slow()], [more[0], one, more[1]]))
    assert row.partition == "long"  # the default one there


def test_nodes_alike_that_the_work_never_ran_on_are_shown_and_not_named():
    advice = compared(table(), [nodes("busy", free_s=LATER_S)], [nodes("free")], types={})
    (row,) = of_oak(advice)
    assert (row.verdict, row.recommended) == ("like nodes", False)
    assert row.time_s
    assert advice.place_text == ""


def test_nothing_is_said_of_unlike_nodes_that_nobody_measured():
    busy, quiet = nodes("busy", free_s=LATER_S), nodes("quiet")
    advice = compared(table(), [busy, quiet], [nodes("free", kind="z")], types={})
    (row,) = of_oak(advice)
    assert (row.verdict, row.time_s) == ("not measured", None)


@pytest.mark.parametrize(
    ("clusters", "there"),
    [((), True), (("all",), True), (("pine", "oak"), True), (("pine",), False)],
)
def test_clusters_that_the_job_names_are_compared(clusters, there):
    advice = compared(learned(), [slow()], [nodes_of_type_c(free_s=0.0)], clusters=clusters)
    assert bool(of_oak(advice)) == there


def test_a_job_for_another_cluster_alone_is_answered_for_that_one():
    there = [nodes_of_type_c(free_s=LATER_S), nodes("other", kind="z")]
    advice = compared(learned(), [slow()], there, clusters=("oak",), partition="fast")
    assert (advice.cluster, advice.partition, advice.node_type) == ("oak", "fast", "cedar")
    assert advice.rows[0].wait_s == pytest.approx(LATER_S)
    assert (advice.place_text, advice.submit_text) == ("", "")
    assert not [row for row in advice.partitions if row.cluster != "oak"]


def test_of_another_cluster_alone_without_types_that_is_said():
    advice = compared(table(), [nodes("here")], [nodes("there")], clusters=("oak",), types={})
    assert advice.cluster == "oak"
    assert advice.place_text == (
        "Nobody measured the nodes of oak: its run times are those of all runs."
    )


def test_silent_clusters_are_said_once():
    silent = {"elm": "no answer", "ash": "it hides its queue from NIMO"}
    advice = compared(learned(), [slow()], [], silent=silent)
    assert advice.place_text == (
        "Not compared: the clusters ash (it hides its queue from NIMO), elm (no answer)."
    )
    only = compared(learned(), [slow()], [], silent=silent, clusters=("pine", "elm"))
    assert only.place_text == "Not compared: the cluster elm (no answer)."


def test_input_files_are_said_not_to_be_counted():
    there = [nodes_of_type_c(free_s=0.0)]
    advice = compared(learned(), [slow()], there, inputs="3Kbam=3200000000")
    assert advice.place_text.endswith(
        "Its input files (3.2 GB) have to be there; copying is not counted, as nothing was "
        "measured on the way."
    )


def moved(bytes_per_s, *, target="oak-dtn", times=20):
    """Past transfers of three gigabytes, and the probes before them."""
    made = []
    for number in range(times):
        at_s = NOW - 600.0 * (times - number)
        path = {"source": "pine-dtn", "target": target, "value": bytes_per_s}
        made.append(Probe(resource=Resource.BANDWIDTH, at_s=at_s, **path))
        size = {"size_bytes": 3_000_000_000}
        made.append(Probe(resource=Resource.TRANSFER, at_s=at_s + 1, **path, **size))
    return made


def test_copying_counts_in_ends_where_the_way_was_measured():
    there = [nodes_of_type_c(free_s=0.0)]
    asked = {"inputs": "3Kbam=3200000000"}
    without = compared(learned(), [slow()], there, **asked)
    advice = compared(learned(), [slow()], there, links={"oak": moved(200e6)}, **asked)
    assert "Its input files (3.2 GB) have to be there; copying takes 16 s " in advice.place_text
    assert advice.place_text.endswith(", which is counted.")
    (before,), (row,) = of_oak(without), of_oak(advice)
    assert row.wait_s - before.wait_s == pytest.approx(16.0, abs=0.5)
    home = [one for one in advice.partitions if one.cluster == "pine"]
    assert home == [one for one in without.partitions if one.cluster == "pine"]


def test_a_cluster_that_copying_makes_slower_is_not_named():
    there = [nodes_of_type_c(free_s=0.0)]
    links = {"oak": moved(1e6)}
    advice = compared(learned(), [slow()], there, links=links, inputs="3Kbam=3200000000")
    assert advice.place_text == ""
    assert not of_oak(advice)[0].recommended
    assert compared(learned(), [slow()], there, links=links).place_text


def test_what_was_measured_to_another_host_says_nothing():
    links = {"oak": moved(1e6, target="elsewhere")}
    there = [nodes_of_type_c(free_s=0.0)]
    advice = compared(learned(), [slow()], there, links=links, inputs="3Kbam=3200000000")
    assert "copying is not counted" in advice.place_text


@pytest.mark.parametrize(
    "bound",
    [
        {"dependency": "afterok:7"}, {"reservation": "mine"}, {"req_nodes": "n1"},
        {"exc_nodes": "n1"}, {"licenses": "matlab:1"}, {"het_job_offset": 0},
    ],
)  # fmt: skip
def test_a_job_that_is_bound_to_this_cluster_stays(bound):
    assert may_leave(job())
    assert not may_leave(job(**bound))
    advice = compared(learned(), [slow()], [nodes_of_type_c(free_s=0.0)], **bound)
    assert not of_oak(advice)


def test_a_partition_elsewhere_that_takes_no_such_job_is_left_out():
    closed = msgspec.structs.replace(nodes_of_type_c(free_s=0.0), allowed_qos=frozenset({"gold"}))
    assert not of_oak(compared(learned(), [slow()], [closed]))
    assert partition("slow", "a").name == "slow"


@pytest.mark.parametrize(
    "bound", [{"dependency": "afterok:4"}, {"reservation": "course"}, {"licenses": "solver:1"}]
)
def test_what_another_cluster_alone_knows_is_asked_about_there(bound):
    advice = compared(
        learned(), [slow()], [nodes_of_type_c(free_s=0.0)], clusters=("oak",), **bound
    )
    assert not advice.ok
    assert advice.error.endswith("of oak are known there alone: ask on oak itself")
