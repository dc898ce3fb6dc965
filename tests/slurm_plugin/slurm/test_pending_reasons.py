"""Why a job waits: all of Slurm's reasons as sentences."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from slurm_plugin.slurm.cluster_state import RawJob, RawNode, RawPartition, RawReservation, RawState
from slurm_plugin.slurm.limit_reasons import binding_limit, limit_reason
from slurm_plugin.slurm.pending_job import PendingJob, depends_on, pending_jobs
from slurm_plugin.slurm.pending_reasons import Ends, explain_reason
from slurm_plugin.slurm.queue_facts import QueueFacts, facts_of, starts_after

NOW = 1_790_000_000.0
#: Of Slurm 22.05, 24.11 and 26.05, out of its source.
REASONS = Path("tests/data/pending-reasons.txt").read_text().split()
BATCH = RawPartition(name="batch", max_nodes=8, max_time_s=7200.0, max_mem_node_mib=1000)
JOB = PendingJob(
    job_id=17, user="ada", uid=1000, account="physics", qos="short", partitions=("batch",),
    priority=100, submit_s=NOW - 60, limit_s=3600.0, nodes=4, cpus=16,
    tres={"cpu": 16.0, "node": 4.0, "mem": 8000.0, "gres/gpu": 4.0}, licences={"solver": 3},
    features="ib", reservation="course", throttle=2, array_id=17, tasks="3-9%2",
)  # fmt: skip
ASSOC_MGR = """\
ClusterName=pine Account=physics UserName= ParentAccount=root(1) GrpJobs=N(9) GrpTRES=cpu=20(12),mem=N(0) GrpTRESMins=cpu=600(500) GrpTRESRunMins=cpu=N(80) MaxJobs=
ClusterName=pine Account=physics UserName=ada(1000) Partition= GrpJobs=N(2) GrpTRES=cpu=N(12) MaxJobs=2(2) MaxSubmitJobs= MaxWallPJ= MaxTRESPJ= MaxTRESPN=cpu=2
QOS=short(3) GrpJobs=N(3) GrpWall=100(120.50) GrpTRES=cpu=N(0),node=3(2) GrpTRESMins=cpu=N(1) GrpTRESRunMins=cpu=900(0) MaxWallPJ=10 MaxTRESPJ=node=2 MinTRESPJ=cpu=32 Account Limits= physics={MaxJobsPA=5(5) MaxTRESPA=gres/gpu=2(1)} User Limits= 1000={MaxJobsPU=1(1) MaxTRESPU=cpu=18(4),mem=N(0)}
QOS=long(4) GrpJobs=N(0) MaxWallPJ=1000 Account Limits=No Accounts User Limits=No Users
"""  # noqa: E501


def said(reason, facts=None, **fields):
    job = replace(JOB, reason=reason, **fields)
    facts = facts or QueueFacts(now_s=NOW, partitions={"batch": BATCH}, nodes=8)
    if (limit := limit_reason(reason)) is not None:
        facts = replace(facts, binding=binding_limit(ASSOC_MGR, limit, job, ("short",)))
    return explain_reason(job, facts)


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_of_slurm_has_a_sentence(reason):
    found = said(reason)
    assert "does not know" not in found.sentence
    assert "None" not in found.sentence
    assert not found.sentence.endswith(".")
    # What does not end by itself names a way out.
    assert (found.change != "") or found.ends in (Ends.TURN, Ends.OTHERS)
    if limit_reason(reason) is not None and "holds it" in found.sentence:
        assert limit_reason(reason).setting in found.sentence


@pytest.mark.parametrize(
    ("dependency", "change"),
    [
        ("afterany:3(fulfilled),afterok:4(failed)", "after 'nimo again 4 --submit' this one waits"),
        ("aftercorr:5_*(failed)", "'nimo again 5 --submit'"),
        ("afternotok:4(failed)", "take the dependency away"),
    ],
)
def test_what_failed_may_run_again_for_a_job_that_needed_it(dependency, change):
    never = said("DependencyNeverSatisfied", depends=depends_on(dependency))
    assert (never.ends, change in never.change) == (Ends.NEVER, True)


def test_a_reason_of_a_later_release_is_passed_on():
    assert "Slurm says 'WaitingForGodot'" in said("WaitingForGodot").sentence


@pytest.mark.parametrize(
    ("reason", "ends", "words"),
    [
        (
            "QOSMaxJobsPerUserLimit",
            Ends.OTHERS,
            "QOS short lets 1 job of a user run at once, and 1",
        ),
        ("QOSGrpNodeLimit", Ends.NEVER, "4 nodes; QOS short gives 3 nodes at once, and 2 are"),
        ("QOSMaxNodePerJobLimit", Ends.NEVER, "4 nodes, and QOS short gives 2 nodes to a job"),
        ("QOSMaxCpuPerUserLimit", Ends.OTHERS, "QOS short gives 18 CPUs to a user at once, and 4"),
        ("QOSMinCpuNotSatisfied", Ends.NEVER, "16 CPUs, and QOS short wants 32 CPUs at least"),
        ("QOSMaxWallDurationPerJobLimit", Ends.NEVER, "limit is 1 h, and QOS short allows 10 min"),
        ("QOSGrpWallLimit", Ends.SOMEBODY, "jobs of QOS short have run for 120.5 of 100 minutes"),
        ("QOSGrpCPURunMinutesLimit", Ends.NEVER, "960 CPU-minutes; QOS short gives 900 CPU-min"),
        ("MaxJobsPerAccount", Ends.OTHERS, "lets 5 jobs of an account run at once, and 5 run"),
        ("MaxGRESPerAccount", Ends.NEVER, "4 gres/gpu; QOS short gives 2 gres/gpu to an account"),
        ("AssocGrpCpuLimit", Ends.OTHERS, "account physics gives 20 CPUs at once, and 12 are in"),
        ("AssocGrpCPUMinutesLimit", Ends.SOMEBODY, "600 CPU-minutes in all, and 580 are used"),
        ("AssocMaxJobsLimit", Ends.OTHERS, "user ada in account physics lets 2 jobs run at once"),
        ("AssocMaxCpuPerNode", Ends.NEVER, "gives 2 CPUs on a node"),
        # No limit of that kind is shown.
        ("AssocGrpEnergy", Ends.OTHERS, "a limit of its association holds it (GrpTRES)"),
    ],
)
def test_the_limit_is_named_with_its_value_and_what_is_used_of_it(reason, ends, words):
    found = said(reason)
    assert words in found.sentence
    assert found.ends is ends


def test_where_slurm_does_not_show_limits_that_is_said():
    job = replace(JOB, reason="QOSMaxJobsPerUserLimit")
    facts = QueueFacts(now_s=NOW, limits_refused="scontrol: Access/permission denied")
    assert explain_reason(job, facts).sentence == (
        "a limit of QOS short holds it (MaxJobsPerUser); scontrol: Access/permission denied"
    )


MAINTENANCE = RawReservation(
    name="upgrade", start_s=NOW + 1800, end_s=NOW + 9000, node_names=("n1",),
    flags=frozenset({"MAINT"}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "fields", "ends", "words"),
    [
        ("PartitionNodeLimit", {"nodes": 9}, Ends.NEVER, "9 nodes, and batch gives 8 to a job"),
        ("PartitionTimeLimit", {"limit_s": 9000.0}, Ends.NEVER, "is 2.5 h, and batch allows 2 h"),
        ("MaxMemPerLimit", {"mem_node_mib": 4000}, Ends.NEVER, "4000M of memory, and batch allows"),
        ("Resources", {"nodes": 9}, Ends.NEVER, "9 nodes, and batch has 8 that are up"),
        ("Resources", {}, Ends.TURN, "it is the next for 4 nodes in batch; 0 of 8 nodes are idle"),
        ("Licenses", {"licences": {"x": 1}}, Ends.OTHERS, "it asks for 1 licence of x"),
        ("JobArrayTaskLimit", {}, Ends.OTHERS, "its array lets 2 of its tasks run at once"),
        ("BadConstraints", {}, Ends.NEVER, "no nodes of batch fit what it asks for (--constr"),
        ("ReqNodeNotAvail", {"detail": "UnavailableNodes:n[1-2]"}, Ends.OTHERS, "reserved: n[1-2]"),
        ("BeginTime", {}, Ends.OTHERS, "it is to begin later (--begin)"),
        ("BeginTime", {"put_back": True}, Ends.OTHERS, "Slurm does not start it again at once"),
    ],
)
def test_the_job_s_own_numbers_are_in_the_sentence(reason, fields, ends, words):
    found = said(reason, **fields)
    assert words in found.sentence
    assert found.ends is ends


@pytest.mark.parametrize("reason", ["PartitionNodeLimit", "Resources", "Priority"])
def test_nodes_of_a_queue_that_was_not_looked_at_are_not_counted(reason):
    job = PendingJob(job_id=7, nodes=20, partitions=("batch",), reason=reason)
    assert "up" not in explain_reason(job, QueueFacts(now_s=NOW)).sentence


def test_where_all_nodes_are_out_of_service_these_are_named():
    facts = QueueFacts(now_s=NOW, nodes=0, out_of_use=("n7", "n8"))
    assert explain_reason(replace(JOB, reason="Resources"), facts).sentence == (
        "it asks for 4 nodes, and batch has none of its nodes in service: n7, n8 are down or "
        "drained"
    )


def waiting(job_id, priority, **fields):
    given = {"state": "PENDING", "partitions": ("batch",), "nodes": 2, "limit_s": 7200.0}
    given |= {"reason": "Priority", "user": "bob", "submit_s": NOW}
    return RawJob(job_id=job_id, priority=priority, **given | fields)


def test_who_goes_first_is_counted_and_not_named():
    jobs = [
        waiting(1, 200),
        waiting(2, 100, submit_s=NOW - 90, jobs=2),
        waiting(3, 100),  # later
        waiting(4, 50),
        waiting(5, 300, reason="JobHeldUser"),
        waiting(6, 300, partitions=("other",)),
        waiting(7, 300, state="RUNNING", licences={"solver": 2}),
    ]
    nodes = [RawNode(name="n1", state=frozenset({"IDLE"}), partitions=("batch",))] * 4
    raw = RawState(jobs=jobs, partitions=[BATCH], nodes=nodes, licences={"solver": 4})
    facts = facts_of(raw, JOB, now_s=NOW)
    found = said("Priority", facts)
    assert found.sentence == "3 jobs before it in batch ask for 12.0 node-hours"
    many = said("Priority", replace(facts, ahead_node_hours=1681.25)).sentence
    assert many == "3 jobs before it in batch ask for 1681 node-hours"
    private = said("Priority", replace(facts, private=True)).sentence
    assert private == (
        "3 jobs of yours before it in batch ask for 12.0 node-hours; Slurm hides others' jobs "
        "from you (PrivateData)"
    )
    assert "3 licences of solver, and 2 of 4 are free" in said("Licenses", facts).sentence
    assert said("Licenses", facts, licences={"solver": 5}).ends is Ends.NEVER


def test_a_limit_that_reaches_into_a_maintenance_is_said():
    nodes = [RawNode(name="n1", state=frozenset({"IDLE"}), partitions=("batch",))]
    raw = RawState(partitions=[BATCH], nodes=nodes, reservations=[MAINTENANCE])
    facts = facts_of(raw, replace(JOB, nodes=1), now_s=NOW)
    for reason in ("ReqNodeNotAvail", "Priority", "Resources"):
        words = said(reason, facts, nodes=1).sentence
        assert words.startswith("its time limit (1 h) reaches into the maintenance upgrade, which")
        assert said(reason, facts, nodes=1).change == (
            "with --time=00:29:00 it would start now, if it needs no longer"
        )
        assert said(reason, facts, nodes=2).change != said(reason, facts, nodes=1).change
    assert said("Priority", replace(facts, ahead=1), nodes=1).change == ""
    before = facts_of(raw, replace(JOB, limit_s=1200.0), now_s=NOW)
    assert before.closing is None


def test_a_node_that_is_drained_is_named_whatever_slurm_says_of_it():
    drained = RawNode(name="n1", state=frozenset({"IDLE", "DRAIN"}), partitions=("batch",))
    raw = RawState(partitions=[BATCH], nodes=[drained, replace(drained, name="n2")])
    facts = facts_of(raw, replace(JOB, node_list="n1"), now_s=NOW)
    # Slurm 26.05 says this of it.
    words = said("ReqNodeNotAvail", facts, detail="May be reserved for other job").sentence
    assert words == "nodes that it needs are down or drained: n1"


def test_a_start_behind_a_maintenance_names_its_day():
    facts = QueueFacts(now_s=NOW, closing=MAINTENANCE)
    day = datetime.fromtimestamp(MAINTENANCE.start_s).astimezone().strftime("%A")
    assert starts_after(facts, MAINTENANCE.end_s + 60) == f"{day}'s maintenance upgrade"
    assert starts_after(facts, MAINTENANCE.start_s - 60) == ""
    assert starts_after(facts, None) == ""
    late = replace(facts, now_s=NOW - 20 * 86_400)
    assert starts_after(late, MAINTENANCE.end_s).startswith("the ")


SHOWN = """\
JobId=9 ArrayJobId=9 ArrayTaskId=2-4%1 ArrayTaskThrottle=1 JobName=a JobState=RUNNING Reason=x
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   Priority=100 Nice=0 Account=physics QOS=short
   JobState=PENDING Reason=ReqNodeNotAvail,_UnavailableNodes:n1 Dependency=afterok:3_*(unfulfilled)
   RunTime=00:00:00 TimeLimit=00:05:00 TimeMin=N/A
   SubmitTime=1790000000 EligibleTime=1790000000
   StartTime=Unknown EndTime=Unknown Deadline=N/A
   Partition=batch,long AllocNode:Sid=localhost:1
   ReqNodeList=n1 ExcNodeList=(null)
   NumNodes=2-4 NumCPUs=8 NumTasks=8 CPUs/Task=1
   TRES=cpu=8,mem=4G,node=2,billing=8
   MinCPUsNode=1 MinMemoryNode=2G MinTmpDiskNode=0
   Features=ib DelayBoot=00:00:00
   OverSubscribe=NO Contiguous=0 Licenses=solver:2 Network=(null)
   Comment=JobState=RUNNING Reason=None

JobId=10 ArrayJobId=9 ArrayTaskId=1 JobName=a
   JobState=RUNNING Reason=None
"""


def test_what_scontrol_shows_is_read_and_users_text_is_not_believed():
    (job,) = pending_jobs(SHOWN)
    assert (job.job_id, job.array_id, job.tasks, job.throttle) == (9, 9, "2-4%1", 1)
    assert (job.reason, job.detail) == ("ReqNodeNotAvail", "UnavailableNodes:n1")
    assert (job.nodes, job.max_nodes, job.mem_node_mib, job.limit_s) == (2, 4, 2048, 300)
    assert job.partitions == ("batch", "long")
    assert job.exclusive
    assert [(one.kind, one.job_id) for one in job.depends] == [("afterok", 3)]
    assert not job.put_back
    (again,) = pending_jobs(SHOWN.replace("   RunTime=", "   Requeue=1 Restarts=1\n   RunTime="))
    assert again.put_back
    assert pending_jobs("") == pending_jobs("slurm_load_jobs error: Invalid job id specified") == []
