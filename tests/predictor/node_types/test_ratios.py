"""Which way from one node type to another is believed."""

import math

import pytest

from predictor.node_types.ratios import ObservedRatios, TypeEvidence, believe, ratio_at

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
