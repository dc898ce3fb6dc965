"""One job with its steps as the JSON of several releases spells it."""

from typing import Any


def number(value: int | None) -> dict[str, Any]:
    """Number from data_parser 0.0.39 on."""
    return {"set": value is not None, "infinite": False, "number": value or 0}


UNLIMITED = {"set": False, "infinite": True, "number": 0}


def tres(kind: str, count: int, name: str = "", number_: int = 1) -> dict[str, Any]:
    return {"type": kind, "name": name, "id": number_, "count": count}


def seconds(micro: int) -> dict[str, int]:
    return {"seconds": micro // 10**6, "microseconds": micro % 10**6}


def old_job(job_id: int = 7, **changes: Any) -> dict[str, Any]:
    """Job of ``sacct --json`` of 22.05: dbv0.0.38."""
    usage = [tres("mem", 3_000_000, number_=2), tres("fs", 4096, "disk", 6)]
    written = [tres("energy", 0, number_=3), tres("fs", 11, "disk", 6)]
    return {
        "account": "physics",
        "comment": {"administrator": None, "job": "nimo:app=solve", "system": None},
        "allocation_nodes": 2,
        "array": {"job_id": 0, "limits": {}, "task": None, "task_id": None},
        "association": {"account": "physics", "cluster": "oak", "partition": None, "user": "ann"},
        "cluster": "oak",
        "constraints": "",
        "time": {
            "elapsed": 60,
            "eligible": 1_000_000_001,
            "end": 1_000_000_070,
            "start": 1_000_000_010,
            "submission": 1_000_000_000,
            "suspended": 0,
            "system": seconds(0),
            "limit": 5,
            "total": seconds(0),
            "user": seconds(0),
        },
        "exit_code": {"status": "SUCCESS", "return_code": 0},
        "het": {"job_id": 0, "job_offset": None},
        "job_id": job_id,
        "name": "solve",
        "nodes": "n[1-2]",
        "partition": "batch",
        "qos": "normal",
        "required": {"CPUs": 4, "memory": 0},
        "kill_request_user": None,
        "reservation": {"id": 0, "name": 0},
        "state": {"current": "COMPLETED", "reason": "None"},
        "steps": [
            {
                "nodes": {"list": ["n1", "n2"], "count": 2, "range": "n[1-2]"},
                "tres": {
                    "requested": {"max": usage, "total": usage},
                    "consumed": {"max": written, "total": written},
                    "allocated": [tres("cpu", 4), tres("node", 2, number_=4)],
                },
                "time": {
                    "elapsed": 59,
                    "end": 1_000_000_070,
                    "start": 1_000_000_011,
                    "system": seconds(500),
                    "total": seconds(9_002_852),
                    "user": seconds(9_002_352),
                },
                "exit_code": {"status": "SUCCESS", "return_code": 0},
                "tasks": {"count": 4},
                "CPU": {"requested_frequency": {"min": 0, "max": 0}, "governor": []},
                "state": "COMPLETED",
                "statistics": {"CPU": {"actual_frequency": 0}, "energy": {"consumed": 0}},
                "step": {"job_id": job_id, "het": {"component": None}, "id": 0, "name": "solve"},
            }
        ],
        "tres": {
            "allocated": [tres("cpu", 4), {**tres("energy", 0), "count": None}],
            "requested": [tres("cpu", 4), tres("mem", 4000), tres("node", 2, number_=4)],
        },
        "user": "ann",
        "working_directory": "/home/ann",
    } | changes


def new_job(job_id: int = 7, **changes: Any) -> dict[str, Any]:
    """The same job as 24.11 and 26.05 have it: data_parser 0.0.42 to 0.0.45."""
    job = old_job(job_id)
    code = {
        "status": ["SUCCESS"],
        "return_code": number(0),
        "signal": {"id": number(None), "name": ""},
    }
    job["comment"] = {"administrator": "", "job": "nimo:app=solve", "system": ""}
    job["array"] |= {"task": "", "task_id": number(None)}
    job["het"] = {"job_id": 0, "job_offset": number(None)}
    job["time"] |= {"limit": number(5), "total": seconds(9_002_852), "planned": number(10)}
    job |= {"exit_code": code, "kill_request_user": "", "restart_cnt": 0, "hold": False}
    job["reservation"] = {"id": 0, "name": ""}
    job["state"] = {"current": ["COMPLETED"], "reason": "None"}
    job["tres"]["allocated"][1]["count"] = -2
    step = job["steps"][0]
    step["time"] |= {"start": number(1_000_000_011), "end": number(1_000_000_070)}
    step |= {"exit_code": code, "state": ["COMPLETED"], "pid": ""}
    step["step"] = {"id": f"{job_id}.0", "name": "solve"}
    # The bits of a double.
    step["statistics"] = {
        "CPU": {"actual_frequency": 4658155777863712768},
        "energy": {"consumed": number(0)},
    }
    return job | {"submit_line": "sbatch -N2 solve.sh", "extra": "", "script": ""} | changes


def middle_job(job_id: int = 7, **changes: Any) -> dict[str, Any]:
    """The same job as Slurm 23.02 has it, by the source of its data_parser 0.0.39."""
    job = new_job(job_id)
    code = {"status": "SUCCESS", "return_code": 0}
    job |= {"exit_code": code, "state": {"current": "COMPLETED", "reason": "None"}}
    step = job["steps"][0]
    step["time"] |= {"start": 1_000_000_011, "end": 1_000_000_070}
    step |= {"exit_code": code, "state": "COMPLETED"}
    step["step"] = {"id": {"job_id": job_id, "step_id": "0"}, "name": "solve"}
    return job | changes


def live_job(job_id: int = 7, **changes: Any) -> dict[str, Any]:
    """The same job as slurmctld tells it: /slurm/v0.0.41/jobs."""
    return {
        "account": "physics",
        "admin_comment": "",
        "array_job_id": number(0),
        "array_task_id": number(None),
        "cluster": "oak",
        "comment": "nimo:app=solve",
        "cpus": number(4),
        "current_working_directory": "/home/ann",
        "eligible_time": number(1_000_000_001),
        "end_time": number(1_000_000_070),
        "exit_code": {
            "status": ["SUCCESS"],
            "return_code": number(0),
            "signal": {"id": number(None)},
        },
        "features": "",
        "het_job_id": number(0),
        "het_job_offset": number(0),
        "job_id": job_id,
        "job_state": ["COMPLETED"],
        "memory_per_cpu": number(None),
        "memory_per_node": number(2000),
        "name": "solve",
        "node_count": number(2),
        "nodes": "n[1-2]",
        "partition": "batch",
        "qos": "normal",
        "resv_name": "",
        "start_time": number(1_000_000_010),
        "submit_time": number(1_000_000_000),
        "tasks": number(4),
        "time_limit": number(5),
        "user_id": 1001,
        "user_name": "ann",
    } | changes


#: The same job as ``sacct -P --noconvert`` prints it.
TEXT = """\
JobID|JobIDRaw|Cluster|User|Account|Partition|QOS|State|ExitCode|Submit|Eligible|Start|End|\
TimelimitRaw|NNodes|ReqNodes|NCPUS|ReqCPUS|NTasks|NodeList|ReqMem|TotalCPU|UserCPU|SystemCPU|MaxRSS|\
TRESUsageInTot|TRESUsageOutTot|ConsumedEnergyRaw|SubmitLine|WorkDir|Comment|JobName|ElapsedRaw
7|7|oak|ann|physics|batch|normal|COMPLETED|0:0|1000000000|1000000001|1000000010|1000000070|\
5|2|2|4|4||n[1-2]|4000M|00:09.002|||||||sbatch -N2 solve.sh|/home/ann|nimo:app=solve|solve|60
7.0|7.0|oak||physics|||COMPLETED|0:0|1000000011|1000000011|1000000011|1000000070|\
|2|2|4||4|n[1-2]||00:09.002|00:09.002|00:00.000|3000000|\
fs/disk=4096,mem=3000000|energy=0,fs/disk=11|0|srun solve|||solve|59
"""
