"""ADEPT's parts against numbers worked out by hand or on fine grids; all of it is fast."""

from dataclasses import replace
from math import log, log1p, sqrt

import numpy as np
import pytest

from predictor.models.adept import Adept
from predictor.models.adept.anomalies import (
    AnomalyExplanation,
    AnomalySettings,
    Metric,
    diagnose,
    explain,
)
from predictor.models.adept.envelope import Bounds, RangePair, envelope
from predictor.models.adept.model import (
    JudgementSettings,
    alternative_fit,
    as_good,
    high_fitting_error,
    linear_section,
    shared_targets,
)
from predictor.models.adept.search import EnvelopeLimits, Instances, SearchSettings
from predictor.models.downey import VarianceMode, max_useful, speedup, terms
from predictor.types import Point
from tests.predictor.example_curves import curve_of, downey, drawn

# --- Downey's model


def test_the_ends_of_the_model():
    assert max_useful(20, 0.5) == 39
    assert max_useful(20, 2) == 58
    assert max_useful(20, 1) == 39
    # The second section of the low mode ends at 2A - 1, where speedup is A.
    assert speedup([20, 38, 39, 40], 20, 0.5) == pytest.approx(
        [20 * 20 / 24.75, 20 * 38 / (9.75 + 28.5), 20, 20]
    )
    assert speedup([57, 58, 59], 20, 2) == pytest.approx([20 * 57 * 3 / (2 * 76 + 20), 20, 20])


def test_the_terms_of_each_piece():
    nodes, end = np.array([4.0, 30.0, 80.0]), np.array(20.0)
    p, q = terms(VarianceMode.LOW, nodes, end)
    assert p.tolist() == [5.0, 1.0, 1.0]
    assert q == pytest.approx([0.75, 39 / 30 - 1, 0.0])
    p, q = terms(VarianceMode.HIGH, nodes, end)
    assert p.tolist() == [5.0, 1.0, 1.0]
    assert q.tolist() == [1.0, 1.0, 1.0]


# --- Search


BOXES = [
    RangePair(VarianceMode.LOW, 2.0, 4.0, 0.2, 0.4),
    RangePair(VarianceMode.LOW, 8.0, 16.0, 0.4, 1.0),
]


def limits(*pairs):
    return EnvelopeLimits.of(VarianceMode.LOW, pairs)


def test_the_steps_of_the_first_pass():
    steps = limits(*BOXES).steps(4)
    assert steps == pytest.approx([2.0, 4.0, 8.0, 16.0])
    assert EnvelopeLimits.of(VarianceMode.HIGH, BOXES) is None


def test_ends_move_to_the_closest_that_is_allowed():
    tried = np.array([[1.0, 3.0, 5.0], [6.5, 9.0, 40.0]])
    assert limits(*BOXES).clipped(tried).tolist() == [[2.0, 3.0, 4.0], [8.0, 9.0, 16.0]]


def test_the_closest_x_from_below_and_above():
    both = RangePair(VarianceMode.LOW, 2.0, 4.0, 0.6, 0.8)
    ends = np.full(5, 3.0)
    x = np.array([0.05, 0.15, 0.25, 0.35, 0.5])  # σ/2
    below, above = limits(BOXES[0], both).nearest(ends, x)
    assert below == pytest.approx([-np.inf, 0.15, 0.2, 0.35, 0.4])
    assert above == pytest.approx([0.1, 0.15, 0.3, 0.35, np.inf])
    narrowed = np.full(5, 0.12), np.full(5, 0.32)
    below, above = limits(BOXES[0], both).nearest(ends, x, narrowed)
    assert below == pytest.approx([-np.inf, 0.15, 0.2, 0.32, 0.32])
    assert above == pytest.approx([0.12, 0.15, 0.3, np.inf, np.inf])
    below, above = limits(BOXES[0]).nearest(np.array([5.0]), np.array([0.15]))
    assert (below[0], above[0]) == (-np.inf, np.inf)


def test_large_targets_share_a_search():
    targets = np.array([3.0, 16.0, 17.0, 100.0, 101.0, 4096.0])
    expected = [2 ** (round(log(n, 2) * 8) / 8) for n in targets[2:]]
    assert shared_targets(targets) == pytest.approx([3.0, 16.0, *expected], abs=5e-4)
    assert shared_targets(np.array([99.0])) == shared_targets(np.array([101.0]))


# --- δ

DELTAS = {
    0.05: [1.0, 1.0, 1.0, 1.0, 1.0],
    0.1: [1.06, 0.94, 1.06, 0.94, 1.06],
    0.2: [1.12, 0.88, 1.12, 0.88, 1.12],
    0.4: [1.25, 0.76, 1.25, 0.76, 1.25],
}


