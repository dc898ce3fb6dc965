"""The queue outlook: what nimod left in the store, as charts and a table."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby

import msgspec

from sacct_ingest.text.slurm_text import time_span
from slurm_plugin.protocol.status_messages import PartitionWait, QueueOutlook
from slurm_plugin.reports.chart import Chart, waits
from slurm_plugin.reports.html import Table, TableColumn
from slurm_plugin.text.formatting import count, limit_text, percent


@dataclass(frozen=True, slots=True)
class ClusterOutlook:
    """The outlook of one cluster."""

    cluster: str
    age_s: float
    limits: tuple[float, ...]  #: of jobs that there are waits for
    record: str
    charts: list[Chart]
    idle: str  #: partitions where every job starts at once: there is nothing to draw
    table: Table


def outlooks(
    payloads: Mapping[str, str], *, counts: bool, now_s: float, limit_s: float = 3600.0
) -> list[ClusterOutlook]:
    """Read the outlook of each cluster; what cannot be read is left out.

    payloads: what nimod left, by cluster.
    now_s: seconds since the epoch.
    limit_s: time limit of the jobs.
    counts: whether to say how many jobs wait: only to those who may see everybody's.
    """
    made = []
    for cluster, one in _read(payloads):
        if not counts:
            for row in one.partitions:
                row.waiting = None
        made.append(_outlook(cluster, one, now_s, limit_s))
    return made


def largest_partition(payloads: Mapping[str, str]) -> int | None:
    """Most nodes that a partition of a cluster has; None: there is no outlook."""
    sizes = [row.nodes for _, one in _read(payloads) for row in one.partitions]
    return max(sizes, default=None)


def _read(payloads: Mapping[str, str]) -> Iterator[tuple[str, QueueOutlook]]:
    for cluster, payload in sorted(payloads.items()):
        with suppress(msgspec.DecodeError):
            yield cluster, msgspec.json.decode(payload, type=QueueOutlook)


def _outlook(cluster: str, one: QueueOutlook, now_s: float, limit_s: float) -> ClusterOutlook:
    shown = [row for row in one.partitions if row.limit_s == limit_s]
    groups = [(name, list(rows)) for name, rows in groupby(shown, key=lambda row: row.partition)]
    most_s = max((row.high_s for row in shown), default=0.0)
    idle = [name for name, rows in groups if all(row.high_s == 0 for row in rows)]
    return ClusterOutlook(
        cluster=cluster,
        age_s=max(now_s - one.made_s, 0.0),
        limits=tuple(sorted({row.limit_s for row in one.partitions})),
        record=_record(one),
        charts=[_chart(name, rows, most_s) for name, rows in groups if name not in idle],
        idle=", ".join(idle),
        table=Table(
            name="outlook",
            caption=f"Waits of jobs with a limit of {limit_text(limit_s)}",
            columns=(
                TableColumn(key="partition", title="partition", left=True),
                TableColumn(key="waiting", title="jobs in the queue"),
                TableColumn(key="nodes", title="nodes"),
                TableColumn(key="wait_s", title="median wait"),
                TableColumn(key="low_s", title="90 %: from"),
                TableColumn(key="high_s", title="to"),
            ),
            rows=tuple(_row(row) for row in shown),
        ),
    )


def _chart(name: str, rows: list[PartitionWait], most_s: float) -> Chart:
    queued = rows[0].waiting
    title = f"Wait in {name}"
    jobs = "" if queued is None else f": {count(queued, 'job')} in the queue"
    return waits(f"{title}{jobs}", rows, most_s=most_s)


def _row(row: PartitionWait) -> tuple[str, ...]:
    times = (time_span(value) for value in (row.wait_s, row.low_s, row.high_s))
    queued = "" if row.waiting is None else str(row.waiting)
    return (row.partition, queued, str(row.nodes), *times)


def _record(one: QueueOutlook) -> str:
    if not one.recorded:
        return "No job start recorded yet, so intervals are wide."
    starts = f"{count(one.recorded, 'start')} recorded"
    inside = "" if one.inside is None else f", {percent(one.inside)} of them inside their interval"
    return f"{starts}{inside}."
