"""The policy's borders, deadlines and time limits: what holds up to a value holds at it."""

import re
from math import ceil, inf
from pathlib import Path

import pytest
from msgspec.structs import fields, replace

from predictor.types import Verdict
from slurm_plugin.config.setting_types import OnMissed, TimeUse
from slurm_plugin.config.settings import Band, Deadline, Policy, TimeLimit
from slurm_plugin.decision.node_options import DeadlineVerdict, Option
from slurm_plugin.decision.policy import Action, as_scheduled, every_option, limits_to_ask
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.time_limits import TimeLimits
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.node_pool import profile
from tests.predictor.tables.test_build import history_of, table_of
from tests.slurm_plugin.decision.choosing import REQUEST, RULES, choose, due, policy, tailed, timed
from tests.slurm_plugin.made import NOW, amdahl, idle, partition, rules, table, thrifty

SUPPLY = partition().supply
STRICT = rules(thrifty(deadline=Deadline(missed=OnMissed.REFUSE)))


#: All runs took as long: what is decided is arithmetic.
CERTAIN = table(spread=1.0)


# What Slurm would give


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"asked": 4}, 4),
        ({"asked": 32}, 32),
        ({"asked": 33}, None),
        ({"low": 32, "high": 32}, 32),
        ({"low": 33, "high": 40}, None),
        ({"low": 8, "high": 64}, 32),
        ({"low": 1, "high": 15, "segment": 4}, 12),
        ({"low": 2, "high": 3, "segment": 4}, 2),
    ],
)
def test_the_count_that_slurm_would_give(fields, expected):
    assert as_scheduled(replace(REQUEST, **fields), SUPPLY, now_s=NOW) == expected


def test_the_count_is_that_of_the_first_moment_with_enough_nodes_for_the_whole_run():
    # Six are free now, of which two are taken after an hour, and twelve after two.
    free = profile([(NOW, 6), (NOW + 3600, -2), (NOW + 7200, 8)])

    def given(**fields):
        return as_scheduled(replace(REQUEST, **fields), partition(free).supply, now_s=NOW)

    assert given(low=1, limit_s=3600.0) == 6
    assert given(low=1, limit_s=3601.0) == 4
    assert given(low=5, limit_s=3601.0) == 12
    assert given(low=1, limit_s=600.0, begin_s=NOW + 4000) == 4
    assert given(low=1, limit_s=600.0, begin_s=NOW - 4000) == 6
    # Without a limit it is the partition's, or none at all.
    assert given(low=1, limit_s=None) == 4
    longest = partition(free, max_time_s=3000.0)
    assert as_scheduled(replace(REQUEST, limit_s=None), longest.supply, now_s=NOW) == 6
    # Never free: what the range allows.
    assert given(low=13, high=16, limit_s=60.0) == 16


# The price


def test_the_price_of_those_who_wait():
    # q = 8·(3 + 4/2 + 2) over 32 nodes, for 16·325 s; nothing waits for free nodes.
    (option,) = choose(
        replace(REQUEST, low=16), part=partition(queue=3, queue_mean=4.0), by=policy(price=8.0)
    ).options
    assert option.cost_s == pytest.approx(325 + 8 * 7 / 32 * 16 * 325)


def test_the_guard_holds_at_its_border():
    # 325 s on 16 nodes; 400 s on 12.
    def guarded(most_s):
        by = policy(guard_ratio=1.0, guard_s=most_s)
        decided = choose(learned=CERTAIN, part=partition(queue=10_000), by=by)
        return {option.nodes for option in decided.options if option.in_guard}

    assert 12 in guarded(75.0)
    assert 12 not in guarded(74.9)
    by = policy(guard_ratio=400 / 325, guard_s=0.0)
    decided = choose(learned=CERTAIN, part=partition(queue=10_000), by=by)
    assert decided.chosen.nodes == 12


