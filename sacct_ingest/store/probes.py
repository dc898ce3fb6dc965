"""Series of probes, appended once and read by series, and profiles of nodes."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any

import sqlalchemy as sa

from sacct_ingest.records import NodeProfile, Probe, Resource
from sacct_ingest.store.engine import StoreTable, any_of, parts, put, writing
from sacct_ingest.store.schema import indexed, probes, profiles, prose

_COLUMNS = [probes.c[field.name] for field in fields(Probe)]
_KEY = (probes.c.resource, probes.c.source, probes.c.target, probes.c.at_s)
#: Keys in one query; SQLite allows a thousand terms.
_CHUNK = 200
_PROFILE_KEY = ("cluster", "node", "at_s")
_PROFILE_COLUMNS = [profiles.c[field.name] for field in fields(NodeProfile)]


class Probes(StoreTable):
    """The table ``probes``."""

    def add(self, given: Sequence[Probe]) -> int:
        """Keep measurements; those that are there already are left alone.

        Returns int: how many were new.
        """
        rows = {(row["resource"], row["source"], row["target"], row["at_s"]): row
                for row in map(_values, given)}  # fmt: skip
        if not rows:
            return 0
        with writing(self._engine) as connection:
            for keys in parts(list(rows), _CHUNK):
                for stored in connection.execute(sa.select(*_KEY).where(any_of(_KEY, keys))):
                    rows.pop(tuple(stored), None)
            if rows:
                connection.execute(sa.insert(probes), list(rows.values()))
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
        query = sa.select(*_COLUMNS).where(
            probes.c.resource == resource.value,
            probes.c.source == indexed(source),
            probes.c.target == indexed(target),
            probes.c.at_s >= since_s,
        )
        if until_s is not None:
            query = query.where(probes.c.at_s < until_s)
        return [_probe(row) for row in self._rows(query.order_by(probes.c.at_s))]

    def latest(self) -> list[Probe]:
        """Give the newest measurement of each series, in the order of the series' names."""
        key = (probes.c.resource, probes.c.source, probes.c.target)
        newest = sa.select(*key, sa.func.max(probes.c.at_s).label("at_s")).group_by(*key).subquery()
        same = sa.and_(*(newest.c[column.name] == column for column in _KEY))
        query = sa.select(*_COLUMNS).join(newest, same).order_by(*key)
        return [_probe(row) for row in self._rows(query)]

    def since(self, since_s: float) -> Iterator[Probe]:
        """Give all measurements from this time on, in the order of time."""
        query = sa.select(*_COLUMNS).where(probes.c.at_s >= since_s).order_by(*_KEY[::-1])
        yield from map(_probe, self._each(query))


class Profiles(StoreTable):
    """The table ``profiles``: all of them, and the newest of each node."""

    def add(self, given: Sequence[NodeProfile]) -> None:
        """Keep profiles; one of the same node and time is replaced."""
        rows = {(p.cluster, p.node, p.at_s): _values_of(p) for p in given}
        with writing(self._engine) as connection:
            put(connection, profiles, list(rows.values()), *_PROFILE_KEY)

    def latest(self, cluster: str | None = None) -> list[NodeProfile]:
        """Give the newest profile of each node, in the order of the nodes' names."""
        node = (profiles.c.cluster, profiles.c.node)
        newest = (
            sa.select(*node, sa.func.max(profiles.c.at_s).label("at_s")).group_by(*node).subquery()
        )
        same = sa.and_(*(newest.c[name] == profiles.c[name] for name in _PROFILE_KEY))
        query = sa.select(*_PROFILE_COLUMNS).join(newest, same).order_by(*node)
        if cluster is not None:
            query = query.where(profiles.c.cluster == indexed(cluster, 64))
        return [NodeProfile(**row._mapping) for row in self._rows(query)]


def _values(probe: Probe) -> dict[str, Any]:
    return asdict(probe) | {
        "resource": probe.resource.value,
        "source": indexed(probe.source),
        "target": indexed(probe.target),
        "error": prose(probe.error),
    }


def _probe(row: sa.Row[Any]) -> Probe:
    return Probe(**{**row._mapping, "resource": Resource(row.resource)})


def _values_of(profile: NodeProfile) -> dict[str, Any]:
    return asdict(profile) | {
        "cluster": indexed(profile.cluster, 64),
        "node": indexed(profile.node),
        "node_type": indexed(profile.node_type),
        "error": prose(profile.error),
    }
