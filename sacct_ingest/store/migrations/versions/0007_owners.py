"""The user takes part in the keys of tags and scripts.

Tables and verdicts that were made of several users' runs go: "nimo fit" and the next ingest make
them anew of each user's own.

Revision ID: 0007
Revises: 0006
"""

from collections.abc import Callable
from typing import Any

from alembic import op
from sqlalchemy import (
    ColumnClause,
    RowMapping,
    TableClause,
    bindparam,
    column,
    delete,
    select,
    table,
    update,
)

from sacct_ingest.scripts.signature import owned_script, owned_tag

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_SHARED = ("tag", "script")
_BATCH = 500
_OWNED: dict[str, Callable[[str, str], str]] = {"tag": owned_tag, "script": owned_script}


def upgrade() -> None:
    connection = op.get_bind()
    runs = table("runs", *map(column, ("id", "user", *_SHARED)))
    decisions = table(
        "decisions", *map(column, ("decision_id", "user", "key_level", "key", "label", *_SHARED))
    )
    _rewrite(runs, runs.c.id)
    _rewrite(decisions, decisions.c.decision_id)
    tagged = decisions.c.key_level == "tag"
    connection.execute(update(decisions).where(tagged).values(label=decisions.c.key))
    for name in ("fits", "standings"):
        made = table(name, column("level"))
        connection.execute(delete(made).where(made.c.level.in_(_SHARED)))
    # All decisions are looked at once more.
    marks = table("watermarks", column("source"))
    connection.execute(delete(marks).where(marks.c.source == "standings"))


def _rewrite(rows: TableClause, primary: ColumnClause[Any]) -> None:
    """Write the keys of each row anew, by its primary key: a user may have as many as jobs."""
    connection = op.get_bind()
    names = [name for name in ("key", *_SHARED) if name in rows.c]
    change = update(rows).where(primary == bindparam("row_"))
    change = change.values({name: bindparam(f"{name}_") for name in names})
    query = select(rows).order_by(primary).limit(_BATCH)
    batch = connection.execute(query).mappings().all()
    while batch:
        new = [
            {"row_": row[primary.name]} | {f"{name}_": _owned(row, name) for name in names}
            for row in batch
            if any(row[name] for name in names)
        ]
        if new:
            connection.execute(change, new)
        batch = connection.execute(query.where(primary > batch[-1][primary.name])).mappings().all()


def _owned(row: RowMapping, name: str) -> str:
    owned = _OWNED.get(row["key_level"] if name == "key" else name)
    old: str = row[name]
    if owned is None or not old:
        return old
    return owned(row["user"], old) if row["user"] else ""
