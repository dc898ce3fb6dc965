import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.level.similar_runs import PastRun, RunRequest, SimilarRuns, sample

ASKED = RunRequest(4, 3600)


def test_runs_that_match_outweigh_those_that_do_not():
    past = [PastRun(RunRequest(1, 600), 50.0)] * 20 + [PastRun(ASKED, 1000.0)]
    assert sample(ASKED, past).typical() == 1000.0
    assert sample(RunRequest(1, 600), past).typical() == 50.0


@pytest.mark.parametrize(
    "asked", [RunRequest(16, 3600), RunRequest(6, 3600), RunRequest(4, 9000), RunRequest(4, 2000)]
)
def test_the_nearer_of_two_runs_that_both_differ_says_more(asked):
    near, far = PastRun(RunRequest(asked.nodes * 2, asked.limit_s * 2), 100.0), 900.0
    older = [near, PastRun(RunRequest(asked.nodes * 2, asked.limit_s * 32), far)]
    smaller = [near, PastRun(RunRequest(asked.nodes * 64, asked.limit_s * 2), far)]
    assert sample(asked, older).typical() == sample(asked, smaller).typical() == 100.0


def test_a_run_without_a_limit_is_far_from_those_with_one():
    free = PastRun(RunRequest(4, math.inf), 900.0)
    past = [PastRun(RunRequest(4, 1800), 100.0), free]
    assert sample(ASKED, past).typical() == 100.0
    assert sample(RunRequest(4, math.inf), past).typical() == 900.0


def test_newer_runs_outweigh_older_ones():
    past = [PastRun(ASKED, 100.0), PastRun(ASKED, 900.0)]
    assert sample(ASKED, past).typical() == 900.0


def test_without_a_past_there_is_no_sample():
    with pytest.raises(ValueError, match="no earlier run"):
        sample(ASKED, [])


def test_nothing_exceeds_the_limit():
    assert sample(ASKED, [PastRun(ASKED, 9e9)]).quantile(1.0) == 3600


@given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(0.01, 1)), min_size=1, max_size=12))
def test_typical_has_the_highest_expected_accuracy(pairs):
    pairs.sort()
    total = sum(w for _, w in pairs)
    drawn = SimilarRuns(tuple(t for t, _ in pairs), tuple(w / total for _, w in pairs))

    def accuracy(p: float) -> float:
        return sum(w * min(p, t) / max(p, t) for t, w in pairs) / total

    best = accuracy(drawn.typical())
    lowest, highest = pairs[0][0], pairs[-1][0]
    tries = [lowest * (highest / lowest) ** (i / 50) for i in range(51)]
    assert best >= max(map(accuracy, tries)) - 1e-9
