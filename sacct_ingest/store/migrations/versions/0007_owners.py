"""The user takes part in the keys of tags and scripts.

Tables and verdicts that were made of several users' runs go: "nimo fit" and the next ingest make
them anew of each user's own.

Revision ID: 0007
Revises: 0006
"""

from collections.abc import Callable
from typing import Any

from alembic import op
from sqlalchemy import TableClause, bindparam, column, delete, select, table, update

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
    runs = table("runs", *map(column, ("user", *_SHARED)))
    decisions = table("decisions", *map(column, ("user", "key_level", "key", "label", *_SHARED)))
    for level, owned in _OWNED.items():
        _rewrite(runs, level, owned)
        _rewrite(decisions, level, owned)
        _rewrite(decisions, "key", owned, decisions.c.key_level == level)
    tagged = decisions.c.key_level == "tag"
    connection.execute(update(decisions).where(tagged).values(label=decisions.c.key))
    for name in ("fits", "standings"):
        made = table(name, column("level"))
        connection.execute(delete(made).where(made.c.level.in_(_SHARED)))
    # All decisions are looked at once more.
    marks = table("watermarks", column("source"))
    connection.execute(delete(marks).where(marks.c.source == "standings"))


def _rewrite(
    rows: TableClause, name: str, owned: Callable[[str, str], str], *conditions: Any
) -> None:
    """Write a key anew for each user that has it."""
    connection = op.get_bind()
    owner, key = rows.c.user, rows.c[name]
    pairs = connection.execute(select(owner, key).where(key > "", *conditions).distinct()).all()
    changes = [
        {"owner_": one, "key_": old, "new_": owned(one, old) if one else ""}
        # The longest first: what one of them becomes may be what another one was.
        for one, old in sorted(pairs, key=lambda pair: -len(pair[1]))
    ]
    change = (
        update(rows)
        .where(owner == bindparam("owner_"), key == bindparam("key_"), *conditions)
        .values({name: bindparam("new_")})
    )
    for first in range(0, len(changes), _BATCH):
        connection.execute(change, changes[first : first + _BATCH])
