"""The bottleneck: stalls begin where network and disk take longer than the processor."""

from itertools import product
from math import log

import numpy as np
import pytest

from predictor.occupancy.bottleneck import (
    Bottleneck,
    Demand,
    DemandRuns,
    LearnedDemand,
    candidate_terms,
    learn_bottleneck,
    likeliest,
)
from predictor.occupancy.functions import Function, Shape, Term

pytestmark = pytest.mark.kernels

REFERENCE = {"mhz": 900.0, "lat": 8.0}


def runs(demand, idle=0.0, mhz=(450.0, 600.0, 900.0, 1400.0)):
    result = []
    for m, lat in product(mhz, (1.0, 4.0, 8.0, 12.0, 16.0)):
        busy = 10.0 * 450 / m
        result.append(({"mhz": m, "lat": lat}, busy, idle + max(0.0, demand(m, lat) - busy)))
    return result


def learned(given, attributes=("mhz", "lat")):
    amounts, busy, stalls = zip(*given, strict=True)
    return learn_bottleneck(
        list(amounts), np.array(busy), np.array(stalls), reference=REFERENCE, attributes=attributes
    )


def test_a_demand_with_latency_is_detected():
    """Demand 2 + 0.75 lat: half of the runs hide it, and say that it is no more."""
    result = learned(runs(lambda _, lat: 2.0 + 0.75 * lat))
    likeliest = result.demands[0]
    assert likeliest.idle_s == 0.0
    assert {(t.attribute, t.shape) for t in likeliest.function.terms} == {("lat", Shape.LINEAR)}
    assert likeliest.function({"mhz": 1.0, "lat": 10.0}) == pytest.approx(9.5, rel=1e-6)
    for mhz, lat in product((500.0, 1000.0, 2000.0), (2.0, 10.0, 20.0)):
        busy = 10.0 * 450 / mhz
        stall = max(0.0, 2.0 + 0.75 * lat - busy)
        low, high = result.stall_s(busy, {"mhz": mhz, "lat": lat})[1:]
        assert low - 1e-6 <= stall <= high + 1e-6


def test_a_demand_with_the_reciprocal_of_an_attribute_is_detected():
    result = learned(runs(lambda mhz, _: 6000.0 / mhz + 0.0))
    made = result.stall_s(10.0 * 450 / 700, {"mhz": 700.0, "lat": 3.0})[0]
    assert made == pytest.approx((6000 - 4500) / 700, rel=1e-3)


def test_idle_time_is_the_median_of_runs_that_hid_the_rest():
    result = learned(runs(lambda _, lat: 2.0 + 0.75 * lat, idle=0.3))
    assert result.demands[0].idle_s == pytest.approx(0.3)
    made = result.stall_s(10.0 * 450 / 1000, {"mhz": 1000.0, "lat": 14.0})[0]
    assert made == pytest.approx(0.3 + 12.5 - 4.5, rel=1e-3)
    assert str(result).startswith("0.3 + (")
    assert str(result).endswith(" - compute)+")


def test_where_no_run_stalled_there_is_no_bottleneck():
    assert learned(runs(lambda *_: 0.0)) is None


def test_weights_follow_the_criterion_and_rivals_are_those_it_does_not_refute():
    """Nothing tells a constant demand from one that grows with latency: both are believed."""
    given = [
        ({"mhz": m, "lat": 16.0}, 10.0 * 450 / m, max(0.0, 9.0 - 10.0 * 450 / m))
        for m in (450.0, 600.0, 900.0, 1400.0)
    ]
    given += [({"mhz": 450.0, "lat": x}, 10.0, 0.0) for x in (1.0, 4.0, 8.0)]
    result = learned(given)
    assert len(result.demands) > 1
    assert sum(one.weight for one in result.demands) == pytest.approx(1.0)
    weights = [one.weight for one in result.demands]
    assert weights == sorted(weights, reverse=True)
    # Bayes factors above exp(3) ("strong") refute.
    assert log(weights[0] / weights[-1]) < 3.0
    _, low, high = result.stall_s(3.0, {"mhz": 1500.0, "lat": 1.0})
    assert low < 1.0
    assert high >= 6.0 - 1e-6


def line(slope):
    return Function({"lat": 1.0}, 1.0, 0.0, (Term("lat", Shape.LINEAR),), (slope,))


