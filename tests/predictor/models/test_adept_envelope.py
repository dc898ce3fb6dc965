import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.models.adept.envelope import Bounds, envelope
from predictor.models.downey import VarianceMode, speedup, terms

NODES = st.lists(st.integers(1, 500), min_size=2, max_size=5, unique=True).map(sorted)


@st.composite
def instances(draw):
    """Mode, end of the first section, σ."""
    A = draw(st.floats(1.5, 500))
    if draw(st.booleans()):
        return VarianceMode.LOW, A, draw(st.floats(0, 1))
    sigma = draw(st.floats(1, 15))
    return VarianceMode.HIGH, A + A * sigma - sigma, sigma


def times_of(mode, end, sigma, nodes):
    A = end if mode is VarianceMode.LOW else (end + sigma) / (1 + sigma)
    return 100 / speedup(nodes, A, sigma)


def holds(pair, mode, end, sigma):
    slack = 1 + 1e-6
    return (
        pair.mode is mode
        and pair.end_min <= end * slack
        and end <= pair.end_max * slack
        and pair.sigma_min <= sigma + 1e-6
        and sigma <= pair.sigma_max + 1e-6
    )


def covers(pair, other):
    corners = (other.end_min, other.sigma_min), (other.end_max, other.sigma_max)
    return all(holds(pair, other.mode, *corner) for corner in corners)


@given(instances(), NODES, st.data())
def test_each_pair_of_observations_holds_every_instance_within_delta_of_both(instance, nodes, data):
    delta = 0.08
    off = data.draw(st.lists(st.floats(-0.07, 0.07), min_size=len(nodes), max_size=len(nodes)))
    # |T_model - T| <= delta T for the observed T.
    times = times_of(*instance, nodes) / (1 + np.array(off))
    wide = Bounds(parallelism=1e4)
    for i in range(len(nodes) - 1):
        pair = np.array(nodes[i : i + 2], float), times[i : i + 2]
        assert any(holds(result, *instance) for result in envelope(*pair, delta, wide))


@given(instances(), NODES)
def test_the_union_over_all_pairs_holds_the_instance_that_made_the_observations(instance, nodes):
    result = envelope(np.array(nodes, float), times_of(*instance, nodes), 0.02, Bounds(1e4))
    assert any(holds(pair, *instance) for pair in result)


@pytest.mark.parametrize(
    ("mode", "nodes", "end", "x"),
    [
        (VarianceMode.LOW, (2, 8), 20.0, 0.2),
        (VarianceMode.LOW, (4, 30), 20.0, 0.4),
        (VarianceMode.LOW, (4, 64), 20.0, 0.3),
        (VarianceMode.LOW, (24, 35), 20.0, 0.1),
        (VarianceMode.LOW, (24, 64), 20.0, 0.45),
        (VarianceMode.HIGH, (2, 40), 60.0, 3.0),
        (VarianceMode.HIGH, (8, 90), 60.0, 1.5),
    ],
)
def test_without_tolerance_the_ends_of_a_range_pair_pass_through_both_observations(
    mode, nodes, end, x
):
    """Each combination of pieces once."""
    given = ratio(mode, nodes, end, x)
    result = envelope(np.array(nodes), np.array([given, 1.0]), 1e-9)
    factor = 2 if mode is VarianceMode.LOW else 1
    assert any(holds(pair, mode, end, factor * x) for pair in result)
    for pair in result:
        low, high = pair.sigma_min, pair.sigma_max
        rising = [(pair.end_min, low), (pair.end_max, high)]
        falling = [(pair.end_min, high), (pair.end_max, low)]
        assert any(
            [
                ratio(pair.mode, nodes, e, s / (2 if pair.mode is VarianceMode.LOW else 1))
                for e, s in both
            ]
            == pytest.approx([given, given], rel=1e-6)
            for both in (rising, falling)
        )


