import math
from dataclasses import replace

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


def test_uncertainty_grows_with_the_distance_from_observations():
    fit = Averaged().fit(drawn(OBSERVED, amdahl))
    sds = [p.curve_sd for p in fit.predict([8, 16, 32, 64, 128])]
    assert sds == sorted(sds)
    assert sds[0] < 0.03 < 0.2 < sds[-1]


def test_repeats_that_differ_widen_the_interval_of_one_run():
    calm = Curve(tuple(Point(n, 100 / n + 3, 5, 0.01) for n in OBSERVED))
    noisy = Curve(tuple(Point(n, 100 / n + 3, 5, 0.3) for n in OBSERVED))
    (a,), (b,) = Averaged().fit(calm).predict([4]), Averaged().fit(noisy).predict([4])
    assert a.high_s / a.low_s < 1.2 < 1.9 < b.high_s / b.low_s


def test_a_run_stopped_by_its_limit_raises_the_prediction():
    curve = drawn(OBSERVED, amdahl)
    bound = median(curve, 16) * 1.15
    cut = replace(curve, censored=(Point(16, bound),))
    assert median(curve, 16) < median(cut, 16)


def test_a_hung_run_does_not_move_the_curve():
    curve = drawn(OBSERVED, amdahl)
    hung = replace(curve, censored=(Point(16, 1e6),))
    assert median(hung, 16) == pytest.approx(median(curve, 16), rel=0.02)


def test_only_ratios_of_nodes_and_of_times_matter():
    small = curve_of([1, 2, 4], [100, 52, 28])
    large = curve_of([1000, 2000, 4000], [1e5, 5.2e4, 2.8e4])
    for near, far in ((3, 3000), (16, 16000)):
        assert median(large, far) == pytest.approx(1000 * median(small, near), rel=1e-6)


def test_more_observations_narrow_the_interval():
    few = Averaged().fit(drawn(OBSERVED, amdahl)).predict([32])[0]
    more = Averaged().fit(drawn([*OBSERVED, 16], amdahl)).predict([32])[0]
    assert more.curve_sd < few.curve_sd


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
