"""What Slurm's commands write of one small cluster: as text, and as JSON of two formats."""

import json
from collections.abc import Sequence

from slurm_plugin.slurm import fields
from slurm_plugin.slurm.sources import SEPARATOR, line

CONFIG = (
    "Configuration data as of 2026-11-21T13:00:00\n"
    "ClusterName             = pine\n"
    "PrivateData             = none\n"
    "SelectType              = select/cons_tres\n"
    "SelectTypeParameters    = CR_CORE\n"
    "SlurmUser               = slurm(64030)\n"
    "SLURM_VERSION           = 22.05.8\n"
)

_JOBS = (
    {
        "JobArrayID": "4_[1-9,20%2]", "ArrayJobID": "4", "ArrayTaskID": "1-9,20%2",
        "State": "PENDING", "Partition": "batch", "NumNodes": 4,
        "StartTime": "1795259400", "EndTime": "1795259700", "Reason": "Resources",
        "SchedNodes": "n[1-2]", "tres-alloc": "cpu=8,mem=400M,node=4,billing=8",
        "Licenses": "matlab:2", "NodeList": "",
    },
    {
        "JobArrayID": "8", "ArrayJobID": "8", "ArrayTaskID": "N/A",
        "State": "PENDING", "Partition": "debug,batch", "NumNodes": 1,
        "StartTime": "N/A", "EndTime": "N/A", "Reason": "Priority",
        "tres-alloc": "cpu=1,node=1,billing=1", "NodeList": "",
    },
    {
        "JobArrayID": "1", "ArrayJobID": "1", "ArrayTaskID": "N/A",
        "State": "RUNNING", "Partition": "batch", "NumNodes": 2,
        "StartTime": "1795256400", "EndTime": "1795257000", "Reason": "None",
        "tres-alloc": "cpu=4,mem=1G,node=2,billing=4,gres/gpu=2", "NodeList": "n[1-2]",
        "UserName": "ann", "Account": "physics",
    },
)  # fmt: skip
_NODES = (
    {
        "NodeList": "n1", "StateComplete": "mixed", "CPUs": 4, "CPUsState": "2/2/0/4",
        "Memory": 2000, "AllocMem": 512, "Gres": "gpu:a100:2(S:0)",
        "GresUsed": "gpu:a100:1(IDX:0)", "Features": "ib,a100", "Partition": "batch*",
    },
    {
        "NodeList": "n2", "StateComplete": "mixed+drain", "CPUs": 4, "CPUsState": "2/2/0/4",
        "Memory": 2000, "AllocMem": 512, "Partition": "batch*",
    },
    {
        "NodeList": "n4", "StateComplete": "idle+planned", "CPUs": 8, "CPUsState": "0/8/0/8",
        "Memory": 1500, "AllocMem": 0, "Partition": "batch*",
    },
    {
        "NodeList": "n4", "StateComplete": "idle+planned", "CPUs": 8, "CPUsState": "0/8/0/8",
        "Memory": 1500, "AllocMem": 0, "Partition": "debug",
    },
)  # fmt: skip

PARTITIONS = """\
PartitionName=batch AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES \
QoS=N/A DefaultTime=01:00:00 MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 \
MaxCPUsPerNode=UNLIMITED Nodes=n[1-4] OverSubscribe=NO State=UP TotalNodes=3 \
JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED
PartitionName=debug AllowGroups=ALL DenyAccounts=art,play AllowQos=short,normal Default=NO QoS=pq \
DefaultTime=NONE MaxNodes=2 MaxTime=UNLIMITED MinNodes=1 MaxCPUsPerNode=2 Nodes=n4 \
OverSubscribe=EXCLUSIVE State=DOWN DefMemPerCPU=100
"""
RESERVATIONS = """\
ReservationName=maint StartTime=1795270983 EndTime=1795274583 Duration=01:00:00 Nodes=n[1-2] \
NodeCnt=2 CoreCnt=8 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES TRES=cpu=8
"""
LICENCES = "LicenseName=matlab Total=4 Used=0 Free=4 Reserved=0 Remote=no\n"
_FEW = {"partition": PARTITIONS, "reservation": RESERVATIONS, "licenses": LICENCES}

