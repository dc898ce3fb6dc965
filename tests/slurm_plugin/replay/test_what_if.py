"""The policy in the replay: the same jobs with and without it."""

from dataclasses import replace

import numpy as np
import pytest

from predictor.table import at
from predictor.tables.settings import TableSettings
from slurm_plugin.config import settings as config
from slurm_plugin.config.setting_types import Bystanders
from slurm_plugin.decision.allowed_counts import PolicySettings
from slurm_plugin.replay.measures import compare
from slurm_plugin.replay.what_if import (
    ALIKE,
    WORTH,
    Setting,
    WhatIf,
    evaluate,
    gain_of_proven,
    settings,
    suggest,
)
from slurm_plugin.replay.workload import Assumptions, Workload, assume, learn, moldable, recent_mean
from tests.predictor.rows import submitted
from tests.slurm_plugin.reports.rows import run

pytestmark = pytest.mark.long
RULES = PolicySettings(config.Policy(), config.Deadline())
HOUR = 3600.0


def workload(count=300, gap_s=600.0, nodes=4):
    """Make jobs of an hour on a cluster of 16 nodes."""
    rng = np.random.default_rng(5)
    return Workload(
        submit_s=np.cumsum(rng.exponential(gap_s, count)),
        nodes=np.full(count, nodes),
        run_s=rng.uniform(0.5, 1.5, count) * HOUR,
        limit_s=np.full(count, 2 * HOUR),
        wait_s=np.zeros(count),
        users=("ada",) * count,
        cluster_nodes=16,
    )


def history(count=240):
    """Make an application seen on 1, 2, 4 and 8 nodes that scales well, and one that does not."""
    rows = []
    for number in range(count):
        nodes = (1, 2, 4, 8)[number % 4]
        good = number % 2 == number // 4 % 2
        run_s = HOUR * (8 / nodes if good else 1.0 + 0.5 / nodes)
        submit = 1_790_000_000 + 900 * number
        rows.append(
            run(
                run_id=number,
                job_id=number,
                submit_s=submit,
                eligible_s=submit,
                start_s=submit + 5,
                end_s=submit + 5 + int(run_s),
                elapsed_s=run_s,
                limit_s=40_000,
                nodes=nodes,
                name="good" if good else "poor",
                line="good" if good else "poor",
            )
        )
    return rows


