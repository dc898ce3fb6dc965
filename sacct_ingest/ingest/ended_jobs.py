"""Jobs that ended a moment ago: asked for by their ids, or taken into a store before accounting is.

The accounting comes first.  What is on its way there is still in the queue, as squeue shows it.
"""

from collections.abc import Collection
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Final

from sacct_ingest.errors import SacctError
from sacct_ingest.job_run import JobRun
from sacct_ingest.probes.reported_copies import of_run
from sacct_ingest.runs.evidence import failed_steps
from sacct_ingest.runs.reading import resolved
from sacct_ingest.runs.submission import decode
from sacct_ingest.runs.usage import node_watts
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct import LiveSacct
from sacct_ingest.sources.squeue import Squeue, ended_in_queue
from sacct_ingest.store.rows import RunRow

if TYPE_CHECKING:
    from sacct_ingest.store import Store

_EARLIER_S: Final = 60  #: accounting is asked from so long before a job on, for clocks differ ...
_LATER_S: Final = 86_400  #: ... and up to so long after the present
_LATE_S: Final = 30  #: what has ended a moment ago is on its way to the accounting
#: What a job has from its row as it is.
_SAME: Final = [name for name in JobRun.__struct_fields__ if name in RunRow.__slots__]


def ended_jobs(
    job_ids: Collection[int],
    *,
    since_s: int,
    now_s: int,
    squeue: Squeue,
    user: str,
    accounting: LiveSacct,
) -> dict[int, RunRow]:
    """Give those of a user's jobs that have ended, by their ids, with their steps.

    since_s: when the first of them was planned, seconds since the epoch.
    user: who asks; the jobs are theirs.
    Raises SlurmError: neither the accounting nor squeue says anything.
    """
    late_s = 0
    rows: list[JobRun] = []
    with suppress(SacctError):
        read = accounting.of_jobs(list(job_ids), since_s - _EARLIER_S, now_s + _LATER_S, Tally())
        # A record without a partition is half of one: the other half is still on its way.
        rows = [one for one in read if one.end_s is not None and one.partition]
        late_s = _LATE_S
    if missing := set(job_ids) - {one.job_id for one in rows}:
        queued = ended_in_queue(squeue, cluster="", user=user)
        left = [one for one in queued if one.job_id in missing]
        rows += [one for one in left if (one.end_s or now_s) <= now_s - late_s]
    return {one.job_id: _job(one) for one in rows}


def add_from_queue(store: "Store", squeue: Squeue, *, cluster: str, user: str) -> int:
    """Store the user's jobs that slurmctld still has, of this cluster; tell how many they are."""
    rows = ended_in_queue(squeue, cluster=cluster, user=user)
    store.runs.add(rows)
    store.probes.add([*chain.from_iterable(map(of_run, rows))])
    return len(rows)


def _job(row: JobRun) -> RunRow:
    """Give the job of one row as a store would."""
    identity, text = resolved(row.user, row.name, row.comment, row.submit_line, row.work_dir)
    return RunRow(
        run_id=0,
        tag=identity.tag,
        script=identity.script,
        line=identity.line,
        submission=decode(text),
        node_watts=node_watts(row.nodes, row.elapsed_s, row.steps),
        failed_steps=failed_steps(row.steps),
        **{name: getattr(row, name) for name in _SAME},
    )
