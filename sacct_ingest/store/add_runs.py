"""Runs and their steps into the store, each once: new ones inserted, changed ones updated.

Runs are packed where they are read, and unpacked only where they are new or changed: a run is
recognised by its key and a digest of all its facts.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, compress, count
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from sacct_ingest.records import JobState
from sacct_ingest.store import counters
from sacct_ingest.store.changes import mark_runs
from sacct_ingest.store.decision_outcomes import JOINED, KEYS, copy_to_tasks
from sacct_ingest.store.engine import parts, writing
from sacct_ingest.store.insert_rows import insert_rows, rows_of
from sacct_ingest.store.packed_runs import ChosenRuns, Key, PackedRuns, joined
from sacct_ingest.store.rows import Stored
from sacct_ingest.store.runs_of_job import PIECE_COLUMNS, link_new, link_stored, write
from sacct_ingest.store.schema import runs, steps

#: Runs in one transaction: small enough to stop at, large enough to be fast.
BATCH = 2000
#: What `sacct_ingest.store.runs_of_job` finds out, and what others saw, is no part of a row.
_LATER = ("part_of", "pieces", "inputs", "script_bag")
_COLUMNS = [c.name for c in runs.columns if c.name not in _LATER]
_EXISTING = sa.select(runs.c.id, runs.c.digest, runs.c.submit_s, runs.c.job_id)
_MARK_KEY = ("cluster_", "submit_s_", "job_id_")
_RESIZED = runs.c.state == JobState.RESIZING.value
_MARK = (
    sa.update(runs)
    .where(*(runs.c[name.removesuffix("_")] == sa.bindparam(name) for name in _MARK_KEY))
    .values(state=JobState.RESIZING.value)
)


def add_packed(engine: sa.Engine, given: Sequence[PackedRuns]) -> Stored:
    """Store runs in a transaction of their own; of a run given twice the last counts.

    A run that was recognised as the rest of a resized job stays in that state: see
    `sacct_ingest.ingest.into_store`.

    Raises StoreError: they cannot be stored; then none of them is.
    """
    latest = _latest(given)
    with writing(engine) as connection:
        counters.lock(connection, "runs")
        stored = _existing(connection, latest)
        new, changed = _sorted_out(given, latest, stored)
        if any(new):
            _insert(connection, given, new)
        if any(changed):
            ids = [
                [stored[pack.keys[at]][0] for at in positions]
                for pack, positions in zip(given, changed, strict=True)
            ]
            _change(connection, _chosen(given, changed, ids))
        resized = [key for some in given for key in compress(some.keys, some.resized)]
        if resized:
            connection.execute(_MARK, [dict(zip(_MARK_KEY, key, strict=True)) for key in resized])
            mark_runs(connection, [run_id for run_id, _ in _existing(connection, resized).values()])
    inserted, updated = (sum(map(len, positions)) for positions in (new, changed))
    return Stored(inserted, updated, len(latest) - inserted - updated)


#: Which of the packs a run is in, and where in it.
_Place = tuple[int, int]
#: For each pack the positions of some of its runs, in their order.
_Positions = list[list[int]]


def _latest(given: Sequence[PackedRuns]) -> dict[Key, _Place]:
    """Place of each run; the rest of a resized job only where there is nothing else of it."""
    places: dict[Key, _Place] = {}
    for number, pack in enumerate(given):
        for at in compress(count(), pack.resized):
            places[pack.keys[at]] = number, at
    for number, pack in enumerate(given):
        for at, (key, resized) in enumerate(zip(pack.keys, pack.resized, strict=True)):
            if not resized:
                places[key] = number, at
    return places


def _sorted_out(
    given: Sequence[PackedRuns], latest: dict[Key, _Place], stored: dict[Key, tuple[int, str]]
) -> tuple[_Positions, _Positions]:
    """Give for each pack the positions of its new and of its changed runs."""
    new: _Positions = [[] for _ in given]
    changed: _Positions = [[] for _ in given]
    for key, (number, at) in sorted(latest.items(), key=itemgetter(1)):
        some = given[number]
        if key not in stored:
            new[number].append(at)
        elif stored[key][1] != some.digests[at] and not some.resized[at]:
            changed[number].append(at)
    return new, changed


def _existing(connection: sa.Connection, keys: Iterable[Key]) -> dict[Key, tuple[int, str]]:
    """Ids and digests of the runs that are there already."""
    submitted: dict[str, set[int]] = {}
    for cluster, submit_s, _ in keys:
        submitted.setdefault(cluster, set()).add(submit_s)
    stored: dict[Key, tuple[int, str]] = {}
    for cluster, times in submitted.items():
        of_cluster = runs.c.cluster == cluster
        # What is newer than the last stored run is new, and need not be looked up.
        newest = connection.execute(
            sa.select(sa.func.max(runs.c.submit_s)).where(of_cluster)
        ).scalar()
        ordered = sorted(time for time in times if time <= (newest or 0))
        for part in parts(ordered):
            # Whole numbers as text: of parameters SQLAlchemy handles each by itself.
            listed = ",".join(map(str, part))
            query = _EXISTING.where(of_cluster, sa.text(f"submit_s IN ({listed})"))
            for run_id, digest, submit_s, job_id in connection.execute(query):
                stored[cluster, submit_s, job_id] = (run_id, digest)
    return stored


def _chosen(
    given: Sequence[PackedRuns], positions: _Positions, ids: Sequence[Sequence[int]]
) -> list[ChosenRuns]:
    """Choose the runs at these positions of each pack, which have these ids."""
    chosen = zip(given, positions, ids, strict=True)
    return [ChosenRuns(*pack) for pack in chosen if pack[1]]


def _insert(connection: sa.Connection, given: Sequence[PackedRuns], positions: _Positions) -> None:
    ends = list(accumulate(map(len, positions)))
    first = counters.increase(connection, "runs", ends[-1])
    ids = [
        range(first + end - len(some), first + end)
        for some, end in zip(positions, ends, strict=True)
    ]
    new = _chosen(given, positions, ids)
    # The runs are linked while they are all there; their steps are many, and unpacked one pack
    # after the other.
    run_columns = [some.runs() for some in new]
    links = link_new(connection, run_columns)
    insert_rows(connection, runs, chain.from_iterable(run_columns), run_columns)
    _insert_steps(connection, new)
    write(connection, links)
    if copied := copy_to_tasks(connection, range(first, first + ends[-1])):
        # Other starts of these tasks get the keys of the first one.
        columns = joined(run_columns, PIECE_COLUMNS)
        tasks = [run_id in copied for run_id in columns["id"]]
        link_stored(
            connection, {name: list(compress(columns[name], tasks)) for name in PIECE_COLUMNS}
        )


def _insert_steps(connection: sa.Connection, given: Sequence[ChosenRuns]) -> None:
    names = {name for some in given for name in some.step_names}
    insert_rows(connection, steps, names, (some.steps() for some in given))


def _change(connection: sa.Connection, changed: Sequence[ChosenRuns]) -> None:
    run_columns = [some.runs() for some in changed]
    rows = chain.from_iterable(rows_of(columns, _COLUMNS) for columns in run_columns)
    names = [f"{name}_" for name in _COLUMNS]
    values = [dict(zip(names, row, strict=True)) for row in rows]
    ids = [row["id_"] for row in values]
    mark_runs(connection, ids)
    connection.execute(_UPDATE, values)
    mark_runs(connection, ids)
    # Their note or their state may be another.
    counters.lower(connection, JOINED, min(ids))
    for some in parts(ids):
        connection.execute(sa.delete(steps).where(steps.c.run_id.in_(some)))
    _insert_steps(connection, changed)
    link_stored(connection, joined(run_columns, PIECE_COLUMNS))


def _update() -> Any:
    values: dict[str, Any] = {name: sa.bindparam(f"{name}_") for name in _COLUMNS}
    # The keys of a run stay as first read, or as its decision recorded them: a comment that is
    # changed after submission does not move the run to another application.
    for name in ("id", *KEYS):
        del values[name]
    # A run that lacked memory keeps its state where it was requeued since.
    requeued = sa.bindparam("state_") == JobState.REQUEUED.value
    lacked_memory = (runs.c.state == JobState.OUT_OF_MEMORY.value) & requeued
    values["state"] = sa.case((_RESIZED | lacked_memory, runs.c.state), else_=values["state"])
    return sa.update(runs).where(runs.c.id == sa.bindparam("id_")).values(values)


_UPDATE = _update()
