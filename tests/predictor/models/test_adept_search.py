"""The two passes against closed forms, exhaustive search and the published experiments."""

import numpy as np
import pytest

from predictor.models.adept import Adept
from predictor.models.adept.anomalies import AnomalySettings, Diagnosis, special_counts
from predictor.models.adept.envelope import Bounds, RangePair, envelope, everything
from predictor.models.adept.model import ObservedTimes
from predictor.models.adept.search import (
    SearchSettings,
    best_for,
    search,
    variation_ranges,
    weights,
)
from predictor.models.downey import VarianceMode, max_useful, parallelism_of, speedup
from tests.predictor.example_curves import downey, drawn

pytestmark = pytest.mark.kernels

#: Section V.C: four instances of each set of Table 2.
TABLE_2 = [
    *((400, 0.0), (600, 0.35), (800, 0.7), (1000, 1.0)),
    *((400, 1.1), (900, 4.0), (1500, 8.0), (2000, 12.0)),
]


def ten_counts(A, sigma):
    """Ten node counts over all sections of the curve."""
    return [int(n) for n in np.geomspace(4, 1.3 * max_useful(A, sigma), 10).round()]


@pytest.mark.parametrize(("A", "sigma"), TABLE_2)
def test_table_2_is_recovered_perfectly(A, sigma):
    every = ten_counts(A, sigma)
    observed = [every[i] for i in (1, 4, 7, 9)]
    fit = Adept().fit(drawn(observed, downey(A, sigma)))
    for target in every:
        result = fit.instance(target)
        assert result.parallelism == pytest.approx(A, rel=2e-3)
        assert result.sigma == pytest.approx(sigma, abs=4e-3 * max(sigma, 1))
        assert result.serial_s == pytest.approx(1000, rel=1e-3)
    predicted = [p.time_s for p in fit.predict(every)]
    assert predicted == pytest.approx(downey(A, sigma)(np.array(every)), rel=1e-3)
    assert fit.delta == 0.05


def exhaustive(nodes, times, weight):
    """Least WSSRE over 600 values of A and 401 of σ, T(1) by least squares; A, σ, T(1), WSSRE."""
    A = np.geomspace(1, 40 * nodes.max(), 600)
    sigma = np.concatenate([np.linspace(0, 1, 101), np.geomspace(1.001, 300, 300)])
    shape = 1 / table_1(nodes, A[:, None, None], sigma[:, None]) / times
    serial = (weight * shape).sum(axis=2) / (weight * shape**2).sum(axis=2)
    error = (weight * (serial[:, :, None] * shape - 1) ** 2).sum(axis=2)
    i, j = np.unravel_index(error.argmin(), error.shape)
    return A[i], sigma[j], serial[i, j], error[i, j]


def table_1(n, A, sigma):
    """Give Downey's speedup, of arrays that broadcast."""
    first = A * n / (A + sigma / 2 * (n - 1))
    second = A * n / (sigma * (A - 0.5) + n * (1 - sigma / 2))
    low = np.where(n <= A, first, np.where(n <= 2 * A - 1, second, A))
    rising = n * A * (sigma + 1) / (sigma * (n + A - 1) + A)
    return np.where(sigma > 1, np.where(n <= A + A * sigma - sigma, rising, A), low)


@pytest.mark.parametrize(
    ("A", "sigma", "nodes"), [(24, 0.5, [2, 8, 24, 40, 64]), (30, 3.0, [2, 8, 32, 64, 128])]
)
def test_the_search_is_as_good_as_exhaustive_search(A, sigma, nodes):
    curve = drawn(nodes, downey(A, sigma), noise=0.03)
    n, t = np.array(nodes, float), np.array([p.time_s for p in curve.points])
    targets = np.array([12.0])
    weight = weights(targets, n, 2.0)
    result = search(n, t, weight, targets, envelope(n, t, 0.2), SearchSettings(v=0.5))
    grid_A, grid_sigma, grid_serial, error = exhaustive(n, t, weight[0])
    assert result.wssre[0] <= error * (1 + 1e-6)
    wide = np.array([1.0, 5.0, 12.0, 50.0, 200.0])
    times = result.chosen(np.zeros(len(wide), dtype=int)).times(wide)
    assert times == pytest.approx(grid_serial / speedup(wide, grid_A, grid_sigma), rel=0.01)


