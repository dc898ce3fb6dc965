"""Which node count a job gets: hand-computed cases, then what must hold for all."""

import dataclasses
from itertools import product
from math import ceil, inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from predictor.change import Change
from predictor.memory import UNBOUNDED, Memory
from predictor.prediction_table import Tail
from predictor.problems import Problem
from predictor.table import quantile
from predictor.tables.run_facts import change_of
from predictor.types import Point, Verdict
from predictor.waits.workload import ArrivalDemand
from sacct_ingest.runs.layout import Unit
from slurm_plugin.config.setting_types import Bystanders, OnMissed, TimeUse
from slurm_plugin.config.settings import Deadline
from slurm_plugin.decision.allowed_counts import choices, standing
from slurm_plugin.decision.policy import Action, every_option
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.protocol.reasons import MISSED, Reason
from slurm_plugin.slurm.node_pool import profile
from tests.slurm_plugin.decision.choosing import REQUEST, RULES, choose, policy, tailed, timed
from tests.slurm_plugin.decision.test_chances import outlook
from tests.slurm_plugin.made import NOW, amdahl, history, partition, rules, table, thrifty

PRIOR = change_of((), Unit.NODES)


def test_the_cost_is_turnaround_plus_the_delay_of_others():
    # T(n) = 100 + 3600/n, idle: w = 0; q = 8·2; C(n) = T(n) + 16·n·T(n)/32.
    decided = choose(by=policy(guard_ratio=100.0))
    costs = {n: (100 + 3600 / n) * (1 + n / 2) for n in range(1, 17)}
    best = min(costs, key=costs.get)
    assert decided.chosen.nodes == best
    assert decided.chosen.cost_s == pytest.approx(costs[best])
    assert (decided.action, decided.reason) == (Action.SET, Reason.CHEAPEST)


def test_runs_that_took_as_long_on_fewer_nodes_are_no_reason_for_fewer():
    # Ten minutes on each count: each run may have had a problem as large as its nodes.
    weak = dataclasses.replace(tailed(lambda n: 600.0 + n % 3), change=PRIOR, level="line")
    decided = choose(timed(asked=16), weak, part=partition(queue=100))
    assert decided.chosen.nodes > 12
    given = Situation(timed(asked=16), weak, partition().supply, RULES, NOW)
    options = {o.nodes: o for o in every_option(given, decided)}
    assert options[2].prediction.time_s > 1800
    assert options[2].sure < 0.25
    assert options[16].prediction.time_s == pytest.approx(601)


def test_a_count_is_taken_where_it_is_as_sure_as_the_site_wants():
    # R(n) of one path in ten is 3, else 1: nine jobs in ten end as soon on half of the nodes.
    paths = ((0, 0, 0, 0),) * 36 + ((1099, 1099, 0, 0),) * 4
    change = Change((-1.0, -0.01, 0.0, 6.0), paths, (0.0,) * 40)
    one = dataclasses.replace(table(lambda n: 3600.0), change=change, level="line")
    request = replace(REQUEST, low=8, asked=16)
    unsure, sure = (choose(request, one, by=policy(confidence=c)) for c in (0.95, 0.89))
    assert (unsure.chosen.nodes, sure.chosen.nodes) == (16, 8)
    assert sure.chosen.sure == pytest.approx(0.9)


def test_a_longer_queue_means_fewer_nodes():
    guard = policy(guard_ratio=100.0)
    chosen = [choose(part=partition(queue=q), by=guard).chosen.nodes for q in (0, 10, 100, 1000)]
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[0] > chosen[-1]


def test_only_the_request_in_the_guard_is_said_so():
    steep = table(amdahl(0.0, 36000.0))
    tight = policy(guard_ratio=1.0, guard_s=0.0)
    decided = choose(learned=steep, part=partition(queue=1000), by=tight)
    assert (decided.chosen.nodes, decided.reason) == (16, Reason.OUTSIDE_GUARD)


def test_a_job_grows_to_a_share_of_the_free_nodes_only():
    small = replace(REQUEST, low=1, high=32, asked=1)
    steep, idle = table(amdahl(0.0, 36000.0)), partition(profile([(NOW, 32)]))
    assert choose(small, steep, idle).chosen.nodes == 8
    assert choose(small, steep, idle, policy(growth_share=1.0)).chosen.nodes > 8
    # Twenty of them are somebody's in a minute.
    soon = partition(profile([(NOW, 32), (NOW + 60, -20)]))
    assert choose(small, steep, soon).chosen.nodes == 3


def each(**fields):
    return policy(bystanders=Bystanders.EACH, growth_share=1.0, **fields)


