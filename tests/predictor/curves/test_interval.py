import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from predictor.curves.reliability import (
    Prior,
    Uncertainty,
    around,
    curve_deviation,
    deviations,
    measure,
)
from predictor.types import Curve, Point
from tests.predictor.example_curves import curve_of

CURVE = curve_of([2, 4, 8, 16], [80, 40, 20, 10])


def test_without_evidence_the_prior_stands():
    recorded = measure(CURVE, [], Prior(inside=0.05, growth=0.2, noise=0.03, weight=3))
    assert (recorded.inside, recorded.growth, recorded.noise) == pytest.approx((0.05, 0.2, 0.03))
    assert (recorded.first, recorded.last, recorded.freedom) == (2, 16, 3)


def test_evidence_is_weighed_against_the_prior():
    recorded = measure(CURVE, [0.0, 0.1, 0.1, 0.0], Prior(inside=0.05, weight=2))
    assert recorded.inside == pytest.approx(math.sqrt((2 * 0.05**2 + 2 * 0.1**2) / 4))
    assert recorded.freedom == 4


def test_errors_at_the_ends_are_counted_by_the_doubling():
    wide = curve_of([1, 4, 8, 32], [80, 40, 20, 10])
    recorded = measure(wide, [0.4, 0, 0, 0.2], Prior(growth=0.0001, end_weight=1))
    assert recorded.growth == pytest.approx(math.sqrt((0.2**2 + 0.1**2) / 3), rel=1e-3)


def test_the_deviation_is_flat_inside_and_grows_outside():
    recorded = measure(CURVE, [], Prior(inside=0.05, growth=0.2))
    result = curve_deviation([1, 2, 10, 16, 32, 64], recorded)
    assert result[1] == result[2] == result[3] == pytest.approx(0.05)
    assert result[0] == result[4] == pytest.approx(math.hypot(0.05, 0.2))
    assert result[5] == pytest.approx(math.hypot(0.05, 0.4))
    for nodes in ([0], [4, 0], [0, 4]):
        with pytest.raises(ValueError, match="node counts are numbers of 1 or more"):
            curve_deviation(nodes, recorded)


def test_a_coarse_clock_widens_the_intervals_of_short_runs_only():
    def width(time_s, resolution_s):
        recorded = measure(Curve(CURVE.points, resolution_s=resolution_s), [])
        (p,) = around([8], np.array([time_s]), recorded, 0.9)
        return math.log(p.high_s / p.low_s)

    assert width(5, 1.0) > 1.3 * width(5, 0.0)
    assert width(5000, 1.0) == pytest.approx(width(5000, 0.0), rel=1e-3)


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_nine_in_ten_new_runs_lie_within_the_ninety_percent_interval(noise):
    rng = np.random.default_rng(1)
    inside = total = 0
    for _ in range(200):
        runs = 20 * np.exp(rng.normal(0, noise, 8))
        spread = float(np.log(runs).std(ddof=1))
        points = tuple(Point(n, float(np.median(runs)), 8, spread) for n in (2, 4, 8))
        recorded = measure(Curve(points), [], Prior(inside=0.001, noise=noise, weight=30))
        (p,) = around([4], np.array([np.median(runs)]), recorded, 0.9)
        new = 20 * np.exp(rng.normal(0, noise, 20))
        inside += int(((new >= p.low_s) & (new <= p.high_s)).sum())
        total += 20
    assert 0.84 <= inside / total <= 0.95


def test_the_prior_is_what_it_was_measured_to_be():
    recorded = measure(CURVE, [])
    assert (recorded.inside, recorded.growth, recorded.noise) == pytest.approx((0.06, 0.16, 0.03))
    assert recorded.freedom == 3.0
    assert recorded.runs == 4
    ends = measure(CURVE, [0.3, 0.0, 0.0, -0.1])
    assert ends.growth == pytest.approx(math.sqrt((0.16**2 + 0.3**2 + 0.1**2) / 3))
    assert ends.inside == pytest.approx(math.sqrt(3 * 0.06**2 / 5))


