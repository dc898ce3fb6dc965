"""What would start a job sooner that waits."""

from dataclasses import replace
from math import inf

import pytest

from slurm_plugin.slurm.cluster_state import RawJob, RawNode, RawPartition, RawReservation, RawState
from slurm_plugin.slurm.job_edit import offered
from slurm_plugin.slurm.limit_reasons import binding_limit, limit_reason
from slurm_plugin.slurm.pending_edits import OwnAccess, edits_of
from slurm_plugin.slurm.pending_job import PendingJob
from slurm_plugin.slurm.queue_facts import facts_of
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.start_plan import StartPlan

NOW = 1_790_000_000.0
HOUR = 3600.0
PARTITIONS = (
    RawPartition(name="batch", max_nodes=4, max_time_s=4 * HOUR),
    RawPartition(name="short", max_time_s=HOUR),
    RawPartition(name="barred", accounts=frozenset({"chemistry"})),
    RawPartition(name="down", up=False),
)
JOB = PendingJob(
    job_id=17, user="ada", uid=1000, account="physics", qos="normal", partitions=("batch",),
    priority=100, submit_s=NOW - 60, limit_s=2 * HOUR, nodes=2, cpus=4, reason="Priority",
    tres={"cpu": 4.0, "node": 2.0, "mem": 2000.0}, mem_node_mib=1000,
)  # fmt: skip


def node(name, *partitions, used=0):
    return RawNode(
        name=name, state=frozenset({"IDLE"}), cpus=4, cpus_used=used, mem_mib=1000,
        mem_used_mib=1000 if used else 0, partitions=partitions or ("batch",),
    )  # fmt: skip


def running(job_id, *names, hours):
    return RawJob(
        state="RUNNING", job_id=job_id, node_names=names, start_s=NOW - HOUR, nodes=len(names),
        end_s=NOW + hours * HOUR, tres={"cpu": 4.0 * len(names), "mem": 1000.0 * len(names)},
        partitions=("batch",), user="bob",
    )  # fmt: skip


def edits(raw, job=JOB, access=OwnAccess(), predicted_s=None, binding=None):  # noqa: B008
    raw = replace(raw, partitions=PARTITIONS)
    facts = replace(facts_of(raw, job, now_s=NOW), binding=binding)
    plan = StartPlan(raw, SlurmConf(cluster="pine"), job, now_s=NOW)
    return offered(edits_of(job, facts, plan, access, predicted_s=predicted_s))


def lines(raw, job=JOB, **how):
    return [" ".join(edit.argv) for edit in edits(raw, job, **how)]


FULL = RawState(
    nodes=[node("n1", used=4), node("n2", used=4), node("n3")],
    jobs=[running(1, "n1", hours=1), running(2, "n2", hours=3)],
)
MAINTENANCE = RawReservation(
    name="upgrade", start_s=NOW + 1.5 * HOUR, end_s=NOW + 9 * HOUR, node_names=("n1", "n2", "n3"),
    flags=frozenset({"MAINT"}),
)  # fmt: skip


def test_fewer_nodes_are_offered_where_they_are_free():
    (edit,) = edits(FULL)
    assert edit.argv == ("scontrol", "update", "JobId=17", "NumNodes=1-1")
    assert edit.start_s == NOW
    assert edit.gain_s == HOUR
    assert edit.caution == "it may take longer on fewer"
    assert edit.job.tres["mem"] == 1000.0


def test_a_limit_that_ends_before_a_maintenance():
    idle = RawState(nodes=[node("n1"), node("n2"), node("n3")], reservations=[MAINTENANCE])
    for reason in ("Priority", "ReqNodeNotAvail"):
        found = lines(idle, replace(JOB, reason=reason))
        assert found == ["scontrol update JobId=17 TimeLimit=01:29:00"]
    assert lines(idle, predicted_s=HOUR) == found
    # It runs for longer: nothing is offered that would end it.
    assert lines(idle, predicted_s=1.6 * HOUR) == []
    assert lines(idle, replace(JOB, least_s=1.6 * HOUR)) == []


def test_a_hole_before_a_job_that_goes_first():
    first = RawJob(
        state="PENDING", job_id=3, nodes=3, partitions=("batch",), reason="Resources", user="bob",
        priority=500, start_s=NOW + HOUR, end_s=NOW + 3 * HOUR, limit_s=2 * HOUR,
        tres={"cpu": 12.0, "mem": 3000.0}, planned_names=("n1", "n2", "n3"),
    )  # fmt: skip
    behind = replace(first, job_id=4, priority=1, start_s=NOW, planned_names=("n2", "n3"))
    raw = RawState(
        nodes=[node("n1", used=4), node("n2"), node("n3")],
        jobs=[running(1, "n1", hours=1), first, behind],
    )
    assert lines(raw)[0] == "scontrol update JobId=17 TimeLimit=00:59:00"


