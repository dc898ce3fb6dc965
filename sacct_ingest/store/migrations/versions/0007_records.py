"""What became of predictions.

Revision ID: 0007
Revises: 0006
"""

from alembic import op
from sqlalchemy import Column

from sacct_ingest.store.column_types import KEY_LENGTH, OPTIONS, long, short

revision = "0007"
down_revision = "0006"
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
