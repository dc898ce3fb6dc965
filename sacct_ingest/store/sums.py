"""Sums over the runs of each application on each node type: every run is in them once.

The contribution of a run is stored beside the sums, in the same transaction.  So a run that
is handed in again adds nothing, one that changed is first taken out, and two stores make one by
handing over what their runs added.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, fields
from hashlib import blake2b
from itertools import chain
from typing import Any

import sqlalchemy as sa

from sacct_ingest.records import CURVE_LEVELS, RUN_TIME_STATES, JobState, KeyLevel
from sacct_ingest.store import counters
from sacct_ingest.store.changes import mark_identities
from sacct_ingest.store.engine import StoreTable, parts, put, reading, writing
from sacct_ingest.store.rows import Contribution, RunRow, SumsRow
from sacct_ingest.store.runs import ROW_COLUMNS, run_rows
from sacct_ingest.store.schema import contributions, runs, sums

#: Runs in one transaction.
BATCH = 2000
_COLUMNS = [contributions.c[field.name] for field in fields(Contribution)]
_KEY = ("cluster", "submit_s", "job_id")
_SAME = sa.and_(*(contributions.c[name] == runs.c[name] for name in _KEY))
_WATCHED = ("digest", *(level.value for level in CURVE_LEVELS))

#: Makes the text of the new sums of the old one (empty: none yet), the form, and the runs that
#: come in and go out; empty where the form does not apply to them.
Fold = Callable[[str, str, Sequence[Contribution], Sequence[Contribution]], str]


class NodeSums(StoreTable):
    """The tables ``sums`` and ``contributions``."""

    def unknown(self, bases: Iterable[str]) -> Iterator[list[RunRow]]:
        """Give the runs whose contribution is missing or was made of something else, in batches.

        bases: what contributions are made of now.
        """
        other = sa.or_(
            *(contributions.c[name] != runs.c[name] for name in _WATCHED),
            contributions.c.basis.not_in(sorted(bases)),
            # It turned out to be the rest of a resized job, or a component.
            sa.and_(
                contributions.c.time_s > 0,
                sa.or_(runs.c.state != JobState.COMPLETED.value, runs.c.het_job_id.is_not(None)),
            ),
        )
        new = sa.and_(
            contributions.c.job_id.is_(None),
            runs.c.state.in_(RUN_TIME_STATES),
            runs.c.het_job_id.is_(None),
        )
        # What one component took is no time of its job on so few nodes.
        time = sa.case((runs.c.het_job_id.is_not(None), 0.0), else_=runs.c.elapsed_s)
        columns = [
            time.label(column.name) if column.name == "elapsed_s" else column
            for column in ROW_COLUMNS
        ]
        query = sa.select(*columns, runs.c.node_list, runs.c.digest, runs.c.submission)
        query = query.select_from(runs.outerjoin(contributions, _SAME))
        query = query.where(sa.or_(new, other), runs.c.nodes > 0, runs.c.elapsed_s > 0)
        query = query.order_by(runs.c.id).limit(BATCH)
        last = 0
        while rows := self._rows(query.where(runs.c.id > last)):
            yield list(run_rows(rows))
            last = rows[-1].run_id

    def take(
        self, given: Sequence[Contribution], forms: Sequence[str], fold: Fold, *, fresh: bool = True
    ) -> int:
        """Add runs to the sums, in one transaction; gives how many were not in them like that.

        forms: names of the forms that are summed.
        fold: does the adding.
        fresh: these are newer than the stored ones of the same runs.  Otherwise a run of this store
            stays as it is, and of one that is not the last in an order that means nothing else.
        """
        with writing(self._engine) as connection:
            counters.lock(connection, "sums")
            found = _submitted_with(connection, given, contributions, _COLUMNS)
            stored = {_key(one): one for one in (Contribution(**row._mapping) for row in found)}
            latest = {_key(one): one for one in (given if fresh else sorted(given, key=astuple))}
            changed = [one for key, one in latest.items() if stored.get(key) != one]
            if not fresh:
                changed = _later(connection, changed, stored)
            _fold(connection, changed, stored, forms, fold)
            for known in (True, False):
                rows = [asdict(one) for one in changed if (_key(one) in stored) is known]
                put(connection, contributions, rows, *(_KEY if known else ()))
            both = chain(changed, (stored[key] for key in map(_key, changed) if key in stored))
            identities = {(KeyLevel(level), key) for level, key, _ in _by_sums(both)}
            mark_identities(connection, identities)
        return len(changed)

    def fill(self, forms: Sequence[str], fold: Fold) -> None:
        """Make the sums of forms that the store has none of, as a newer release may have more.

        forms, fold: as of `take`, which takes for granted that stored contributions are in them.
        """
        with writing(self._engine) as connection:
            counters.lock(connection, "sums")
            there = set(connection.scalars(sa.select(sums.c.form).distinct()))
            missing = [form for form in forms if form not in there]
            if not missing:
                return
            for part in connection.execute(sa.select(*_COLUMNS)).partitions(BATCH):
                given = [Contribution(**row._mapping) for row in part]
                _fold(connection, given, {}, missing, fold)

    def partition_types(self) -> list[tuple[str, str, str]]:
        """Cluster, partition and node type of what ran, each once."""
        columns = [runs.c.cluster, runs.c.partition, contributions.c.node_type]
        query = sa.select(*columns).select_from(runs.join(contributions, _SAME))
        query = query.where(contributions.c.node_type != "").distinct()
        return [(row[0], row[1], row[2]) for row in self._rows(query)]

    def contributions(self) -> Iterator[list[Contribution]]:
        """Give all contributions, in batches."""
        query = sa.select(*_COLUMNS).order_by(*(contributions.c[name] for name in _KEY))
        with reading(self._engine, BATCH) as connection:
            for part in connection.execute(query).partitions(BATCH):
                yield [Contribution(**row._mapping) for row in part]

    def of_level(
        self, level: KeyLevel, keys: Sequence[str] | None = None
    ) -> dict[str, list[SumsRow]]:
        """Give the sums of all applications recognised at this level, by their key.

        keys: of these only; None: of all.
        """
        by_key: dict[str, list[SumsRow]] = defaultdict(list)
        columns = (sums.c[field.name] for field in fields(SumsRow))
        query = sa.select(*columns).where(sums.c.level == level.value)
        if keys is not None:
            query = query.where(sums.c.key.in_(keys))
        for row in self._rows(query.order_by(sums.c.key, sums.c.node_type, sums.c.form)):
            by_key[row.key].append(SumsRow(**{**row._mapping, "level": level}))
        return dict(by_key)


_RunKey = tuple[str, int, int]


def _key(one: Contribution) -> _RunKey:
    return one.cluster, one.submit_s, one.job_id


def _later(
    connection: sa.Connection, given: Sequence[Contribution], stored: Mapping[_RunKey, Contribution]
) -> list[Contribution]:
    """Leave out foreign tellings of runs that are this store's own, or that a later one is of."""
    chosen = {
        _key(one): one
        for one in given
        if _key(one) not in stored or astuple(one) > astuple(stored[_key(one)])
    }
    doubtful = [one for key, one in chosen.items() if key in stored]
    # The keys of the runs that this store has itself, among others of the same times.
    for row in _submitted_with(connection, doubtful, runs, [runs.c[name] for name in _KEY]):
        chosen.pop(tuple(row), None)
    return list(chosen.values())