def test_the_guard_counts_on_as_much_of_the_requests_wait_as_it_is_set_to():
    # 550 s on 8 nodes, which are free; 325 s on 16, which are in 1,000 s.
    free = profile([(NOW, 8), (NOW + 1000, 8)])

    def guarded(share):
        by = policy(guard_ratio=1.0, guard_s=0.0, guard_wait=share)
        decided = choose(replace(REQUEST, asked=16), CERTAIN, partition(free), by)
        return {option.nodes for option in decided.options if option.in_guard}

    assert {8, 16} <= guarded(1.0)
    assert 8 in guarded(0.226)
    assert 8 not in guarded(0.224)
    # The request itself is always inside.
    assert guarded(0.0) == {16}


def test_of_equal_costs_the_fewest_nodes_are_taken():
    flat = table(lambda n: 600.0)
    decided = choose(learned=flat, by=policy(price=0.0))
    assert len({option.cost_s for option in decided.options}) == 1
    assert decided.chosen.nodes == min(option.nodes for option in decided.options)


# Limits and deadlines


def test_a_default_limit_has_to_hold_the_run_with_its_margin():
    # On 8 nodes at most 605 s, 726 with the margin of 1.2.
    def allowed(limit_s):
        request = replace(REQUEST, low=8, limit_s=limit_s, limit_raisable=False)
        return {one.nodes: one.in_limit for one in choose(request).options}

    assert allowed(726.1)[8] is True
    assert allowed(table().high_s[7] * 1.2)[8] is True
    assert allowed(725.9)[8] is False
    assert allowed(725.9)[16] is True


def test_a_limit_may_be_as_long_as_the_partitions():
    request = replace(REQUEST, low=8, limit_s=600.0)
    by_nodes = {one.nodes: one for one in choose(request).options}
    needed = by_nodes[8].limit_s
    for most_s, expected in ((needed, True), (needed - 1, False)):
        result = {
            one.nodes: one for one in choose(request, part=partition(max_time_s=most_s)).options
        }
        assert result[8].in_limit is expected


def deadline(left_s, limit_s=None, by=RULES, **fields):
    """Decide for exactly 16 nodes: 325 s, at most 357.5 s."""
    request = Request(low=16, high=16, limit_s=limit_s, deadline_s=NOW + left_s, **fields)
    return choose(request, by=by)


HIGH_S = (100 + 3600 / 16) * 1.1


def test_a_run_that_ends_with_its_deadline_makes_it():
    assert deadline(HIGH_S + 1e-3).chosen.deadline is DeadlineVerdict.MADE
    assert deadline(HIGH_S - 1e-3).chosen.deadline is DeadlineVerdict.RUN
    assert deadline(HIGH_S + 1e-3).chosen.late_s == pytest.approx(0, abs=2e-3)


def test_a_limit_that_leaves_a_minute_for_the_start_is_short_enough():
    assert deadline(660.0, 600.0).chosen.deadline is DeadlineVerdict.MADE
    # Slurm starts it until 59 s from now, and may take a minute.
    tight = deadline(660.0, 601.0).chosen
    assert (tight.deadline, tight.chance) == (DeadlineVerdict.WAIT, None)
    assert deadline(660.0, 660.0).chosen.deadline is DeadlineVerdict.WAIT
    assert deadline(660.0, 661.0).chosen.deadline is DeadlineVerdict.LIMIT


def test_a_limit_that_a_wait_moves_beyond_the_deadline_depends_on_the_wait():
    later = partition(profile([(NOW, 0), (NOW + 100, 32)]))
    request = Request(low=16, high=16, limit_s=600.0, deadline_s=NOW + 690)
    assert choose(request, part=later).chosen.deadline is DeadlineVerdict.WAIT
    assert choose(replace(request, deadline_s=NOW + 700), part=later).deadline_met is True


def test_the_time_before_the_begin_is_lost():
    late = deadline(600.0, begin_s=NOW + 300)
    assert late.chosen.deadline is DeadlineVerdict.RUN
    assert deadline(900.0, begin_s=NOW + 300).chosen.deadline is not DeadlineVerdict.RUN


