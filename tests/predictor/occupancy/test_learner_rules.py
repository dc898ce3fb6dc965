"""Rules of the learner that no whole trace shows: when it stops, what it skips, how it weighs."""

import dataclasses
from math import inf

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks._paper_settings import PAPER
from predictor.occupancy.active.informative import Informative
from predictor.occupancy.active.learner import Learner, interval_percent
from predictor.occupancy.active.settings import (
    Error,
    LearnerSettings,
    OccupancyPart,
    Purpose,
    RefinementOrder,
    Selection,
)
from predictor.occupancy.active.space import Space
from predictor.occupancy.application_model import Predicted
from predictor.occupancy.samples import Occupancies, Sample

pytestmark = pytest.mark.kernels

LEVELS = (1.0, 2.0, 3.0, 4.0, 5.0)
SPACE = Space.full({"cpu": LEVELS, "lat": LEVELS}, {"cpu": True, "lat": False})
BY_DOMAIN = replace(PAPER, order=RefinementOrder.DOMAIN, attribute_order=RefinementOrder.DOMAIN)
ALONE = replace(BY_DOMAIN, parts=(OccupancyPart.COMPUTE,), target=0.0, fewest=100)


def plain(given):
    return Sample(dict(given), Occupancies(8 / given["cpu"], given["lat"], 1.0, 1.0))


def run(learner, runs=100):
    while runs and (proposal := learner.propose()):
        learner.observe(plain(proposal.attributes))
        runs -= 1
    return learner


def test_an_error_of_just_the_target_is_good_enough():
    settings = replace(BY_DOMAIN, target=0.0, fewest=3)
    error = run(Learner(SPACE, settings), 3).error
    assert len(run(Learner(SPACE, replace(settings, target=error))).samples) == 3


def test_the_paper_stops_at_the_first_error_below_the_target():
    assert len(run(Learner(SPACE, replace(BY_DOMAIN, target=1e9, fewest=3))).samples) == 3
    twice = replace(BY_DOMAIN, target=1e9, fewest=3, in_a_row=2)
    assert len(run(Learner(SPACE, twice)).samples) == 4


def test_two_samples_have_no_error_and_three_have():
    learner = run(Learner(SPACE, ALONE), 2)
    assert learner.error == inf
    assert run(learner, 1).error < inf


def test_a_run_that_cannot_be_had_says_nothing_of_the_attribute():
    """The processor was worth it: its next level comes after the one that was skipped."""
    learner = run(Learner(SPACE, ALONE), 3)
    skipped = learner.propose()
    assert skipped.attributes == {"cpu": 2.0, "lat": 5.0}
    learner.skip()
    following = learner.propose()
    assert following.attributes == {"cpu": 4.0, "lat": 5.0}


def test_one_function_needs_no_screening_for_its_place():
    settings = replace(ALONE, order=RefinementOrder.RELEVANCE)
    learner, purposes = Learner(SPACE, settings), set()
    while proposal := learner.propose():
        purposes.add(proposal.purpose)
        learner.observe(plain(proposal.attributes))
    assert purposes == {Purpose.REFERENCE, Purpose.TRAINING}


def test_the_data_flow_counts_with_what_a_byte_takes_on_average():
    """Four corners: 3 s a byte on average, 4 bytes more make 12 s; the network makes 20 s."""

    def measured(given):
        flow = 10.0 if given["lat"] == 1 else 14.0
        slow = 1.0 if given["cpu"] == 1 else -1.0
        return Sample(dict(given), Occupancies(1.0, 1.0 + (10 / flow) * slow, 1.0, flow))

    settings = replace(
        PAPER, parts=(OccupancyPart.DATA, OccupancyPart.NETWORK), target=0.0, fewest=100
    )
    learner, why = Learner(SPACE, settings), ""
    while not why and (proposal := learner.propose()):
        why = proposal.why if proposal.purpose is Purpose.TRAINING else ""
        learner.observe(measured(proposal.attributes))
    assert why.startswith("refines the network occupancy")