def _submitted_with(
    connection: sa.Connection,
    given: Iterable[Contribution],
    table: sa.Table,
    columns: Sequence[sa.Column[Any]],
) -> Iterator[Any]:
    """Give the rows of a table whose cluster and submit time are those of given runs."""
    times: dict[str, set[int]] = defaultdict(set)
    for one in given:
        times[one.cluster].add(one.submit_s)
    for cluster, submitted in times.items():
        for part in parts(sorted(submitted)):
            at_once = table.c.submit_s.in_(part)
            yield from connection.execute(
                sa.select(*columns).where(table.c.cluster == cluster, at_once)
            )


def _fold(
    connection: sa.Connection,
    changed: Sequence[Contribution],
    stored: Mapping[_RunKey, Contribution],
    forms: Sequence[str],
    fold: Fold,
) -> None:
    added = _by_sums(changed)
    removed = _by_sums(stored[_key(c)] for c in changed if _key(c) in stored)
    owners = {
        blake2b("\0".join((*owner, form)).encode(), digest_size=16).hexdigest(): (*owner, form)
        for owner in sorted({*added, *removed})
        for form in forms
    }
    for part in parts(list(owners)):
        query = sa.select(sums.c.digest, sums.c.payload).where(sums.c.digest.in_(part))
        before = {row.digest: row.payload for row in connection.execute(query)}
        rows = []
        for digest in part:
            level, key, node_type, form = owners[digest]
            owner = (level, key, node_type)
            text = fold(before.get(digest, ""), form, added.get(owner, ()), removed.get(owner, ()))
            rows.append((digest, level, key, node_type, form, text))
        connection.execute(sa.delete(sums).where(sums.c.digest.in_(part)))
        names = sums.columns.keys()
        values = [dict(zip(names, row, strict=True)) for row in rows if row[-1]]
        if values:
            connection.execute(sa.insert(sums), values)


def _by_sums(given: Iterable[Contribution]) -> dict[tuple[str, str, str], list[Contribution]]:
    """Sort runs by level, key and node type of the sums that they belong to."""
    by_sums: dict[tuple[str, str, str], list[Contribution]] = defaultdict(list)
    for one in given:
        if one.node_type and one.time_s > 0:
            for level in CURVE_LEVELS:
                if key := getattr(one, level.value):
                    by_sums[level.value, key, one.node_type].append(one)
    return dict(by_sums)
