"""Jobs of batch logs for benchmarks of run time.

SWF, ``sacct -P`` text, rows of XDMoD, of NREL, and of Gen-Parallel-Workloads (Theta, Philly).
"""

import csv
import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from predictor.level.experts import RunRequest
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState
from sacct_ingest.sources.opened import decoded, open_file
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.saved import SavedSacct

#: Columns of rows without a header, in the order of XDMoD's shredder.
XDMOD = (
    *("JobID", "JobIDRaw", "Cluster", "Partition", "QOS", "Account", "Group", "GID", "User", "UID"),
    *("Submit", "Eligible", "Start", "End", "Elapsed", "ExitCode", "State", "NNodes", "NCPUS"),
    *("ReqCPUS", "ReqMem", "ReqTRES", "AllocTRES", "Timelimit", "NodeList", "JobName"),
)


def saved(path: Path) -> SavedSacct:
    """Open a log, with XDMoD's columns where it has no header."""
    with open_file(path) as binary:
        head = decoded(binary).readline()
    bare = "|" in head and "JobID" not in head
    return SavedSacct(path, cluster="any", fields=XDMOD if bare else ())


def runs(path: Path) -> Iterator[JobRun]:
    """Read the runs of a log, in whatever of these formats it is."""
    if path.name.endswith(".csv.gz"):
        return _generated(path)
    return _nrel(path) if path.suffix == ".csv" else saved(path).read(0, 2**40, Tally())


def _nrel(path: Path) -> Iterator[JobRun]:
    """Jobs as NREL publishes those of Eagle: names, folders and command lines are made up."""
    with path.open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):  # tasks of arrays share their id
            start_s, end_s = _epoch(row["start_time"]), _epoch(row["end_time"])
            yield JobRun(
                cluster="eagle",
                job_id=number,
                submit_s=_epoch(row["submit_time"]),
                start_s=start_s,
                end_s=end_s,
                elapsed_s=float(row["run_time"]),
                state=JobState(row["state"].partition(" ")[0]),
                user=row["user"],
                name=row["name"],
                account=row["account"],
                partition=row["partition"],
                work_dir=row["work_dir"],
                submit_line=f"sbatch {row['submit_line']}.sh",
                limit_s=round(float(row["wallclock_req"])),
                nodes=int(row["nodes_req"]),
                cpus=int(row["processors_req"]),
                gpus=int(row["gpus_req"]) or None,
            )


#: How Theta and Philly say that a job ended.
_ENDINGS = {"Pass": JobState.COMPLETED, "Killed": JobState.CANCELLED, "Failed": JobState.FAILED}
_FIRST_S = 1_500_000_000  #: no time of day is given, only the time between submissions


def _generated(path: Path) -> Iterator[JobRun]:
    """Jobs as DIR-LAB has them; no waits are given, so that each starts when it is submitted."""
    submit_s = float(_FIRST_S)
    with gzip.open(path, "rt", newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            submit_s += float(row["interval"])
            elapsed_s = float(row["run_time"])
            yield JobRun(
                cluster=path.name.partition("-")[0],
                job_id=number,
                submit_s=round(submit_s),
                start_s=round(submit_s),
                end_s=round(submit_s + elapsed_s),
                elapsed_s=elapsed_s,
                state=_ENDINGS[row["new_status"]],
                user=row["user"],
                limit_s=round(float(row["wall_time"])) or None,
                nodes=int(row["node_num"]),
                cpus=int(row["cpu_num"]),
                gpus=int(row["gpu_num"]) or None,
            )


def _epoch(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a log; times in seconds."""

    submit_s: float
    end_s: float
    elapsed_s: float
    user: str
    name: str
    asked: RunRequest
    number: int = 0  #: place in the log: two jobs may be alike in everything else


def load(path: Path) -> list[Job]:
    """Jobs of a log that ran and had a limit, in the order of their submission."""
    jobs = _swf(path) if ".swf" in path.suffixes else _sacct(path)
    return in_order(job for job in jobs if job.elapsed_s > 0)


def in_order(jobs: Iterable[Job]) -> list[Job]:
    """Jobs in the order of their submission, numbered."""
    ordered = sorted(jobs, key=lambda job: job.submit_s)
    return [replace(job, number=number) for number, job in enumerate(ordered)]


def _swf(path: Path) -> Iterator[Job]:
    """Jobs of a log in the Standard Workload Format; node counts are those asked for."""
    for run in saved(path).read(0, 2**40, Tally()):
        nodes = run.req_nodes or run.nodes
        if nodes < 1 or run.start_s is None or run.limit_s is None or run.elapsed_s <= 0:
            continue
        asked = RunRequest(nodes, float(run.limit_s))
        end = float(run.start_s) + run.elapsed_s
        yield Job(float(run.submit_s), end, run.elapsed_s, run.user, run.name, asked)


def _sacct(path: Path) -> Iterator[Job]:
    for run in saved(path).read(0, 2**40, Tally()):
        if run.start_s is None or run.end_s is None or run.limit_s is None:
            continue
        asked = RunRequest(run.nodes, float(run.limit_s))
        elapsed = float(run.end_s - run.start_s)
        yield Job(float(run.submit_s), float(run.end_s), elapsed, run.user, run.name, asked)