@pytest.mark.parametrize(("left_s", "refused"), [(295.0, True), (296.0, False)])
def test_a_site_refuses_what_takes_too_long_at_best(left_s, refused):
    # At best 325/1.1 = 295.5 s.
    assert (deadline(left_s, by=STRICT).action is Action.REFUSE) is refused
    assert deadline(left_s).action is not Action.REFUSE
    later = deadline(left_s + 300, by=STRICT, begin_s=NOW + 300)
    assert (later.action is Action.REFUSE) is refused


def test_without_a_deadline_nothing_is_judged():
    decided = choose(by=STRICT)
    assert decided.deadline_met is None
    assert {option.deadline for option in decided.options} == {None}
    assert {option.late_s for option in decided.options} == {-inf}


# The options of all node counts


def test_every_count_of_the_partition_is_reported():
    learned = table(nodes=[1, 2, 4, 8, 16, 32], observed=(1, 2, 4, 8, 16))
    for nodes, expected in ((32, [1, 2, 4, 8, 16, 32]), (16, [1, 2, 4, 8, 16])):
        part = partition(idle(nodes), nodes=nodes, max_nodes=nodes)
        decided = choose(learned=learned, part=part)
        reported = every_option(Situation(REQUEST, learned, part.supply, rules(), NOW), decided)
        assert [option.nodes for option in reported if option.nodes in learned.nodes] == expected


def test_where_nothing_can_be_said_the_decision_is_what_there_is():
    refused = table(verdict=Verdict.REFUSED)
    decided = choose(learned=refused)
    assert (decided.action, decided.options, decided.chosen) == (Action.KEEP, (), None)
    assert every_option(Situation(REQUEST, refused, SUPPLY, rules(), NOW), decided) == []


def test_a_request_outside_the_table_is_compared_with_the_nearest_count():
    learned = table(nodes=[4, 8, 16], observed=(4, 8, 16))
    request = replace(REQUEST, low=1, high=2)
    decided = choose(request, learned=learned)
    reported = every_option(Situation(request, learned, SUPPLY, rules(), NOW), decided)
    assert [option.nodes for option in reported] == [4, 8, 16]
    between = replace(REQUEST, low=6, high=6)
    decided = choose(between, learned=learned)
    reported = every_option(Situation(between, learned, SUPPLY, rules(), NOW), decided)
    assert [option.nodes for option in reported] == [4, 6, 8, 16]


def test_beyond_the_table_the_nearest_count_is_the_largest():
    learned = table(nodes=[4, 8, 16], observed=(4, 8, 16))
    request = replace(REQUEST, low=20, high=24, limit_s=400.0, limit_raisable=False)
    decided = choose(request, learned=learned)
    reported = every_option(Situation(request, learned, SUPPLY, rules(), NOW), decided)
    # The limit that holds on 16 nodes does not on 4.
    assert {option.nodes: option.in_limit for option in reported} == {4: False, 8: False, 16: True}


# The limit to ask for


def option(**fields):
    (one,) = choose(replace(REQUEST, low=16)).options
    return replace(one, **{"limits": None, **fields})


def test_the_limit_to_ask_for():
    late = {"deadline": DeadlineVerdict.LIMIT, "fitting_limit_s": 480.0}
    own = TimeLimits(900.0)
    assert limits_to_ask(option(**late, limits=own), REQUEST) == TimeLimits(480.0)
    wait = late | {"deadline": DeadlineVerdict.WAIT}
    assert limits_to_ask(option(**wait), REQUEST) == TimeLimits(480.0)
    none = late | {"fitting_limit_s": None}
    assert limits_to_ask(option(**none, limits=own), REQUEST) == own


