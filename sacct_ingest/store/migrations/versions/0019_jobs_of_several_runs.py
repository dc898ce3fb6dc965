"""What is made of a row is stored beside it, and which rows are one job.

The columns are added here.  What stands in them of stored runs is made afterwards, some at a time
(`sacct_ingest.store.resolution`), so that a large store is open at once.

Revision ID: 0019
Revises: 0018
"""

from alembic import op
from sqlalchemy import Column, ForeignKey

from sacct_ingest.store.schema import long, number, short

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.add_column("runs", Column("failed_steps", number()))
    op.add_column("runs", Column("part_of", number()))
    op.add_column("runs", Column("pieces", long()))
    op.add_column("runs", Column("submission", long()))
    op.add_column("runs", Column("rules", number(), nullable=False, server_default="0"))
    op.create_table(
        "job_pieces",
        Column("run_id", number(), ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        Column("cluster", short(64), nullable=False),
        Column("job", number(), nullable=False),
    )
    op.create_index("ix_job_pieces_job", "job_pieces", ["cluster", "job"])