def test_stalls_are_weighed_and_bounded():
    """Two demands, 2 lat and 1 lat, three to one; the processor has 3 to do."""
    two = Demand(line(2.0), 0.5, 0.75, (2.0, 8.0), (2.0, 8.0))
    one = Demand(line(1.0), 0.0, 0.25, (1.0, 4.0), (1.0, 4.0))
    both = Bottleneck((two, one))
    mean, low, high = both.stall_s(3.0, {"lat": 4.0})
    assert two.stall_s(3.0, {"lat": 4.0}) == pytest.approx(5.5)
    assert one.stall_s(3.0, {"lat": 4.0}) == pytest.approx(1.0)
    assert mean == pytest.approx(0.75 * 5.5 + 0.25 * 1.0)
    assert (low, high) == (pytest.approx(1.0), pytest.approx(5.5))
    assert both.stall_s(30.0, {"lat": 4.0}) == (
        pytest.approx(0.375), pytest.approx(0.0), pytest.approx(0.5),
    )  # fmt: skip


def test_a_hidden_run_bounds_those_that_demand_less():
    """Found demands 2, 5 and 9 were at most 4, 6 and 9: what demands 3 may take 6."""
    demand = Demand(line(1.0), 0.25, 1.0, (2.0, 5.0, 9.0), (4.0, 6.0, 9.0))
    for lat, bound in ((1.0, 4.0), (2.0, 4.0), (3.0, 6.0), (5.0, 6.0), (8.0, 9.0), (12.0, 12.0)):
        assert demand.longest_s(1.0, {"lat": lat}) == pytest.approx(0.25 + bound - 1.0)
    assert demand.longest_s(20.0, {"lat": 1.0}) == pytest.approx(0.25)


def test_learned_bounds_are_the_least_of_what_runs_from_there_on_took():
    given = runs(lambda _, lat: 2.0 + 0.75 * lat)
    result = learned(given)
    demand = result.demands[0]
    assert list(demand.demands) == sorted(demand.demands)
    took = sorted((demand.function(a), busy + stall) for a, busy, stall in given)
    for place, (value, bound) in enumerate(zip(demand.demands, demand.at_most_s, strict=True)):
        assert value == pytest.approx(took[place][0])
        least = min(t for d, t in took if d >= value - 1e-9)
        assert bound >= least - 1e-9
        assert bound <= min(t for _, t in took[place:]) + 1e-9


@pytest.mark.parametrize(("count", "most"), [(3, 1), (5, 2), (7, 3), (20, 3)])
def test_each_term_of_a_demand_needs_two_runs(count, most):
    rng = np.random.default_rng(1)
    largest = 0
    for _ in range(10):
        given = []
        for _ in range(count):
            m, lat = float(rng.uniform(400, 1500)), float(rng.uniform(1, 20))
            given.append(
                ({"mhz": m, "lat": lat}, 0.001, float(4 + 0.5 * lat + 3000 / m + rng.random()))
            )
        result = learned(given)
        for one in result.demands:
            size = len(one.function.terms) + (one.function.constant > 0)
            largest = max(largest, size)
    assert largest == most


def test_the_criterion_is_bayes_s_of_relative_errors_of_the_run_time():
    """Demand 3 beside 1, 2 and 5, idle 0.5: stalls of 2.5, 1.5 and 0.5 where 2, 1 and 1 were.

    Of 3, 3 and 6 in all that is off by 1/6, 1/6 and -1/12: 1/48 in the mean of squares.
    """
    three = DemandRuns(np.ones((3, 1)), np.array([1.0, 2.0, 5.0]), np.array([2.0, 1.0, 1.0]))
    made = three.criterion(np.array([3.0]), 0.5, 2)
    assert made == pytest.approx(3 * log(1 / 48) + 2 * log(3))
    exact = DemandRuns(np.ones((3, 1)), np.array([1.0, 2.0, 5.0]), np.array([2.0, 1.0, 0.0]))
    assert exact.criterion(np.array([3.0]), 0.0, 1) == pytest.approx(3 * log(0.01**2) + log(3))


def test_hidden_runs_count_where_the_demand_is_above_what_they_took():
    """The first stalled and took 4; a demand of 4 is above the 2 of the second, so both count.

    Least squares of theta/4 and theta/2 against one: theta = (1/4 + 1/2) / (1/16 + 1/4) = 2.4.
    The third took 10 and does not bind.
    """
    given = DemandRuns(np.ones((3, 1)), np.array([1.0, 2.0, 10.0]), np.array([3.0, 0.0, 0.0]))
    made = given.fitted([0], np.array([True, False, False]), 0.0)
    assert made.theta == pytest.approx([2.4])
    # What the first stalls idly is not its demand: 3.5, still above 2.
    idle = given.fitted([0], np.array([True, False, False]), 0.5)
    assert idle.theta == pytest.approx([(1 / 3.5 + 1 / 2) / (1 / 3.5**2 + 1 / 4)])
    assert idle.idle_s == 0.5


