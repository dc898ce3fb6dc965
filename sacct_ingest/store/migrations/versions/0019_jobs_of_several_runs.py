"""Rows of the accounting that are one job: components of a heterogeneous job, and its starts.

The columns are added here; which stored runs belong together is found afterwards, some at a time
(`sacct_ingest.store.jobs`), so that a large store is open at once.

Revision ID: 0019
Revises: 0018
"""

from alembic import op
from sqlalchemy import Column, ForeignKey

from sacct_ingest.store.schema import long, number, short

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.add_column("runs", Column("part_of", number()))
    op.add_column("runs", Column("pieces", long()))
    op.create_table(
        "job_pieces",
        Column("run_id", number(), ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        Column("cluster", short(64), nullable=False),
        Column("job", number(), nullable=False),
    )
    op.create_index("ix_job_pieces_job", "job_pieces", ["cluster", "job"])
