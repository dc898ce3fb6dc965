"""The queue: nodes in use over time, what new jobs have to expect, and where one would fit."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby

import msgspec

from sacct_ingest.store.fits import OUTLOOK
from sacct_ingest.text.durations import duration_range, duration_text
from slurm_plugin.protocol.status_messages import PartitionWait, QueueOutlook, QueueUse, WaitRow
from slurm_plugin.reports.chart_marks import Chart
from slurm_plugin.reports.curve_chart import waits
from slurm_plugin.reports.queue_picture import Lane, minutes_of, nodes_in_use
from slurm_plugin.text.formatting import count, percent
from slurm_plugin.text.table_columns import SECONDS, Column, Table, text_column
from slurm_plugin.web.view import OLD_S, View, Zoom
from slurm_plugin.web.waiting_reasons import reasons_table

_LIMITS = ("1", "4", "12", "24")  #: hours
_LANES = 5  #: most jobs of the viewer in one picture
_ANSWERS = 3  #: most partitions whose wait is said in a sentence
_OUTLOOK = (
    text_column("partition", "partition"),
    Column("waiting", "jobs in the queue"),
    Column("nodes", "nodes"),
    Column("wait_s", "median wait", as_text=SECONDS),
    Column("low_s", "90 %: from", as_text=SECONDS),
    Column("high_s", "to", as_text=SECONDS),
)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that somebody thinks of."""

    nodes: int = 1
    limit_s: float = 3600.0

    @property
    def words(self) -> str:
        """Say how large it is."""
        return f"{count(self.nodes, 'node')} for {duration_text(self.limit_s)}"


@dataclass(frozen=True, slots=True)
class ClusterOutlook:
    """The outlook of one cluster."""

    cluster: str
    age_s: float
    answers: list[str]  #: when the job that is thought of starts, a sentence a partition
    record: str
    pictures: list[Chart]
    charts: list[Chart]
    idle: str  #: partitions where every job starts at once: no wait is drawn
    table: Table


def queue(view: View) -> str:
    """Show what new jobs have to expect in each partition."""
    limit = view.choice("limit", _LIMITS, _LIMITS[0])
    most = largest_cluster(view) or 1
    job = NewJob(min(view.number("nodes", 1), most), 3600.0 * int(limit))
    zoom = view.zoom("counts", "/queue")
    when = view.zoom("minutes", "/queue")
    made = outlooks(
        view.site.store.records.of_level(OUTLOOK),
        counts=view.viewer.everything,
        now_s=time.time(),
        job=job,
        own=_own_jobs(view),
        zoom=zoom,
        when=when,
    )
    oldest_s = max((one.age_s for one in made), default=0.0)
    return view.render(
        "queue.html.j2",
        "Queue",
        outlooks=made,
        reasons=reasons_table(view),
        age=duration_text(oldest_s),
        now=oldest_s <= OLD_S,
        job=job,
        zoom=zoom,
        when=when,
        most=most,
        limit=limit,
        limits={n: f"{n} h" for n in _LIMITS},
    )


def _own_jobs(view: View) -> list[WaitRow]:
    """Jobs of the viewer that wait, the first to start first."""
    name = view.viewer.name
    rows = [row for row in view.site.service.waits(name).rows if row.user == name]
    return sorted((row for row in rows if row.start_s), key=lambda row: row.start_s or 0.0)


def largest_cluster(view: View) -> int | None:
    """Nodes of the largest partition, by the outlook that nimod left; None: there is none."""
    outlooks = _outlooks(view.site.store.records.of_level(OUTLOOK))
    return max((row.nodes for _, one in outlooks for row in one.partitions), default=None)


def outlooks(
    payloads: Mapping[str, str],
    *,
    counts: bool,
    now_s: float,
    job: NewJob = NewJob(),
    own: Sequence[WaitRow] = (),
    zoom: Zoom | None = None,
    when: Zoom | None = None,
) -> list[ClusterOutlook]:
    """Read the outlook of each cluster; what cannot be read is left out.

    payloads: what nimod left, by cluster.
    now_s: seconds since the epoch.
    job: a job that is thought of.
    own: jobs of the viewer that wait.
    zoom: counts that are drawn; None: all.
    when: minutes from the outlook on that are drawn; None: all.
    counts: whether to say how many jobs wait: only to those who may see everybody's.
    """
    made = []
    for cluster, one in _outlooks(payloads):
        if not counts:
            for row in one.partitions:
                row.waiting = None
        made.append(_outlook(cluster, one, now_s, job, own, zoom, when))
    return made


def _outlooks(payloads: Mapping[str, str]) -> Iterator[tuple[str, QueueOutlook]]:
    for cluster, payload in sorted(payloads.items()):
        with suppress(msgspec.DecodeError):
            yield cluster, msgspec.json.decode(payload, type=QueueOutlook)


