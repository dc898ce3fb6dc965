"""Runs and their steps: written idempotently, read by identity, summed up by job array."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Any, TypeVar

import sqlalchemy as sa
from msgspec.structs import replace

from sacct_ingest.job_run import JobRun
from sacct_ingest.records import DecisionRow, JobState, KeyLevel, StepRun
from sacct_ingest.runs.sharing import SharedTag
from sacct_ingest.runs.submission import UNKNOWN, Submission
from sacct_ingest.runs.submission import decode as decode_submission
from sacct_ingest.store.add_runs import BATCH, add_packed
from sacct_ingest.store.changes import key_columns
from sacct_ingest.store.engine import StoreTable, any_of, parts
from sacct_ingest.store.packed_runs import pack_runs
from sacct_ingest.store.rows import ArrayRow, DecisionSelection, RunRow, Stored
from sacct_ingest.store.runs_of_job import decode_pieces
from sacct_ingest.store.schema import contributions, decisions, runs, steps

_Record = TypeVar("_Record", RunRow, DecisionRow)
#: What a run's attributes are made of; decisions are not joined with it.
_ATTRIBUTES = ("account", "submission", "inputs", "script_bag")
_DECIDED = (
    *("asked_size", "asked_unit", "asked_low", "asked_high", "asked_limit_s"),
    *("least_nodes", "try_of"),
)
#: Made of the column `pieces`.
_PIECES = ("earlier", "components")
_JOINED = ("run_id", "node_type", "node_list", "digest", "steps", *_ATTRIBUTES, *_DECIDED, *_PIECES)
ROW_COLUMNS = [
    runs.c.id.label("run_id"),
    *(runs.c[n] for n in RunRow.__slots__ if n not in _JOINED),
]
_FULL_COLUMNS = [*ROW_COLUMNS, *(runs.c[n] for n in _ATTRIBUTES)]
_NODE_TYPE = sa.func.coalesce(contributions.c.node_type, "").label("node_type")
#: What was decided of a run's job; a decision without a prediction does not say what it asked for.
_predicted = decisions.c.request_predicted_s.is_not(None)
_set = sa.and_(decisions.c.applied, decisions.c.action == "set")
_changed = sa.and_(decisions.c.applied, decisions.c.nodes != decisions.c.requested_nodes)
_BY_KEY = [
    *_FULL_COLUMNS,
    runs.c.pieces,
    _NODE_TYPE,
    sa.case((_predicted, decisions.c.requested_nodes)).label("asked_size"),
    sa.func.coalesce(decisions.c.unit, "").label("asked_unit"),
    decisions.c.min_nodes.label("asked_low"),
    decisions.c.max_nodes.label("asked_high"),
    decisions.c.limit_s.label("asked_limit_s"),
    sa.case((_set, decisions.c.nodes), else_=decisions.c.min_nodes).label("least_nodes"),
    sa.case((_changed, decisions.c.reason), else_="").label("try_of"),
]
_SAME_RUN = sa.and_(*(contributions.c[n] == runs.c[n] for n in ("cluster", "submit_s", "job_id")))
#: Jobs: of the rows of one that which stands for it.
_WITH_DECISION = (
    sa.select(*_BY_KEY)
    .select_from(
        runs.outerjoin(contributions, _SAME_RUN).outerjoin(
            decisions, decisions.c.run_id == runs.c.id
        )
    )
    .where(runs.c.part_of.is_(None))
)
_STEP_NAMES = [column.name for column in steps.columns][2:]
_STEP_COLUMNS = [steps.c.run_id, *(steps.c[name] for name in _STEP_NAMES)]

#: Order of runs within an identity: by their end, and always the same.
_CHRONOLOGICAL = (sa.func.coalesce(runs.c.end_s, runs.c.submit_s), runs.c.submit_s, runs.c.job_id)
#: Fields of a selection of decisions that runs have, too.
_SELECTED = ("cluster", "partition", "account", "user")
_NEWEST = 500_000  #: runs, by when they came into the store
_WHOSE_ARRAY = [runs.c[name] for name in ("cluster", "array_job_id", "user", "account", "name")]


class Runs(StoreTable):
    """The tables ``runs`` and ``steps``."""

    def add(self, given: Iterable[JobRun]) -> Stored:
        """Store runs with their steps and identity keys; stored ones are updated where they differ.

        Each batch is one transaction: what was stored before an error stays.
        """
        stored = Stored()
        source = iter(given)
        while batch := list(islice(source, BATCH)):
            stored += add_packed(self._engine, list(pack_runs(batch)))
        return stored

    def count(self) -> int:
        """Count the runs."""
        return int(self._value(sa.select(sa.func.count()).select_from(runs)))

    def clusters(self) -> set[str]:
        """Name the clusters that runs were on."""
        return {row.cluster for row in self._rows(sa.select(runs.c.cluster).distinct())}

    def by_key(self, level: KeyLevel) -> Iterator[tuple[str, list[RunRow]]]:
        """Group runs by key: groups in the order of their keys, the newest run last in each."""
        columns = key_columns(level)
        # Not "!=": of an index only a range can be read.
        query = _WITH_DECISION.where(*(column > "" for column in columns))
        query = query.order_by(*columns, *_CHRONOLOGICAL)
        rows = run_rows(self._each(query))
        for _, group in groupby(rows, attrgetter(*(column.name for column in columns))):
            members = list(group)
            yield members[0].identity.key(level), members

    def of_keys(
        self, level: KeyLevel, keys: Iterable[str], *, most: int | None = None
    ) -> dict[str, list[RunRow]]:
        """Give the runs of some keys, the newest last; keys without runs are left out.

        most: newest runs of a key to give; None: all.
        """
        chosen = _has_key(level, keys)
        query = _WITH_DECISION
        if most is not None:
            newest_first = [one.desc() for one in _CHRONOLOGICAL]
            rank = sa.func.row_number().over(partition_by=key_columns(level), order_by=newest_first)
            jobs = sa.select(runs.c.id, rank.label("place"))
            ranked = jobs.where(chosen, runs.c.part_of.is_(None)).subquery()
            query = query.join(ranked, ranked.c.id == runs.c.id)
            chosen = ranked.c.place <= most
        by_key: dict[str, list[RunRow]] = {}
        for row in run_rows(self._rows(query.where(chosen).order_by(*_CHRONOLOGICAL))):
            by_key.setdefault(row.identity.key(level), []).append(row)
        return by_key

    def owners(self, level: KeyLevel, keys: Iterable[str]) -> dict[str, str]:
        """Give the users of some keys whose runs are all of one user."""
        columns = key_columns(level)
        query = sa.select(runs.c.user, *columns).where(_has_key(level, keys)).distinct()
        users: dict[str, set[str]] = {}
        for user, *words in self._rows(query):
            users.setdefault("/".join(words), set()).add(user)
        return {key: some.pop() for key, some in users.items() if len(some) == 1}

    def of_key(self, level: KeyLevel, key: str, most: int | None = None) -> list[RunRow]:
        """Give the runs with a key, the newest last; of them the ``most`` newest (None: all)."""
        return self.of_keys(level, [key], most=most).get(key, [])

    def of_job(self, job_id: int) -> list[RunRow]:
        """Give the jobs that started with an id, or had a component with it, the newest last."""
        standing = sa.func.coalesce(runs.c.part_of, runs.c.id)
        ids = sa.select(standing).where(runs.c.job_id == job_id, runs.c.start_s.is_not(None))
        query = _WITH_DECISION.where(runs.c.id.in_(ids)).order_by(*_CHRONOLOGICAL)
        return list(run_rows(self._rows(query)))

    def shared(self, tags: SharedTag) -> Iterator[tuple[str, list[RunRow]]]:
        """Group the runs of those who share tags by their key, as `by_key` does."""
        takes_part = sa.or_(runs.c.user.in_(tags.users), runs.c.account.in_(tags.accounts))
        query = _WITH_DECISION.where(runs.c.tag > "", takes_part).order_by(*_CHRONOLOGICAL)
        groups: dict[str, list[RunRow]] = {}
        for row in run_rows(self._each(query)):
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

        What occupied nodes: each start of a job, and each component of it, is a row.

        cluster, partition: only runs of these; empty: of all.
        since_s, until_s: only runs submitted from then, and before then.
        """
        chosen = DecisionSelection(
            cluster=cluster, partition=partition, since_s=since_s, until_s=until_s
        )
        yield from self.selected(chosen)

    def count_selected(self, chosen: DecisionSelection) -> int:
        """Count the runs that `selected` gives."""
        query = sa.select(sa.func.count()).where(*_of_selection(chosen))
        return int(self._value(query.select_from(runs)))

    def selected(self, chosen: DecisionSelection) -> Iterator[RunRow]:
        """Give the runs of a selection that started, as `started`.

        chosen: whose runs, where and when they were submitted; the rest of it says nothing here.
        """
        query = (
            sa.select(*_FULL_COLUMNS, runs.c.node_list)
            .where(*_of_selection(chosen))
            .order_by(runs.c.submit_s, runs.c.job_id)
        )
        yield from run_rows(self._each(query))

    def newest(self, most: int, *, texts: bool = False) -> list[RunRow]:
        """Give the runs that started and were submitted last, the newest first, as `started`.

        texts: with what their texts say, and without their nodes.
        """
        columns = _FULL_COLUMNS if texts else [*ROW_COLUMNS, runs.c.node_list]
        query = (
            sa.select(*columns)
            .where(runs.c.start_s.is_not(None))
            .order_by(runs.c.submit_s.desc(), runs.c.job_id.desc())
            .limit(most)
        )
        return list(run_rows(self._rows(query)))

    def newest_arrays(self, chosen: DecisionSelection, most: int) -> list[ArrayRow]:
        """Give the job arrays that were submitted last, the newest first.

        A task that was requeued counts once, as it ended.  What says something of decisions alone
        is not looked at.  Of all users' arrays those among the last `_NEWEST` runs are looked at.

        chosen: whose arrays, where and when they were submitted.
        most: how many.
        """
        newest = sa.select(sa.func.coalesce(sa.func.max(runs.c.id), 0)).scalar_subquery()
        completed = sa.case((runs.c.state == JobState.COMPLETED.value, 1), else_=0)
        measured = sa.case((runs.c.cpu_s.is_not(None), runs.c.cpus * runs.c.elapsed_s), else_=0.0)
        query = (
            sa.select(
                *_WHOSE_ARRAY,
                sa.func.min(runs.c.submit_s).label("submit_s"),
                sa.func.count().label("tasks"),
                sa.func.sum(completed).label("completed"),
                sa.func.min(runs.c.elapsed_s).label("shortest_s"),
                sa.func.avg(runs.c.elapsed_s).label("mean_s"),
                sa.func.max(runs.c.elapsed_s).label("longest_s"),
                sa.func.sum(measured).label("cpu_had_s"),
                sa.func.sum(sa.func.coalesce(runs.c.cpu_s, 0.0)).label("cpu_used_s"),
                sa.func.max(runs.c.mem_bytes).label("mem_bytes"),
            )
            .where(
                runs.c.array_job_id.is_not(None),
                runs.c.start_s.is_not(None),
                runs.c.state != JobState.REQUEUED.value,
                *conditions(chosen, runs, _SELECTED, "submit_s"),
                *([] if chosen.user else [runs.c.id > newest - _NEWEST]),
            )
            .group_by(*_WHOSE_ARRAY)
            .order_by(sa.func.min(runs.c.submit_s).desc(), runs.c.array_job_id.desc())
            .limit(most)
        )
        return [_array_row(row._mapping) for row in self._rows(query)]

    def steps_of(self, run_ids: Iterable[int]) -> dict[int, list[StepRun]]:
        """Give the steps of these runs, by run id; runs without any have an empty list."""
        ids = sorted(set(run_ids))
        steps_by_run: dict[int, list[StepRun]] = {run_id: [] for run_id in ids}
        for chunk in parts(ids):
            query = sa.select(*_STEP_COLUMNS).where(steps.c.run_id.in_(chunk))
            for run_id, *values in self._rows(query.order_by(steps.c.run_id, steps.c.position)):
                step = StepRun(**dict(zip(_STEP_NAMES, values, strict=True)))
                steps_by_run[run_id].append(replace(step, state=JobState(step.state)))
        return steps_by_run


