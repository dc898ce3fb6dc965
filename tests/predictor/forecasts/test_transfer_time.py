"""The time of a transfer, from what was measured on its path."""

from dataclasses import replace
from math import inf, nan, sin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.forecasts.forecasters import Bank, Criterion, forecast_series
from predictor.forecasts.transfer_time import LEVEL, transfer_time
from predictor.types import Verdict
from sacct_ingest.records import Probe, Resource

MB = 1_000_000
NOW = 100_000.0


def probe(at_s, value, source="a", target="b"):
    return Probe(
        resource=Resource.BANDWIDTH, source=source, target=target, at_s=at_s, value=value,
        size_bytes=65536,
    )  # fmt: skip


def transfer(at_s, value, size_bytes=16 * MB):
    return Probe(
        resource=Resource.TRANSFER, source="a", target="b", at_s=at_s, value=value,
        size_bytes=size_bytes, took_s=size_bytes / value,
    )  # fmt: skip


def history(count):
    """Transfers that are three times as fast as the probe before, on a link that drifts."""
    result = []
    for number in range(count):
        at_s = NOW - 300 * (count - number)
        speed = (2 + sin(number / 3)) * MB
        result += [probe(at_s, speed), transfer(at_s + 1, 3 * speed)]
    return result


def predict(series, size_bytes=16 * MB):
    return transfer_time(series, size_bytes, "a", "b", now_s=NOW)


def names(made):
    return [problem.name for problem in made.problems]


def test_a_measured_path_is_reliable_and_right():
    made = predict([*history(30), probe(NOW - 5, 2.5 * MB)])
    assert made.time_s == pytest.approx(16 / 7.5, rel=1e-6)
    assert made.low_s <= made.time_s <= made.high_s
    assert (made.verdict, made.method, made.transfers) == (Verdict.RELIABLE, "AdRM", 30)
    assert made.problems == ()


def test_with_probes_alone_it_is_as_fast_as_the_probe_and_doubtful():
    made = predict([probe(NOW - 5, 2.0 * MB)])
    assert (made.time_s, made.low_s, made.high_s) == (8.0, 4.0, 16.0)
    assert (made.verdict, made.method, names(made)) == (Verdict.DOUBTFUL, "RBW", ["no_transfer"])


def test_with_transfers_alone_the_forecasters_speak():
    made = predict([transfer(NOW - 300 * n, 4.0 * MB) for n in range(1, 20)])
    assert (made.time_s, made.verdict) == (4.0, Verdict.DOUBTFUL)
    assert names(made) == ["no_probe"]


def cpu(at_s, share, host):
    return Probe(resource=Resource.CPU, source=host, target="", at_s=at_s, value=share)


def test_the_load_at_the_busier_end_takes_part():
    """The server b gets as much done as its CPU is free; a idles, c is not asked."""
    series = []
    for number in range(40):
        at_s, share = NOW - 300 * (40 - number), 0.5 + 0.4 * sin(number)
        series += [probe(at_s, 2 * MB), cpu(at_s, share, "b"), cpu(at_s, 1.0, "a")]
        series += [cpu(at_s, 0.01, "c"), transfer(at_s + 1, 4 * share * MB)]
    now = [probe(NOW - 5, 2 * MB), cpu(NOW - 5, 0.25, "b"), cpu(NOW - 5, 1.0, "a")]
    made = predict([*series, *now])
    assert made.time_s == pytest.approx(16)
    assert (made.cpu_share, made.method, made.verdict) == (0.25, "AdRM", Verdict.RELIABLE)
    unloaded = predict([each for each in (*series, *now) if each.resource is not Resource.CPU])
    assert (unloaded.cpu_share, unloaded.verdict) == (None, Verdict.DOUBTFUL)
    # An old one says nothing.
    old, new = cpu(NOW - 3601, 0.2, "b"), cpu(NOW - 5, 0.9, "a")
    assert predict([probe(NOW - 5, 2 * MB), old]).cpu_share is None
    assert predict([probe(NOW - 5, 2 * MB), old, new]).cpu_share == 0.9


def test_nothing_measured_is_refused():
    failed = replace(probe(NOW - 1, None), error="timed out")
    later = probe(NOW + 1, 1.0 * MB)
    elsewhere = [probe(NOW - 1, 1.0 * MB, "b", "a"), probe(NOW - 1, 1.0 * MB, "a", "c")]
    made = predict([failed, later, *elsewhere])
    assert (made.time_s, made.low_s, made.high_s) == (inf, inf, inf)
    assert (made.verdict, names(made)) == (Verdict.REFUSED, ["nothing_measured"])


def test_transfers_of_like_size_count_and_others_only_without_them():
    small = [transfer(NOW - 300 * n + 10, 1.0 * MB, 65536) for n in range(1, 20)]
    series = [*history(30), *small, probe(NOW - 5, 2.5 * MB)]
    assert predict(series).time_s == pytest.approx(16 / 7.5, rel=1e-6)
    assert names(predict(series, 900 * MB)) == ["other_sizes"]


def test_nothing_to_move_takes_no_time():
    assert predict([], 0).time_s == 0
    assert transfer_time([], 5.0, "a", "a", now_s=NOW).verdict is Verdict.RELIABLE


@given(st.permutations(history(12)), st.floats(1e3, 1e12), st.floats(1e3, 1e12))
def test_more_bytes_never_take_less_time_and_order_does_not_matter(series, first, second):
    now = probe(NOW - 5, 2.5 * MB)
    small, large = (predict([*series, now], size) for size in sorted((first, second)))
    assert small.time_s <= large.time_s * (1 + 1e-9)
    assert small == predict([*history(12), now], min(first, second))