def arriving(share):
    """Partition of 32 free nodes of which jobs to come want this share within any span."""
    made = outlook(lambda *_: [0.0])
    demand = ArrivalDemand((inf,), ((share, share),))
    return partition(profile([(NOW, 32)]), outlook=replace(made, demand=demand))


def test_where_each_bystander_counts_a_job_grows_beside_those_that_come():
    small = replace(REQUEST, low=1, high=32, asked=1)
    steep = table(amdahl(0.0, 36000.0))
    alone, beside = (
        choose(small, steep, arriving(share), each()).chosen.nodes for share in (0.0, 0.75)
    )
    assert (alone > 8, beside) == (True, 8)
    assert choose(small, steep, arriving(1.0), each()).chosen.nodes == 1
    # As a group they do with the share of the free nodes that each job has to leave.
    group = policy(growth_share=1.0)
    assert choose(small, steep, arriving(1.0), group).chosen.nodes == alone


def test_where_each_bystander_counts_nothing_grows_without_a_past():
    small = replace(REQUEST, low=1, high=32, asked=1)
    steep = table(amdahl(0.0, 36000.0))
    unknown = partition(profile([(NOW, 32)]), outlook=outlook(lambda *_: [0.0]))
    for part in (unknown, partition(profile([(NOW, 32)]))):
        assert choose(small, steep, part, policy(growth_share=1.0)).chosen.nodes > 1
        assert choose(small, steep, part, each()).chosen.nodes == 1


def test_where_each_bystander_counts_a_job_shrinks_for_its_deadline_only():
    wide = replace(REQUEST, low=1, high=32, asked=32)
    soon = partition(profile([(NOW, 8), (NOW + 90_000, 24)]))
    assert choose(wide, part=soon).chosen.nodes <= 8
    assert choose(wide, part=soon, by=each()).chosen.nodes == 32
    due = replace(wide, deadline_s=NOW + 40_000)
    assert choose(due, part=soon, by=each()).chosen.nodes <= 8


def test_a_request_of_most_nodes_stays_and_may_shrink():
    wide = replace(REQUEST, low=1, high=32, asked=32)
    decided = choose(wide, part=partition(profile([(NOW, 32)])))
    assert decided.request.leaves_room
    assert decided.chosen.nodes < 32


def test_a_job_that_only_the_free_nodes_hold_back_is_reported_so():
    steep = table(amdahl(0.0, 36000.0))
    one = replace(REQUEST, low=8, high=32, asked=8)
    decided = choose(one, learned=steep, part=partition(profile([(NOW, 12)])))
    assert (decided.chosen.nodes, decided.reason) == (8, Reason.NO_ROOM_TO_GROW)
    fewer = replace(one, low=4, high=32)
    decided = choose(fewer, learned=steep, part=partition(profile([(NOW, 32)])))
    assert (decided.chosen.nodes, decided.reason) == (8, Reason.NO_ROOM_TO_GROW)
    roomy = partition(profile([(NOW, 48)]))
    decided = choose(one, learned=steep, part=roomy)
    assert (decided.chosen.nodes, decided.reason) == (12, Reason.ROOM_FOR_OTHERS)


def test_a_deadline_goes_before_the_room_for_others():
    hurried = replace(REQUEST, low=1, high=16, asked=1, limit_s=420.0, deadline_s=NOW + 480.0)
    decided = choose(hurried, part=partition(profile([(NOW, 16)])))
    assert decided.deadline_met is True
    assert not decided.chosen.leaves_room


def test_waiting_for_more_nodes_pays_when_the_wait_is_short():
    soon = partition(profile([(NOW, 1), (NOW + 30, 31)]))
    decided = choose(part=soon)
    assert decided.request.nodes == 1
    assert decided.chosen.nodes > 1
    assert decided.chosen.wait_s == 30.0


def test_waiting_for_more_nodes_does_not_pay_when_the_wait_is_long():
    late = partition(profile([(NOW, 4), (NOW + 86400, 28)]))
    assert choose(part=late).chosen.nodes <= 4


def test_counts_beyond_the_fastest_are_never_chosen():
    u_shaped = table(lambda n: 3600 / n + 100 * n)  # fastest at n = 6
    free = policy(price=1e-9)
    assert choose(learned=u_shaped, by=free).chosen.nodes == 6


def test_counts_far_beyond_the_observed_are_never_chosen():
    steep, free = table(amdahl(0.0, 3600.0), observed=(1, 2, 4)), policy(price=1e-9)
    part = partition(profile([(NOW, 8), (NOW + 1, 24)]))
    assert choose(learned=steep, part=part, by=free).chosen.nodes == 8


