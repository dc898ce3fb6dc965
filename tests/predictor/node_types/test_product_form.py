"""aprof: products of contributions, learned from sums alone."""

from itertools import product
from math import exp, log, sqrt
from statistics import fmean

import msgspec
import numpy as np
import pytest
from scipy.stats import t as student

from predictor.node_types.product_form import (
    ProductForm,
    Sums,
    TooFewObservations,
    Unobserved,
    criterion,
    distinguishable,
    explanatory,
    possible_terms,
    terms,
)

pytestmark = pytest.mark.kernels

RESOURCES = ("nodes", "clock")
LIMITS = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1)  #: section 5


def truth(nodes, clock):
    return (20.0 + 1000.0 / nodes) * (0.1 + 3.0 / clock)


def observed(most, clock, noise=0.0, seed=1):
    """Follow the paper's protocol: each node count under each CPU limit."""
    rng = np.random.default_rng(seed)
    return [
        (
            {"nodes": float(n), "clock": clock * limit},
            truth(n, clock * limit) * rng.lognormal(0, noise),
        )
        for n, limit in product(range(1, most + 1), LIMITS)
    ]


def sums_of(observations, *, relative=True):
    sums = Sums.none(RESOURCES, relative=relative)
    for amounts, time_s in observations:
        sums = sums.add(amounts, time_s)
    return sums


def errors(observations, fit):
    return [abs(fit.predict(a).time_s - t) / t for a, t in observations]


def test_expansion_has_a_term_for_each_set():
    assert len(terms(("a", "b", "c"))) == 8
    assert explanatory(RESOURCES, {"nodes": 4.0, "clock": 2.0}).tolist() == [1, 0.25, 0.5, 0.125]


@pytest.mark.parametrize("relative", [True, False])
def test_a_product_is_recovered(relative):
    fit = ProductForm(select=False).fit(sums_of(observed(7, 3.0), relative=relative))
    assert fit.theta == pytest.approx((2.0, 100.0, 60.0, 3000.0), rel=1e-4)
    unobserved = fit.predict({"nodes": 40.0, "clock": 5.0})
    assert unobserved.time_s == pytest.approx(truth(40, 5.0), rel=1e-4)


def test_within_a_cluster_as_in_the_paper():
    """Section 6 found 5.34 and 5.66 %; four out of five runs are learned, the fifth predicted."""
    runs = observed(15, 3.6, noise=0.05)
    rng = np.random.default_rng(3)
    held = rng.random(len(runs)) < 0.2
    fit = ProductForm().fit(sums_of([r for r, out in zip(runs, held, strict=True) if not out]))
    assert fmean(errors([r for r, out in zip(runs, held, strict=True) if out], fit)) < 0.06


def test_across_clusters_as_in_the_paper():
    """Section 6 found 9.97 and 5.83 %."""
    one, other = observed(7, 2.8, 0.05, seed=1), observed(15, 3.6, 0.05, seed=2)
    assert fmean(errors(other, ProductForm().fit(sums_of(one)))) < 0.10
    assert fmean(errors(one, ProductForm().fit(sums_of(other)))) < 0.10


def test_nine_of_ten_new_runs_are_inside():
    fit = ProductForm().fit(sums_of(observed(7, 3.0, noise=0.1)))
    new = observed(7, 3.0, noise=0.1, seed=9)
    inside = [(p := fit.predict(a)).low_s <= t <= p.high_s for a, t in new]
    assert 0.75 < fmean(inside) <= 1.0


def test_terms_without_evidence_are_left_out():
    rng = np.random.default_rng(5)
    runs = [
        ({"nodes": float(n), "clock": c}, 600.0 / n * rng.lognormal(0, 0.03))
        for n, c in product(range(1, 17), (2.0, 2.5, 3.0, 3.5))
    ]
    assert ProductForm().fit(sums_of(runs)).chosen == (("nodes",),)


