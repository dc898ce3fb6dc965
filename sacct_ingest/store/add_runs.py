"""Runs and their steps into the store, each once: new ones inserted, changed ones updated."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    bindparam,
    case,
    delete,
    func,
    select,
    text,
    update,
)

from sacct_ingest.records import JobState
from sacct_ingest.store import counters
from sacct_ingest.store.bulk import Columns, insert_columns
from sacct_ingest.store.outcomes import LISTED, restore_keys
from sacct_ingest.store.packed import Key, PackedRun
from sacct_ingest.store.rows import Stored
from sacct_ingest.store.run_values import values_of
from sacct_ingest.store.schema import runs, steps

#: Runs in one transaction: small enough to stop at, large enough to be fast.
BATCH = 2000
#: Runs inserted at a time: few enough to be still in the processor's cache.
_CHUNK = 100
#: Keys that a decision may have given: an ingest that does not know them leaves them.
_KEPT = ("tag", "script", "line")
_COLUMNS = [column.name for column in runs.columns if column.name != "id"]


def add_batch(connection: Connection, given: Sequence[PackedRun]) -> Stored:
    """Store runs inside a transaction of the caller's; of a run given twice the last counts.

    A run that is known to be the rest of a resized job stays in that state: see
    `sacct_ingest.resized`.
    """
    counters.lock(connection, "runs")
    resized = [one for one in given if one.resized]
    latest = {one.key: one for one in chain(resized, (one for one in given if not one.resized))}
    known = _known(connection, latest)
    new = [one for key, one in latest.items() if key not in known]
    changed = [
        (known[key][0], one)
        for key, one in latest.items()
        if key in known and known[key][1] != one.digest and not one.resized
    ]
    _insert(connection, new)
    for first in range(0, len(changed), LISTED):
        _change(connection, changed[first : first + LISTED])
    _mark(connection, resized)
    return Stored(len(new), len(changed), len(latest) - len(new) - len(changed))


def _known(connection: Connection, wanted: dict[Key, PackedRun]) -> dict[Key, tuple[int, str]]:
    """Ids and digests of the runs that are there already."""
    submitted: dict[str, set[int]] = {}
    for cluster, submit_s, _ in wanted:
        submitted.setdefault(cluster, set()).add(submit_s)
    found: dict[Key, tuple[int, str]] = {}
    for cluster, times in submitted.items():
        for query in _look_ups(cluster, times, _newest(connection, cluster)):
            for run_id, digest, submit_s, job_id in connection.execute(query):
                found[cluster, submit_s, job_id] = (run_id, digest)
    return found


def _newest(connection: Connection, cluster: str) -> int:
    """Give the last submit time that is known: what is newer is new, and need not be looked up."""
    query = select(func.max(runs.c.submit_s)).where(runs.c.cluster == cluster)
    return int(connection.execute(query).scalar() or 0)


def _look_ups(cluster: str, times: set[int], newest: int) -> Iterator[Select[Any]]:
    ordered = sorted(time for time in times if time <= newest)
    for first in range(0, len(ordered), LISTED):
        # Whole numbers as text: of parameters SQLAlchemy handles each by itself.
        listed = ",".join(map(str, ordered[first : first + LISTED]))
        yield select(runs.c.id, runs.c.digest, runs.c.submit_s, runs.c.job_id).where(
            runs.c.cluster == cluster, text(f"submit_s IN ({listed})")
        )


def _insert(connection: Connection, new: Sequence[PackedRun]) -> None:
    if not new:
        return
    free = counters.increase(connection, "runs", len(new))
    for first in range(0, len(new), _CHUNK):
        chunk = new[first : first + _CHUNK]
        ids = range(free + first, free + first + len(chunk))
        run_columns, step_columns = values_of(chunk, ids)
        insert_columns(connection, runs, run_columns)
        insert_columns(connection, steps, step_columns)


def _change(connection: Connection, changed: Sequence[tuple[int, PackedRun]]) -> None:
    ids = [run_id for run_id, _ in changed]
    run_columns, step_columns = values_of([one for _, one in changed], ids)
    connection.execute(_UPDATE, _parameters(run_columns))
    connection.execute(delete(steps).where(steps.c.run_id.in_(ids)))
    insert_columns(connection, steps, step_columns)
    restore_keys(connection, ids)


def _mark(connection: Connection, resized: Sequence[PackedRun]) -> None:
    if resized:
        connection.execute(_MARK, [dict(zip(_MARK_KEY, one.key, strict=True)) for one in resized])


def _parameters(columns: Columns) -> list[dict[str, Any]]:
    names = [f"{name}_" for name in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _update() -> Any:
    values: dict[str, Any] = {name: bindparam(f"{name}_") for name in _COLUMNS}
    for name in _KEPT:
        given = bindparam(f"{name}_", type_=runs.c[name].type)
        values[name] = case((given != "", given), else_=runs.c[name])
    values["state"] = case((_RESIZED, runs.c.state), else_=values["state"])
    return update(runs).where(runs.c.id == bindparam("id_")).values(values)


_MARK_KEY = ("cluster_", "submit_s_", "job_id_")
_RESIZED = runs.c.state == JobState.RESIZING.value
_UPDATE = _update()
_MARK = (
    update(runs)
    .where(*(runs.c[name.removesuffix("_")] == bindparam(name) for name in _MARK_KEY))
    .values(state=JobState.RESIZING.value)
)
