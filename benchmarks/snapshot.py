"""What one look at a large cluster costs nimod: text beside JSON of the same nodes and jobs.

The output of Slurm's commands is generated, with the fields that Slurm's own has around those that
are read, so that sizes are those of a real cluster.  Measured are reading, the view made of it, the
queue run forward, the first question of a job whose share of a node nobody asked for before, the
next one of its kind, and the memory in between; the time that Slurm takes to write it all comes on
top.  The queue is run forward once a minute, or as often as takes 3 % of one core; its processor
time is measured.
"""

import json
import random
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import _bench

from predictor.waits.workload import LimitShares, QueuePast, encode
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm import fields
from slurm_plugin.slurm.cluster_state import RawState
from slurm_plugin.slurm.partition_view import partition_for
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.snapshot import build
from slurm_plugin.slurm.sources import line, read_json, read_text
from slurm_plugin.wait_forecasts.forecasts import Outlooks, QueueRunTimes

NOW = 1_795_256_400
CPUS, MEBIBYTES = 64, 256_000
PARTITIONS = "".join(
    f"PartitionName={name} Default={'YES' if name == 'batch' else 'NO'} DefaultTime=01:00:00 "
    f"MaxNodes=UNLIMITED MaxTime=2-00:00:00 MinNodes=0 OverSubscribe=NO State=UP\n"
    for name in ("batch", "short", "long")
)
#: Jobs used up to all of their limits, most of them little.
PAST = encode(QueuePast(shares=LimitShares(site=tuple(-4 + 0.1 * n for n in range(40)))))
#: What else a record of JSON holds: bytes that are read over.
FILLER = {"node": 1400, "job": 4200}


def main() -> None:
    """Generate, measure, print."""
    args = _bench.options(__doc__).parse_args()
    sizes = [(500, 2_500)] if args.quick else [(1_000, 5_000), (10_000, 50_000)]
    rows = [row for nodes, jobs in sizes for row in measure(nodes, jobs)]
    _bench.table(rows, title="One look at the cluster")
    _bench.write(args.json, looks=rows)


def measure(nodes: int, jobs: int) -> list[dict[str, Any]]:
    """Figures of one size, as text and as JSON."""
    node_words, job_words = made_nodes(nodes), made_jobs(jobs, nodes, random.Random(7))
    sinfo = "".join(line(fields.NODE, words) for words in node_words)
    squeue = "".join(line(fields.JOB, words) for words in job_words)
    nodes_json = json.dumps({"nodes": [_json(fields.NODE, w, "node") for w in node_words[::3]]})
    jobs_json = json.dumps({"jobs": [_json(fields.JOB, w, "job") for w in job_words]})
    text = figures("text", squeue, sinfo, read_text)
    reported = figures("JSON", jobs_json, nodes_json, read_json)
    reported["times text"] = reported["read s"] / text["read s"]
    return [{"nodes": nodes, "jobs": jobs, **row} for row in (text, reported)]


def figures(name: str, squeue: str, nodes: str, read: Callable[..., RawState]) -> dict[str, Any]:
    """Read and build once, and ask."""
    read_s, observed = timed(lambda: read(squeue, nodes, PARTITIONS))
    settings = SlurmConf(counts_memory=True, mem_cpu_mib=1000)
    build_s, cluster = timed(lambda: build(observed, settings, cluster="pine", taken_s=NOW))
    tables = PredictionLookup()
    outlooks = Outlooks(QueueRunTimes(lambda: tables))
    outlooks.remember(PAST)
    outlooks.add_wait_forecasts(cluster, observed, settings)  # loads what it needs
    outlooks.forget()
    began_s = time.thread_time()
    attached = outlooks.add_wait_forecasts(cluster, observed, settings)
    outlook_s = time.thread_time() - began_s
    assert attached.partitions["batch"].outlook is not None
    job = Job(min_nodes=1, max_nodes=64, ntasks_per_node=8, time_limit=120)
    first_s, _ = timed(lambda: partition_for(cluster, job))
    next_s, _ = timed(lambda: partition_for(cluster, job))
    tracemalloc.start()
    again = build(read(squeue, nodes, PARTITIONS), settings, cluster="pine", taken_s=NOW)
    remaining, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert again.partitions.keys() == cluster.partitions.keys()
    return {
        "as": name,
        "MB": (len(squeue) + len(nodes)) / 1e6,
        "read s": read_s,
        "view s": build_s,
        "outlook CPU s": outlook_s,
        "first ask ms": 1e3 * first_s,
        "next ask ms": 1e3 * next_s,
        "peak MiB": peak / 2**20,
        "kept MiB": remaining / 2**20,
        "times text": 1.0,
    }


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that work takes, and its result."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def made_nodes(count: int) -> list[dict[str, Any]]:
    """Words of sinfo: a line for each node and each of three partitions; every second is shared."""
    return [
        _node(number, (0, 8, CPUS)[number % 3], partition)
        for number in range(count)
        for partition in ("batch*", "short", "long")
    ]


