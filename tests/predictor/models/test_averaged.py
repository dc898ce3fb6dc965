import math

import numpy as np
import pytest

from predictor.models.averaged.model import Averaged, AveragedSettings
from predictor.models.averaged.shapes import ShapePrior
from predictor.models.base import TooFewPoints
from predictor.types import Curve, Point
from tests.predictor.example_curves import amdahl, curve_of, downey, drawn

OBSERVED = [1, 2, 4, 8]


def median(curve: Curve, nodes: int) -> float:
    return Averaged().fit(curve).predict([nodes])[0].time_s


@pytest.mark.parametrize("formula", [amdahl, downey(64, 0.5), lambda n: 500 / n + 3 * np.log2(n)])
def test_clean_curves_are_recovered_inside_and_near_the_range(formula):
    curve = drawn(OBSERVED, formula)
    for nodes, tolerance in ((3, 0.02), (6, 0.03), (16, 0.12)):
        assert median(curve, nodes) == pytest.approx(
            float(formula(np.array([nodes]))[0]), rel=tolerance
        )


def test_only_ratios_of_nodes_and_of_times_matter():
    small = curve_of([1, 2, 4], [100, 52, 28])
    large = curve_of([1000, 2000, 4000], [1e5, 5.2e4, 2.8e4])
    for near, far in ((3, 3000), (16, 16000)):
        assert median(large, far) == pytest.approx(1000 * median(small, near), rel=1e-6)


def test_one_node_count_is_too_few():
    with pytest.raises(TooFewPoints):
        Averaged().fit(curve_of([4], [10]))


def test_intervals_between_observed_counts_are_wider_and_no_others():
    """As the intervals of applications that the prior was not made for had to be."""
    curve = Curve(tuple(Point(n, 600 / n + 40) for n in (1, 4, 16, 64)))
    plain, wide = (
        Averaged(settings=AveragedSettings(between=factor)).fit(curve).predict((4, 8, 128))
        for factor in (1.0, 1.16)
    )
    reaches = [
        math.log(one.high_s / one.time_s) / math.log(other.high_s / other.time_s)
        for one, other in zip(wide, plain, strict=True)
    ]
    assert reaches == pytest.approx([1.0, 1.16, 1.0])
    assert [one.time_s for one in wide] == [other.time_s for other in plain]
    assert AveragedSettings().between > 1.0


def test_fits_of_other_curves_in_between_change_no_prediction():
    """What fits have in common is worked out once; nothing of one curve is left in another."""
    first = drawn([1, 2, 4, 8], amdahl)
    other = drawn([2, 4, 8, 16], downey(6.0, 1.0))
    fit = Averaged().fit(first)
    before = fit.predict([3, 8, 32]), fit.quantiles([3, 8, 32], [0.95]).tolist()
    steeper = Averaged().fit(other)
    assert steeper.predict([3, 8, 32]) != before[0]
    assert (fit.predict([3, 8, 32]), fit.quantiles([3, 8, 32], [0.95]).tolist()) == before
    assert Averaged().fit(first).predict([3, 8, 32]) == before[0]
    narrow = AveragedSettings(prior=ShapePrior(serial=(3e-4, 1e-3)))
    assert Averaged(settings=narrow).fit(first).predict([3, 8, 32]) != before[0]