@pytest.mark.parametrize(("delta", "factors"), DELTAS.items())
def test_delta_is_doubled_until_it_holds(delta, factors):
    nodes = np.array([2.0, 5, 12, 30, 80])
    times = downey(40, 0.6)(nodes) * np.array(factors)
    # Nothing is called anomalous.
    fit = Adept(anomalies=AnomalySettings(epsilon=9.0)).fit(curve_of([2, 5, 12, 30, 80], times))
    assert fit.delta == delta
    own = np.array([p.time_s for p in fit.predict([2, 5, 12])])
    assert np.abs(own / times[:3] - 1).max() <= delta


def test_no_delta_makes_a_rising_time_agree():
    fit = Adept(anomalies=AnomalySettings(epsilon=1e9)).fit(curve_of([1, 2, 4], [1, 8, 70]))
    assert fit.delta == 0.9
    assert {pair.mode for pair in fit.envelope} == {VarianceMode.LOW, VarianceMode.HIGH}
    low, high = sorted(fit.envelope, key=lambda pair: pair.sigma_max)
    assert (low.end_min, low.end_max, low.sigma_min, low.sigma_max) == (1.0, 256.0, 0.0, 1.0)
    assert (high.end_min, high.end_max, high.sigma_min, high.sigma_max) == (1.0, 256.0, 1.0, 3000.0)


# --- R and its explanations


def metric(nodes, times, noise=0.0):
    return Metric(tuple(nodes), tuple(times), (noise,) * len(nodes), AnomalySettings())


def test_rises_by_hand():
    # R' of the pairs: 0.9, 0.8, 1.0; the last gap is twice as wide in log.
    nodes = [1.0, 2.0, 4.0, 16.0]
    times = [90.0, 50.0, 31.25, 31.25 / 4]
    first, second, third = metric(nodes, times).rises((0, 1, 2, 3))
    assert (first.of, second.of, third.of) == ((0, 1), (0, 1, 2), (1, 2, 3))
    assert first.size == pytest.approx(log(0.9))
    assert second.size == pytest.approx(log(0.8) - log(0.9))
    assert third.size == pytest.approx(log(1.0) - 2 * log(0.8))
    assert (first.place, second.place, third.place) == (0, 1, 2)
    assert (first.candidates, second.candidates, third.candidates) == (
        (0, 1), (0, 1, 2), (1, 2, 3),
    )  # fmt: skip
    assert replace(third, place=3).candidates == (2, 3)


def test_what_is_ignored_of_a_rise():
    nodes, times = [1.0, 2.0, 4.0, 16.0], [90.0, 50.0, 31.25, 8.0]
    assert [r.limit for r in metric(nodes, times).rises((0, 1, 2, 3))] == [log1p(0.1)] * 3
    noisy = metric(nodes, times, 0.1).rises((0, 1, 2, 3))
    # log T of the middle one is in both pairs; the third gap is twice the second.
    expected = [2 * 0.1 * sqrt(v) for v in (1 + 1, 1 + 4 + 1, 4 + 9 + 1)]
    assert [r.limit for r in noisy] == pytest.approx(expected)


def test_roughness_counts_rises_and_unevenness_falls_too():
    nodes = [1.0, 2.0, 4.0, 8.0]
    costs = [0.0, 0.2, 0.1, 0.4]  # of log(n T): changes of R -0.2, 0.3, -0.4
    times = [float(np.exp(c)) / n for c, n in zip(costs, nodes, strict=True)]
    made, every = metric(nodes, times), AnomalyExplanation(((0, 1, 2, 3),))
    assert made.roughness(every) == pytest.approx(0.3)
    assert made.unevenness(every)[1] == pytest.approx((0.3 + 0.4) / log(8))
    assert [rise.of for rise in made.flagged(every)] == [(0, 1, 2)]
    faster = metric([1.0, 2.0], [1.0, 0.3])
    own = AnomalyExplanation(((0, 1),))
    assert faster.roughness(own) == pytest.approx(log(1 / 0.6))
    assert faster.unevenness(own)[1] == pytest.approx(log(1 / 0.6) / log(2))


