"""Places where a job may run are compared by its end, and by what it costs, where that is asked."""

from dataclasses import replace

import msgspec
import pytest

from predictor.facts import NodePower
from slurm_plugin.config.setting_types import Objective
from slurm_plugin.config.settings import Energy
from slurm_plugin.decision.places import Choice, side_by_side
from slurm_plugin.protocol.advice_messages import Advice, Row
from slurm_plugin.slurm.node_pool import NodeGroup, NodePool, NodeShare
from tests.slurm_plugin.decision.test_node_types import advise, advisor, by_type, learned, partition
from tests.slurm_plugin.made import NOW, job, table, thrifty
from tests.slurm_plugin.reports.rows import advised

LATER_S = 7200.0


def nodes(name, *, free_s=0.0, kind="a", gres=(), **fields):
    """A partition of eight nodes that are free from then on."""
    group = NodeGroup(
        cpus=4, mem_mib=1000, gres=gres, features=frozenset({kind}),
        steps=((NOW + free_s, 4, 1000, gres),), empty_s=NOW + free_s,
    )  # fmt: skip
    pool = NodePool(now_s=NOW, groups={group: tuple(f"{name}{i}" for i in range(8))})
    made = partition(name, "")
    free, count = pool.fitting(NodeShare())
    return msgspec.structs.replace(made, nodes=count, profile=free, pool=pool, **fields)


def compared(*partitions, prediction=None, config=None, **asked):
    made = advisor(prediction or table(), **{one.name: one for one in partitions})
    if config:
        made.config = config
    return made.advise(job(**asked), now_s=NOW)


def shown(advice):
    return {one.partition: one for one in advice.partitions}


def test_partitions_of_like_nodes_are_compared_by_their_waits():
    advice = compared(nodes("busy", free_s=LATER_S), nodes("quiet"))
    assert advice.directive.startswith("#SBATCH --partition=quiet\n")
    rows = shown(advice)
    assert rows["busy"].wait_s == pytest.approx(LATER_S)
    assert (rows["busy"].own, rows["quiet"].own) == (True, False)
    assert rows["quiet"].recommended
    assert rows["quiet"].node_hours == pytest.approx(
        (rows["quiet"].nodes or 0) * (rows["quiet"].time_s or 0) / 3600
    )


def test_a_job_that_names_its_partition_keeps_it_and_is_told_of_a_better_one():
    advice = compared(nodes("busy", free_s=LATER_S), nodes("quiet"), partition="busy")
    assert "--partition" not in advice.directive
    assert advice.place_text.startswith("With --partition=quiet it would end ")
    assert shown(advice)["quiet"].recommended
    assert advice.place_text in advised(advice, now_s=NOW).replace("\n", " ")
    at_best = compared(nodes("busy", free_s=LATER_S), nodes("quiet"), partition="quiet")
    assert at_best.place_text == ""


def test_places_that_are_the_same_are_no_choice():
    advice = compared(nodes("one"), nodes("other"))
    assert (advice.partitions, advice.place_text) == ([], "")
    assert "--partition" not in advice.directive


def test_nothing_is_said_of_nodes_that_nobody_measured():
    busy, quiet = nodes("busy", free_s=LATER_S), nodes("quiet", kind="c")
    assert compared(busy, quiet).partitions == []
    advice = compared(busy, quiet, nodes("alike"))
    row = shown(advice)["quiet"]
    assert (row.time_s, row.verdict, row.recommended) == (None, "not measured", False)
    assert shown(advice)["alike"].recommended
    line = next(one for one in advised(advice, now_s=NOW).splitlines() if "quiet" in one)
    assert "not measured" in line


def one_row(name, time_s, verdict):
    row = Row(
        nodes=4, time_s=time_s, low_s=time_s, high_s=time_s, speedup=None, efficiency=None,
        node_hours=1.0, wait_s=0.0, recommended=True,
    )  # fmt: skip
    advice = Advice(verdict=verdict, nodes=4, rows=[row], runs=4, node_type=name)
    return Choice(advice=advice, partition=name, own=name == "slow")


def test_a_place_is_not_named_by_runs_that_say_nothing():
    """A job of one count keeps that, whatever its runs say; another place takes more."""
    slow, fast = one_row("slow", 900.0, "refused"), one_row("fast", 90.0, "refused")
    advice = side_by_side([slow, fast], Objective.TURNAROUND)
    assert not any(one.recommended for one in advice.partitions)
    assert advice.directive == ""
    named = side_by_side([slow, fast], Objective.TURNAROUND, slow.advice)
    assert named.place_text == ""


def test_partitions_that_are_not_for_the_job_are_left_out():
    gpus = (("gpu", 4),)
    busy = nodes("busy", free_s=LATER_S)
    others = (
        nodes("gpus", gres=gpus),
        nodes("members", groups=frozenset({"physics"})),
        nodes("short", max_time_s=60.0),
        nodes("others", accounts=frozenset({"art"})),
        nodes("down", up=False),
    )
    assert compared(busy, *others, account="solid").partitions == []
    # Who names one may use it.
    asked = compared(busy, *others, partition="members", account="solid")
    assert {one.partition for one in asked.partitions} == {"busy", "members"}


