"""What changes of a job that waits gain, by the queue run forward."""

from dataclasses import replace
from math import log

import pytest

from slurm_plugin.slurm.cluster_state import RawJob, RawNode, RawPartition, RawReservation, RawState
from slurm_plugin.slurm.job_edit import Edit, offered
from slurm_plugin.slurm.pending_edits import on_devices, on_nodes, shorter
from slurm_plugin.slurm.pending_job import PendingJob
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.wait_forecasts.changed_starts import ChangedStarts, compared

NOW = 1_790_000_000.0
HOUR = 3600.0
CONF = SlurmConf(cluster="pine", backfill_s=0.0)
JOB = PendingJob(
    job_id=17, user="ada", uid=1000, partitions=("batch",), priority=100, submit_s=NOW - 60,
    limit_s=2 * HOUR, nodes=2, cpus=8, exclusive=True, reason="Priority",
    tres={"cpu": 8.0, "node": 2.0},
)  # fmt: skip
OWN = RawJob(
    state="PENDING", job_id=17, partitions=("batch",), nodes=2, priority=100, submit_s=NOW - 60,
    limit_s=2 * HOUR, tres={"cpu": 8.0}, alone=True, reason="Priority", user="ada",
)  # fmt: skip


def node(name, *partitions, features=()):
    return RawNode(
        name=name, state=frozenset({"IDLE"}), cpus=4, mem_mib=1000,
        partitions=partitions or ("batch",), features=frozenset(features),
    )  # fmt: skip


def running(job_id, *names, hours, partition="batch"):
    """A job whose limit is far away; ``hours`` are left by what is predicted."""
    return RawJob(
        state="RUNNING", job_id=job_id, node_names=names, start_s=NOW, nodes=len(names),
        end_s=NOW + 24 * HOUR, limit_s=24 * HOUR, tres={"cpu": 4.0 * len(names)}, alone=True,
        partitions=(partition,), user="bob", comment=f"{hours}",
    )  # fmt: skip


def run_times(job):
    """Predictions of tests: a job's comment has the hours from a tenth less to a tenth more."""
    if not job.comment:
        return (), 0
    return tuple(log(float(job.comment) * HOUR * (0.9 + 0.02 * i)) for i in range(11)), 0


NODES = [node("n1"), node("n2"), node("n3")]
PARTITIONS = [RawPartition(name="batch"), RawPartition(name="short")]


def starts(*jobs, nodes=NODES, reservations=(), conf=CONF):
    raw = RawState(nodes=nodes, jobs=[*jobs, OWN], partitions=PARTITIONS, reservations=reservations)
    return ChangedStarts(raw, conf, run_times, now_s=NOW)


def gains(edits, *jobs, job=JOB, waits=True, **how):
    return compared(job, edits, starts(*jobs, **how), waits=waits)


BUSY = (running(1, "n1", hours=1), running(2, "n2", hours=3))


def test_a_start_follows_from_predictions_and_not_from_limits():
    start, _ = gains([], *BUSY)
    assert 0.9 * HOUR <= start.low_s - NOW < start.median_s - NOW < start.high_s - NOW <= 1.1 * HOUR


def behind(job_id, dependency, **fields):
    given = {"reason": "Dependency", "dependency": dependency, "nodes": 1, "tres": {"cpu": 4.0}}
    return replace(OWN, job_id=job_id, **given | fields)


@pytest.mark.parametrize("priority", [1, 500])
def test_a_chain_starts_as_its_jobs_end(priority):
    """Also where one that is waited for stands further behind."""
    second = behind(3, "afterok:2(unfulfilled)", comment="2", priority=priority)
    own = behind(17, "afterok:3(unfulfilled)")
    job = replace(JOB, reason="Dependency", nodes=1, cpus=4)
    raw = RawState(nodes=NODES, jobs=[*BUSY, second, own], partitions=PARTITIONS)
    start, _ = compared(job, [], ChangedStarts(raw, CONF, run_times, now_s=NOW), waits=True)
    assert start.median_s - NOW == pytest.approx(5 * HOUR, rel=0.1)


