"""Keys of names and command lines without what is volatile, and of workflow engines' processes.

Runs of one template were of as many applications as there were dates or hashes; they are of one
now.  Keys that a decision gave, of a script or a command that the accounting does not have, stay.

Revision ID: 0016
Revises: 0015
"""

from hashlib import blake2b

from alembic import op
from sqlalchemy import bindparam, select, update

from sacct_ingest.scripts.signature import identity_of_line, words_of_line
from sacct_ingest.store.schema import runs

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_BATCH = 5000


def upgrade() -> None:
    connection = op.get_bind()
    said = [runs.c[name] for name in ("user", "name", "comment", "submit_line", "work_dir")]
    query = select(runs.c.id, runs.c.tag, runs.c.line, *said).order_by(runs.c.id).limit(_BATCH)
    change = update(runs).where(runs.c.id == bindparam("run_"))
    change = change.values(tag=bindparam("tag_"), line=bindparam("line_"))
    last = -1
    while rows := connection.execute(query.where(runs.c.id > last)).all():
        last = rows[-1].id
        changed = []
        for number, tag, line, *fields in rows:
            made = identity_of_line(*fields)
            new = (tag or made.tag, made.line if line == _before(*fields) else line)
            if new != (tag, line):
                changed.append({"run_": number, "tag_": new[0], "line_": new[1]})
        if changed:
            connection.execute(change, changed)


def _before(user: str, name: str, comment: str, submit_line: str, work_dir: str) -> str:
    """Give the key of a line as it was."""
    words = words_of_line(submit_line, work_dir, comment, name)
    text = "\0".join((user.strip(), name.strip()[:255].rstrip(), *words))
    return blake2b(text.encode(errors="replace"), digest_size=12).hexdigest()
