"""The tables, the same for SQLite, PostgreSQL and MariaDB.

Text is compared byte by byte on all three (user names and keys differ in case), and columns that
take part in an index are short enough for InnoDB's 3072 bytes.  A new database gets these tables;
``migrations/`` change those of an earlier release, and a test holds both against each other.
Engine and character set on MariaDB are set in ``migrate``: here they would load its dialect for
every command.
"""

from functools import lru_cache
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.types import UserDefinedType

NAME_LENGTH: Final = 255  #: users, job names, clusters; slurmdbd's own tinytext
KEY_LENGTH: Final = 560  #: the longest key: user/name
OPTIONS: Final[dict[str, Any]] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}
#: Newest migration: a store with this revision is opened without loading Alembic.
HEAD: Final = "0022"


class _LongText(UserDefinedType[str]):
    """MariaDB's LONGTEXT; SQLAlchemy's own comes with all of that dialect, which takes 40 ms."""

    cache_ok = True

    def get_col_spec(self, **options: object) -> str:
        """Its name in SQL."""
        del options
        return "LONGTEXT"


def short(length: int = NAME_LENGTH) -> sa.String:
    """Text that may be indexed."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def long() -> sa.Text:
    """Text of any length."""
    return sa.Text().with_variant(_LongText(), "mysql", "mariadb")


def number() -> sa.BigInteger:
    """64 bits: bytes, epochs, ids."""
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


@lru_cache(maxsize=4096)
def indexed(text: str, length: int = NAME_LENGTH) -> str:
    """Text for a short, indexed column.

    PostgreSQL takes no NUL, and MariaDB holds ``a`` and ``a␠`` for equal.
    """
    return text.replace("\0", "").strip()[:length].rstrip()


def prose(text: str) -> str:
    """Text for a column of any length: PostgreSQL takes no NUL."""
    return text.replace("\0", "") if "\0" in text else text


metadata = sa.MetaData()


def _text(name: str, *, length: int = NAME_LENGTH) -> sa.Column[str]:
    return sa.Column(name, short(length), nullable=False)


def _prose(name: str) -> sa.Column[str]:
    return sa.Column(name, long(), nullable=False)


def _count(name: str, *, nullable: bool = True) -> sa.Column[int]:
    return sa.Column(name, number(), nullable=nullable)


def _real(name: str, *, nullable: bool = True) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


runs = sa.Table(
    "runs",
    metadata,
    # Given by us from ``counters``, so that steps can be written without reading ids back.
    sa.Column("id", number(), primary_key=True, autoincrement=False),
    sa.Column("digest", short(32), nullable=False),
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
    sa.Column("gpu_types", short(NAME_LENGTH), nullable=False, server_default=""),
    _count("req_cpus"),
    _count("req_gpus"),
    sa.Column("req_gpu_types", short(NAME_LENGTH), nullable=False, server_default=""),
    _real("node_watts"),
    _count("failed_steps"),
    # The run that stands for its whole job, where this one is another piece of it; and of that run
    # what the others say, as JSON (`sacct_ingest.records.JobPieces`).  See `store.jobs`.
    _count("part_of"),
    sa.Column("pieces", long()),
    # What its texts say, as JSON (`sacct_ingest.runs.submission`), and the version of the rules.
    sa.Column("submission", long()),
    sa.Column("rules", number(), nullable=False, server_default="0"),
    # Sizes of its input files (`sacct_ingest.runs.input_sizes`); NULL: nobody has looked.
    sa.Column("inputs", short()),
    # What its decision knows of its script (`sacct_ingest.scripts.script_bag`).
    sa.Column("script_bag", short(64), nullable=False, server_default=""),
    # Submit time before job id: ingests look runs up by it, and join decisions within seconds.
    sa.UniqueConstraint("cluster", "submit_s", "job_id", name="uq_runs_key"),
    sa.Index("ix_runs_tag", "tag"),
    sa.Index("ix_runs_script", "script"),
    sa.Index("ix_runs_line", "line"),
    sa.Index("ix_runs_user_name", "user", "name"),
    sa.Index("ix_runs_decision_id", "decision_id"),
)

#: Runs that may be one of several of a job: components, and starts after which it may start again.
#: ``job`` is the id of a heterogeneous job, or the run's own.
job_pieces = sa.Table(
    "job_pieces",
    metadata,
    sa.Column("run_id", number(), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    _text("cluster", length=64),
    _count("job", nullable=False),
    sa.Index("ix_job_pieces_job", "cluster", "job"),
)

steps = sa.Table(
    "steps",
    metadata,
    sa.Column("run_id", number(), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("position", sa.Integer(), primary_key=True, autoincrement=False),
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

fits = sa.Table(
    "fits",
    metadata,
    sa.Column("level", short(16), primary_key=True),
    sa.Column("key", short(KEY_LENGTH), primary_key=True),
    _prose("label"),
    _text("verdict", length=32),
    _text("model"),
    _real("fitted_s", nullable=False),
    _prose("payload"),
    # The refits' number of the site's record that it rests on, and of `counters` when written.
    sa.Column("basis", number(), nullable=False, server_default="0"),
    sa.Column("version", number(), nullable=False, server_default="0"),
    sa.Index("ix_fits_basis", "basis"),
    sa.Index("ix_fits_version", "version"),
)

#: Identities to be fitted anew, besides those of new runs; several rows say the same.
changed = sa.Table(
    "changed",
    metadata,
    sa.Column("id", sa.Integer(), primary_key=True),
    sa.Column("level", short(16), nullable=False),
    sa.Column("key", short(KEY_LENGTH), nullable=False),
    sa.Index("ix_changed_key", "level", "key"),
)

#: What became of the predictions of an identity; level ``site`` is pooled over all.
records = sa.Table(
    "records",
    metadata,
    sa.Column("level", short(16), primary_key=True),
    sa.Column("key", short(KEY_LENGTH), primary_key=True),
    _prose("payload"),
)

decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("decision_id", short(32), primary_key=True),
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
    sa.Column("applied", sa.Boolean(), nullable=False),
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
    sa.Column("unit", short(16), nullable=False, server_default="nodes"),
    _count("given_mem_mib"),
    _count("asked_mem_mib"),
    _real("wait_most_s"),
    _real("request_wait_most_s"),
    sa.Column("inputs", short(), nullable=False, server_default=""),
    sa.Column("given_place", short(), nullable=False, server_default=""),
    sa.Column("asked_place", short(), nullable=False, server_default=""),
    sa.Column("script_bag", short(64), nullable=False, server_default=""),
    sa.Column("run_id", number(), sa.ForeignKey("runs.id", ondelete="SET NULL"), unique=True),
    sa.Index("ix_decisions_at_s", "at_s"),
    sa.Index("ix_decisions_key", "key", "at_s"),
    sa.Index("ix_decisions_user", "user", "at_s"),
)

standings = sa.Table(
    "standings",
    metadata,
    sa.Column("level", short(16), primary_key=True),
    sa.Column("key", short(KEY_LENGTH), primary_key=True),
    _prose("label"),
    sa.Column("off", sa.Boolean(), nullable=False),
    _real("ratio", nullable=False),
    _count("runs", nullable=False),
    _real("low", nullable=False),
    _real("high", nullable=False),
    _real("since_s", nullable=False),
    _real("judged_s", nullable=False),
)

#: One row a measurement; a series is (resource, source, target), in the order of time.
probes = sa.Table(
    "probes",
    metadata,
    sa.Column("resource", short(16), primary_key=True),
    sa.Column("source", short(), primary_key=True),
    sa.Column("target", short(), primary_key=True),
    sa.Column("at_s", sa.Double(), primary_key=True),
    _real("value"),
    _count("size_bytes"),
    _real("took_s", nullable=False),
    _prose("error"),
    sa.Index("ix_probes_at_s", "at_s"),
)

profiles = sa.Table(
    "profiles",
    metadata,
    sa.Column("cluster", short(64), primary_key=True),
    sa.Column("node", short(), primary_key=True),
    sa.Column("at_s", sa.Double(), primary_key=True),
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
contributions = sa.Table(
    "contributions",
    metadata,
    sa.Column("cluster", short(64), primary_key=True),
    sa.Column("submit_s", number(), primary_key=True, autoincrement=False),
    sa.Column("job_id", number(), primary_key=True, autoincrement=False),
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
sums = sa.Table(
    "sums",
    metadata,
    sa.Column("digest", short(32), primary_key=True),
    _text("level", length=16),
    _text("key", length=KEY_LENGTH),
    _text("node_type"),
    _text("form", length=32),
    _prose("payload"),
    sa.Index("ix_sums_key", "level", "key"),
)

watermarks = sa.Table(
    "watermarks",
    metadata,
    sa.Column("source", short(), primary_key=True),
    _count("epoch_s", nullable=False),
)

rejects = sa.Table(
    "rejects",
    metadata,
    sa.Column("digest", short(32), primary_key=True),
    _prose("source"),
    _prose("reason"),
    _prose("text"),
    _count("seen_s", nullable=False),
)

#: ``runs``: the next run id; ``fitted``: the first one that no refit met, ``joined`` that no join
#: of decisions did; ``j:`` and ``s:`` count rows that were read and odd values in them; ``fits``
#: and ``standings``: the versions that nimod polls; ``sums``: the lock of those who add to them.
counters = sa.Table(
    "counters",
    metadata,
    sa.Column("name", short(32), primary_key=True),
    _count("value", nullable=False),
)