def _node(number: int, used: int, partition: str) -> dict[str, Any]:
    return {
        "NodeList": f"n{number:05}",
        "StateComplete": {0: "idle", CPUS: "allocated"}.get(used, "mixed"),
        "CPUs": CPUS,
        "CPUsState": f"{used}/{CPUS - used}/0/{CPUS}",
        "Memory": MEBIBYTES,
        "AllocMem": used * 1000,
        "Features": "ib,epyc",
        "Partition": partition,
    }


def made_jobs(count: int, nodes: int, rng: random.Random) -> list[dict[str, Any]]:
    """Words of squeue: a fifth run, on one to four nodes, the others wait."""
    running = count // 5
    busy = [number for number in range(nodes) if number % 3]
    rows: list[dict[str, Any]] = []
    for number in range(running):
        first = rng.choice(busy)
        last = min(first + rng.randint(0, 3), nodes - 1)
        rows.append(
            _job(number, last - first + 1)
            | {
                "State": "RUNNING",
                "StartTime": NOW - 600,
                "EndTime": NOW + rng.randint(1, 48) * 1800,
                "Reason": "None",
                "NodeList": f"n[{first:05}-{last:05}]",
            }
        )
    rows += [
        _job(n, rng.randint(1, 16)) | {"State": "PENDING", "Reason": "Priority", "NodeList": ""}
        for n in range(running, count)
    ]
    return rows


def _job(number: int, nodes: int) -> dict[str, Any]:
    tres = f"cpu={8 * nodes},mem={8 * nodes}G,node={nodes},billing={8 * nodes}"
    return {
        "JobArrayID": number,
        "ArrayJobID": number,
        "ArrayTaskID": "N/A",
        "Partition": "batch",
        "TimeLimit": "1-00:00:00",
        "UserName": f"user{number % 300}",
        "Account": f"account{number % 40}",
        "Name": f"job{number % 40}",
        "PriorityLong": 1_000_000 - number,
        "SubmitTime": NOW - 60,
        "NumNodes": nodes,
        "StartTime": "N/A",
        "EndTime": "N/A",
        "tres-alloc": tres,
    }


def _json(rows: tuple[fields.SlurmField, ...], words: dict[str, Any], kind: str) -> dict[str, Any]:
    """Record of JSON as 24.11 writes it, with as much around what is read."""
    made = {row.json[0]: _value(row, words[row.text]) for row in rows if row.text in words}
    if kind == "node":
        made["partitions"] = ["batch", "short", "long"]
    else:
        made["array_task_string"] = ""
    return {"filler": "x" * FILLER[kind], **made}


def _value(row: fields.SlurmField, word: Any) -> Any:
    if row.name in ("start_s", "end_s"):
        recorded = isinstance(word, int)
        return {"set": recorded, "infinite": False, "number": word if recorded else 0}
    if row.name == "state":
        return [str(word).upper()]
    if row.name == "cpus_used":
        return int(str(word).partition("/")[0])
    return word


if __name__ == "__main__":
    main()