@pytest.mark.parametrize(
    ("limit_s", "asked_s", "expected"),
    [
        (7201.0, None, TimeLimits(7201.0)),
        (7200.0, None, None),
        (8000.0, 9000.0, None),
        (9001.0, 9000.0, TimeLimits(9001.0)),
        (None, None, None),
    ],
)
def test_only_a_longer_limit_is_asked_for(limit_s, asked_s, expected):
    request = replace(REQUEST, asked_limit_s=asked_s)
    assert limits_to_ask(option(limit_s=limit_s), request) == expected
    assert limits_to_ask(option(limit_s=9999.0), replace(request, limit_s=None)) == (
        None if asked_s is None else TimeLimits(9999.0)
    )


def test_an_option_says_whether_it_meets_the_deadline():
    def met(verdict):
        return option(deadline=verdict).meets_deadline

    assert [met(one) for one in (None, *DeadlineVerdict)] == [None, True, None, False, False]
    assert isinstance(option(), Option)


def test_a_job_gets_a_count_that_makes_its_deadline():
    # On 16 nodes T = 325 s.  On n nodes the limit is 360·1.2·T(n)/325, and Slurm starts no job
    # whose limit reaches beyond its deadline a minute later: from 11 nodes on it is 600 s.
    decided = choose(due(660.0, limit_s=360.0))
    assert (decided.chosen.nodes, decided.chosen.limit_s) == (11, 600.0)
    assert (decided.action, decided.deadline_met) == (Action.SET, True)


def test_the_only_count_that_makes_the_deadline_stays_for_its_sake():
    decided = choose(due(420.0, limit_s=360.0))
    assert (decided.chosen.nodes, decided.reason) == (16, Reason.DEADLINE)


def test_the_wait_counts_more_than_once_before_a_deadline():
    later = partition(profile([(NOW, 0), (NOW + 100, 32)]))
    expected = 1.45 * 100 + 1.1 * (100 + 3600 / 16)
    assert choose(due(expected + 1, limit_s=360.0), part=later).deadline_met is True
    unsure = choose(due(expected - 1, limit_s=360.0), part=later)
    assert (unsure.deadline_met, unsure.reason) == (None, Reason.DEADLINE_UNSURE)


def test_a_deadline_goes_before_the_guard():
    # One node is free now; 16 nodes, free later, are out of the guard and the only way.
    steep = table(amdahl(0.0, 3600.0), spread=1.01)
    part = partition(profile([(NOW, 1), (NOW + 3000, 31)]), queue=500)
    decided = choose(due(4610.0, limit_s=300.0), steep, part)
    assert decided.deadline_met is True
    assert decided.chosen.late_s <= 0


def test_no_count_makes_it_the_closest_is_taken():
    decided = choose(due(100.0))
    assert (decided.action, decided.reason) == (Action.SET, Reason.DEADLINE_MISSED)
    assert decided.chosen.nodes == 16
    assert decided.deadline_met is False


def test_no_count_makes_it_and_the_site_refuses():
    assert choose(due(100.0), by=STRICT).action is Action.REFUSE
    assert choose(due(8000.0), by=STRICT).action is Action.SET


def test_nobody_is_refused_for_a_wait():
    full = partition(profile([(NOW, 0), (NOW + 3600, 32)]))
    for fixed in (None, Reason.FIXED_COUNT):
        decided = choose(due(1200.0, limit_s=360.0, fixed=fixed), part=full, by=STRICT)
        assert decided.action is not Action.REFUSE
        assert (decided.deadline_met, decided.reason) == (None, Reason.DEADLINE_UNSURE)


@pytest.mark.parametrize("fixed", [None, Reason.FIXED_COUNT])
def test_a_limit_beyond_the_deadline_is_looked_at_for_every_count(fixed):
    # On 16 nodes at most 357.5 s, but Slurm ends at once what asks for an hour.
    decided = choose(due(600.0, limit_s=3600.0, fixed=fixed))
    assert (decided.reason, decided.deadline_met) == (Reason.DEADLINE_LIMIT, False)
    assert (decided.action, decided.chosen.nodes) == (Action.KEEP, 16)
    assert decided.chosen.fitting_limit_s == 480.0
    assert limits_to_ask(decided.chosen, REQUEST) == TimeLimits(480.0)


