"""Which stored runs are one job: components of a heterogeneous job, and the starts of one job.

A run is a row of the accounting.  Components have a row each, with ids that follow one another.  A
job that was requeued has a row for each start: the id stays, the submit time is that of the
requeue (seen on Slurm 22.05, 24.11 and 26.05).  One run stands for the whole job: the first
component of the last start.  The others point to it (``part_of``); what they say is written beside
it (``pieces``), so that nobody has to look for them again.

Ids are used again after a cluster lost its state, so a later run is another start of an earlier one
only if that ended in a way after which Slurm starts a job again, and user and name are the same.

Rows come in any order, and the next start may be read weeks later.  Those that may have others
beside them are in ``job_pieces``, a small table; a new run is looked up there.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
import sqlalchemy as sa

from sacct_ingest.records import Component, JobPieces, JobState, Start
from sacct_ingest.store.changes import mark_runs
from sacct_ingest.store.decision_outcomes import KEYS
from sacct_ingest.store.engine import parts
from sacct_ingest.store.packed_runs import Columns, joined
from sacct_ingest.store.rows import total
from sacct_ingest.store.schema import decisions, job_pieces, runs

#: States of a run after which Slurm may start the same job again.
RESTARTED: Final = frozenset(
    {
        JobState.REQUEUED.value,
        JobState.PREEMPTED.value,
        JobState.NODE_FAIL.value,
        JobState.BOOT_FAIL.value,
        # What ran out of memory and was requeued keeps that state here (`store.add_runs`).
        JobState.OUT_OF_MEMORY.value,
    }
)
#: A job is started again at the latest so long after it was stopped: a job that was held, say.
#: Slurm's submit time of the next start is the moment of the requeue.
_LATEST_S: Final = 30 * 86_400
#: Seconds that the clocks of two rows may differ by.
_CLOCK_S: Final = 60
_MEMBER = [
    runs.c[name]
    for name in (
        *("id", "cluster", "job_id", "het_job_id", "het_offset", "submit_s", "start_s", "end_s"),
        *("elapsed_s", "state", "user", "name", "limit_s", "nodes", "cpus", "tasks", "gpus"),
        *("gpu_types", "req_cpus", "req_gpus", "req_mem_bytes", "mem_bytes", "cpu_s"),
        *("exit_code", "exit_signal", "part_of", "pieces", "tag", "script", "line"),
    )
]
#: Such a row of a run that is not stored yet.
_MEMBER_NAMES: Final = [str(column.name) for column in _MEMBER]
_Member = msgspec.defstruct("_Member", _MEMBER_NAMES)
_POINT = (
    sa.update(runs)
    .where(runs.c.id == sa.bindparam("id_"))
    .values(part_of=sa.bindparam("part_of_"), pieces=sa.bindparam("pieces_"))
)
#: Apart from that: keys have indexes, and hardly ever change.
_MOVE = (
    sa.update(runs)
    .where(runs.c.id == sa.bindparam("id_"))
    .values({name: sa.bindparam(f"{name}_") for name in KEYS})
)
_encode = msgspec.json.Encoder().encode
#: Reads the text of `pieces`.
decode_pieces = msgspec.json.Decoder(JobPieces).decode
#: Cluster, and the id of a job: that of its first component.
_JobId = tuple[str, int]
#: What of runs says which jobs they may be pieces of, each the values of a column.
PIECE_COLUMNS: Final = ("id", "cluster", "job_id", "het_job_id", "submit_s", "end_s", "state")
_OF_JOB: Final = ("id", "cluster", "job_id", "het_job_id")
_HET, _STATE = map(PIECE_COLUMNS.index, ("het_job_id", "state"))
#: Columns of a run that is not stored yet, and its position in them.
_Place = tuple[Columns, int]


class _Piece(NamedTuple):
    """The same of one run."""

    run_id: int
    cluster: str
    job_id: int
    het_job_id: int | None
    submit_s: int
    end_s: int | None
    state: str

    @property
    def job(self) -> _JobId:
        return self.cluster, self.het_job_id or self.job_id


#: A run, the run that stands for its job (None: itself), what is written beside it, and its keys.
_Change = tuple[Any, int | None, str | None, tuple[str, str, str]]


class Links(NamedTuple):
    """What is to be written of jobs of several runs once all of these are stored."""

    candidates: Sequence[_Piece]  #: runs that may have others of their job beside them
    changes: Sequence[_Change]  #: of runs that are stored already


def link_new(connection: sa.Connection, packs: Sequence[Columns]) -> Links:
    """Find the jobs of runs before they are stored, so that nothing of them is changed afterwards.

    packs: columns of `runs`, in lists; what stands for each job is filled in.
    """
    places = {run_id: (columns, at) for columns in packs for at, run_id in enumerate(columns["id"])}
    candidates, changes = _found(connection, joined(packs, PIECE_COLUMNS), places)
    stored: list[_Change] = []
    for change in changes:
        row, part_of, text, keys = change
        if row.id not in places:
            stored.append(change)
            continue
        columns, at = places[row.id]
        values = dict(zip(KEYS, keys, strict=True), part_of=part_of, pieces=text)
        for name, value in values.items():
            if value is not None or name in columns:
                columns.setdefault(name, [None] * len(columns["id"]))[at] = value
    return Links(candidates, stored)


def link_stored(connection: sa.Connection, columns: Mapping[str, Sequence[Any]]) -> None:
    """Find the jobs of runs that were changed; identities of changed jobs are fitted anew.

    columns: `PIECE_COLUMNS` of the runs.
    """
    candidates, changes = _found(connection, columns, {})
    for some in parts([piece.run_id for piece in candidates]):
        connection.execute(sa.delete(job_pieces).where(job_pieces.c.run_id.in_(some)))
    write(connection, Links(candidates, changes))


def write(connection: sa.Connection, links: Links) -> None:
    """Write what was found of runs, which are stored by now."""
    if links.candidates:
        rows = [
            {"run_id": piece.run_id, "cluster": piece.cluster, "job": piece.job[1]}
            for piece in links.candidates
        ]
        connection.execute(sa.insert(job_pieces), rows)
    if not links.changes:
        return
    changed = [row.id for row, *_ in links.changes]
    mark_runs(connection, changed)
    pointers = []
    moved = []
    for row, part_of, text, keys in links.changes:
        pointers.append({"id_": row.id, "part_of_": part_of, "pieces_": text})
        if keys != _keys(row):
            tag, script, line = keys
            moved.append({"id_": row.id, "tag_": tag, "script_": script, "line_": line})
    connection.execute(_POINT, pointers)
    if moved:
        connection.execute(_MOVE, moved)
    mark_runs(connection, changed)
    leads = {row.id: lead for row, lead, *_ in links.changes if lead is not None}
    move_decisions(connection, leads)


def _found(
    connection: sa.Connection, columns: Mapping[str, Sequence[Any]], new: Mapping[int, _Place]
) -> tuple[list[_Piece], list[_Change]]:
    """Give those of these runs that may have others beside them, and what changes of which run.

    new: where those of the runs are that are not stored yet, by their ids.
    """
    components = any(one is not None for one in columns["het_job_id"])
    restarts = not RESTARTED.isdisjoint(columns["state"])
    pieces = _known(connection, columns)
    if not (components or restarts or pieces):
        return [], []
    candidates = [
        _Piece(*row)
        for row in zip(*(columns[name] for name in PIECE_COLUMNS), strict=True)
        if row[_HET] is not None or row[_STATE] in RESTARTED
    ]
    jobs = {piece.job for piece in candidates}.union(pieces.values())
    ids = zip(*(columns[name] for name in _OF_JOB), strict=True)
    of_jobs = [
        run_id for run_id, cluster, job_id, het_id in ids if (cluster, het_id or job_id) in jobs
    ]
    others = {*pieces, *_later_starts(connection, candidates)}
    if new:
        rows = _rows(connection, others) | _new_rows(new, of_jobs)
    else:
        rows = _rows(connection, others.union(of_jobs))
    # The last start of a job may be a plain run, which only the earlier ones point to.
    rows |= _rows(connection, {row.part_of for row in rows.values() if row.part_of} - rows.keys())
    of_job: defaultdict[_JobId, list[Any]] = defaultdict(list)
    for row in rows.values():
        of_job[row.cluster, row.het_job_id or row.job_id].append(row)
    return candidates, [change for members in of_job.values() for change in _resolved(members)]


def _known(connection: sa.Connection, columns: Mapping[str, Sequence[Any]]) -> dict[int, _JobId]:
    """Jobs of these runs that have a row in `job_pieces`, by the run of each such row."""
    ids = {*columns["job_id"], *columns["het_job_id"]} - {None}
    # Between the least and the most: a list of thousands of ids takes longer than the few rows.
    query = sa.select(job_pieces.c.run_id, job_pieces.c.cluster, job_pieces.c.job).where(
        job_pieces.c.cluster.in_(set(columns["cluster"])),
        job_pieces.c.job.between(min(ids), max(ids)),
    )
    return {
        row.run_id: (row.cluster, row.job) for row in connection.execute(query) if row.job in ids
    }


def _later_starts(connection: sa.Connection, candidates: Sequence[_Piece]) -> Iterator[int]:
    """Find runs that were read before the start that they follow."""
    stopped: defaultdict[str, list[_Piece]] = defaultdict(list)
    for piece in candidates:
        if piece.het_job_id is None:  # components are all in `job_pieces`
            stopped[piece.cluster].append(piece)
    for cluster, pieces in stopped.items():
        ends_s = [piece.submit_s if piece.end_s is None else piece.end_s for piece in pieces]
        between = runs.c.submit_s.between(min(ends_s) - _CLOCK_S, max(ends_s) + _LATEST_S)
        for some in parts(sorted({piece.job_id for piece in pieces})):
            # By the unique key of runs: few of those that are stored were submitted later.
            listed = ",".join(map(str, some))
            query = sa.select(runs.c.id)
            query = query.where(
                runs.c.cluster == cluster, between, sa.text(f"job_id IN ({listed})")
            )
            yield from connection.execute(query).scalars()


def _rows(connection: sa.Connection, ids: Collection[int]) -> dict[int, Any]:
    rows: dict[int, Any] = {}
    for some in parts(sorted(ids)):
        for row in connection.execute(sa.select(*_MEMBER).where(runs.c.id.in_(some))):
            rows[row.id] = row
    return rows


def _new_rows(places: Mapping[int, _Place], ids: Iterable[int]) -> dict[int, Any]:
    """Give the same of runs that are not stored yet."""
    rows: dict[int, Any] = {}
    for run_id in ids:
        columns, at = places[run_id]
        values = map(columns.get, _MEMBER_NAMES)
        rows[run_id] = _Member(*(None if column is None else column[at] for column in values))
    return rows


def _resolved(rows: Sequence[sa.Row[Any]]) -> Iterator[_Change]:
    """Tell the jobs that runs of one id are, and yield what is to be changed of each run."""
    for starts in _jobs(_attempts(rows)):
        lead = starts[-1][0]
        every = [row for start in starts for row in start]
        text = None
        if len(every) > 1:
            last = starts[-1]
            earlier = [_start(start) for start in starts[:-1] if start[0].start_s is not None]
            components = map(_component, last) if last[0].het_job_id is not None else ()
            text = _encode(JobPieces(tuple(earlier), tuple(components))).decode()
        # The decision of the submission has the key of the script: it is joined to the first start.
        keys = next((_keys(start[0]) for start in starts if start[0].script), _keys(lead))
        for row in every:
            change = (None, text, keys) if row is lead else (lead.id, None, _keys(row))
            if change != (row.part_of, row.pieces, _keys(row)):
                yield (row, *change)


def _keys(row: sa.Row[Any]) -> tuple[str, str, str]:
    return row.tag, row.script, row.line


def _attempts(rows: Iterable[sa.Row[Any]]) -> list[list[sa.Row[Any]]]:
    """Group the rows of one id by start, the components of each in their order."""
    of_job: defaultdict[int, list[sa.Row[Any]]] = defaultdict(list)
    for row in sorted(rows, key=attrgetter("submit_s", "id")):
        of_job[row.job_id].append(row)
    if not of_job:
        return []
    first = min(of_job)
    attempts = [[row] for row in of_job.pop(first)]
    for job_id in sorted(of_job):
        for row in of_job[job_id]:
            nearest = min(attempts, key=lambda own: abs(own[0].submit_s - row.submit_s))
            nearest.append(row)
    return attempts


def _jobs(attempts: Sequence[list[sa.Row[Any]]]) -> Iterator[list[list[sa.Row[Any]]]]:
    """Group starts by job: an id may have been used again."""
    if not attempts:
        return
    job = [attempts[0]]
    for before, after in pairwise(attempts):
        if not _restarted(before[0], after[0]):
            yield job
            job = []
        job.append(after)
    yield job


def _restarted(before: sa.Row[Any], after: sa.Row[Any]) -> bool:
    if before.state not in RESTARTED:
        return False
    if (before.user, before.name) != (after.user, after.name):
        return False
    ended_s = before.submit_s if before.end_s is None else before.end_s
    return bool(-_CLOCK_S <= after.submit_s - ended_s <= _LATEST_S)


def _start(rows: Sequence[sa.Row[Any]]) -> Start:
    first = rows[0]
    return Start(
        submit_s=first.submit_s,
        start_s=first.start_s,
        end_s=first.end_s,
        elapsed_s=max(row.elapsed_s for row in rows),
        state=JobState(first.state),
        limit_s=first.limit_s,
        nodes=sum(row.nodes for row in rows),
        cpus=sum(row.cpus for row in rows),
        exit_code=first.exit_code,
        exit_signal=first.exit_signal,
        tasks=total(row.tasks for row in rows),
        mem_bytes=max((row.mem_bytes for row in rows if row.mem_bytes is not None), default=None),
        req_mem_bytes=total(row.req_mem_bytes for row in rows),
        cpu_s=total(row.cpu_s for row in rows),
    )


def _component(row: sa.Row[Any]) -> Component:
    return Component(**{name: getattr(row, name) for name in Component.__struct_fields__})


def move_decisions(connection: sa.Connection, leads: dict[int, int]) -> None:
    """Let the decision about a job's submission be that of the run that stands for the job.

    leads: by the run that a decision may be joined to, the one that stands for its job.
    """
    for some in parts(sorted(leads)):
        query = sa.select(decisions.c.decision_id, decisions.c.run_id)
        found = connection.execute(query.where(decisions.c.run_id.in_(some))).all()
        query = sa.select(decisions.c.run_id)
        wanted = {leads[row.run_id] for row in found}
        taken = set(connection.execute(query.where(decisions.c.run_id.in_(wanted))).scalars())
        for row in sorted(found, key=attrgetter("run_id")):
            if (lead := leads[row.run_id]) in taken:
                continue  # of a heterogeneous job the first component's
            taken.add(lead)
            own = decisions.c.decision_id == row.decision_id
            connection.execute(sa.update(decisions).where(own).values(run_id=lead))
