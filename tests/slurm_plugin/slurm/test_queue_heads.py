"""Limits to plan with rest where they put off the first job of a queue, and only there."""

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_plugin.slurm.cluster_state import RawJob
from slurm_plugin.slurm.queue_heads import QueueHeads
from tests.slurm_plugin.slurm.test_soft_limits import NOTE, running


def head(start_s, job_id=1, **fields):
    """First of the queue, of bob, for which n1 is planned."""
    values = {"state": "PENDING", "partitions": ("batch",), "priority": 9, "reason": "Resources"}
    values |= {"user": "bob", "planned_names": ("n1",), "limit_s": 9.0}
    return RawJob(**values | {"job_id": job_id, "start_s": start_s} | fields)


def planned_short(begin_s=700.0, **fields):
    """Job of ada's on n1 that is planned with five minutes of its hour."""
    values = {"node_names": ("n1",), "start_s": begin_s, "end_s": begin_s + 3600.0}
    return running(8, **values | fields)


@pytest.mark.parametrize(
    ("later", "other", "rests"),
    [
        (head(2650.0), {}, True),
        (head(1009.0), {}, False),  # by its run time, and no more
        (head(2650.0), {"user": "bob"}, False),  # its own user's
        (head(2650.0), {"node_names": ("n2",)}, False),  # no node of it was planned for the head
        (head(2650.0), {"begin_s": 701.0}, False),  # has not outlasted its plan
        (head(2650.0), {"end_s": 1017.0}, False),  # ends soon: something else puts the head off
        (head(2650.0, nodes=8), {}, False),  # its user asks for more now
        (head(2650.0, features="gpu"), {}, False),
        (head(inf), {}, False),
        (head(2650.0, job_id=2), {}, False),
        (head(2650.0, reason="Dependency"), {}, False),
        (head(2650.0), {"note": ""}, False),  # nothing there is planned softly
    ],
)
def test_a_partition_rests_for_a_day_where_the_first_of_its_queue_is_put_off(later, other, rests):
    heads, behind = QueueHeads(), head(50.0, job_id=7, priority=8)
    short = planned_short(**other)
    assert heads.look([behind, head(1000.0), short], 900.0) == frozenset()
    resting = frozenset({"batch"} if rests else ())
    assert heads.look([later, head(9000.0, job_id=9, priority=1), short], 1001.0) == resting
    assert heads.look([], 87_400.0) == resting
    assert heads.look([], 87_401.0) == frozenset()


def test_a_head_that_was_predicted_is_put_off_by_more_than_its_run_time():
    predicted = {"admin_comment": NOTE, "limit_s": 9e9}
    for later_s, rests in ((1009.0, frozenset()), (1010.0, frozenset({"batch"}))):
        heads = QueueHeads()
        heads.look([head(1000.0, **predicted), planned_short()], 900.0)
        assert heads.look([head(later_s, **predicted), planned_short()], 1001.0) == rests


#: What a user can make of an own job: everything, and Slurm plans it anywhere.
MALLORYS = st.builds(
    head,
    st.sampled_from([10.0, 2000.0, 9e9, inf]),
    job_id=st.integers(1, 2),
    user=st.just("mallory"),
    nodes=st.sampled_from([1, 8]),
    priority=st.sampled_from([9, 99]),
    reason=st.sampled_from(["Resources", "JobHeldUser"]),
    state=st.sampled_from(["PENDING", "PENDING", "RUNNING"]),
    planned_names=st.sampled_from([(), ("n1",)]),
    node_names=st.sampled_from([(), ("n1",)]),
    admin_comment=st.sampled_from(["", NOTE]),
)


@given(st.lists(st.lists(MALLORYS, max_size=4), max_size=8), st.booleans())
@settings(max_examples=500, deadline=None)
def test_no_user_switches_plans_off_for_others(looks, waits):
    heads, now_s = QueueHeads(), 0.0
    for jobs in looks:
        now_s += 20.0
        # The jobs of others keep to their plans; one of them waits first in line.
        honest = [planned_short(begin_s=now_s - 299.0)] + [head(2000.0, 6, priority=98)] * waits
        assert heads.look([*jobs, *honest], now_s) == frozenset()
