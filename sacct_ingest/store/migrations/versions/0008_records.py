"""What became of predictions.

Revision ID: 0008
Revises: 0007
"""

from alembic import op
from sqlalchemy import Column

from sacct_ingest.store.column_types import KEY_LENGTH, OPTIONS, long, short

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "records",
        Column("level", short(16), primary_key=True),
        Column("key", short(KEY_LENGTH), primary_key=True),
        Column("payload", long(), nullable=False),
        **OPTIONS,
    )
