"""The schema of the first release; no release had those between.

Bounds of waits stand apart from predicted waits (earlier decisions have them as predictions), and
limits that Slurm plans a job with beside the one that the job is held to.  Keys of names and
command lines are without what is volatile, and of workflow engines' processes: runs of one template
were of as many applications as there were dates or hashes.  Keys that a decision gave, of a script
or a command that the accounting does not have, stay.  What changed since the last refit, and what
each table rests on: the next refit makes all anew.  Runs have the mean power of each of their
nodes, as the nodes' sensors measured it.

Revision ID: 0018
Revises: 0013
"""

from hashlib import blake2b

from alembic import op
from sqlalchemy import Column, Double, Integer, bindparam, select, update

from sacct_ingest.scripts.signature import identity_of_line, words_of_line
from sacct_ingest.store.schema import KEY_LENGTH, number, runs, short

revision = "0018"
down_revision = "0013"

_BATCH = 5000


def upgrade() -> None:
    for name in ("wait_most_s", "request_wait_most_s"):
        op.add_column("decisions", Column(name, Double()))
    op.add_column("decisions", Column("soft_s", number()))
    _change_keys()
    for name in ("basis", "version"):
        op.add_column("fits", Column(name, number(), nullable=False, server_default="0"))
        op.create_index(f"ix_fits_{name}", "fits", [name])
    op.create_table(
        "changed",
        Column("id", Integer(), primary_key=True),
        Column("level", short(16), nullable=False),
        Column("key", short(KEY_LENGTH), nullable=False),
    )
    op.create_index("ix_changed_key", "changed", ["level", "key"])
    op.execute("DELETE FROM counters WHERE name = 'fitted'")
    op.execute("INSERT INTO counters (name, value) VALUES ('fitted', 1)")
    op.add_column("runs", Column("node_watts", Double()))
    # As `sacct_ingest.runs.usage.node_watts`.
    measured = "FROM steps WHERE run_id = runs.id AND energy_j IS NOT NULL AND elapsed_s > 0"
    node_s = f"(SELECT sum(nodes * elapsed_s) {measured})"
    op.execute(
        f"UPDATE runs SET node_watts = (SELECT sum(energy_j) {measured}) / {node_s}"  # noqa: S608
        f" WHERE {node_s} > 0 AND {node_s} >= nodes * elapsed_s / 2"
    )


def _change_keys() -> None:
    connection = op.get_bind()
    said = [runs.c[name] for name in ("user", "name", "comment", "submit_line", "work_dir")]
    query = select(runs.c.id, runs.c.tag, runs.c.line, *said).order_by(runs.c.id).limit(_BATCH)
    change = update(runs).where(runs.c.id == bindparam("run_"))
    change = change.values(tag=bindparam("tag_"), line=bindparam("line_"))
    last = -1
    while rows := connection.execute(query.where(runs.c.id > last)).all():
        last = rows[-1].id
        changed = []
        for run_id, tag, line, *fields in rows:
            made = identity_of_line(*fields)
            new = (tag or made.tag, made.line if line == _before(*fields) else line)
            if new != (tag, line):
                changed.append({"run_": run_id, "tag_": new[0], "line_": new[1]})
        if changed:
            connection.execute(change, changed)


def _before(user: str, name: str, comment: str, submit_line: str, work_dir: str) -> str:
    """Give the key of a line as it was."""
    words = words_of_line(submit_line, work_dir, comment, name)
    text = "\0".join((user.strip(), name.strip()[:255].rstrip(), *words))
    return blake2b(text.encode(errors="replace"), digest_size=12).hexdigest()
