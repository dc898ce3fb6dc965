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
    bank,
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


@given(series)
def test_no_forecaster_leaves_what_was_measured(values: list[float]) -> None:
    for name, forecaster in bank().items():
        made = after(forecaster, values)
        slack = 1e-9 * max(map(abs, values))
        assert min(values) - slack <= made <= max(values) + slack, name


@given(st.lists(st.integers(-1000, 1000).map(float), min_size=2, max_size=40))
def test_the_unit_does_not_matter(values: list[float]) -> None:
    plain, scaled = Bank(), Bank()
    for value in values:
        plain.update(value)
        scaled.update(4 * value)
    assert scaled.forecast().value == 4 * plain.forecast().value
    assert scaled.forecast().by == plain.forecast().by


@given(series, st.sampled_from(Criterion))
def test_the_speaker_has_the_least_cumulative_error(
    values: list[float], criterion: Criterion
) -> None:
    power = 1 if criterion is Criterion.MAE else 2
    totals = {
        name: sum(
            abs(after(bank()[name], values[:place]) - values[place]) ** power
            for place in range(1, len(values))
        )
        for name in ("last value", "running mean", "smoothing 30%", "median of 5")
    }
    every = Bank(criterion)
    for value in values:
        every.update(value)
    counted = len(values) - 1
    assert every.forecast().error * max(counted, 1) <= min(totals.values()) * (1 + 1e-9) + 1e-9
    for name, total in totals.items():
        assert every.errors()[name] * max(counted, 1) == pytest.approx(total, rel=1e-6, abs=1e-6)


def test_the_bank_is_that_of_the_network_weather_service() -> None:
    assert list(bank())[:2] == ["last value", "running mean"]
    assert {f"smoothing {gain}%" for gain in (5, 10, 15, 20, 30, 40, 50, 75)} <= set(bank())
    for kind in ("mean", "median", "trimmed mean"):
        assert {f"{kind} of {length}" for length in (5, 10, 20, 30, 50)} <= set(bank())
    assert {"adaptive mean", "adaptive median"} <= set(bank())


def test_its_own_error_is_that_of_what_it_said() -> None:
    values = [float(n * n % 17) for n in range(80)]
    own = Bank()
    assert own.own_error() == inf
    for value in values:
        own.update(value)
    said = [abs(f.value - v) for f, v in zip(forecasts(values), values[1:], strict=True)]
    assert own.own_error() == pytest.approx(fmean(said))
