"""Which decision is about a job that is not in the accounting yet: never that of another job."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.records import ShownJob
from sacct_ingest.store.shown_job import alike, decision_of
from tests.sacct_ingest.records import SUBMIT_S, decision

MINUTE_S = 60
PARTITION_LIMIT_S = 60 * MINUTE_S
CLUSTER = 8  #: nodes


@st.composite
def submissions(draw, number):
    """Draw a job as scontrol shows it, and the decision that nimod made about it."""
    low = draw(st.sampled_from([None, 1, 2, 4]))
    high = None if low is None else draw(st.sampled_from([low, min(2 * low, CLUSTER), CLUSTER]))
    limit_s = draw(st.sampled_from([None, 10 * MINUTE_S, PARTITION_LIMIT_S]))
    least_s = draw(st.sampled_from([None, 5 * MINUTE_S])) if limit_s else None
    deadline_s = draw(st.sampled_from([None, SUBMIT_S + 7200.0, SUBMIT_S + 9000.0]))
    line, partition = draw(st.sampled_from(["a1", "b2"])), draw(st.sampled_from(["batch", "big"]))
    chosen = draw(st.integers(low or 1, high or CLUSTER))
    asks_more = draw(st.booleans())
    given_s = draw(st.sampled_from([None, 20 * MINUTE_S])) if least_s is None else None
    applied = draw(st.booleans())
    about = decision(
        decision_id=f"{number:012x}",
        at_s=SUBMIT_S + draw(st.floats(-1, 0.9)),
        partition=partition,
        line=line,
        min_nodes=low,
        max_nodes=high,
        requested_nodes=high,
        limit_s=least_s or limit_s or PARTITION_LIMIT_S,
        deadline_s=draw(st.sampled_from([deadline_s, None])),
        action="set" if asks_more else "keep",
        nodes=chosen,
        given_limit_s=given_s if applied else None,
        applied=applied,
    )
    # The answer may come too late, or nimod be in a mode that changes nothing.
    came = applied and draw(st.booleans())
    tasks = draw(st.sampled_from([1, 2, 4, 8]))
    if came and asks_more:
        lowest = highest = chosen
    else:
        lowest, highest = draw(st.integers(low or 1, high or CLUSTER)), high
        if high is None:
            tasks = max(tasks, lowest)
            highest = draw(st.sampled_from([None, tasks]))
    started = draw(st.booleans())
    if started:
        highest = lowest
    shown_limit_s = limit_s or PARTITION_LIMIT_S
    if came and given_s:
        shown_limit_s = given_s
    if started and least_s and draw(st.booleans()):
        shown_limit_s = least_s
    shown = ShownJob(
        user="ada",
        name="wrf",
        work_dir="/home/ada",
        submit_s=SUBMIT_S,
        low_nodes=lowest,
        high_nodes=highest,
        started=started,
        tasks=tasks,
        limit_s=shown_limit_s,
        least_limit_s=least_s,
        deadline_s=None if deadline_s is None else deadline_s - draw(st.sampled_from([0, 1])),
        partitions=(partition,),
        line=draw(st.sampled_from([line, ""])),
    )
    return about, shown, came


@given(submissions(1))
def test_a_jobs_own_decision_is_never_ruled_out(submission):
    about, shown, came = submission
    found = decision_of(about, shown)
    assert found is not None
    assert found.decision_id == about.decision_id
    if came:
        assert found.applied
    if found.applied and found.action == "set":
        assert shown.low_nodes == shown.high_nodes == found.nodes


@given(submissions(1), submissions(2))
def test_a_decision_that_fits_says_nothing_that_scontrol_denies(one, two):
    """So that a job is never told of nodes, a limit or a deadline that it has not."""
    found = decision_of(one[0], two[1])
    if found is None:
        return
    shown = two[1]
    if found.deadline_s is not None:
        assert abs(found.deadline_s - shown.deadline_s) <= 2
    if found.applied and found.action == "set":
        assert shown.low_nodes == shown.high_nodes == found.nodes
    else:
        assert shown.low_nodes >= (found.min_nodes or 1)
        assert found.max_nodes is None or shown.low_nodes <= found.max_nodes
    limits_s = {shown.limit_s, shown.least_limit_s}
    assert limits_s & {found.limit_s, found.given_limit_s}
    assert shown.line in ("", found.line)


FIXED = ShownJob(
    user="ada", name="wrf", work_dir="/home/ada", submit_s=SUBMIT_S, low_nodes=8, high_nodes=8
)


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"min_nodes": 5, "max_nodes": 5}, False),
        ({"min_nodes": 4}, True),  # its tasks may need more than the fewest
        ({"max_nodes": 16}, False),
        ({"limit_s": 600}, True),
        ({"limit_s": 1200}, False),
        ({"limit_s": None}, True),  # the partition's default, which nimod did not see
        ({"deadline_s": SUBMIT_S + 600.0}, False),
        ({"line": "other"}, False),
        ({"line": ""}, True),
        ({"partition": "big"}, False),
        ({"partition": "big,batch"}, True),
        ({"action": "set", "nodes": 5, "applied": True}, True),  # too late: it has what it asked
    ],
)
def test_what_tells_two_jobs_apart(changes, fits):
    job = replace(FIXED, limit_s=600, partitions=("batch",), line="ab12")
    asked = decision(min_nodes=8, max_nodes=8, limit_s=600, line="ab12", partition="batch")
    found = decision_of(replace(asked, **changes), job)
    assert (found is not None) == fits
    if found is not None:
        assert not found.applied
        assert alike(found) == alike(replace(found, decision_id="x", at_s=1.0))


@pytest.mark.parametrize(("nodes", "fits"), [(1, False), (2, True), (4, True), (5, False)])
def test_a_job_that_runs_has_a_count_of_its_range(nodes, fits):
    job = replace(FIXED, low_nodes=nodes, high_nodes=nodes, started=True, limit_s=600)
    asked = decision(min_nodes=2, max_nodes=4, limit_s=600)
    assert (decision_of(asked, job) is not None) == fits


@pytest.mark.parametrize(("least_s", "fits"), [(480, True), (None, False), (240, False)])
def test_a_limit_that_was_given_with_a_least_one_may_have_been_shortened(least_s, fits):
    job = replace(FIXED, limit_s=540, least_limit_s=least_s)
    limits = {"limit_s": 3600, "given_limit_s": 600, "given_min_s": 480}
    given = decision(min_nodes=8, max_nodes=8, action="keep", applied=True, **limits)
    assert (decision_of(given, job) is not None) == fits
