"""What was predicted for the count asked for, and the level of the intervals.

Revision ID: 0005
Revises: 0004
"""

from alembic import op
from sqlalchemy import Column, Double

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("request_low_s", "request_high_s", "request_wait_s", "confidence"):
        op.add_column("decisions", Column(name, Double()))
