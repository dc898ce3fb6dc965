"""The queues of a cluster, from what Slurm told."""

from math import log

import pytest

from slurm_plugin.slurm.cluster_state import RawJob, RawNode, RawPartition, RawReservation, RawState
from slurm_plugin.slurm.limits import LimitTables
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.wait_forecasts.simulated_queue import queues

NOW = 1_000_000.0


def node(number, *partitions, **fields):
    given = {"name": f"n{number}", "state": frozenset({"IDLE"}), "cpus": 8, "mem_mib": 800}
    return RawNode(**given | fields, partitions=partitions or ("batch",))


def pending(job_id, **fields):
    given = {"state": "PENDING", "reason": "Priority", "partitions": ("batch",), "limit_s": 60.0}
    given |= {"submit_s": NOW - 100 + job_id, "tres": {"cpu": 8.0}}
    return RawJob(job_id=job_id, **given | fields)


def running(job_id, *nodes, **fields):
    given = {"state": "RUNNING", "partitions": ("batch",), "start_s": NOW - 50, "end_s": NOW + 550}
    given |= {"tres": {"cpu": 8.0 * len(nodes)}, "nodes": len(nodes), "node_names": nodes}
    return RawJob(job_id=job_id, **given | fields)


def made(jobs=(), nodes=4, partitions=("batch",), all_nodes=None, reservations=(), **options):
    observed = RawState(
        nodes=all_nodes or [node(n) for n in range(nodes)],
        jobs=jobs,
        partitions=[p if isinstance(p, RawPartition) else RawPartition(name=p) for p in partitions],
        reservations=reservations,
    )
    given = {"settings": SlurmConf(), "limits": LimitTables(), **options}
    return queues(observed, lambda _: ((log(100.0),), 0), now_s=NOW, **given)


def test_jobs_that_run_count_with_their_limits_and_what_they_ran_for():
    (queue,) = made([running(1, "n0", "n1")])
    (job,) = queue.state.running
    assert (queue.units.units, job.units) == (32, 16)
    assert (job.limit_s, job.ran_s, job.log_run_s) == (600.0, 50.0, (log(100.0),))


def test_whole_nodes_are_counted_where_all_jobs_have_them():
    (queue,) = made([running(1, "n0", alone=True), pending(2, alone=True, nodes=3)])
    assert queue.units.units == 4
    assert [job.units for job in (*queue.state.running, *queue.state.waiting)] == [1, 3]


def test_the_scarcest_of_a_node_is_what_counts():
    gpu = [node(0, gres={"gpu": 4}, gpu_type="a100")]
    asks = {"cpu": 1.0, "mem": 100.0, "gres/gpu": 2.0, "gres/gpu:a100": 2.0}
    (queue,) = made([pending(1, tres=asks)], all_nodes=gpu)
    assert queue.state.waiting[0].units == 4
    (queue,) = made([pending(1, tres={"cpu": 1.0, "mem": 600.0})])
    assert queue.state.waiting[0].units == 6
    (queue,) = made(
        [pending(1, tres={"cpu": 1.0, "mem": 600.0})], settings=SlurmConf(counts_memory=False)
    )
    assert queue.state.waiting[0].units == 1


def test_jobs_wait_in_the_order_of_tier_priority_and_submission():
    jobs = [
        pending(1, priority=5),
        pending(2, priority=9),
        pending(3, priority=9, submit_s=NOW - 999),
        pending(4, priority=1, partitions=("first",)),
    ]
    nodes = [node(n, "batch", "first") for n in range(4)]
    (queue,) = made(jobs, all_nodes=nodes, partitions=("batch", RawPartition(name="first", tier=9)))
    assert queue.partitions == ("batch", "first")
    assert [job.number for job in queue.state.waiting] == [4, 3, 2, 1]


def test_who_would_not_start_if_nodes_were_free_is_not_in_the_queue():
    held = [pending(1, reason="JobHeldUser"), pending(2, reason="AssocMaxJobsLimit")]
    soon = pending(3, reason="BeginTime", start_s=NOW + 900)
    (queue,) = made([*held, soon, pending(4, reservation="r")])
    (job,) = queue.state.waiting
    assert (job.number, job.begin_s, queue.waiting) == (3, 900.0, 0)


def test_tasks_of_an_array_are_jobs_each():
    (queue,) = made([pending(1, jobs=50_000), pending(2)])
    tasks = queue.state.waiting
    assert (len(tasks), tasks[49_999].number, tasks[50_000].number) == (50_001, 1, 2)
    with pytest.raises(IndexError):
        tasks[50_001]


def test_partitions_that_share_some_nodes_count_a_part_of_each_others_jobs():
    nodes = [node(0), node(1), node(2, "batch", "big"), node(3, "big")]
    jobs = [pending(1, nodes=2, tres={"cpu": 16.0}), running(2, "n2", "n3", partitions=("big",))]
    batch, big = made(jobs, all_nodes=nodes, partitions=("batch", "big"))
    assert (batch.units.units, big.units.units) == (24, 16)
    assert [job.units for job in batch.state.running] == [8]
    assert [job.units for job in big.state.running] == [16]
    assert [job.units for job in batch.state.waiting] == [16]
    (other,) = big.state.waiting
    assert (other.units, other.number) == (8, -1)  # a third of its partition's nodes: one of two


def test_of_others_small_jobs_so_many_count_as_have_their_nodes_here():
    nodes = [node(0, "batch", "small"), *(node(n) for n in range(1, 4))]
    jobs = [pending(n, tres={"cpu": 1.0}) for n in range(400)]
    batch, small = made(jobs, all_nodes=nodes, partitions=("batch", "small"))
    assert (len(batch.state.waiting), batch.waiting) == (400, 400)
    assert len(small.state.waiting) == pytest.approx(100, abs=5)
    assert {job.number for job in small.state.waiting} == {-1}


def test_nodes_in_use_by_nobody_that_is_shown_are_taken():
    (queue,) = made(all_nodes=[node(0), node(1, cpus_used=2)])
    (hidden,) = queue.state.running
    assert hidden.units == 8
    assert hidden.limit_s > 1e7


def test_reservations_close_what_their_own_jobs_leave():
    maintenance = RawReservation(
        name="m", start_s=NOW + 100, end_s=NOW + 200, node_names=("n0", "n1", "n2")
    )
    over = RawReservation(name="o", start_s=NOW - 100, end_s=NOW - 50, node_names=("n0",))
    job = running(1, "n0", reservation="m")
    (queue,) = made([job], reservations=[maintenance, over])
    assert queue.state.closings == [(100.0, 200.0, 16)]


def test_nodes_that_are_down_and_partitions_that_are_closed_have_no_queue():
    down = [node(0), node(1, state=frozenset({"DOWN"}))]
    (queue,) = made(all_nodes=down, partitions=("batch", RawPartition(name="off", up=False)))
    assert (queue.partitions, queue.units.nodes) == (("batch",), 1)
