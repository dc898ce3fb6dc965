"""Bounds of waits apart from predicted waits; earlier decisions have them as predictions.

Revision ID: 0014
Revises: 0013
"""

from alembic import op
from sqlalchemy import Column, Double

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("wait_most_s", "request_wait_most_s"):
        op.add_column("decisions", Column(name, Double()))
