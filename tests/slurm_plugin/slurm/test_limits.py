"""Limits of QOS, partition and association: as Slurm writes them, and as it means them."""

import json
import os
import sysconfig
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.errors import SlurmError
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm import limits
from slurm_plugin.slurm.node_pool import NodeShare
from slurm_plugin.slurm.partition_view import partition_for
from slurm_plugin.slurm.poller import ClusterPoller
from tests.processes import wait_until
from tests.slurm_plugin.made import partition

# As Slurm 22.05 writes it, without the resources that nobody limits.
ASSOC_MGR_TEXT = """\
Current Association Manager state
User Records
UserName=alice(1000) DefAccount=sub DefWckey= AdminLevel=Not Set
UserName=bob(1001) DefAccount=(null) DefWckey= AdminLevel=Not Set
Association Records
ClusterName=nimo Account=root UserName= Partition= Priority=0 ID=1 ParentAccount= Lft=1 \
GrpTRES=cpu=N(2),node=N(2) GrpTRESMins=cpu=N(0) GrpTRESRunMins=cpu=N(20) MaxWallPJ= MaxTRESPJ= \
MaxTRESPN= MaxTRESMinsPJ= MinPrioThresh=
ClusterName=nimo Account=top UserName= Partition= Priority=0 ID=3 ParentAccount=root(1) Lft=2 \
GrpTRES=cpu=24(2),mem=N(200),node=N(2) GrpTRESMins=cpu=N(0) GrpTRESRunMins=cpu=N(20) MaxWallPJ= \
MaxTRESPJ=node=6 MaxTRESPN= MaxTRESMinsPJ= MinPrioThresh=
ClusterName=nimo Account=sub UserName= Partition= Priority=0 ID=4 ParentAccount=top(3) Lft=3 \
GrpTRES=cpu=N(2),node=5(2) GrpTRESMins=cpu=N(0),node=600(100) GrpTRESRunMins=cpu=N(20),node=N(20) \
MaxWallPJ=120 MaxTRESPJ=node=6 MaxTRESPN= MaxTRESMinsPJ= MinPrioThresh=
ClusterName=nimo Account=sub UserName=alice(1000) Partition= Priority=0 ID=5 ParentAccount= Lft=4 \
GrpTRES=cpu=N(2),node=N(2) GrpTRESMins=cpu=N(0) GrpTRESRunMins=cpu=N(20) MaxWallPJ=120 \
MaxTRESPJ=node=4,mem=8G MaxTRESPN= MaxTRESMinsPJ=cpu=960 MinPrioThresh=
ClusterName=nimo Account=sub UserName=alice(1000) Partition=lim Priority=0 ID=6 ParentAccount= \
GrpTRES=cpu=N(0) GrpTRESMins=cpu=N(0) GrpTRESRunMins=cpu=N(0) MaxWallPJ=120 MaxTRESPJ=node=2
ClusterName=other Account=sub UserName=alice(1000) Partition= Priority=0 ID=7 ParentAccount= \
GrpTRES=cpu=N(0) GrpTRESMins=cpu=N(0) GrpTRESRunMins=cpu=N(0) MaxWallPJ=1 MaxTRESPJ=node=1
QOS Records
QOS=normal(1) UsageRaw=0.000000 GrpTRES=cpu=N(2),node=N(2) GrpTRESMins=cpu=N(0) \
GrpTRESRunMins=cpu=N(20) MaxWallPJ= MaxTRESPJ= MaxTRESMinsPJ=  MinTRESPJ= PreemptMode=OFF \
Priority=0 Account Limits= sub={MaxJobsPA=N(1) MaxTRESPA=cpu=N(2)} User Limits= \
1000={MaxJobsPU=N(1) MaxTRESPU=cpu=N(2),node=N(2)}
QOS=three(4) UsageRaw=0.000000 GrpTRES=cpu=N(0),node=N(0) GrpTRESMins=cpu=N(0) \
GrpTRESRunMins=cpu=N(0) MaxWallPJ=60 MaxTRESPJ=node=3 MaxTRESMinsPJ=  MinTRESPJ=cpu=2 \
PreemptMode=OFF Priority=0 Account Limits=No Accounts User Limits=No Users
QOS=pq(3) UsageRaw=0.000000 GrpTRES=cpu=N(0),node=7(1) GrpTRESMins=cpu=N(0) \
GrpTRESRunMins=cpu=N(0) MaxWallPJ= MaxTRESPJ=node=5 MaxTRESMinsPJ=  MinTRESPJ= PreemptMode=OFF \
Priority=0 Account Limits= sub={MaxTRESPA=cpu=18(6)} User Limits= \
1000={MaxJobsPU=N(0) MaxTRESPU=cpu=20(12),node=N(3)}
"""
QOS_TEXT = """\
normal|||
pq||cpu=20|cpu=18
three|DenyOnLimit,OverPartQOS,PartitionMaxNodes||
"""
ASSOC_TEXT = """\
nimo|sub|||normal,three|three
nimo|sub|alice||normal,three|
nimo|sub|bob||three|
nimo|sub|alice|lim|normal,three|three
"""


