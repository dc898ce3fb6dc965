"""aprof: products of contributions, learned from sums alone."""

from itertools import product
from statistics import fmean

import msgspec
import numpy as np
import pytest

from predictor.models.product_form import (
    ProductForm,
    Sums,
    TooFewObservations,
    explanatory,
    terms,
)

RESOURCES = ("nodes", "clock")
LIMITS = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1)  #: section 5
Observation = tuple[dict[str, float], float]


def truth(nodes: float, clock: float) -> float:
    return (20.0 + 1000.0 / nodes) * (0.1 + 3.0 / clock)


def observed(most: int, clock: float, noise: float = 0.0, seed: int = 1) -> list[Observation]:
    """Follow the paper's protocol: each node count under each CPU limit."""
    rng = np.random.default_rng(seed)
    return [
        (
            {"nodes": float(n), "clock": clock * limit},
            truth(n, clock * limit) * rng.lognormal(0, noise),
        )
        for n, limit in product(range(1, most + 1), LIMITS)
    ]


def sums_of(observations: list[Observation], *, relative: bool = True) -> Sums:
    sums = Sums.none(RESOURCES, relative=relative)
    for amounts, time_s in observations:
        sums = sums.add(amounts, time_s)
    return sums


def errors(observations: list[Observation], fit) -> list[float]:
    return [abs(fit.predict(a).time_s - t) / t for a, t in observations]


def test_expansion_has_a_term_for_each_set() -> None:
    assert len(terms(("a", "b", "c"))) == 8
    assert explanatory(RESOURCES, {"nodes": 4.0, "clock": 2.0}).tolist() == [1, 0.25, 0.5, 0.125]


@pytest.mark.parametrize("relative", [True, False])
def test_a_product_is_recovered(relative: bool) -> None:
    fit = ProductForm(select=False).fit(sums_of(observed(7, 3.0), relative=relative))
    assert fit.theta == pytest.approx((2.0, 100.0, 60.0, 3000.0), rel=1e-4)
    unseen = fit.predict({"nodes": 40.0, "clock": 5.0})
    assert unseen.time_s == pytest.approx(truth(40, 5.0), rel=1e-4)


def test_sums_do_not_depend_on_order_and_merge() -> None:
    runs = observed(7, 3.0, noise=0.1)
    whole, parts = sums_of(runs), sums_of(runs[::2]).merge(sums_of(runs[1::2]))
    assert np.allclose(whole.hh, sums_of(runs[::-1]).hh, rtol=1e-12)
    assert np.allclose(whole.hh, parts.hh, rtol=1e-12)
    assert np.allclose(whole.hx, parts.hx, rtol=1e-12)
    assert whole.count == parts.count == len(runs)


def test_sums_keep_their_size_and_a_run_can_be_taken_out() -> None:
    runs = observed(15, 3.6, noise=0.1)
    sums = sums_of(runs)
    assert (len(sums.hh), len(sums.hx)) == (4, 4)
    less = sums.add(*runs[-1], times=-1)
    assert np.allclose(less.hh, sums_of(runs[:-1]).hh, rtol=1e-9)


def test_sums_and_fits_travel_as_json() -> None:
    sums = sums_of(observed(3, 2.0))
    assert msgspec.json.decode(msgspec.json.encode(sums), type=Sums) == sums


def test_within_a_cluster_as_in_the_paper() -> None:
    """Section 6 found 5.34 and 5.66 %; four out of five runs are learned, the fifth predicted."""
    runs = observed(15, 3.6, noise=0.05)
    rng = np.random.default_rng(3)
    held = rng.random(len(runs)) < 0.2
    fit = ProductForm().fit(sums_of([r for r, out in zip(runs, held, strict=True) if not out]))
    assert fmean(errors([r for r, out in zip(runs, held, strict=True) if out], fit)) < 0.06


def test_across_clusters_as_in_the_paper() -> None:
    """Section 6 found 9.97 and 5.83 %."""
    one, other = observed(7, 2.8, 0.05, seed=1), observed(15, 3.6, 0.05, seed=2)
    assert fmean(errors(other, ProductForm().fit(sums_of(one)))) < 0.10
    assert fmean(errors(one, ProductForm().fit(sums_of(other)))) < 0.10


def test_nine_of_ten_new_runs_are_inside() -> None:
    fit = ProductForm().fit(sums_of(observed(7, 3.0, noise=0.1)))
    new = observed(7, 3.0, noise=0.1, seed=9)
    inside = [(p := fit.predict(a)).low_s <= t <= p.high_s for a, t in new]
    assert 0.75 < fmean(inside) <= 1.0


def test_terms_without_evidence_are_left_out() -> None:
    rng = np.random.default_rng(5)
    runs = [
        ({"nodes": float(n), "clock": c}, 600.0 / n * rng.lognormal(0, 0.03))
        for n, c in product(range(1, 17), (2.0, 2.5, 3.0, 3.5))
    ]
    assert ProductForm().fit(sums_of(runs)).chosen == (("nodes",),)


def test_relative_errors_keep_short_runs_right() -> None:
    # Above 8 nodes the form is wrong: the runs there are longer than it can say.
    runs = [(a, t * (1.0 if a["nodes"] < 12 else 1.3)) for a, t in observed(15, 3.0)]
    plain = ProductForm(select=False).fit(sums_of(runs, relative=False))
    relative = ProductForm(select=False).fit(sums_of(runs))
    assert fmean(errors(runs, relative)) < fmean(errors(runs, plain))


def test_one_cpu_speed_tells_nothing_about_another() -> None:
    runs = [({"nodes": float(n), "clock": 3.0}, truth(n, 3.0)) for n in range(1, 8)]
    with pytest.raises(TooFewObservations, match="run it with other nodes, clock"):
        ProductForm(select=False).fit(sums_of(runs))
    fit = ProductForm().fit(sums_of(runs))
    assert fit.predict({"nodes": 5.0, "clock": 3.0}).time_s == pytest.approx(truth(5, 3.0))


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="clock is None"):
        Sums.none(RESOURCES).add({"nodes": 1.0}, 5.0)
    with pytest.raises(ValueError, match="run time is 0"):
        Sums.none(RESOURCES).add({"nodes": 1.0, "clock": 1.0}, 0.0)
    with pytest.raises(TooFewObservations):
        ProductForm().fit(Sums.none(RESOURCES))
    with pytest.raises(ValueError, match="cannot be merged"):
        Sums.none(RESOURCES).merge(Sums.none(("nodes",)))
