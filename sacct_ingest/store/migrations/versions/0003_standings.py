"""Whether predictions still hold, and the time limits that were given.

Revision ID: 0003
Revises: 0002
"""

from alembic import op
from sqlalchemy import Boolean, Column, Double, insert

from sacct_ingest.store.column_types import KEY_LENGTH, OPTIONS, long, number, short
from sacct_ingest.store.schema import counters

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("given_limit_s", "given_min_s"):
        op.add_column("decisions", Column(name, number()))
    op.create_index("ix_decisions_key", "decisions", ["key", "at_s"])
    op.create_table(
        "standings",
        Column("level", short(16), primary_key=True),
        Column("key", short(KEY_LENGTH), primary_key=True),
        Column("label", long(), nullable=False),
        Column("off", Boolean(), nullable=False),
        Column("ratio", Double(), nullable=False),
        Column("runs", number(), nullable=False),
        *(Column(n, Double(), nullable=False) for n in ("low", "high", "since_s", "judged_s")),
        **OPTIONS,
    )
    op.get_bind().execute(insert(counters), {"name": "standings", "value": 0})