def tables(enforced="associations,limits,qos"):
    return limits.read_limits(
        ASSOC_MGR_TEXT, QOS_TEXT, ASSOC_TEXT, cluster="nimo", enforced=enforced.split(",")
    )


def allowed(
    low=1,
    high=8,
    cpus=1,
    *,
    safe=False,
    limit_s=None,
    user="alice",
    uid=1000,
    account="",
    qos="",
    **where,
):
    job = Job(user_name=user, user_id=uid, account=account, qos=qos)
    result = limits.limits_of(tables(), job, **{"partition": "batch", **where})
    need = limits.ResourceNeed(low=low, high=high, per_node={"cpu": cpus}, limit_s=limit_s)
    return limits.node_range(need, result, safe=safe)


def test_limits_and_use_are_read():
    assert list(limits.amounts("cpu=N(2),mem=8G,gres/gpu=5(2),node=7")) == [
        ("cpu", None, 2.0),
        ("mem", 8192.0, 0.0),
        ("gres/gpu", 5.0, 2.0),
        ("node", 7.0, 0.0),
    ]


def test_the_users_own_limit_holds_in_the_default_account():
    result = allowed()
    assert (result.low, result.high, result.max_time_s) == (1, 3, 7200.0)
    # Two of the account's five nodes are taken; alice alone might have four.
    assert result.reason == "GrpTRES=node=5 of account sub"


def test_an_association_with_a_partition_goes_before_the_one_without():
    assert allowed(partition="lim", qos="normal").high == 2


def test_a_qos_goes_before_the_association():
    result = allowed(qos="three")
    assert (result.high, result.max_time_s) == (3, 3600.0)
    assert allowed(qos="three", low=4).high == 3


def test_a_partitions_qos_goes_before_the_jobs_unless_that_is_over_it():
    assert allowed(partition_qos="pq").reason == "MaxTRESPerJob=node=5 of QOS pq"
    assert allowed(partition_qos="pq", qos="three").reason == "MaxTRESPerJob=node=3 of QOS three"


def test_what_the_user_has_running_is_taken_off_the_users_limit():
    # 20 CPUs less 12; another user has all of them, but not more than the account's 18 less 6.
    assert allowed(partition_qos="pq", cpus=4).high == 2
    assert allowed(partition_qos="pq", cpus=4, user="bob", uid=1001, account="sub").high == 3
    assert allowed(partition_qos="pq", cpus=4, user="eve", uid=1, account="x").high == 4


def test_a_job_that_waits_for_its_group_anyway_may_have_all_that_the_group_may_have():
    assert allowed(low=4).high == 4
    assert allowed(low=5, account="other").high == 8


def test_a_least_size_raises_the_range():
    assert allowed(qos="three", cpus=1).low == 2
    assert allowed(qos="three", cpus=2).low == 1