def _outlook(
    cluster: str,
    one: QueueOutlook,
    now_s: float,
    job: NewJob,
    own: Sequence[WaitRow],
    zoom: Zoom | None,
    when: Zoom | None,
) -> ClusterOutlook:
    shown = [row for row in one.partitions if row.limit_s == job.limit_s]
    groups = [(name, list(rows)) for name, rows in groupby(shown, key=lambda row: row.partition)]
    most_s = max((row.high_s for row in shown), default=0.0)
    idle = [name for name, rows in groups if all(row.high_s == 0 for row in rows)]
    inside = "" if one.inside is None else f", {percent(one.inside)} of them inside their interval"
    starts = f"{count(one.recorded, 'start')} recorded{inside}."

    def chart(name: str, rows: list[PartitionWait]) -> Chart:
        queued = rows[0].waiting
        jobs = "" if queued is None else f": {count(queued, 'job')} in the queue"
        drawn = [row for row in rows if zoom is None or str(row.nodes) in zoom]
        made = waits(f"Wait in {name}{jobs}", drawn or rows, most_s=0.0 if zoom else most_s)
        return replace(made, zoom="counts")

    return ClusterOutlook(
        cluster=cluster,
        age_s=max(now_s - one.made_s, 0.0),
        answers=_answers(one, job),
        record=starts if one.recorded else "No job start recorded yet, so intervals are wide.",
        pictures=[_picture(use, one, job, own, when) for use in one.uses if _busy(use)],
        charts=[chart(name, rows) for name, rows in groups if name not in idle],
        idle=", ".join(idle),
        table=Table(
            _OUTLOOK,
            shown,
            "outlook",
            f"Waits of jobs with a limit of {duration_text(job.limit_s)}",
        ),
    )


def _busy(use: QueueUse) -> bool:
    return any(map(any, (use.running, use.waiting, use.closed)))


def _picture(
    use: QueueUse, one: QueueOutlook, job: NewJob, own: Sequence[WaitRow], when: Zoom | None
) -> Chart:
    """Draw one queue, with the viewer's jobs in it and the one that is thought of."""
    title = (
        f"Next {duration_text(use.step_s * (len(use.running) - 1))} in {', '.join(use.partitions)}"
    )
    mine = [row for row in own if not set(row.partition.split(",")).isdisjoint(use.partitions)]
    lanes = [_own_lane(row, one.made_s) for row in mine[:_LANES]]
    apart = all(row.waiting is not None for row in one.partitions)
    steps = [
        step for step in range(len(use.running)) if when and str(minutes_of(use, step)) in when
    ]
    part = range(steps[0], steps[-1] + 1) if len(steps) > 1 else None
    all_lanes = [*lanes, *_new_lane(use, one, job)]
    return replace(nodes_in_use(title, use, all_lanes, apart=apart, part=part), zoom="minutes")


def _own_lane(row: WaitRow, made_s: float) -> Lane:
    start_s = row.start_s or 0.0
    return Lane(
        name=f"Your job {row.job_id}, {count(row.nodes, 'node')}",
        start_s=start_s - made_s,
        low_s=(row.low_s or start_s) - made_s,
        high_s=(row.high_s or start_s) - made_s,
        limit_s=row.limit_s,
    )


def _new_lane(use: QueueUse, one: QueueOutlook, job: NewJob) -> Iterator[Lane]:
    """Look up when a new job would start: as one of the next larger size does."""
    if (row := _alike(one, use.partitions[0], job)) is not None:
        yield Lane(
            name=f"New job, {job.words}",
            start_s=row.wait_s,
            low_s=row.low_s,
            high_s=row.high_s,
            limit_s=job.limit_s,
            look="third",
        )


def _answers(one: QueueOutlook, job: NewJob) -> list[str]:
    """Say when a new job would start, in the partitions where it starts soonest."""
    names = dict.fromkeys(row.partition for row in one.partitions)
    rows = [row for name in names if (row := _alike(one, name, job)) is not None]
    rows.sort(key=lambda row: row.wait_s)
    return [_answer(row) for row in rows[:_ANSWERS]]


def _answer(row: PartitionWait) -> str:
    if row.high_s == 0:
        return f"In {row.partition} it starts at once."
    waits = duration_range(row.low_s, row.high_s)
    return (
        f"In {row.partition} it starts in about {duration_text(row.wait_s)} "
        f"(9 of 10 such jobs: {waits})."
    )


def _alike(one: QueueOutlook, partition: str, job: NewJob) -> PartitionWait | None:
    """Give the wait of jobs of the next larger size; None: none is so large."""
    for row in one.partitions:
        same = row.partition == partition and row.limit_s == job.limit_s
        if same and row.nodes >= job.nodes:
            return row
    return None
