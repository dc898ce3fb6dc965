"""Deadlines by wait and run together, and what would make them."""

import dataclasses
from math import inf

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from predictor.table import at
from predictor.types import Verdict
from predictor.waits.error_record import ENOUGH
from predictor.waits.estimate import WaitEstimate, WaitGrid
from slurm_plugin.config.setting_types import OnMissed, TimeUse
from slurm_plugin.config.settings import Config, Deadline, Policy
from slurm_plugin.decision import policy
from slurm_plugin.decision.advice import advice_of
from slurm_plugin.decision.allowed_counts import PolicySettings
from slurm_plugin.decision.levers import deadline
from slurm_plugin.decision.node_options import DeadlineVerdict
from slurm_plugin.decision.policy import Action, decide
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.submitted_job import submitted
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.outlook import NodeUnits, PartitionOutlook
from tests.slurm_plugin.decision.choosing import tailed
from tests.slurm_plugin.made import NOW, amdahl, job, partition, table, thrifty

SIZES = tuple(range(1, 33))
#: T(n) = 100 + 3600/n: 550 s on 8 nodes.
TABLE = table(spread=1.05)


def outlook(wait_of, *, recorded=ENOUGH, name="batch"):
    """Waits by nodes and limit: ``wait_of(nodes, limit_s)`` gives equally likely ones."""
    limits = (900.0, inf)
    cells = tuple(
        tuple(WaitEstimate(tuple(wait_of(n, limit)), recorded) for limit in limits) for n in SIZES
    )
    grid = WaitGrid(SIZES, limits, tuple(tuple(e.waits_s for e in row) for row in cells))
    return PartitionOutlook(
        partition=name,
        made_s=NOW,
        units=NodeUnits(nodes=32, units=32),
        waiting=3,
        grid=grid,
        estimates=cells,
    )


def part(wait_of, name="batch", **fields):
    made = outlook(wait_of, name=name, **fields)
    return partition(outlook=made, name=name)


def request(left_s, nodes=8, **fields):
    given = {"low": nodes, "high": nodes, "limit_s": 3600.0, "asked_limit_s": 3600.0}
    return Request(**submitted(job()) | given | fields, deadline_s=NOW + left_s)


def judged_by(asked, where, learned=None):
    """Give what a request is decided on by, in a partition."""
    return Situation(asked, learned or TABLE, where.supply, rules(), NOW)


def rules(**fields):
    return PolicySettings.of(thrifty(deadline=Deadline(missed=OnMissed.REFUSE, **fields)))


def judged(asked, where, made=None):
    return decide(Situation(asked, TABLE, where.supply, made or rules(), NOW))


SELDOM = [0.0] * 37 + [5_000.0] * 3  # 7.5 % wait long


def test_the_confidence_that_the_site_wants_decides():
    asked, where = request(4_500.0), part(lambda *_: SELDOM)
    unsure = judged(asked, where)
    assert unsure.reason is Reason.DEADLINE_UNSURE
    assert unsure.chosen.chance == pytest.approx(0.925)
    sure = judged(asked, where, rules(confidence=0.9))
    assert sure.chosen.deadline is DeadlineVerdict.MADE
    assert sure.deadline_met is True


def test_the_limit_has_to_end_by_the_deadline_whenever_the_job_starts():
    # Runs take 550 s, but Slurm starts no job whose hour reaches beyond the deadline.
    waits = [0.0] * 20 + [1_000.0] * 20
    assert judged(request(4_000.0), part(lambda *_: waits)).chosen.chance == pytest.approx(0.5)
    short = request(4_000.0, limit_s=900.0, asked_limit_s=900.0)
    assert judged(short, part(lambda *_: waits)).chosen.deadline is DeadlineVerdict.MADE


