"""Where migrations begin: ``migrate`` makes new stores of ``schema`` at the newest revision.

Revision ID: 0013
Revises:
"""

revision = "0013"
down_revision = None


def upgrade() -> None:
    """Nothing: no release made a store of an earlier schema."""