def test_minutes_of_a_job_and_of_a_group():
    # 960 CPU-minutes for one job; 600 node-minutes for the account, 120 of them used or promised.
    assert allowed(limit_s=3600.0, cpus=8).high == 2
    assert allowed(limit_s=240 * 60.0, cpus=1).high == 3
    assert allowed(limit_s=240 * 60.0, cpus=1, safe=True).high == 2


def test_limits_that_are_not_enforced_do_not_hold():
    assert tables("associations,qos").associations == {}
    assert not tables("limits").safe
    assert tables("safe").safe


def test_qos_of_a_job_that_names_none():
    recorded = tables()
    assert recorded.qos_of(recorded.association("alice", "sub", "lim"), "") == "three"
    assert recorded.qos_of(recorded.association("alice", "sub", "batch"), "") == "normal"
    assert recorded.qos_of(None, "pq") == "pq"


def test_text_of_another_kind_is_an_error_of_ours():
    with pytest.raises(SlurmError, match="cannot read"):
        limits.read_limits("QOS=a(1) MaxTRESPJ=node=1.2.3\n", cluster="", enforced=["limits"])


CAPS = st.builds(
    limits.Cap,
    kind=st.sampled_from(sorted(set(limits.LimitKind) - {limits.LimitKind.LEAST})),
    resource=st.sampled_from(["node", "cpu"]),
    limit=st.integers(1, 64).map(float),
    used=st.integers(0, 64).map(float),
)


@given(st.lists(CAPS, max_size=5), st.integers(1, 9), st.integers(1, 8), st.booleans())
def test_no_limit_is_ever_exceeded(caps, low, cpus, safe):
    need = limits.ResourceNeed(low=low, high=32, per_node={"cpu": cpus}, limit_s=60.0)
    high = limits.node_range(need, limits.ResourceLimits(caps=tuple(caps)), safe=safe).high
    for cap in caps:
        taken = high * (1 if cap.resource == "node" else cpus)
        if cap.kind is not limits.LimitKind.GROUP_MINUTES or safe:
            assert taken <= cap.limit
    assert high <= 32


def test_flags_of_a_qos_lift_limits_of_the_partition():
    part = partition(max_nodes=2, min_nodes=2, max_time_s=60.0)
    wide = limits.NodeBounds(low=1, high=16, max_time_s=3600.0)
    remaining = part.for_job(NodeShare(), wide)
    assert (remaining.min_nodes, remaining.max_nodes, remaining.max_time_s) == (2, 2, 60.0)
    flags = {"PartitionMaxNodes", "PartitionMinNodes", "PartitionTimeLimit"}
    free = part.for_job(NodeShare(), wide, flags)
    assert (free.min_nodes, free.max_nodes, free.max_time_s) == (1, 16, 3600.0)


@pytest.fixture(scope="module")
def limited(slurm_cluster):
    """A cluster that enforces limits, made with the real sacctmgr."""
    enforce = "AccountingStorageEnforce=associations,limits,qos"
    with slurm_cluster(conf=[enforce, "PartitionName=tiny Nodes=ALL MaxNodes=2"]) as cluster:
        for words in (
            "add qos three MaxTRESPerJob=node=3 MaxWall=60",
            "add account top GrpTRES=node=7",
            "add account sub parent=top MaxWall=120",
            "add user root account=sub MaxTRESPerJob=node=6",
            "modify user root set defaultaccount=sub qos=normal,three",
        ):
            cluster.run("sacctmgr", "-i", *words.split())
        yield cluster


def may_have(limited, **fields):
    observed = ClusterPoller(time.time).look()
    asked = Job(user_id=0, user_name="root", min_nodes=1, max_nodes=8, **fields)
    return partition_for(observed, asked)


@pytest.mark.parametrize(
    ("options", "fields", "most", "reason"),
    [
        ((), {}, 6, "MaxTRESPerJob=node=6"),
        (("--qos=three",), {"qos": "three"}, 3, "MaxTRESPerJob=node=3 of QOS three"),
        (("-p", "tiny"), {"partition": "tiny"}, 2, ""),
    ],
)
def test_slurm_starts_what_the_limits_allow_and_not_more(
    limited, monkeypatch, options, fields, most, reason
):
    monkeypatch.setenv("PATH", f"{limited.bin}:{os.environ['PATH']}")
    part = may_have(limited, **fields)
    assert part.largest == most
    assert reason in part.bound or not reason
    assert pending_reason(limited, "-N", str(most), *options) == ""
    # 22.05 says PartitionConfig where others say PartitionNodeLimit.
    assert pending_reason(limited, "-N", str(most + 1), *options)