def test_misfit_is_the_error_of_the_best_instance():
    # Where time only rises, the best instance is a constant: c = Σ(1/t)/Σ(1/t²).
    times = [1.0, 1.25, 2.0]
    c = (1 + 0.8 + 0.5) / (1 + 0.64 + 0.25)
    squares = [(c / t - 1) ** 2 for t in times]
    rising = metric([1.0, 2.0, 4.0], times)
    every = AnomalyExplanation(((0, 1, 2),))
    assert rising.misfit(every) == pytest.approx(sqrt(sum(squares) / 3))
    assert rising.unevenness(every)[0] == round(sqrt(sum(squares) / 3), 2)
    # Each phase has an instance of its own; all observations count.
    nodes = 2.0 ** np.arange(6)
    pure = downey(20, 0.5)(nodes)
    both = metric([*nodes, 64.0, 128.0, 256.0], [*pure, *times])
    two = AnomalyExplanation(((0, 1, 2, 3, 4, 5), (6, 7, 8)))
    assert both.misfit(two) == pytest.approx(sqrt(sum(squares) / 9), rel=1e-3)


@pytest.mark.parametrize(("A", "sigma"), [(2, 0.0), (20, 0.5), (90, 0.9), (20, 3.0), (300, 8.0)])
def test_the_model_itself_has_hardly_any_misfit(A, sigma):
    nodes = 2.0 ** np.arange(8)
    pure = metric(nodes.tolist(), downey(A, sigma)(nodes).tolist())
    assert pure.misfit(AnomalyExplanation((tuple(range(8)),))) < 0.01


def stepped(count, at, gain=1.5):
    nodes = 2.0 ** np.arange(count)
    times = 1000 / nodes / np.where(np.arange(count) >= at, gain, 1)
    return metric(nodes.tolist(), times.tolist())


@pytest.mark.parametrize(("count", "at"), [(5, 2), (5, 3), (6, 2), (6, 4), (8, 4)])
def test_a_step_needs_two_observations_on_either_side(count, at):
    result = explain(stepped(count, at), range(count))
    assert result.segments == (tuple(range(at)), tuple(range(at, count)))
    assert result.anomalies == ()
    for fewer in ((4, 2), (5, 4), (5, 1)):
        assert len(explain(stepped(*fewer), range(fewer[0])).segments) == 1


def test_the_simplest_explanation_is_taken():
    nodes = 2.0 ** np.arange(8)
    times = 1000 / nodes
    times[3] *= 0.7
    result = explain(metric(nodes.tolist(), times.tolist()), range(8))
    assert result.segments == ((0, 1, 2, 4, 5, 6, 7),)
    ((culprit, rise),) = result.anomalies
    assert culprit == 3
    # R is 1.5 before, and 1.5/0.7 into the fast run; out of it 1.5·0.7, and 1.5 again.
    assert rise in (pytest.approx(1.5 / 0.7 - 1.5), pytest.approx(1.5 - 1.5 * 0.7))


def test_what_nothing_explains_stays_as_it_is():
    nodes = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    times = [n**-1.0 * f for n, f in zip(nodes, [1, 1.5, 0.9, 1.6, 0.8, 1.4], strict=True)]
    assert explain(metric(nodes, times), range(6)).segments == (tuple(range(6)),)


# --- Diagnosis


def test_a_decline_needs_three_observations_before_it():
    def result(times):
        return diagnose(2.0 ** np.arange(len(times)), np.array(times))

    assert result([100, 60, 40, 60]).declining_from == 8
    assert [p.name for p in result([100, 60, 40, 60]).problems] == ["declining_or_anomaly"]
    assert result([100, 60, 90]).declining_from is None
    assert result([100, 60, 90, 95]).declining_from is None
    both = result([100, 60, 40, 60, 70])
    assert (both.declining_from, [p.name for p in both.problems]) == (8, ["declining"])
    assert both.factor == (1.0, 1.0, 1.0, 0.0, 0.0)
    # Slower by less than ε, or contradicted by what follows.
    assert result([100, 60, 40, 43]).declining_from is None
    assert result([100, 60, 40, 60, 30]).declining_from is None


def test_the_decline_is_judged_by_noise_as_well():
    nodes, times = 2.0 ** np.arange(4), np.array([100, 60, 40, 50.0])
    assert diagnose(nodes, times, None, np.full(4, 0.07)).declining_from == 8
    assert diagnose(nodes, times, None, np.full(4, 0.09)).declining_from is None


def test_what_adept_has_no_say_on():
    nodes = (2 ** np.arange(8)).tolist()
    times = downey(150, 0.8)(np.array(nodes, float))
    declining = times.copy()
    declining[6:] *= [2.2, 4.0]
    fit = Adept().fit(curve_of(nodes, declining))
    assert [fit.explains(n) for n in (32, 63, 64, 65, 128, 500)] == [True, True, *[False] * 4]
    slow = times.copy()
    slow[4] *= 1.5
    fit = Adept().fit(curve_of(nodes, slow))
    assert [fit.explains(n) for n in (15, 16, 17, 128, 500)] == [True, False, True, True, True]
    assert Adept().fit(curve_of(nodes, times)).explains(16)
    mild = times.copy()
    mild[4] *= 0.8
    fit = Adept().fit(curve_of(nodes, mild))
    assert 0 < fit.diagnosis.factor[4] < 1
    assert [fit.explains(n) for n in (8, 16, 32)] == [True, False, True]


