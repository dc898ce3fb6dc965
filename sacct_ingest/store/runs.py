"""Runs and their steps: written idempotently, read by identity."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Select,
    Text,
    and_,
    bindparam,
    case,
    delete,
    func,
    select,
    update,
)

from sacct_ingest.records import Identity, JobRun, JobState, KeyLevel, StepRun
from sacct_ingest.signature import identity_of_run
from sacct_ingest.store import counters
from sacct_ingest.store.bulk import Values, insert_rows
from sacct_ingest.store.engine import reading, writing
from sacct_ingest.store.outcomes import LISTED, restore_keys
from sacct_ingest.store.rows import RunRow, Stored
from sacct_ingest.store.schema import contributions, runs, steps
from sacct_ingest.store.text import indexed, prose

#: Runs in one transaction: small enough to stop at, large enough to be fast.
BATCH = 2000

_COLUMNS = [column.name for column in runs.columns]
_JOINED = ("run_id", "node_type")
ROW_COLUMNS = [
    runs.c.id.label("run_id"),
    *(runs.c[n] for n in RunRow.__slots__ if n not in _JOINED),
]
_NODE_TYPE = func.coalesce(contributions.c.node_type, "").label("node_type")
_SAME_RUN = and_(*(contributions.c[n] == runs.c[n] for n in ("cluster", "submit_s", "job_id")))
#: Keys that a decision may have given: an ingest that does not know them leaves them.
_KEPT = ("tag", "script", "line")
_DECISION_ID = re.compile(r"(?:^|\s)NIMO1:([0-9a-f]{12}):")
_STEP_NAMES = [column.name for column in steps.columns][2:]
_STEP_COLUMNS = [steps.c.run_id, *(steps.c[name] for name in _STEP_NAMES)]
_encode = msgspec.json.Encoder().encode

#: Order of runs within an identity: by their end, and always the same.
_CHRONOLOGICAL = (func.coalesce(runs.c.end_s, runs.c.submit_s), runs.c.submit_s, runs.c.job_id)


class Runs:
    """The tables ``runs`` and ``steps``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, given: Iterable[JobRun]) -> Stored:
        """Store runs with their steps and identity keys; known ones are updated where they differ.

        Each batch is one transaction: what was stored before an error stays.
        """
        stored, source = Stored(), iter(given)
        while batch := list(islice(source, BATCH)):
            with writing(self._engine) as connection:
                stored += add_batch(connection, rows_of(batch))
        return stored

    def count(self) -> int:
        """Count the runs."""
        with reading(self._engine) as connection:
            return int(connection.execute(select(func.count()).select_from(runs)).scalar_one())

    def by_key(self, level: KeyLevel) -> Iterator[tuple[str, list[RunRow]]]:
        """Group runs by key: groups in the order of their keys, the newest run last in each."""
        columns = _key_columns(level)
        query = (
            select(*ROW_COLUMNS, _NODE_TYPE)
            .select_from(runs.outerjoin(contributions, _SAME_RUN))
            # Not "!=": of an index only a range can be read.
            .where(*(column > "" for column in columns))
            .order_by(*columns, *_CHRONOLOGICAL)
        )
        with reading(self._engine) as connection:
            rows = map(run_row, connection.execute(query).mappings())
            for _, group in groupby(rows, attrgetter(*(column.name for column in columns))):
                members = list(group)
                yield _key(members[0], level), members

    def history(self, level: KeyLevel, key: str, limit: int | None = None) -> list[RunRow]:
        """Give the runs with this key, the newest last; of more than ``limit`` the newest."""
        newest_first = [column.desc() for column in _CHRONOLOGICAL]
        query = select(*ROW_COLUMNS).where(_has_key(level, key)).order_by(*newest_first)
        with reading(self._engine) as connection:
            return [run_row(row._mapping) for row in connection.execute(query.limit(limit))][::-1]

    def keys_of(self, user: str, levels: Iterable[KeyLevel]) -> Iterator[tuple[KeyLevel, str]]:
        """Give the keys that runs of a user have, at these levels (not that of names)."""
        with reading(self._engine) as connection:
            for level in levels:
                column = runs.c[level.value]
                query = select(column).where(runs.c.user == user, column > "").distinct()
                for key in connection.execute(query).scalars():
                    yield level, str(key)

    def started(
        self,
        *,
        cluster: str = "",
        partition: str = "",
        since_s: int | None = None,
        until_s: int | None = None,
    ) -> Iterator[RunRow]:
        """Give the runs that started, in the order of their submission.

        Parameters
        ----------
        cluster, partition
            Only runs of these; empty: of all.
        since_s, until_s
            Only runs submitted from then, and before then.
        """
        wanted: list[ColumnElement[bool]] = [runs.c.start_s.is_not(None)]
        wanted += [runs.c.cluster == cluster] if cluster else []
        wanted += [runs.c.partition == partition] if partition else []
        wanted += [runs.c.submit_s >= since_s] if since_s is not None else []
        wanted += [runs.c.submit_s < until_s] if until_s is not None else []
        query = select(*ROW_COLUMNS).where(*wanted).order_by(runs.c.submit_s, runs.c.job_id)
        with reading(self._engine) as connection:
            for row in connection.execute(query).mappings():
                yield run_row(row)

    def steps_of(self, run_ids: Iterable[int]) -> dict[int, list[StepRun]]:
        """Give the steps of these runs, by run id; runs without any have an empty list."""
        wanted = sorted(set(run_ids))
        found: dict[int, list[StepRun]] = {run_id: [] for run_id in wanted}
        with reading(self._engine) as connection:
            for first in range(0, len(wanted), LISTED):
                chunk = wanted[first : first + LISTED]
                query = select(*_STEP_COLUMNS).where(steps.c.run_id.in_(chunk))
                ordered = query.order_by(steps.c.run_id, steps.c.position)
                for run_id, *values in connection.execute(ordered):
                    step = StepRun(**dict(zip(_STEP_NAMES, values, strict=True)))
                    found[run_id].append(replace(step, state=JobState(step.state)))
        return found


