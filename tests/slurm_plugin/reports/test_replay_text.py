"""What ``nimo replay`` says of those who take no part."""

from dataclasses import replace

import numpy as np
from msgspec.structs import replace as replace_fields

from slurm_plugin.config import settings as config
from slurm_plugin.config.setting_types import Bystanders
from slurm_plugin.replay.what_if import WhatIf, evaluate, settings
from slurm_plugin.replay.workload import Assumptions, Workload, assume
from slurm_plugin.reports.replay_text import ReplayReport, tables, verdict


def replayed():
    rng = np.random.default_rng(2)
    work = Workload(
        submit_s=np.cumsum(rng.exponential(900.0, 200)),
        nodes=rng.integers(1, 8, 200),
        run_s=rng.uniform(600.0, 7200.0, 200),
        limit_s=np.full(200, 7200.0),
        wait_s=np.zeros(200),
        users=("ada",) * 200,
        cluster_nodes=16,
    )
    what_if = WhatIf(work, assume(work, Assumptions(share=0.5)))
    (result,) = evaluate(what_if, settings(config.Policy()), config.Deadline())
    return result


def report_of(*results):
    first = results[0]
    return ReplayReport("a log", 2.0, 16, 0.7, (), results, first.setting.policy, first)


def said(*results):
    return verdict(report_of(*results))


def test_the_verdict_says_when_others_pay():
    result = replace(replayed(), by_chance=())
    calm = replace(result.rigid, response_ratio=1.0, slowdown=(2.0, 2.0), much_worse=0.01)
    assert "rigid jobs would be" not in said(replace(result, rigid=calm))
    slower = said(replace(result, rigid=replace(calm, slowdown=(2.0, 3.0))))
    assert slower.endswith(
        "But rigid jobs would be slower: their mean response would be 1.00 times its present "
        "value, "
        "their slowdown 3.00 instead of 2.00."
    )
    later = said(replace(result, rigid=replace(calm, response_ratio=1.2)))
    assert "mean response would be 1.20 times its present value" in later


def test_what_chance_does_alone_is_no_harm():
    result = replayed()
    slower = replace(result.rigid, response_ratio=1.0, slowdown=(2.0, 3.0))
    chance = replace(slower, slowdown=(2.0, 2.99))
    assert not replace(result, rigid=slower, by_chance=(chance,)).hurts_bystanders
    less = replace(chance, slowdown=(2.0, 2.9))
    assert replace(result, rigid=slower, by_chance=(less, less)).hurts_bystanders
    later = replace(slower, response_ratio=1.03, slowdown=(2.0, 2.0))
    assert replace(result, rigid=later, by_chance=(chance,)).hurts_bystanders
    assert not replace(
        result, rigid=later, by_chance=(replace(chance, response_ratio=1.025),)
    ).hurts_bystanders


def test_the_load_at_which_others_pay_is_named():
    result = replace(replayed(), by_chance=())
    calm = replace(result, load=0.5, rigid=replace(result.rigid, slowdown=(2.0, 2.0)))
    hurt = replace(result, load=0.9, rigid=replace(result.rigid, slowdown=(2.0, 4.0)))
    assert "would be slower at load 0.90: their mean" in said(calm, hurt)


def test_bystanders_stand_apart_with_what_chance_does_and_how_often_the_guard_held():
    result = replace(replayed(), moved=0.5, guard_held=0.93)
    (_, groups) = tables(report_of(result))
    names = [row[0] for row in groups.rows]
    assert names == ["moldable jobs", "rigid jobs", "rigid jobs, by chance", "guard"]
    assert groups.rows[-1][-1].startswith("93 % of the moved jobs ended within the guard")
    assert "every tenth job two per cent longer" in groups.rows[2][-1]


def test_the_verdict_counts_rigid_jobs_that_take_far_longer_than_by_chance():
    result = replayed()
    rigid = replace(result.rigid, slowdown=(2.0, 2.0), much_worse=0.068, much_better=0.064)
    chance = replace(rigid, much_worse=0.002)
    unlucky = replace(result, load=0.5, rigid=rigid, by_chance=(chance,))
    assert said(unlucky).endswith(
        "Of the rigid jobs 6.8 % would take more than twice as long (0.2 % by chance alone), and "
        "6.4 % less than half as long."
    )
    lucky = replace(unlucky, load=0.9, by_chance=(replace(chance, much_worse=0.06),))
    assert "more than twice as long at load 0.50 (0.2 %" in said(lucky, unlucky)
    assert "Of the rigid jobs" not in said(lucky)


def test_all_loads_are_named_at_which_others_pay():
    result = replace(replayed(), by_chance=())
    paying = [
        replace(result, load=load, rigid=replace(result.rigid, slowdown=(2.0, after)))
        for load, after in ((0.3, 2.0), (0.7, 3.0), (0.9, 5.0))
    ]
    text = said(*paying)
    assert "slower at load 0.70 and 0.90: their mean" in text
    assert ", at 0.90, their slowdown 5.00 instead of 2.00." in text


def test_rigid_jobs_that_would_pay_are_named_where_nobody_gains_too():
    result = replace(replayed(), by_chance=())
    slower = replace(result, rigid=replace(result.rigid, slowdown=(2.0, 3.0)))
    report = replace(report_of(slower), suggested=None)
    assert verdict(report).startswith("Switching NIMO on would not help here")
    assert "But rigid jobs would be slower" in verdict(report)


def test_the_verdict_names_what_sparing_each_bystander_would_give():
    group = replace(replayed(), by_chance=())
    policy = replace_fields(group.setting.policy, bystanders=Bystanders.EACH)
    spared = replace(group.rigid, much_worse=0.002)
    each = replace(
        group,
        setting=replace(group.setting, policy=policy),
        rigid=spared,
        everybody=replace(group.everybody, response_ratio=0.966),
    )
    sentence = (
        "Sparing each waiting job it would be 0.2 % of them at most, and the mean response 0.97 "
        "times its present value."
    )
    assert said(group, each).endswith(sentence)
    assert sentence not in said(group)
    chosen = replace(report_of(group, each), suggested=each)
    assert "guard_ratio 1.25, sparing each waiting job." in verdict(chosen)
    assert sentence not in verdict(chosen)
