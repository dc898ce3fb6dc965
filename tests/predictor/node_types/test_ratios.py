"""Which way from one node type to another is believed."""

import math

import pytest

from predictor.node_types.product_form import Sums
from predictor.node_types.ratios import WAYS, ObservedRatios, TypeEvidence, believe, ratio_at

pytestmark = pytest.mark.kernels

FIGURES = {
    "old": {"cpu": 400.0, "disk": 400.0},
    "fast": {"cpu": 800.0, "disk": 400.0},
    "quick": {"cpu": 1600.0, "disk": 400.0},
}


def test_a_type_that_never_ran_goes_by_the_mean_of_cpu_and_disk():
    evidence = TypeEvidence(reference="old", figures=FIGURES, utilisation=((1, 1.0),))
    believed = believe(evidence, {}, "fast")
    ratio = ratio_at(believed, evidence, "fast", None, (1, 2))
    assert ratio.mean.tolist() == pytest.approx([math.log((0.5 + 1.0) / 2)] * 2)
    assert ratio.sd.tolist() == pytest.approx([0.2, 0.2])


def test_without_a_figure_of_the_disk_it_goes_by_the_cpu():
    figures = {name: {"cpu": own["cpu"]} for name, own in FIGURES.items()}
    evidence = TypeEvidence(reference="old", figures=figures, utilisation=((1, 1.0),))
    believed = believe(evidence, {}, "fast")
    assert ratio_at(believed, evidence, "fast", None, (1,)).mean[0] == pytest.approx(math.log(0.5))


def test_where_another_type_ran_the_way_that_was_right_there_is_believed():
    evidence = TypeEvidence(reference="old", figures=FIGURES, utilisation=((1, 1.0),))
    observed = {"fast": ObservedRatios((1,), (math.log(0.5),), (0.0001,))}
    believed = believe(evidence, observed, "quick")
    assert ratio_at(believed, evidence, "quick", None, (1,)).mean[0] == pytest.approx(
        math.log(0.25)
    )


def test_an_application_of_the_network_goes_by_a_form_that_has_it():
    """Half of a run is the CPU's, half the network's; both were measured of five node types."""
    speeds = {"a": (1, 1), "b": (2, 1), "c": (1, 4), "d": (2, 3), "new": (4, 2)}
    figures = {k: {"cpu": 100.0 * cpu, "network": 1e9 * net} for k, (cpu, net) in speeds.items()}

    def time_s(kind):
        cpu, net = speeds[kind]
        return 100 / cpu + 100 / net

    forms = {"cpu": ("nodes", "cpu"), "cpu_network": ("nodes", "cpu", "network")}
    sums = {
        kind: {
            name: Sums.none(resources).add_all([
                ({"nodes": float(n), **figures[kind]}, time_s(kind) / n) for n in (1, 2, 4, 8)
            ])
            for name, resources in forms.items()
        }
        for kind in speeds
        if kind != "new"
    }  # fmt: skip
    evidence = TypeEvidence(reference="a", figures=figures, sums=sums)
    observed = {
        kind: ObservedRatios((1, 8), (math.log(time_s(kind) / time_s("a")),) * 2, (1e-4, 1e-4))
        for kind in ("b", "c", "d")
    }
    believed = believe(evidence, observed, "new")
    said = ratio_at(believed, evidence, "new", None, (1, 8)).mean
    assert said.tolist() == pytest.approx([math.log(75 / 200)] * 2, abs=0.02)


def test_runs_of_unlike_sizes_are_told_apart_by_the_load_of_their_tags():
    """Half of a run goes with the CPU; the fast nodes had the large problems."""

    def time_s(kind, load):
        return load * (1 + 400 / FIGURES[kind]["cpu"])

    forms = {"cpu": ("nodes", "cpu"), "load": ("nodes", "cpu", "load")}
    ran = {"old": (1.0, 2.0, 3.0), "fast": (10.0, 20.0, 30.0)}
    sums = {
        kind: {
            name: Sums.none(resources).add_all([
                ({"nodes": float(n), "load": load, **FIGURES[kind]}, time_s(kind, load) / n)
                for load in loads
                for n in (1, 2, 4)
            ])
            for name, resources in forms.items()
        }
        for kind, loads in ran.items()
    }  # fmt: skip
    evidence = TypeEvidence(reference="old", figures=FIGURES, sums=sums, load=2.0)
    way, _ = WAYS["aprof, load"]
    said = way(evidence, "quick", (), (1, 4))
    assert said.tolist() == pytest.approx([math.log(1.25 / 2)] * 2, abs=1e-6)
    blind, _ = WAYS["aprof"]
    assert abs(blind(evidence, "quick", (), (1,))[0] - math.log(1.25 / 2)) > 0.5
    # Where tags name no size, the way has nothing to say.
    assert way(TypeEvidence(reference="old", figures=FIGURES, sums=sums), "quick", (), (1,)) is None
