"""Decisions, and what became of the jobs that they were about."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from math import isfinite
from typing import Any

import sqlalchemy as sa

from sacct_ingest.errors import RowRefused
from sacct_ingest.records import FROM_NOTE, DecisionRow, JobState, KeyLevel, ShownJob
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import counters
from sacct_ingest.store import decision_outcomes as outcomes
from sacct_ingest.store.changes import Named, revoke_sums
from sacct_ingest.store.engine import StoreTable, parts, writing
from sacct_ingest.store.rows import DecisionSelection, RunRow
from sacct_ingest.store.runs import ROW_COLUMNS, conditions, record_maker
from sacct_ingest.store.schema import decisions, indexed, prose, runs

Pair = tuple[DecisionRow, RunRow | None]
#: Decisions with their runs by what they were predicted by.
Outcomes = dict[Named, list[tuple[DecisionRow, RunRow]]]
#: A job that is eligible within this many seconds of its submission waits for nodes only.
_AT_ONCE_S = 60
#: Integers of a database have 64 bits.
_BEYOND = 2**63
_NAMES = [field.name for field in fields(DecisionRow)]
_LENGTHS = {
    column.name: column.type.length or 0
    for column in decisions.columns
    if isinstance(column.type, sa.String)
}
#: Fields of a selection that are columns and have to be equal.
_FIELDS = (
    *("decision_id", "cluster", "partition", "account", "user"),
    *("mode", "reason", "key_level", "key", "label"),
)
#: A decision, and after it its run.
_PAIR = [*(decisions.c[name].label(f"d_{name}") for name in _NAMES), *ROW_COLUMNS]
_OUTCOMES = sa.select(*_PAIR).select_from(
    decisions.outerjoin(runs, runs.c.id == decisions.c.run_id)
)
#: What `Decisions.last_outcomes` reads of a decision, and what it does not read of its run.
_JUDGED = (
    *("decision_id", "cluster", "at_s", "via", "action", "reason", "uid", "key_level", "key"),
    *("label", "requested_nodes", "nodes", "applied", "predicted_s", "low_s", "high_s", "unit"),
    *(
        "request_predicted_s",
        "request_low_s",
        "request_high_s",
        "request_wait_s",
        "asked_mem_mib",
        "given_mem_mib",
    ),
)
_UNUSED = ("work_dir", "gpu_percent", "gpu_types", "req_gpus", "req_gpu_types", "node_watts")
_OF_RUN = [column for column in ROW_COLUMNS if column.name not in _UNUSED]
#: Identities of one query of `Decisions.last_outcomes`; SQLite allows 500.
_IDENTITIES = 25


class Decisions(StoreTable):
    """The table ``decisions``."""

    def add(self, rows: Sequence[DecisionRow]) -> None:
        """Keep decisions; those that are there already stay as they are, but for notes of them.

        Raises sacct_ingest.errors.RowRefused: one of them cannot be stored, so none is.
        """
        if rows:
            with writing(self._engine) as connection:
                _add(connection, rows)

    def join_outcomes(self) -> int:
        """Link decisions to the runs of their jobs, and give those runs the request's keys.

        A decision is found by its id in the run's admin_comment; where that is gone (or nothing
        was written to the job, as in observe mode) by cluster, user, job name, working directory
        and a submit time within a few seconds.  Each run belongs to one decision.  A decision that
        is only in the admin_comment is put back (`sacct_ingest.store.decision_outcomes`).

        Returns int: decisions that were linked anew.
        """
        with writing(self._engine) as connection:
            counters.lock(connection, "runs")
            _add(connection, outcomes.rebuild(connection))
            return outcomes.join(connection)

    def with_outcomes(self, chosen: DecisionSelection | None = None) -> Iterator[Pair]:
        """Decisions in the order they were made, each with its job's run, if that was read.

        They are streamed: a few of them are in memory at a time.
        """
        selected = conditions(chosen or DecisionSelection(), decisions, _FIELDS, "at_s")
        query = _OUTCOMES.where(*selected).order_by(decisions.c.at_s, decisions.c.decision_id)
        yield from _pairs(self._each(query))

    def newest(
        self, chosen: DecisionSelection, *, most: int, before: tuple[float, str] | None = None
    ) -> list[Pair]:
        """Give the newest selected decisions, the newest first, each with its job's run.

        most: how many.
        before: ``at_s`` and ``decision_id`` of one of them: those that come after it.
        """
        at_s = decisions.c.at_s
        decision_id = decisions.c.decision_id
        selected = (*conditions(chosen, decisions, _FIELDS, "at_s"), *_of_runs(chosen))
        query = _OUTCOMES.where(*selected).order_by(at_s.desc(), decision_id.desc()).limit(most)
        if before is not None:
            # The first condition is what an index can be read by.
            older = sa.or_(at_s < before[0], decision_id < before[1])
            query = query.where(at_s <= before[0], older)
        return list(_pairs(self._rows(query)))

    def of_job(
        self, job_id: int, *, decision_id: str = "", user: str = "", cluster: str = ""
    ) -> Pair | None:
        """Give the last decision about a job, with its run where that is there already.

        decision_id: from the job's admin_comment, where its run is not there yet.
        user: user of the job, if known: without it all decisions are searched.
        cluster: the job's, if known: others number their jobs alike.
        """
        about = decisions.c.decision_id == decision_id if decision_id else runs.c.job_id == job_id
        chosen = [about, *([decisions.c.user == user] if user else []), *_on(cluster)]
        query = _OUTCOMES.where(*chosen).order_by(decisions.c.at_s.desc()).limit(1)
        return next(_pairs(self._rows(query)), None)

    def about_when(self, job: ShownJob, *, cluster: str = "") -> list[DecisionRow]:
        """Give the decisions without a run that were made when a job was submitted.

        They are about jobs of the same user and name, from the same folder.

        cluster: the job's, if known.
        """
        earliest_s = job.submit_s - outcomes.AFTER_S
        latest_s = job.submit_s + 1 + outcomes.BEFORE_S
        query = _OUTCOMES.where(
            decisions.c.run_id.is_(None),
            decisions.c.user == job.user,
            decisions.c.name == job.name,
            decisions.c.work_dir == job.work_dir,
            # A job that was refused is not there; in the other modes it passed.
            sa.or_(decisions.c.action != "refuse", sa.not_(decisions.c.applied)),
            decisions.c.at_s.between(earliest_s, latest_s),
            *_on(cluster),
        )
        query = query.order_by(decisions.c.at_s, decisions.c.decision_id)
        return [decision for decision, _ in _pairs(self._rows(query))]

    def waits(self, since_s: float, most: int) -> list[tuple[float, float]]:
        """Predicted and actual waits in seconds, newest first, of jobs as they were predicted.

        Jobs that could not start for another reason than nodes (a dependency, ``--begin``, a hold)
        are left out: they became eligible late.
        """
        eligible = sa.func.coalesce(runs.c.eligible_s, runs.c.submit_s)
        query = (
            sa.select(decisions.c.wait_s, runs.c.start_s - runs.c.submit_s)
            .join(runs, runs.c.id == decisions.c.run_id)
            .where(
                decisions.c.at_s >= since_s,
                decisions.c.wait_s.is_not(None),
                runs.c.start_s.is_not(None),
                runs.c.nodes == decisions.c.nodes,
                eligible - runs.c.submit_s <= _AT_ONCE_S,
            )
            .order_by(decisions.c.at_s.desc())
            .limit(most)
        )
        return [(float(said), float(was)) for said, was in self._rows(query)]

    def outlasted(self, since_s: float, most: int) -> list[tuple[str, bool]]:
        """Partitions of jobs with a limit to plan with, and whether they outlasted it.

        The newest ``most`` that ended, the oldest of them first.
        """
        query = (
            sa.select(decisions.c.partition, runs.c.elapsed_s > decisions.c.soft_s)
            .join(runs, runs.c.id == decisions.c.run_id)
            .where(
                decisions.c.at_s >= since_s,
                decisions.c.soft_s.is_not(None),
                runs.c.end_s.is_not(None),
            )
            .order_by(decisions.c.at_s.desc())
            .limit(most)
        )
        return [(partition, bool(beyond)) for partition, beyond in reversed(self._rows(query))]

    def touched_keys(
        self, since_s: float, states: Collection[JobState] = tuple(JobState)
    ) -> list[tuple[KeyLevel, str]]:
        """Identities that were predicted by, of decisions whose runs ended so since then.

        Decisions from long before are not looked at, so that their number does not matter.
        """
        query = (
            sa.select(decisions.c.key_level, decisions.c.key)
            .join(runs, runs.c.id == decisions.c.run_id)
            .where(
                decisions.c.at_s > since_s - outcomes.GIVE_UP_S,
                runs.c.end_s >= since_s,
                runs.c.state.in_([state.value for state in states]),
                decisions.c.key != "",
            )
            .distinct()
            .order_by(decisions.c.key_level, decisions.c.key)
        )
        return [(KeyLevel(row.key_level), row.key) for row in self._rows(query)]

    def last_outcomes(self, identities: Sequence[Named], most: int) -> Iterator[Outcomes]:
        """Give the newest decisions that were predicted by each identity and have a run.

        They come for some identities at a time; of both records there is what judges a prediction.

        most: how many of an identity; those without any are left out.
        """
        # Both descending: else MariaDB sorts all decisions of an identity for its newest.
        newest_first = decisions.c.at_s.desc(), decisions.c.decision_id.desc()
        columns = (decisions.c[name].label(f"d_{name}") for name in _JUDGED)
        every = sa.select(*columns, *_OF_RUN).join(runs, runs.c.id == decisions.c.run_id)
        linked = sa.select(decisions.c.decision_id).where(decisions.c.run_id.is_not(None))
        linked = linked.order_by(*newest_first).limit(most)
        for some in parts(identities, _IDENTITIES):
            newest = (
                linked.where(decisions.c.key_level == level.value, decisions.c.key == key)
                for level, key in some
            )
            chosen = sa.union_all(*(sa.select(one.subquery()) for one in newest)).subquery()
            query = every.join(chosen, chosen.c.decision_id == decisions.c.decision_id)
            found: Outcomes = {named: [] for named in some}
            rows = self._rows(query.order_by(*newest_first))
            for decision, run in _pairs(rows, _JUDGED, _OF_RUN):
                if run is not None:
                    found[KeyLevel(decision.key_level), decision.key].append((decision, run))
            yield {named: pairs for named, pairs in found.items() if pairs}


def _add(connection: sa.Connection, rows: Sequence[DecisionRow]) -> None:
    """Insert new decisions; what nimod recorded replaces what was read from a note."""
    latest = {row.decision_id: row for row in rows}
    revoke_sums(connection, min((row.at_s for row in rows), default=None))
    for some in parts(list(latest)):
        among = decisions.c.decision_id.in_(some)
        connection.execute(sa.delete(decisions).where(among, decisions.c.via == FROM_NOTE))
        recorded = set(
            connection.execute(sa.select(decisions.c.decision_id).where(among)).scalars()
        )
        new = [_values(latest[one]) for one in some if one not in recorded]
        if new:
            connection.execute(sa.insert(decisions), new)


def _on(cluster: str) -> list[sa.ColumnElement[bool]]:
    """Condition on the cluster of a decision; one from before its name was known has none."""
    return [decisions.c.cluster.in_(["", cluster])] if cluster else []


def _of_runs(chosen: DecisionSelection) -> Iterator[sa.ColumnElement[bool]]:
    """Conditions on what was done, and on the run that became of it."""
    if chosen.job_id:
        of_job = sa.select(runs.c.id).where(runs.c.job_id == chosen.job_id)
        yield decisions.c.run_id.in_(of_job)
    if chosen.state:
        yield runs.c.state == chosen.state
    if chosen.changed is not None:
        yield decisions.c.applied == chosen.changed
    if chosen.ratio:
        asked = (runs.c.nodes == decisions.c.requested_nodes) & (runs.c.nodes != decisions.c.nodes)
        said_s = sa.case((asked, decisions.c.request_predicted_s), else_=decisions.c.predicted_s)
        low, high = chosen.ratio
        yield runs.c.elapsed_s >= low * said_s
        yield runs.c.elapsed_s < high * said_s


def _pairs(
    rows: Iterable[sa.Row[Any]], names: Sequence[str] = _NAMES, of_run: Sequence[Any] = ROW_COLUMNS
) -> Iterator[Pair]:
    """Make records of rows, which have these columns of a decision and those of its run."""
    decided = record_maker(DecisionRow, tuple(names))
    count = len(names)
    ran = record_maker(RunRow, tuple(column.name for column in of_run))
    for row in rows:
        values = tuple(row)
        decision = decided(values[:count])
        run = None
        if values[count] is not None:
            run = ran(values[count:])
            unit = Unit(decision.unit)
            if unit is not Unit.NODES:
                run = replace(run, nodes=unit.size_of(run.without_added_cpus()))
        yield decision, run


def _values(row: DecisionRow) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in _NAMES}
    for name, value in values.items():
        if isinstance(value, str):
            length = _LENGTHS.get(name)
            values[name] = indexed(value, length) if length else prose(value)
        elif value is not None and not (isfinite(value) and abs(value) < _BEYOND):
            raise RowRefused(f"decision {row.decision_id}: {name} is {value}")
    return values
