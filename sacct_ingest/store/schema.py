"""The tables, the same for SQLite, PostgreSQL and MariaDB.

Text is compared byte by byte on all three (user names and keys differ in case), and columns that
take part in an index are short enough for InnoDB's 3072 bytes.  A new database gets these tables;
``migrations/`` change those of an earlier release, and a test holds both against each other.
Engine and character set on MariaDB are set in ``migrate``: here they would load its dialect for
every command.
"""

from typing import Final

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    UniqueConstraint,
)

from sacct_ingest.store.column_types import KEY_LENGTH, NAME_LENGTH, long, number, short

#: Newest migration: a store with this revision is opened without loading Alembic.
HEAD: Final = "0018"

metadata = MetaData()


def _text(name: str, *, length: int = NAME_LENGTH) -> Column[str]:
    return Column(name, short(length), nullable=False)


def _prose(name: str) -> Column[str]:
    return Column(name, long(), nullable=False)


def _count(name: str, *, nullable: bool = True) -> Column[int]:
    return Column(name, number(), nullable=nullable)


def _real(name: str, *, nullable: bool = True) -> Column[float]:
    return Column(name, Double(), nullable=nullable)


runs = Table(
    "runs",
    metadata,
    # Given by us from ``counters``, so that steps can be written without reading ids back.
    Column("id", number(), primary_key=True, autoincrement=False),
    Column("digest", short(32), nullable=False),
    _text("cluster", length=64),
    _count("job_id", nullable=False),
    _count("submit_s", nullable=False),
    _text("state", length=16),
    _text("user", length=NAME_LENGTH),
    _text("name", length=NAME_LENGTH),
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
    _count("gpus"),
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
    _real("gpu_percent"),
    _count("gpu_mem_bytes"),
    Column("gpu_types", short(NAME_LENGTH), nullable=False, server_default=""),
    _count("req_cpus"),
    _count("req_gpus"),
    Column("req_gpu_types", short(NAME_LENGTH), nullable=False, server_default=""),
    _real("node_watts"),
    # Submit time before job id: ingests look runs up by it, and join decisions within seconds.
    UniqueConstraint("cluster", "submit_s", "job_id", name="uq_runs_key"),
    Index("ix_runs_tag", "tag"),
    Index("ix_runs_script", "script"),
    Index("ix_runs_line", "line"),
    Index("ix_runs_user_name", "user", "name"),
    Index("ix_runs_decision_id", "decision_id"),
)

steps = Table(
    "steps",
    metadata,
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
    _real("user_cpu_s"),
    _real("system_cpu_s"),
    _count("lustre_read_bytes"),
    _count("lustre_write_bytes"),
    _count("net_in_bytes"),
    _count("net_out_bytes"),
    _count("energy_j"),
    _real("gpu_percent"),
    _count("gpu_mem_bytes"),
)

fits = Table(
    "fits",
    metadata,
    Column("level", short(16), primary_key=True),
    Column("key", short(KEY_LENGTH), primary_key=True),
    _prose("label"),
    _text("verdict", length=32),
    _text("model"),
    _real("fitted_s", nullable=False),
    _prose("payload"),
    # The refits' number of the site's record that it rests on, and of `counters` when written.
    Column("basis", number(), nullable=False, server_default="0"),
    Column("version", number(), nullable=False, server_default="0"),
    Index("ix_fits_basis", "basis"),
    Index("ix_fits_version", "version"),
)

#: Identities to be fitted anew, besides those of new runs; several rows say the same.
changed = Table(
    "changed",
    metadata,
    Column("id", Integer(), primary_key=True),
    Column("level", short(16), nullable=False),
    Column("key", short(KEY_LENGTH), nullable=False),
    Index("ix_changed_key", "level", "key"),
)

#: What became of the predictions of an identity; level ``site`` is pooled over all.
records = Table(
    "records",
    metadata,
    Column("level", short(16), primary_key=True),
    Column("key", short(KEY_LENGTH), primary_key=True),
    _prose("payload"),
)

