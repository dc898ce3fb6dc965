"""Waits by what is known of the jobs before: predicted run times, and whole nodes."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.text.admin_comment import Note, build
from slurm_plugin.slurm import snapshot
from slurm_plugin.slurm.expected_ends import expected_end_s, expected_run_time_s
from slurm_plugin.slurm.node_pool import NodeShare, profile
from tests.slurm_plugin.slurm.test_snapshot import HOUR, NOW, node, pending, running, view

CPU = NodeShare(whole=False)
WHOLE = NodeShare()


def note(nodes=1, high_s=24, verdict="reliable"):
    return "JS1:x " + build(
        Note(
            decision_id="0" * 12, nodes=nodes, low=1, high=8, time_s=20, low_s=18, high_s=high_s,
            verdict=verdict, mode="enforce", reason="fixed_count",
        )
    )  # fmt: skip


def start(observed, nodes=1, duration_s=HOUR, share=WHOLE):
    free, _ = observed.partitions["batch"].pool.fitting(share)
    return free.earliest_start(nodes, duration_s) - NOW


def busy(comment, **fields):
    """Two nodes, each with a job of an hour that began ten seconds ago."""
    given = {"start_s": NOW - 10, "admin_comment": comment, **fields}
    jobs = [running(name, NOW - 10 + HOUR, **given) for name in ("n1", "n2")]
    return [node("n1", "ALLOCATED", 4), node("n2", "ALLOCATED", 4)], jobs


def test_a_job_ends_by_its_reliable_prediction():
    observed = view(*busy(note()))
    assert start(observed) == 14.0
    assert observed.shown == {"0" * 12}


def test_free_nodes_by_limits_alone_stand_beside_the_predicted_ones():
    nodes, jobs = busy(note())
    later = NOW - 10 + HOUR
    plan = pending(
        1, start_s=later, end_s=later + HOUR, alone=True, tres={"cpu": 4.0}, admin_comment=note()
    )
    part = view(nodes, [*jobs, plan]).partitions["batch"]
    for share, one in ((WHOLE, part), (CPU, part.fitting(CPU))):
        assert one.profile.earliest_start(1, 1.0) == NOW + 14
        held = [one.by_limits.earliest_start(n, 1.0) for n in (1, 2)]
        assert held == [later, later + HOUR], share
    # What is booked, and what is closed for the job, counts in both.
    booked = part.promise(1, later, later + 9 * HOUR).by_limits
    assert booked.earliest_start(1, 1.0) == later + HOUR
    assert part.blocked(later + 60).by_limits.earliest_start(1, 1.0) == later + 60
    nothing = view(nodes, busy("")[1]).partitions["batch"]
    assert nothing.limit_profile is None
    assert nothing.by_limits is nothing.profile


@pytest.mark.parametrize(
    "comment", ["", "JS1:x", note(verdict="doubtful"), note(nodes=2), note(high_s=7200)]
)
def test_a_job_is_taken_to_its_limit_where_no_more_is_available_or_it_ends_sooner(comment):
    assert start(view(*busy(comment))) == HOUR - 10
    # And where it lasts longer than predicted.
    assert start(view(*busy(note(), start_s=NOW - 30))) == HOUR - 10


def test_planned_jobs_move_ahead_with_those_before_them():
    nodes, jobs = busy(note())
    later = NOW - 10 + HOUR
    for comment, wait in ((note(), 14.0 + 24), ("", 14.0 + HOUR)):
        queue = [
            pending(1, start_s=later, end_s=later + HOUR, alone=True, admin_comment=comment)
            for _ in range(2)
        ]
        assert start(view(nodes, [*jobs, *queue])) == wait


def test_plans_stand_where_no_run_time_is_available():
    nodes, jobs = busy("")
    plan = pending(2, start_s=NOW + 2 * HOUR, end_s=NOW + 3 * HOUR, alone=True)
    assert start(view(nodes, [*jobs, plan]), duration_s=HOUR) == HOUR - 10
    assert start(view(nodes, [*jobs, plan]), duration_s=2 * HOUR) == 3 * HOUR


def test_a_queued_exclusive_job_takes_whole_nodes():
    """It asks for one CPU on each node and gets them all."""
    plan = {"start_s": NOW + 60, "end_s": NOW + 60 + 3 * HOUR, "tres": {"cpu": 2.0}}
    nodes = [node("n1"), node("n2")]
    assert start(view(nodes, [pending(2, alone=True, **plan)])) == 60 + 3 * HOUR
    assert start(view(nodes, [pending(2, **plan)]), share=CPU) == 0.0


def test_a_queued_job_with_all_memory_takes_whole_nodes():
    job = pending(2, tres={"cpu": 2.0, "mem": 4000.0})
    assert snapshot.whole_nodes(job, 2, (4, 2000)) == 2
    assert snapshot.whole_nodes(job, 2, (4, 0)) == 1
    assert snapshot.whole_nodes(pending(3), 3, (4, 2000)) == 3
    assert expected_run_time_s(pending(1)) is None
    assert expected_end_s(running("n1", inf), NOW) == inf


changes = st.lists(st.tuples(st.integers(1, 100).map(float), st.integers(-6, 6)), max_size=8).map(
    lambda later: [(0.0, 4), *later]
)


def test_a_job_waits_for_the_last_node_it_needs():
    free = profile([(0.0, 1), (50.0, 1), (80.0, 2)])
    assert [free.earliest_start(n, 1.0) for n in (1, 2, 3, 4, 5)] == [0.0, 50.0, 80.0, 80.0, inf]


def test_a_short_job_fits_before_a_reservation_and_a_long_one_does_not():
    free = profile([(0.0, 4), (100.0, -3), (200.0, 3)])
    assert free.earliest_start(4, 100.0) == 0.0
    assert free.earliest_start(4, 101.0) == 200.0
    assert free.earliest_start(4, 80.0, from_s=30.0) == 200.0
    assert free.earliest_start(1, inf) == 0.0
    # It starts no earlier than it may.
    assert free.earliest_start(2, 10.0, from_s=30.0) == 30.0
    assert profile([(10.0, 4)]).earliest_start(4, 60.0) == 10.0


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

    def fits(start):
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