#: Values of a run and of each of its steps, in the order of the tables, all but the run's id.
Rows = tuple[Values, list[Values]]
_DIGEST, _CLUSTER, _JOB_ID, _SUBMIT_S = range(4)
_Key = tuple[str, int, int]


def rows_of(given: Iterable[JobRun]) -> list[Rows]:
    """Make the rows of runs; of a run given twice the last counts."""
    latest = {(run.cluster, run.submit_s, run.job_id): run for run in given}
    return [(_values(run), _step_values(run)) for run in latest.values()]


def add_batch(connection: Connection, given: Sequence[Rows]) -> Stored:
    """Store rows of runs inside a transaction of the caller's."""
    counters.lock(connection, "runs")
    known = _known(connection, given)
    new: list[Rows] = []
    changed: list[tuple[int, Rows]] = []
    for rows in given:
        found = known.get(_key_of(rows[0]))
        if found is None:
            new.append(rows)
        elif found[1] != rows[0][_DIGEST]:
            changed.append((found[0], rows))
    _insert(connection, new)
    for first in range(0, len(changed), LISTED):
        _change(connection, changed[first : first + LISTED])
    return Stored(len(new), len(changed), len(given) - len(new) - len(changed))


def _key_of(row: Values) -> _Key:
    return row[_CLUSTER], row[_SUBMIT_S], row[_JOB_ID]


def _known(connection: Connection, wanted: Iterable[Rows]) -> dict[_Key, tuple[int, str]]:
    """Ids and digests of the runs that are there already."""
    submitted: dict[str, set[int]] = {}
    for row, _ in wanted:
        submitted.setdefault(row[_CLUSTER], set()).add(row[_SUBMIT_S])
    found: dict[_Key, tuple[int, str]] = {}
    for cluster, times in submitted.items():
        ordered = sorted(times)
        for first in range(0, len(ordered), LISTED):
            query = _by_submit_time(cluster, ordered[first : first + LISTED])
            for run_id, digest, submit_s, job_id in connection.execute(query):
                found[cluster, submit_s, job_id] = (run_id, digest)
    return found


