"""Nodes of one type held against each other: both sides of what is tolerated."""

import pytest

from sacct_ingest.probes.agreement import MEASURES, TypeProfile, type_profiles
from sacct_ingest.records import NodeProfile


def nodes(*speeds: float | None, kind: str = "epyc") -> list[NodeProfile]:
    return [
        NodeProfile(cluster="pine", node=f"n{i}", node_type=kind, at_s=1.0, cpu_events_per_s=speed)
        for i, speed in enumerate(speeds, 1)
    ]


def only(profiles: list[NodeProfile], **given: float) -> TypeProfile:
    (kind,) = type_profiles(profiles, **given)
    return kind


def outliers(*speeds: float | None) -> list[str]:
    return [each.node for each in only(nodes(*speeds)).outliers]


def test_a_type_is_what_its_nodes_agree_on():
    kind = only(nodes(100.0, 101.0, 99.0, 50.0))
    assert kind.nodes == ("n1", "n2", "n3", "n4")
    assert kind.values == {"cpu_events_per_s": 100.0}
    (slow,) = kind.outliers
    assert (slow.node, slow.measure, slow.value) == ("n4", "cpu_events_per_s", 50.0)
    assert slow.ratio == pytest.approx(50 / 99.5)


def test_small_differences_are_tolerated_larger_ones_are_not():
    assert outliers(100.0, 100.0, 100.0, 91.0) == []
    assert outliers(100.0, 100.0, 100.0, 89.0) == ["n4"]
    assert outliers(100.0, 100.0, 100.0, 111.0) == ["n4"]


def test_where_all_differ_nobody_stands_out():
    assert only(nodes(60.0, 80.0, 100.0, 120.0, 140.0)).outliers == ()


def test_of_two_that_differ_both_are_named():
    assert outliers(100.0, 80.0) == ["n1", "n2"]
    assert outliers(100.0, 95.0) == []
    assert only(nodes(100.0, 80.0)).values == {"cpu_events_per_s": 90.0}


def test_one_node_and_none_measured():
    assert outliers(100.0) == []
    assert only(nodes(None, None)).values == {}
    assert outliers(None, 100.0, 100.0, 50.0) == ["n4"]


def test_types_are_not_held_against_each_other():
    kinds = type_profiles([*nodes(100.0, 100.0), *nodes(50.0, 50.0, kind="arm")])
    assert [(kind.node_type, kind.values["cpu_events_per_s"]) for kind in kinds] == [
        ("arm", 50.0),
        ("epyc", 100.0),
    ]
    assert not any(kind.outliers for kind in kinds)


def test_all_figures_of_a_profile_are_compared():
    figures = {
        name
        for name in NodeProfile.__dataclass_fields__
        if name.endswith("_s") and name not in ("at_s",)
    }
    assert figures == set(MEASURES)