def test_ends_close_to_their_neighbours_count_as_half_a_doubling():
    close = curve_of([4, 5, 8, 9], [80, 70, 45, 40])
    recorded = measure(close, [0.1, 0, 0, 0.2], Prior(growth=1e-6))
    assert recorded.growth == pytest.approx(math.sqrt((0.2**2 + 0.4**2) / 3))
    # The gaps of the two ends differ.
    uneven = curve_of([4, 8, 16, 128], [80, 45, 25, 10])
    recorded = measure(uneven, [0.1, 0, 0, 0.3], Prior(growth=1e-6))
    assert recorded.growth == pytest.approx(math.sqrt((0.1**2 + 0.1**2) / 3))
    longer = curve_of([4, 8, 16, 32, 256], [80, 45, 25, 15, 10])
    recorded = measure(longer, [0.1, 0, 0, 0, 0.3], Prior(growth=1e-6))
    assert recorded.growth == pytest.approx(math.sqrt((0.1**2 + 0.1**2) / 3))


POINTS = (Point(2, 8.0, 1, 0.0), Point(4, 5.0, 2, 0.1), Point(8, 3.0, 5, 0.2))
POOLED = math.sqrt((3 * 0.03**2 + 0.1**2 + 4 * 0.2**2) / (3 + 1 + 4))


def test_repeats_are_pooled():
    assert measure(Curve(POINTS), []).noise == pytest.approx(POOLED)
    assert measure(Curve(POINTS), []).runs == 8
    assert measure(Curve(POINTS, resolution_s=2.0), []).clock_s == pytest.approx(2 / math.sqrt(6))


def test_deviations_of_points():
    clock = 2 / math.sqrt(6)
    expected = [
        math.hypot(POOLED, clock / 8),
        math.hypot(POOLED, clock / 5) / math.sqrt(2),
        math.hypot(POOLED * math.sqrt(math.pi / 2), clock / 3) / math.sqrt(5),
    ]
    assert deviations(Curve(POINTS, resolution_s=2.0)) == pytest.approx(expected)
    single = deviations(curve_of([1, 2], [2, 1]))
    assert single == pytest.approx([0.03, 0.03])
    # Of three runs the median is the middle one already.
    three = deviations(Curve((Point(2, 8.0, 3, 0.03),)))
    assert three == pytest.approx([0.03 * math.sqrt(math.pi / 2 / 3)])


def test_the_interval_is_that_of_students_t():
    recorded = measure(Curve(POINTS, resolution_s=2.0), [0.1, 0.05, 0.1])
    (result,) = around([16], np.array([4.0]), recorded, 0.8)
    clock = recorded.clock_s / 4.0
    curve_sd = math.hypot(recorded.inside, recorded.growth, clock / math.sqrt(8))
    reach = stats.t.ppf(0.9, recorded.freedom) * math.hypot(curve_sd, recorded.noise, clock)
    assert result.curve_sd == pytest.approx(curve_sd)
    assert (result.low_s, result.high_s) == pytest.approx(
        (4 * math.exp(-reach), 4 * math.exp(reach))
    )
    assert (result.nodes, result.time_s, result.level) == (16, 4.0, 0.8)


def test_the_widest_interval_is_a_factor():
    recorded = measure(CURVE, [], Prior(growth=50.0))
    (result,) = around([1024], np.array([2.0]), recorded, 0.9)
    assert (result.low_s, result.high_s) == pytest.approx((2 * math.exp(-20), 2 * math.exp(20)))


def test_an_exact_clock_and_one_run_are_what_is_assumed():
    recorded = Uncertainty(2, 16, 0.06, 0.16, 0.03, 3.0)
    (exact,) = around([8], np.array([4.0]), recorded, 0.9)
    assert exact.curve_sd == 0.06
    coarse = replace(recorded, clock_s=0.4)
    (single,) = around([8], np.array([4.0]), coarse, 0.9)
    assert single.curve_sd == pytest.approx(math.hypot(0.06, 0.1))