def test_a_group_that_is_partly_used_leaves_the_rest(limited, monkeypatch, request):
    monkeypatch.setenv("PATH", f"{limited.bin}:{os.environ['PATH']}")
    first = limited.sbatch("-N5", "--exclusive", "-t", "10", "--wrap", "sleep 60")
    request.addfinalizer(lambda: (limited.run("scancel", str(first)), limited.wait(first)))
    wait_until(lambda: limited.job(first)["JobState"] == "RUNNING", what="the job")
    part = may_have(limited)
    assert (part.largest, part.bound) == (2, "GrpTRES=node=7 of account top")
    assert pending_reason(limited, "-N2", "--exclusive") == ""
    assert pending_reason(limited, "-N3", "--exclusive") == "AssocGrpNodeLimit"


WORKFLOW = """
name: within
storages: {{home: {{path: {work}}}}}
places: {{batch: {{storage: home}}}}
tasks:
  wide: {{command: 'true', run_time: &times {{1: 4800, 2: 2400, 3: 1600, 6: 800, 8: 600}}}}
  held: {{command: 'true', run_time: *times, after: [wide], sbatch: [--qos=three], nodes: {nodes}}}
"""


def plan(cluster, nodes, *options, check=True):
    """Plan a workflow of a task, and one with a QOS after it that may have so many nodes."""
    work = cluster.layout.work
    (work / "within.yaml").write_text(WORKFLOW.format(work=work, nodes=nodes))
    (work / "nimo.yaml").write_text("mode: observe\n")
    line = [Path(sysconfig.get_path("scripts")) / "nimo", "plan", *options, "within.yaml"]
    environment = {"NIMO_CONFIG": str(work / "nimo.yaml")}
    return cluster.run(*line, check=check, env=environment)


def test_a_plan_keeps_to_the_limits_of_qos_and_association(limited):
    done = plan(limited, "1-8", "--submit", "--follow", "--fixed")
    assert done.stdout.endswith("2 COMPLETED\n")
    record = json.loads((limited.layout.work / "within.plan.json").read_text())
    ids = {name: run["job_id"] for name, run in record["steps"].items()}
    limited.wait(*ids.values(), accounted=True)
    rows = limited.sacct("-X", fields=("JobID", "NNodes", "QOS"))
    had = {row["JobID"]: (row["NNodes"], row["QOS"]) for row in rows}
    assert had[str(ids["wide"])] == ("6", "normal")
    assert had[str(ids["held"])] == ("3", "three")


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (
            "4-8",
            "no place has the nodes (4 to 8) for which it has a run time: "
            "batch has 8 nodes and gives 3 (MaxTRESPerJob=node=3 of QOS three)",
        ),
        # MaxWall of the QOS.
        ("1", "held: no place gives it the time that it may take: 1.7 h at batch, which gives 1 h"),
    ],
)
def test_a_plan_that_limits_forbid_is_refused_with_the_limit(limited, nodes, why):
    refused = plan(limited, nodes, check=False)
    assert refused.returncode == 3
    assert why in refused.stderr


def pending_reason(cluster, *options):
    """Why a job of this size stays pending; empty once it runs."""
    job = cluster.sbatch("-t", "5", *options, "--wrap", "sleep 30")
    reported = []

    def settled():
        observed = cluster.job(job)
        reported.append(observed["Reason"] if observed["JobState"] == "PENDING" else "")
        return observed["JobState"] == "RUNNING" or reported[-1] not in (
            "None",
            "Priority",
            "Resources",
        )

    try:
        wait_until(settled, what="the scheduler to look at the job")
    finally:
        cluster.run("scancel", str(job))
        cluster.wait(job)
    return reported[-1]