def test_uncertainty_speaks_for_the_request():
    assert choose(learned=table(curve_sd=0.0)).chosen.nodes < 16
    assert choose(learned=table(curve_sd=0.5)).chosen.nodes == 16


def test_fewer_nodes_get_a_longer_time_limit_only_where_the_run_needs_it():
    needed = choose(replace(REQUEST, limit_s=400.0)).chosen
    assert needed.nodes < 16
    assert needed.limit_s == 60 * ceil((100 + 3600 / needed.nodes) * 1.1 * 1.2 / 60)
    ample = choose(replace(REQUEST, limit_s=7200.0)).chosen
    assert ample.nodes < 16
    assert ample.limit_s == 7200.0


def test_no_count_is_chosen_whose_time_limit_the_partition_forbids():
    decided = choose(replace(REQUEST, limit_s=420.0), part=partition(max_time_s=420.0))
    assert (decided.chosen.nodes, decided.reason) == (16, Reason.LIMIT_TOO_LONG)


def test_a_default_limit_is_not_raised_but_has_to_do():
    short = Request(low=1, high=16, limit_s=700.0, limit_raisable=False)
    decided = choose(short, part=partition(queue=1000), by=policy(guard_ratio=100.0))
    # (100 + 3600/n) · 1.1 · 1.2 <= 700 holds from n = 9 on.
    assert (decided.chosen.nodes, decided.chosen.limit_s) == (9, 700.0)


def test_partition_and_memory_bound_the_counts():
    free = policy(guard_ratio=100.0)
    crowded = partition(queue=1000, min_nodes=3)
    assert choose(part=crowded, by=free).chosen.nodes == 3
    heavy = table(memory=(Memory(4, 50 * 2**30), Memory(8, 30 * 2**30)), observed=(4, 8, 16))
    small = partition(queue=1000, node_mem_bytes=128 * 2**30)
    assert choose(learned=heavy, part=small, by=free).chosen.nodes == 2
    assert choose(replace(REQUEST, mem_node_bytes=80 * 2**30), heavy, small, free).chosen.nodes == 3


def test_a_job_is_not_set_to_what_slurm_would_give_where_its_memory_does_not_fit():
    # One node is free now, and Slurm would start the job there.
    heavy = table(memory=(Memory(1, UNBOUNDED), Memory(4, 50 * 2**30)))
    soon = partition(profile([(NOW, 1), (NOW + 900, 31)]), node_mem_bytes=64 * 2**30)
    decided = choose(learned=heavy, part=soon)
    assert decided.request.nodes == 1
    assert decided.chosen.nodes >= 4
    assert decided.reason is Reason.MEMORY
    assert choose(part=partition(profile([(NOW, 1), (NOW + 90000, 31)]))).chosen.nodes == 1


@pytest.mark.parametrize("reason", [Reason.OUT_OF_BAND, Reason.DISTRUSTED])
def test_what_is_switched_off_is_observed_and_nothing_else(reason):
    strict = rules(thrifty(deadline=Deadline(missed=OnMissed.REFUSE)))
    off = replace(timed(), deadline_s=NOW + 100.0, distrusted=reason)
    decided = choose(off, tailed(), by=strict)
    assert (decided.action, decided.reason, decided.deadline_met) == (Action.KEEP, reason, None)
    assert decided.chosen.nodes == 16
    assert decided.chosen.limits is None


def test_every_count_is_reported_as_it_was_decided():
    # A reservation 80 minutes ahead: where a raised limit reaches into it, the job waits beyond.
    ahead = [(NOW, 32), (NOW + 4800, -32), (NOW + 20000, 32)]
    part = partition(profile(ahead), queue=50)
    asked = replace(REQUEST, limit_s=3600.0)
    decided = choose(asked, part=part, by=policy(guard_ratio=100.0))
    options = every_option(Situation(asked, table(), part.supply, RULES, NOW), decided)
    assert [o.nodes for o in options] == list(range(1, 33))
    by_nodes = {option.nodes: option for option in options}
    assert all(by_nodes[option.nodes] is option for option in decided.options)
    assert (by_nodes[16].wait_s, by_nodes[1].wait_s) == (0.0, 20000.0)
    assert by_nodes[1].limit_s > 4800.0