@pytest.mark.parametrize("delta", [0.03, 0.1, 0.25])
@pytest.mark.parametrize(
    ("nodes", "A", "sigma"),
    [((2.0, 8.0), 20.0, 0.4), ((4.0, 30.0), 20.0, 0.8), ((24.0, 64.0), 40.0, 0.2),
     ((2.0, 40.0), 30.0, 3.0), ((8.0, 90.0), 30.0, 1.5)],
)  # fmt: skip
def test_each_side_of_a_range_pair_is_met_by_an_instance_within_delta(nodes, A, sigma, delta):
    """The envelope is tight: on a grid over a pair, what is within δ reaches all four sides."""
    given = float(speedup([nodes[1]], A, sigma)[0] / speedup([nodes[0]], A, sigma)[0])
    low, high = given * (1 - delta) / (1 + delta), given * (1 + delta) / (1 - delta)
    share = np.linspace(0, 1, 241)
    pairs = envelope(np.array(nodes), np.array([given, 1.0]), delta, Bounds(parallelism=5.0))
    assert pairs
    for pair in pairs:
        ends = pair.end_min + share * (pair.end_max - pair.end_min)
        sigmas = pair.sigma_min + share * (pair.sigma_max - pair.sigma_min)
        x = sigmas / (2 if pair.mode is VarianceMode.LOW else 1)
        p, q = terms(pair.mode, np.array(nodes)[:, None], ends[None, :])
        times = p[:, :, None] + x * q[:, :, None]
        ratios = times[0] / times[1]
        feasible = (ratios >= low * (1 - 1e-9)) & (ratios <= high * (1 + 1e-9))
        by_end, by_sigma = (np.flatnonzero(feasible.any(axis=axis)) for axis in (1, 0))
        for place in (by_end, by_sigma):
            assert (place[0], place[-1]) == (pytest.approx(0, abs=2), pytest.approx(240, abs=2))


def ratio(mode, nodes, end, x):
    p, q = terms(mode, np.array(nodes), np.array(end))
    return float((p[0] + x * q[0]) / (p[1] + x * q[1]))


def test_equation_1_of_the_paper_is_the_first_piece_of_the_low_variance_mode():
    # σ = 2(n_j t_j - n_i t_i)/(n_j - n_i) in Table 1's unit, where T(1) = A; equation (2) for A.
    A, sigma, n = 50.0, 0.6, (4.0, 20.0)
    t = [A / float(speedup([m], A, sigma)[0]) for m in n]
    published = 2 * (n[1] * t[1] - n[0] * t[0]) / (n[1] - n[0])
    assert published == pytest.approx(sigma)
    assert n[0] * t[0] - sigma * (n[0] - 1) / 2 == pytest.approx(A)
    # Through two observations σ grows in proportion to A there, up to σ = 1.
    (pair,) = (
        one
        for one in envelope(np.array(n), np.array(t), 1e-9)
        if one.mode is VarianceMode.LOW and one.end_min >= n[1] - 1e-6
    )
    assert (pair.end_min, pair.sigma_min) == pytest.approx((n[1], published * n[1] / A))
    assert (pair.end_max, pair.sigma_max) == pytest.approx((A / published, 1.0))


def test_no_range_pair_is_redundant():
    nodes = np.array([2, 5, 9, 30, 70.0])
    result = envelope(nodes, 100 / speedup(nodes, 40, 0.7), 0.1)
    assert result
    assert not any(covers(a, b) for a in result for b in result if a is not b)


def test_a_wider_tolerance_holds_what_a_narrower_one_holds():
    nodes = np.array([2, 8, 32, 128.0])
    times = 100 / speedup(nodes, 60, 2.5)
    wide = envelope(nodes, times, 0.2)
    assert all(any(covers(w, n) for w in wide) for n in envelope(nodes, times, 0.05))


def test_observations_that_no_instance_explains_leave_nothing():
    # Run time doubles with the nodes: Downey's model never gets slower.
    assert envelope(np.array([2.0, 4.0]), np.array([1.0, 2.0]), 0.05) == ()