def replayed(rows):
    begin = rows[len(rows) // 2].submit_s
    recorded = learn(rows, begin_s=begin, settings=TableSettings())
    later = Workload.of([row for row in rows if row.submit_s > begin], cluster_nodes=16)
    return WhatIf(later, moldable(later, recorded, reach=4.0))


def test_without_moldable_jobs_the_policy_changes_nothing():
    rigid = WhatIf(workload(), [None] * 300)
    outcome = rigid.under(RULES)
    assert (outcome.schedule.start_s == rigid.rigid().start_s).all()
    assert not outcome.moved.any()
    assert not outcome.reasons


def test_jobs_run_as_long_as_their_curve_says():
    what_if = replayed(history())
    outcome = what_if.under(RULES)
    work = what_if.workload
    assert outcome.moved.any()
    took = outcome.schedule.end_s - outcome.schedule.start_s
    for job in np.flatnonzero(outcome.moved):
        one = what_if.moldable_jobs[job]
        assert took[job] == pytest.approx(work.run_s[job] * one.truth(outcome.schedule.nodes[job]))
    assert (took[~outcome.moved] == work.run_s[~outcome.moved]).all()


def test_an_idle_cluster_lends_its_nodes_to_those_that_scale():
    what_if = replayed(history())
    outcome = what_if.under(RULES)
    names = np.array([one.name for one in what_if.workload.runs])
    good = outcome.schedule.nodes[names == "good"].mean()
    assert good > outcome.schedule.nodes[names == "poor"].mean()
    result = compare(what_if.workload, what_if.rigid(), outcome.schedule)
    assert result.response_ratio < 0.9


def test_the_policy_knows_only_what_was_available_before():
    rows = history()
    begin = rows[len(rows) // 2].submit_s
    # From then on everything takes twice as long; the early tables cannot know.
    rows = [
        row
        if row.submit_s <= begin
        else run(
            **{name: getattr(row, name) for name in row.__slots__}
            | {"elapsed_s": 2 * row.elapsed_s, "end_s": row.end_s + int(row.elapsed_s)}
        )
        for row in rows
    ]
    recorded = learn(rows, begin_s=begin, settings=TableSettings())
    later = Workload.of([row for row in rows if row.submit_s > begin], cluster_nodes=16)
    one = next(
        one for one in moldable(later, recorded, reach=4.0) if one and one.table.key == "good"
    )
    assert at(one.table, 8).time_s == pytest.approx(HOUR, rel=0.2)
    assert at(one.truth.args[0], 8).time_s == pytest.approx(2 * HOUR, rel=0.2)


def proved(*lines):
    """Whether the jobs after two weeks on 1, 2 and 4 nodes take part, with such a submit line."""
    rows = [submitted(row, lines[n % len(lines)]) for n, row in enumerate(history())]
    opened = replayed(rows).proven()
    kinds = [one.submission for one in opened.workload.runs]
    asked = [submitted(rows[0], line).submission for line in lines]
    return [any(opened.moldable[[kind == one for kind in kinds]]) for one in asked]


def test_jobs_of_one_count_take_part_by_what_their_users_completed():
    other = [one and one.counts for one in replayed(history()).proven().moldable_jobs]
    assert {*filter(None, other)} == {(1, 2, 4, 8)}
    gain = gain_of_proven(replayed(history()), RULES)
    assert gain.jobs == gain.wait_jobs > 0
    assert gain.node_hours != 0
    assert proved("sbatch run.sh", "sbatch -w pine1 run.sh", "srun ./run") == [True, False, False]


def test_who_does_not_take_part_stays_as_is():
    what_if = replayed(history())
    half = what_if.adopted(0.5).moldable.sum()
    assert 0.3 * what_if.moldable.sum() < half < 0.7 * what_if.moldable.sum()
    assert not what_if.adopted(0.0).moldable.any()


def test_assumed_jobs_are_as_many_as_asked_and_the_same_for_one_seed():
    work = workload()
    one, other = (assume(work, Assumptions(share=0.4, seed=7)) for _ in range(2))
    assert sum(m is not None for m in one) == pytest.approx(120, abs=30)
    assert [m and m.table for m in one] == [m and m.table for m in other]
    some = next(m for m in one if m)
    assert some.truth(4) == 1.0
    assert (some.low, some.high) == (1, 16)
    assert some.truth(8) <= 1.0 <= some.truth(2)


def test_recent_mean_uses_only_what_had_ended():
    work = Workload(
        submit_s=np.array([0.0, 10.0, 200.0, 400.0]),
        nodes=np.ones(4, dtype=int),
        run_s=np.array([100.0, 50.0, 30.0, 1.0]),
        limit_s=np.array([500.0, 600.0, 700.0, 20.0]),
        wait_s=np.zeros(4),
        users=("ada",) * 4,
        cluster_nodes=4,
    )
    assert recent_mean(work) == [500.0, 600.0, 75.0, 20.0]


def test_a_grid_of_settings_keeps_everything_else():
    policy = config.Policy(confidence=0.8)
    made = settings(policy, prices=(1.0, 2.0), guards=(1.5,), loads=(0.5, 0.9))
    assert [(s.load, s.policy.price) for s in made] == [
        (0.5, 1.0),
        (0.5, 2.0),
        (0.9, 1.0),
        (0.9, 2.0),
    ]
    assert {(s.policy.guard_ratio, s.policy.confidence) for s in made} == {(1.5, 0.8)}
    assert settings(policy)[0].policy == policy


def test_suggestions_help_or_are_not_made():
    policy = config.Policy()
    helped = list(
        evaluate(replayed(history()), settings(policy, prices=(4.0, 8.0)), config.Deadline())
    )
    detected = suggest(helped, policy)
    best = min(r.everybody.response_ratio for r in helped)
    assert detected.everybody.response_ratio <= best * (1 + ALIKE)
    assert detected.everybody.response_ratio <= 1 - WORTH
    rigid = WhatIf(workload(), [None] * 300)
    assert suggest(list(evaluate(rigid, settings(policy), config.Deadline())), policy) is None


def test_a_suggestion_does_for_all_loads():
    policy = config.Policy()
    grid = settings(policy, prices=(4.0, 8.0), loads=(0.3, 0.9))
    some = list(evaluate(replayed(history()), grid, config.Deadline()))

    def with_ratio(result, ratio):
        return replace(result, everybody=replace(result.everybody, response_ratio=ratio))

    # Price 4 is best of all at the low load, 8 in the mean.
    ratios = {(0.3, 4.0): 0.5, (0.9, 4.0): 1.2, (0.3, 8.0): 0.7, (0.9, 8.0): 0.8}
    given = [with_ratio(r, ratios[r.setting.load or 0, r.setting.policy.price]) for r in some]
    detected = suggest(given, policy)
    assert (detected.setting.policy.price, detected.setting.load) == (8.0, 0.9)


def hurting(result, after):
    return replace(result, rigid=replace(result.rigid, slowdown=(2.0, after)))


def test_a_suggestion_spares_those_who_take_no_part():
    policy = config.Policy()
    some = list(
        evaluate(replayed(history()), settings(policy, prices=(4.0, 8.0)), config.Deadline())
    )
    ratios = (0.5, 0.7)
    given = [
        replace(r, everybody=replace(r.everybody, response_ratio=ratio))
        for r, ratio in zip(some, ratios, strict=True)
    ]
    best, second = given
    assert suggest([hurting(best, 2.0), second], policy) == hurting(best, 2.0)
    assert suggest([hurting(best, 3.0), second], policy) == second
    assert suggest([hurting(best, 3.0)], policy) == hurting(best, 3.0)


def crowded(seed):
    """Jobs of one to sixteen nodes on 32, with limits of two to ten times their run times."""
    rng = np.random.default_rng(seed)
    run_s = np.clip(rng.lognormal(7.5, 1.2, 600), 60.0, 30_000.0)
    work = Workload(
        submit_s=np.cumsum(rng.exponential(100.0, 600)),
        nodes=2 ** rng.integers(0, 5, 600),
        run_s=run_s,
        limit_s=run_s * rng.uniform(2.0, 10.0, 600),
        wait_s=np.zeros(600),
        users=tuple(f"u{number}" for number in range(600)),
        cluster_nodes=32,
    )
    return work.at_load(0.8)


def test_the_guard_holds_by_what_came_where_it_counts_on_no_wait():
    """Limits overstate waits, so that a request would have started earlier than expected."""
    work = crowded(1)
    what_if = WhatIf(work, assume(work, Assumptions(share=0.5)))
    some = [config.Policy(guard_wait=share) for share in (0.0, 1.0)]
    strict, plain = evaluate(what_if, [Setting(policy=one) for one in some], config.Deadline())
    assert strict.moved > 0.05
    assert strict.guard_held >= 0.9
    assert plain.guard_held < strict.guard_held - 0.04
    # Its price: fewer jobs get other nodes.
    assert strict.moved < plain.moved


def test_single_bystanders_are_spared_and_the_guard_holds_by_what_came():
    work = crowded(1)
    what_if = WhatIf(work, assume(work, Assumptions(share=0.5)))
    grid = settings(config.Policy(), loads=(0.2, 0.6), bystanders=Bystanders)
    _, calm, group, busy = evaluate(what_if, grid, config.Deadline())
    assert calm.moved > 0.02
    assert calm.everybody.response_ratio < 1
    assert group.rigid.much_worse > 0.01
    for each in (calm, busy):
        assert each.rigid.much_worse < 0.01
        assert each.guard_held == 1.0
    assert group.guard_held < 1.0


def test_where_each_bystander_counts_one_guard_stands_for_all():
    grid = settings(config.Policy(), guards=(1.1, 1.5), bystanders=Bystanders)
    made = [(one.policy.guard_ratio, str(one.policy.bystanders)) for one in grid]
    assert made == [(1.1, "group"), (1.25, "each"), (1.5, "group")]


def regular(seed):
    """As :func:`crowded`, by thirty users who each submit the same job again and again."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 30, 600)
    run_s = np.clip(rng.lognormal(7.5, 1.2, 30), 60.0, 30_000.0)[user]
    nodes, slack = 2 ** rng.integers(0, 5, 30), rng.uniform(2.0, 10.0, 30)
    work = replace(
        crowded(seed),
        nodes=nodes[user],
        run_s=run_s,
        limit_s=run_s * slack[user],
        users=tuple(f"u{one}" for one in user),
    )
    return work.at_load(0.8)


def test_the_guard_holds_by_what_came_more_often_where_run_times_can_be_expected():
    """A wait that follows from limits is too long, and jobs shrink that would have started."""
    held = {"expected": [], "limits": []}
    for seed in range(1, 7):
        work = regular(seed)
        # Of users who come once nothing is expected but their limits.
        strangers = tuple(f"s{job}" for job in range(len(work)))
        for name, users in (("expected", work.users), ("limits", strangers)):
            what_if = WhatIf(work, assume(work, Assumptions(share=0.5)))
            what_if = WhatIf(replace(work, users=users), what_if.moldable_jobs)
            (result,) = evaluate(what_if, [Setting(policy=config.Policy())], config.Deadline())
            assert result.moved > 0.05
            held[name].append(result.guard_held)
    assert np.mean(held["expected"]) > np.mean(held["limits"]) + 0.01


def test_results_tell_moldable_and_rigid_jobs_apart():
    work = workload()
    what_if = WhatIf(work, assume(work, Assumptions(share=0.5)))
    (result,) = evaluate(what_if, settings(config.Policy(), loads=(0.8,)), config.Deadline())
    assert result.load == pytest.approx(0.8)
    assert result.moldable_jobs == what_if.moldable.sum()
    assert sum(result.reasons.values()) == result.moldable_jobs
    assert 0 < result.moved <= 1


def test_a_small_disturbance_is_the_same_each_time_and_changes_run_times_alone():
    what_if = WhatIf(workload(), [None] * 300)
    one, again, other = (what_if.disturbed(seed=seed) for seed in (1, 1, 2))
    assert (one.end_s == again.end_s).all()
    assert (one.end_s != other.end_s).any()
    longer = (one.end_s - one.start_s) / what_if.workload.run_s
    assert set(longer.round(6).tolist()) == {1.0, 1.02}
    assert 0.04 < (longer > 1.01).mean() < 0.2
