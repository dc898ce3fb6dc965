"""Both passes of ADEPT's search against closed forms."""

import numpy as np
import pytest

from predictor.models.adept.anomalies import Diagnosis, special_counts
from predictor.models.adept.envelope import Bounds, RangePair, everything
from predictor.models.adept.fluctuation import AnomalySettings
from predictor.models.adept.model import ObservedTimes
from predictor.models.adept.search import (
    SearchSettings,
    best_for,
    search,
    variation_ranges,
    weights,
)
from predictor.models.downey import VarianceMode, parallelism_of
from tests.predictor.example_curves import Floats, downey

ONE = np.ones(1)


def test_the_settings_are_the_papers():
    assert (SearchSettings().q, SearchSettings().v) == (2.0, 0.15)
    chosen = AnomalySettings()
    assert (chosen.epsilon, chosen.phi, chosen.theta) == (0.1, 10.0, 5.0)


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
    def result(*nodes: float) -> str:
        n = np.array(nodes)
        times = 100 / n * np.where(np.log2(n) % 1 == 0, 1, 1.4)
        return special_counts(n, times, AnomalySettings(), np.zeros(len(n)))

    assert result(2, 3, 5, 6, 7, 8, 11, 13, 64) == "powers of two"
    assert result(2, 3, 5, 6, 7, 10, 11, 13, 64) == ""


def observed(times: Floats) -> ObservedTimes:
    count = len(times)
    return ObservedTimes(2.0 ** np.arange(count), times, Diagnosis((1.0,) * count, (0,) * count))


@pytest.mark.parametrize("left_out", range(5))
def test_what_is_left_out_has_no_say(left_out):
    """The prediction of each observation from the others does not depend on its own time."""
    times = downey(9, 0.6)(2.0 ** np.arange(5)) * np.array([1, 1.02, 0.98, 1.01, 1])
    ranges = everything(16.0, Bounds())
    before = observed(times).fitted(ranges, SearchSettings()).left_out
    changed = times.copy()
    changed[left_out] *= 1.5
    after = observed(changed).fitted(ranges, SearchSettings()).left_out
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


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_one_weight_that_is_none_is_enough_to_refuse(bad):
    n = np.array([1.0, 2, 4])
    weight = np.array([[1.0, bad, 1.0]])
    with pytest.raises(ValueError, match="weights: one for each target"):
        search(n, 9 / n, weight, np.array([2.0]), everything(4.0, Bounds()), SearchSettings())


@pytest.mark.parametrize(
    ("targets", "nodes"), [([np.nan, 4.0], [1.0, 2.0]), ([4.0], [1.0, np.nan]), ([4.0], [])]
)
def test_weights_are_of_finite_numbers(targets, nodes):
    with pytest.raises(ValueError, match="finite numbers are needed"):
        weights(np.array(targets), np.array(nodes), 2.0)