def _by_submit_time(cluster: str, times: list[int]) -> Select[Any]:
    return select(runs.c.id, runs.c.digest, runs.c.submit_s, runs.c.job_id).where(
        runs.c.cluster == cluster, runs.c.submit_s.in_(times)
    )


def _insert(connection: Connection, new: Sequence[Rows]) -> None:
    first = counters.increase(connection, "runs", len(new))
    insert_rows(connection, runs, [(first + i, *row) for i, (row, _) in enumerate(new)])
    _insert_steps(connection, ((first + i, rows) for i, rows in enumerate(new)))


def _change(connection: Connection, changed: Sequence[tuple[int, Rows]]) -> None:
    names = ["id_", *(f"{name}_" for name in _COLUMNS[1:])]
    values: dict[str, Any] = {name: bindparam(f"{name}_") for name in _COLUMNS[1:]}
    for name in _KEPT:
        given = bindparam(f"{name}_", type_=runs.c[name].type)
        values[name] = case((given != "", given), else_=runs.c[name])
    statement = update(runs).where(runs.c.id == bindparam("id_")).values(values)
    rows = [dict(zip(names, (run_id, *row), strict=True)) for run_id, (row, _) in changed]
    connection.execute(statement, rows)
    ids = [run_id for run_id, _ in changed]
    connection.execute(delete(steps).where(steps.c.run_id.in_(ids)))
    _insert_steps(connection, changed)
    restore_keys(connection, ids)


def _insert_steps(connection: Connection, owners: Iterable[tuple[int, Rows]]) -> None:
    values = [(run_id, *step) for run_id, (_, owned) in owners for step in owned]
    insert_rows(connection, steps, values)


_step_facts = attrgetter(*_STEP_NAMES[_STEP_NAMES.index("state") + 1 :])


def _step_values(run: JobRun) -> list[Values]:
    return [
        (position, indexed(step.step), prose(step.name), step.state._value_, *_step_facts(step))
        for position, step in enumerate(run.steps)
    ]


#: Fields of a run between its state and its keys, in the order of the table.
_FACTS = _COLUMNS[_COLUMNS.index("uid") : _COLUMNS.index("tag")]
_facts = attrgetter(*_FACTS)
_texts = itemgetter(*(i for i, name in enumerate(_FACTS) if isinstance(runs.c[name].type, Text)))


def _values(run: JobRun) -> Values:
    facts = _facts(run)
    if "\0" in "".join(_texts(facts)):
        facts = tuple(prose(fact) if isinstance(fact, str) else fact for fact in facts)
    identity = identity_of_run(run)
    return (
        blake2b(_encode(run), digest_size=16).hexdigest(),
        indexed(run.cluster, 64),
        run.job_id,
        run.submit_s,
        # Without the look-up that an enum's ``value`` is.
        run.state._value_,
        indexed(run.user),
        indexed(run.name),
        *facts,
        identity.tag,
        identity.script,
        identity.line,
        decision_id_in(run.admin_comment),
    )


def decision_id_in(admin_comment: str) -> str:
    """Id of the newest decision noted in an admin_comment; empty where there is none.

    >>> decision_id_in("JS1:H4sIA NIMO1:3f9a0c12b7de:n=4,m=enforce")
    '3f9a0c12b7de'
    """
    if "NIMO1:" not in admin_comment:
        return ""
    found: list[str] = _DECISION_ID.findall(admin_comment)
    return found[-1] if found else ""


def run_row(values: Mapping[Any, Any]) -> RunRow:
    """Record of a row that was selected with `ROW_COLUMNS`."""
    return RunRow(**{**values, "state": JobState(values["state"])})


def _key_columns(level: KeyLevel) -> list[Column[Any]]:
    if level is KeyLevel.NAME:
        return [runs.c.user, runs.c.name]
    return [runs.c[level.value]]


def _key(row: RunRow, level: KeyLevel) -> str:
    return Identity(row.user, row.name, row.tag, row.script, row.line).key(level)


def _has_key(level: KeyLevel, key: str) -> ColumnElement[bool]:
    if level is not KeyLevel.NAME:
        return runs.c[level.value] == key
    # A user's name holds no slash, a job's may.
    user, _, name = key.partition("/")
    return and_(runs.c.user == user, runs.c.name == name)
