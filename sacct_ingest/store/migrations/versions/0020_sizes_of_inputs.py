"""Runs and decisions have the sizes of the job's input files, where somebody has looked at them.

Revision ID: 0020
Revises: 0019
"""

from alembic import op
from sqlalchemy import Column

from sacct_ingest.store.schema import short

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("runs", Column("inputs", short()))
    op.add_column("decisions", Column("inputs", short(), nullable=False, server_default=""))