def test_relative_errors_keep_short_runs_right():
    # Above 8 nodes the form is wrong: the runs there are longer than it can say.
    runs = [(a, t * (1.0 if a["nodes"] < 12 else 1.3)) for a, t in observed(15, 3.0)]
    plain = ProductForm(select=False).fit(sums_of(runs, relative=False))
    relative = ProductForm(select=False).fit(sums_of(runs))
    assert fmean(errors(runs, relative)) < fmean(errors(runs, plain))


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="clock is None"):
        Sums.none(RESOURCES).add({"nodes": 1.0}, 5.0)
    with pytest.raises(ValueError, match="run time is 0"):
        Sums.none(RESOURCES).add({"nodes": 1.0, "clock": 1.0}, 0.0)
    with pytest.raises(TooFewObservations):
        ProductForm().fit(Sums.none(RESOURCES))
    with pytest.raises(ValueError, match="cannot be merged"):
        Sums.none(RESOURCES).merge(Sums.none(("nodes",)))


def noisy(relative):
    """Runs over nodes alone, with H and x as the paper has them."""
    nodes = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    times = (30.0 + 400.0 / nodes) * np.array([1.04, 0.97, 1.05, 0.94, 1.06, 0.95])
    sums = Sums.none(("nodes",), relative=relative)
    for n, time_s in zip(nodes.tolist(), times.tolist(), strict=True):
        sums = sums.add({"nodes": n}, time_s)
    return sums, np.column_stack([np.ones(6), 1 / nodes]), times


def test_sums_are_those_of_equations_8_and_9():
    sums, h, x = noisy(relative=False)
    assert np.allclose(sums.hh, h.T @ h, rtol=1e-14)
    assert np.allclose(sums.hx, h.T @ x, rtol=1e-14)
    assert sums.xx == pytest.approx(x @ x, rel=1e-14)
    relative, _, _ = noisy(relative=True)
    w = h / x[:, None]
    assert np.allclose(relative.hh, w.T @ w, rtol=1e-14)
    assert np.allclose(relative.hx, w.sum(axis=0), rtol=1e-14)
    assert relative.xx == pytest.approx(6.0)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_estimates_and_intervals_are_those_of_least_squares(relative, level):
    sums, h, x = noisy(relative=relative)
    weights = 1 / x if relative else np.ones(6)
    theta, rest, *_ = np.linalg.lstsq(h * weights[:, None], x * weights, rcond=None)
    variance = float(rest[0]) / (6 - 2)
    fit = ProductForm(select=False).fit(sums)
    assert fit.theta == pytest.approx(theta, rel=1e-10)
    assert fit.noise == pytest.approx(sqrt(variance), rel=1e-9)
    row = np.array([1.0, 1 / 3])
    time_s = float(row @ theta)
    recorded = variance * float(row @ np.linalg.inv((h.T * weights**2) @ h) @ row)
    spread = sqrt(recorded + variance * (time_s**2 if relative else 1.0)) / time_s
    width = float(student.ppf((1 + level) / 2, 4)) * spread
    result = fit.predict({"nodes": 3.0}, level)
    assert (result.nodes, result.level) == (3, level)
    assert result.time_s == pytest.approx(time_s)
    assert result.low_s == pytest.approx(time_s * exp(-width))
    assert result.high_s == pytest.approx(time_s * exp(width))
    assert result.curve_sd == pytest.approx(sqrt(recorded) / time_s)


def test_as_many_runs_as_terms_leave_nothing_to_judge_by():
    """Section 3: n + 1 runs determine the parameters, "more than n+1" are reliable."""
    runs = [({"nodes": float(n)}, 10.0 + 90.0 / n) for n in (1, 2, 4)]
    full = ProductForm(select=False)
    with pytest.raises(TooFewObservations, match="1 runs do not determine 1 terms"):
        ProductForm().fit(Sums.none(("nodes",)).add_all(runs[:1]))
    with pytest.raises(TooFewObservations, match="2 runs do not determine 2 terms"):
        full.fit(Sums.none(("nodes",)).add_all(runs[:2]))
    fit = full.fit(Sums.none(("nodes",)).add_all(runs))
    assert fit.theta == pytest.approx((10.0, 90.0))
    two = ProductForm().fit(Sums.none(("nodes",)).add_all(runs[:2]))
    assert two.chosen == ((),)


