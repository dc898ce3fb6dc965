"""When a user's jobs start, by what the user's own jobs waited, beside what Slurm plans."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import quantiles

from slurm_plugin.config.settings import Config
from slurm_plugin.protocol.status_messages import WaitRow
from slurm_plugin.slurm import commands
from slurm_plugin.store_access import open_store

#: What squeue says of a waiting job; the name, which users write, comes last.
_WAITING = "%A %F %K %u %P %D %r %S %V %j".replace(" ", "\x1f")
#: Fewer waits say nothing; jobs before these days say little of today's queue.
_FEWEST, _DAYS_S = 10, 60 * 86_400


def own_waits(config: Config, *, user: str, partition: str, now_s: float) -> list[WaitRow]:
    """Give the waiting jobs of a user, and when they may start.

    config: names the store with the user's own history.
    user, partition: whose jobs, empty for one's own, and where, empty for everywhere.
    Raises sacct_ingest.errors.SlurmError: squeue does not answer.
    """
    whose = [f"--user={user}"] if user else ["--me"]
    where = [f"--partition={partition}"] if partition else []
    argv = ["squeue", *whose, *where, "-h", "-t", "PD", "-o", _WAITING]
    lines = commands.run(argv, timeout_s=config.snapshot.timeout_s).splitlines()
    waited: dict[str, list[float]] = defaultdict(list)
    with open_store(config) as store:
        for run in store.runs.started(since_s=int(now_s) - _DAYS_S):
            since_s = run.eligible_s or run.submit_s
            waited[run.partition].append(max((run.start_s or since_s) - since_s, 0.0))
    return [_row(line.split("\x1f"), waited, now_s) for line in lines]


def _row(words: Sequence[str], waited: dict[str, list[float]], now_s: float) -> WaitRow:
    job_id, array_id, task, user, partition, nodes, reason, start, submit, name = words[:10]
    submit_s = float(submit)
    age_s = now_s - submit_s
    longer = [one for one in waited[partition.split(",")[0]] if one >= age_s]
    moments: list[float | None] = [None, None, None]
    if len(longer) >= _FEWEST:
        cuts = quantiles(longer, n=20, method="inclusive")
        moments = [submit_s + cuts[at] for at in (9, 0, 18)]
    start_s, low_s, high_s = moments
    return WaitRow(
        job_id=int(job_id),
        array_id=int(array_id) if task.isdecimal() else None,
        task=int(task) if task.isdecimal() else None,
        user=user,
        name=name,
        partition=partition,
        nodes=int(nodes),
        reason=reason,
        submit_s=submit_s,
        start_s=start_s,
        low_s=low_s,
        high_s=high_s,
        slurm_start_s=float(start) if start.isdecimal() else None,
    )