def test_run_times_that_vary_count_with_the_wait():
    vary = table(spread=2.0)
    one = decide(judged_by(request(900.0), part(lambda *_: [300.0] * 40), vary))
    # In 600 s: log(600/550) is 0.2 standard deviations above the median.
    assert one.chosen.chance is not None
    assert one.reason is Reason.DEADLINE_MISSED
    within = decide(
        judged_by(request(1_500.0, limit_s=1_100.0), part(lambda *_: [300.0] * 40), vary)
    )
    assert within.chosen.chance == pytest.approx(0.97, abs=0.02)


def test_a_job_without_a_chance_is_refused_where_the_record_says_so():
    late = [9_000.0] * 40
    assert judged(request(4_500.0), part(lambda *_: late)).action is Action.REFUSE
    few = judged(request(4_500.0), part(lambda *_: late, recorded=ENOUGH - 1))
    assert few.action is not Action.REFUSE
    some = judged(request(4_500.0), part(lambda *_: [0.0] * 3 + [9_000.0] * 37))
    assert some.action is not Action.REFUSE


def test_messages_say_what_would_make_it():
    def wait_of(nodes, limit_s):
        return [5_000.0] * 40 if nodes > 4 and limit_s > 900 else [0.0] * 40

    asked, where = request(4_500.0), part(wait_of)
    decided = judged(asked, where)
    others = [
        part(lambda *_: [10.0] * 40, name="short").supply,
        part(lambda *_: SELDOM, name="long").supply,
    ]
    reported = policy.remedies(judged_by(asked, where), others, decided)
    advised, elsewhere, later = reported
    assert advised == "--time=00:12:00 (99 %)"
    assert elsewhere == "--partition=short (99 %)"
    assert later.startswith("--deadline=") and later.endswith("(95 %)")
    text = deadline.text_of(replace(decided, remedies=reported), asked, now_s=NOW)
    assert "with a chance of 0 %" in text
    assert "Would make it: --time=00:12:00" in text and " or --deadline=" in text


@pytest.mark.parametrize(("low", "high"), [(8, 8), (1, 8)])
def test_what_would_make_it_is_what_advice_says(low, high):
    asked, where = request(2_000.0, low=low, high=high), part(lambda *_: [0.0] * 40)
    decided = judged(asked, where)
    assert decided.reason is Reason.DEADLINE_LIMIT
    reported = policy.remedies(judged_by(asked, where), [], decided)
    case = Situation(asked, TABLE, where.supply, rules(), NOW, partition=where)
    advice = advice_of(case)
    time = advice.time_directive.removeprefix("#SBATCH ")
    assert time and time in reported[0]
    assert (f"--nodes={advice.nodes} " in reported[0]) == (advice.nodes not in (None, 8))
    told = deadline.text_of(replace(decided, remedies=reported), asked, now_s=NOW)
    assert told.count("--time=") == 1


def test_where_counts_have_no_prediction_a_later_deadline_is_left():
    asked, where = request(4_500.0), part(lambda *_: SELDOM)
    unknown = dataclasses.replace(TABLE, verdicts=(Verdict.REFUSED,) * len(TABLE.nodes))
    (later,) = policy.remedies(judged_by(asked, where, unknown), [], judged(asked, where))
    assert later.startswith("--deadline=")


def test_nothing_is_proposed_that_is_no_surer():
    asked, where = request(4_500.0), part(lambda *_: [5_000.0] * 40)
    others = [part(lambda *_: [6_000.0] * 40, name="long").supply]
    reported = policy.remedies(judged_by(asked, where), others, judged(asked, where))
    (later,) = reported
    assert later.startswith("--deadline=")


def test_waits_by_limits_alone_propose_nothing():
    asked = request(3_700.0)
    decided = judged(asked, partition())
    assert policy.remedies(judged_by(asked, partition()), [], decided) == ()


def test_the_policy_takes_the_same_waits():
    def wait_of(nodes, _):
        return [3_000.0] * 40 if nodes > 8 else [0.0] * 40

    asked = Request(low=1, high=32, limit_s=7_200.0, asked_limit_s=7_200.0)
    free = decide(judged_by(asked, partition()))
    crowded = decide(judged_by(asked, part(wait_of)))
    assert crowded.chosen.nodes <= 8 < 32
    assert {o.nodes: o.wait_s for o in crowded.options}[16] == 3_000.0
    assert {o.wait_s for o in free.options} == {0.0}


