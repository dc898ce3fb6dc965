import random
from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.similar import Calibration, PastRun, Request, Sample, sample

ASKED = Request(4, 3600)


def test_runs_that_match_outweigh_those_that_do_not() -> None:
    past = [PastRun(Request(1, 600), 50.0)] * 20 + [PastRun(ASKED, 1000.0)]
    assert sample(ASKED, past).typical() == 1000.0
    assert sample(Request(1, 600), past).typical() == 50.0


def test_newer_runs_outweigh_older_ones() -> None:
    past = [PastRun(ASKED, 100.0), PastRun(ASKED, 900.0)]
    assert sample(ASKED, past).typical() == 900.0


def test_without_a_past_there_is_no_sample() -> None:
    with pytest.raises(ValueError, match="no earlier run"):
        sample(ASKED, [])


def test_nothing_exceeds_the_limit() -> None:
    assert sample(ASKED, [PastRun(ASKED, 9e9)]).quantile(1.0) == 3600


@given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(0.01, 1)), min_size=1, max_size=12))
def test_typical_has_the_highest_expected_accuracy(pairs: list[tuple[float, float]]) -> None:
    pairs.sort()
    total = sum(w for _, w in pairs)
    drawn = Sample(tuple(t for t, _ in pairs), tuple(w / total for _, w in pairs))

    def accuracy(p: float) -> float:
        return sum(w * min(p, t) / max(p, t) for t, w in pairs) / total

    best = accuracy(drawn.typical())
    lowest, highest = pairs[0][0], pairs[-1][0]
    tries = [lowest * (highest / lowest) ** (i / 50) for i in range(51)]
    assert best >= max(map(accuracy, tries)) - 1e-9


def test_a_calibrated_quantile_keeps_its_promise_where_the_raw_one_does_not() -> None:
    calibration, missed = Calibration(0.9), 0
    for i in range(3000):
        elapsed, shift = 100.0 * (1 + (i * 0.618034) % 1.0), calibration.shift
        missed += shift is not None and elapsed > 50.0 * exp(shift)
        calibration.update(log(elapsed / 50.0), shift)
    assert 0.09 <= missed / 3000 <= 0.11
    assert calibration.shift is not None
    assert 50.0 * exp(calibration.shift) < 200


def test_the_level_follows_where_jobs_become_longer_all_the_time() -> None:
    def missed(step: float) -> float:
        rng, calibration, count = random.Random(0), Calibration(0.9, step=step), 0
        for i in range(6000):
            ratio, shift = rng.gauss(i / 4000, 1.0), calibration.shift
            count += shift is not None and ratio > shift
            calibration.update(ratio, shift)
        return count / 6000

    assert abs(missed(0.01) - 0.1) < 0.5 * abs(missed(0.0) - 0.1)


def test_with_too_little_experience_nothing_is_promised() -> None:
    calibration = Calibration(0.9)
    for _ in range(9):
        assert calibration.shift is None
        calibration.update(0.5, None)
    calibration.update(0.5, None)
    assert calibration.shift == 0.5