def test_runs_that_all_fit_exactly_still_have_an_interval():
    """A single run differs by 1 % from the next, whatever few of them show."""
    runs = [({"nodes": float(n)}, 10.0 + 90.0 / n) for n in (1, 2, 4, 8)]
    for relative in (True, False):
        fit = ProductForm(select=False).fit(Sums.none(("nodes",), relative=relative).add_all(runs))
        mean = sqrt(fmean([t**2 for _, t in runs]))
        assert fit.noise == pytest.approx(0.01 if relative else 0.01 * mean)
        made = fit.predict({"nodes": 2.0})
        assert made.high_s / made.low_s > 1.03


def test_another_clock_is_not_determined_by_runs_on_one():
    """Nor is a mixture where nodes and clock only changed together."""
    one_clock = [({"nodes": float(n), "clock": 3.0}, truth(n, 3.0)) for n in range(1, 8)]
    fit = ProductForm().fit(sums_of(one_clock))
    assert fit.predict({"nodes": 40.0, "clock": 3.0}).time_s > 0
    for other in (0.3, 2.9, 3.1):
        with pytest.raises(Unobserved, match="runs with other nodes, clock"):
            fit.predict({"nodes": 4.0, "clock": other})
    together = [({"nodes": float(n), "clock": float(n)}, truth(n, n)) for n in range(1, 8)]
    fit = ProductForm().fit(sums_of(together))
    assert fit.predict({"nodes": 9.0, "clock": 9.0}).time_s > 0
    with pytest.raises(Unobserved):
        fit.predict({"nodes": 4.0, "clock": 1.0})
    both = ProductForm().fit(sums_of(observed(3, 3.0)))
    assert both.unseen == ()
    assert both.predict({"nodes": 4.0, "clock": 9.0}).time_s == pytest.approx(truth(4, 9.0))


def test_sums_lose_nothing_when_many_short_runs_leave_them():
    rng = np.random.default_rng(2)
    short = [
        ({"nodes": float(rng.integers(1, 9)), "clock": float(rng.uniform(1, 3))}, float(second))
        for second in 1 + 0.3 * rng.random(20_000)
    ]
    long = [
        ({"nodes": float(n), "clock": c}, 1e4 * truth(n, c))
        for n, c in product((1, 2, 4, 8), (1.0, 2.0, 3.0))
    ]
    left = sums_of([]).add_all(short).add_all(long)
    for first in range(0, len(short), 777):
        left = left.add_all(short[first : first + 777], times=-1)
    clean = sums_of([]).add_all(long)
    assert left.count == clean.count
    assert np.allclose(left.hh, clean.hh, rtol=1e-9, atol=0)
    assert np.allclose(left.hx, clean.hx, rtol=1e-9, atol=0)
    fit = ProductForm(select=False).fit(left)
    assert fit.theta == pytest.approx(ProductForm(select=False).fit(clean).theta, rel=1e-6)


def test_what_sums_cannot_hold_travels_and_merges_too():
    thirds = [({"nodes": 3.0}, 1.0 + n / 7) for n in range(50)]
    sums = Sums.none(("nodes",)).add_all(thirds)
    assert any(sums.rest)
    assert len(sums.rest) == 9
    back = msgspec.json.decode(msgspec.json.encode(sums), type=Sums)
    parts = (
        Sums.none(("nodes",)).add_all(thirds[:20]).merge(Sums.none(("nodes",)).add_all(thirds[20:]))
    )
    for one in (back, parts):
        empty = one.add_all(thirds, times=-1)
        assert np.abs(empty.hh).max() < 1e-28
        assert abs(empty.xx) < 1e-28
        assert empty.count == 0


def test_sums_stored_before_there_was_a_rest_are_read():
    old = {"resources": ["nodes"], "hh": [[1, 1], [1, 1]], "hx": [2, 2], "xx": 4.0, "count": 1}
    sums = msgspec.json.decode(msgspec.json.encode(old), type=Sums)
    assert sums.add({"nodes": 1.0}, 2.0).hx == (2.5, 2.5)  # relative, as they were