# --- Judgement


def made(*rows):
    """Instances of end, x and mode, with T(n) = p + x q."""
    ends, xs, high = (np.array(column) for column in zip(*rows, strict=True))
    return Instances(high.astype(bool), ends, xs, np.ones(len(ends)), np.zeros(len(ends)))


NODES = np.array([2.0, 4, 8, 16])


def test_the_linear_section_by_hand():
    fitted = made((40.2, 0.1, False))
    assert linear_section(NODES, fitted, made((40.2, 0.1, False), (17, 0.2, True))).observe == 41
    assert linear_section(NODES, fitted, made((40.2, 0.1, False), (16, 0.2, True))) is None
    assert linear_section(NODES, fitted, made((40.2, 0.1, True))) is None
    # A of a high-variance instance may lie within the observations.
    assert linear_section(NODES, made((20, 9.0, True)), made((17, 0.1, False))).observe == 17


def test_high_fitting_errors_by_hand():
    settings = JudgementSettings()
    times = np.array([100.0, 50, 25, 12.5])
    fitted = times * np.array([1.0, 0.9, 1.1, 1.0])
    assert high_fitting_error(NODES, times, fitted, replace(settings, error=0.1001)) is None
    problem = high_fitting_error(NODES, times, fitted * np.array([1, 1, 1.05, 1]), settings)
    assert problem.text.startswith("its curve is off by 16%")
    assert "8 nodes" in problem.text


def test_an_error_at_the_threshold_is_not_high():
    times, settings = np.array([8.0, 4.0]), JudgementSettings(error=0.25)
    assert high_fitting_error(NODES[:2], times, times * np.array([1, 1.25]), settings) is None
    assert high_fitting_error(NODES[:2], times, times * np.array([1, 0.75]), settings) is None
    assert high_fitting_error(NODES[:2], times, times * np.array([1, 0.74]), settings) is not None


def test_the_thresholds_of_table_3_and_of_rivals():
    chosen = JudgementSettings()
    assert (chosen.error, chosen.rival, chosen.apart) == (0.10, 1.1, 1.5)
    assert (chosen.noise, chosen.reach) == (0.005, 4)
    assert (AnomalySettings().relief, AnomalySettings().sure) == (0.3, 2.0)
    assert (Bounds().parallelism, Bounds().sigma) == (64.0, 3000.0)
    assert (SearchSettings().q, SearchSettings().v) == (2.0, 0.15)
    anomalies = AnomalySettings()
    assert (anomalies.epsilon, anomalies.phi, anomalies.theta) == (0.1, 10.0, 5.0)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_rival_of_very_different_a_by_hand(swapped):
    small, large = made((20, 0.2, False)), made((60, 0.2, False))
    instance, others = (large, small) if swapped else (small, large)
    problem = alternative_fit(NODES, instance, others, JudgementSettings())
    counts = np.geomspace(17, 64, 24).round()
    differ = np.abs(np.log(small_times(60, counts) / small_times(20, counts)))
    assert problem.observe == counts[np.argmax(differ >= 0.8 * differ.max())]
    # Factors of up to 1.5 are no other A.
    assert alternative_fit(NODES, small, made((29.9, 0.2, False)), JudgementSettings()) is None
    assert alternative_fit(NODES, small, made((30.1, 0.2, False)), JudgementSettings()) is not None
    assert alternative_fit(NODES, small, made((30.0, 0.2, False)), JudgementSettings()) is None
    # Curves that hardly differ up to four times the largest observation are no rivals.
    assert alternative_fit(NODES, made((900, 0.2, False)), made((300, 0.2, False)),
                     JudgementSettings(error=9.0)) is None  # fmt: skip


def test_of_two_rivals_the_one_that_differs_most_is_named():
    instance = made((20, 0.2, False))
    rivals = made((10, 0.2, False), (60, 0.2, False))
    problem = alternative_fit(NODES, instance, rivals, JudgementSettings())
    assert problem is not None
    alone = alternative_fit(NODES, instance, made((60, 0.2, False)), JudgementSettings())
    assert problem == alone


def small_times(A, nodes):
    p, q = terms(VarianceMode.LOW, nodes, np.array(A))
    return p + 0.2 * q


