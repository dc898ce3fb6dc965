"""Only what may start is a queue: jobs that never can move nobody's decision."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as replaced

from slurm_plugin.slurm.cluster_state import RawPartition, RawReservation, RawState
from slurm_plugin.slurm.limits import LimitTables, Qos, ResourceLimits
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.snapshot import build
from slurm_plugin.slurm.startable import StartableJobs
from slurm_plugin.wait_forecasts.simulated_queue import queues
from tests.slurm_plugin.slurm.test_snapshot import HOUR, NOW, node, pending, running

BATCH = RawPartition(name="batch", default=True, max_time_s=24 * HOUR)
SMALL = RawPartition(name="small", max_nodes=1, max_time_s=HOUR)
CLOSED = RawPartition(name="closed", up=False)
NODES = [
    node("n1", partitions="batch,small,closed", features=frozenset({"gpu"})),
    node("n2", partitions="batch,small,closed"),
    node("n3", partitions="batch"),
    node("n4", "DOWN", partitions="batch"),
]
#: What jobs wait for that start as soon as nodes are free, and for what others do (squeue(1)).
FOR_NODES = ("", "Priority", "Resources", "Cleaning", "Prolog")
FOR_ELSE = (
    *("PartitionNodeLimit", "PartitionTimeLimit", "PartitionDown", "PartitionInactive"),
    *("BadConstraints", "JobHeldUser", "JobHeldAdmin", "BeginTime", "Dependency", "Licenses"),
    *("DependencyNeverSatisfied", "JobArrayTaskLimit", "ReqNodeNotAvail", "Reservation"),
    *("launch failed requeued held", "JobHoldMaxRequeue", "InvalidAccount", "InvalidQOS"),
    *("QOSMaxJobsPerUserLimit", "AssocGrpCpuLimit", "AccountNotAllowed", "DeadLine"),
    *("BurstBufferStageIn", "ReservationDeleted", "a reason of a later release"),
)


def raw(*jobs, **fields):
    return RawState(nodes=NODES, jobs=jobs, partitions=(BATCH, SMALL, CLOSED), **fields)


def startable(job, limits=None):
    return StartableJobs(raw(job), SlurmConf(), limits).partitions(job)


@pytest.mark.parametrize("reason", FOR_NODES)
def test_what_waits_for_nodes_or_its_turn_may_start(reason):
    assert startable(pending(1, reason)) == ("batch",)


@pytest.mark.parametrize("reason", FOR_ELSE)
def test_what_waits_for_anything_else_may_not_and_neither_for_what_is_new(reason):
    assert startable(pending(1, reason)) == ()


@pytest.mark.parametrize(
    ("job", "partitions"),
    [
        (pending(3), ("batch",)),  # three of four nodes are up
        (pending(4), ()),
        (pending(2, partitions="small"), ()),
        (pending(1, partitions="small,batch", limit_s=2 * HOUR), ("batch",)),
        (pending(1, partitions="small", limit_s=HOUR), ("small",)),
        (pending(1, limit_s=25 * HOUR), ()),
        (pending(1, partitions="closed"), ()),
        (pending(1, partitions="nowhere"), ()),
        (pending(1, features="gpu"), ("batch",)),
        (pending(2, features="gpu"), ()),
        (pending(1, features="tape"), ()),
        (pending(2, tres={"cpu": 8.0}), ("batch",)),
        (pending(2, tres={"cpu": 10.0}), ()),
        (pending(1, tres={"cpu": 1.0, "mem": 2001.0}), ()),
        (pending(1, tres={"cpu": 1.0, "gres/gpu": 1.0}), ()),
        (pending(1, reservation="course"), ()),
        (pending(1, "ReqNodeNotAvail", reserved=True), ("batch",)),
        (running("n1", NOW + HOUR), ()),
    ],
)
def test_a_job_may_start_where_its_partition_could_hold_it(job, partitions):
    assert startable(job) == partitions


def test_a_qos_may_lift_the_limits_of_a_partition():
    flags = frozenset({"PartitionTimeLimit", "PartitionMaxNodes"})
    limits = LimitTables(qos={"long": Qos(limits=ResourceLimits(flags=flags))})
    job = pending(2, partitions="small", limit_s=9 * HOUR, qos="long")
    assert startable(job, limits) == ("small",)
    assert startable(job) == ()


def test_memory_counts_where_the_site_counts_it():
    job = pending(1, tres={"cpu": 1.0, "mem": 2001.0})
    assert StartableJobs(raw(job), SlurmConf(counts_memory=False)).partitions(job) == ("batch",)


def test_the_most_cpus_of_a_partition_bound_its_jobs():
    few = replaced(BATCH, max_cpus_node=2)
    job = pending(1, tres={"cpu": 3.0})
    assert (
        StartableJobs(RawState(nodes=NODES, partitions=(few,)), SlurmConf()).partitions(job) == ()
    )


NEVER = st.one_of(
    st.builds(pending, st.integers(1, 3), st.sampled_from(FOR_ELSE), st.just("batch,small")),
    st.builds(pending, st.integers(4, 90), st.sampled_from(FOR_NODES)),
    st.builds(
        pending, st.just(1), st.sampled_from(FOR_NODES), st.just("small"), limit_s=st.just(9 * HOUR)
    ),
    st.builds(pending, st.just(1), st.sampled_from(FOR_NODES), st.just("closed")),
    st.builds(pending, st.just(1), st.sampled_from(FOR_NODES), features=st.just("tape")),
    st.builds(pending, st.just(1), st.just(""), tres=st.just({"cpu": 5.0})),
    st.builds(pending, st.just(1), st.just(""), reservation=st.just("course")),
)
MAY = st.builds(
    pending,
    st.integers(1, 3),
    st.sampled_from(FOR_NODES),
    st.sampled_from(("batch", "small,batch")),
    limit_s=st.just(HOUR),
    tres=st.just({"cpu": 3.0}),
    start_s=st.sampled_from((NOW + HOUR, float("inf"))),
    end_s=st.just(NOW + 2 * HOUR),
)


def seen(jobs):
    """What decisions are made by: the partitions, and the queues that are run forward."""
    state = raw(*jobs, reservations=(RawReservation(name="course", start_s=NOW, end_s=NOW + HOUR),))
    view = build(state, SlurmConf(), cluster="pine", taken_s=NOW)
    forward = queues(
        state, lambda _: ((), 0), now_s=NOW, settings=SlurmConf(), limits=LimitTables()
    )
    parts = [replaced(part, pool=None) for part in view.partitions.values()]
    return parts, [(one.waiting, list(one.state.waiting)) for one in forward]


@given(st.lists(MAY, max_size=4), st.lists(NEVER, max_size=6), st.integers(1, 500))
def test_jobs_that_can_never_start_change_nothing_that_decisions_are_made_by(may, never, tasks):
    flood = [replace(job, jobs=tasks) for job in never]
    assert seen([*may, *flood]) == seen(may)