def test_load_takes_part_in_proportion():
    """Section 2.3: "higher values representing a greater input load", linear."""
    runs = [
        ({"nodes": float(n), "load": load}, (5.0 + 2.0 * load) * (1.0 + 8.0 / n))
        for n, load in product((1, 2, 4, 8), (1.0, 2.0, 5.0))
    ]
    fit = ProductForm().fit(Sums.none(("nodes", "load")).add_all(runs))
    assert fit.predict({"nodes": 4.0, "load": 10.0}).time_s == pytest.approx(75.0)


def test_cache_disk_and_network_are_contributions_like_others():
    """Section 2.1: those that matter are found, the others are eliminated."""
    rng = np.random.default_rng(4)
    resources = ("cache", "disk", "network")
    runs = [
        (
            {"cache": a, "disk": b, "network": c},
            (50.0 + 300.0 / b) * (1.0 + 0.5 / a) * rng.lognormal(0, 0.01),
        )
        for a, b, c in product((0.25, 0.5, 1.0), (1.0, 2.0, 4.0), (1.0, 10.0))
    ]
    fit = ProductForm().fit(Sums.none(resources).add_all(runs))
    assert {("cache",), ("disk",), ("cache", "disk")} <= {*fit.chosen}
    asked = {"cache": 0.25, "disk": 4.0}
    for network in (1.0, 3.0, 10.0):
        time_s = fit.predict({**asked, "network": network}).time_s
        assert time_s == pytest.approx(125.0 * 3.0, rel=0.03)


def test_times_out_of_all_bounds_and_resources_that_are_none_are_refused():
    with pytest.raises(ValueError, match="run time is 1e-200"):
        Sums.none(("nodes",)).add({"nodes": 1.0}, 1e-200)
    for resources in ((), ("nodes", "nodes")):
        with pytest.raises(ValueError, match="name at least one, and each once"):
            Sums.none(resources)
    assert Sums.none(("nodes",)).add_all([]).count == 0


def test_no_time_above_zero_is_no_answer():
    runs = [({"nodes": 1.0}, 1.0), ({"nodes": 2.0}, 100.0), ({"nodes": 4.0}, 120.0)]
    fit = ProductForm(select=False).fit(Sums.none(("nodes",), relative=False).add_all(runs))
    with pytest.raises(ValueError, match="no run time above zero"):
        fit.predict({"nodes": 0.5})


def test_amounts_of_any_size_are_distinguished():
    """Benchmarks count bytes a second: the inverse of 10^10 is small, and no less independent."""
    runs = [
        ({"nodes": float(n), "memory": m}, (1.0 + 8.0 / n) * (2.0 + 3e10 / m))
        for n, m in product((1, 2, 4), (5e9, 1e10, 2e10))
    ]
    fit = ProductForm(select=False).fit(Sums.none(("nodes", "memory")).add_all(runs))
    assert fit.predict({"nodes": 4.0, "memory": 1.5e10}).time_s == pytest.approx(12.0)


def test_whether_resources_work_together_may_stay_open():
    """Both varied, if not both at once: there is an answer, without the term for both."""
    runs = [({"nodes": float(n), "clock": 3.0}, 10.0 + 60.0 / n) for n in (1, 2, 4, 8)]
    runs += [({"nodes": 2.0, "clock": c}, 10.0 + 60.0 / 2 + 30 / c - 10) for c in (1.0, 1.5)]
    fit = ProductForm().fit(sums_of(runs))
    assert fit.unseen == ()
    assert fit.predict({"nodes": 8.0, "clock": 1.0}).time_s > 0


@pytest.mark.filterwarnings("error")
def test_sums_that_cannot_be_are_too_few():
    """What an earlier release left after taking runs out may be below zero."""
    for hh in (((-1e-9, 0.0), (0.0, 1.0)), ((1.0, 0.0), (0.0, 0.0))):
        with pytest.raises(TooFewObservations):
            ProductForm(select=False).fit(Sums(("nodes",), hh, (1.0, 1.0), 5.0, 5))


