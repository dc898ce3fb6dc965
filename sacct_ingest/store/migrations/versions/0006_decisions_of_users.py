"""Finding a user's decisions without reading everybody's.

Revision ID: 0006
Revises: 0005
"""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_decisions_user", "decisions", ["user", "at_s"])
