"""Whatever Slurm prints comes back as the number it was."""

import os
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.text.slurm_text import (
    JobId,
    memory_in_all,
    parse_duration,
    parse_epoch,
    parse_job_id,
    parse_memory_request,
    parse_size,
    parse_time_limit,
    parse_tres,
)


def as_sacct(seconds, *, with_hours):
    """``[D-]HH:MM:SS``, as Elapsed; the short ``MM:SS.mmm`` of TotalCPU below an hour."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if not with_hours and not hours:
        return f"{minute:02}:{second:02}.000"
    return f"{f'{days}-' if days else ''}{hour:02}:{minute:02}:{second:02}"


@given(st.integers(0, 10**9), st.booleans())
def test_durations_come_back(seconds, with_hours):
    assert parse_duration(as_sacct(seconds, with_hours=with_hours)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:15.057", 15.057),
        ("12:34.567", 754.567),
        ("1-02:03:04", 93_784),
        ("365-00:00:00", 31_536_000),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
        ("INVALID", None),
        ("", None),
    ],
)
def test_durations_of_sacct(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["1:2:3:4", "abc", "-5", "1-", "1h"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("1:30", 90),
        ("1:30:15", 5415),
        ("2-12", 216_000),
        ("2-12:30", 217_800),
        ("2-12:30:05", 217_805),
        ("0", 0),
        ("100:00:00", 360_000),
        ("UNLIMITED", None),
        ("infinite", None),
        ("-1", None),
    ],
)
def test_time_limits_of_sbatch(text, seconds):
    assert parse_time_limit(text) == seconds


@pytest.mark.parametrize("text", ["1:2:3:4", "two", "1-2:3:4:5", "1-", ":30"])
def test_what_is_no_time_limit_is_refused(text):
    with pytest.raises(ValueError, match="not a duration"):
        parse_time_limit(text)


@given(st.integers(0, 2**60), st.sampled_from(["", "n", "c"]))
def test_sizes_in_bytes_come_back(size, ending):
    # Text goes through a double, as in sacct itself: 53 bits are exact.
    assert parse_size(f"{size}{ending}") == pytest.approx(size, rel=2**-52)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("56.06M", round(56.06 * 2**20)),
        ("0", 0),
        ("0.50K", 512),
        ("2000Mn", 2000 * 2**20),
        ("4Gc", 4 * 2**30),
        ("62.50G", round(62.5 * 2**30)),
        ("1T", 2**40),
        ("", None),
    ],
)
def test_sizes_of_sacct(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2Gn", 6 * 2**30),
        ("2Gc", 24 * 2**30),
        ("2G", 2 * 2**30),
        ("", None),
        ("0", None),
        # A job that was cancelled before it got nodes (22.05).
        ("18446744073709551616.00M", None),
        ("4000000000Gn", None),
    ],
)
def test_memory_per_node_and_per_cpu_is_that_of_the_job(text, size):
    assert memory_in_all(parse_memory_request(text), nodes=3, cpus=12) == size


@pytest.mark.parametrize("text", ["M", "1X", "1.2.3M", "-1M"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("6", JobId(6)),
        ("6_3", JobId(6, task=3)),
        ("6_0", JobId(6, task=0)),
        ("6_[0-3%2]", JobId(6, tasks="0-3%2")),
        ("7+1", JobId(7, het=1)),
        ("7.batch", JobId(7, step="batch")),
        ("7+0.0", JobId(7, het=0, step="0")),
        ("6_3.extern", JobId(6, task=3, step="extern")),
    ],
)
def test_job_ids(text, expected):
    assert parse_job_id(text) == expected


@pytest.mark.parametrize("text", ["", "batch", "6_", "x6", "6 3"])
def test_what_is_no_job_id_is_refused(text):
    with pytest.raises(ValueError, match="not a job id"):
        parse_job_id(text)


@given(st.integers(0, 2**33))
def test_times_come_back_in_all_formats(seconds):
    moment = datetime.fromtimestamp(seconds, UTC)
    away = moment.astimezone(timezone(timedelta(hours=-5)))
    assert parse_epoch(str(seconds)) == seconds
    assert parse_epoch(away.strftime("%Y-%m-%dT%H:%M:%S%z")) == seconds
    assert parse_epoch(moment.strftime("%Y-%m-%dT%H:%M:%S"), UTC) == seconds


@pytest.mark.parametrize("text", ["Unknown", "None", "", "N/A"])
def test_no_time_is_none(text):
    assert parse_epoch(text) is None


@pytest.fixture
def berlin(monkeypatch):
    monkeypatch.setitem(os.environ, "TZ", "Europe/Berlin")
    time.tzset()
    parse_epoch.cache_clear()
    yield
    monkeypatch.undo()
    time.tzset()
    parse_epoch.cache_clear()


@pytest.mark.usefixtures("berlin")
def test_times_without_an_offset_are_local():
    assert parse_epoch("2026-01-01T01:00:00") == 1_767_225_600
    assert parse_epoch("2026-07-01T02:00:00") == 1_782_864_000


def test_trackable_resources():
    text = "billing=2,cpu=2,fs/disk=1248832,gres/gpu:a100=1"
    assert parse_tres(text)["fs/disk"] == "1248832"
    assert parse_tres(text)["gres/gpu:a100"] == "1"
    assert parse_tres("") == {}
