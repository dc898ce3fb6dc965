"""Retention: old rows go, in small batches, so that no one waits long for a lock.

What prediction tables are made of stays: of each application on each node count the newest jobs
that completed or were cut short, however old, since a count that is rarely run has no others.  So
do the runs of decisions that stay.  One row of `TABLES` a table.
"""

from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import sqlalchemy as sa

from sacct_ingest.records import CURVE_LEVELS, RUN_TIME_STATES, JobState
from sacct_ingest.store.changes import mark_decided, mark_runs
from sacct_ingest.store.decision_outcomes import PRUNED
from sacct_ingest.store.engine import parts, reading, translated, writing
from sacct_ingest.store.ingests import Watermarks
from sacct_ingest.store.rows import Pruned, RetentionTimes
from sacct_ingest.store.schema import decisions, probes, profiles, rejects, runs, steps

BATCH = 1000  #: rows of one transaction
#: Runs of an application on a node count that stay whatever their age: as many as a curve looks at.
RUNS_PER_KEY = 30
#: The run that stands for the job of another one.
_standing = runs.alias("standing")
#: Pages given back to the file system at a time.
_PAGES = 1000
#: Table -> what has identities fitted anew of which rows go.
_MARKS: dict[str, Callable[[sa.Connection, Sequence[Any]], None]] = {
    "decisions": mark_decided,
    "runs": mark_runs,
}


def prune(engine: sa.Engine, retention: RetentionTimes, *, dry_run: bool = False) -> list[Pruned]:
    """Delete rows that are older than their table keeps them, and give the space back.

    dry_run: only count.
    Raises sacct_ingest.errors.StoreError: the store cannot be read or written.
    """
    done = []
    # Decisions first: then their runs may go, too.
    for name, (key, chosen) in TABLES.items():
        before_s = getattr(retention, name)
        if before_s is not None:
            rows = _delete(engine, key, chosen(before_s, retention), dry_run=dry_run)
            done.append(Pruned(name, before_s, rows))
    if retention.decisions is not None and not dry_run:
        Watermarks(engine).advance(PRUNED, retention.decisions)
    if not dry_run and any(each.rows for each in done) and engine.dialect.name == "sqlite":
        # Give free pages back, a few at a time; an older file is written anew, once.
        with translated(engine), engine.connect() as connection:
            raw = connection.connection.cursor()
            if raw.execute("PRAGMA auto_vacuum").fetchone()[0] == 0:
                raw.execute("PRAGMA auto_vacuum=INCREMENTAL")
                raw.execute("VACUUM")
            while raw.execute("PRAGMA freelist_count").fetchone()[0]:
                raw.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            raw.close()
    return done


def _delete(
    engine: sa.Engine, key: sa.Column[Any], chosen: sa.Select[Any], *, dry_run: bool
) -> int:
    keys = _keys(engine, chosen)
    table = key.table
    rows = 0
    for part in parts(keys, BATCH):
        among = key.in_(list(part))
        with (reading if dry_run else writing)(engine) as connection:
            if dry_run:
                counted = sa.select(sa.func.count()).select_from(table).where(among)
                rows += int(connection.execute(counted).scalar_one())
            else:
                if (mark := _MARKS.get(table.name)) is not None:
                    mark(connection, part)
                rows += connection.execute(sa.delete(table).where(among)).rowcount
    return rows


def _keys(engine: sa.Engine, query: sa.Select[Any]) -> Sequence[Any]:
    """Keys of what goes; of ten million runs eight bytes each."""
    with reading(engine, BATCH) as connection:
        keys = connection.execute(query).scalars()
        first = next(keys, None)
        if isinstance(first, int):
            return array("q", chain([first], keys))
        return [] if first is None else [first, *keys]


