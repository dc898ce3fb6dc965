"""The two passes against exhaustive search, and the published experiments."""

from functools import partial

import numpy as np
import pytest

from predictor.models.adept import Adept
from predictor.models.adept.envelope import RangePair, envelope
from predictor.models.adept.search import Instances, SearchSettings, search, weights
from predictor.models.downey import VarianceMode, max_useful, speedup
from tests.predictor.example_curves import Floats, downey, drawn

#: Section V.C: four instances of each set of Table 2.
TABLE_2 = [
    *((400, 0.0), (600, 0.35), (800, 0.7), (1000, 1.0)),
    *((400, 1.1), (900, 4.0), (1500, 8.0), (2000, 12.0)),
]


def ten_counts(A: float, sigma: float) -> list[int]:
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


def exhaustive(nodes: Floats, times: Floats, weight: Floats) -> tuple[float, float, float, float]:
    """Least WSSRE over 600 values of A and 401 of σ, T(1) by least squares; A, σ, T(1), WSSRE."""
    best = (0.0, 0.0, 0.0, np.inf)
    for A in np.geomspace(1, 40 * nodes.max(), 600):
        for sigma in np.concatenate([np.linspace(0, 1, 101), np.geomspace(1.001, 300, 300)]):
            shape = 1 / speedup(nodes, A, sigma) / times
            serial = (weight * shape).sum() / (weight * shape**2).sum()
            error = (weight * (serial * shape - 1) ** 2).sum()
            if error < best[3]:
                best = (float(A), float(sigma), float(serial), float(error))
    return best


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

    def errors_at_the_end(q: float) -> tuple[float, float]:
        fit = Adept(search=SearchSettings(q=q)).fit(curve)
        made = fit.predict([64])[0].time_s, fit.roughly([64])[0]
        return tuple(abs(one / curve.points[-1].time_s - 1) for one in made)

    near, far = errors_at_the_end(1.01), errors_at_the_end(q)
    assert near[0] < 0.95 * far[0]
    assert near[1] < 0.95 * far[1]


def test_the_second_pass_stays_within_v_of_the_first():
    n = np.array([2, 4, 16, 64.0])
    t = downey(20, 0.8)(n) * np.array([1, 1.06, 0.95, 1.02])
    target = np.array([16.0])
    ranges = envelope(n, t, 0.4)
    narrow, wide = (
        search(n, t, weights(target, n, 2.0), target, ranges, SearchSettings(v=v))
        for v in (1e-9, 0.15)
    )
    assert wide.wssre[0] <= narrow.wssre[0]
    # Without a second pass the model goes through the closest observation, up to T(1).
    assert wide.end[0] == pytest.approx(narrow.end[0], rel=0.151)


def test_instances_keep_to_the_envelope():
    n = np.array([2, 4, 16, 64.0])
    box = RangePair(VarianceMode.LOW, 10.0, 12.0, 0.2, 0.3)
    solve = partial(search, n, downey(20, 0.8)(n))
    result: Instances = solve(np.ones((1, 4)), np.array([8.0]), [box], SearchSettings())
    assert 10 <= result.end[0] <= 12
    assert 0.2 - 1e-9 <= result.sigma[0] <= 0.3 + 1e-9


@pytest.mark.parametrize("target", [8.0, 16.0, 64.0])
def test_between_range_pairs_there_is_nothing(target):
    # A is 20, which neither range pair holds.
    n = np.array([2, 4, 16, 64.0])
    pairs = [
        RangePair(VarianceMode.LOW, 5.0, 8.0, 0.0, 1.0),
        RangePair(VarianceMode.LOW, 24.0, 60.0, 0.0, 1.0),
    ]
    targets = np.array([target])
    weight = weights(targets, n, 2.0)
    result = search(n, downey(20, 0.8)(n), weight, targets, pairs, SearchSettings())
    assert any(pair.end_min <= result.end[0] <= pair.end_max for pair in pairs)


def test_between_two_ranges_of_sigma_there_is_nothing():
    n = np.array([2, 4, 16, 64.0])
    pairs = [
        RangePair(VarianceMode.LOW, 18.0, 22.0, 0.0, 0.5),
        RangePair(VarianceMode.LOW, 18.0, 22.0, 0.9, 1.0),
    ]
    targets = np.array([8.0])
    result = search(n, downey(20, 0.8)(n), np.ones((1, 4)), targets, pairs, SearchSettings(v=0.9))
    assert result.sigma[0] == pytest.approx(0.9)


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
