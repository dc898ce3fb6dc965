"""Runs and their steps into the store, each once: new ones inserted, changed ones updated.

Runs are packed where they are read, and unpacked only where they are new or changed: a run is
recognised by its key and a digest of all its facts.  What is packed are the columns of the tables
``runs`` and ``steps``, made a column at a time, as accounting text is read: nearly all of it
happens in C, and the process that writes has little else to do.

Rows are inserted many at once, without a dict for each: SQLAlchemy's own executemany handles each
of forty values of each row in Python, which takes longer than SQLite takes to write them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import chain, compress, islice
from operator import attrgetter, itemgetter
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import astuple

from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState, StepRun
from sacct_ingest.runs.evidence import failed_steps
from sacct_ingest.runs.reading import resolved
from sacct_ingest.runs.submission import RULES
from sacct_ingest.runs.usage import node_watts
from sacct_ingest.store import counters
from sacct_ingest.store.changes import mark_runs
from sacct_ingest.store.decision_outcomes import JOINED, KEYS, copy_to_tasks
from sacct_ingest.store.engine import parts, writing
from sacct_ingest.store.jobs import PIECE_COLUMNS, link_new, link_stored, write
from sacct_ingest.store.rows import Stored
from sacct_ingest.store.schema import indexed, prose, runs, steps
from sacct_ingest.text.admin_comment import decision_id_in

#: Runs in one transaction: small enough to stop at, large enough to be fast.
BATCH = 2000
#: Runs packed together: few enough to be still in the processor's cache.
PACKED_TOGETHER: Final = 100
#: Values of the columns of a table by their names, those of a column in the order of the rows.
Columns = dict[str, Sequence[Any]]
_TEXTS: Final = ("user", "name", "comment", "submit_line", "work_dir")
_keys = attrgetter("tag", "script", "line")
#: Cluster, submit time and job id of a run.
Key = tuple[str, int, int]
#: What `sacct_ingest.store.jobs` finds out is no part of a row.
_COLUMNS = [c.name for c in runs.columns if c.name not in ("id", "part_of", "pieces")]


class RunColumns(Struct, frozen=True, array_like=True, gc=False):
    """Columns of some runs and of their steps, all but the runs' ids."""

    runs: Columns
    steps: Columns
    counts: Sequence[int]  #: how many steps each run has

    def with_ids(self, ids: Sequence[int]) -> tuple[Columns, Columns]:
        """Give the columns of the runs, which have these ids, and those of their steps."""
        return self.runs | {"id": ids}, self.steps | {"run_id": _per_step(ids, self.counts)}


