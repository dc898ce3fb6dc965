"""First schema.

Revision ID: 0001
Revises:
"""

from alembic import op
from sqlalchemy import Boolean, Column, Double, ForeignKey, Integer, UniqueConstraint

from sacct_ingest.store import counters
from sacct_ingest.store.column_types import OPTIONS, long, number, short

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_runs()
    _create_steps()
    _create_decisions()
    _create_small_tables()
    for name, table, columns in _INDEXES:
        op.create_index(name, table, columns)
    counters.start(op.get_bind())


_INDEXES = (
    ("ix_runs_tag", "runs", ["tag"]),
    ("ix_runs_script", "runs", ["script"]),
    ("ix_runs_line", "runs", ["line"]),
    ("ix_runs_user_name", "runs", ["user", "name"]),
    ("ix_runs_decision_id", "runs", ["decision_id"]),
    ("ix_decisions_at_s", "decisions", ["at_s"]),
)


def _create_runs() -> None:
    op.create_table(
        "runs",
        Column("id", number(), primary_key=True, autoincrement=False),
        Column("digest", short(32), nullable=False),
        _text("cluster", length=64),
        _count("job_id", nullable=False),
        _count("submit_s", nullable=False),
        _text("state", length=16),
        _text("user", length=255),
        _text("name", length=255),
        _count("uid"),
        _prose("account"),
        _prose("partition"),
        _prose("qos"),
        _count("array_job_id"),
        _count("array_task_id"),
        _count("het_job_id"),
        _count("het_offset"),
        _text("cancelled_by"),
        _count("exit_code"),
        _count("exit_signal"),
        _count("eligible_s"),
        _count("start_s"),
        _count("end_s"),
        _real("elapsed_s", nullable=False),
        _count("limit_s"),
        _count("nodes", nullable=False),
        _count("req_nodes"),
        _count("cpus", nullable=False),
        _count("tasks"),
        _prose("node_list"),
        _prose("constraints"),
        _prose("reservation"),
        _count("req_mem_bytes"),
        _real("cpu_s"),
        _count("disk_read_bytes"),
        _count("disk_write_bytes"),
        _count("mem_bytes"),
        _prose("submit_line"),
        _prose("work_dir"),
        _prose("comment"),
        _prose("admin_comment"),
        _text("tag"),
        _text("script", length=64),
        _text("line", length=64),
        _text("decision_id", length=32),
        UniqueConstraint("cluster", "submit_s", "job_id", name="uq_runs_key"),
        **OPTIONS,
    )


def _create_steps() -> None:
    op.create_table(
        "steps",
        Column("run_id", number(), ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        Column("position", Integer(), primary_key=True, autoincrement=False),
        _text("step"),
        _prose("name"),
        _text("state", length=16),
        _count("nodes", nullable=False),
        _count("tasks"),
        _count("cpus", nullable=False),
        _count("start_s"),
        _count("end_s"),
        _real("elapsed_s", nullable=False),
        _real("cpu_s"),
        _count("disk_read_bytes"),
        _count("disk_write_bytes"),
        _count("mem_bytes"),
        **OPTIONS,
    )


def _create_decisions() -> None:
    op.create_table(
        "decisions",
        Column("decision_id", short(32), primary_key=True),
        _text("cluster", length=64),
        _real("at_s", nullable=False),
        _text("mode", length=32),
        _text("via", length=32),
        _text("action", length=32),
        _text("reason"),
        _count("uid"),
        _text("user"),
        _text("name"),
        _prose("work_dir"),
        _prose("account"),
        _prose("partition"),
        _prose("qos"),
        _text("tag"),
        _text("script", length=64),
        _text("line", length=64),
        _text("key_level", length=16),
        _text("key", length=560),
        _prose("label"),
        _text("verdict", length=32),
        _count("min_nodes"),
        _count("max_nodes"),
        _count("requested_nodes"),
        _count("limit_s"),
        _real("deadline_s"),
        _count("nodes"),
        Column("applied", Boolean(), nullable=False),
        _real("predicted_s"),
        _real("low_s"),
        _real("high_s"),
        _real("request_predicted_s"),
        _real("wait_s"),
        _prose("message"),
        Column("run_id", number(), ForeignKey("runs.id", ondelete="SET NULL"), unique=True),
        **OPTIONS,
    )


def _create_small_tables() -> None:
    op.create_table(
        "fits",
        Column("level", short(16), primary_key=True),
        Column("key", short(560), primary_key=True),
        _prose("label"),
        _text("verdict", length=32),
        _text("model"),
        _real("fitted_s", nullable=False),
        _prose("payload"),
        **OPTIONS,
    )
    op.create_table(
        "watermarks",
        Column("source", short(), primary_key=True),
        _count("epoch_s", nullable=False),
        **OPTIONS,
    )
    op.create_table(
        "rejects",
        Column("digest", short(32), primary_key=True),
        _prose("source"),
        _prose("reason"),
        _prose("text"),
        _count("seen_s", nullable=False),
        **OPTIONS,
    )
    op.create_table(
        "counters",
        Column("name", short(32), primary_key=True),
        _count("value", nullable=False),
        **OPTIONS,
    )


def _text(name: str, *, length: int = 255) -> Column[str]:
    return Column(name, short(length), nullable=False)


def _prose(name: str) -> Column[str]:
    return Column(name, long(), nullable=False)


def _count(name: str, *, nullable: bool = True) -> Column[int]:
    return Column(name, number(), nullable=nullable)


def _real(name: str, *, nullable: bool = True) -> Column[float]:
    return Column(name, Double(), nullable=nullable)