def test_of_the_same_terms_the_best_is_a_rival_and_of_alike_ones_the_first():
    def one(criterion, *theta):
        return LearnedDemand(np.array(theta), 0.0, criterion)

    first, alike, worse = one(1.0, 2.0, 0.0), one(1.0, 3.0, 0.0), one(1.5, 9.0, 0.0)
    near, far, refuted = one(5.0, 0.0, 1.0), one(6.9, 1.0, 1.0), one(7.0, 0.0, 0.0)
    made = likeliest([worse, first, alike, near, far])
    assert [id(each) for each in made] == [id(first), id(near), id(far)]
    assert len(likeliest([first, near, refuted])) == 2
    every = [one(0.1 * i, *(float(i >> bit & 1) for bit in range(4))) for i in range(10)]
    assert likeliest(every) == every[:8]


def test_attributes_that_do_not_differ_have_no_terms():
    ratios = [{"same": 1.0, "other": 1.0}, {"same": 1.0, "other": 2.0}]
    assert candidate_terms(ratios, ["same", "other"]) == [
        Term("other", Shape.LINEAR),
        Term("other", Shape.INVERSE),
    ]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"compute_s": np.array([1.0])}, "runs: each needs"),
        ({"stall_s": np.array([1.0, -1.0])}, "stall in seconds a byte"),
        ({"compute_s": np.array([-1.0, 2.0])}, "compute in seconds a byte"),
        ({"compute_s": np.array([0.0, 1.0]), "stall_s": np.array([0.0, 1.0])}, "time in seconds"),
        ({"samples": [{"lat": 1.0}, {}]}, "attribute lat"),
        ({"samples": [{"lat": 1.0}, {"lat": 0.0}]}, "attribute lat"),
        ({"reference": {"lat": 0.0}}, "attribute lat of the reference"),
    ],
)
def test_runs_that_cannot_be_are_refused(changed, why):
    given = {
        "samples": [{"lat": 1.0}, {"lat": 2.0}], "compute_s": np.array([1.0, 0.0]),
        "stall_s": np.array([0.0, 2.0]), "reference": {"lat": 1.0}, "attributes": ["lat"],
    }  # fmt: skip
    assert learn_bottleneck(**given) is not None
    with pytest.raises(ValueError, match=why):
        learn_bottleneck(**{**given, **changed})
    with pytest.raises(ValueError, match="runs: each needs"):
        learn_bottleneck([], np.array([]), np.array([]), reference={}, attributes=[])


def test_more_terms_come_one_by_one_to_the_best_so_far():
    """Every first term, then each other one beside the best of them."""
    rng = np.random.default_rng(4)
    columns = rng.uniform(0.5, 1.5, (9, 4))
    given = DemandRuns(columns, np.zeros(9), columns @ np.array([0.0, 1.0, 0.0, 2.0]))
    made = [tuple(np.flatnonzero(one.theta).tolist()) for one in given.learned(0.0)]
    assert made[:4] == [(0,), (1,), (2,), (3,)]
    assert all(3 in one for one in made[4:])
    assert (1, 3) in made
    assert len(made) == 4 + 3 + 2
    # With a share no run may be left out only where some are.
    assert list(given.learned(0.1)) == []
    nothing = DemandRuns(columns, np.ones(9), np.zeros(9))
    assert list(nothing.learned(0.0)) == []


def test_runs_below_a_share_of_what_the_processor_does_count_as_hidden():
    """Stalls of 0, 0.04, 0.05 and 0.06 beside 1 are idle time at a share of a tenth: 0.045."""
    stalls = np.array([0.0, 0.04, 0.05, 0.06, 0.1, 3.0])
    given = DemandRuns(np.ones((6, 1)), np.ones(6), stalls)
    (made,) = given.learned(0.1)
    assert made.idle_s == pytest.approx(0.05)
    (made,) = given.learned(0.05)
    assert made.idle_s == pytest.approx(0.04)


@pytest.mark.parametrize("seed", range(4))
def test_rounding_errors_make_no_rivals(seed):
    given = runs(lambda _, lat: 2.0 + 0.75 * lat)
    off = 1 + 4e-16 * np.random.default_rng(seed).standard_normal(len(given))
    one = learned(given)
    other = learned([(a, b, s * o) for (a, b, s), o in zip(given, off, strict=True)])
    assert [d.weight for d in one.demands] == pytest.approx([d.weight for d in other.demands])
