"""Free nodes over time."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_plugin.slurm.node_pool import profile

changes = st.lists(st.tuples(st.integers(1, 100).map(float), st.integers(-6, 6)), max_size=8).map(
    lambda later: [(0.0, 4), *later]
)


def test_nodes_that_are_free_start_now():
    assert profile([(10.0, 4)]).earliest_start(4, 60.0) == 10.0


def test_a_job_waits_for_the_last_node_it_needs():
    free = profile([(0.0, 1), (50.0, 1), (80.0, 2)])
    assert [free.earliest_start(n, 1.0) for n in (1, 2, 3, 4, 5)] == [0.0, 50.0, 80.0, 80.0, inf]


def test_a_short_job_fits_before_a_reservation_and_a_long_one_does_not():
    free = profile([(0.0, 4), (100.0, -3), (200.0, 3)])
    assert free.earliest_start(4, 100.0) == 0.0
    assert free.earliest_start(4, 101.0) == 200.0
    assert free.earliest_start(1, inf) == 0.0


def test_a_job_starts_no_earlier_than_it_may():
    assert profile([(0.0, 4)]).earliest_start(2, 10.0, from_s=30.0) == 30.0


def test_a_hole_that_closes_too_early_is_no_start():
    free = profile([(0.0, 4), (100.0, -3), (200.0, 3)])
    assert free.earliest_start(4, 80.0, from_s=30.0) == 200.0


def test_reserved_nodes_are_gone_for_that_time_only():
    free = profile([(0.0, 4)]).reserve(3, 10.0, 20.0)
    assert [free.free_at(t) for t in (0.0, 10.0, 19.9, 20.0)] == [4, 1, 1, 4]


@pytest.mark.parametrize(("start", "end"), [(5.0, 5.0), (9.0, 2.0), (-9.0, 0.0)])
def test_an_empty_reservation_changes_nothing(start, end):
    free = profile([(0.0, 4)])
    assert free.reserve(2, start, end) == free


@given(changes)
def test_more_taken_than_there_are_leaves_none(steps):
    assert min(profile(steps).free) >= 0


@given(changes, st.integers(1, 4), st.sampled_from([1.0, 20.0, inf]), st.integers(0, 120))
def test_the_fewest_free_is_the_largest_job_that_starts_as_early(steps, nodes, duration, begin):
    free = profile(steps)
    start = free.earliest_start(nodes, duration, from_s=begin)
    if start < inf:
        most = free.least(start, start + duration)
        starts = [free.earliest_start(n, duration, from_s=begin) for n in range(nodes, most + 2)]
        assert [s == start for s in starts] == [True] * (len(starts) - 1) + [False]


@given(changes, st.integers(1, 8), st.integers(1, 60), st.integers(0, 120))
def test_earliest_start_is_what_trying_every_second_finds(steps, nodes, duration, begin):
    free = profile(steps)

    def fits(start: float) -> bool:
        return all(free.free_at(start + t) >= nodes for t in range(duration))

    tried = (float(t) for t in range(begin, 121) if fits(t))
    assert free.earliest_start(nodes, duration, from_s=begin) == next(tried, inf)


@given(changes, st.integers(1, 8), st.integers(1, 60))
def test_more_nodes_or_more_time_never_start_earlier(steps, nodes, duration):
    free = profile(steps)
    start = free.earliest_start(nodes, duration)
    assert free.earliest_start(nodes + 1, duration) >= start
    assert free.earliest_start(nodes, duration + 1) >= start


@given(changes, st.integers(1, 6), st.integers(0, 100), st.integers(1, 50), st.integers(0, 160))
def test_a_reservation_takes_its_nodes_and_nothing_else(steps, nodes, start, length, moment):
    before = profile(steps)
    after = before.reserve(nodes, start, start + length)
    taken = nodes if start <= moment < start + length else 0
    assert after.free_at(moment) == max(before.free_at(moment) - taken, 0)