@pytest.mark.parametrize(("recorded", "nodes"), [(ENOUGH, 8), (ENOUGH - 1, 32)])
def test_a_wait_without_a_record_is_no_reason_for_fewer_nodes(recorded, nodes):
    where = part(lambda n, _: [3_000.0 if n > 8 else 0.0] * 40, recorded=recorded)
    asked = Request(low=1, high=32, limit_s=7_200.0, asked_limit_s=7_200.0)
    free = PolicySettings.of(Config(policy=Policy(price=0.0)))
    assert decide(Situation(asked, TABLE, where.supply, free, NOW)).chosen.nodes == nodes


def test_the_time_until_a_jobs_begin_is_no_wait_without_a_record():
    where = part(lambda *_: [0.0] * 40, recorded=0)
    asked = Request(low=1, high=32, limit_s=7_200.0, asked_limit_s=7_200.0)
    at_once = decide(judged_by(asked, where))
    later = decide(judged_by(replace(asked, begin_s=NOW + 3_600.0), where))
    assert later.chosen.nodes <= at_once.chosen.nodes < 32


def test_who_comes_behind_a_burst_waits_for_it_though_the_queue_was_idle():
    where = part(lambda *_: [0.0] * 40)
    assert where.supply.wait(8, 600.0, now_s=NOW, begin_s=NOW).median_s == 0.0
    for _ in range(where.nodes // 8):
        assert where.supply.wait(8, 600.0, now_s=NOW, begin_s=NOW).median_s == 0.0
        where = where.promise(8, NOW, NOW + 600.0)
    assert where.supply.wait(8, 600.0, now_s=NOW, begin_s=NOW).median_s == 600.0


def test_a_chance_of_just_the_confidence_is_enough():
    waits = [0.0] * 20 + [inf] * 20
    asked, where = request(90_000.0), part(lambda *_: waits)
    assert judged(asked, where, rules(confidence=0.5)).chosen.deadline is DeadlineVerdict.MADE
    above = judged(asked, where, rules(confidence=0.51)).chosen
    assert (above.deadline, above.chance) == (DeadlineVerdict.WAIT, 0.5)


def test_a_run_that_just_ends_by_the_deadline_is_held_up_by_its_limit_alone():
    def option(left_s, where):
        return judged(request(left_s), where).options[0]

    # T(8) is 550 s, 577.5 at most; the limit is an hour.
    forward = part(lambda *_: [0.0] * 40)
    assert option(577.0, forward).deadline is DeadlineVerdict.RUN
    limited = option(577.5, forward)
    assert (limited.deadline, limited.chance) == (DeadlineVerdict.LIMIT, 0.0)
    assert option(577.5, partition()).chance is None


def test_more_nodes_may_start_earlier_where_the_queue_was_run_forward():
    asked = Request(low=1, high=32, limit_s=7_200.0, asked_limit_s=7_200.0)
    where = part(lambda nodes, _: [0.0 if nodes > 8 else 3_000.0] * 40)
    options = decide(judged_by(asked, where, table(amdahl(500.0, 900.0)))).options
    assert {o.nodes > 8: o.wait_s for o in options} == {False: 3_000.0, True: 0.0}


def test_waits_count_from_the_begin_that_a_job_asks_for():
    asked = Request(low=1, high=32, limit_s=7_200.0, asked_limit_s=7_200.0, begin_s=NOW + 500)
    for where in (partition(), part(lambda *_: [0.0] * 40)):
        made = decide(judged_by(asked, where)).options
        assert {o.wait_s for o in made} == {500.0}
        past = decide(judged_by(replace(asked, begin_s=NOW - 500), where)).options
        assert {o.wait_s for o in past} == {0.0}


@pytest.mark.parametrize(("later_s", "verdict"), [
    (0.0, DeadlineVerdict.MADE),
    (-0.5, DeadlineVerdict.RUN),
])  # fmt: skip
def test_without_a_queue_run_forward_a_deadline_is_made_up_to_its_second(later_s, verdict):
    # T(8) is at most 577.5 s.
    asked = request(577.5 + later_s, limit_s=510.0, asked_limit_s=510.0)
    assert judged(asked, partition()).options[0].deadline is verdict


def closest(asked, wait_of):
    return judged(asked, part(wait_of), rules(confidence=0.9)).chosen


def verdicts(asked, wait_of):
    options = judged(asked, part(wait_of)).options
    return {o.nodes: (o.deadline, o.in_limit) for o in options}


@pytest.mark.parametrize(
    ("left_s", "limit_s", "raisable", "wait_s", "verdict"),
    [
        (600.0, 540.0, True, 0.0, (DeadlineVerdict.RUN, True)),
        (800.0, 590.0, False, 4_000.0, (DeadlineVerdict.WAIT, False)),
    ],
    ids=["one that may still make it", "not one whose limit is not allowed"],
)
def test_of_counts_that_miss_a_deadline_is_closest(left_s, limit_s, raisable, wait_s, verdict):
    limits = {"limit_s": limit_s, "asked_limit_s": limit_s, "limit_raisable": raisable}
    asked = request(left_s, low=7, **limits)

    def wait_of(nodes, _):
        return [5_000.0 if nodes == 8 else wait_s] * 40

    assert verdicts(asked, wait_of) == {7: verdict, 8: (DeadlineVerdict.WAIT, True)}
    assert closest(asked, wait_of).nodes == 8


def test_where_only_limits_are_too_long_the_request_is_closest():
    asked = request(600.0, low=8, high=9, asked=8)
    options = judged(asked, part(lambda *_: [0.0] * 40)).options
    assert {o.deadline for o in options} == {DeadlineVerdict.LIMIT}
    assert closest(asked, lambda *_: [0.0] * 40).nodes == 8


def rows_of(left_s, limit_s, nodes, where):
    asked = request(left_s, nodes, limit_s=limit_s, asked_limit_s=limit_s)
    asked = replace(asked, fixed=Reason.FIXED_COUNT, time_use=TimeUse.ADVISE)
    case = Situation(asked, tailed(), where.supply, rules(), NOW, partition=where)
    made = advice_of(case)
    return {row.nodes: row for row in made.rows}


# Of limits above 100 min a twentieth is more than the run needs, which holds the first advice up.
@pytest.mark.slow
@given(st.integers(600, 20_000), st.integers(5, 100), st.integers(1, 32), st.floats(0, 4_000))
@example(1030, 120, 4, 0.0)
@settings(max_examples=25)
def test_one_request_has_one_chance_whatever_count_or_limit_the_command_names(
    left_s, minutes, nodes, typical_s
):
    """Submitting the advised line gives the same chance, and no other time limit is advised."""

    def wait_of(size, limit_s):
        slow = typical_s * size / 32 * (2.0 if limit_s > 900 else 1.0)
        return [slow * i / 20 for i in range(40)]

    where, own_s = part(wait_of), 60.0 * minutes
    rows, others = (rows_of(left_s, own_s, n, where) for n in (nodes, 16))
    chances = {n: (row.chance, row.limit_s) for n, row in rows.items()}
    assert chances == {n: (row.chance, row.limit_s) for n, row in others.items()}
    # Slurm ends a job whose limit reaches beyond its deadline.
    late = [one for one in rows.values() if (one.limit_s or own_s) > left_s]
    assert not any(one.chance for one in late)
    row = rows[nodes]
    again = rows_of(left_s, row.limit_s or own_s, nodes, where)[nodes]
    assert (again.chance, again.limit_s) == (pytest.approx(row.chance), None)
    # No limit is named that lowers the chance.
    run = at(tailed(), nodes)
    kept = where.supply.wait(nodes, own_s, now_s=NOW, begin_s=NOW).chance(
        run, left_s, limit_s=own_s, most_s=own_s
    )
    assert row.chance >= kept - 0.01
