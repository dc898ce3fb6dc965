"""The forecaster bank: each forecaster by hand, and the choice among them."""

from itertools import pairwise
from math import inf, nan, sin
from statistics import fmean, median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.forecasts.forecasters import (
    Adaptive,
    Bank,
    Criterion,
    RunningMean,
    Sliding,
    Smoothed,
    bank,
    nine_of_ten,
    trimmed_mean,
)
from tests.predictor.call_values import forecasts

series = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


def after(forecaster, values):
    for value in values:
        forecaster.update(value)
    return forecaster.forecast()


@given(series)
def test_means_are_means(values):
    assert after(RunningMean(), values) == pytest.approx(fmean(values), rel=1e-6, abs=1e-6)
    assert after(Sliding(fmean, 5), values) == pytest.approx(fmean(values[-5:]), abs=1e-6)


@given(series)
def test_medians_are_medians_of_the_window(values):
    assert after(Sliding(median, 10), values) == median(values[-10:])


def test_trimmed_mean_leaves_both_ends_out():
    assert trimmed_mean([-1000.0, 1.0, 1.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 900.0]) == fmean(
        [2.0, 3.0, 3.0, 4.0]
    )


def test_smoothing_moves_by_its_gain_and_the_last_value_at_once():
    assert after(Smoothed(0.25), [8.0, 16.0, 16.0]) == 8 + 2 + 1.5
    assert after(Sliding(fmean, 1), [1.0, 7.0]) == 7.0


def test_an_adaptive_window_is_followed_by_hand():
    adaptive = Adaptive(median, 3, 2, 4, 1)
    assert after(adaptive, [1.0, 9.0, 2.0]) == 2.0  # all of them, until there are four
    adaptive.update(8.0)
    assert adaptive.forecast() == 8.0  # the median of 9, 2, 8
    adaptive.update(4.6)  # windows of 2, 3 and 4 said 5, 8 and 5: a tie moves nothing
    assert adaptive.forecast() == 4.6  # of 2, 8, 4.6
    adaptive.update(6.0)  # 6.3, 4.6 and 6.3 of 2, 8, 4.6 and 9: shorter and longer are as good
    assert adaptive.forecast() == 6.0
    adaptive.update(5.2)  # 5.3, 6 and 5.3
    adaptive.update(5.7)  # 5.6, 5.2 and 5.6 of 8, 4.6, 6, 5.2
    adaptive.update(20.0)  # 5.45, 5.7 and 5.45
    adaptive.update(12.85)  # 12.85 of 5.7 and 20 is right: the window is 2 from now on
    assert adaptive.forecast() == (20.0 + 12.85) / 2


@pytest.mark.parametrize("lengths", [(10, 10, 21, 1), (10, 5, 10, 1), (3, 0, 9, 3)])
def test_windows_that_lead_out_of_the_allowed_ones_are_refused(lengths):
    with pytest.raises(ValueError, match="is not within"):
        Adaptive(median, *lengths)


def test_the_bank_is_no_worse_than_its_best_member_by_much():
    rng = np.random.default_rng(3)
    values = [100 + 20 * sin(i / 9) + rng.normal(0, 3) for i in range(500)]
    own = fmean(abs(f.value - v) for f, v in zip(forecasts(values), values[1:], strict=True))
    members = Bank()
    for value in values:
        members.update(value)
    assert own < 1.1 * min(members.errors().values())


def test_intervals_hold_nine_of_ten():
    values = np.random.default_rng(4).normal(50.0, 5.0, 1000)
    made = list(forecasts(values))
    held = [f.low <= v <= f.high for f, v in zip(made, values[1:], strict=True)]
    assert 0.86 < fmean(held[50:]) < 0.94


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_what_is_no_number_is_refused_and_changes_nothing(value):
    bank = Bank()
    for good in (5.0, 6.0, 5.0):
        bank.update(good)
    before = bank.forecast()
    with pytest.raises(ValueError, match=f"measurement is {value}: it must be a finite number"):
        bank.update(value)
    assert bank.forecast() == before


def test_errors_fade_where_a_series_changes_its_nature():
    rng = np.random.default_rng(0)
    noise = (100 + rng.normal(0, 10, 1000)).tolist()
    walk = (100 + np.cumsum(rng.normal(0, 10, 150))).tolist()
    said = list(forecasts([*noise, *walk]))[-100:]
    off = fmean(abs(f.value - v) for f, v in zip(said, walk[-100:], strict=True))
    last = fmean(abs(a - b) for a, b in pairwise(walk[-101:]))
    assert off < 1.2 * last


def test_before_any_measurement_there_is_no_forecast():
    with pytest.raises(ValueError, match="no measurement yet"):
        Bank().forecast()


def test_few_errors_give_wide_bounds():
    assert nine_of_ten([]) == (-inf, inf)
    assert nine_of_ten([1.0, -2.0]) == (-4.0, 4.0)
    assert nine_of_ten([float(n) for n in range(1, 100)]) == (-90.0, 90.0)


@given(series)
def test_no_forecaster_leaves_what_was_measured(values):
    for name, forecaster in bank().items():
        made = after(forecaster, values)
        slack = 1e-9 * max(map(abs, values))
        assert min(values) - slack <= made <= max(values) + slack, name


