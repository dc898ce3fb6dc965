"""The next value of each stored series."""

from math import inf, nan

import pytest

from predictor.forecasts.forecasters import Bank, Criterion, forecast_series
from sacct_ingest.records import Probe, Resource


def series(
    values: list[float | None], resource: Resource = Resource.BANDWIDTH, source: str = "a"
) -> list[Probe]:
    return [
        Probe(resource=resource, source=source, target="b", at_s=100.0 + n, value=value)
        for n, value in enumerate(values)
    ]


def test_each_series_is_forecast_by_its_own_bank():
    first, second = [10.0, 12.0, 11.0, 13.0], [1.0, 2.0, 3.0]
    probes = [*series(second, source="b"), *reversed(series(first))]
    one, other = forecast_series(probes)
    bank = Bank()
    for value in first:
        bank.update(value)
    expected = bank.forecast()
    assert (one.source, other.source) == ("a", "b")
    assert (one.value, one.high, one.by) == (expected.value, expected.high, expected.by)
    assert one.low == max(expected.low, 0.0)
    assert (one.measured, one.failed, one.last, one.last_s) == (4, 0, 13.0, 103.0)
    assert one.nmae == pytest.approx(bank.own_error() / 11.5)
    assert (other.resource, other.target, other.last) == (Resource.BANDWIDTH, "b", 3.0)


def test_measurements_that_failed_or_are_no_number_are_counted():
    (made,) = forecast_series(series([1.0, None, nan, 2.0, inf, None]))
    assert (made.measured, made.failed, made.last, made.last_s) == (2, 4, 2.0, 103.0)


def test_a_series_without_a_value_is_left_out():
    assert forecast_series(series([None, nan])) == []


def test_shares_of_a_cpu_are_at_most_one_and_nothing_is_negative():
    (share,) = forecast_series(series([0.9, 0.1, 0.9, 0.2, 1.0], Resource.CPU))
    assert (share.low, share.high) == (0.0, 1.0)
    (speed,) = forecast_series(series([0.9, 0.1, 0.9, 0.2, 1.0]))
    assert (speed.low, speed.high > 1.0) == (0.0, True)


def test_a_series_of_zeros_has_no_relative_error():
    (made,) = forecast_series(series([0.0, 0.0, 0.0]))
    assert made.nmae == inf
    (some,) = forecast_series(series([0.0, 6.0]))
    assert some.nmae == 2.0
    (single,) = forecast_series(series([4.0]))
    assert (single.value, single.nmae) == (4.0, inf)


def test_the_criterion_is_passed_on():
    values: list[float | None] = [10.0, 10.0, 10.0, 10.0, 500.0] * 30
    (by_mae,), (by_mse,) = (forecast_series(series(values), one) for one in Criterion)
    assert by_mae.value < 20 < by_mse.value
