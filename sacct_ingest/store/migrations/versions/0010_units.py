"""What the sizes of a decision count; those made before count nodes.

Revision ID: 0010
Revises: 0009
"""

from alembic import op
from sqlalchemy import Column

from sacct_ingest.store.column_types import short

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    unit = Column("unit", short(16), nullable=False, server_default="nodes")
    op.add_column("decisions", unit)