def run_rows(rows: Iterable[sa.Row[Any]]) -> Iterator[RunRow]:
    """Give the records of rows that were selected with `ROW_COLUMNS`, and perhaps ``pieces``."""
    source = iter(rows)
    first = next(source, None)
    if first is None:
        return
    names = first._fields
    of_pieces = names.index("pieces") if "pieces" in names else None
    record = record_maker(RunRow, tuple(name for name in names if name != "pieces"))
    for row in chain([first], source):
        if of_pieces is None:
            yield record(row)
            continue
        text = row[of_pieces]
        job = record(row[:of_pieces] + row[of_pieces + 1 :])
        yield job.with_pieces(decode_pieces(text)) if text else job


@cache
def record_maker(kind: type[_Record], names: tuple[str, ...]) -> Callable[[Sequence[Any]], _Record]:
    """Give what makes a record of the values of these fields; the others have their defaults.

    It goes past the frozen ``__init__``, which takes three times as long: reports read millions.
    """
    others: dict[str, Any] = {f.name: f.default for f in fields(kind) if f.name not in names}
    setters = [_setter(kind, name) for name in (*names, *others)]
    rest: tuple[Any, ...] = tuple(others.values())

    def made(values: Sequence[Any]) -> _Record:
        record = object.__new__(kind)
        for put, value in zip(setters, (*values, *rest), strict=True):
            put(record, value)
        return record

    return made


