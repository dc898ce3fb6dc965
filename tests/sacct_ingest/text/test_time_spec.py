"""Deadlines as sbatch takes them; the expected ones follow Slurm's parse_time by hand."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.text.time_spec import parse_time

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 21, 10, 30, 5, tzinfo=BERLIN)


def said(text: str, now: datetime = NOW) -> str:
    seconds = parse_time(text, now_s=now.timestamp(), zone=now.tzinfo)
    return datetime.fromtimestamp(seconds, now.tzinfo).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-11-21 10:30:05"),
        ("now+90", "2026-11-21 10:31:35"),
        ("now+1hour", "2026-11-21 11:30:05"),
        ("now + 2 days", "2026-11-23 10:30:05"),
        ("NOW+1Weeks", "2026-11-28 10:30:05"),
        ("now-30minutes", "2026-11-21 10:00:05"),
        ("16:30", "2026-11-21 16:30:00"),
        ("16:30:20", "2026-11-21 16:30:20"),
        ("9:15", "2026-11-22 09:15:00"),
        ("10:30", "2026-11-22 10:30:00"),
        ("10:31", "2026-11-21 10:31:00"),
        ("12:30 am", "2026-11-22 00:30:00"),
        ("12:30PM", "2026-11-21 12:30:00"),
        ("3:04pm", "2026-11-21 15:04:00"),
        ("midnight", "2026-11-22 00:00:00"),
        ("noon", "2026-11-21 12:00:00"),
        ("elevenses", "2026-11-21 11:00:00"),
        ("fika", "2026-11-21 15:00:00"),
        ("teatime", "2026-11-21 16:00:00"),
        ("today", "2026-11-21 00:00:00"),
        ("tomorrow", "2026-11-22 00:00:00"),
        ("noon tomorrow", "2026-11-22 12:00:00"),
        ("2026-12-24", "2026-12-24 00:00:00"),
        ("2027-01-02T03:04", "2027-01-02 03:04:00"),
        ("2027-01-02T03:04:05", "2027-01-02 03:04:05"),
        ("010227", "2027-01-02 00:00:00"),
        ("0102", "2027-01-02 00:00:00"),
        ("1122", "2026-11-22 00:00:00"),
        ("1/2/27", "2027-01-02 00:00:00"),
        ("12.31.26", "2026-12-31 00:00:00"),
        ("01/02/27-3:04 PM", "2027-01-02 15:04:00"),
        ("11/21-10:31", "2026-11-21 10:31:00"),
        ("11/21-10:29", "2027-11-21 10:29:00"),
        ("0231", "2027-03-03 00:00:00"),
        ("uts1790000000", "2026-09-21 16:13:20"),
    ],
)
def test_points_in_time(text, expected):
    assert said(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "soon", "25:00", "10:61", "13:00 pm", "13/01", "1/32/26", "01/02/2026"),
        *("now+", "now+5min", "2026-13-01"),
        "Tomorrow",  # the T is taken for the one between date and time
    ],
)
def test_what_slurm_refuses_is_refused(text):
    with pytest.raises(ValueError, match=r"not a (point in )?time"):
        said(text)


def test_an_hour_is_an_hour_when_the_clocks_change():
    # On 25 October 2026 at 3:00 clocks in Berlin go back to 2:00.
    before = datetime(2026, 10, 25, 1, 30, tzinfo=BERLIN)
    seconds = parse_time("now+2hours", now_s=before.timestamp(), zone=BERLIN)
    assert seconds - before.timestamp() == 7200


@given(st.datetimes(datetime(2000, 1, 1), datetime(2099, 12, 31)))  # noqa: DTZ001
def test_iso_times_come_back(moment):
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    assert parse_time(moment.strftime("%Y-%m-%dT%H:%M:%S"), now_s=0, zone=UTC) == moment.timestamp()


@given(st.times(), st.integers(0, 2**31))
def test_a_time_of_day_is_at_most_a_day_ahead(time, now_s):
    result = parse_time(f"{time:%H:%M}", now_s=now_s, zone=UTC)
    now = datetime.fromtimestamp(now_s, UTC)
    ahead = datetime.fromtimestamp(result, UTC) - now.replace(second=0)
    assert timedelta(0) < ahead <= timedelta(days=1)
