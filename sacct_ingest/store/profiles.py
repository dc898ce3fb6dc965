"""Node profiles: all of them, and the newest of each node."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, Engine, and_, delete, func, insert, select
from sqlalchemy.sql import Subquery

from sacct_ingest.records import NodeProfile
from sacct_ingest.store.column_types import indexed, prose
from sacct_ingest.store.engine import reading, writing
from sacct_ingest.store.schema import profiles

_NAMES = [field.name for field in fields(NodeProfile)]
_COLUMNS = [profiles.c[name] for name in _NAMES]
_LENGTHS = {"cluster": 64, "node": 255, "node_type": 255}


class Profiles:
    """The table ``profiles``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, given: Sequence[NodeProfile]) -> None:
        """Keep profiles; one of the same node and time is replaced."""
        if not given:
            return
        rows = {(p.cluster, p.node, p.at_s): _values(p) for p in given}
        with writing(self._engine) as connection:
            for row in rows.values():
                _delete(connection, row)
            connection.execute(insert(profiles), list(rows.values()))

    def latest(self, cluster: str | None = None) -> list[NodeProfile]:
        """Give the newest profile of each node, in the order of the nodes' names."""
        newest = _newest()
        query = select(*_COLUMNS).join(newest, _same(newest))
        if cluster is not None:
            query = query.where(profiles.c.cluster == indexed(cluster, 64))
        query = query.order_by(profiles.c.cluster, profiles.c.node)
        with reading(self._engine) as connection:
            return [_profile(row) for row in connection.execute(query)]


def _newest() -> Subquery:
    return (
        select(profiles.c.cluster, profiles.c.node, func.max(profiles.c.at_s).label("at_s"))
        .group_by(profiles.c.cluster, profiles.c.node)
        .subquery()
    )


def _same(newest: Subquery) -> Any:
    return and_(*(newest.c[name] == profiles.c[name] for name in ("cluster", "node", "at_s")))


def _delete(connection: Connection, key: dict[str, Any]) -> None:
    names = ("cluster", "node", "at_s")
    connection.execute(delete(profiles).where(*(profiles.c[name] == key[name] for name in names)))


def _values(profile: NodeProfile) -> dict[str, Any]:
    values = asdict(profile) | {"error": prose(profile.error)}
    return values | {name: indexed(values[name], length) for name, length in _LENGTHS.items()}


def _profile(row: Any) -> NodeProfile:
    return NodeProfile(**dict(zip(_NAMES, row, strict=True)))
