"""The time of a transfer, from what was measured on its path."""

from dataclasses import replace
from math import inf, sin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.transfer import STALE_S, TransferTime, transfer_time
from predictor.types import Verdict
from sacct_ingest.records import Probe, Resource

MB = 1_000_000
NOW = 100_000.0


def probe(at_s: float, value: float | None, source: str = "a", target: str = "b") -> Probe:
    return Probe(
        resource=Resource.BANDWIDTH, source=source, target=target, at_s=at_s, value=value,
        size_bytes=65536,
    )  # fmt: skip


def transfer(at_s: float, value: float, size_bytes: int = 16 * MB) -> Probe:
    return Probe(
        resource=Resource.TRANSFER, source="a", target="b", at_s=at_s, value=value,
        size_bytes=size_bytes, took_s=size_bytes / value,
    )  # fmt: skip


def history(count: int) -> list[Probe]:
    """Transfers that are three times as fast as the probe before, on a link that drifts."""
    found = []
    for number in range(count):
        at_s = NOW - 300 * (count - number)
        speed = (2 + sin(number / 3)) * MB
        found += [probe(at_s, speed), transfer(at_s + 1, 3 * speed)]
    return found


def predict(series: list[Probe], size_bytes: float = 16 * MB) -> TransferTime:
    return transfer_time(series, size_bytes, "a", "b", now_s=NOW)


def names(made: TransferTime) -> list[str]:
    return [problem.name for problem in made.problems]


def test_a_known_path_is_reliable_and_right() -> None:
    made = predict([*history(30), probe(NOW - 5, 2.5 * MB)])
    assert made.time_s == pytest.approx(16 / 7.5, rel=1e-6)
    assert made.low_s <= made.time_s <= made.high_s
    assert (made.verdict, made.method, made.transfers) == (Verdict.RELIABLE, "AdRM", 30)
    assert made.problems == ()


def test_with_probes_alone_it_is_as_fast_as_the_probe_and_doubtful() -> None:
    made = predict([probe(NOW - 5, 2.0 * MB)])
    assert (made.time_s, made.low_s, made.high_s) == (8.0, 4.0, 16.0)
    assert (made.verdict, made.method, names(made)) == (Verdict.DOUBTFUL, "RBW", ["no_transfer"])


def test_with_transfers_alone_the_forecasters_speak() -> None:
    made = predict([transfer(NOW - 300 * n, 4.0 * MB) for n in range(1, 20)])
    assert (made.time_s, made.verdict) == (4.0, Verdict.DOUBTFUL)
    assert names(made) == ["no_probe"]


def test_an_old_probe_says_nothing_about_now() -> None:
    made = predict([probe(NOW - STALE_S - 1, 2.0 * MB)])
    assert (made.verdict, names(made)) == (Verdict.REFUSED, ["nothing_measured"])


def test_nothing_measured_is_refused() -> None:
    failed = replace(probe(NOW - 1, None), error="timed out")
    later = probe(NOW + 1, 1.0 * MB)
    elsewhere = [probe(NOW - 1, 1.0 * MB, "b", "a"), probe(NOW - 1, 1.0 * MB, "a", "c")]
    made = predict([failed, later, *elsewhere])
    assert (made.time_s, made.low_s, made.high_s) == (inf, inf, inf)
    assert (made.verdict, names(made)) == (Verdict.REFUSED, ["nothing_measured"])


def test_few_transfers_are_doubted() -> None:
    made = predict([*history(3), probe(NOW - 5, 2.5 * MB)])
    assert (made.verdict, made.method, names(made)) == (
        Verdict.DOUBTFUL, "AdRM", ["few_transfers"],
    )  # fmt: skip


def test_an_erratic_link_is_doubted() -> None:
    series = [transfer(NOW - 300 * n, (1 + 9 * (n % 2)) * MB) for n in range(1, 40)]
    series += [probe(NOW - 300 * n - 1, 1.0 * MB) for n in range(40)]
    assert names(predict(series)) == ["erratic"]


def test_transfers_of_like_size_count_and_others_only_without_them() -> None:
    small = [transfer(NOW - 300 * n + 10, 1.0 * MB, 65536) for n in range(1, 20)]
    series = [*history(30), *small, probe(NOW - 5, 2.5 * MB)]
    assert predict(series).time_s == pytest.approx(16 / 7.5, rel=1e-6)
    assert names(predict(series, 900 * MB)) == ["other_sizes"]


def test_probes_at_one_time_are_taken_together() -> None:
    several = [probe(NOW - n, value * MB) for n, value in enumerate((2.0, 3.0, 0.1, 9.0, 2.5), 1)]
    assert predict(several).probe_bytes_per_s == 9.0 * MB


def test_nothing_to_move_takes_no_time() -> None:
    assert predict([], 0).time_s == 0
    assert transfer_time([], 5.0, "a", "a", now_s=NOW).verdict is Verdict.RELIABLE


@given(st.permutations(history(12)), st.floats(1e3, 1e12), st.floats(1e3, 1e12))
def test_more_bytes_never_take_less_time_and_order_does_not_matter(
    series: list[Probe], first: float, second: float
) -> None:
    now = probe(NOW - 5, 2.5 * MB)
    small, large = (predict([*series, now], size) for size in sorted((first, second)))
    assert small.time_s <= large.time_s * (1 + 1e-9)
    assert small == predict([*history(12), now], min(first, second))
