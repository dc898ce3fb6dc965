"""Named counters: ids given in blocks, and versions that are cheap to poll."""

from sqlalchemy import Connection, insert, select, update

from sacct_ingest.store.schema import counters


def lock(connection: Connection, name: str) -> None:
    """Let no other writer of this counter in until the transaction ends."""
    _add(connection, name, 0)


def increase(connection: Connection, name: str, by: int) -> int:
    """Add ``by`` and give the value from before."""
    _add(connection, name, by)
    return read(connection, name) - by


def _add(connection: Connection, name: str, by: int) -> None:
    statement = update(counters).where(counters.c.name == name)
    connection.execute(statement.values(value=counters.c.value + by))


def read(connection: Connection, name: str) -> int:
    """Give the current value."""
    return int(
        connection.execute(select(counters.c.value).where(counters.c.name == name)).scalar_one()
    )


def start(connection: Connection) -> None:
    """Make the counters of a new store."""
    first = {"runs": 1, "fits": 0, "standings": 0, "sums": 0}
    rows = [{"name": name, "value": value} for name, value in first.items()]
    connection.execute(insert(counters), rows)