@pytest.mark.parametrize(
    ("learned", "reason"),
    [
        (table(verdict=Verdict.DOUBTFUL), Reason.UNRELIABLE_CURVE),
        (table(verdict=Verdict.REFUSED), Reason.UNRELIABLE_CURVE),
        (
            table(verdict=Verdict.DOUBTFUL, problems=(Problem("other_layout", ""),)),
            Reason.OTHER_LAYOUT,
        ),
        (table(nodes=range(1, 9)), Reason.OUTSIDE_CURVE),
        (history(), Reason.NO_CURVE),
        (history(problems=()), Reason.NAME_ONLY),
        (history(problems=(), level="script"), Reason.MIXED_RUNS),
        (history(observed=(Point(1, 60.0),), one_cpu=True, level="line"), Reason.SERIAL),
    ],
)
def test_what_cannot_be_trusted_is_not_acted_on(learned, reason):
    request = replace(REQUEST, low=4, high=4) if learned.model == "history" else REQUEST
    decided = choose(request, learned)
    assert (decided.action, decided.reason) == (Action.KEEP, reason)


def test_a_level_in_doubt_is_no_reason_to_keep_the_count_where_the_change_is_known():
    doubted = table(verdict=Verdict.DOUBTFUL, change=PRIOR, level="line")
    assert choose(learned=doubted).reason is not Reason.UNRELIABLE_CURVE


def test_counts_with_a_verdict_of_their_own_are_left_out():
    verdicts = tuple(Verdict.RELIABLE if n >= 12 else Verdict.DOUBTFUL for n in range(1, 33))
    decided = choose(learned=table(verdicts=verdicts), by=policy(guard_ratio=100.0))
    assert decided.chosen.nodes == 12


def test_a_fixed_request_keeps_its_reason():
    decided = choose(replace(REQUEST, fixed=Reason.ARRAY))
    assert (decided.action, decided.reason) == (Action.KEEP, Reason.ARRAY)
    assert decided.chosen == decided.request


def test_a_wait_that_no_record_bears_out_makes_no_job_smaller():
    busy = partition(profile([(NOW, 2), (NOW + 3600, 8)]), nodes=8)
    decided = choose(Request(low=1, high=8, asked=8, limit_s=7200.0), part=busy)
    assert (decided.chosen.nodes, decided.request.wait_s) == (8, 3600.0)


def test_one_count_is_no_choice():
    decided = choose(part=partition(min_nodes=16))
    assert (decided.action, decided.reason) == (Action.KEEP, Reason.NO_CHOICE)
    for learned, reason in (
        (table(nodes=[16]), Reason.ONE_COUNT),
        (table(lambda n: 600.0 + n), Reason.BEST_ALREADY),
        (table(nodes=[1], observed=(1,), one_cpu=True), Reason.SERIAL),
    ):
        low = 1 if reason is Reason.BEST_ALREADY else learned.nodes[0]
        request = replace(REQUEST, low=low, asked=learned.nodes[0])
        assert choose(request, learned).reason is reason


def test_what_the_limits_forbid_is_left_to_slurm():
    decided = choose(replace(REQUEST, low=6), part=partition(max_nodes=4))
    assert (decided.action, decided.reason) == (Action.KEEP, Reason.BEYOND_LIMITS)


curves = st.one_of(
    st.builds(amdahl, st.floats(0, 1000), st.floats(1, 1e5)),
    st.lists(st.floats(1, 1e5), min_size=32, max_size=32).map(lambda ts: lambda n: ts[n - 1]),
    # Superlinear: the node time falls with the nodes.
    st.builds(lambda a, b: lambda n: a / n**b, st.floats(10, 1e5), st.floats(0.1, 1.8)),
)


tables = st.builds(
    lambda made, more: dataclasses.replace(
        made,
        tails=tuple(
            Tail(share, tuple(t * f for t in made.high_s))
            for share, f in zip((0.9, 0.99), more, strict=True)
        ),
    ),
    st.builds(table, curves, curve_sd=st.floats(0, 0.3), spread=st.floats(1.0, 2.0)),
    st.tuples(st.floats(0.9, 1.0), st.floats(1.0, 2.0)),
)


profiles = st.lists(
    st.tuples(st.integers(1, 9000).map(lambda t: NOW + t), st.integers(-16, 16)), max_size=6
).map(lambda later: profile([(NOW, 8), *later]))


requests = st.builds(
    lambda low, span, limit, due, begin, use: Request(
        low=low,
        high=low + span,
        limit_s=limit,
        asked_limit_s=limit,
        deadline_s=due and NOW + due,
        begin_s=begin,
        time_use=use,
        with_least=True,
    ),
    st.integers(1, 16),
    st.integers(0, 16),
    st.one_of(st.none(), st.integers(60, 10**6).map(float)),
    st.one_of(st.none(), st.floats(1, 20000)),
    st.sampled_from([-inf, NOW + 500]),
    st.sampled_from(TimeUse),
)