def test_wssre_is_what_the_paper_defines():
    n = np.array([2, 4, 16, 32, 100.0])
    t = downey(20, 0.8)(n) * np.array([1, 1.04, 0.97, 1.02, 1])
    targets = np.array([8.0, 60.0])
    weight = weights(targets, n, 2.0)
    result = search(n, t, weight, targets, envelope(n, t, 0.2), SearchSettings())
    for i in range(len(targets)):
        fitted = result.chosen(np.full(len(n), i)).times(n)
        assert result.wssre[i] == pytest.approx((weight[i] * (fitted / t - 1) ** 2).sum())


@pytest.mark.parametrize(("q", "expected"), [(2.0, [14, 20, 24]), (5.0, [56, 62, 66])])
def test_weights_follow_the_formula(q, expected):
    # W = q·max|n_target - n_j| - |n_target - n_i|
    assert weights(np.array([16.0]), np.array([2, 8, 12.0]), q).tolist() == [expected]


@pytest.mark.parametrize("q", [2.0, 50.0])
def test_a_small_q_follows_the_closest_observation(q):
    """What is predicted anew does, and what the fit holds of each observation."""
    curve = drawn([2, 4, 8, 16, 64], lambda n: downey(30, 0.6)(n) * (1 + 0.05 * (n > 30)))

    def errors_at_the_end(q):
        fit = Adept(search=SearchSettings(q=q)).fit(curve)
        made = fit.predict([64])[0].time_s, fit.roughly([64])[0]
        return tuple(abs(one / curve.points[-1].time_s - 1) for one in made)

    near, far = errors_at_the_end(1.01), errors_at_the_end(q)
    assert near[0] < 0.95 * far[0]
    assert near[1] < 0.95 * far[1]


@pytest.mark.parametrize("target", [8.0, 16.0, 64.0])
@pytest.mark.parametrize(
    "bounds",
    [
        [(10.0, 12.0, 0.2, 0.3)],
        # A is 20, and then σ is 0.8, which neither range pair holds.
        [(5.0, 8.0, 0.0, 1.0), (24.0, 60.0, 0.0, 1.0)],
        [(18.0, 22.0, 0.0, 0.5), (18.0, 22.0, 0.9, 1.0)],
    ],
)
def test_instances_keep_to_the_range_pairs(bounds, target):
    n, targets = np.array([2, 4, 16, 64.0]), np.array([target])
    pairs = [RangePair(VarianceMode.LOW, *each) for each in bounds]
    weight = weights(targets, n, 2.0)
    result = search(n, downey(20, 0.8)(n), weight, targets, pairs, SearchSettings(v=0.9))
    assert any(
        pair.end_min <= result.end[0] <= pair.end_max
        and pair.sigma_min - 1e-9 <= result.sigma[0] <= pair.sigma_max + 1e-9
        for pair in pairs
    )


@pytest.mark.parametrize(("A", "sigma"), [(30, 3.0), (200, 1.5), (20, 0.5)])
def test_the_second_pass_varies_a_and_sigma(A, sigma):
    n = np.array([2, 4, 16, 64, 128.0])
    t = downey(A, sigma)(n) * np.array([1, 1.1, 0.9, 1.12, 0.95])
    targets = np.array([16.0])
    ranges = envelope(n, t, 0.8)
    first, second = (
        search(n, t, weights(targets, n, 2.0), targets, ranges, SearchSettings(v=v))
        for v in (1e-9, 0.15)
    )
    assert second.wssre[0] < first.wssre[0]
    if first.high[0] == second.high[0]:
        for name in ("parallelism", "sigma"):
            before, after = getattr(first, name)[0], getattr(second, name)[0]
            assert abs(after / before - 1) <= 0.15 + 1e-6


def test_close_to_an_observation_its_instance_says_what_a_search_says():
    fit = Adept().fit(drawn([2, 4, 8, 14, 20, 40, 80], downey(24, 0.5), noise=0.02))
    asked = [2, 8, 9, 78]
    searched = [p.time_s for p in fit.predict(asked)]
    assert fit.roughly(asked) == pytest.approx(searched, rel=0.03)
    assert fit.roughly([8])[0] == pytest.approx(fit.instance(8).times(np.array([8.0]))[0])


