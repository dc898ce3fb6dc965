"""What nimod recognised a request by counts for every run of its job.

A job has a run for each start and for each task of its array.  Their comments may have been changed
after the submission, so the keys of the request replace what was read from the accounting.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, or_, select, update

from sacct_ingest.store.schema import decisions, runs

#: What a run is recognised by.
KEYS = ("tag", "script", "line")
_first = runs.alias("first")
_SET = (
    update(runs)
    .where(runs.c.id == bindparam("run_"))
    .values({name: bindparam(f"{name}_") for name in KEYS})
)


def copy_to_noted(connection: Connection) -> None:
    """Give all runs whose admin_comment names a recorded decision the keys of that decision."""
    query = _differing().join(decisions, decisions.c.decision_id == runs.c.decision_id)
    # The first condition spares reading the many runs without a note.
    _copy(connection, query.where(runs.c.decision_id > ""))


def copy_to_linked(connection: Connection, decision_ids: Sequence[str]) -> None:
    """Give the runs of jobs without a note, and of their arrays, the keys of these decisions."""
    _copy(connection, _of_arrays().where(decisions.c.decision_id.in_(decision_ids)))


def copy_to_tasks(connection: Connection, run_ids: range) -> None:
    """Give runs that are new the keys of their array's decision, where another task has one."""
    new = runs.c.id.between(run_ids.start, run_ids.stop - 1)
    _copy(connection, _of_arrays().where(new, runs.c.array_job_id.is_not(None)))


def _differing() -> Select[Any]:
    """Select runs and the keys that their decision has and they have not.

    A tag counts even where the request had none.  Where nimod could not read the script or the
    command line, those of the accounting stay.
    """
    decided = {name: decisions.c[name] for name in KEYS}
    differs: list[ColumnElement[bool]] = [runs.c.tag != decided["tag"]]
    differs += [and_(decided[n] != "", runs.c[n] != decided[n]) for n in ("script", "line")]
    columns = (runs.c[name].label(f"own_{name}") for name in KEYS)
    query = select(runs.c.id, *columns, *decided.values()).select_from(runs)
    return query.where(or_(*differs))


def _of_arrays() -> Select[Any]:
    """Select by the run that a decision is linked to: all tasks of an array came with it."""
    same = or_(runs.c.id == _first.c.id, runs.c.array_job_id == _first.c.array_job_id)
    at_once = and_(runs.c.cluster == _first.c.cluster, runs.c.submit_s == _first.c.submit_s)
    query = _differing().join(_first, and_(at_once, same))
    return query.join(decisions, decisions.c.run_id == _first.c.id).where(runs.c.decision_id == "")


def _copy(connection: Connection, query: Select[Any]) -> None:
    rows: Iterable[Any] = connection.execute(query)
    values = [
        {
            "run_": row.id,
            "tag_": row.tag,
            "script_": row.script or row.own_script,
            "line_": row.line or row.own_line,
        }
        for row in rows
    ]
    if values:
        connection.execute(_SET, values)
