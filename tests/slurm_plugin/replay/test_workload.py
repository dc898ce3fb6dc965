"""Histories as workloads."""

import numpy as np
import pytest

from sacct_ingest.errors import NimoError
from slurm_plugin.replay.workload import Workload, most_at_once
from tests.sacct_ingest.records import SUBMIT_S, run


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
