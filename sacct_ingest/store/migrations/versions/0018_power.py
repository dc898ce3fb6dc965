"""Mean power of each node of a run, as the sensors of its nodes measured it.

Revision ID: 0018
Revises: 0017
"""

from alembic import op
from sqlalchemy import Column, Double

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", Column("node_watts", Double()))
    # As `sacct_ingest.runs.usage.node_watts`.
    measured = "FROM steps WHERE run_id = runs.id AND energy_j IS NOT NULL AND elapsed_s > 0"
    node_s = f"(SELECT sum(nodes * elapsed_s) {measured})"
    op.execute(
        f"UPDATE runs SET node_watts = (SELECT sum(energy_j) {measured}) / {node_s}"  # noqa: S608
        f" WHERE {node_s} > 0 AND {node_s} >= nodes * elapsed_s / 2"
    )