def test_another_partition_that_takes_it():
    nodes = [*FULL.nodes, node("s1", "short", "barred"), node("s2", "short", "barred")]
    raw = replace(FULL, nodes=nodes)
    assert "scontrol update JobId=17 Partition=short" not in lines(raw)  # its limit is too long
    found = lines(raw, replace(JOB, limit_s=HOUR))
    assert "scontrol update JobId=17 Partition=short" in found
    assert not any("barred" in line or "down" in line for line in found)


def test_less_memory_and_shared_nodes():
    half = [node("n1", used=0), node("n2", used=0)]
    half = [replace(one, mem_used_mib=500, cpus_used=1) for one in half]
    small = replace(running(1, "n1", "n2", hours=5), tres={"cpu": 2.0, "mem": 1000.0})
    raw = RawState(nodes=half, jobs=[small])
    job = replace(JOB, cpus=2, tres={"cpu": 2.0, "node": 2.0, "mem": 2000.0})
    assert lines(raw, job)[0] == "scontrol update JobId=17 MinMemoryNode=500"
    alone = replace(job, exclusive=True, tres={"cpu": 2.0, "node": 2.0, "mem": 400.0})
    (edit,) = edits(raw, alone)
    assert edit.what == "without --exclusive"
    assert edit.argv == ()
    assert "submit it anew" in edit.caution


def gpus(name, kind, *partitions, count=2, used=0):
    return replace(
        node(name, *partitions, used=used), gres={"gpu": count}, gpu_type=kind,
        gres_used={"gpu": count if used else 0},
    )  # fmt: skip


ON_A100 = replace(
    JOB, nodes=1, limit_s=HOUR, tres={"cpu": 4.0, "mem": 1000.0, "gres/gpu": 2.0},
    devices={"TresPerNode": "gres/gpu:a100:2,gres/shard:1"},
)  # fmt: skip
TWO_TYPES = RawState(
    nodes=[gpus("n1", "a100", used=4), gpus("n2", "h100"), gpus("n3", "t4", count=1)],
    jobs=[replace(running(1, "n1", hours=1), tres={"cpu": 4.0, "mem": 1000.0, "gres/gpu": 2.0})],
)


def test_another_type_of_gpu_of_which_there_are_as_many():
    (edit,) = edits(TWO_TYPES, ON_A100)
    assert edit.argv[2:] == ("JobId=17", "TresPerNode=gres/gpu:h100:2,gres/shard:1")
    assert (edit.start_s, edit.gain_s) == (NOW, HOUR)
    assert edit.what == "with gpu:h100 in place of gpu:a100"
    assert edit.job.device_options == {"--gres": "gpu:h100:2,shard:1"}
    of_all = replace(ON_A100, devices={"TresPerJob": "gres:gpu:a100:2"})
    assert edits(TWO_TYPES, of_all)[0].argv[3] == "TresPerJob=gres:gpu:h100:2"
    assert edits(TWO_TYPES, replace(ON_A100, devices={"TresPerNode": "gres/gpu:2"})) == []


def test_types_of_gpus_are_spelled_as_request_and_nodes_have_them():
    nodes = [gpus("n1", "A100", used=4), gpus("n2", "H100")]
    tres = {"cpu": 4.0, "mem": 1000.0, "gres/gpu": 2.0, "gres/gpu:a100": 2.0}
    job = replace(ON_A100, tres=tres, devices={"TresPerNode": "gres/gpu:A100:2"})
    one_of_two = {"gres/gpu": 3.0, "gres/gpu:a100": 2.0, "gres/gpu:v100": 1.0}
    assert replace(job, tres=one_of_two).device_types == {"gpu:A100": 2.0}
    (edit,) = edits(replace(TWO_TYPES, nodes=nodes), job)
    assert edit.argv[2:] == ("JobId=17", "TresPerNode=gres/gpu:H100:2")
    assert edit.what == "with gpu:H100 in place of gpu:A100"
    assert edit.job.tres.keys() == {"cpu", "mem", "gres/gpu", "gres/gpu:h100"}


