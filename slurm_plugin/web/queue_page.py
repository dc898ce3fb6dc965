"""The queue outlook: what nimod left in the store, as charts and a table."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby

import msgspec

from sacct_ingest.store.fits import OUTLOOK
from sacct_ingest.text.slurm_text import time_span
from slurm_plugin.protocol.status_messages import PartitionWait, QueueOutlook
from slurm_plugin.reports.chart import Chart, waits
from slurm_plugin.reports.html import Table
from slurm_plugin.text.formatting import count, limit_text, percent
from slurm_plugin.web.view import OLD_S, View, columns


@dataclass(frozen=True, slots=True)
class ClusterOutlook:
    """The outlook of one cluster."""

    cluster: str
    age_s: float
    limits: frozenset[float]  #: of jobs that there are waits for
    record: str
    charts: list[Chart]
    idle: str  #: partitions where every job starts at once: there is nothing to draw
    table: Table


def queue(view: View) -> str:
    """Show what new jobs have to expect in each partition."""
    limit = view.choice("limit", ("1", "4", "12", "24"), "1")
    made = outlooks(
        view.site.store.records.of_level(OUTLOOK),
        counts=view.viewer.everything,
        now_s=time.time(),
        limit_s=3600.0 * int(limit),
    )
    oldest_s = max((one.age_s for one in made), default=0.0)
    limits = sorted({f"{one_s / 3600:.0f}" for one in made for one_s in one.limits}, key=int)
    return view.render(
        "queue.html.j2",
        "Queue",
        outlooks=made,
        age=time_span(oldest_s),
        now=oldest_s <= OLD_S,
        limit=limit,
        limits=[
            (f"{n} h", view.link("/queue", limit="" if n == "1" else n), n == limit) for n in limits
        ],
    )


def largest_cluster(view: View) -> int | None:
    """Nodes of the largest partition, by the outlook that nimod left; None: there is none."""
    outlooks = _read(view.site.store.records.of_level(OUTLOOK))
    return max((row.nodes for _, one in outlooks for row in one.partitions), default=None)


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


def _read(payloads: Mapping[str, str]) -> Iterator[tuple[str, QueueOutlook]]:
    for cluster, payload in sorted(payloads.items()):
        with suppress(msgspec.DecodeError):
            yield cluster, msgspec.json.decode(payload, type=QueueOutlook)


def _outlook(cluster: str, one: QueueOutlook, now_s: float, limit_s: float) -> ClusterOutlook:
    shown = [row for row in one.partitions if row.limit_s == limit_s]
    groups = [(name, list(rows)) for name, rows in groupby(shown, key=lambda row: row.partition)]
    most_s = max((row.high_s for row in shown), default=0.0)
    idle = [name for name, rows in groups if all(row.high_s == 0 for row in rows)]
    inside = "" if one.inside is None else f", {percent(one.inside)} of them inside their interval"
    starts = f"{count(one.recorded, 'start')} recorded{inside}."

    def chart(name: str, rows: list[PartitionWait]) -> Chart:
        queued = rows[0].waiting
        jobs = "" if queued is None else f": {count(queued, 'job')} in the queue"
        return waits(f"Wait in {name}{jobs}", rows, most_s=most_s)

    def cells(row: PartitionWait) -> tuple[str, ...]:
        times = (time_span(value) for value in (row.wait_s, row.low_s, row.high_s))
        queued = "" if row.waiting is None else str(row.waiting)
        return (row.partition, queued, str(row.nodes), *times)

    return ClusterOutlook(
        cluster=cluster,
        age_s=max(now_s - one.made_s, 0.0),
        limits=frozenset(row.limit_s for row in one.partitions),
        record=starts if one.recorded else "No job start recorded yet, so intervals are wide.",
        charts=[chart(name, rows) for name, rows in groups if name not in idle],
        idle=", ".join(idle),
        table=Table(
            name="outlook",
            caption=f"Waits of jobs with a limit of {limit_text(limit_s)}",
            columns=columns(
                "partition:", "jobs in the queue", "nodes", "median wait", "90 %: from", "to"
            ),
            rows=[cells(row) for row in shown],
        ),
    )