@pytest.mark.parametrize(("size_mb", "alike"), [(4.0, True), (3.9, False), (64.0, True)])
def test_sizes_up_to_a_factor_of_four_are_alike(size_mb, alike):
    made = predict([transfer(NOW - 300, 4.0 * MB)], size_mb * MB)
    assert ("other_sizes" not in names(made)) is alike
    assert made.transfers == 1


def test_foreign_sizes_near_the_nearest_count_together():
    sizes = (1 * MB, 4 * MB, 5 * MB)
    series = [transfer(NOW - 300 * n, n * MB, size) for n, size in enumerate(sizes, 1)]
    assert predict(series, 100 * MB).transfers == 2


@pytest.mark.parametrize(("age_s", "method"), [(3600.0, "RBW"), (3601.0, "")])
def test_a_probe_is_stale_after_an_hour(age_s, method):
    assert predict([probe(NOW - age_s, 2.0 * MB)]).method == method


@pytest.mark.parametrize(("apart_s", "observed"), [(59.0, 9.0), (60.0, 2.0), (61.0, 2.0)])
def test_probes_within_a_minute_of_the_newest_are_together(apart_s, observed):
    series = [probe(NOW - 5 - apart_s, 9.0 * MB), probe(NOW - 5, 2.0 * MB)]
    assert predict(series).probe_bytes_per_s == observed * MB


def test_a_probe_counts_for_the_transfer_at_the_same_moment():
    made = predict(
        [probe(NOW - 300, 2.0 * MB), transfer(NOW - 300, 6.0 * MB), probe(NOW, 2.0 * MB)]
    )
    assert (made.method, made.transfers, made.time_s) == ("AdRM", 1, pytest.approx(16 / 6))


@pytest.mark.parametrize(("count", "verdict"), [(10, Verdict.DOUBTFUL), (11, Verdict.RELIABLE)])
def test_ten_predicted_transfers_are_enough(count, verdict):
    # The first one is predicted by none.
    series = [one for n in range(1, count + 1) for one in (
        probe(NOW - 300 * n, 2.0 * MB), transfer(NOW - 300 * n + 1, 6.0 * MB))]  # fmt: skip
    assert predict([*series, probe(NOW - 5, 2.0 * MB)]).verdict is verdict


def test_ten_predictions_that_were_off_are_erratic_and_not_few():
    def result(count):
        series = []
        for n in range(1, count + 1):
            speed = 4.0 * MB * (3.0 if n % 2 else 1 / 3.0)
            series += [probe(NOW - 300 * n, 2.0 * MB), transfer(NOW - 300 * n + 1, speed)]
        return names(predict([*series, probe(NOW - 5, 2.0 * MB)]))

    assert (result(10), result(11)) == (["few_transfers"], ["erratic"])


def test_the_bounds_of_transfers_alone_are_near_what_was_observed():
    series = [transfer(NOW - 300 * n, (1.0 if n == 2 else 4.0) * MB) for n in (1, 2, 3)]
    made = predict(series)
    # Twice the largest error would be wider: half the slowest, twice the fastest.
    assert made.high_s == pytest.approx(16 / 0.5)
    assert made.low_s == pytest.approx(16 / 8)
    single = predict(series[:1])
    assert (single.low_s, single.time_s, single.high_s) == (2.0, 4.0, 8.0)
    assert single.error == inf
    assert names(single) == ["no_probe", "few_transfers"]
    assert made.error < 1


def test_what_is_no_throughput_is_left_out():
    series = [probe(NOW - 9, value) for value in (0.0, -1.0, float("nan"), inf)]
    assert predict(series).verdict is Verdict.REFUSED
    assert predict([*series, probe(NOW - 9, 2.0 * MB)]).time_s == 8.0


@pytest.mark.parametrize(("off", "result"), [(1.24, []), (1.35, ["erratic"])])
def test_past_predictions_off_by_a_quarter_are_erratic(off, result):
    series = []
    for n in range(1, 60):
        speed = 4.0 * MB * (off if n % 2 else 1 / off)
        series += [probe(NOW - 300 * n, 2.0 * MB), transfer(NOW - 300 * n + 1, speed)]
    made = predict([*series, probe(NOW - 5, 2.0 * MB)])
    assert (made.error > 0.25) is bool(result)
    assert names(made) == result


def test_a_probe_at_the_moment_of_asking_counts_and_a_later_one_does_not():
    assert predict([probe(NOW, 2.0 * MB)]).method == "RBW"
    assert predict([probe(NOW + 1, 2.0 * MB)]).verdict is Verdict.REFUSED


def test_nothing_to_move_is_never_off():
    assert (predict([], 0).error, predict([], 0).transfers) == (0.0, 0)
    assert LEVEL == 0.9


@pytest.mark.parametrize(("count", "names_few"), [(3, True), (10, True), (11, False)])
def test_of_transfers_alone_the_first_was_not_predicted(count, names_few):
    made = predict([transfer(NOW - 10 * (count - i), 8.0 * MB) for i in range(count)])
    texts = [problem.text for problem in made.problems if problem.name == "few_transfers"]
    few = f"{count - 1} past transfers were predicted to compare with; 10 would do"
    assert texts == [few] * names_few


def series(values, resource=Resource.BANDWIDTH, source="a"):
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
    values = [10.0, 10.0, 10.0, 10.0, 500.0] * 30
    (by_mae,), (by_mse,) = (forecast_series(series(values), one) for one in Criterion)
    assert by_mae.value < 20 < by_mse.value
