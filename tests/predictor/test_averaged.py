from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from predictor.models.averaged import Averaged
from predictor.models.base import TooFewPoints
from predictor.types import Curve, Point
from tests.predictor.curves import amdahl, curve_of, downey, drawn

OBSERVED = [1, 2, 4, 8]


def median(curve: Curve, nodes: int) -> float:
    return Averaged().fit(curve).predict([nodes])[0].time_s


@pytest.mark.parametrize("formula", [amdahl, downey(64, 0.5), lambda n: 500 / n + 3 * np.log2(n)])
def test_clean_curves_are_recovered_inside_and_near_the_range(
    formula: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> None:
    curve = drawn(OBSERVED, formula)
    for nodes, tolerance in ((3, 0.02), (6, 0.03), (16, 0.12)):
        assert median(curve, nodes) == pytest.approx(
            float(formula(np.array([nodes]))[0]), rel=tolerance
        )


def test_uncertainty_grows_with_the_distance_from_observations() -> None:
    fit = Averaged().fit(drawn(OBSERVED, amdahl))
    sds = [p.curve_sd for p in fit.predict([8, 16, 32, 64, 128])]
    assert sds == sorted(sds)
    assert sds[0] < 0.03 < 0.2 < sds[-1]


def test_repeats_that_differ_widen_the_interval_of_one_run() -> None:
    calm = Curve(tuple(Point(n, 100 / n + 3, 5, 0.01) for n in OBSERVED))
    noisy = Curve(tuple(Point(n, 100 / n + 3, 5, 0.3) for n in OBSERVED))
    (a,), (b,) = Averaged().fit(calm).predict([4]), Averaged().fit(noisy).predict([4])
    assert a.high_s / a.low_s < 1.2 < 1.9 < b.high_s / b.low_s


def test_a_run_stopped_by_its_limit_raises_the_prediction() -> None:
    curve = drawn(OBSERVED, amdahl)
    bound = median(curve, 16) * 1.15
    cut = replace(curve, censored=(Point(16, bound),))
    assert median(curve, 16) < median(cut, 16)


def test_a_hung_run_does_not_move_the_curve() -> None:
    curve = drawn(OBSERVED, amdahl)
    hung = replace(curve, censored=(Point(16, 1e6),))
    assert median(hung, 16) == pytest.approx(median(curve, 16), rel=0.02)


def test_only_ratios_of_nodes_and_of_times_matter() -> None:
    small = curve_of([1, 2, 4], [100, 52, 28])
    large = curve_of([1000, 2000, 4000], [1e5, 5.2e4, 2.8e4])
    for near, far in ((3, 3000), (16, 16000)):
        assert median(large, far) == pytest.approx(1000 * median(small, near), rel=1e-6)


def test_more_observations_narrow_the_interval() -> None:
    few = Averaged().fit(drawn(OBSERVED, amdahl)).predict([32])[0]
    more = Averaged().fit(drawn([*OBSERVED, 16], amdahl)).predict([32])[0]
    assert more.curve_sd < few.curve_sd


def test_one_node_count_is_too_few() -> None:
    with pytest.raises(TooFewPoints):
        Averaged().fit(curve_of([4], [10]))