def test_of_alternatives_in_a_constraint_each_is_a_place():
    advice = advise(learned(), partition="mixed", features="a|c")
    mixed = {one.constraint: one for one in advice.partitions if one.partition == "mixed"}
    assert {name: one.node_type for name, one in mixed.items()} == {"a": "amber", "c": "cedar"}
    assert all(one.own for one in mixed.values())
    assert "--constraint=c" in advice.place_text or "--partition=fast" in advice.place_text


def test_a_type_without_a_feature_of_its_own_cannot_be_asked_for():
    mixed = partition("mixed", "a")
    (group,) = mixed.pool.groups
    pool = NodePool(now_s=NOW, groups={group: ("a0", "c0")})
    twins = msgspec.structs.replace(mixed, pool=pool)
    parts = {"slow": partition("slow", "a"), "fast": partition("fast", "c"), "mixed": twins}
    advice = advisor(learned(), **parts).advise(job(), now_s=NOW)
    assert {one.partition for one in advice.partitions} == {"slow", "fast"}


def test_the_cheapest_place_is_named_where_cost_is_what_counts():
    config = thrifty(energy=Energy(node_hour=2.0, currency="EUR"))
    made = advisor(learned(), slow=partition("slow", "a"), fast=nodes_of_type_c(free_s=LATER_S))
    made.config = config
    soon = made.advise(job(), now_s=NOW)
    cheap = made.advise(job(comment="nimo:objective=cost"), now_s=NOW)
    assert soon.directive.startswith("#SBATCH --partition=slow\n")
    assert cheap.directive.startswith("#SBATCH --partition=fast\n")
    rows = shown(cheap)
    assert (rows["fast"].cost or 0) < (rows["slow"].cost or 0)
    named = made.advise(job(comment="nimo:objective=cost", partition="slow"), now_s=NOW)
    assert " less cost, and end " in named.place_text


def powered(name, *, kwh, node_hours):
    choice = one_row(name, 900.0, "reliable")
    (row,) = choice.advice.rows
    row.kwh, row.node_hours = kwh, node_hours
    return choice


@pytest.mark.parametrize(
    ("there_kwh", "named"),
    [(1.5, "fast"), (3.0, ""), (None, "")],  # no figure is no small one
)
def test_energy_is_compared_where_it_was_measured_in_each_place(there_kwh, named):
    """Two kWh here; there less node time alone counts where nobody measured the power."""
    here = powered("slow", kwh=2.0, node_hours=1.0)
    there = powered("fast", kwh=there_kwh, node_hours=1.2)
    advice = side_by_side([here, there], Objective.ENERGY, here.advice)
    assert [one.kwh for one in advice.partitions] == [2.0, there_kwh]
    if named:
        assert advice.place_text == (
            "With --partition=fast it would take 25 % less energy, and end no later."
        )
    else:
        assert advice.place_text == ""


def test_energy_that_was_not_measured_everywhere_leaves_node_time():
    here = powered("slow", kwh=2.0, node_hours=1.0)
    there = powered("fast", kwh=None, node_hours=0.5)
    advice = side_by_side([here, there], Objective.ENERGY, here.advice)
    assert " 50 % less node time, " in advice.place_text
    (row,) = (one for one in advice.partitions if one.partition == "fast")
    assert (row.kwh, row.recommended) == (None, True)


def test_power_is_that_of_the_nodes_of_each_place():
    watts = NodePower(100.0, 90.0, 110.0, 9, 6, 5)
    prediction = learned(power=watts, by_type=(replace(by_type(), power=None),))
    made = advisor(prediction, slow=partition("slow", "a"), fast=partition("fast", "c"))
    rows = shown(made.advise(job(), now_s=NOW))
    assert rows["slow"].kwh
    assert rows["fast"].kwh is None


def test_five_places_are_shown_and_all_on_request():
    names = [f"p{i}" for i in range(8)]
    many = [nodes(f"p{i}", free_s=LATER_S * i) for i in range(8)]
    advice = compared(*many, partition="p7")
    text = advised(advice, now_s=NOW)
    assert len([line for line in text.splitlines() if line.lstrip("◆ ")[:2] in names]) == 5
    assert " p7 " in text
    assert "5 of 8 places are shown; --all shows all." in text


def nodes_of_type_c(*, free_s):
    made = nodes("fast", free_s=free_s, kind="c")
    (group,) = made.pool.groups
    pool = NodePool(now_s=NOW, groups={group: tuple(f"c{i}" for i in range(8))})
    free, _ = pool.fitting(NodeShare())
    return msgspec.structs.replace(made, pool=pool, profile=free)
