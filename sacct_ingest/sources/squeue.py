"""Jobs that ended in the last minutes, which slurmctld still has, as ``squeue`` prints them."""

from collections.abc import Callable, Sequence
from typing import Final

from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState

#: Runs squeue and gives its text, with times as seconds since the epoch.
Squeue = Callable[[Sequence[str]], str]
#: What squeue says of a job; what users write comes last.
_COLUMNS: Final = "%A %T %D %C %P %a %q %V %S %e %Z %j %o".replace(" ", "\x1f")
_ENDED: Final = frozenset(
    {"COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "CANCELLED"}
)


def ended_in_queue(squeue: Squeue, *, cluster: str, user: str) -> list[JobRun]:
    """Give the jobs of the user who asks that ended a moment ago.

    cluster, user: their names, which squeue does not say of each job.
    """
    lines = squeue(["squeue", "--me", "-h", "-t", "all", "-o", _COLUMNS]).splitlines()
    rows = (_row(line.split("\x1f"), cluster, user) for line in lines)
    return [row for row in rows if row is not None]


def _row(words: Sequence[str], cluster: str, user: str) -> JobRun | None:
    """Make a row of a line of squeue; None: the job has not ended, or never ran."""
    if len(words) < 13 or words[1] not in _ENDED or not (words[8] + words[9]).isdecimal():
        return None
    job_id, state, nodes, cpus, partition, account, qos, submit, start, end, folder = words[:11]
    return JobRun(
        cluster=cluster,
        job_id=int(job_id),
        user=user,
        account=account,
        name=words[11],
        partition=partition,
        qos=qos,
        state=JobState(state),
        submit_s=int(submit),
        start_s=int(start),
        end_s=int(end),
        elapsed_s=float(int(end) - int(start)),
        nodes=int(nodes),
        cpus=int(cpus),
        work_dir=folder,
        submit_line=f"sbatch {words[12]}",
    )