@pytest.mark.parametrize("dependency", ["afternotok:2(unfulfilled)", "afterok:77(unfulfilled)", ""])
def test_what_may_never_come_has_no_start(dependency):
    job = replace(JOB, reason="Dependency", nodes=1, cpus=4)
    raw = RawState(nodes=NODES, jobs=[*BUSY, behind(17, dependency)], partitions=PARTITIONS)
    start, _ = compared(job, [], ChangedStarts(raw, CONF, run_times, now_s=NOW), waits=True)
    assert start is None


def test_fewer_nodes_gain_what_the_second_node_is_waited_for():
    _, (edit,) = gains([on_nodes(JOB, 1)], *BUSY)
    assert edit.start_s == NOW
    assert edit.gain_s == pytest.approx(HOUR, rel=0.05)
    assert 0.9 * HOUR <= edit.gain_low_s < edit.gain_s < edit.gain_high_s <= 1.1 * HOUR
    assert 0.95 < edit.chance < 1.0


def test_a_change_that_gains_nothing_is_left_out():
    _, found = gains([shorter(JOB, HOUR)], *BUSY)
    assert found == []


def test_a_hole_before_a_job_that_goes_first():
    first = replace(OWN, job_id=3, nodes=5, priority=500, tres={"cpu": 20.0}, comment="2")
    jobs = (running(1, "n1", "n2", "n3", hours=1), first)
    five = [*NODES, node("n4"), node("n5")]
    long = replace(JOB, limit_s=30 * HOUR)
    # By limits the first one starts in 24 hours: what ends before may pass it.
    start, (edit,) = gains([shorter(long, HOUR)], *jobs, nodes=five, job=long)
    assert start.median_s - NOW == pytest.approx(3 * HOUR, rel=0.1)
    assert edit.start_s == NOW
    assert edit.gain_s == pytest.approx(3 * HOUR, rel=0.1)


def test_a_limit_that_ends_before_a_maintenance():
    upgrade = RawReservation(
        name="upgrade", start_s=NOW + 1.5 * HOUR, end_s=NOW + 9 * HOUR,
        node_names=("n1", "n2", "n3"), flags=frozenset({"MAINT"}),
    )  # fmt: skip
    start, (edit,) = gains([shorter(JOB, HOUR)], reservations=[upgrade])
    assert start.median_s == NOW + 9 * HOUR
    assert (edit.start_s, edit.gain_s) == (NOW, 9 * HOUR)


def test_another_partition_with_its_own_queue():
    nodes = [*NODES, node("s1", "short"), node("s2", "short")]
    there = running(5, "s1", "s2", hours=0.5, partition="short")
    elsewhere = Edit(
        fields={"Partition": "short"}, what="in short", job=replace(JOB, partitions=("short",))
    )
    _, (edit,) = gains([elsewhere], *BUSY, there, nodes=nodes)
    assert edit.start_s - NOW == pytest.approx(0.5 * HOUR, rel=0.1)
    assert edit.gain_s == pytest.approx(0.5 * HOUR, rel=0.3)


def test_nodes_that_are_named_and_what_they_must_have():
    nodes = [node("n1", features=("big",)), node("n2"), node("n3")]
    one = replace(JOB, nodes=1, cpus=4, tres={"cpu": 4.0, "node": 1.0})
    for job, change in (
        (replace(one, node_list="n1"), {"node_list": ""}),
        (replace(one, features="big"), {"features": ""}),
        (replace(one, excluded="n[2-3]"), {"excluded": ""}),
    ):
        edit = Edit(fields={"x": ""}, what="on any nodes", job=replace(job, **change))
        start, (made,) = gains([edit], *BUSY, nodes=nodes, job=job)
        assert start.median_s - NOW == pytest.approx(HOUR, rel=0.1)
        assert made.start_s == NOW


def test_jobs_that_wait_for_one_type_of_gpu_are_not_before_those_for_another():
    def gpus(name, kind):
        return replace(node(name), gres={"gpu": 2}, gpu_type=kind)

    def asks(kind):
        return {"cpu": 4.0, "gres/gpu": 2.0, f"gres/gpu:{kind}": 2.0}

    nodes = [gpus("n1", "a100"), gpus("n2", "h100"), gpus("n3", "h100")]
    before = [
        replace(OWN, job_id=n, nodes=1, priority=500, tres=asks("a100"), alone=False, comment="2")
        for n in range(30, 33)
    ]
    job = replace(
        JOB, nodes=1, cpus=4, exclusive=False, tres=asks("a100"),
        devices={"TresPerNode": "gres/gpu:a100:2"},
    )  # fmt: skip
    change = on_devices(job, "gpu:a100", "gpu:h100", in_queue=True)
    start, (made,) = gains([change], running(1, "n1", hours=1), *before, nodes=nodes, job=job)
    assert start.median_s - NOW == pytest.approx(7 * HOUR, rel=0.1)
    assert made.start_s == NOW