decisions = Table(
    "decisions",
    metadata,
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
    _text("key", length=KEY_LENGTH),
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
    _count("given_limit_s"),
    _count("given_min_s"),
    _count("soft_s"),
    _real("request_low_s"),
    _real("request_high_s"),
    _real("request_wait_s"),
    _real("confidence"),
    Column("unit", short(16), nullable=False, server_default="nodes"),
    _count("given_mem_mib"),
    _count("asked_mem_mib"),
    _real("wait_most_s"),
    _real("request_wait_most_s"),
    Column("run_id", number(), ForeignKey("runs.id", ondelete="SET NULL"), unique=True),
    Index("ix_decisions_at_s", "at_s"),
    Index("ix_decisions_key", "key", "at_s"),
    Index("ix_decisions_user", "user", "at_s"),
)

standings = Table(
    "standings",
    metadata,
    Column("level", short(16), primary_key=True),
    Column("key", short(KEY_LENGTH), primary_key=True),
    _prose("label"),
    Column("off", Boolean(), nullable=False),
    _real("ratio", nullable=False),
    _count("runs", nullable=False),
    _real("low", nullable=False),
    _real("high", nullable=False),
    _real("since_s", nullable=False),
    _real("judged_s", nullable=False),
)

#: One row a measurement; a series is (resource, source, target), in the order of time.
probes = Table(
    "probes",
    metadata,
    Column("resource", short(16), primary_key=True),
    Column("source", short(), primary_key=True),
    Column("target", short(), primary_key=True),
    Column("at_s", Double(), primary_key=True),
    _real("value"),
    _count("size_bytes"),
    _real("took_s", nullable=False),
    _prose("error"),
    Index("ix_probes_at_s", "at_s"),
)

profiles = Table(
    "profiles",
    metadata,
    Column("cluster", short(64), primary_key=True),
    Column("node", short(), primary_key=True),
    Column("at_s", Double(), primary_key=True),
    _text("node_type"),
    _count("job_id"),
    _count("cpus"),
    _real("cpu_events_per_s"),
    _real("cpu_all_events_per_s"),
    _real("mem_bandwidth_bytes_per_s"),
    _real("mem_latency_s"),
    _real("disk_read_bytes_per_s"),
    _real("disk_write_bytes_per_s"),
    _real("disk_latency_s"),
    _real("net_bandwidth_bytes_per_s"),
    _real("net_latency_s"),
    _prose("error"),
)

#: What each run added to the sums of its application: nothing is added twice, and what changed is
#: taken out again.
contributions = Table(
    "contributions",
    metadata,
    Column("cluster", short(64), primary_key=True),
    Column("submit_s", number(), primary_key=True, autoincrement=False),
    Column("job_id", number(), primary_key=True, autoincrement=False),
    _text("digest", length=32),
    _text("tag"),
    _text("script", length=64),
    _text("line", length=64),
    _text("basis", length=32),
    _text("node_type"),
    _count("nodes", nullable=False),
    _real("tasks_node", nullable=False),
    _real("time_s", nullable=False),
    _prose("figures"),
)

#: HᵀH and Hᵀx of an application on a node type, in one form; ``digest`` is of the other keys.
sums = Table(
    "sums",
    metadata,
    Column("digest", short(32), primary_key=True),
    _text("level", length=16),
    _text("key", length=KEY_LENGTH),
    _text("node_type"),
    _text("form", length=32),
    _prose("payload"),
    Index("ix_sums_key", "level", "key"),
)

watermarks = Table(
    "watermarks",
    metadata,
    Column("source", short(), primary_key=True),
    _count("epoch_s", nullable=False),
)

rejects = Table(
    "rejects",
    metadata,
    Column("digest", short(32), primary_key=True),
    _prose("source"),
    _prose("reason"),
    _prose("text"),
    _count("seen_s", nullable=False),
)

#: ``runs``: the next run id; ``fitted``: the first one that no refit met; ``fits`` and
#: ``standings``: the versions that nimod polls; ``sums``: the lock of those who add to them.
counters = Table(
    "counters",
    metadata,
    Column("name", short(32), primary_key=True),
    _count("value", nullable=False),
)
