"""Use of GPUs by runs and their steps.

Revision ID: 0012
Revises: 0011
"""

from alembic import op
from sqlalchemy import Column, Double

from sacct_ingest.store.column_types import number

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("runs", "steps"):
        op.add_column(table, Column("gpu_percent", Double()))
        op.add_column(table, Column("gpu_mem_bytes", number()))