def test_the_data_flow_is_refined_like_the_occupancies():
    def grows(given):
        return Sample(dict(given), Occupancies(1.0, 1.0, 1.0, 10.0 + 5 * given["lat"]))

    own = {"parts": (OccupancyPart.DATA,), "attributes": {OccupancyPart.DATA: ("lat", "cpu")}}
    learner, runs, why = Learner(SPACE, replace(ALONE, **own)), [], ""
    while proposal := learner.propose():
        runs.append(tuple(proposal.attributes.values()))
        why = why or (proposal.why if proposal.purpose is Purpose.TRAINING else "")
        learner.observe(grows(proposal.attributes))
    assert runs[:4] == [(1.0, 5.0), (1.0, 1.0), (1.0, 3.0), (1.0, 2.0)]
    assert why == "refines the data flow over lat"
    assert learner.fit.best.data({"cpu": 2.0, "lat": 2.5}) == pytest.approx(22.5)


def test_paper_functions_are_linear_in_predetermined_transformations():
    """Algorithm 6: f_a = 8 (1/cpu) of the reference's 8, and f_n = lat, once levels were run."""
    own = {OccupancyPart.COMPUTE: ("cpu", "lat"), OccupancyPart.NETWORK: ("lat", "cpu")}
    fit = run(Learner(SPACE, replace(BY_DOMAIN, attributes=own, target=0.0, fewest=100))).fit
    assert [str(term) for term in fit.best.compute.terms] == ["1/cpu", "lat"]
    assert [str(term) for term in fit.best.network.terms] == ["lat", "1/cpu"]
    assert fit.best.bottleneck is None
    for cpu, lat in ((4.0, 1.0), (2.0, 3.0)):
        given = {"cpu": cpu, "lat": lat}
        assert fit.predict(given).time_s == pytest.approx(plain(given).measured.time_s)


def test_an_interval_reaches_as_far_as_the_root_of_its_width():
    made = Occupancies(1.0, 0.0, 0.0, 1.0)
    assert interval_percent(Predicted(120.0, 100.0, 144.0, 0.9, made)) == pytest.approx(20.0)


def test_the_nearest_candidate_is_measured_by_the_range_of_each_attribute():
    some = ((1.0, 1.0), (450.0, 1.0), (800.0, 2.0), (1000.0, 2.0))
    candidates = tuple({"a": a, "b": b, "same": 7.0} for a, b in some)
    space = Space(candidates, {"a": True, "b": True, "same": True})
    assert space.nearest({"a": 500.0, "b": 2.0, "same": 7.0}) == candidates[2]
    assert space.nearest({"a": 500.0, "b": 1.2, "same": 9.0}) == candidates[1]


@pytest.mark.parametrize("seed", range(6))
def test_an_informative_run_takes_most_variance_for_its_time(seed):
    """Bayesian linear regression, by inverting the precision anew with each candidate."""
    rng = np.random.default_rng(seed)
    space = Space.full(
        {"a": (1.0, 2.0, 4.0, 8.0), "b": (1.0, 3.0, 9.0), "same": (5.0,)},
        {"a": True, "b": False, "same": True},
    )
    every = list(space.candidates)
    order = rng.permutation(len(every))
    samples = [Sample(every[i], Occupancies(1.0, 1.0, 1.0, 1.0)) for i in order[: 1 + seed]]
    left = [every[i] for i in order[1 + seed :]]
    time_s = {space.key(one): float(rng.uniform(1, 20)) for one in every}

    def on_scale(value, low, high):
        return 2 * (value - low) / (high - low) - 1

    def features(one):
        a, b = on_scale(one["a"], 1, 8), on_scale(one["b"], 1, 9)
        inverse = on_scale(1 / one["a"], 1 / 8, 1), on_scale(1 / one["b"], 1 / 9, 1)
        return [1.0, a, b, 0.0, *inverse, 0.0, a * b, 0.0, 0.0]

    prior = np.diag(1 / np.array([1.0] * 7 + [0.3] * 3))
    rows = np.array([features(one) for one in every])

    def variance(runs):
        x = np.array([features(one) for one in runs])
        return float(np.trace(rows @ np.linalg.inv(prior + x.T @ x / 0.05**2) @ rows.T))

    ran = [dict(one.attributes) for one in samples]
    fixed = 0.1 * float(np.mean([time_s[space.key(one)] for one in left]))
    gains = [
        (variance(ran) - variance([*ran, one])) / (time_s[space.key(one)] + fixed) for one in left
    ]
    chosen = Informative(space).choose(left, samples, lambda one: time_s[space.key(one)])
    assert chosen == left[int(np.argmax(gains))]


def test_l2_i2_has_all_attributes_from_the_start():
    learner = Learner(SPACE, replace(BY_DOMAIN, selection=Selection.L2_I2, target=0.0, fewest=99))
    run(learner, 2)
    assert {term.attribute for term in learner.fit.best.compute.terms} == {"cpu", "lat"}


