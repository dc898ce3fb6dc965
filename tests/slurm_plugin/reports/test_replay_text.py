"""What ``nimo replay`` says of those who take no part."""

from dataclasses import replace

import numpy as np

from slurm_plugin import config
from slurm_plugin.replay.assumed_jobs import Assumptions, assume
from slurm_plugin.replay.policy_search import Result, evaluate, settings
from slurm_plugin.replay.what_if import WhatIf
from slurm_plugin.replay.workload import Workload
from slurm_plugin.reports.replay_text import ReplayReport, verdict


def replayed() -> Result:
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


def said(result: Result) -> str:
    report = ReplayReport("a log", 2.0, 16, 0.7, (), (result,), result.setting.policy, result)
    return verdict(report)


def test_the_verdict_says_when_others_pay() -> None:
    result = replayed()
    calm = replace(result.rigid, response_ratio=1.0, slowdown=(2.0, 2.0))
    assert "rigid jobs would be" not in said(replace(result, rigid=calm))
    slower = said(replace(result, rigid=replace(calm, slowdown=(2.0, 3.0))))
    assert slower.endswith(
        "But rigid jobs would be slower: their mean response would be 1.00 times its present "
        "value, "
        "their slowdown 3.0 instead of 2.0."
    )
    later = said(replace(result, rigid=replace(calm, response_ratio=1.2)))
    assert "mean response would be 1.20 times its present value" in later