def test_another_type_of_gpu_is_in_another_partition():
    nodes = [TWO_TYPES.nodes[0], gpus("s1", "h100", "short"), gpus("s2", "h100", "barred")]
    (line,) = lines(replace(TWO_TYPES, nodes=nodes), ON_A100)
    assert line.endswith(" TresPerNode=gres/gpu:h100:2,gres/shard:1 Partition=short")


def test_releases_that_would_add_the_other_type_take_a_new_submission():
    (edit,) = edits(TWO_TYPES, ON_A100, access=OwnAccess(changes_devices=False))
    assert edit.argv == ()
    assert edit.caution.endswith("submit it anew with --gres=gpu:h100:2,shard:1")


IDLE = RawState(nodes=[node("n1"), node("n2"), node("n3"), node("s1", "short")])
ASSOC_MGR = """\
QOS=normal(1) GrpTRES=cpu=4(0),node=1(0) MaxWallPJ=60 MaxTRESPJ=node=1 MaxTRESMinsPJ=cpu=240
QOS=long(2) GrpTRES=cpu=4(2) MaxWallPJ=600 MaxTRESPJ= MaxTRESMinsPJ=
QOS=tight(3) GrpTRES=cpu=2(0) MaxWallPJ=10 MaxTRESPJ=node=1 MaxTRESMinsPJ=cpu=10
"""


def limited(reason, job=JOB):
    job = replace(job, reason=reason)
    limit = limit_reason(reason)

    def binding(made):
        return binding_limit(ASSOC_MGR, limit, made, (made.qos,))

    access = OwnAccess(qos=("long", "tight"), accounts=("chemistry",), binding=binding)
    return lines(IDLE, job, access=access, binding=binding(job))


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("QOSMaxWallDurationPerJobLimit", ["TimeLimit=01:00:00", "QOS=long"]),
        ("QOSMaxNodePerJobLimit", ["NumNodes=1-1", "QOS=long"]),
        ("QOSMaxCpuMinutesPerJobLimit", ["TimeLimit=01:00:00", "QOS=long"]),
        ("QOSGrpNodeLimit", ["NumNodes=1-1", "QOS=long", "QOS=tight"]),
        ("QOSGrpCpuLimit", []),  # no QOS has room for 4 CPUs
    ],
)
def test_what_a_limit_leaves_and_where_there_is_none(reason, changes):
    assert sorted(limited(reason)) == sorted(f"scontrol update JobId=17 {one}" for one in changes)


def test_an_association_s_limit_leads_to_another_account():
    assert "scontrol update JobId=17 Account=chemistry" in limited("AssocGrpCpuLimit")


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"reason": "JobHeldUser"}, "scontrol release 17"),
        ({"reason": "JobHeldAdmin"}, None),
        ({"reason": "Dependency"}, None),
        ({"reason": "DependencyNeverSatisfied"}, "scontrol update JobId=17 Dependency="),
        (
            {"reason": "BeginTime", "eligible_s": NOW + HOUR},
            "scontrol update JobId=17 StartTime=now",
        ),
        ({"reason": "BeginTime", "eligible_s": NOW + 30}, None),
        ({"reason": "JobArrayTaskLimit"}, "scontrol update JobId=17 ArrayTaskThrottle=0"),
        ({"reason": "ReservationDeleted"}, "scontrol update JobId=17 Reservation="),
        ({"reason": "PartitionNodeLimit", "nodes": 9}, "scontrol update JobId=17 NumNodes=3-3"),
        ({"reason": "PartitionTimeLimit", "limit_s": 9 * HOUR}, "TimeLimit=04:00:00"),
        ({"reason": "PartitionDown", "partitions": ("down",)}, "Partition=batch"),
        ({"reason": "NodeDown", "node_list": "n9"}, "scontrol update JobId=17 ReqNodeList="),
    ],
)
def test_what_takes_away_what_holds_a_job(fields, line):
    found = lines(IDLE, replace(JOB, **fields))
    if line is None:
        assert found == []
    else:
        assert line in found[0]


def test_nodes_that_a_job_names_are_the_only_ones_for_it():
    raw = replace(FULL, partitions=PARTITIONS)
    plan = StartPlan(raw, SlurmConf(), JOB, now_s=NOW)
    one = replace(JOB, nodes=1, tres={"cpu": 4.0, "mem": 1000.0})
    assert plan.start_s(one) == NOW
    assert plan.start_s(replace(one, node_list="n2")) == NOW + 3 * HOUR
    assert plan.start_s(replace(one, nodes=9)) == inf