def test_instances_as_good_as_the_best():
    n = np.array([2.0, 8, 24, 40, 64])
    t = downey(24, 0.5)(n)
    ranges = envelope(n, t, 0.1)
    strict = as_good(n, t, ranges, JudgementSettings(noise=0.005))
    loose = as_good(n, t, ranges, JudgementSettings(noise=0.06))
    best = min(strict.wssre.min(), loose.wssre.min())
    assert strict.wssre.max() <= 1.1 * best + 5 * 0.005**2
    assert len(loose.end) > len(strict.end) > 0
    # Just beyond the limit there are others.
    assert loose.wssre.max() > 1.1 * best + 5 * 0.005**2


def test_points_of_repeats_weigh_as_one():
    points = (Point(2, 500.0, 1), Point(4, 260.0, 30, 0.01), Point(16, 90.0, 2, 0.01))
    fit = Adept().fit(replace(curve_of([2, 4, 16], [500, 260, 90]), points=points))
    same = Adept().fit(curve_of([2, 4, 16], [500, 260, 90]))
    assert fit.predict([8])[0].time_s == same.predict([8])[0].time_s


@pytest.mark.parametrize("unit", [1e-60, 1e-9, 1e9, 1e60])
def test_the_unit_of_time_does_not_matter(unit):
    times = downey(24, 0.5)(np.array([1.0, 2, 4, 8, 40])) * np.array([1, 1.01, 0.98, 1.02, 1])
    one, other = (Adept().fit(curve_of([1, 2, 4, 8, 40], times * u)) for u in (1.0, unit))
    asked = [1, 3, 20, 100]
    expected = [unit * p.time_s for p in one.predict(asked)]
    assert [p.time_s for p in other.predict(asked)] == pytest.approx(expected, rel=1e-6, abs=0)
    assert [p.name for p in other.problems] == [p.name for p in one.problems]
    assert other.roughly(asked) == pytest.approx(unit * one.roughly(asked), rel=1e-6, abs=0)


@pytest.mark.parametrize(("last", "first"), [(17, 24), (28, 32), (40, 48)])
def test_node_counts_beside_a_step_keep_their_phase(last, first):
    nodes = np.array([2.0, 4, 8, last, first, 2 * first, 3 * first, 4 * first])
    times = downey(300, 0.8)(nodes) / np.where(nodes <= last, 1, 1.6)
    fit = Adept().fit(curve_of(nodes.astype(int).tolist(), times))
    assert len(set(fit.diagnosis.phase)) == 2
    asked = fit.predict([last, first])
    assert [p.time_s for p in asked] == pytest.approx(times[3:5], rel=0.05)


def problems(curve):
    return {problem.name: problem.observe for problem in Adept().fit(curve).problems}


@pytest.mark.parametrize("A", [30, 60, 100, 300])
def test_observations_in_the_linear_section_ask_for_one_at_least_at_a(A):
    fit = Adept().fit(drawn([4, 8, 12, 16], downey(A, 0.5)))
    result = {problem.name: problem.observe for problem in fit.problems}
    assert result["linear_section"] >= A
    assert result["linear_section"] >= fit.instance(32).parallelism


def test_observations_over_all_sections_raise_no_doubt():
    assert problems(drawn([4, 16, 40, 90, 200], downey(50, 0.5))) == {}


def test_a_high_fitting_error_is_reported():
    curve = curve_of([1, 2, 4, 8, 16], [100, 80, 30, 26, 9])
    assert "high_fitting_error" in problems(curve)
    lenient = Adept(judgement=JudgementSettings(error=0.9)).fit(curve)
    assert "high_fitting_error" not in {problem.name for problem in lenient.problems}
    assert "high_fitting_error" not in problems(
        drawn([1, 2, 4, 8, 16], downey(10, 0.5), noise=0.02)
    )


def test_two_instances_that_explain_the_same_ask_for_a_run_that_tells_them_apart():
    # As in figure 9: the runs on 16 to 81 nodes leave the parallelism open.
    nodes = [16, 25, 36, 81]
    times = downey(320, 1.5)(np.array(nodes)) * np.array([1.01, 0.99, 1.01, 0.995])
    asked = problems(curve_of(nodes, times))["alternative_fit"]
    assert 81 < asked <= 4 * 81


def test_the_run_that_was_asked_for_settles_it():
    true = downey(320, 0.6)
    before = problems(drawn([16, 25, 36, 81], true))
    (asked,) = (observe for observe in before.values() if observe)
    counts = sorted({16, 25, 36, 81, asked, 2 * asked, 4 * asked})
    assert problems(drawn(counts, true)) == {}
