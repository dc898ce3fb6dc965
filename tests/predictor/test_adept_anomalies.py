"""Section VIII: the anomalies and patterns of figures 7 and 8, on generated curves."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.models.adept import Adept
from predictor.models.adept.anomalies import (
    AnomalySettings,
    Diagnosis,
    diagnose,
    fluctuation,
    rises,
)
from tests.predictor.curves import Floats, curve_of, downey

POWERS = np.array([2, 4, 8, 16, 32, 64, 128.0])


def named(diagnosis: Diagnosis) -> list[str]:
    return [problem.name for problem in diagnosis.problems]


def test_the_fluctuation_metric_is_that_of_the_paper() -> None:
    # R = ((t_i n_i / n_i+1) / t_i+1)(1 + (n_i+1 - n_i)/n_i+1)
    expected = (100 * 4 / 10) / 50 * (1 + 6 / 10)
    assert fluctuation(np.array([4.0, 10.0]), np.array([100.0, 50.0]))[0] == pytest.approx(expected)


@given(
    st.floats(2, 500),
    st.one_of(st.floats(0, 1), st.floats(1, 20)),
    st.lists(st.integers(1, 400), min_size=4, max_size=9, unique=True),
)
def test_the_model_itself_seldom_looks_anomalous(A: float, sigma: float, counts: list[int]) -> None:
    nodes = np.array(sorted(counts), float)
    if (nodes[1:] / nodes[:-1]).max() > 4:
        return
    assert "special_counts" not in named(diagnose(nodes, downey(A, sigma)(nodes)))


@given(st.floats(2, 500), st.one_of(st.floats(0, 1), st.floats(1, 20)))
def test_evenly_spaced_observations_of_the_model_are_never_anomalous(
    A: float, sigma: float
) -> None:
    diagnosis = diagnose(POWERS, downey(A, sigma)(POWERS))
    assert named(diagnosis) == []
    assert len(set(diagnosis.factor)) == 1


@pytest.mark.parametrize("factor", [0.8, 1.25])
@pytest.mark.parametrize("at", [3, 4, 5])
def test_a_single_anomaly_is_found_and_counts_less(at: int, factor: float) -> None:
    times = downey(150, 0.8)(POWERS)
    times[at] *= factor
    diagnosis = diagnose(POWERS, times)
    assert named(diagnosis) == ["anomaly"]
    assert int(np.argmin(diagnosis.factor)) == at
    assert sum(f == max(diagnosis.factor) for f in diagnosis.factor) == len(POWERS) - 1


def test_the_weight_formula() -> None:
    # W' = max(0, W (θ - min(φ, D))/φ), with D = (R_j+1 - R_j)/ε
    times = downey(150, 0.8)(POWERS)
    times[5] /= 1.25
    metric = fluctuation(POWERS, times)
    deviation = (metric[4] - metric[3]) / 0.1
    assert 0 < deviation < 5
    assert diagnose(POWERS, times).factor[5] == pytest.approx((5 - deviation) / 10)
    stern = AnomalySettings(theta=1.0)
    assert diagnose(POWERS, times, stern).factor[5] == 0


def test_three_observations_are_too_few_for_anomalies() -> None:
    times = downey(150, 0.8)(POWERS[:3]) * np.array([1, 1.5, 1])
    assert named(diagnose(POWERS[:3], times)) == []
    assert len(rises(POWERS[:3], times, 0.1)) == 1


def test_figure_7_a_run_twenty_percent_too_fast_at_80_nodes_spoils_nothing() -> None:
    nodes = np.array([9, 16, 25, 36, 49, 64, 80, 100, 121.0])
    true = downey(150, 0.8)
    times = true(nodes) / np.where(nodes == 80, 1.2, 1)
    fit = Adept().fit(curve_of(nodes.astype(int).tolist(), times))
    assert [p.observe for p in fit.problems if p.name == "anomaly"] == [80]
    others = nodes[nodes != 80]
    predicted = [p.time_s for p in fit.predict(others.astype(int).tolist())]
    assert predicted == pytest.approx(true(others), rel=0.06)


def test_figure_8_a_step_between_5_and_6_is_two_phases() -> None:
    nodes = np.arange(1, 9.0)
    times = downey(30, 0.8)(nodes) / np.where(nodes > 5, 1.5, 1)
    diagnosis = diagnose(nodes, times)
    assert named(diagnosis) == ["stepwise"]
    assert diagnosis.phase == (0, 0, 0, 0, 0, 1, 1, 1)
    fit = Adept().fit(curve_of(nodes.astype(int).tolist(), times))
    assert [p.time_s for p in fit.predict(range(1, 9))] == pytest.approx(times, rel=0.03)


def test_figure_8_three_phases() -> None:
    nodes = np.array([2, 4, 8, 16, 32, 64, 128, 256.0])
    times = downey(500, 0.8)(nodes) / np.where(nodes >= 16, 1.4, 1) / np.where(nodes >= 128, 1.4, 1)
    assert diagnose(nodes, times).phase == (0, 0, 0, 1, 1, 1, 2, 2)


def test_four_observations_are_too_few_for_a_step() -> None:
    nodes = np.array([1, 2, 4, 8.0])
    times = downey(30, 0.8)(nodes) / np.array([1, 1, 1.5, 1.5])
    assert "stepwise" not in named(diagnose(nodes, times))


def specially_optimised(nodes: Floats, belongs: Floats) -> Floats:
    return downey(100, 0.8)(nodes) * np.where(belongs, 1, 1.4)


def test_figure_8_an_application_made_for_powers_of_two() -> None:
    nodes = np.array([2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64.0])
    power = np.log2(nodes) % 1 == 0
    diagnosis = diagnose(nodes, specially_optimised(nodes, power))
    assert diagnosis.special == "powers of two"
    assert [f > 0 for f in diagnosis.factor] == power.tolist()
    assert len({f for f in diagnosis.factor if f > 0}) == 1


def test_squares_are_recognised_too() -> None:
    nodes = np.array([4, 6, 9, 12, 16, 20, 25, 30, 36.0])
    diagnosis = diagnose(nodes, specially_optimised(nodes, np.sqrt(nodes) % 1 == 0))
    assert diagnosis.special == "squares"


def test_eight_observations_are_too_few_for_special_counts() -> None:
    nodes = np.array([2, 3, 4, 6, 8, 12, 16, 24.0])
    diagnosis = diagnose(nodes, specially_optimised(nodes, np.log2(nodes) % 1 == 0))
    assert diagnosis.special == ""


def test_what_whole_seconds_make_of_short_runs_is_no_anomaly() -> None:
    curve = curve_of([1, 2, 4, 8], [13, 7, 4, 2])
    assert [p.name for p in Adept().fit(curve).problems if p.name == "anomaly"] == ["anomaly"]
    coarse = replace(curve, resolution_s=1.0)
    assert [p.name for p in Adept().fit(coarse).problems if p.name == "anomaly"] == []


def test_a_declining_end_takes_no_part() -> None:
    times = downey(40, 0.8)(POWERS)
    times[5:] *= [1.8, 2.3]
    diagnosis = diagnose(POWERS, times)
    assert (diagnosis.declining_from, named(diagnosis)) == (64, ["declining"])
    assert diagnosis.factor[5:] == (0.0, 0.0)


def test_one_slow_end_may_be_decline_or_anomaly_and_says_so() -> None:
    times = downey(40, 0.8)(POWERS)
    times[-1] *= 1.7
    assert named(diagnose(POWERS, times)) == ["declining_or_anomaly"]


def test_a_slow_run_in_the_middle_is_no_decline() -> None:
    times = downey(400, 0.8)(POWERS)
    times[3] *= 2.5
    assert diagnose(POWERS, times).declining_from is None
