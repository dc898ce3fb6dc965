"""The queue outlook: what nimod left in the store, as charts and a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

import msgspec

from slurm_plugin.protocol.status_messages import PartitionWait, QueueOutlook
from slurm_plugin.reports.chart import Chart, waits
from slurm_plugin.reports.html import Table, TableColumn
from slurm_plugin.text.formatting import clock, count, duration, percent


@dataclass(frozen=True, slots=True)
class ClusterOutlook:
    """The outlook of one cluster."""

    cluster: str
    made: str
    record: str
    charts: list[Chart]
    idle: str  #: partitions where every job starts at once: there is nothing to draw
    table: Table


def outlooks(payloads: Mapping[str, str], *, counts: bool) -> list[ClusterOutlook]:
    """Read the outlook of each cluster; what cannot be read is left out.

    payloads: what nimod left, by cluster.
    counts: whether to say how many jobs wait: only to those who may see everybody's.
    """
    made = []
    for cluster, payload in sorted(payloads.items()):
        try:
            one = msgspec.json.decode(payload, type=QueueOutlook)
        except msgspec.DecodeError:
            continue
        if not counts:
            for row in one.partitions:
                row.waiting = None
        made.append(_outlook(cluster, one))
    return made


def _outlook(cluster: str, one: QueueOutlook) -> ClusterOutlook:
    groups = [
        (name, list(rows)) for name, rows in groupby(one.partitions, key=lambda row: row.partition)
    ]
    idle = [name for name, rows in groups if all(row.high_s == 0 for row in rows)]
    return ClusterOutlook(
        cluster=cluster,
        made=clock(one.made_s),
        record=_record(one),
        charts=[_chart(name, rows) for name, rows in groups if name not in idle],
        idle=", ".join(idle),
        table=Table(
            name="outlook",
            caption="Waits of jobs with a limit of an hour",
            columns=(
                TableColumn(key="partition", title="partition", left=True),
                TableColumn(key="waiting", title="jobs in the queue"),
                TableColumn(key="nodes", title="nodes"),
                TableColumn(key="wait_s", title="median wait"),
                TableColumn(key="low_s", title="90 %: from"),
                TableColumn(key="high_s", title="to"),
            ),
            rows=tuple(_row(row) for row in one.partitions),
        ),
    )


def _chart(name: str, rows: list[PartitionWait]) -> Chart:
    queued = rows[0].waiting
    title = f"Wait in {name}"
    return waits(title if queued is None else f"{title}: {count(queued, 'job')} in the queue", rows)


def _row(row: PartitionWait) -> tuple[str, ...]:
    times = (duration(value) for value in (row.wait_s, row.low_s, row.high_s))
    queued = "" if row.waiting is None else str(row.waiting)
    return (row.partition, queued, str(row.nodes), *times)


def _record(one: QueueOutlook) -> str:
    if not one.recorded:
        return "No job start recorded yet, so intervals are wide."
    starts = f"{count(one.recorded, 'start')} recorded"
    inside = "" if one.inside is None else f", {percent(one.inside)} of them inside their interval"
    return f"{starts}{inside}."