@pytest.mark.parametrize("error", [Error.RANDOM_TEST, Error.PBDF_TEST])
def test_errors_on_a_test_set_wait_for_it(error):
    learner = Learner(SPACE, replace(ALONE, error=error, test_runs=3))
    assert run(learner, 1).error == inf
    assert run(learner, 1).error < inf


def test_attributes_come_in_their_order_once_one_has_no_levels_left():
    space = Space.full(
        {"a": (1.0, 2.0), "b": (1.0, 2.0), "c": (1.0, 2.0)}, dict.fromkeys("abc", True)
    )
    learner, runs = Learner(space, ALONE), []
    while proposal := learner.propose():
        runs.append(tuple(proposal.attributes.values()))
        result = Occupancies(8 / proposal.attributes["a"], 1.0, 1.0, 1.0)
        learner.observe(Sample(proposal.attributes, result))
    assert runs == [(1.0, 1.0, 1.0), (2.0, 1.0, 1.0), (1.0, 2.0, 1.0), (1.0, 1.0, 2.0)]


@pytest.mark.parametrize(
    ("error", "test_runs", "why"),
    [
        (Error.RANDOM_TEST, 8, "a test set of 8 of 9 assignments leaves 1"),
        (Error.RANDOM_TEST, 12, "a test set of 12 of 9 assignments leaves 0"),
        (Error.RANDOM_TEST, 7, ""),
        (Error.PBDF_TEST, 8, ""),
    ],
)
def test_a_test_set_leaves_two_runs_to_learn_from(error, test_runs, why):
    three = (1.0, 2.0, 3.0)
    space = Space.full({"cpu": three, "lat": three}, {"cpu": True, "lat": False})
    settings = replace(ALONE, error=error, test_runs=test_runs)
    if not why:
        assert Learner(space, settings).propose() is not None
        return
    with pytest.raises(ValueError, match=why):
        Learner(space, settings)


def test_two_levels_and_a_test_set_of_them_leave_nothing():
    settings = replace(ALONE, error=Error.PBDF_TEST, selection=Selection.L2_I2)
    with pytest.raises(ValueError, match="takes all runs of L2-I2"):
        Learner(SPACE, settings)


def alike(given):
    """Each run took the same."""
    return Sample(dict(given), Occupancies(1.0, 1.0, 1.0, 1.0))


@pytest.mark.parametrize(
    ("values", "needed"), [(LEVELS, 3), (LEVELS[:3], 3), (LEVELS[:2], 2), (LEVELS[:1], 1)]
)
def test_three_levels_of_each_attribute_are_enough_to_be_sure(values, needed):
    """Where an attribute has fewer levels, all of them are."""
    space = Space.full({"cpu": values, "lat": values}, {"cpu": True, "lat": False})
    learner = Learner(space, LearnerSettings(fewest=1, in_a_row=1, target=1e6))
    levels = {name: set[float]() for name in ("cpu", "lat")}
    fewest = 0
    while proposal := learner.propose():
        fewest = min(map(len, levels.values()))
        learner.observe(alike(proposal.attributes))
        for name, own in levels.items():
            own.add(proposal.attributes[name])
    assert learner.good_enough == (len(values) > 1)
    assert min(map(len, levels.values())) == needed
    assert fewest < needed


@pytest.mark.slow
def test_the_error_ahead_is_the_larger_of_left_out_runs_and_the_last_two():
    rng = np.random.default_rng(3)
    ahead = Learner(SPACE, LearnerSettings(target=0.0, fewest=99))
    others = Learner(SPACE, replace(ahead.settings, error=Error.CROSS_VALIDATION))
    off = []
    larger = set()
    while proposal := ahead.propose():
        ran = plain(proposal.attributes)
        ran = Sample(
            ran.attributes, dataclasses.replace(ran.measured, compute_s=rng.uniform(0.5, 9.0))
        )
        if ahead.samples:
            expected_s = ahead.fit.predict(ran.attributes).time_s
            off.append(100 * abs(expected_s / ran.measured.time_s - 1))
        for learner in (ahead, others):
            learner.observe(ran)
        last = float(np.mean(off[-2:])) if off else inf
        assert ahead.error == pytest.approx(max(others.error, last))
        if len(ahead.samples) > 2:
            larger.add("last" if last > others.error else "left out")
    assert larger == {"last", "left out"}