def test_a_higher_priority_passes_those_before():
    before = replace(OWN, job_id=3, nodes=3, priority=500, tres={"cpu": 12.0}, comment="5")
    long = replace(JOB, limit_s=30 * HOUR)
    urgent = replace(long, priority=900)
    edit = Edit(fields={"QOS": "x"}, what="in QOS x", job=urgent, passes=True)
    start, (made,) = gains([edit], *BUSY, before, job=long)
    assert start.median_s - NOW > 4.5 * HOUR
    assert made.start_s - NOW == pytest.approx(HOUR, rel=0.1)
    assert offered([made]) == [made]
    assert offered([edit]) == []


def test_a_job_that_is_held_has_no_gain_and_a_reservation_its_begin():
    held = replace(JOB, reason="JobHeldUser")
    start, (edit,) = gains([Edit(release=True, what="released", job=held)], job=held, waits=False)
    assert start is None
    assert (edit.start_s, edit.gain_s) == (NOW, None)
    course = RawReservation(
        name="course", start_s=NOW + HOUR, end_s=NOW + 5 * HOUR, node_names=("n1", "n2")
    )
    inside = replace(JOB, reason="Reservation", reservation="course")
    start, _ = gains([], job=inside, reservations=[course])
    assert start.median_s == NOW + HOUR


def test_what_no_node_can_take_stays_as_it_was():
    large = Edit(fields={"x": "y"}, what="on 9 nodes", job=replace(JOB, nodes=9), start_s=NOW)
    assert gains([large], *BUSY)[1] == [large]


def test_a_start_behind_a_long_queue_follows_from_its_work():
    before = replace(OWN, nodes=1, priority=500, tres={"cpu": 4.0}, comment="0.1")
    jobs = [replace(before, job_id=100 + n) for n in range(900)]
    start, found = gains([shorter(JOB, HOUR)], *jobs)
    assert start.median_s - NOW == pytest.approx(900 * 0.1 * HOUR / 3, rel=0.05)
    assert found == []


def test_slurm_looks_at_its_queue_now_and_then():
    late = replace(CONF, backfill_s=600.0)
    start, (edit,) = gains([on_nodes(JOB, 1)], *BUSY, conf=late)
    assert start.high_s - NOW > 1.05 * HOUR + 600
    assert edit.gain_low_s < 0.95 * HOUR - 600
    assert edit.gain_high_s > 1.05 * HOUR + 600


def test_limits_say_nothing_where_predictions_do():
    # All take the same limit: by limits no node is free before the other.
    _, found = gains([replace(on_nodes(JOB, 1), start_s=NOW + 24 * HOUR, gain_s=0.0)], *BUSY)
    assert offered(found)[0].start_s == NOW
    assert offered([replace(found[0], chance=None, gain_s=0.0)]) == []


def test_a_task_beyond_the_limit_of_its_array_starts_when_one_of_them_ends():
    """Without that limit it starts at once."""
    ran = replace(running(2, "n2", hours=3), array_id=17, tasks="1")
    own = replace(OWN, array_id=17, tasks="2-9", jobs=8, at_once=1, nodes=1, tres={"cpu": 4.0})
    raw = RawState(nodes=NODES, jobs=[ran, own], partitions=PARTITIONS)
    asks = {"nodes": 1, "cpus": 4, "tres": {"cpu": 4.0, "node": 1.0}}
    job = replace(JOB, reason="JobArrayTaskLimit", array_id=17, tasks="2-9%1", throttle=1, **asks)
    edit = Edit(what="without", job=replace(job, reason="", throttle=None))
    starts = ChangedStarts(raw, CONF, run_times, now_s=NOW)
    start, (sooner,) = compared(job, [edit], starts, waits=True)
    assert start.median_s - NOW == pytest.approx(3 * HOUR, rel=0.1)
    assert sooner.start_s == NOW