def _setter(kind: type[Any], name: str) -> Callable[[Any, Any], None]:
    put: Callable[[Any, Any], None] = getattr(kind, name).__set__
    if name == "state":
        return lambda record, value: put(record, JobState(value))
    if name == "submission":
        return lambda record, value: put(record, _submission(value))
    return put


def _submission(value: str | Submission | None) -> Submission:
    """Read what is stored; a row that was not read by today's rules yet says nothing."""
    if isinstance(value, str):
        return decode_submission(value)
    return value or UNKNOWN


def _has_key(level: KeyLevel, keys: Iterable[str]) -> sa.ColumnElement[bool]:
    columns = key_columns(level)
    if len(columns) == 1:
        return columns[0].in_(list(keys))
    words = (key.split("/", 1) for key in keys)
    return any_of(columns, words)


def _of_selection(chosen: DecisionSelection) -> Iterator[sa.ColumnElement[bool]]:
    yield runs.c.start_s.is_not(None)
    yield from conditions(chosen, runs, _SELECTED, "submit_s")


def _array_row(values: Mapping[Any, Any]) -> ArrayRow:
    counts = {name: int(values[name]) for name in ("tasks", "completed", "submit_s")}
    times = ("shortest_s", "mean_s", "longest_s", "cpu_had_s", "cpu_used_s")
    return ArrayRow(**{**values, **counts, **{name: float(values[name]) for name in times}})


def conditions(
    chosen: DecisionSelection, table: sa.Table, fields: Sequence[str], moment: str
) -> Iterator[sa.ColumnElement[bool]]:
    """Make of a selection what has to hold of each row.

    table: has the columns ``user`` and ``account``.
    fields: of the selection, that are columns and have to be equal.
    moment: column with the time that the selection is about, seconds since the epoch.
    """
    columns = table.c
    for name in fields:
        if value := getattr(chosen, name):
            yield columns[name] == value
    if chosen.since_s is not None:
        yield columns[moment] >= chosen.since_s
    if chosen.until_s is not None:
        yield columns[moment] < chosen.until_s
    if chosen.only_user is not None:
        among = columns.account.in_(chosen.only_accounts)
        yield sa.or_(columns.user == chosen.only_user, among)
