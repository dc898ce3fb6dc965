"""What changed since the last refit, and what each table rests on: the next refit makes all anew.

Revision ID: 0017
Revises: 0016
"""

from alembic import op
from sqlalchemy import Column, Integer

from sacct_ingest.store.schema import KEY_LENGTH, number, short

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("basis", "version"):
        op.add_column("fits", Column(name, number(), nullable=False, server_default="0"))
        op.create_index(f"ix_fits_{name}", "fits", [name])
    op.create_table(
        "changed",
        Column("id", Integer(), primary_key=True),
        Column("level", short(16), nullable=False),
        Column("key", short(KEY_LENGTH), nullable=False),
    )
    op.create_index("ix_changed_key", "changed", ["level", "key"])
    op.execute("DELETE FROM counters WHERE name = 'fitted'")
    op.execute("INSERT INTO counters (name, value) VALUES ('fitted', 1)")
