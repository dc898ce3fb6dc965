"""When an application is switched off for what its predictions missed, and when it comes back."""

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_plugin.evaluation.feedback import AccuracyBand, PredictionOutcome, judge


def outcomes(*ratios: float, spread: float = 1.05, cut: bool = False) -> list[PredictionOutcome]:
    return [
        PredictionOutcome(float(i), 100.0 * ratio, 100.0, 100.0 / spread, 100.0 * spread, cut)
        for i, ratio in enumerate(ratios)
    ]


def off(*ratios: float, before: bool = False, **fields: float) -> bool:
    result = judge(outcomes(*ratios, **fields), AccuracyBand(), off=before)
    return result.off


def test_good_predictions_stay_on_and_bad_ones_go_off():
    assert not off(1.0, 0.95, 1.1, 1.2)
    assert off(3.0, 3.1, 2.9)
    assert off(0.3, 0.31, 0.3)


def test_one_run_that_went_wrong_says_nothing():
    assert not off(1.0, 1.0, 1.0, 1.0, 50.0)


def test_the_last_runs_count():
    assert off(*[1.0] * 50, *[3.0] * 6)
    assert not off(*[3.0] * 50, *[1.0] * 6, before=True)


def test_too_few_say_nothing():
    assert judge(outcomes(3.0, 3.0), AccuracyBand(), off=False) is None


def test_the_way_back_is_narrower_than_the_way_out():
    assert not off(1.4, 1.4, 1.4)
    assert off(1.4, 1.4, 1.4, before=True)
    assert not off(1.2, 1.2, 1.2, before=True)


def test_a_wide_prediction_has_a_wide_band():
    assert not off(2.5, 2.5, 2.5, spread=3.0)
    assert off(3.5, 3.5, 3.5, spread=3.0)


def test_a_run_that_was_stopped_took_at_least_that_long():
    assert off(3.0, 3.0, 3.0, cut=True)
    # Stopped before its predicted time, it may have been as predicted.
    assert judge(outcomes(0.5, 0.5, 0.5, cut=True), AccuracyBand(), off=False) is None


@given(st.lists(st.floats(0.01, 100.0), min_size=3, max_size=12), st.booleans())
def test_whoever_is_let_back_would_not_be_sent_out(ratios, before):
    if not off(*ratios, before=True):
        assert not off(*ratios, before=before)


@pytest.mark.parametrize("before", [False, True])
def test_the_band_that_was_used_is_reported(before):
    result = judge(outcomes(1.1, 1.1, 1.1), AccuracyBand(), off=before)
    assert log(result.high) == pytest.approx(log(1.25 if before else 1.5))
    assert result.low == pytest.approx(1 / result.high)
    assert (result.ratio, result.runs) == (pytest.approx(1.1), 3)
