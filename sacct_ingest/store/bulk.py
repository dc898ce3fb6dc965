"""Many rows at once, without building a dict for each.

SQLAlchemy's own executemany handles each of forty values of each row in Python, which takes longer
than SQLite takes to write them: here the compiled SQL gets the rows as they are.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, Table, insert

Values = tuple[Any, ...]


def insert_rows(connection: Connection, table: Table, rows: Sequence[Values]) -> None:
    """Insert rows whose values are in the order of the table's columns."""
    if not rows:
        return
    sql, positional = _compiled(table, connection.dialect)
    names = table.columns.keys()
    given = rows if positional else [dict(zip(names, row, strict=True)) for row in rows]
    connection.exec_driver_sql(sql, list(given))


@lru_cache(maxsize=16)
def _compiled(table: Table, dialect: Dialect) -> tuple[str, bool]:
    """Give the SQL of an insert, and whether its parameters go by position."""
    compiled = insert(table).compile(dialect=dialect)
    return str(compiled), bool(compiled.positional)
