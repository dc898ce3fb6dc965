"""``nimo wait``: when jobs in the queue start, by nimod or by a user's own waits."""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sacct_ingest.text.durations import duration_text
from slurm_plugin.cli.command_context import nimod_socket, print_table, user_settings
from slurm_plugin.cli.through_nimod import TIMEOUT_S, nimod_or_store
from slurm_plugin.nimod import client
from slurm_plugin.protocol.status_messages import WaitRow, Waits
from slurm_plugin.reports.queue_table import job_name, moments_text, queue_table
from slurm_plugin.slurm import commands
from slurm_plugin.text.formatting import clock, count, wrapped
from slurm_plugin.text.streams import json_text
from slurm_plugin.text.table_columns import Table
from slurm_plugin.text.terminal_size import terminal_width

if TYPE_CHECKING:
    from slurm_plugin.config.settings import Config

NOT_WAITING = 3
#: What squeue says of a waiting job; the name, which users write, comes last.
_WAITING = "%A %F %K %u %P %D %r %S %V %j".replace(" ", "\x1f")
#: Fewer waits say nothing; jobs before these days say little of today's queue.
_FEWEST, _DAYS_S = 10, 60 * 86_400


def tables() -> list[Table]:
    """Give what it prints, without rows."""
    return [queue_table([])]


def run(args: argparse.Namespace) -> int:
    """Ask nimod and print; 3 where a job does not wait, or is not shown to this user."""
    settings = user_settings(args)
    socket = nimod_socket(args, settings)
    asked = list(dict.fromkeys(job for jobs in args.jobs for job in jobs))
    waits = nimod_or_store(
        settings,
        lambda: client.waits(
            socket, asked, user=args.user, partition=args.partition, timeout_s=TIMEOUT_S
        ),
        own=lambda config: _by_own_record(config, args, {job_id for job_id, _ in asked}),
        local=args.local,
    )
    if args.json:
        print(json_text(waits))
    elif waits.rows or args.parsable2:
        print_table(queue_table(waits.rows), args)
        if not args.parsable2:
            said = "\n".join([*conditions(waits.rows), sentence(waits, now_s=time.time())])
            print(f"\n{wrapped(said, terminal_width())}")
    else:
        selected = "the jobs selected" if args.user or args.partition else ""
        which = "these jobs" if args.jobs else selected
        others = "" if which else "; -u USER or -p PARTITION shows those of others"
        ago = "" if waits.made_s is None else duration_text(max(time.time() - waits.made_s, 0.0))
        state = f"was waiting {ago} ago" if ago else "is waiting"
        print(f"none of {which or 'your jobs'} {state}{others}")
    shown = {(job, task) for row in waits.rows for job in _numbers(row) for task in (-1, row.task)}
    missing = [job for job in asked if job not in shown]
    for job_id, task in missing:
        name = f"{job_id}" if task < 0 else f"{job_id}_{task}"
        print(f"nimo wait: job {name} is not waiting, or you may not see it", file=sys.stderr)
    if missing:
        print("A job that was just submitted is seen some seconds later.", file=sys.stderr)
    return NOT_WAITING if missing else 0


def _by_own_record(config: "Config", args: argparse.Namespace, asked: set[int]) -> Waits:
    """Estimate starts by what the user's own jobs waited, beside those that Slurm plans."""
    rows = own_waits(config, user=args.user, partition=args.partition, now_s=time.time())
    rows = [row for row in rows if not asked or _numbers(row) & asked]
    return Waits(rows=rows, own=True)


def _numbers(row: WaitRow) -> set[int]:
    return {row.job_id, row.array_id or row.job_id}


def conditions(rows: Sequence[WaitRow]) -> list[str]:
    """Say of which starts other jobs have to end well."""
    return [f"Job {job_name(row)} starts then {row.condition}." for row in rows if row.condition]


def sentence(waits: Waits, *, now_s: float) -> str:
    """Say what the moments are, and what they rest on."""
    if waits.own and all(row.start_s is None for row in waits.rows):
        return (
            "Too few of your own jobs waited as long to say a start.  Other jobs' waits need nimod."
        )
    if waits.own:
        return (
            'Half of your own jobs that had waited as long in the partition started by "starts", '
            'nine in ten between "not before" and "by"; "Slurm\'s start" is what Slurm plans.  '
            "Other jobs' waits need nimod."
        )
    if waits.made_s is None:
        return "There is no queue forecast yet; ask again in a minute."
    age = duration_text(max(now_s - waits.made_s, 0.0))
    record = (
        f"{count(waits.recorded, 'start')} recorded"
        if waits.recorded
        else "no job start recorded yet, so intervals are wide"
    )
    updated = f"Queue forecast updated {age} ago ({clock(waits.made_s)}), {record}."
    return "\n".join(filter(None, (moments_text(waits.rows), updated)))


def own_waits(config: "Config", *, user: str, partition: str, now_s: float) -> list[WaitRow]:
    """Give the waiting jobs of a user, and when they may start.

    config: names the store with the user's own history.
    user, partition: whose jobs, empty for one's own, and where, empty for everywhere.
    Raises sacct_ingest.errors.SlurmError: squeue does not answer.
    """
    from slurm_plugin.store_access import open_store  # noqa: PLC0415 - the database is heavy

    whose = [f"--user={user}"] if user else ["--me"]
    where = [f"--partition={partition}"] if partition else []
    argv = ["squeue", *whose, *where, "-h", "-t", "PD", "-o", _WAITING]
    lines = commands.run(argv, timeout_s=config.snapshot.timeout_s).splitlines()
    waited: dict[str, list[float]] = defaultdict(list)
    with open_store(config) as store:
        for run in store.runs.started(since_s=int(now_s) - _DAYS_S):
            since_s = run.eligible_s or run.submit_s
            waited[run.partition].append(max((run.start_s or since_s) - since_s, 0.0))
    rows = (line.split("\x1f") for line in lines)
    # Slurm shows an id and nodes as (null) of a job that is just leaving.
    return [_row(row, waited, now_s) for row in rows if row[0].isdecimal() and row[5].isdecimal()]


def _row(words: Sequence[str], waited: dict[str, list[float]], now_s: float) -> WaitRow:
    job_id, array_id, task, user, partition, nodes, reason, start, submit, name = words[:10]
    submit_s = float(submit)
    age_s = now_s - submit_s
    longer = [one for one in waited[partition.split(",")[0]] if one >= age_s]
    moments: list[float | None] = [None, None, None]
    if len(longer) >= _FEWEST:
        from statistics import quantiles  # noqa: PLC0415 - slow to load

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