def test_times_that_are_all_alike_are_the_constant():
    """Nothing is left to explain: not even the logarithm of nothing is asked for."""
    runs = [({"nodes": float(n)}, 1.0) for n in (1, 2, 4)]
    fit = ProductForm().fit(Sums.none(("nodes",)).add_all(runs))
    assert fit.chosen == ((),)
    assert fit.predict({"nodes": 3.0}).time_s == pytest.approx(1.0)


def test_runs_at_one_place_tell_of_that_place_alone():
    runs = [({"nodes": 4.0, "clock": 3.0}, time_s) for time_s in (10.0, 11.0, 12.0)]
    fit = ProductForm().fit(sums_of(runs))
    assert len(fit.unseen) == 2
    assert fit.predict({"nodes": 4.0, "clock": 3.0}).time_s == pytest.approx(10.9, rel=0.02)
    for elsewhere in ({"nodes": 8.0, "clock": 3.0}, {"nodes": 4.0, "clock": 2.0}):
        with pytest.raises(Unobserved):
            fit.predict(elsewhere)


def test_the_criterion_is_bayes_s():
    """Times 1, 2 and 6, plainly: around their mean of 3 they leave 4 + 1 + 9 = 14."""
    runs = [({"nodes": float(n)}, time_s) for n, time_s in ((1, 1.0), (2, 2.0), (4, 6.0))]
    sums = Sums.none(("nodes",), relative=False).add_all(runs)
    assert criterion(sums, [0]) == pytest.approx(3 * log(14 / 3) + log(3))
    # By 1/nodes alone: theta = (1 + 1 + 1.5) / (1 + 1/4 + 1/16).
    left = 41 - 3.5**2 / 1.3125
    assert criterion(sums, [1]) == pytest.approx(3 * log(left / 3) + log(3))
    exact = Sums.none(("nodes",), relative=False).add_all([({"nodes": 1.0}, 5.0)] * 4)
    assert criterion(exact, [0]) == pytest.approx(4 * log(1e-12 * 100 / 4) + log(4))


def test_a_term_that_hardly_differs_from_others_is_none():
    """Two columns of angle a have eigenvalues 1 - cos a and 1 + cos a: at 1e-10 of each other."""
    for off, apart in ((1e-4, True), (1e-6, False)):
        cosine = 1 - off**2
        hh = ((1.0, cosine), (cosine, 1.0))
        sums = Sums(("nodes",), hh, (1.0, 1.0), 5.0, 5)
        assert distinguishable(sums, [0, 1]) == apart


@pytest.mark.parametrize(("count", "terms_left"), [(2, [0]), (3, [0, 1]), (4, [0, 1, 2])])
def test_there_is_a_run_more_than_there_are_terms(count, terms_left):
    runs = [observed(2, 3.0)[i] for i in (0, 8, 3, 12)][:count]
    assert possible_terms(sums_of(runs)) == terms_left


def test_sums_are_taken_in_or_out_and_nothing_else():
    for times in (0, 2, -2):
        with pytest.raises(ValueError, match=f"times is {times}"):
            Sums.none(("nodes",)).add({"nodes": 1.0}, 5.0, times=times)
    again = Sums.none(("nodes",)).add({"nodes": 1.0}, 5.0).add({"nodes": 1.0}, 5.0, times=-1)
    assert (again.count, again.rest) == (0, ())


def test_what_lies_a_thousandth_outside_is_as_it_was_observed():
    runs = [({"nodes": float(n), "clock": 3.0}, truth(n, 3.0)) for n in range(1, 8)]
    fit = ProductForm().fit(sums_of(runs))
    assert fit.predict({"nodes": 4.0, "clock": 3.0 * (1 + 1e-4)}).time_s > 0
    with pytest.raises(Unobserved):
        fit.predict({"nodes": 4.0, "clock": 3.0 * (1 + 1e-2)})
