"""Inserts of many rows at once, without a dict for each.

SQLAlchemy's own executemany handles each of forty values of each row in Python, which takes longer
than SQLite takes to write them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice, repeat
from typing import Any, Final

import sqlalchemy as sa

from sacct_ingest.store.packed_runs import Columns

_Rows = Iterable[Sequence[Any]]
#: Values of one statement that SQLite takes before release 3.32 (RHEL 8 has 3.26).
_MOST_VALUES: Final = 999


def insert_rows(
    connection: sa.Connection, table: sa.Table, names: Iterable[str], packs: Iterable[Columns]
) -> None:
    """Insert the rows of packs, one pack after the other.

    names: what columns there are; where a pack has not all of them, they are NULL in its rows.
    """
    given = frozenset(names)
    # In the table's order, whatever theirs is: else each batch would have SQL of its own.
    ordered = tuple(column.name for column in table.columns if column.name in given)
    rows = chain.from_iterable(rows_of(columns, ordered) for columns in packs)
    _WAYS.get(connection.dialect.driver, _execute_many)(connection, table, ordered, rows)


def rows_of(columns: Columns, names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Give rows with these columns, None where there is no such column."""
    nothing = repeat(None)
    return zip(*(columns.get(name, nothing) for name in names), strict=False)


def _execute_many(
    connection: sa.Connection, table: sa.Table, names: tuple[str, ...], rows: _Rows
) -> None:
    if listed := list(rows):
        connection.exec_driver_sql(_insert_sql(connection.dialect, table.name, names, 1), listed)


def _long_statements(
    connection: sa.Connection, table: sa.Table, names: tuple[str, ...], rows: _Rows
) -> None:
    """Insert many rows in one statement of SQLite: a fifth faster than each by itself."""
    driver: Any = connection.connection.driver_connection
    width = len(names)
    together = _MOST_VALUES // width
    sql = _insert_sql(connection.dialect, table.name, names, together)
    values = chain.from_iterable(rows)
    while len(some := tuple(islice(values, together * width))) == together * width:
        driver.execute(sql, some)
    rest = [some[first : first + width] for first in range(0, len(some), width)]
    driver.executemany(_insert_sql(connection.dialect, table.name, names, 1), rest)


def _copy(connection: sa.Connection, table: sa.Table, names: tuple[str, ...], rows: _Rows) -> None:
    """Insert by PostgreSQL's COPY, which takes a third of the time of INSERT."""
    quote = connection.dialect.identifier_preparer.quote
    driver: Any = connection.connection.driver_connection
    sql = f"COPY {quote(table.name)} ({', '.join(map(quote, names))}) FROM STDIN"
    with driver.cursor() as cursor, cursor.copy(sql) as copy:
        for row in rows:
            copy.write_row(row)


@lru_cache(maxsize=256)
def _insert_sql(dialect: sa.Dialect, table: str, names: tuple[str, ...], rows: int) -> str:
    """Give the SQL of an insert; SQLAlchemy takes 2 ms to compile one of forty columns."""
    quote = dialect.identifier_preparer.quote
    mark = "?" if dialect.paramstyle == "qmark" else "%s"
    # The transaction as a whole is rolled back: SQLite need not be able to undo each statement.
    verb = "INSERT OR FAIL" if dialect.name == "sqlite" else "INSERT"
    row = f"({', '.join([mark] * len(names))})"
    columns = ", ".join(map(quote, names))
    return f"{verb} INTO {quote(table)} ({columns}) VALUES {', '.join([row] * rows)}"


_WAYS: Final[dict[str, Callable[[sa.Connection, sa.Table, tuple[str, ...], _Rows], None]]] = {
    "psycopg": _copy,
    "pysqlite": _long_statements,
}
