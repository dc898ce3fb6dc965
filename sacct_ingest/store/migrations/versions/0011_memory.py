"""Memory that decisions gave jobs.

Revision ID: 0011
Revises: 0010
"""

from alembic import op
from sqlalchemy import Column

from sacct_ingest.store.column_types import number

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("given_mem_mib", "asked_mem_mib"):
        op.add_column("decisions", Column(name, number()))
