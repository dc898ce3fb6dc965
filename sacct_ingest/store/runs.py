"""Runs and their steps: written idempotently, read by identity."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from operator import attrgetter
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Column, ColumnElement, Engine, and_, case, func, or_, select

from sacct_ingest.records import JobRun, JobState, KeyLevel, StepRun
from sacct_ingest.runs.sharing import SharedTag
from sacct_ingest.store.add_runs import BATCH, add_packed, pack_runs
from sacct_ingest.store.engine import LISTED, reading
from sacct_ingest.store.rows import RunRow, Stored
from sacct_ingest.store.schema import contributions, decisions, runs, steps

#: What a run's attributes are made of; decisions are not joined with it.
_ATTRIBUTES = ("account", "submit_line", "comment")
_DECIDED = ("asked_size", "asked_unit", "asked_low", "asked_high", "least_nodes", "try_of")
_JOINED = ("run_id", "node_type", "node_list", *_ATTRIBUTES, *_DECIDED)
ROW_COLUMNS = [
    runs.c.id.label("run_id"),
    *(runs.c[n] for n in RunRow.__slots__ if n not in _JOINED),
]
_FULL_COLUMNS = [*ROW_COLUMNS, *(runs.c[n] for n in _ATTRIBUTES)]
_NODE_TYPE = func.coalesce(contributions.c.node_type, "").label("node_type")
#: What was decided of a run's job; a decision without a prediction does not say what it asked for.
_predicted = decisions.c.request_predicted_s.is_not(None)
_set = and_(decisions.c.applied, decisions.c.action == "set")
_changed = and_(decisions.c.applied, decisions.c.nodes != decisions.c.requested_nodes)
_BY_KEY = [
    *_FULL_COLUMNS,
    _NODE_TYPE,
    case((_predicted, decisions.c.requested_nodes)).label("asked_size"),
    func.coalesce(decisions.c.unit, "").label("asked_unit"),
    decisions.c.min_nodes.label("asked_low"),
    decisions.c.max_nodes.label("asked_high"),
    case((_set, decisions.c.nodes), else_=decisions.c.min_nodes).label("least_nodes"),
    case((_changed, decisions.c.reason), else_="").label("try_of"),
]
_SAME_RUN = and_(*(contributions.c[n] == runs.c[n] for n in ("cluster", "submit_s", "job_id")))
_DECIDED_RUNS = runs.outerjoin(contributions, _SAME_RUN).outerjoin(
    decisions, decisions.c.run_id == runs.c.id
)
_STEP_NAMES = [column.name for column in steps.columns][2:]
_STEP_COLUMNS = [steps.c.run_id, *(steps.c[name] for name in _STEP_NAMES)]

#: Order of runs within an identity: by their end, and always the same.
_CHRONOLOGICAL = (func.coalesce(runs.c.end_s, runs.c.submit_s), runs.c.submit_s, runs.c.job_id)


class Runs:
    """The tables ``runs`` and ``steps``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, given: Iterable[JobRun]) -> Stored:
        """Store runs with their steps and identity keys; stored ones are updated where they differ.

        Each batch is one transaction: what was stored before an error stays.
        """
        stored, source = Stored(), iter(given)
        while batch := list(islice(source, BATCH)):
            stored += add_packed(self._engine, list(pack_runs(batch)))
        return stored

    def count(self) -> int:
        """Count the runs."""
        with reading(self._engine) as connection:
            return int(connection.execute(select(func.count()).select_from(runs)).scalar_one())

    def by_key(self, level: KeyLevel) -> Iterator[tuple[str, list[RunRow]]]:
        """Group runs by key: groups in the order of their keys, the newest run last in each."""
        columns = _key_columns(level)
        query = (
            select(*_BY_KEY)
            .select_from(_DECIDED_RUNS)
            # Not "!=": of an index only a range can be read.
            .where(*(column > "" for column in columns))
            .order_by(*columns, *_CHRONOLOGICAL)
        )
        with reading(self._engine) as connection:
            rows = map(run_row, connection.execute(query).mappings())
            for _, group in groupby(rows, attrgetter(*(column.name for column in columns))):
                members = list(group)
                yield members[0].identity.key(level), members

    def newest_ids(self, keys: Iterable[tuple[KeyLevel, str]] | None) -> dict[str, int]:
        """Give the highest run id of identities, by their level and key with a space between.

        keys: identities; None: all there are.
        """
        found: dict[str, int] = {}
        with reading(self._engine) as connection:
            for level, key in keys if keys is not None else ((one, "") for one in KeyLevel):
                columns = _key_columns(level)
                query = select(func.max(runs.c.id), *columns).group_by(*columns)
                having = _has_key(level, key) if key else and_(*(one > "" for one in columns))
                for newest, *words in connection.execute(query.where(having)):
                    found[f"{level.value} {'/'.join(words)}"] = int(newest)
        return found

    def of_key(self, level: KeyLevel, key: str) -> list[RunRow]:
        """Give the runs with a key, the newest last."""
        query = (
            select(*_BY_KEY)
            .select_from(_DECIDED_RUNS)
            .where(_has_key(level, key))
            .order_by(*_CHRONOLOGICAL)
        )
        with reading(self._engine) as connection:
            return [run_row(row) for row in connection.execute(query).mappings()]

    def shared(self, tags: SharedTag) -> Iterator[tuple[str, list[RunRow]]]:
        """Group the runs of those who share tags by their key, as `by_key` does."""
        takes_part = or_(runs.c.user.in_(tags.users), runs.c.account.in_(tags.accounts))
        query = (
            select(*_BY_KEY)
            .select_from(_DECIDED_RUNS)
            .where(runs.c.tag > "", takes_part)
            .order_by(*_CHRONOLOGICAL)
        )
        groups: dict[str, list[RunRow]] = {}
        with reading(self._engine) as connection:
            for row in map(run_row, connection.execute(query).mappings()):
                application = row.identity.application
                if tags.covers(application):
                    groups.setdefault(tags.key(application), []).append(row)
        yield from sorted(groups.items())

    def started(
        self,
        *,
        cluster: str = "",
        partition: str = "",
        since_s: int | None = None,
        until_s: int | None = None,
    ) -> Iterator[RunRow]:
        """Give the runs that started, in the order of their submission.

        cluster, partition: only runs of these; empty: of all.
        since_s, until_s: only runs submitted from then, and before then.
        """
        conditions: list[ColumnElement[bool]] = [runs.c.start_s.is_not(None)]
        conditions += [runs.c.cluster == cluster] if cluster else []
        conditions += [runs.c.partition == partition] if partition else []
        conditions += [runs.c.submit_s >= since_s] if since_s is not None else []
        conditions += [runs.c.submit_s < until_s] if until_s is not None else []
        query = (
            select(*_FULL_COLUMNS, runs.c.node_list)
            .where(*conditions)
            .order_by(runs.c.submit_s, runs.c.job_id)
        )
        with reading(self._engine) as connection:
            for row in connection.execute(query).mappings():
                yield run_row(row)

    def newest(self, most: int) -> list[RunRow]:
        """Give the runs that started and were submitted last, the newest first."""
        query = (
            select(*ROW_COLUMNS, runs.c.node_list)
            .where(runs.c.start_s.is_not(None))
            .order_by(runs.c.submit_s.desc(), runs.c.job_id.desc())
            .limit(most)
        )
        with reading(self._engine) as connection:
            return [run_row(row) for row in connection.execute(query).mappings()]

    def steps_of(self, run_ids: Iterable[int]) -> dict[int, list[StepRun]]:
        """Give the steps of these runs, by run id; runs without any have an empty list."""
        ids = sorted(set(run_ids))
        steps_by_run: dict[int, list[StepRun]] = {run_id: [] for run_id in ids}
        with reading(self._engine) as connection:
            for first in range(0, len(ids), LISTED):
                chunk = ids[first : first + LISTED]
                query = select(*_STEP_COLUMNS).where(steps.c.run_id.in_(chunk))
                ordered = query.order_by(steps.c.run_id, steps.c.position)
                for run_id, *values in connection.execute(ordered):
                    step = StepRun(**dict(zip(_STEP_NAMES, values, strict=True)))
                    steps_by_run[run_id].append(replace(step, state=JobState(step.state)))
        return steps_by_run


def run_row(values: Mapping[Any, Any]) -> RunRow:
    """Record of a row that was selected with `ROW_COLUMNS`."""
    return RunRow(**{**values, "state": JobState(values["state"])})


def _key_columns(level: KeyLevel) -> list[Column[Any]]:
    if level is KeyLevel.NAME:
        return [runs.c.user, runs.c.name]
    return [runs.c[level.value]]


def _has_key(level: KeyLevel, key: str) -> ColumnElement[bool]:
    words = key.split("/", 1) if level is KeyLevel.NAME else [key]
    return and_(*(column == word for column, word in zip(_key_columns(level), words, strict=True)))
