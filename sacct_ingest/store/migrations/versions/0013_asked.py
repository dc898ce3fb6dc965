"""Types of GPUs, and CPUs and GPUs as asked; runs stored before get them when read again.

Revision ID: 0013
Revises: 0012
"""

from alembic import op
from sqlalchemy import Column

from sacct_ingest.store.column_types import NAME_LENGTH, number, short

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("gpu_types", "req_gpu_types"):
        text = Column(name, short(NAME_LENGTH), nullable=False, server_default="")
        op.add_column("runs", text)
    for name in ("req_cpus", "req_gpus"):
        op.add_column("runs", Column(name, number()))
