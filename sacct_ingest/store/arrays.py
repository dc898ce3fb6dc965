"""Job arrays, each summed up over its tasks."""

from collections.abc import Iterator

from sqlalchemy import ColumnElement, Engine, case, func, select

from sacct_ingest.records import JobState
from sacct_ingest.store.engine import reading
from sacct_ingest.store.rows import ArrayRow, DecisionSelection
from sacct_ingest.store.schema import runs
from sacct_ingest.store.selection import conditions

#: Fields of a selection that runs have, too.
_FIELDS = ("cluster", "partition", "account", "user")
_WHO = tuple(runs.c[name] for name in ("cluster", "array_job_id", "user", "account", "name"))


def newest_arrays(engine: Engine, chosen: DecisionSelection, most: int) -> list[ArrayRow]:
    """Give the arrays that were submitted last, the newest first.

    A task that was requeued counts once, as it ended.  What says something of decisions alone is
    not looked at.

    chosen: whose arrays, where and when they were submitted.
    most: how many.
    """
    completed = case((runs.c.state == JobState.COMPLETED.value, 1), else_=0)
    measured = case((runs.c.cpu_s.is_not(None), runs.c.cpus * runs.c.elapsed_s), else_=0.0)
    query = (
        select(
            *_WHO,
            func.min(runs.c.submit_s).label("submit_s"),
            func.count().label("tasks"),
            func.sum(completed).label("completed"),
            func.min(runs.c.elapsed_s).label("shortest_s"),
            func.avg(runs.c.elapsed_s).label("mean_s"),
            func.max(runs.c.elapsed_s).label("longest_s"),
            func.sum(measured).label("cpu_had_s"),
            func.sum(func.coalesce(runs.c.cpu_s, 0.0)).label("cpu_used_s"),
            func.max(runs.c.mem_bytes).label("mem_bytes"),
        )
        .where(*_conditions(chosen))
        .group_by(*_WHO)
        .order_by(func.min(runs.c.submit_s).desc(), runs.c.array_job_id.desc())
        .limit(most)
    )
    with reading(engine) as connection:
        return [_row(row) for row in connection.execute(query).mappings()]


def _row(values: object) -> ArrayRow:
    given = dict(values)  # type: ignore[call-overload]
    counts = {name: int(given[name]) for name in ("tasks", "completed", "submit_s")}
    times = ("shortest_s", "mean_s", "longest_s", "cpu_had_s", "cpu_used_s")
    return ArrayRow(**given | counts | {name: float(given[name]) for name in times})


def _conditions(chosen: DecisionSelection) -> Iterator[ColumnElement[bool]]:
    yield runs.c.array_job_id.is_not(None)
    yield runs.c.start_s.is_not(None)
    yield runs.c.state != JobState.REQUEUED.value
    yield from conditions(chosen, runs, _FIELDS, "submit_s")