scenes = st.tuples(requests, tables, st.builds(partition, profiles, max_nodes=st.integers(1, 32)))


@pytest.mark.slow
@given(st.lists(scenes, min_size=2, max_size=3), st.sampled_from([RULES, policy(confidence=0.6)]))
def test_what_is_cached_of_one_job_is_not_taken_for_another(drawn, by):
    # All tables are of one application and fit, so that only what they hold tells them apart.
    mixed = list(product(*zip(*drawn, strict=True)))
    anew = [decided_anew(scene, by) for scene in mixed]
    assert [choose(*scene, by=by) for scene in mixed] == anew


def decided_anew(scene, by):
    choices.cache_clear()
    standing.cache_clear()
    return choose(*scene, by=by)


@given(requests, tables, profiles, st.integers(0, 500), st.integers(0, 500), st.floats(0, 500))
def test_a_fuller_queue_never_means_more_nodes(request, learned, free, queue, more, mean):
    calm = choose(request, learned, partition(free, queue=queue, queue_mean=mean))
    busy = choose(request, learned, partition(free, queue=queue + more, queue_mean=mean))
    if calm.chosen is None or busy.chosen is None:
        assert calm == busy
    else:
        assert busy.chosen.nodes <= calm.chosen.nodes


@given(requests, tables, profiles, st.integers(0, 500))
def test_no_job_pays_more_than_the_guard_unless_for_its_deadline(request, learned, free, queue):
    decided = choose(request, learned, partition(free, queue=queue))
    if decided.action is not Action.SET or decided.reason in MISSED:
        return
    asked, chosen = decided.request, decided.chosen
    # These waits have no record: a quarter of them is no reason to run longer.
    allowed = asked.wait_s + 1.25 * asked.prediction.time_s + 60
    in_guard = chosen.wait_s + chosen.prediction.time_s <= allowed + 1e-6
    assert in_guard or decided.reason is Reason.DEADLINE


@given(requests, tables, profiles)
def test_a_deadline_that_is_said_to_be_made_is_not_in_the_way_of_the_limit(request, learned, free):
    decided = choose(request, learned, partition(free))
    if decided.deadline_met is True:
        one = decided.chosen
        least = one.limits.least_s if one.limits and request.time_use is TimeUse.SET else None
        limit_s = least or one.limit_s or one.prediction.high_s
        assert NOW + one.wait_s + limit_s <= request.deadline_s


@given(requests, tables, profiles)
# Eleven nodes are free three seconds later only, by limits, and may take 2.5 s.
@example(
    Request(low=4, high=11, deadline_s=NOW + 3, time_use=TimeUse.OFF, with_least=True),
    table(amdahl(0.0, 55.0), spread=2.0),
    profile([(NOW, 8), (NOW + 3, 3)]),
)
def test_nobody_is_refused_who_could_make_it_with_the_cluster_to_himself(request, learned, free):
    strict = rules(thrifty(deadline=Deadline(missed=OnMissed.REFUSE)))
    decided = choose(request, learned, partition(free), by=strict)
    if decided.action is Action.REFUSE:
        begin_s = max(NOW, request.begin_s)
        allowed = [o for o in decided.options if o.in_limit or o is decided.request]
        assert all(begin_s + o.prediction.low_s > request.deadline_s for o in allowed)


@given(requests, tables, profiles, st.integers(0, 500))
def test_the_users_own_bounds_are_respected(request, learned, free, queue):
    decided = choose(request, learned, partition(free, queue=queue))
    if decided.chosen is not None:
        assert request.low <= decided.chosen.nodes <= request.high
        if request.limit_s is not None and decided.chosen.limits is None:
            assert decided.chosen.limit_s >= request.limit_s


@given(requests, tables, profiles, st.integers(0, 500))
def test_limits_are_between_the_quantile_and_what_was_asked_for(request, learned, free, queue):
    decided = choose(request, learned, partition(free, queue=queue))
    if decided.chosen is None or decided.chosen.limits is None:
        return
    limits, nodes = decided.chosen.limits, decided.chosen.nodes
    assert request.time_use is not TimeUse.OFF
    least = quantile(learned, nodes, 0.99)
    if request.deadline_s is not None:  # the run's end is later than it, or the limit holds it
        least = min(least, decided.chosen.prediction.high_s)
    assert least <= limits.limit_s < (request.limit_s or inf)
    assert (
        limits.least_s is None or quantile(learned, nodes, 0.9) <= limits.least_s < limits.limit_s
    )
    assert limits.limit_s % 60 == 0