ONE = np.ones(1)


def test_the_low_mode_varies_a_and_sigma_apart():
    least, most, limits = variation_ranges(VarianceMode.LOW, 20 * ONE, 0.25 * ONE, 0.1)
    assert (least[0], most[0]) == pytest.approx((18.0, 22.0))
    low, high = limits(np.array([[18.0, 20.0, 22.0]]))
    assert low[0] == pytest.approx([0.225] * 3)
    assert high[0] == pytest.approx([0.275] * 3)
    # A is 1 at least.
    assert variation_ranges(VarianceMode.LOW, 1.05 * ONE, 0.25 * ONE, 0.1)[0][0] == 1.0


def test_the_high_mode_keeps_a_and_sigma_within_their_shares():
    # A = (50 + 4)/(1 + 4) = 10.8, from 9.72 to 11.88; σ from 3.6 to 4.4.
    least, most, limits = variation_ranges(VarianceMode.HIGH, 50 * ONE, 4 * ONE, 0.1)
    assert least[0] == pytest.approx(9.72 * 4.6 - 3.6)
    assert most[0] == pytest.approx(11.88 * 5.4 - 4.4)
    tried = np.array([[least[0], 45.0, 50.0, 57.0, most[0]]])
    low, high = limits(tried)
    assert low[0] == pytest.approx([3.6, 3.6, 3.6, (57 - 11.88) / 10.88, 4.4])
    assert high[0] == pytest.approx([3.6, (45 - 9.72) / 8.72, 4.4, 4.4, 4.4])
    for x in (low, high):
        A = parallelism_of(VarianceMode.HIGH, tried, x)
        assert ((A >= 9.72 - 1e-9) & (A <= 11.88 + 1e-9)).all()


def test_where_a_may_be_one_its_least_says_nothing_of_sigma():
    # A = (3 + 49)/(1 + 49) = 1.04; 0.9 of it is below 1.
    least, _, limits = variation_ranges(VarianceMode.HIGH, 3 * ONE, 49 * ONE, 0.1)
    assert least[0] == pytest.approx(1.0)
    _, high = limits(np.array([[3.0]]))
    assert high[0, 0] == pytest.approx(1.1 * 49)


@pytest.mark.parametrize("mode", VarianceMode)
@pytest.mark.parametrize("A", [13.1, 14.4, 15.9, 17.7, 19.6, 21.8, 23.9, 27.2])
def test_each_zoom_halves_what_few_steps_leave(A, mode):
    """Steps around the best end leave no gap: with five of them the error halves each time."""
    n = np.array([2, 6, 20, 60, 200, 700.0])
    t = downey(A, 0.7 if mode is VarianceMode.LOW else 3.0)(n)
    target = np.array([20.0])
    ranges = [pair for pair in everything(700.0, Bounds()) if pair.mode is mode]
    settings = SearchSettings(v=1e-9, steps=24, local=5, zooms=12)
    result = search(n, t, weights(target, n, 2.0), target, ranges, settings)
    assert result.parallelism[0] == pytest.approx(A, rel=1e-3)
    second = SearchSettings(v=0.4, steps=12, local=5, zooms=14)
    result = search(n, t, weights(target, n, 2.0), target, ranges, second)
    assert result.parallelism[0] == pytest.approx(A, rel=1e-3)


def test_where_sigma_changes_nothing_it_is_the_least():
    # All observations lie beyond 2A - 1, where speedup is A.
    flat = best_for(
        np.array([8.0, 16, 32]),
        np.full(3, 5.0),
        VarianceMode.LOW,
        [RangePair(VarianceMode.LOW, 1.0, 4.0, 0.0, 1.0)],
        5,
    )
    assert flat.end == pytest.approx([1, 4**0.25, 2, 4**0.75, 4])
    assert flat.x.tolist() == [0.0] * 5
    assert flat.wssre == pytest.approx([0.0] * 5, abs=1e-12)
    assert flat.a == pytest.approx([5.0] * 5)
    assert not flat.high.any()


