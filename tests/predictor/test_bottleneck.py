"""The bottleneck: stalls begin where network and disk take longer than the processor."""

from itertools import product
from math import exp, log

import numpy as np
import pytest

from predictor.models.bottleneck import Bottleneck, Demand, learn_bottleneck
from predictor.models.functions import Function, Shape, Term

REFERENCE = {"mhz": 900.0, "lat": 8.0}
Run = tuple[dict[str, float], float, float]


def runs(demand, idle: float = 0.0, mhz=(450.0, 600.0, 900.0, 1400.0)) -> list[Run]:
    found = []
    for m, lat in product(mhz, (1.0, 4.0, 8.0, 12.0, 16.0)):
        busy = 10.0 * 450 / m
        found.append(({"mhz": m, "lat": lat}, busy, idle + max(0.0, demand(m, lat) - busy)))
    return found


def learned(given: list[Run], attributes=("mhz", "lat")) -> Bottleneck | None:
    amounts, busy, stalls = zip(*given, strict=True)
    return learn_bottleneck(
        list(amounts), np.array(busy), np.array(stalls), reference=REFERENCE, attributes=attributes
    )


def test_a_demand_with_latency_is_found() -> None:
    """Demand 2 + 0.75 lat: half of the runs hide it, and say that it is no more."""
    found = learned(runs(lambda _, lat: 2.0 + 0.75 * lat))
    assert found is not None
    likeliest = found.demands[0]
    assert likeliest.idle_s == 0.0
    assert {(t.attribute, t.shape) for t in likeliest.function.terms} == {("lat", Shape.LINEAR)}
    assert likeliest.function({"mhz": 1.0, "lat": 10.0}) == pytest.approx(9.5, rel=1e-6)
    for mhz, lat in product((500.0, 1000.0, 2000.0), (2.0, 10.0, 20.0)):
        busy = 10.0 * 450 / mhz
        stall = max(0.0, 2.0 + 0.75 * lat - busy)
        low, high = found.stall_s(busy, {"mhz": mhz, "lat": lat})[1:]
        assert low - 1e-6 <= stall <= high + 1e-6


def test_a_demand_with_the_reciprocal_of_an_attribute_is_found() -> None:
    found = learned(runs(lambda mhz, _: 6000.0 / mhz + 0.0))
    assert found is not None
    made = found.stall_s(10.0 * 450 / 700, {"mhz": 700.0, "lat": 3.0})[0]
    assert made == pytest.approx((6000 - 4500) / 700, rel=1e-3)


def test_idle_time_is_the_median_of_runs_that_hid_the_rest() -> None:
    found = learned(runs(lambda _, lat: 2.0 + 0.75 * lat, idle=0.3))
    assert found is not None
    assert found.demands[0].idle_s == pytest.approx(0.3)
    made = found.stall_s(10.0 * 450 / 1000, {"mhz": 1000.0, "lat": 14.0})[0]
    assert made == pytest.approx(0.3 + 12.5 - 4.5, rel=1e-3)
    assert str(found).startswith("0.3 + (")
    assert str(found).endswith(" - compute)+")


def test_where_no_run_stalled_there_is_no_bottleneck() -> None:
    assert learned(runs(lambda *_: 0.0)) is None


def test_a_demand_depends_on_what_it_may_depend_on() -> None:
    found = learned(runs(lambda _, lat: 2.0 + 0.75 * lat), attributes=("mhz",))
    assert found is not None
    assert all(t.attribute == "mhz" for one in found.demands for t in one.function.terms)


def test_weights_follow_the_criterion_and_rivals_are_those_it_does_not_refute() -> None:
    """Nothing tells a constant demand from one that grows with latency: both are believed."""
    given = [
        ({"mhz": m, "lat": 16.0}, 10.0 * 450 / m, max(0.0, 9.0 - 10.0 * 450 / m))
        for m in (450.0, 600.0, 900.0, 1400.0)
    ]
    given += [({"mhz": 450.0, "lat": x}, 10.0, 0.0) for x in (1.0, 4.0, 8.0)]
    found = learned(given)
    assert found is not None
    assert len(found.demands) > 1
    assert sum(one.weight for one in found.demands) == pytest.approx(1.0)
    weights = [one.weight for one in found.demands]
    assert weights == sorted(weights, reverse=True)
    # Bayes factors above exp(3) ("strong") refute.
    assert log(weights[0] / weights[-1]) < 3.0
    _, low, high = found.stall_s(3.0, {"mhz": 1500.0, "lat": 1.0})
    assert low < 1.0
    assert high >= 6.0 - 1e-6


def line(slope: float) -> Function:
    return Function({"lat": 1.0}, 1.0, 0.0, (Term("lat", Shape.LINEAR),), (slope,))


def test_stalls_are_weighed_and_bounded() -> None:
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


def test_a_hidden_run_bounds_those_that_demand_less() -> None:
    """Found demands 2, 5 and 9 were at most 4, 6 and 9: what demands 3 may take 6."""
    demand = Demand(line(1.0), 0.25, 1.0, (2.0, 5.0, 9.0), (4.0, 6.0, 9.0))
    for lat, bound in ((1.0, 4.0), (2.0, 4.0), (3.0, 6.0), (5.0, 6.0), (8.0, 9.0), (12.0, 12.0)):
        assert demand.longest_s(1.0, {"lat": lat}) == pytest.approx(0.25 + bound - 1.0)
    assert demand.longest_s(20.0, {"lat": 1.0}) == pytest.approx(0.25)


def test_learned_bounds_are_the_least_of_what_runs_from_there_on_took() -> None:
    given = runs(lambda _, lat: 2.0 + 0.75 * lat)
    found = learned(given)
    assert found is not None
    demand = found.demands[0]
    assert list(demand.demands) == sorted(demand.demands)
    took = sorted((demand.function(a), busy + stall) for a, busy, stall in given)
    for place, (value, bound) in enumerate(zip(demand.demands, demand.at_most_s, strict=True)):
        assert value == pytest.approx(took[place][0])
        least = min(t for d, t in took if d >= value - 1e-9)
        assert bound >= least - 1e-9
        assert bound <= min(t for _, t in took[place:]) + 1e-9


@pytest.mark.parametrize(("count", "most"), [(3, 1), (5, 2), (7, 3), (20, 3)])
def test_each_term_of_a_demand_needs_two_runs(count: int, most: int) -> None:
    rng = np.random.default_rng(1)
    largest = 0
    for _ in range(10):
        given = []
        for _ in range(count):
            m, lat = float(rng.uniform(400, 1500)), float(rng.uniform(1, 20))
            given.append(
                ({"mhz": m, "lat": lat}, 0.001, float(4 + 0.5 * lat + 3000 / m + rng.random()))
            )
        found = learned(given)
        assert found is not None
        for one in found.demands:
            size = len(one.function.terms) + (one.function.constant > 0)
            largest = max(largest, size)
    assert largest == most


def test_smaller_errors_than_one_per_cent_do_not_count() -> None:
    """Noise of 0.1 % makes no rival of a demand unlikely that fits to 0.5 %."""
    exact = learned(runs(lambda _, lat: 2.0 + 0.75 * lat))
    rng = np.random.default_rng(6)
    noisy = learned(
        [(a, b, s * exp(0.001 * rng.standard_normal())) for a, b, s in runs(
            lambda _, lat: 2.0 + 0.75 * lat
        )]
    )  # fmt: skip
    assert exact is not None
    assert noisy is not None
    assert exact.demands[0].weight == pytest.approx(noisy.demands[0].weight, rel=0.05)
