"""Node counts that NIMO pinned: a job that does not start as planned gets its own range back.

NIMO gives a job one count of its range.  Where the job waits, that may turn out wrong: nodes fail,
others' jobs take longer, somebody goes first.  So a job whose planned start has passed, or which
Slurm plans to start later than its guard allows, gets the range that it asked for, and starts as it
would have without NIMO.  Where NIMO is switched off all get theirs.

Slurm refuses a range for a job that has started meanwhile (``_update_job`` in job_mgr.c): it
resizes a running job to one count only.
"""

import logging
from collections.abc import Iterable, Sequence
from math import inf

import msgspec
from msgspec.structs import replace

from sacct_ingest.errors import SlurmError
from sacct_ingest.text.admin_comment import Note, parse, with_note
from slurm_plugin.slurm.cluster_state import RawJob
from slurm_plugin.slurm.operator_updates import (
    ClosedFields,
    OperatorUpdates,
    WrittenField,
    job_and_task,
    shared,
)
from slurm_plugin.slurm.sources import Run
from slurm_plugin.slurm.startable import WAITS, waits_for_nodes

_log = logging.getLogger(__name__)
#: A job may start so long after it was planned to: Slurm takes its time to look at it.
_GRACE_S = 60.0
#: Slurm's plan may be so much later: it counts in steps (``bf_resolution``, up to ten minutes).
_STEP_S = 600.0
#: Jobs that get their range back at one look: each note is a command of its own.
_AT_ONCE = 100
_MARK = ",p="  #: of a note of a job that has a range to get back
_NODES, _CPUS = "numnodes", "numcpus"
_END = "\x1f"  #: nothing in these fields has it
_FIELDS = ("JobArrayID", "State", "NumNodes", "MaxNodes", "NumCPUs", "MinCpus", "admin_comment")
_FORMAT = ",".join(f"{name}:{_END}" for name in _FIELDS)


class PinnedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits with one count of its range, as Slurm has it now."""

    job_id: int  #: of a task that of its array
    task: str = ""  #: index, or of tasks that wait in one record all; empty: it is none of an array
    nodes: str  #: fewest and most, ``4-4``
    cpus: str = ""  #: in all; empty: not asked for
    cpus_node: int = 0  #: of each node, at least
    admin_comment: str
    note: Note

    def fields(self) -> list[WrittenField]:
        """List what of it has a value by NIMO's doing."""
        note = self.note
        low = max(self.note.low, 1)
        pinned = f"{note.nodes}-{note.nodes}"
        own = f"{low}-{note.high}"
        made = [
            WrittenField(
                job_id=self.job_id,
                task=self.task,
                field=_NODES,
                written=pinned,
                own=own,
                value=self.nodes,
            )
        ]
        if self.cpus and self.nodes in (pinned, own):
            made.append(
                WrittenField(
                    job_id=self.job_id,
                    task=self.task,
                    field=_CPUS,
                    written=str(note.nodes * self.cpus_node),
                    own=str(low * self.cpus_node),
                    value=self.cpus,
                )
            )
        return made


