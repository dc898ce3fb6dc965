"""Series of probes: appended once, read by series."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Engine, Select, and_, func, insert, or_, select

from sacct_ingest.records import Probe, Resource
from sacct_ingest.store.column_types import indexed, prose
from sacct_ingest.store.engine import reading, writing
from sacct_ingest.store.schema import probes

_NAMES = [field.name for field in fields(Probe)]
_COLUMNS = [probes.c[name] for name in _NAMES]
_KEY = (probes.c.resource, probes.c.source, probes.c.target, probes.c.at_s)
#: Keys in one query; SQLite allows a thousand terms.
_CHUNK = 200


class Probes:
    """The table ``probes``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, given: Sequence[Probe]) -> int:
        """Keep measurements; those that are there already are left alone.

        Returns int: how many were new.
        """
        rows = {(row["resource"], row["source"], row["target"], row["at_s"]): row
                for row in map(_values, given)}  # fmt: skip
        if not rows:
            return 0
        with writing(self._engine) as connection:
            keys = list(rows)
            for first in range(0, len(keys), _CHUNK):
                for stored in connection.execute(_with_keys(keys[first : first + _CHUNK])):
                    rows.pop(tuple(stored), None)
            if rows:
                connection.execute(insert(probes), list(rows.values()))
        return len(rows)

    def series(
        self,
        resource: Resource,
        source: str,
        target: str = "",
        *,
        since_s: float = 0.0,
        until_s: float | None = None,
    ) -> list[Probe]:
        """Give one series in the order of time, with the measurements that failed."""
        query = select(*_COLUMNS).where(
            probes.c.resource == resource.value,
            probes.c.source == indexed(source),
            probes.c.target == indexed(target),
            probes.c.at_s >= since_s,
        )
        if until_s is not None:
            query = query.where(probes.c.at_s < until_s)
        with reading(self._engine) as connection:
            return [_probe(row) for row in connection.execute(query.order_by(probes.c.at_s))]

    def latest(self) -> list[Probe]:
        """Give the newest measurement of each series, in the order of the series' names."""
        key = (probes.c.resource, probes.c.source, probes.c.target)
        newest = select(*key, func.max(probes.c.at_s).label("at_s")).group_by(*key).subquery()
        same = and_(*(newest.c[column.name] == column for column in _KEY))
        query = select(*_COLUMNS).join(newest, same).order_by(*key)
        with reading(self._engine) as connection:
            return [_probe(row) for row in connection.execute(query)]

    def since(self, since_s: float) -> Iterator[Probe]:
        """Give all measurements from this time on, in the order of time."""
        query = select(*_COLUMNS).where(probes.c.at_s >= since_s).order_by(*_KEY[::-1])
        with reading(self._engine) as connection:
            yield from map(_probe, connection.execute(query))


def _with_keys(keys: Sequence[tuple[Any, ...]]) -> Select[Any]:
    # OR of ANDs: SQLite had no row values before 3.15, and MariaDB uses no index for them.
    same = (
        and_(*(column == value for column, value in zip(_KEY, key, strict=True))) for key in keys
    )
    return select(*_KEY).where(or_(*same))


def _values(probe: Probe) -> dict[str, Any]:
    values = {name: getattr(probe, name) for name in _NAMES}
    return values | {
        "resource": probe.resource.value,
        "source": indexed(probe.source),
        "target": indexed(probe.target),
        "error": prose(probe.error),
    }


def _probe(row: Any) -> Probe:
    values = dict(zip(_NAMES, row, strict=True))
    return Probe(**values | {"resource": Resource(values["resource"])})
