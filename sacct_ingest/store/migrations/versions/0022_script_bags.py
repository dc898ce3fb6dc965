"""Runs and decisions have a bag of the words of the job's script.

Revision ID: 0022
Revises: 0021
"""

from alembic import op
from sqlalchemy import Column

from sacct_ingest.store.schema import short

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    for table in ("runs", "decisions"):
        op.add_column(table, Column("script_bag", short(64), nullable=False, server_default=""))
