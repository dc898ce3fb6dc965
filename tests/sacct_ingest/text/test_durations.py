"""Durations for people and for Slurm: one rounding, nothing said twice."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.text.durations import duration_range, duration_text, slurm_time
from sacct_ingest.text.slurm_text import parse_duration

UNITS = {"s": 1, "min": 60, "h": 3600, "days": 86_400}
SECONDS = st.floats(0, 1e8) | st.integers(0, 10**6)
ROOT = Path(__file__).parents[3]
#: A rounded number with the name of a unit of time after it.
ROUNDED = re.compile(r":[.0-9]*f\} (min|h|hours|days)\b")


def said(text):
    """Seconds of a duration for people."""
    number, unit = text.split(" ")
    return float(number) * UNITS[unit]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.04, "0 s"),
        (0.32, "0.3 s"),
        (0.96, "1 s"),
        (4.3, "4 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (90, "1.5 min"),
        (300, "5 min"),
        (597.2, "10 min"),
        (3569, "59 min"),
        (3571, "1 h"),
        (5520, "1.5 h"),
        (86_400, "24 h"),
        (47.4 * 3600, "47 h"),
        (47.6 * 3600, "2 days"),
        (7 * 86_400, "7 days"),
        (None, "-"),
    ],
)
def test_durations_for_people(seconds, text):
    assert duration_text(seconds) == text


@given(SECONDS, SECONDS)
def test_what_is_longer_is_never_said_to_be_shorter(first, second):
    shorter, longer = sorted([first, second])
    assert said(duration_text(shorter)) <= said(duration_text(longer))


@given(SECONDS)
def test_durations_for_people_can_be_read_back_within_their_rounding(seconds):
    assert said(duration_text(seconds)) == pytest.approx(
        seconds, rel=0.051, abs=0.051 if seconds < 0.95 else 0.51
    )


@given(SECONDS)
def test_no_duration_fills_the_next_unit(seconds):
    number, unit = duration_text(seconds).split(" ")
    assert float(number) < {"s": 60, "min": 60, "h": 48, "days": float("inf")}[unit]
    assert len(number) <= 3 or unit == "days"
    assert not number.endswith(".0")


@given(SECONDS, SECONDS)
def test_an_interval_has_a_unit_once_or_two_that_differ(first, second):
    low, high = sorted([first, second])
    text = duration_range(low, high)
    units = re.findall("[a-z]+", text.replace(" to ", " "))
    assert len(units) == len(set(units)) <= 2
    assert text.endswith(duration_text(high))


def test_an_interval_that_is_not_known_is_a_dash():
    assert duration_range(None, 3.0) == duration_range(3.0, None) == "-"


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "00:00:00"), (59.6, "00:01:00"), (86_399.6, "1-00:00:00"), (None, "-")],
)
def test_slurms_form_carries_when_it_rounds(seconds, written):
    assert slurm_time(seconds) == written


@given(st.integers(0, 10**8))
def test_slurms_form_can_be_read_back(seconds):
    written = slurm_time(seconds)
    assert parse_duration(written) == seconds
    hours, minutes, rest = map(int, written.split("-")[-1].split(":"))
    assert hours < 24
    assert max(minutes, rest) < 60


@pytest.mark.parametrize("package", ["sacct_ingest", "predictor", "slurm_plugin"])
def test_nothing_else_rounds_durations_and_what_is_pasted_has_slurms_form(package):
    sources = [path for path in (ROOT / package).rglob("*.py") if path.name != "durations.py"]
    texts = {path: path.read_text() for path in sources}
    assert not [path for path, text in texts.items() if ROUNDED.search(text)]
    assert not [path for path, text in texts.items() if "--time={duration_text" in text]