@pytest.mark.parametrize("fixed", [None, Reason.FIXED_COUNT])
def test_the_limit_that_would_do_is_set_where_that_is_opted_in(fixed):
    asked = due(600.0, limit_s=3600.0, asked_limit_s=3600.0, time_use=TimeUse.SET, fixed=fixed)
    decided = choose(asked)
    assert decided.deadline_met is True
    chosen = decided.chosen
    assert chosen.limits.limit_s == chosen.limit_s
    assert chosen.prediction.high_s <= chosen.limit_s <= 600.0


def test_no_limit_that_ends_by_the_deadline_is_shorter_than_the_run():
    decided = choose(due(420.0, limit_s=3600.0, low=16))
    assert decided.chosen.fitting_limit_s == 360.0
    assert choose(due(419.0, limit_s=3600.0, low=16)).chosen.fitting_limit_s is None


def test_a_fixed_count_is_checked_too():
    fixed = due(450.0, low=4, high=4, fixed=Reason.FIXED_COUNT)
    decided = choose(fixed)
    assert (decided.action, decided.reason) == (Action.KEEP, Reason.DEADLINE_MISSED)
    assert choose(fixed, by=STRICT).action is Action.REFUSE
    assert choose(replace(fixed, deadline_s=NOW + 7261), by=STRICT).reason is Reason.FIXED_COUNT


def test_nobody_is_refused_on_a_doubtful_prediction():
    fixed = due(100.0, low=4, high=4, fixed=Reason.FIXED_COUNT)
    decided = choose(fixed, table(verdict=Verdict.DOUBTFUL), by=STRICT)
    assert (decided.action, decided.deadline_met) == (Action.KEEP, False)


def test_a_raised_limit_never_reaches_beyond_the_deadline():
    decided = choose(due(659.0, limit_s=590.0), part=partition(queue=50))
    # On 11 nodes (100 + 3600/11) · 1.1 · 1.2 = 564 s: ten minutes would be too long.
    assert (decided.chosen.nodes, decided.chosen.limit_s) == (12, 590.0)


def test_a_generous_limit_is_cut_to_the_high_quantile():
    chosen = choose(timed(), tailed()).chosen
    # T(n) = 100 + 3600/n; 1.2 of slack on both quantiles; whole minutes.
    time_s = 100 + 3600 / chosen.nodes
    assert chosen.limits == TimeLimits(
        60.0 * ceil(time_s * 1.2 * 1.2 / 60), 60.0 * ceil(time_s * 1.1 * 1.2 / 60)
    )
    assert chosen.limit_s == chosen.limits.limit_s


def test_advised_limits_leave_the_limit_alone():
    advised, left = (choose(timed(use), tailed()).chosen for use in (TimeUse.ADVISE, TimeUse.OFF))
    assert advised.limits is not None
    assert left.limits is None
    assert replace(advised, limits=None) == left


def test_a_limit_below_the_quantile_stays():
    # On 16 nodes 325 s · 1.2 · 1.2 = 468 s: eight minutes are not shortened, nine are to eight.
    fixed = {"low": 16, "high": 16, "fixed": Reason.FIXED_COUNT}
    assert choose(timed(minutes=8, **fixed), tailed()).chosen.limits is None
    nine = choose(timed(minutes=9, **fixed), tailed())
    assert (nine.action, nine.chosen.limits.limit_s) == (Action.KEEP, 480.0)


def test_a_limit_on_fewer_nodes_is_that_of_the_prediction_or_else_raised():
    by = policy(guard_ratio=100.0)
    crowded = partition(queue=1000)
    roomy, tight = (choose(timed(minutes=m), tailed(), crowded, by).chosen for m in (120, 20))
    assert roomy.nodes == tight.nodes == 1
    assert (roomy.limits.limit_s, roomy.limit_s) == (5340.0, 5340.0)
    assert tight.limits is None
    assert tight.limit_s > 1200.0


