"""Ingests for ever, through outages."""

import logging

import pytest

from sacct_ingest.errors import ConfigError, SacctError, StoreError
from sacct_ingest.ingest.into_store import FollowSettings, follow

SETTINGS = FollowSettings(every_s=600, first_retry_s=30, longest_s=100)


def rounds(*outcomes: Exception | None) -> list[float]:
    """Follow once for each outcome; give the pauses."""
    left, pauses = list(outcomes), list[float]()

    def once() -> None:
        outcome = left.pop(0)
        if outcome is not None:
            raise outcome

    follow(once, SETTINGS, pause=pauses.append, rounds=len(outcomes))
    return pauses


def test_pauses_are_even_while_all_is_well():
    assert rounds(None, None) == [600, 600]


def test_outages_are_outlived_with_growing_delay(caplog):
    with caplog.at_level(logging.ERROR):
        pauses = rounds(SacctError("no slurmdbd"), StoreError("gone"), SacctError("x"), None)
    assert pauses == [30, 60, 100, 600]
    assert "no slurmdbd; next attempt in 30 s" in caplog.text


def test_the_delay_starts_anew_after_a_success():
    assert rounds(SacctError("a"), SacctError("b"), None, SacctError("c")) == [30, 60, 600, 30]


def test_mistakes_are_not_outlived():
    with pytest.raises(ConfigError):
        rounds(ConfigError("wrong"))
