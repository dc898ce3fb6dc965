"""Runs and their steps into the store, each once: new ones inserted, changed ones updated.

Rows are inserted many at once, without a dict for each: SQLAlchemy's own executemany handles each
of forty values of each row in Python, which takes longer than SQLite takes to write them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import compress
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Dialect,
    Select,
    Table,
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
from sacct_ingest.store.decision_outcomes import LISTED
from sacct_ingest.store.packed_runs import Columns, Key, PackedRuns, RunColumns, unpacked
from sacct_ingest.store.request_keys import KEYS, copy_to_tasks
from sacct_ingest.store.rows import Stored
from sacct_ingest.store.schema import runs, steps

#: Runs in one transaction: small enough to stop at, large enough to be fast.
BATCH = 2000
_COLUMNS = [column.name for column in runs.columns if column.name != "id"]


def add_batch(connection: Connection, given: Sequence[PackedRuns]) -> Stored:
    """Store runs inside a transaction of the caller's; of a run given twice the last counts.

    A run that is known to be the rest of a resized job stays in that state: see
    `sacct_ingest.resized`.
    """
    counters.lock(connection, "runs")
    latest = _latest(given)
    stored = _existing(connection, latest)
    new, changed = _sorted_out(given, latest, stored)
    _insert(connection, given, new)
    for some, positions in zip(given, changed, strict=True):
        if positions:
            ids = [stored[some.keys[at]][0] for at in positions]
            _change(connection, unpacked(some.body).only(positions), ids)
    _mark(connection, [key for some in given for key in compress(some.keys, some.resized)])
    inserted, updated = (sum(map(len, positions)) for positions in (new, changed))
    return Stored(inserted, updated, len(latest) - inserted - updated)


#: Which of the packs a run is in, and where in it.
_Place = tuple[int, int]


def _latest(given: Sequence[PackedRuns]) -> dict[Key, _Place]:
    """Place of each run; the rest of a resized job only where nothing else is known of it."""
    places: dict[Key, _Place] = {}
    for complete in (True, False):
        for number, some in enumerate(given):
            for at, (key, resized) in enumerate(zip(some.keys, some.resized, strict=True)):
                if resized is complete:
                    places[key] = number, at
    return places


def _sorted_out(
    given: Sequence[PackedRuns], latest: dict[Key, _Place], stored: dict[Key, tuple[int, str]]
) -> tuple[list[list[int]], list[list[int]]]:
    """Give for each pack the positions of its new and of its changed runs."""
    new: list[list[int]] = [[] for _ in given]
    changed: list[list[int]] = [[] for _ in given]
    for key, (number, at) in sorted(latest.items(), key=itemgetter(1)):
        some = given[number]
        if key not in stored:
            new[number].append(at)
        elif stored[key][1] != some.digests[at] and not some.resized[at]:
            changed[number].append(at)
    return new, changed


def _existing(connection: Connection, keys: Iterable[Key]) -> dict[Key, tuple[int, str]]:
    """Ids and digests of the runs that are there already."""
    submitted: dict[str, set[int]] = {}
    for cluster, submit_s, _ in keys:
        submitted.setdefault(cluster, set()).add(submit_s)
    stored: dict[Key, tuple[int, str]] = {}
    for cluster, times in submitted.items():
        for query in _look_ups(cluster, times, _newest(connection, cluster)):
            for run_id, digest, submit_s, job_id in connection.execute(query):
                stored[cluster, submit_s, job_id] = (run_id, digest)
    return stored


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


def _insert(
    connection: Connection, given: Sequence[PackedRuns], new: Sequence[Sequence[int]]
) -> None:
    if not any(new):
        return
    count = sum(map(len, new))
    free = first = counters.increase(connection, "runs", count)
    for some, positions in zip(given, new, strict=True):
        if positions:
            ids = range(free, free + len(positions))
            free = ids.stop
            run_columns, step_columns = unpacked(some.body).only(positions).with_ids(ids)
            insert_columns(connection, runs, run_columns)
            insert_columns(connection, steps, step_columns)
    copy_to_tasks(connection, range(first, first + count))


def _change(connection: Connection, changed: RunColumns, ids: Sequence[int]) -> None:
    run_columns, step_columns = changed.with_ids(ids)
    connection.execute(_UPDATE, _parameters(run_columns))
    connection.execute(delete(steps).where(steps.c.run_id.in_(ids)))
    insert_columns(connection, steps, step_columns)


def _mark(connection: Connection, resized: Sequence[Key]) -> None:
    if resized:
        connection.execute(_MARK, [dict(zip(_MARK_KEY, key, strict=True)) for key in resized])


def _parameters(columns: Columns) -> list[dict[str, Any]]:
    names = [f"{name}_" for name in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _update() -> Any:
    values: dict[str, Any] = {name: bindparam(f"{name}_") for name in _COLUMNS}
    # The keys of a run stay as first read, or as its decision recorded them: a comment that is
    # changed after submission does not move the run to another application.
    for name in KEYS:
        del values[name]
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


def insert_columns(connection: Connection, table: Table, columns: Columns) -> None:
    """Insert rows; columns that hold nothing are left out, which spares the drivers a third."""
    # In the table's order, as the compiled SQL has them.
    names = [column.name for column in table.columns]
    given = {name: columns[name] for name in names if _says_anything(columns.get(name, ()))}
    if given:
        _WAYS.get(connection.dialect.driver, _execute_many)(connection, table, given)


def _says_anything(values: Sequence[Any]) -> bool:
    return len(values) > 0 and (values[0] is not None or values.count(None) < len(values))


def _execute_many(connection: Connection, table: Table, columns: Columns) -> None:
    sql = _insert_sql(connection.dialect, table.name, tuple(columns))
    connection.exec_driver_sql(sql, list(zip(*columns.values(), strict=True)))


@lru_cache(maxsize=256)
def _insert_sql(dialect: Dialect, table: str, names: tuple[str, ...]) -> str:
    """Give the SQL of an insert; SQLAlchemy takes 2 ms to compile one of forty columns."""
    quote = dialect.identifier_preparer.quote
    mark = "?" if dialect.paramstyle == "qmark" else "%s"
    marks = ", ".join([mark] * len(names))
    return f"INSERT INTO {quote(table)} ({', '.join(map(quote, names))}) VALUES ({marks})"  # noqa: S608


def _copy(connection: Connection, table: Table, columns: Columns) -> None:
    """Insert by PostgreSQL's COPY, which takes a third of the time of INSERT."""
    quote = connection.dialect.identifier_preparer.quote
    names = ", ".join(map(quote, columns))
    driver: Any = connection.connection.driver_connection
    sql = f"COPY {quote(table.name)} ({names}) FROM STDIN"
    with driver.cursor() as cursor, cursor.copy(sql) as copy:
        for row in zip(*columns.values(), strict=True):
            copy.write_row(row)


_WAYS: Final[dict[str, Callable[[Connection, Table, Columns], None]]] = {"psycopg": _copy}
