"""Limits that Slurm plans a job with, beside the one that the job is held to.

Revision ID: 0015
Revises: 0014
"""

from alembic import op
from sqlalchemy import Column

from sacct_ingest.store.schema import number

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("decisions", Column("soft_s", number()))