class PackedRuns(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some runs with their steps; ``body`` has their columns, as MessagePack."""

    keys: list[Key]
    digests: list[str]
    resized: list[bool]  #: the rest of a resized job, of which there is only the key
    body: msgspec.Raw

    def __len__(self) -> int:
        return len(self.keys)


encode = msgspec.msgpack.Encoder().encode
decode_packed = msgspec.msgpack.Decoder(list[PackedRuns]).decode
_unpacked = msgspec.msgpack.Decoder(RunColumns).decode


def pack_runs(given: Iterable[JobRun]) -> Iterator[PackedRuns]:
    """Pack runs, some at a time."""
    source = iter(given)
    while some := list(islice(source, PACKED_TOGETHER)):
        # Of the records, not of their columns: another column leaves the digests as they are.
        digests = [blake2b(encode(run), digest_size=16).hexdigest() for run in some]
        yield PackedRuns(
            [(indexed(run.cluster, 64), run.submit_s, run.job_id) for run in some],
            digests,
            [run.state is JobState.RESIZING for run in some],
            msgspec.Raw(encode(_columns_of(some, digests))),
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
            _insert(connection, _chosen(given, new))
        if any(changed):
            chosen = zip(given, changed, strict=True)
            ids = [stored[some.keys[at]][0] for some, positions in chosen for at in positions]
            _change(connection, _chosen(given, changed), ids)
        resized = [key for some in given for key in compress(some.keys, some.resized)]
        if resized:
            connection.execute(_MARK, [dict(zip(_MARK_KEY, key, strict=True)) for key in resized])
            mark_runs(connection, [run_id for run_id, _ in _existing(connection, resized).values()])
    inserted, updated = (sum(map(len, positions)) for positions in (new, changed))
    return Stored(inserted, updated, len(latest) - inserted - updated)


#: Which of the packs a run is in, and where in it.
_Place = tuple[int, int]


def _latest(given: Sequence[PackedRuns]) -> dict[Key, _Place]:
    """Place of each run; the rest of a resized job only where there is nothing else of it."""
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


_EXISTING = sa.select(runs.c.id, runs.c.digest, runs.c.submit_s, runs.c.job_id)


def _chosen(given: Sequence[PackedRuns], positions: Sequence[Sequence[int]]) -> RunColumns:
    """Give the columns of the runs at these positions of each pack, all together."""
    packs: list[RunColumns] = []
    chosen: list[bool] = []
    for pack, at in zip(given, positions, strict=True):
        if at:
            packs.append(_unpacked(pack.body))
            wanted = set(at)
            chosen += [position in wanted for position in range(len(pack))]
    counts = list(chain.from_iterable(columns.counts for columns in packs))
    return RunColumns(
        _joined([columns.runs for columns in packs], chosen),
        _joined([columns.steps for columns in packs], _per_step(chosen, counts)),
        list(compress(counts, chosen)),
    )


def _joined(given: Sequence[Columns], chosen: Sequence[bool]) -> Columns:
    """Put the chosen values of each column together."""
    joined: Columns = {}
    for name in given[0]:
        values = chain.from_iterable(columns[name] for columns in given)
        joined[name] = list(compress(values, chosen))
    return joined


def _insert(connection: sa.Connection, new: RunColumns) -> None:
    first = counters.increase(connection, "runs", len(new.counts))
    ids = range(first, first + len(new.counts))
    run_columns, step_columns = new.with_ids(ids)
    links = link_new(connection, run_columns)
    _insert_columns(connection, runs, run_columns)
    _insert_columns(connection, steps, step_columns)
    write(connection, links)
    if copied := copy_to_tasks(connection, ids):
        # Other starts of these tasks get the keys of the first one.
        tasks = [run_id in copied for run_id in ids]
        columns = {name: list(compress(run_columns[name], tasks)) for name in PIECE_COLUMNS}
        link_stored(connection, columns)


def _change(connection: sa.Connection, changed: RunColumns, ids: Sequence[int]) -> None:
    run_columns, step_columns = changed.with_ids(ids)
    names = [f"{name}_" for name in run_columns]
    rows = zip(*run_columns.values(), strict=True)
    mark_runs(connection, ids)
    connection.execute(_UPDATE, [dict(zip(names, row, strict=True)) for row in rows])
    mark_runs(connection, ids)
    # Their note or their state may be another.
    counters.lower(connection, JOINED, min(ids))
    for some in parts(ids):
        connection.execute(sa.delete(steps).where(steps.c.run_id.in_(some)))
    _insert_columns(connection, steps, step_columns)
    link_stored(connection, run_columns)


def _update() -> Any:
    values: dict[str, Any] = {name: sa.bindparam(f"{name}_") for name in _COLUMNS}
    # The keys of a run stay as first read, or as its decision recorded them: a comment that is
    # changed after submission does not move the run to another application.
    for name in KEYS:
        del values[name]
    # A run that lacked memory keeps its state where it was requeued since.
    requeued = sa.bindparam("state_") == JobState.REQUEUED.value
    lacked_memory = (runs.c.state == JobState.OUT_OF_MEMORY.value) & requeued
    values["state"] = sa.case((_RESIZED | lacked_memory, runs.c.state), else_=values["state"])
    return sa.update(runs).where(runs.c.id == sa.bindparam("id_")).values(values)


_MARK_KEY = ("cluster_", "submit_s_", "job_id_")
_RESIZED = runs.c.state == JobState.RESIZING.value
_UPDATE = _update()
_MARK = (
    sa.update(runs)
    .where(*(runs.c[name.removesuffix("_")] == sa.bindparam(name) for name in _MARK_KEY))
    .values(state=JobState.RESIZING.value)
)


def _insert_columns(connection: sa.Connection, table: sa.Table, columns: Columns) -> None:
    """Insert rows; columns that hold nothing are left out, which spares the drivers a third."""
    # In the table's order, as the compiled SQL has them.
    names = [column.name for column in table.columns]
    given = {name: columns[name] for name in names if _says_anything(columns.get(name, ()))}
    if given:
        _WAYS.get(connection.dialect.driver, _execute_many)(connection, table, given)


def _says_anything(values: Sequence[Any]) -> bool:
    return len(values) > 0 and (values[0] is not None or values.count(None) < len(values))


def _execute_many(connection: sa.Connection, table: sa.Table, columns: Columns) -> None:
    sql = _insert_sql(connection.dialect, table.name, tuple(columns))
    connection.exec_driver_sql(sql, list(zip(*columns.values(), strict=True)))


@lru_cache(maxsize=256)
def _insert_sql(dialect: sa.Dialect, table: str, names: tuple[str, ...]) -> str:
    """Give the SQL of an insert; SQLAlchemy takes 2 ms to compile one of forty columns."""
    quote = dialect.identifier_preparer.quote
    mark = "?" if dialect.paramstyle == "qmark" else "%s"
    marks = ", ".join([mark] * len(names))
    return f"INSERT INTO {quote(table)} ({', '.join(map(quote, names))}) VALUES ({marks})"  # noqa: S608


def _copy(connection: sa.Connection, table: sa.Table, columns: Columns) -> None:
    """Insert by PostgreSQL's COPY, which takes a third of the time of INSERT."""
    quote = connection.dialect.identifier_preparer.quote
    names = ", ".join(map(quote, columns))
    driver: Any = connection.connection.driver_connection
    sql = f"COPY {quote(table.name)} ({names}) FROM STDIN"
    with driver.cursor() as cursor, cursor.copy(sql) as copy:
        for row in zip(*columns.values(), strict=True):
            copy.write_row(row)


_WAYS: Final[dict[str, Callable[[sa.Connection, sa.Table, Columns], None]]] = {"psycopg": _copy}


def _columns_of(given: Sequence[JobRun], digests: Sequence[str]) -> RunColumns:
    columns = _by_field(JobRun, given)
    owned = columns.pop("steps")
    read = map(resolved, *(columns[name] for name in _TEXTS))
    identities, columns["submission"] = zip(*read, strict=True)
    columns["rules"] = [RULES] * len(given)
    tags, scripts, lines = zip(*map(_keys, identities), strict=True)
    columns["decision_id"] = list(map(decision_id_in, columns["admin_comment"]))
    shapes = zip(columns["nodes"], columns["elapsed_s"], owned, strict=True)
    columns["node_watts"] = [node_watts(*shape) for shape in shapes]
    columns["failed_steps"] = list(map(failed_steps, owned))
    columns |= {"digest": digests, "tag": tags, "script": scripts, "line": lines}
    _clean(columns, _RUN_TEXTS)
    of_steps = _by_field(StepRun, list(chain.from_iterable(owned)))
    _clean(of_steps, _STEP_TEXTS)
    counts = list(map(len, owned))
    of_steps["position"] = list(chain.from_iterable(map(range, counts)))
    return RunColumns(columns, of_steps, counts)


def _per_step(values: Sequence[Any], counts: Sequence[int]) -> list[Any]:
    return [one for one, count in zip(values, counts, strict=True) for _ in range(count)]


def _by_field(kind: type[JobRun | StepRun], rows: Sequence[JobRun | StepRun]) -> Columns:
    names = kind.__struct_fields__
    columns: Sequence[Sequence[Any]] = list(zip(*map(astuple, rows), strict=True))
    return dict(zip(names, columns or [()] * len(names), strict=True))


def _clean(columns: Columns, texts: dict[str, Callable[[str], str]]) -> None:
    for name, clean in texts.items():
        values = columns[name]
        # Text of any length is only ever cleaned of what is hardly ever there.
        if clean is not prose:
            # They repeat each other: each text once.
            cleaned = {value: clean(value) for value in set(values)}
            columns[name] = list(map(cleaned.__getitem__, values))
        elif "\0" in "".join(values):
            columns[name] = list(map(clean, values))


def _cleaners(table: sa.Table, kind: type[JobRun | StepRun]) -> dict[str, Callable[[str], str]]:
    """Give what makes text fit, for each column of text that holds a field of a record."""
    cleaners: dict[str, Callable[[str], str]] = {}
    for column in table.columns:
        if column.name in kind.__struct_fields__ and column.type.python_type is str:
            prosaic = isinstance(column.type, sa.Text)
            length = getattr(column.type, "length", None)
            cleaners[column.name] = prose if prosaic else partial(indexed, length=length)
    return cleaners


_RUN_TEXTS: Final = _cleaners(runs, JobRun)
_STEP_TEXTS: Final = _cleaners(steps, StepRun)
