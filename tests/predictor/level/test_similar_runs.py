"""Runs that are like a job say more of it than others."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.level.experts import RunRequest, typical
from predictor.sample import Sample

ASKED = RunRequest(4, 3600)


def ran(nodes, limit_s, elapsed_s):
    return Sample(nodes, elapsed_s, limit_s=limit_s)


def test_runs_that_match_outweigh_those_that_do_not():
    past = [ran(1, 600, 50.0)] * 20 + [ran(4, 3600, 1000.0)]
    assert typical(ASKED, past) == 1000.0
    assert typical(RunRequest(1, 600), past) == 50.0


@pytest.mark.parametrize(
    "asked", [RunRequest(16, 3600), RunRequest(6, 3600), RunRequest(4, 9000), RunRequest(4, 2000)]
)
def test_the_nearer_of_two_runs_that_both_differ_says_more(asked):
    near, far = ran(asked.nodes * 2, asked.limit_s * 2, 100.0), 900.0
    older = [near, ran(asked.nodes * 2, asked.limit_s * 32, far)]
    smaller = [near, ran(asked.nodes * 64, asked.limit_s * 2, far)]
    assert typical(asked, older) == typical(asked, smaller) == 100.0


def test_a_run_without_a_limit_is_far_from_those_with_one():
    free = Sample(4, 900.0)
    past = [ran(4, 1800, 100.0), free]
    assert typical(ASKED, past) == 100.0
    assert typical(RunRequest(4, math.inf), past) == 900.0


def test_newer_runs_outweigh_older_ones():
    past = [ran(4, 3600, 100.0), ran(4, 3600, 900.0)]
    assert typical(ASKED, past) == 900.0


def test_without_a_past_nothing_is_typical():
    with pytest.raises(ValueError, match="no earlier run"):
        typical(ASKED, [])


def test_nothing_exceeds_the_limit():
    assert typical(ASKED, [ran(4, 3600, 9e9)]) == 3600


@given(st.lists(st.floats(1, 1e4), min_size=1, max_size=12))
def test_typical_has_the_highest_expected_accuracy(times):
    weights = [(len(times) - i) ** -0.3 for i in range(len(times))]

    def accuracy(p):
        return sum(w * min(p, t) / max(p, t) for t, w in zip(times, weights, strict=True))

    free = RunRequest(4, math.inf)
    best = accuracy(typical(free, [Sample(4, t) for t in times]))
    lowest, highest = min(times), max(times)
    tries = [lowest * (highest / lowest) ** (i / 50) for i in range(51)]
    assert best >= max(map(accuracy, tries)) - 1e-9
