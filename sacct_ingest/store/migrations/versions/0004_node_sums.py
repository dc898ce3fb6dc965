"""Sums over the runs of applications on each node type, and what each run added to them.

Revision ID: 0004
Revises: 0003
"""

from alembic import op
from sqlalchemy import Column, Double, insert

from sacct_ingest.store.column_types import KEY_LENGTH, OPTIONS, long, number, short
from sacct_ingest.store.schema import counters

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_TEXTS = (("digest", 32), ("tag", 255), ("script", 64), ("line", 64), ("basis", 32))


def upgrade() -> None:
    op.create_table(
        "contributions",
        Column("cluster", short(64), primary_key=True),
        *(Column(n, number(), primary_key=True, autoincrement=False) for n in _RUN),
        *(Column(name, short(length), nullable=False) for name, length in _TEXTS),
        Column("node_type", short(), nullable=False),
        Column("nodes", number(), nullable=False),
        *(Column(name, Double(), nullable=False) for name in ("tasks_node", "time_s")),
        Column("figures", long(), nullable=False),
        **OPTIONS,
    )
    op.create_table(
        "sums",
        Column("digest", short(32), primary_key=True),
        Column("level", short(16), nullable=False),
        Column("key", short(KEY_LENGTH), nullable=False),
        Column("node_type", short(), nullable=False),
        Column("form", short(32), nullable=False),
        Column("payload", long(), nullable=False),
        **OPTIONS,
    )
    op.create_index("ix_sums_key", "sums", ["level", "key"])
    op.get_bind().execute(insert(counters), {"name": "sums", "value": 0})


_RUN = ("submit_s", "job_id")