def test_of_two_amplitudes_each_is_least_squares():
    n = np.array([2.0, 4, 8, 64])
    t = np.array([60.0, 33, 19, 12])
    (result,) = (best_for(n, t, VarianceMode.HIGH, everything(64.0, Bounds()), 2),)
    for end, x, a, error in zip(result.end, result.x, result.a, result.wssre, strict=True):
        # T = a·p + b·q with b = a·x, relative errors.
        p, q = np.maximum(end / n, 1.0) / t, np.ones(4) / t
        (best, both), *_ = np.linalg.lstsq(np.stack([p, q], axis=1), np.ones(4), rcond=None)
        if best > 0 and both >= best:
            assert (a, a * x) == pytest.approx((best, both))
        assert error == pytest.approx(((a * (p + x * q) - 1) ** 2).sum())


def test_a_mode_that_the_envelope_does_not_hold_is_an_error():
    pair = RangePair(VarianceMode.LOW, 1.0, 4.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="no high instance in the envelope"):
        best_for(np.array([1.0, 2]), np.array([2.0, 1]), VarianceMode.HIGH, [pair], 4)


def test_of_equal_fits_the_largest_end_and_the_high_mode_are_taken():
    # Linear speedup: each end beyond the observations fits, in the high mode with any σ/end.
    n, target = np.array([1.0, 2, 4]), np.array([4.0])
    pairs = [RangePair(VarianceMode.LOW, 4.0, 64.0, 0.0, 1.0)]
    result = search(n, 100 / n, np.ones((1, 3)), target, pairs, SearchSettings(v=1e-9))
    assert (result.end[0], result.x[0]) == pytest.approx((64.0, 0.0), abs=1e-6)
    same = downey(20, 1.0)
    n = np.array([2.0, 8, 30, 60])
    both = [
        RangePair(VarianceMode.LOW, 20.0, 20.0, 1.0, 1.0),
        RangePair(VarianceMode.HIGH, 39.0, 39.0, 1.0, 1.0),
    ]
    result = search(n, same(n), np.ones((1, 4)), target, both, SearchSettings())
    assert result.high[0]


def test_special_counts_need_three_members():
    def result(*nodes):
        n = np.array(nodes)
        times = 100 / n * np.where(np.log2(n) % 1 == 0, 1, 1.4)
        return special_counts(n, times, AnomalySettings(), np.zeros(len(n)))

    assert result(2, 3, 5, 6, 7, 8, 11, 13, 64) == "powers of two"
    assert result(2, 3, 5, 6, 7, 10, 11, 13, 64) == ""


def observed(times):
    count = len(times)
    return ObservedTimes(2.0 ** np.arange(count), times, Diagnosis((1.0,) * count, (0,) * count))


@pytest.mark.parametrize("left_out", range(5))
def test_what_is_left_out_has_no_say(left_out):
    """The prediction of each observation from the others does not depend on its own time."""
    times = downey(9, 0.6)(2.0 ** np.arange(5)) * np.array([1, 1.02, 0.98, 1.01, 1])
    ranges = everything(16.0, Bounds())
    before = observed(times).left_out(ranges, SearchSettings())
    changed = times.copy()
    changed[left_out] *= 1.5
    after = observed(changed).left_out(ranges, SearchSettings())
    assert after[left_out] == pytest.approx(before[left_out], rel=1e-6)
    others = np.arange(5) != left_out
    assert (np.abs(after[others] / before[others] - 1) > 1e-3).any()


def test_what_lies_beyond_is_judged_at_twice_the_largest_that_counts():
    times = downey(9, 0.6)(2.0 ** np.arange(6)) * np.array([1, 1.02, 0.98, 1.01, 1, 3])
    declining = Diagnosis((1.0,) * 5 + (0.0,), (0,) * 6, declining_from=32)
    whole = ObservedTimes(2.0 ** np.arange(6), times, declining)
    ranges, settings = everything(32.0, Bounds()), SearchSettings()
    target = np.array([32.0])
    weight = whole.weights(target, 2.0)
    expected = search(whole.nodes, whole.times, weight, target, ranges, settings)
    beyond = whole.fitted(ranges, settings).beyond
    assert beyond.parallelism == pytest.approx(expected.parallelism)
    assert beyond.wssre == pytest.approx(expected.wssre)
