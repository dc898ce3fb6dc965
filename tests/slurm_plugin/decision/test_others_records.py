"""What others' records say makes a choice more careful, and never makes a job wait by it."""

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from predictor.waits.estimate import WaitEstimate
from sacct_ingest.text.admin_comment import parse
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.policy import Action, as_scheduled, decide
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.slurm.node_pool import profile
from tests.slurm_plugin.decision.choosing import RULES, choose, policy
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, amdahl, cluster, job, partition, table

HOUR, DAY = 3600.0, 86_400.0
#: Two nodes are free in six minutes, six more in a week; the records of who has them say minutes.
BY_LIMITS = profile([(NOW, 0), (NOW + 360, 2), (NOW + 7 * DAY, 6)])
BY_RECORDS = profile([(NOW, 0), (NOW + 200, 6), (NOW + 360, 2)])
RANGE = Request(low=1, high=8, limit_s=3000.0)
LEARNED = table(amdahl(54.0, 1746.0), nodes=range(1, 9), observed=(1, 2, 4, 8))


def full(by_records=BY_RECORDS, by_limits=BY_LIMITS, **fields):
    return partition(by_records, limit_profile=by_limits, nodes=8, **fields)


def start_by_limits(part, nodes, limit_s, begin_s=NOW):
    return part.by_limits.earliest_start(nodes, limit_s, from_s=begin_s)


def test_a_count_that_waits_for_nodes_that_others_keep_is_not_taken():
    """Slurm alone would start the job on two nodes, in six minutes."""
    decided = choose(RANGE, LEARNED, full())
    assert (decided.chosen.nodes, decided.request.nodes) == (2, 2)
    # Without the six nodes that are said to be free the decision is the same.
    assert choose(RANGE, LEARNED, full(BY_LIMITS, None)).chosen.nodes == 2


def test_a_deadline_is_no_reason_to_wait_for_what_records_promise():
    due = replace(RANGE, deadline_s=NOW + 1300.0)
    decided = choose(due, LEARNED, full())
    assert decided.chosen.nodes == 2
    free = choose(due, LEARNED, full(by_limits=None))  # that is what Slurm plans by, too
    assert free.chosen.nodes > 2


def test_more_nodes_that_end_sooner_by_limits_too_may_be_waited_for():
    """In ten minutes there are eight for sure, and two now: alone it would take hours."""
    steep = table(amdahl(0.0, 8 * HOUR), nodes=range(1, 9), observed=(1, 2, 4, 8))
    there = profile([(NOW, 2), (NOW + 600, 6)])
    free = policy(growth_share=1.0, price=0.01, guard_ratio=100.0)
    asked = replace(RANGE, limit_s=9 * HOUR)
    assert choose(asked, steep, full(there, there), by=free).chosen.nodes == 8


def test_a_job_that_gets_its_range_back_may_wait_for_what_is_predicted():
    roomy = policy(growth_share=1.0)
    chosen = [
        choose(replace(RANGE, reopens=opens), LEARNED, full(), by=roomy).chosen.nodes
        for opens in (False, True)
    ]
    assert chosen[0] == 2 < chosen[1]


def test_room_for_others_is_what_limits_leave():
    """Nodes that others are said to leave soon are no room to grow into."""
    by_limits, by_records = profile([(NOW, 5)]), profile([(NOW, 5), (NOW + 1, 27)])
    steep = table(amdahl(0.0, 36000.0))
    request = Request(low=1, high=32, asked=1, limit_s=20 * HOUR)
    grown = [
        choose(request, steep, partition(by_records, limit_profile=one)).chosen.nodes
        for one in (by_limits, None)
    ]
    assert grown[0] == choose(request, steep, partition(by_limits)).chosen.nodes
    assert grown[0] <= grown[1]


class Said:
    """An outlook that says any wait of any count, as records of others may make it do."""

    def __init__(self, waits):
        self.waits = waits

    def for_share(self, *_):
        return self

    def wait(self, nodes, _):
        return WaitEstimate((self.waits[nodes % len(self.waits)],), recorded=99)

    def arriving(self, *_):
        return 0.0


moments = st.floats(1.0, 40_000.0)
changes = st.lists(st.tuples(moments, st.integers(1, 5)), max_size=5)


@st.composite
def scenes(draw):
    """A cluster by limits, and by what others' records say of when its nodes are free."""
    now = draw(st.integers(0, 8))
    held = [(NOW + after, n) for after, n in draw(changes)]
    said = [(NOW + draw(st.floats(0.0, time_s - NOW)), n) for time_s, n in held]
    outlook = draw(st.none() | st.builds(Said, st.lists(st.just(0.0) | moments, min_size=1)))
    total = now + sum(n for _, n in held)
    return partition(
        profile([(NOW, now), *said]),
        limit_profile=profile([(NOW, now), *held]),
        nodes=max(total, 1),
        outlook=outlook,
        queue=draw(st.integers(0, 300)),
        queue_mean=float(draw(st.integers(0, 300))),
    )


