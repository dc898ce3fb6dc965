"""GPUs of runs; those stored before have none until they are ingested again.

Revision ID: 0009
Revises: 0008
"""

from alembic import op
from sqlalchemy import Column

from sacct_ingest.store.column_types import number

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", Column("gpus", number()))
