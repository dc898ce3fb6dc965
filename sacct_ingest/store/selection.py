"""A selection of decisions, as conditions on the rows of a table."""

from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement, Table, or_

from sacct_ingest.store.rows import DecisionSelection


def conditions(
    chosen: DecisionSelection, table: Table, fields: Sequence[str], moment: str
) -> Iterator[ColumnElement[bool]]:
    """Make of a selection what has to hold of each row.

    table: has the columns ``user`` and ``account``.
    fields: of the selection, that are columns and have to be equal.
    moment: column with the time that the selection is about, seconds since the epoch.
    """
    columns = table.c
    for name in fields:
        if value := getattr(chosen, name):
            yield columns[name] == value
    if chosen.since_s is not None:
        yield columns[moment] >= chosen.since_s
    if chosen.until_s is not None:
        yield columns[moment] < chosen.until_s
    if chosen.only_user is not None:
        among = columns.account.in_(chosen.only_accounts)
        yield or_(columns.user == chosen.only_user, among)
