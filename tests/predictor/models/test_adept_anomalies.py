"""Section VIII: the anomalies and patterns of figures 7 and 8, on generated curves."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.models.adept import Adept
from predictor.models.adept.anomalies import AnomalyExplanation, AnomalySettings, Metric, diagnose
from predictor.types import Curve, Point
from tests.predictor.example_curves import curve_of, downey

pytestmark = pytest.mark.kernels

POWERS = np.array([2, 4, 8, 16, 32, 64, 128.0])


def metric(nodes, times, noise=0.0):
    sd = (noise,) * len(nodes)
    return Metric(tuple(nodes.tolist()), tuple(times.tolist()), sd, AnomalySettings())


def fluctuation(nodes, times):
    own = metric(nodes, times)
    return np.array([own.of_pair(i, i + 1) for i in range(len(nodes) - 1)])


def all_of(count):
    return AnomalyExplanation((tuple(range(count)),))


def named(diagnosis):
    return [problem.name for problem in diagnosis.problems]


def test_the_fluctuation_metric_is_that_of_the_paper():
    # R = ((t_i n_i / n_i+1) / t_i+1)(1 + (n_i+1 - n_i)/n_i+1)
    expected = (100 * 4 / 10) / 50 * (1 + 6 / 10)
    assert fluctuation(np.array([4.0, 10.0]), np.array([100.0, 50.0]))[0] == pytest.approx(expected)


@given(
    st.floats(2, 500),
    st.one_of(st.floats(0, 1), st.floats(1, 20)),
    st.lists(st.integers(1, 400), min_size=3, max_size=9, unique=True).map(sorted),
)
def test_no_observations_of_the_model_are_anomalous(A, sigma, counts):
    nodes = np.array(counts, float)
    times = downey(A, sigma)(nodes)
    rises = metric(nodes, times).rises(tuple(range(len(counts))))
    assert max(rise.size for rise in rises) < 1e-9
    diagnosis = diagnose(nodes, times)
    assert named(diagnosis) == []
    assert set(diagnosis.factor) == {1.0}


def test_on_even_spacing_a_rise_is_that_of_the_papers_metric():
    times = np.array([100, 45, 30, 12, 7.0])
    rises = metric(POWERS[:5], times).rises((0, 1, 2, 3, 4))
    published = fluctuation(POWERS[:5], times)
    assert np.exp([rise.size for rise in rises[1:]]) == pytest.approx(
        published[1:] / published[:-1]
    )
    for rise, before, after in zip(rises[1:], published, published[1:], strict=False):
        assert metric(POWERS[:5], times).deviation(rise) == pytest.approx(after - before)


@pytest.mark.parametrize("factor", [0.8, 1.25])
@pytest.mark.parametrize("at", [3, 4, 5])
def test_a_single_anomaly_is_detected_and_counts_less(at, factor):
    times = downey(150, 0.8)(POWERS)
    times[at] *= factor
    diagnosis = diagnose(POWERS, times)
    assert named(diagnosis) == ["anomaly"]
    assert int(np.argmin(diagnosis.factor)) == at
    assert sum(f == max(diagnosis.factor) for f in diagnosis.factor) == len(POWERS) - 1


def test_the_weight_formula():
    # W' = max(0, W (θ - min(φ, D))/φ), with D = (R_j+1 - R_j)/ε
    times = downey(150, 0.8)(POWERS)
    times[5] /= 1.25
    metric = fluctuation(POWERS, times)
    deviation = (metric[4] - metric[3]) / 0.1
    assert 0 < deviation < 5
    assert diagnose(POWERS, times).factor[5] == pytest.approx((5 - deviation) / 10)
    stern = AnomalySettings(theta=1.0)
    assert diagnose(POWERS, times, stern).factor[5] == 0


def test_of_four_observations_an_anomalous_one_is_reported_and_keeps_its_weight():
    nodes = np.array([2, 4, 8, 16.0])
    times = downey(150, 0.8)(nodes) * np.array([1, 1, 1.4, 1])
    diagnosis = diagnose(nodes, times)
    assert [problem.observe for problem in diagnosis.problems] == [8]
    assert diagnosis.factor == (1.0,) * 4
    fifth = np.append(nodes, 32.0)
    more = diagnose(fifth, np.append(times, downey(150, 0.8)(fifth)[-1]))
    assert [i for i, factor in enumerate(more.factor) if factor < 1] == [2]


def anomalous(diagnosis):
    return [p.observe for p in diagnosis.problems if p.name == "anomaly"]


@pytest.mark.parametrize(
    ("A", "factor", "runs"),
    # Where speedup ends a fast run may be what the model does.
    [(60, 0.75, 6), (150, 0.75, 8), (600, 0.75, 8), (150, 1.35, 6), (600, 1.35, 6)],
)
@pytest.mark.parametrize("at", range(8))
def test_a_run_is_not_blamed_on_its_neighbours(at, A, factor, runs):
    nodes = 2.0 ** np.arange(8)
    times = downey(A, 0.8)(nodes)
    times[at] *= factor
    assert at >= runs or anomalous(diagnose(nodes, times)) == [nodes[at]]


@pytest.mark.parametrize("factor", [0.8, 1.25])
@pytest.mark.parametrize("at", [8, 9])
@pytest.mark.parametrize("step", [3, 4, 5])
@pytest.mark.parametrize("gain", [1.4, 1.6])
def test_after_a_step_an_anomaly_is_detected_as_well(gain, step, at, factor):
    nodes = 2.0 ** np.arange(12)
    times = downey(6000, 0.4)(nodes)
    times[step:] /= gain
    times[at] *= factor
    diagnosis = diagnose(nodes, times)
    assert anomalous(diagnosis) == [nodes[at]]
    assert diagnosis.phase == (0,) * step + (1,) * (12 - step)
    assert sorted(named(diagnosis)) == ["anomaly", "stepwise"]


@pytest.mark.parametrize("factor", [0.8, 1.25])
@pytest.mark.parametrize("pair", [(2, 6), (1, 4), (2, 7)])
def test_two_anomalies_are_both_detected(pair, factor):
    nodes = 2.0 ** np.arange(1, 10)
    times = downey(600, 0.8)(nodes)
    times[list(pair)] *= factor
    assert anomalous(diagnose(nodes, times)) == nodes[list(pair)].tolist()


def pure_curves(count, noise, repeats):
    """Times over powers of two, each the median of noisy repeats, with their log deviations."""
    draw = np.random.default_rng(2)
    result = []
    for _ in range(count):
        A, sigma = np.exp(draw.uniform(np.log(10), np.log(1000))), draw.uniform(0, 3)
        nodes = 2.0 ** np.arange(8)
        logs = draw.normal(0, noise, (repeats, 8))
        deviation = np.full(8, 1.25 * noise / np.sqrt(repeats))
        result.append((nodes, downey(A, sigma)(nodes) * np.exp(np.median(logs, axis=0)), deviation))
    return result


def test_noise_that_repeats_show_is_no_anomaly():
    curves = pure_curves(100, 0.05, 3)
    unaware = sum(named(diagnose(n, t, None, np.zeros(8))) != [] for n, t, _ in curves)
    aware = sum(named(diagnose(n, t, None, sd)) != [] for n, t, sd in curves)
    assert aware <= 8 < 2 * aware + 8 < unaware


@pytest.mark.parametrize(("spread", "result"), [(0.01, ["anomaly"]), (0.1, [])])
def test_repeats_tell_what_is_no_noise(spread, result):
    times = downey(150, 0.8)(POWERS)
    times[3] *= 0.85
    points = zip(POWERS.astype(int).tolist(), times.tolist(), strict=True)
    curve = Curve(tuple(Point(n, t, 4, spread) for n, t in points))
    assert named(Adept().fit(curve).diagnosis) == result


def test_a_detected_anomaly_is_no_high_fitting_error():
    nodes = (2 ** np.arange(8)).tolist()
    times = downey(150, 0.8)(np.array(nodes, float))
    times[4] *= 0.8
    fit = Adept().fit(curve_of(nodes, times))
    assert {p.name for p in fit.problems} == {"anomaly", "linear_section"}
    assert fit.delta == 0.05
    corrected = [p.time_s for p in fit.predict([16])]
    assert corrected == pytest.approx(downey(150, 0.8)(np.array([16.0])), rel=0.03)


def test_three_observations_are_too_few_for_anomalies():
    times = downey(150, 0.8)(POWERS[:3]) * np.array([1, 1.5, 1])
    assert named(diagnose(POWERS[:3], times)) == []
    assert [rise.of for rise in metric(POWERS[:3], times).flagged(all_of(3))] == [(0, 1, 2)]


def test_figure_7_a_run_twenty_percent_too_fast_at_80_nodes_spoils_nothing():
    nodes = np.array([9, 16, 25, 36, 49, 64, 80, 100, 121.0])
    true = downey(150, 0.8)
    times = true(nodes) / np.where(nodes == 80, 1.2, 1)
    fit = Adept().fit(curve_of(nodes.astype(int).tolist(), times))
    assert [p.observe for p in fit.problems if p.name == "anomaly"] == [80]
    others = nodes[nodes != 80]
    predicted = [p.time_s for p in fit.predict(others.astype(int).tolist())]
    assert predicted == pytest.approx(true(others), rel=0.06)


def test_figure_8_a_step_between_5_and_6_is_two_phases():
    nodes = np.arange(1, 9.0)
    times = downey(30, 0.8)(nodes) / np.where(nodes > 5, 1.5, 1)
    diagnosis = diagnose(nodes, times)
    assert named(diagnosis) == ["stepwise"]
    assert diagnosis.phase == (0, 0, 0, 0, 0, 1, 1, 1)
    fit = Adept().fit(curve_of(nodes.astype(int).tolist(), times))
    assert [p.time_s for p in fit.predict(range(1, 9))] == pytest.approx(times, rel=0.03)


@pytest.mark.parametrize("sigma", [0.1, 0.5])
def test_a_slow_run_next_to_the_last_is_not_blamed_on_the_last(sigma):
    """Without the last one run time would rise from 16 to 32 nodes, as in no instance."""
    nodes = 2.0 ** np.arange(7)
    times = downey(16, sigma)(nodes) * np.where(nodes == 32, 1.4, 1)
    assert diagnose(nodes, times).anomalies == (5,)


def blamed(at, factor):
    """Give what is called anomalous on 200 curves where only ``at`` is."""
    draw, nodes = np.random.default_rng(5), 2.0 ** np.arange(8)
    result = []
    for _ in range(200):
        A = np.exp(draw.uniform(np.log(20), np.log(1000)))
        times = downey(A, draw.choice([draw.uniform(0, 1), draw.uniform(1, 8)]))(nodes)
        times[at] *= factor
        result.append(diagnose(nodes, times).anomalies)
    return result


def test_a_slow_run_next_to_the_last_is_detected_on_nearly_all_curves():
    assert blamed(6, 1.35).count((6,)) >= 190


@pytest.mark.parametrize("count", [5, 8])
def test_a_fast_run_next_to_the_last_makes_no_decline_of_the_last(count):
    """R rises at the fast one, and falls where run time declines."""
    nodes = 2.0 ** np.arange(count)
    whole = downey(0.75 * nodes[-1], 0.5)(nodes)
    fast, slow = whole.copy(), whole.copy()
    fast[-2] = 0.9 * whole[-1] / 1.05
    slow[-1] = 1.3 * whole[-2]
    found = diagnose(nodes, fast)
    assert ([one.name for one in found.problems], found.anomalies) == (["anomaly"], (count - 2,))
    assert found.declining_from is None
    assert [one.name for one in diagnose(nodes, slow).problems] == ["declining_or_anomaly"]


def test_beside_an_anomaly_a_decline_stays_one():
    nodes = 2.0 ** np.arange(9)
    times = downey(100, 0.5)(nodes)
    times[2] *= 0.7
    times[-1] = 1.5 * times[-2]
    found = diagnose(nodes, times)
    assert {one.name for one in found.problems} == {"anomaly", "declining_or_anomaly"}
    assert (found.anomalies, found.declining_from) == ((2,), 256)


def test_of_four_observations_a_slow_end_stays_one():
    """Without the fast one three are left, of which anything could be said."""
    nodes = np.array([1.0, 2.0, 4.0, 8.0])
    times = np.array([100.0, 55.0, 20.0, 31.0])
    assert "declining_or_anomaly" in [one.name for one in diagnose(nodes, times).problems]


def test_a_fast_last_run_is_hardly_ever_blamed_on_another():
    """What a curve without it allows as well is not called anomalous."""
    result = blamed(7, 0.75)
    assert result.count((7,)) >= 165
    assert result.count((7,)) + result.count(()) >= 198


def test_between_two_phases_all_observations_count():
    """Nothing tells where between 5 and 9 nodes the step is: predictions lie between both."""
    nodes, law = np.array([1, 2, 3, 4, 5, 9, 10, 11, 12.0]), downey(30, 0.8)
    fit = Adept().fit(
        curve_of(nodes.astype(int).tolist(), law(nodes) / np.where(nodes > 5, 1.5, 1))
    )
    assert fit.diagnosis.phase == (0,) * 5 + (1,) * 4
    asked = np.array([2, 5, 6, 7, 8, 9, 12, 20.0])
    ratios = np.array([p.time_s for p in fit.predict(asked.astype(int).tolist())]) / law(asked)
    assert ratios[[0, 1]] == pytest.approx(1.0, rel=0.001)
    assert ratios[5:] == pytest.approx(1 / 1.5, rel=0.001)
    assert ((ratios[2:5] < 0.9) & (ratios[2:5] > 0.7)).all()


SPECIAL = np.array([2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64.0])


def specially_optimised(nodes, belongs):
    return downey(100, 0.8)(nodes) * np.where(belongs, 1, 1.4)


def test_figure_8_an_application_made_for_powers_of_two():
    power = np.log2(SPECIAL) % 1 == 0
    diagnosis = diagnose(SPECIAL, specially_optimised(SPECIAL, power))
    assert diagnosis.special == "powers of two"
    assert [f > 0 for f in diagnosis.factor] == power.tolist()
    assert len({f for f in diagnosis.factor if f > 0}) == 1


def test_powers_of_two_are_detected_in_noise():
    slower = np.where(np.log2(SPECIAL) % 1 == 0, 1, 1.4)
    draw = np.random.default_rng(3)
    result = [
        diagnose(
            SPECIAL, downey(100, 0.5)(SPECIAL) * slower * np.exp(draw.normal(0, 0.05, 11))
        ).special
        for _ in range(40)
    ]
    assert result.count("powers of two") >= 38
    even = [
        diagnose(SPECIAL, downey(100, 0.5)(SPECIAL) * np.exp(draw.normal(0, 0.05, 11))).special
        for _ in range(40)
    ]
    assert even.count("") >= 38


def test_squares_are_recognised_too():
    nodes = np.array([4, 6, 9, 12, 16, 20, 25, 30, 36.0])
    diagnosis = diagnose(nodes, specially_optimised(nodes, np.sqrt(nodes) % 1 == 0))
    assert diagnosis.special == "squares"


def test_three_others_between_the_members_are_enough():
    nodes = np.array([2, 4, 6, 8, 12, 16, 24, 32, 64.0])
    assert diagnose(nodes, specially_optimised(nodes, np.log2(nodes) % 1 == 0)).special
    fewer = np.array([2, 4, 6, 8, 12, 16, 32, 64, 100.0])
    assert not diagnose(fewer, specially_optimised(fewer, np.log2(fewer) % 1 == 0)).special


def test_other_counts_between_members_have_to_be_slower_and_members_alike():
    powers = np.log2(SPECIAL) % 1 == 0
    plain = specially_optimised(SPECIAL, powers)
    # Eight observations are too few.
    assert diagnose(SPECIAL[:8], plain[:8]).special == ""
    for fast in (3, 48):
        beside = np.where(fast == SPECIAL, 0.99 * downey(100, 0.8)(SPECIAL), plain)
        assert diagnose(SPECIAL, beside).special == ""
    uneven = plain * np.where((SPECIAL == 12) | (SPECIAL == 24), 3, 1)
    uneven[SPECIAL == 16] /= 3
    assert diagnose(SPECIAL, uneven).special == ""
    times = np.where(powers, 8.0, 16.0)
    assert diagnose(SPECIAL, times).special == "powers of two"
    times[SPECIAL == 6] = 8.0
    assert diagnose(SPECIAL, times).special == ""


def test_what_whole_seconds_make_of_short_runs_is_no_anomaly():
    curve = curve_of([1, 2, 4, 8], [13, 7, 4, 1.9])
    assert [p.name for p in Adept().fit(curve).problems if p.name == "anomaly"] == ["anomaly"]
    coarse = replace(curve, resolution_s=1.0)
    assert [p.name for p in Adept().fit(coarse).problems if p.name == "anomaly"] == []


def test_a_declining_end_takes_no_part():
    times = downey(40, 0.8)(POWERS)
    times[5:] *= [1.8, 2.3]
    diagnosis = diagnose(POWERS, times)
    assert (diagnosis.declining_from, named(diagnosis)) == (64, ["declining"])
    assert diagnosis.factor[5:] == (0.0, 0.0)


def test_a_slow_run_in_the_middle_is_no_decline():
    times = downey(400, 0.8)(POWERS)
    times[3] *= 2.5
    assert diagnose(POWERS, times).declining_from is None


def test_steps_name_the_observations_on_either_side():
    nodes = np.array([2, 4, 8, 16, 32, 64, 128, 256.0])
    times = downey(500, 0.8)(nodes) / np.where(nodes >= 16, 1.4, 1) / np.where(nodes >= 128, 1.4, 1)
    assert [p.text for p in diagnose(nodes, times).problems] == [
        "run time takes a step between 8 and 16 nodes",
        "run time takes a step between 64 and 128 nodes",
    ]


def test_what_is_left_out_does_not_widen_the_envelope():
    declining = downey(40, 0.8)(POWERS)
    declining[5:] *= [2.2, 4.0]
    special = specially_optimised(SPECIAL, np.log2(SPECIAL) % 1 == 0)
    for nodes, times, law in ((POWERS, declining, (40, 0.8)), (SPECIAL, special, (100, 0.8))):
        fit = Adept().fit(curve_of(nodes.astype(int).tolist(), times))
        assert fit.delta == 0.05
        inside = np.array([2, 4, 8, 16])
        predicted = [p.time_s for p in fit.predict(inside.tolist())]
        assert predicted == pytest.approx(downey(*law)(inside.astype(float)), rel=0.01)