requests = st.builds(
    Request,
    low=st.integers(1, 6),
    high=st.integers(1, 16),
    asked=st.none() | st.integers(1, 16),
    limit_s=st.sampled_from((600.0, 4000.0, 9000.0)),
    deadline_s=st.none() | st.integers(int(NOW) + 60, int(NOW) + 30_000),
    begin_s=st.sampled_from((-inf, NOW + 900.0)),
    explore=st.booleans(),
)
curves = st.builds(amdahl, st.floats(1.0, 500.0), st.floats(0.0, 7000.0))


@settings(max_examples=1500)
@given(requests, curves, scenes(), st.sampled_from((RULES, policy(price=0.1, growth_share=1.0))))
def test_by_limits_alone_no_choice_starts_and_ends_later_than_the_request(asked, curve, part, by):
    low, high = min(asked.low, asked.high), max(asked.low, asked.high)
    asked = replace(asked, low=low, high=high)
    if asked.asked is not None:
        asked = replace(asked, asked=min(max(asked.asked, low), high))
    learned = table(curve, nodes=range(1, 17), observed=(1, 2, 4, 8, 16))
    decided = decide(Situation(asked, learned, part.supply, by, NOW))
    if decided.action is not Action.SET:
        return
    chosen, begin_s = decided.chosen, max(NOW, asked.begin_s)
    own = as_scheduled(asked, part.supply, now_s=NOW)
    assert decided.request.nodes == own
    alone_s = start_by_limits(part, asked.asked or asked.low, asked.limit_s, begin_s)
    start_s = start_by_limits(part, chosen.nodes, chosen.limit_s, begin_s)
    ends_no_later = start_s + chosen.time_s <= alone_s + decided.request.time_s
    assert start_s <= alone_s or ends_no_later


@pytest.mark.parametrize("wait_s", [0.0, 10.0, 5000.0])
def test_what_an_outlook_says_of_waits_is_no_reason_either(wait_s):
    decided = choose(RANGE, LEARNED, full(BY_LIMITS, None, outlook=Said([wait_s])))
    assert decided.chosen.nodes == 2


def noted(part=None, *, reopens=False, **fields):
    """Give the note of a job of two hours, and the count that it got."""
    look = replace(cluster(part or partition(nodes=8)), reopens=reopens)
    asked = job(**{"max_nodes": 8, "time_limit": 50} | fields)
    answer, _ = submit(advisor(look=look, tables=[LEARNED]), asked)
    return parse(answer.admin_comment), answer.set and answer.set.min_nodes


def test_a_note_says_when_a_pinned_job_is_to_start_and_the_latest_that_its_guard_allows():
    note, nodes = noted(full())
    assert nodes == 2
    assert note.planned_s == NOW + 200
    # A quarter of the request's run and a minute more, and no less than by limits.
    assert note.latest_s == pytest.approx(NOW + 200 + 0.25 * LEARNED.median_s[1] + 60, abs=1)
    late = profile([(NOW, 0), (NOW + DAY, 2)])
    assert noted(full(by_limits=late))[0].latest_s == NOW + DAY
    note, _ = noted()
    assert (note.planned_s, note.opened_s) == (NOW, None)


def test_a_wait_that_is_only_predicted_has_no_latest_start_by_slurms_plan():
    look = replace(cluster(full()), reopens=True)
    roomy = Config(mode=Mode.ENFORCE, policy=policy(growth_share=1.0).policy)
    asked = job(max_nodes=8, time_limit=50)
    answer, _ = submit(advisor(roomy, look=look, tables=[LEARNED]), asked)
    note = parse(answer.admin_comment)
    assert answer.set.min_nodes > 2
    assert (note.planned_s, note.latest_s) == (NOW + 200, None)
    without, _ = submit(advisor(roomy, look=cluster(full()), tables=[LEARNED]), asked)
    assert without.set.min_nodes == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"num_tasks": 4, "ntasks_per_node": 1, "min_nodes": 4, "comment": "nimo:nodes=1-8"},
        {"ntasks_per_node": 2},
        {"min_nodes": 4, "max_nodes": 4},
    ],
)
def test_jobs_whose_tasks_follow_from_their_count_have_no_range_to_get_back(fields):
    note, _ = noted(reopens=True, **fields)
    assert note is None or note.planned_s is None