SQUEUE = "".join(line(fields.JOB, job) for job in _JOBS)
SINFO = "".join(line(fields.NODE, node) for node in _NODES)
TEXT = {"squeue": SQUEUE, "sinfo": SINFO, **_FEW}


def _number(value):
    """Numbers of JSON since 23.02."""
    recorded = value is not None
    return {"set": recorded, "infinite": False, "number": value or 0}


JOBS_22 = [
    {
        "array_job_id": 4, "array_task_id": None, "array_task_string": "1-9,20%2",
        "job_state": "PENDING", "partition": "batch", "node_count": 4, "start_time": 1795259400,
        "end_time": 1795259700, "state_reason": "Resources", "scheduled_nodes": "n[1-2]",
        "tres_req_str": "cpu=8,mem=400M,node=4,billing=8", "tres_alloc_str": "",
        "licenses": "matlab:2", "resv_name": "", "nodes": "",
    },
    {
        "array_job_id": 0, "array_task_id": None, "array_task_string": "", "job_state": "PENDING",
        "partition": "debug,batch", "node_count": 1, "start_time": 0, "end_time": 0,
        "state_reason": "Priority", "tres_req_str": "cpu=1,node=1,billing=1",
        "tres_alloc_str": "", "licenses": "", "resv_name": "", "nodes": "",
    },
    {
        "array_job_id": 0, "array_task_id": None, "array_task_string": "", "job_state": "RUNNING",
        "partition": "batch", "node_count": 2, "start_time": 1795256400, "end_time": 1795257000,
        "state_reason": "None", "tres_req_str": "cpu=4,mem=1G,node=2,billing=4,gres/gpu=2",
        "tres_alloc_str": "cpu=4,mem=1G,node=2,billing=4,gres/gpu=2", "licenses": "",
        "resv_name": "", "nodes": "n[1-2]", "user_name": "ann", "account": "physics",
    },
]  # fmt: skip
JOBS_22.append(JOBS_22[-1] | {"job_state": "COMPLETED"})
NODES_22 = [
    {
        "name": "n1", "state": "mixed", "state_flags": [], "cpus": 4, "alloc_cpus": 2,
        "real_memory": 2000, "alloc_memory": 512, "gres": "gpu:a100:2(S:0)",
        "gres_used": "gpu:a100:1(IDX:0)", "features": "ib,a100", "active_features": "ib,a100",
        "partitions": ["batch"],
    },
    {
        "name": "n2", "state": "mixed", "state_flags": ["DRAIN"], "cpus": 4, "alloc_cpus": 2,
        "real_memory": 2000, "alloc_memory": 512, "gres": "", "gres_used": "", "features": "",
        "active_features": "", "partitions": ["batch"],
    },
    {
        "name": "n4", "state": "idle", "state_flags": ["PLANNED"], "cpus": 8, "alloc_cpus": 0,
        "real_memory": 1500, "alloc_memory": 0, "gres": "", "gres_used": "", "features": "",
        "active_features": "", "partitions": ["batch", "debug"],
    },
]  # fmt: skip


def newer_job(job):
    """The same job as 24.11 and 26.05 write it."""
    numbers = ("array_job_id", "array_task_id", "node_count", "start_time", "end_time")
    return {
        **job,
        **{name: _number(job[name]) for name in numbers},
        "job_state": [job["job_state"]],
    }


def newer_node(node):
    """The same node as 24.11 and 26.05 write it."""
    return {
        **node,
        "state": [node["state"].upper(), *node["state_flags"]],
        "state_flags": [],
        "features": node["features"].split(",") if node["features"] else [],
        "active_features": node["active_features"].split(",") if node["active_features"] else [],
    }


SQUEUE_22, SINFO_22 = json.dumps({"jobs": JOBS_22}), json.dumps({"nodes": NODES_22})
SQUEUE_24 = json.dumps({"jobs": list(map(newer_job, JOBS_22)), "warnings": []})
NODES_24 = json.dumps({"nodes": list(map(newer_node, NODES_22)), "last_update": {"set": True}})
JSON = {"squeue": SQUEUE_22, "sinfo": SINFO_22, "nodes": NODES_24}


def as_asked(argv: Sequence[str], text: str) -> str:
    """Text of :func:`line` as a squeue with these arguments writes it."""
    return text.replace(SEPARATOR, argv[-1].rpartition(":")[2])
