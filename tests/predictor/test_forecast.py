"""The forecaster bank: each forecaster by hand, and the choice among them."""

from math import inf, nan, sin
from statistics import fmean, median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.forecast import (
    Adaptive,
    Bank,
    Criterion,
    LastValue,
    RunningMean,
    Sliding,
    Smoothed,
    forecasts,
    nine_of_ten,
    trimmed_mean,
)
from predictor.forecast import median as median_of_sorted

series = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


def after(forecaster, values):
    for value in values:
        forecaster.update(value)
    return forecaster.forecast()


@given(series)
def test_means_are_means(values: list[float]) -> None:
    assert after(RunningMean(), values) == pytest.approx(fmean(values), rel=1e-6, abs=1e-6)
    assert after(Sliding(fmean, 5), values) == pytest.approx(fmean(values[-5:]), abs=1e-6)


@given(series)
def test_medians_are_medians_of_the_window(values: list[float]) -> None:
    assert after(Sliding(median_of_sorted, 10), values) == median(values[-10:])


def test_trimmed_mean_leaves_both_ends_out() -> None:
    assert trimmed_mean([-1000.0, 1.0, 1.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 900.0]) == fmean(
        [2.0, 3.0, 3.0, 4.0]
    )


def test_smoothing_moves_by_its_gain() -> None:
    assert after(Smoothed(0.25), [8.0, 16.0, 16.0]) == 8 + 2 + 1.5


def test_last_value() -> None:
    assert after(LastValue(), [1.0, 7.0]) == 7.0


def test_adaptive_windows_grow_on_noise_and_shrink_after_a_step() -> None:
    noise = np.random.default_rng(1).normal(100.0, 10.0, 200)
    adaptive = Adaptive(fmean, (1, 50))
    for value in noise:
        adaptive.update(value)
    steady = adaptive.forecast()
    assert abs(steady - 100.0) < 10.0
    for _ in range(60):
        adaptive.update(300.0)
    assert adaptive.forecast() == pytest.approx(300.0, abs=1.0)


def test_the_bank_takes_the_running_mean_on_noise_and_the_last_value_on_a_walk() -> None:
    rng = np.random.default_rng(2)
    noise, walk = Bank(), Bank()
    level = 0.0
    for step in rng.normal(0.0, 1.0, 400):
        noise.update(step)
        walk.update(level := level + step)
    assert walk.errors()["last value"] < walk.errors()["running mean"]
    assert walk.forecast().by in ("last value", "smoothing 75%")
    assert noise.errors()["running mean"] < noise.errors()["last value"]
    assert noise.forecast().error == min(noise.errors().values())


def test_a_spike_costs_more_by_squares() -> None:
    values = [10.0, 10.0, 10.0, 10.0, 500.0] * 30
    by_mae, by_mse = Bank(Criterion.MAE), Bank(Criterion.MSE)
    for value in values:
        by_mae.update(value)
        by_mse.update(value)
    assert by_mae.forecast().value == pytest.approx(10.0)
    assert by_mse.forecast().value > 50.0


def test_the_bank_is_no_worse_than_its_best_member_by_much() -> None:
    rng = np.random.default_rng(3)
    values = [100 + 20 * sin(i / 9) + rng.normal(0, 3) for i in range(500)]
    own = fmean(abs(f.value - v) for f, v in zip(forecasts(values), values[1:], strict=True))
    members = Bank()
    for value in values:
        members.update(value)
    assert own < 1.1 * min(members.errors().values())


def test_intervals_hold_nine_of_ten() -> None:
    values = np.random.default_rng(4).normal(50.0, 5.0, 1000)
    made = list(forecasts(values))
    held = [f.low <= v <= f.high for f, v in zip(made, values[1:], strict=True)]
    assert 0.86 < fmean(held[50:]) < 0.94


def test_what_is_no_number_is_passed_over() -> None:
    bank = Bank()
    for value in (5.0, nan, inf, 5.0):
        bank.update(value)
    assert bank.forecast().value == 5.0


def test_before_any_measurement_there_is_no_forecast() -> None:
    with pytest.raises(ValueError, match="no measurement yet"):
        Bank().forecast()


def test_few_errors_give_wide_bounds() -> None:
    assert nine_of_ten([]) == (-inf, inf)
    assert nine_of_ten([1.0, -2.0]) == (-4.0, 4.0)
    assert nine_of_ten([float(n) for n in range(1, 100)]) == (-90.0, 90.0)
