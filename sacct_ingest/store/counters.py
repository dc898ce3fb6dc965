"""Named counters: ids given in blocks, and versions that are cheap to poll."""

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from sacct_ingest.runs.submission import RULES
from sacct_ingest.store.schema import counters

#: The counter with the first run that was not looked at by today's rules; its value where all were.
RULES_PLACE: Final = f"rules {RULES}"
DONE: Final = 2**62


def lock(connection: sa.Connection, name: str) -> None:
    """Let no other writer of this counter in until the transaction ends."""
    increase(connection, name, 0)


def increase(connection: sa.Connection, name: str, by: int) -> int:
    """Add ``by`` and give the value from before."""
    statement = sa.update(counters).where(counters.c.name == name)
    connection.execute(statement.values(value=counters.c.value + by))
    return read(connection, name) - by


def lower(connection: sa.Connection, name: str, to: int) -> None:
    """Make a counter no higher than this; one that is not there stays so."""
    chosen = sa.and_(counters.c.name == name, counters.c.value > to)
    connection.execute(sa.update(counters).where(chosen).values(value=to))


def read(connection: sa.Connection, name: str) -> int:
    """Give the current value."""
    return int(connection.execute(_value_of(name)).scalar_one())


def find(connection: sa.Connection, name: str) -> int | None:
    """Give the current value; None where there is no such counter."""
    value = connection.execute(_value_of(name)).scalar()
    return None if value is None else int(value)


def all_of(connection: sa.Connection, begin: str) -> dict[str, int]:
    """Give all counters whose names begin so."""
    chosen = sa.select(counters).where(counters.c.name.startswith(begin, autoescape=True))
    return {str(row.name): int(row.value) for row in connection.execute(chosen)}


def halve(connection: sa.Connection, begin: str) -> None:
    """Halve all counters whose names begin so."""
    halved = {name: value // 2 for name, value in all_of(connection, begin).items()}
    for name, value in halved.items():
        lower(connection, name, value)


def start(connection: sa.Connection, values: Mapping[str, int]) -> None:
    """Make counters with their first values."""
    rows = [{"name": name, "value": value} for name, value in values.items()]
    connection.execute(sa.insert(counters), rows)


def _value_of(name: str) -> sa.Select[Any]:
    return sa.select(counters.c.value).where(counters.c.name == name)
