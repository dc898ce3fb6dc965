"""Demand of jobs to come in a replay: from what came before, and nothing else."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from slurm_plugin.replay.what_if import ObservedArrivals
from slurm_plugin.replay.workload import Workload


def workload(nodes: int = 2) -> Workload:
    count = 1_000
    return Workload(
        submit_s=90.0 * np.arange(count),
        nodes=np.full(count, nodes),
        run_s=np.full(count, 300.0),
        limit_s=np.full(count, 600.0),
        wait_s=np.zeros(count),
        users=("ada",) * count,
        cluster_nodes=32,
    )


def test_the_demand_is_a_share_of_the_cluster_once_jobs_have_come():
    past = ObservedArrivals(workload())
    assert past.demand(0.0).within(240.0, 0.8) == inf
    assert past.demand(90.0 * 300).within(240.0, 0.8) == pytest.approx(4 / 32)


def test_jobs_that_come_later_do_not_count():
    work = workload()
    later = replace(work, nodes=np.where(np.arange(len(work)) < 500, 2, 32))
    for moment in (90.0 * 150, 90.0 * 499):
        one, other = (ObservedArrivals(each).demand(moment) for each in (work, later))
        assert one == other
    assert ObservedArrivals(later).demand(90.0 * 999).within(240.0, 1.0) > 1.0
