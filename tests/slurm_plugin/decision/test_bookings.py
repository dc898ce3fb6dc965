"""Nodes that jobs will take: counted, and taken off before squeue shows the jobs."""

import pytest
from msgspec.structs import replace

from slurm_plugin.config.setting_types import Mode
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.node_pool import NodeGroup, NodePool, NodeShare, profile
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, cluster, idle, job, partition, stored, table, thrifty


@pytest.fixture
def large(monkeypatch):
    """A cluster too large to go through while a job waits, and what is to be done later."""
    monkeypatch.setattr("slurm_plugin.slurm.node_pool.AT_ONCE", 0)
    groups = {NodeGroup(cpus=4, mem_mib=2000, steps=(), empty_s=NOW): tuple("abcdefgh")}
    pool, later = NodePool(now_s=NOW, groups=groups), []
    made = DecisionService(
        thrifty(mode=Mode.ENFORCE),
        new_id=lambda: "0" * 12,
        later=lambda work, then: later.append((work, then)),
    )
    made.tables = stored(table())
    made.cluster = cluster(partition(profile([(NOW, 8)]), nodes=8, pool=pool))
    return made, later


def test_nodes_are_counted_for_a_new_shape_after_the_answer(large):
    made, later = large
    answer, book = made.answer(job(), via="job_submit", now_s=NOW)
    assert (answer.action, answer.reason, later) == ("keep", Reason.NEW_SHAPE, [])
    assert book().reason == "new_shape"
    work, then = later.pop()
    work()
    assert submit(made)[0].action == "set"
    (second,) = made.bookings.view("alice").partition("").promised
    then()
    # The first job passed as it was, and has all nodes that are left for it.
    left = 8 - second[0]
    high_s = (100 + 3600 / left) * 1.1
    (first,) = made.bookings.view("alice").partition("").promised[1:]
    assert first[:3] == (left, NOW, pytest.approx(NOW + high_s))


def test_a_command_is_not_decided_on_before_nodes_are_counted(large):
    made, later = large
    asked = job(account="physics", qos="normal")
    assert not made.prepare(asked, now_s=NOW).ticket
    later.pop()[0]()
    assert made.prepare(asked, now_s=NOW).ticket


def test_advice_waits_for_nodes_to_be_counted(large):
    made, later = large
    assert made.advise(job(), now_s=NOW).nodes
    assert later == []


def test_nodes_promised_to_one_job_are_not_offered_to_the_next():
    made = advisor(look=cluster(partition(profile([(NOW, 8)]), nodes=8)))
    first = submit(made)[1]
    second = submit(made)[1]
    assert first.requested_nodes == 8
    assert second.requested_nodes == 8 - first.nodes


def test_in_observe_the_job_takes_what_it_asked_for():
    look = cluster(partition(profile([(NOW, 8), (NOW + 9000, 24)])))
    made = advisor(mode=Mode.OBSERVE, look=look)
    submit(made, job(min_nodes=6, max_nodes=6, min_cpus=6))
    assert submit(made)[1].requested_nodes == 2


def test_jobs_that_have_to_wait_make_the_queue_longer():
    made = advisor(look=cluster(partition(profile([(NOW, 2), (NOW + 3600, 30)]))))
    submit(made, job(min_nodes=2, max_nodes=2, min_cpus=2), now_s=NOW + 5)
    for _ in range(3):
        submit(made, job(min_nodes=2, max_nodes=2, min_cpus=2), now_s=NOW + 6)
    part = made.bookings.view("alice").partitions["batch"]
    assert part.queue == 3
    assert part.profile.free_at(NOW + 6) == 0
    # Nothing is planned for them, as for most jobs that squeue shows as pending.
    assert part.profile.free_at(NOW + 3600) == 32


def test_a_view_that_shows_the_job_ends_the_promise():
    made = advisor(look=cluster(partition(profile([(NOW, 8)]), nodes=8)))
    submit(made)
    made.cluster = cluster(partition(profile([(NOW + 20, 8)]), nodes=8), taken_s=NOW + 20)
    assert submit(made, now_s=NOW + 20)[1].requested_nodes == 8


def test_a_view_that_was_just_taken_ends_the_promises_of_jobs_that_it_shows():
    made = advisor(look=cluster(partition(profile([(NOW, 8)]), nodes=8)))
    first, second = submit(made)[1], submit(made)[1]
    look = cluster(partition(profile([(NOW, 8)]), nodes=8), taken_s=NOW + 0.1)
    made.cluster = replace(look, shown=frozenset({first.decision_id}))
    assert submit(made)[1].requested_nodes == 8 - second.nodes


def test_a_view_from_before_the_job_does_not():
    made = advisor(look=cluster(partition(profile([(NOW, 8)]), nodes=8)))
    first = submit(made)[1]
    made.cluster = cluster(partition(profile([(NOW - 1, 8)]), nodes=8), taken_s=NOW - 1)
    assert submit(made)[1].requested_nodes == 8 - first.nodes


def test_what_one_user_books_takes_nothing_from_another():
    """`sbatch --test-only` looks like a job, and none comes: thirty of them of mallory's."""
    alone = submit(advisor())[1].nodes
    made = advisor()
    for number in range(30):
        mallory = job(user_name="mallory", user_id=1002, min_nodes=16, max_nodes=16, min_cpus=16)
        submit(made, mallory, now_s=NOW + 0.01 * number)
    assert made.bookings.view("mallory").partitions["batch"].profile.free_at(NOW + 1) == 0
    assert submit(made)[1].nodes == alone
    assert made.bookings.view("bob").partitions["batch"].profile.free_at(NOW + 1) == 32


def test_jobs_that_share_nodes_leave_the_rest_of_them_to_the_next():
    """Eight nodes of four CPUs: four jobs with a CPU of each fit, the fifth does not."""
    one = NodeGroup(cpus=4, mem_mib=1000, steps=((NOW, 4, 1000, ()),), empty_s=NOW)
    pool = NodePool(now_s=NOW, groups={one: tuple("abcdefgh")})
    made = advisor(look=cluster(partition(idle(8), nodes=8, pool=pool, mem_cpu_mib=0)))
    asked = job(min_nodes=8, max_nodes=8, min_cpus=8)
    rows = [submit(made, asked)[1] for _ in range(5)]
    assert [row.request_wait_s or row.wait_s for row in rows[:4]] == [0.0] * 4
    # It waits for the end of the first of them at most, not for their time limits.
    assert rows[4].wait_s is None
    assert rows[4].wait_most_s == pytest.approx((100 + 3600 / 8) * 1.1)
    whole = made.bookings.view("alice").partition("").fitting(NodeShare())
    assert [whole.profile.free_at(NOW + t) for t in (0, 606)] == [0, 8]


def test_users_views_do_not_mix_where_nodes_are_counted_one_by_one():
    one = NodeGroup(cpus=4, mem_mib=1000, steps=((NOW, 4, 1000, ()),), empty_s=NOW)
    groups = {one: tuple("abcdefgh")}
    pool = NodePool(now_s=NOW, groups=groups)
    made = advisor(look=cluster(partition(nodes=8, pool=pool)))
    small = {"min_nodes": 2, "max_nodes": 2, "min_cpus": 2}
    for _ in range(2):
        submit(made, job(**small))
        submit(made, job(user_name="bob", **small))
    for user, booked in (("alice", 4), ("bob", 4), ("eve", 0)):
        part = made.bookings.view(user).partitions["batch"]
        assert part.fitting(NodeShare()).profile.free_at(NOW) == 8 - booked
