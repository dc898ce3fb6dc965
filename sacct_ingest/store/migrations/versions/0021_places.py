"""Decisions say which partition or constraint was to be tried first.

Revision ID: 0021
Revises: 0020
"""

from alembic import op
from sqlalchemy import Column

from sacct_ingest.store.schema import short

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    for name in ("given_place", "asked_place"):
        op.add_column("decisions", Column(name, short(), nullable=False, server_default=""))
