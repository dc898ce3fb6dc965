"""Histories as workloads."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from sacct_ingest.errors import NimoError
from slurm_plugin.replay.what_if import ObservedArrivals
from slurm_plugin.replay.workload import Workload, most_at_once
from tests.slurm_plugin.reports.rows import AT_S, run

SUBMIT_S = int(AT_S)


def test_jobs_come_in_the_order_in_which_they_could_start():
    waits = run(job_id=1, eligible_s=SUBMIT_S + 50, start_s=SUBMIT_S + 60)
    made = Workload.of([waits, run(job_id=2)])
    assert [one.job_id for one in made.runs] == [2, 1]
    assert made.submit_s.tolist() == [SUBMIT_S, SUBMIT_S + 50]


def test_runs_that_never_ran_are_left_out():
    made = Workload.of([run(job_id=1), run(job_id=2, start_s=None), run(job_id=3, elapsed_s=0.0)])
    assert len(made) == 1


def test_the_cluster_is_as_large_as_its_busiest_moment():
    runs = [
        run(job_id=1, nodes=2, start_s=SUBMIT_S, elapsed_s=100.0),
        run(job_id=2, nodes=3, start_s=SUBMIT_S + 50, elapsed_s=100.0),
        run(job_id=3, nodes=4, start_s=SUBMIT_S + 150, elapsed_s=10.0),
    ]
    assert most_at_once(runs) == Workload.of(runs).cluster_nodes == 5


def test_a_given_size_leaves_larger_jobs_out():
    made = Workload.of([run(job_id=1, nodes=2), run(job_id=2, nodes=9)], cluster_nodes=8)
    assert made.nodes.tolist() == [2]
    assert made.cluster_nodes == 8


def test_jobs_without_a_limit_get_one_that_they_make():
    made = Workload.of([run(job_id=1, limit_s=None, elapsed_s=7200.0), run(job_id=2, limit_s=60)])
    assert made.limit_s.tolist() == [10800.0, 60.0]


def test_load_can_be_chosen():
    made = Workload.of([run(job_id=n, submit_s=SUBMIT_S + 200 * n) for n in range(11)])
    denser = made.at_load(0.9)
    assert denser.load == pytest.approx(0.9)
    assert np.ptp(denser.submit_s) == pytest.approx(np.ptp(made.submit_s) * made.load / 0.9)
    assert denser.submit_s[0] == made.submit_s[0]


def test_nothing_to_replay_is_an_error():
    with pytest.raises(NimoError, match="nothing to replay"):
        Workload.of([])


def test_nodes_that_jobs_share_count_once():
    """Twenty-five jobs of one node on eight nodes, several at once on each."""
    runs = [
        run(job_id=n, nodes=1, node_list=f"pine{1 + n % 8}", start_s=SUBMIT_S, elapsed_s=100.0)
        for n in range(25)
    ]
    assert most_at_once(runs) == 25
    assert Workload.of(runs).cluster_nodes == 8


def test_where_a_run_names_no_nodes_the_busiest_moment_counts():
    runs = [run(job_id=1, nodes=3), run(job_id=2, nodes=2, node_list="pine[1-2]")]
    assert Workload.of(runs).cluster_nodes == 5


def workload(nodes=2):
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