def _old_runs(before_s: int, retention: RetentionTimes) -> sa.Select[Any]:
    at = sa.func.coalesce(runs.c.end_s, runs.c.submit_s)
    curve = runs.c.state.in_(RUN_TIME_STATES)
    # What was cut off takes no place of what completed.
    completed = runs.c.state == JobState.COMPLETED.value
    ranks = [
        sa.func.row_number()
        .over(
            partition_by=[runs.c[level.value], runs.c.nodes, curve, completed],
            order_by=[at.desc(), runs.c.submit_s.desc(), runs.c.job_id.desc()],
        )
        .label(f"{level.value}_rank")
        for level in CURVE_LEVELS
    ]
    keys = [runs.c[level.value] for level in CURVE_LEVELS]
    ranked = sa.select(runs.c.id, at.label("at"), curve.label("curve"), *keys, *ranks)
    ranked_jobs = ranked.where(runs.c.part_of.is_(None)).subquery()
    superfluous = [
        sa.or_(
            ranked_jobs.c[level.value] == "", ranked_jobs.c[f"{level.value}_rank"] > RUNS_PER_KEY
        )
        for level in CURVE_LEVELS
    ]
    decided = sa.exists().where(decisions.c.run_id == ranked_jobs.c.id)
    if retention.decisions is not None:
        # So that a dry run counts what a run deletes.
        decided = decided.where(decisions.c.at_s >= retention.decisions)
    jobs = (
        sa.select(ranked_jobs.c.id)
        .where(
            ranked_jobs.c.at < before_s,
            ~decided,
            sa.or_(~ranked_jobs.c.curve, sa.and_(*superfluous)),
        )
        .cte("jobs")
    )
    # The other rows of a job go with the one that stands for it.
    rest = runs.outerjoin(_standing, _standing.c.id == runs.c.part_of)
    others = (
        sa.select(runs.c.id)
        .select_from(rest)
        .where(
            runs.c.part_of.is_not(None),
            sa.or_(_standing.c.id.is_(None), runs.c.part_of.in_(sa.select(jobs.c.id))),
        )
    )
    both = sa.union(sa.select(jobs.c.id), others).subquery()
    return sa.select(both.c.id).order_by(both.c.id)


def _steps_of_old_runs(before_s: int, retention: RetentionTimes) -> sa.Select[Any]:
    del retention
    at = sa.func.coalesce(runs.c.end_s, runs.c.submit_s)
    query = sa.select(steps.c.run_id).join(runs, runs.c.id == steps.c.run_id).where(at < before_s)
    return query.distinct().order_by(steps.c.run_id)


_Chosen = Callable[[int, RetentionTimes], sa.Select[Any]]


def _older(at: sa.Column[Any], key: sa.Column[Any]) -> _Chosen:
    def chosen(before_s: int, retention: RetentionTimes) -> sa.Select[Any]:
        del retention
        return sa.select(key).distinct().where(at < before_s).order_by(key)

    return chosen


def _old_profiles(before_s: int, retention: RetentionTimes) -> sa.Select[Any]:
    """All but the newest of each node, which defines its type."""
    del retention
    newest = sa.select(sa.func.max(profiles.c.at_s)).group_by(profiles.c.cluster, profiles.c.node)
    at = profiles.c.at_s
    return sa.select(at).distinct().where(at < before_s, at.not_in(newest)).order_by(at)


#: Table -> a column of its key, and its values in what goes; in the order in which they go.
TABLES: dict[str, tuple[sa.Column[Any], _Chosen]] = {
    "decisions": (decisions.c.decision_id, _older(decisions.c.at_s, decisions.c.decision_id)),
    "steps": (steps.c.run_id, _steps_of_old_runs),
    "runs": (runs.c.id, _old_runs),
    "rejects": (rejects.c.digest, _older(rejects.c.seen_s, rejects.c.digest)),
    "probes": (probes.c.at_s, _older(probes.c.at_s, probes.c.at_s)),
    "profiles": (profiles.c.at_s, _old_profiles),
}