class PinnedCounts:
    """Gives jobs their ranges back; to be called with each view anew.

    closed: fields of jobs that it leaves alone.
    """

    def __init__(self, closed: ClosedFields | None = None) -> None:
        self._updates = OperatorUpdates(closed)
        self._may_note = True

    def look(self, run: Run, jobs: Iterable[RawJob], now_s: float, *, off: bool) -> None:
        """Look at the jobs of a view.

        now_s: its time, seconds since the epoch.
        off: whether NIMO is switched off, so that all that wait get their ranges back.
        """
        pinned = [(job, one) for job in jobs if (one := _pinned(job)) is not None]
        self._updates.look(field for _, one in pinned for field in one.fields())
        due = [
            (one.job_id, one.task)
            for job, one in pinned
            if (off or is_overdue(job, one.note, now_s))
            and self._updates.may_change(one.fields()[0])
        ]
        if due:
            self._give_back(run, due[:_AT_ONCE], now_s)

    def _give_back(self, run: Run, due: Sequence[tuple[int, str]], now_s: float) -> None:
        read: list[PinnedJob] = []
        arrays = {job_id for job_id, task in due if shared(task)}

        def ask() -> list[WrittenField]:
            found = pinned_jobs(run, sorted({job_id for job_id, _ in due}))
            read[:] = [
                one for one in found if one.job_id in arrays or (one.job_id, one.task) in due
            ]
            fields = [field for one in read for field in one.fields()]
            return sorted(fields, key=lambda field: field.field == _CPUS)

        try:
            for line in self._updates.give_back(run, ask):
                _log.warning("a range of node counts is given back: %s", line)
        except SlurmError as error:
            _log.warning("ranges of node counts are not given back: %s", error)
            return
        for one in read:
            nodes = one.fields()[0]
            # A note of each task would be a command of its own.
            if nodes.value == nodes.own and not one.task:
                self._note(run, one, now_s)

    def _note(self, run: Run, one: PinnedJob, now_s: float) -> None:
        """Write into a job's note that it got its range back; SlurmUser and administrators may.

        The comment is read right before: others write into it, too.
        """
        if not self._may_note:
            return
        try:
            now = next((job for job in pinned_jobs(run, [one.job_id]) if not job.task), None)
            if now is None or now.note != one.note:
                return
            text = with_note(now.admin_comment, replace(now.note, opened_s=round(now_s)))
            run(("scontrol", "update", f"jobid={one.job_id}", f"admincomment={text}"))
        except SlurmError as error:
            self._may_note = "denied" not in str(error)
            _log.warning("job %d: its note does not say so: %s", one.job_id, error)


def is_overdue(job: RawJob, note: Note, now_s: float) -> bool:
    """Whether a job that waits for nodes did not start as planned, or will not."""
    if not waits_for_nodes(job.reason) or note.planned_s is None:
        return False
    late = now_s > note.planned_s + _GRACE_S
    put_off = note.latest_s is not None and note.latest_s + _STEP_S < job.start_s < inf
    return late or put_off


def pinned_jobs(run: Run, job_ids: Sequence[int]) -> list[PinnedJob]:
    """Ask for jobs that wait with one count of their range.

    Raises SlurmError: squeue does not answer.
    """
    ids = ",".join(map(str, job_ids))
    text = run(("squeue", "-h", "-a", "-t", "PD", "-j", ids, "-r", "-O", _FORMAT))
    rows = (line.split(_END) for line in text.split("\n") if _MARK in line)
    return [job for row in rows if len(row) >= len(_FIELDS) and (job := _read(row)) is not None]


def _read(row: Sequence[str]) -> PinnedJob | None:
    name, state, least, most, cpus, cpus_node, admin_comment = row[: len(_FIELDS)]
    note = parse(admin_comment)
    job = job_and_task(name)
    if note is None or note.planned_s is None or state not in WAITS:
        return None
    if job is None or not cpus_node.isdecimal():
        return None
    return PinnedJob(
        job_id=job[0],
        task=job[1],
        nodes=f"{least}-{most}",
        cpus=cpus,
        cpus_node=int(cpus_node),
        admin_comment=admin_comment,
        note=note,
    )


def _pinned(job: RawJob) -> PinnedJob | None:
    """Give a job of a view as a pinned one; None: it is none that waits with its range to get."""
    job_id = job.array_id if job.tasks else job.job_id
    if job.state not in WAITS or job_id is None or _MARK not in job.admin_comment:
        return None
    note = parse(job.admin_comment)
    if note is None or note.planned_s is None or note.opened_s is not None:
        return None
    return PinnedJob(
        job_id=job_id,
        task=job.tasks,
        nodes=f"{job.nodes}-{job.max_nodes or 0}",
        admin_comment=job.admin_comment,
        note=note,
    )