@given(st.lists(st.integers(-1000, 1000).map(float), min_size=2, max_size=40))
def test_the_unit_does_not_matter(values):
    plain, scaled = Bank(), Bank()
    for value in values:
        plain.update(value)
        scaled.update(4 * value)
    assert scaled.forecast().value == 4 * plain.forecast().value
    assert scaled.forecast().by == plain.forecast().by


@given(series, st.sampled_from(Criterion))
def test_the_speaker_has_the_least_mean_error(values, criterion):
    power = 1 if criterion is Criterion.MAE else 2
    weights = [0.99 ** (len(values) - 1 - place) for place in range(1, len(values))]
    means = {
        name: sum(
            weight * abs(after(bank()[name], values[:place]) - values[place]) ** power
            for place, weight in enumerate(weights, start=1)
        )
        / max(sum(weights), 1.0)
        for name in ("last value", "running mean", "smoothing 30%", "median of 5")
    }
    every = Bank(criterion)
    for value in values:
        every.update(value)
    assert every.forecast().error <= min(means.values()) * (1 + 1e-9) + 1e-9
    for name, mean in means.items():
        assert every.errors()[name] == pytest.approx(mean, rel=1e-6, abs=1e-6)


def test_the_bank_is_that_of_the_network_weather_service():
    assert list(bank()) == [
        "last value",
        "running mean",
        *(f"smoothing {gain}%" for gain in (5, 10, 15, 20, 30, 40, 50, 75)),
        "mean of 5",
        "mean of 31",
        "median of 5",
        "median of 31",
        "trimmed mean of 31",
        "trimmed mean of 51",
        "adaptive median of 5 to 21",
        "adaptive median of 21 to 51",
    ]
    values = [float(n * n % 97) for n in range(60)]
    ordered = sorted(values[-51:])
    assert after(bank()["trimmed mean of 51"], values) == fmean(ordered[15:36])
    assert after(bank()["mean of 31"], values) == fmean(values[-31:])
    assert after(bank()["median of 31"], values) == median(values[-31:])
    assert after(bank()["adaptive median of 5 to 21"], values[:20]) == median(values[:20])
    assert after(bank()["adaptive median of 21 to 51"], values[:50]) == median(values[:50])
    # Filled just now: the first windows are 10 and 30.
    assert after(bank()["adaptive median of 5 to 21"], values[:21]) == median(values[11:21])
    assert after(bank()["adaptive median of 21 to 51"], values[:51]) == median(values[21:51])


def test_its_own_error_is_that_of_what_it_said():
    values = [float(n * n % 17) for n in range(80)]
    own = Bank()
    assert own.own_error() == inf
    for value in values:
        own.update(value)
    said = [abs(f.value - v) for f, v in zip(forecasts(values), values[1:], strict=True)]
    assert own.own_error() == pytest.approx(fmean(said))


def test_ten_errors_are_enough_for_nine_of_ten():
    assert nine_of_ten([float(n) for n in range(1, 10)]) == (-18.0, 18.0)
    assert nine_of_ten([float(-n) for n in range(1, 11)]) == (-10.0, 10.0)
    # The 18th of 19: nine tenths of twenty.
    assert nine_of_ten([float(n) for n in range(1, 20)]) == (-18.0, 18.0)


def test_the_last_two_hundred_errors_make_the_interval():
    bank = Bank()
    for value in [1000.0, 0.0] * 20 + [5.0] * 210:
        bank.update(value)
    made = bank.forecast()
    assert made.high - made.low < 1e-6
    assert bank.own_error() < 5


def test_a_single_measurement_has_no_error_yet():
    bank = Bank()
    bank.update(7.0)
    made = bank.forecast()
    assert (made.value, made.low, made.high, made.by, made.error) == (
        7.0, -inf, inf, "last value", 0.0,
    )  # fmt: skip
    bank.update(9.0)
    assert bank.forecast().error == 2.0
    assert bank.own_error() == 2.0


def test_the_forecasts_of_a_series_begin_with_its_second_value():
    assert len(list(forecasts([1.0, 2.0, 3.0]))) == 2
    by_squares = list(forecasts([10.0, 10.0, 10.0, 10.0, 500.0] * 30, Criterion.MSE))
    assert by_squares[-1].value > 50


def test_windows_forget_the_oldest_value_first():
    sliding = Sliding(median, 3)
    assert after(sliding, [5.0, 5.0, 1.0]) == 5.0
    assert after(sliding, [2.0]) == 2.0
    assert after(sliding, [9.0]) == 2.0
    assert median([1.0, 2.0, 4.0, 9.0]) == 3.0
    assert trimmed_mean([1.0, 2.0, 9.0]) == 4.0


def test_the_first_of_two_hundred_and_one_errors_is_forgotten():
    bank = Bank()
    bank.update(0.0)
    for _ in range(200):
        bank.update(1000.0)  # the first is off by 1000, the others by nothing
    assert bank.own_error() == pytest.approx(5.0)
    bank.update(1000.0)
    assert bank.own_error() == 0.0


def test_an_adaptive_window_may_be_a_single_value():
    forecaster = Adaptive(median, first=2, least=1, most=3, offset=1)
    for value in (1.0, 5.0, 9.0, 9.0, 9.0, 9.0):
        forecaster.update(value)
    assert forecaster.forecast() == 9.0
    with pytest.raises(ValueError, match="is not within"):
        Adaptive(median, first=1, least=0, most=3, offset=1)