def test_a_shorter_limit_lets_more_nodes_start_before_others_need_them():
    # All 32 nodes are free for half an hour, then only one.
    gap = partition(profile([(NOW, 32), (NOW + 1800, -31), (NOW + 90000, 31)]))
    cut, left = (choose(timed(use), tailed(), gap).chosen for use in (TimeUse.SET, TimeUse.ADVISE))
    assert (cut.wait_s, left.wait_s) == (0.0, 0.0)
    assert cut.nodes > left.nodes == 1


def test_an_unchanged_range_is_given_a_limit_that_holds_on_any_of_its_counts():
    remaining = choose(timed(low=4, high=8, fixed=Reason.NOT_OPTED_IN), tailed()).chosen
    assert remaining.limits == TimeLimits(
        60.0 * ceil(1000 * 1.44 / 60), 60.0 * ceil(1000 * 1.32 / 60)
    )


def test_an_unchanged_range_keeps_its_limit_where_one_of_its_counts_needs_it():
    recorded = tailed(lambda nodes: 50_000.0 if nodes == 6 else 100.0)
    remaining = choose(timed(low=4, high=8, fixed=Reason.NOT_OPTED_IN), recorded).chosen
    assert (remaining.nodes, remaining.limit_s, remaining.limits) == (8, 7200.0, None)


def test_without_a_safe_time_min_the_limit_goes_alone():
    with_, without = (choose(timed(with_least=safe), tailed()).chosen for safe in (True, False))
    assert with_.limits.least_s is not None
    assert without.limits == TimeLimits(with_.limits.limit_s)


def test_ones_own_time_min_stays_and_bounds_the_limit():
    own = {"low": 16, "high": 16, "fixed": Reason.FIXED_COUNT}
    assert choose(timed(least_s=300.0, **own), tailed()).chosen.limits == TimeLimits(480.0)
    assert choose(timed(least_s=3600.0, **own), tailed()).chosen.limits == TimeLimits(3600.0)


@pytest.mark.parametrize(
    "recorded",
    [table(), tailed(verdict=Verdict.DOUBTFUL)],
    ids=["no quantiles in the table", "doubtful"],
)
def test_no_limit_without_a_good_prediction(recorded):
    assert choose(timed(), recorded).chosen.limits is None


def test_a_job_that_always_ran_on_one_count_gets_a_limit():
    known = table_of(history_of(33))
    chosen = choose(timed(low=4, high=4, fixed=Reason.FIXED_COUNT), known).chosen
    assert 600 < chosen.limits.limit_s < 1200


def test_with_a_deadline_a_shorter_limit_allows_more_counts():
    # Slurm starts nothing whose limit reaches beyond the deadline.
    far = due(1800.0, limit_s=7200.0, asked_limit_s=7200.0)
    chosen = choose(replace(far, time_use=TimeUse.SET), tailed()).chosen
    assert chosen.nodes < 16
    assert chosen.wait_s + chosen.limit_s <= 1800.0
    assert choose(far, tailed()).chosen.nodes == 16


def test_the_page_on_the_policy_has_every_setting():
    page = (Path(__file__).parents[3] / "docs" / "policy.md").read_text()
    listed = page.partition("## Settings")[2]
    names = [field.name for kind in (Policy, TimeLimit, Band) for field in fields(kind)]
    assert [name for name in names if not re.search(rf"\b{name}`", listed)] == []


def test_the_floor_is_a_share_of_what_the_job_and_its_last_runs_ask_for():
    def given(runs_s, minutes):
        known = tailed(asked_limit_s=runs_s)
        return choose(timed(minutes=minutes, low=4, high=4), known).chosen.limits.limit_s

    assert given(0.0, 120) == given(3600.0, 120) == 1440.0
    assert given(72_000.0, 120) == given(3600.0, 1200) == 3600.0
