"""Where migrations begin: ``migrate`` makes new stores of ``schema`` at the newest revision.

Revision ID: 0013
Revises:
"""

revision = "0013"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing: no release made a store of an earlier schema."""
