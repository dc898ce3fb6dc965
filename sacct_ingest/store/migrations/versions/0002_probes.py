"""What steps used besides CPU and disk; probes and node profiles.

Revision ID: 0002
Revises: 0001
"""

from alembic import op
from sqlalchemy import Column, Double

from sacct_ingest.store.column_types import OPTIONS, long, number, short

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("user_cpu_s", "system_cpu_s"):
        op.add_column("steps", Column(name, Double()))
    for name in _STEP_COUNTS:
        op.add_column("steps", Column(name, number()))
    _create_probes()
    _create_profiles()
    op.create_index("ix_probes_at_s", "probes", ["at_s"])


_STEP_COUNTS = (
    "lustre_read_bytes",
    "lustre_write_bytes",
    "net_in_bytes",
    "net_out_bytes",
    "energy_j",
)
_MEASURES = (
    "cpu_events_per_s",
    "cpu_all_events_per_s",
    "mem_bandwidth_bytes_per_s",
    "mem_latency_s",
    "disk_read_bytes_per_s",
    "disk_write_bytes_per_s",
    "disk_latency_s",
    "net_bandwidth_bytes_per_s",
    "net_latency_s",
)


def _create_probes() -> None:
    op.create_table(
        "probes",
        Column("resource", short(16), primary_key=True),
        Column("source", short(), primary_key=True),
        Column("target", short(), primary_key=True),
        Column("at_s", Double(), primary_key=True),
        Column("value", Double()),
        Column("size_bytes", number()),
        Column("took_s", Double(), nullable=False),
        Column("error", long(), nullable=False),
        **OPTIONS,
    )


def _create_profiles() -> None:
    op.create_table(
        "profiles",
        Column("cluster", short(64), primary_key=True),
        Column("node", short(), primary_key=True),
        Column("at_s", Double(), primary_key=True),
        Column("node_type", short(), nullable=False),
        Column("job_id", number()),
        Column("cpus", number()),
        *(Column(name, Double()) for name in _MEASURES),
        Column("error", long(), nullable=False),
        **OPTIONS,
    )
