"""The join of decisions and the runs of their jobs.

What nimod recognised a request by counts for every run of its job: one for each start and for each
task of its array.  Their comments may have been changed after the submission, so the keys of the
request replace what was read from the accounting.

nimod answers first and records afterwards: where it is killed in between, or the store is lost, the
job's admin_comment still has the short copy.  Only the hooks can write that field, users cannot.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final

import sqlalchemy as sa

from sacct_ingest.records import FROM_NOTE, DecisionRow, JobState, ShownJob, seconds_of
from sacct_ingest.store import counters, shown_job
from sacct_ingest.store.changes import mark_decided, mark_runs
from sacct_ingest.store.engine import LISTED, parts, put
from sacct_ingest.store.schema import counters as counter_table
from sacct_ingest.store.schema import decisions, runs, watermarks
from sacct_ingest.text.admin_comment import Note, parse

#: Seconds between a decision and the submit time of its job; slurmctld may have been busy.
BEFORE_S, AFTER_S = 2, 5
#: Decisions older than this without a run will not get one by their submit time any more, and an
#: application is not judged anew for a job that took longer to wait and run.
GIVE_UP_S = 90 * 86_400
#: Counter of the first run that was not joined since it was written; there is none at first.
JOINED: Final = "joined"
#: Notes in one list: MariaDB does not look up how many runs have each of 200, and reads all.
_NOTES = 150
#: Rows when PostgreSQL last made its statistics; -1: it never did.
_ROWS = "SELECT min(reltuples) FROM pg_class WHERE oid = ANY ('{runs,decisions}'::regclass[])"
#: Decisions in one list of the seconds around them.
_BATCH = _NOTES // (BEFORE_S + 1 + AFTER_S)
_Pair = tuple[str, int]  # decision, run
#: What a run is recognised by.
KEYS = ("tag", "script", "line")
#: What runs get of their decision.
_COPIED = (*KEYS, "inputs", "script_bag")
#: By what a decision and a run without a note are compared.
_SUBMITTED = ("cluster", "uid", "user", "name", "work_dir")
_OF_RUN = (
    *("id", "part_of", "job_id", "submit_s", *_SUBMITTED),
    *("nodes", "limit_s", "partition", "line"),
)
#: By its length: nearly all runs have none, and SQLite and PostgreSQL would begin with its index.
#: Not that it is 0: PostgreSQL takes that to be rare, and begins with all runs of which it holds.
_NO_NOTE = sa.func.length(runs.c.decision_id) < 1
_first = runs.alias("first")
_SET = (
    sa.update(runs)
    .where(runs.c.id == sa.bindparam("run_"))
    .values({name: sa.bindparam(f"{name}_") for name in _COPIED})
)
#: Mark of the time before which decisions were deleted on purpose.
PRUNED: Final = "decisions pruned"
_SAME = ("cluster", "uid", "user", "name", "work_dir", "account", "partition", "qos")


def join(connection: sa.Connection) -> int:
    """Link decisions to runs inside a transaction; returns how many got a run.

    Only what is new is looked at: decisions without a run, and runs since `JOINED`.
    """
    end = counters.increase(connection, "runs", 0)  # which keeps other writers out, too
    new = sa.select(runs.c.decision_id).where(*_noted(connection))
    waiting = sa.select(decisions.c.decision_id).where(*_without_run(connection))
    news = sorted({*connection.execute(new).scalars(), *connection.execute(waiting).scalars()})
    execute = connection.exec_driver_sql
    if connection.dialect.name == "postgresql" and execute(_ROWS).scalar_one() < len(news):
        # Without statistics it reads all runs for each batch; its own come a minute after a load.
        execute("ANALYZE runs, decisions")
    batches = list(parts(news, _NOTES))
    pairs = chain.from_iterable(_by_id(connection, batch) for batch in batches)
    linked = _link(connection, pairs) + _link(connection, _by_submission(connection))
    # All runs whose admin_comment names a recorded decision get the keys of that decision.
    for batch in batches:
        _copy(connection, _differing().join(decisions, _among(batch)))
    put(connection, counter_table, [{"name": JOINED, "value": end}], "name")
    return linked


def _among(decision_ids: Sequence[str]) -> sa.ColumnElement[bool]:
    """Condition on a run with a note of one of these decisions, and on that decision.

    Both are looked up by their id: PostgreSQL expects many runs of one note, and of one list alone
    it takes all decisions.
    """
    both = decisions.c.decision_id.in_(decision_ids), runs.c.decision_id.in_(decision_ids)
    return sa.and_(decisions.c.decision_id == runs.c.decision_id, *both)


def _noted(connection: sa.Connection) -> list[sa.ColumnElement[bool]]:
    """Conditions on runs with a note that were not joined since they were written."""
    first = counters.find(connection, JOINED)
    if first is None:
        return [runs.c.decision_id > ""]  # an index spares reading the many runs without a note
    # By its length: few runs are new, and SQLite would read the index of all notes.
    return [runs.c.id >= first, sa.func.length(runs.c.decision_id) > 0]


def _without_run(connection: sa.Connection) -> list[sa.ColumnElement[bool]]:
    """Conditions on decisions that may still get a run."""
    newest = connection.execute(sa.select(sa.func.max(decisions.c.at_s))).scalar() or 0.0
    return [decisions.c.run_id.is_(None), decisions.c.at_s > newest - GIVE_UP_S]


def _link(connection: sa.Connection, pairs: Iterator[_Pair]) -> int:
    """Link decisions to runs, some at a time; gives how many."""
    count = 0
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    while batch := dict(islice(pairs, LISTED)):
        count += len(batch)
        ids = list(batch)
        run_ids = list(batch.values())
        mark_decided(connection, ids)
        mark_runs(connection, run_ids)
        # First, for the run that goes from one decision to another.
        before = decisions.c.run_id.in_(run_ids)
        connection.execute(sa.update(decisions).where(before).values(run_id=None))
        for some in parts(list(batch.items()), _NOTES):
            # One statement, past SQLAlchemy, which takes longer for a value than the databases.
            whens = f"WHEN {mark} THEN {mark} " * len(some)
            marks = ", ".join([mark] * len(some))
            sql = f"UPDATE decisions SET run_id = CASE decision_id {whens}END"  # noqa: S608
            given = *chain.from_iterable(some), *(one for one, _ in some)
            connection.exec_driver_sql(f"{sql} WHERE decision_id IN ({marks})", given)
        _correct_applied(connection, ids)
        # Runs of jobs without a note, and of their arrays, get the keys of these decisions.
        _copy(connection, _of_arrays().where(decisions.c.decision_id.in_(ids)))
    return count


def _correct_applied(connection: sa.Connection, decision_ids: Sequence[str]) -> None:
    """Record as not applied what the job has neither a note of nor the values: it came too late."""
    counts = sa.and_(
        decisions.c.unit == "nodes",
        decisions.c.nodes != decisions.c.requested_nodes,
        decisions.c.nodes != runs.c.nodes,
    )
    limits = sa.and_(
        decisions.c.nodes == decisions.c.requested_nodes,
        decisions.c.given_limit_s != runs.c.limit_s,
    )
    linked = sa.and_(runs.c.id == decisions.c.run_id, _NO_NOTE)
    differs = sa.exists().where(linked, sa.or_(counts, limits)).correlate(decisions)
    late = sa.and_(decisions.c.decision_id.in_(decision_ids), decisions.c.action == "set", differs)
    connection.execute(sa.update(decisions).where(late).values(applied=False))


def _by_id(connection: sa.Connection, decision_ids: Sequence[str]) -> list[_Pair]:
    """Give those of these decisions whose id is in a run's admin_comment.

    A requeued job has a run for each start and an array one for each task, all with the same
    note: the last start of the first task counts.
    """
    query = (
        sa.select(decisions.c.decision_id, decisions.c.run_id.label("linked"), runs.c.id)
        .join(runs, _among(decision_ids))
        .where(
            runs.c.state != JobState.REQUEUED.value,
            # Components were decided about one by one.
            sa.or_(runs.c.part_of.is_(None), runs.c.het_offset > 0),
        )
        .order_by(runs.c.submit_s, runs.c.job_id.desc())
    )
    last = {row.decision_id: row for row in connection.execute(query)}
    return [(one, row.id) for one, row in last.items() if row.linked != row.id]


def _by_submission(connection: sa.Connection) -> Iterator[_Pair]:
    """Decisions without a note, by who submitted what from where and when."""
    names = dict.fromkeys(("decision_id", "at_s", "inputs", *_SUBMITTED, *shown_job.COMPARED))
    columns = (decisions.c[name] for name in names)
    query = sa.select(*columns).where(*_without_run(connection), decisions.c.action != "refuse")
    query = query.order_by(decisions.c.at_s, decisions.c.decision_id)
    taken: set[int] = set()
    left = []
    for batch in parts(connection.execute(query).all(), _BATCH):
        candidates = _candidates(connection, batch)
        ordered, doubtful = _in_order(batch, candidates, taken)
        _forget_inputs(connection, doubtful)
        taken.update(ordered.values())
        yield from ordered.items()
        for decision in (one for one in batch if one.decision_id not in ordered):
            jobs = [run for run in candidates[decision.cluster] if _same_job(decision, run)]
            then = [run for run in jobs if _same_request(decision, run)]
            if nearest := _nearest(decision, then, taken):
                yield decision.decision_id, nearest
            elif jobs:
                left.append((decision, jobs))
    # Jobs that were changed after their submission, and those whose limit Slurm shortened, come
    # last: theirs may also fit what another job of that second asked for.
    changed = []
    for decision, jobs in left:
        then = [run for run in jobs if decision.min_nodes == decision.max_nodes == run.nodes]
        if nearest := _nearest(decision, then, taken):
            yield decision.decision_id, nearest
        else:
            changed.append((decision, jobs))
    for decision, jobs in changed:
        if nearest := _nearest(decision, jobs, taken):
            yield decision.decision_id, nearest


def _in_order(
    batch: Iterable[sa.Row[Any]],
    candidates: Mapping[str, Sequence[sa.Row[Any]]],
    taken: Collection[int],
) -> tuple[dict[str, int], list[str]]:
    """Give decisions that followed each other the jobs that did, where these are as many.

    Identical requests within a second or two can only be matched in their order: nimod may be later
    than slurmctld, whose submit times are whole seconds.  Where there are more jobs than decisions,
    or fewer, and their input sizes differ, no match is certain: the list has these decisions.
    """
    chains: list[list[sa.Row[Any]]] = []
    last: dict[tuple[Any, ...], list[sa.Row[Any]]] = {}
    for decision in batch:  # in the order of their times
        key = tuple(getattr(decision, name) for name in _SUBMITTED)
        chain = last.get(key)
        if chain is None or decision.at_s - chain[-1].at_s > BEFORE_S + AFTER_S:
            chain = last[key] = []
            chains.append(chain)
        chain.append(decision)
    found: dict[str, int] = {}
    doubtful: list[str] = []
    for chain in chains:
        if len(chain) < 2:
            continue
        near = [run for run in candidates[chain[0].cluster] if _job_of(run) not in taken]
        jobs = [run for run in near if any(_same_job(decision, run) for decision in chain)]
        pairs = list(zip(chain, jobs, strict=False))
        alone = len({_job_of(run) for run in jobs}) == len(jobs) == len(chain)
        if alone and all(
            _same_job(decision, run) and _same_request(decision, run) for decision, run in pairs
        ):
            found |= {decision.decision_id: _job_of(run) for decision, run in pairs}
        elif jobs and _unclear(chain, jobs):
            doubtful += [decision.decision_id for decision in chain]
    return found, doubtful


def _forget_inputs(connection: sa.Connection, decision_ids: Sequence[str]) -> None:
    if decision_ids:
        among = decisions.c.decision_id.in_(decision_ids)
        connection.execute(sa.update(decisions).where(among).values(inputs=""))


def _unclear(chain: Sequence[sa.Row[Any]], jobs: Sequence[sa.Row[Any]]) -> bool:
    """Whether a job may be that of several decisions with other sizes of inputs."""
    for run in jobs:
        own = [one for one in chain if _same_job(one, run) and _same_request(one, run)]
        if len({decision.inputs for decision in own}) > 1:
            return True
    return False


def _nearest(decision: sa.Row[Any], among: Iterable[sa.Row[Any]], taken: set[int]) -> int | None:
    """Take the job of which a run was submitted nearest to a decision.

    slurmctld gives a job its submit time, in whole seconds, after it has asked: of jobs that are
    alike the first one since the decision is it.
    """
    at_s = int(decision.at_s)
    nearest = min(
        (run for run in among if _job_of(run) not in taken),
        key=lambda run: (run.submit_s < at_s, abs(run.submit_s - at_s), run.job_id),
        default=None,
    )
    if nearest is None:
        return None
    taken.add(_job_of(nearest))
    return _job_of(nearest)


def _job_of(run: sa.Row[Any]) -> int:
    """Give the run that stands for the job: of one that was started again its last start."""
    return int(run.part_of or run.id)


def _candidates(
    connection: sa.Connection, batch: Iterable[sa.Row[Any]]
) -> defaultdict[str, list[sa.Row[Any]]]:
    """Find runs of no decision that were submitted about when these decisions were made."""
    seconds: defaultdict[str, set[int]] = defaultdict(set)
    for decision in batch:
        at = int(decision.at_s)
        seconds[decision.cluster].update(range(at - BEFORE_S, at + AFTER_S + 1))
    by_job: defaultdict[str, list[sa.Row[Any]]] = defaultdict(list)
    for cluster, times in seconds.items():
        query = (
            sa.select(*(runs.c[name] for name in _OF_RUN))
            .outerjoin(decisions, decisions.c.run_id == sa.func.coalesce(runs.c.part_of, runs.c.id))
            .where(
                runs.c.cluster == cluster,
                runs.c.submit_s.in_(times),
                _NO_NOTE,
                decisions.c.decision_id.is_(None),
            )
            .order_by(runs.c.submit_s, runs.c.job_id)
        )
        by_job[cluster].extend(connection.execute(query))
    return by_job


def _same_job(decision: sa.Row[Any], run: sa.Row[Any]) -> bool:
    if not -BEFORE_S <= run.submit_s - int(decision.at_s) <= AFTER_S:
        return False
    if decision.uid is not None and run.uid is not None:
        same_user = decision.uid == run.uid
    else:
        same_user = decision.user == run.user
    # slurmdbd stores a double quote in a job's name as a backtick.
    same_name = decision.name.replace('"', "`") == run.name.replace('"', "`")
    return bool(same_user and same_name and decision.work_dir == run.work_dir)


def _same_request(decision: sa.Row[Any], run: sa.Row[Any]) -> bool:
    """Whether a run has what its job asked for, or was given, by this decision."""
    job = ShownJob(
        user=run.user,
        name=run.name,
        work_dir=run.work_dir,
        submit_s=run.submit_s,
        low_nodes=run.nodes,
        high_nodes=run.nodes,
        started=True,
        limit_s=run.limit_s,
        deadline_s=decision.deadline_s,  # the accounting has none
        partitions=(run.partition,) if run.partition else (),
        line=run.line,
    )
    return shown_job.fits(decision, job)


def copy_to_tasks(connection: sa.Connection, run_ids: range) -> set[int]:
    """Give new runs the keys of their array's decision, where another task has one; says which."""
    any_decision = sa.select(decisions.c.decision_id).limit(1)
    if connection.execute(any_decision).first() is None:
        return set()  # NIMO is not switched on yet
    new = runs.c.id.between(run_ids.start, run_ids.stop - 1)
    return _copy(connection, _of_arrays().where(new, runs.c.array_job_id.is_not(None)))


def _differing() -> sa.Select[Any]:
    """Select runs whose keys are not those of their decision, as values of `_SET`.

    A tag counts even where the request had none.  Where nimod could not read the script or the
    command line, those of the accounting stay.  So do input sizes and words of the script, where
    the request had none.
    """
    both = {
        n: sa.case((decisions.c[n] != "", decisions.c[n]), else_=runs.c[n]) for n in _COPIED[1:]
    }
    keys: dict[str, Any] = {"tag": decisions.c.tag, **both}
    columns = (key.label(f"{name}_") for name, key in keys.items())
    query = sa.select(runs.c.id.label("run_"), *columns).select_from(runs)
    differing = [runs.c[name] != keys[name] for name in KEYS]
    seen = sa.and_(decisions.c.inputs != "", sa.func.coalesce(runs.c.inputs, "") != keys["inputs"])
    bag = sa.and_(decisions.c.script_bag != "", runs.c.script_bag != keys["script_bag"])
    return query.where(sa.or_(*differing, seen, bag))


def _of_arrays() -> sa.Select[Any]:
    """Select by the run that a decision is linked to: all tasks of an array came with it."""
    same = sa.or_(runs.c.id == _first.c.id, runs.c.array_job_id == _first.c.array_job_id)
    at_once = sa.and_(runs.c.cluster == _first.c.cluster, runs.c.submit_s == _first.c.submit_s)
    query = _differing().join(_first, sa.and_(at_once, same))
    return query.join(decisions, decisions.c.run_id == _first.c.id).where(_NO_NOTE)


def _copy(connection: sa.Connection, query: sa.Select[Any]) -> set[int]:
    values = [row._asdict() for row in connection.execute(query)]
    ids = {row["run_"] for row in values}
    if values:
        mark_runs(connection, ids)
        connection.execute(_SET, values)
        mark_runs(connection, ids)
    return ids


_log = logging.getLogger(__name__)


def rebuild(connection: sa.Connection) -> list[DecisionRow]:
    """Give the decisions that runs have a note of, and the store has not.

    What the note does not say stays unknown: the waits, the identity that predicted.
    """
    rebuilt: dict[str, DecisionRow] = {}
    for run in connection.execute(_unrecorded(connection)):
        note = parse(run.admin_comment)
        if note is not None and note.decision_id == run.decision_id not in rebuilt:
            rebuilt[note.decision_id] = _decision(note, run)
    if rebuilt:
        # A store that no nimod writes, as a user's own, has decisions from notes alone.
        written = sa.select(decisions.c.via).where(decisions.c.via != FROM_NOTE).limit(1)
        level = logging.WARNING if connection.execute(written).first() else logging.INFO
        _log.log(level, "%d decisions were not recorded: read from jobs' notes", len(rebuilt))
    return list(rebuilt.values())


def _unrecorded(connection: sa.Connection) -> Any:
    """Select runs with a note of a decision that is not there, the last start of a job first."""
    pruned = connection.execute(
        sa.select(watermarks.c.epoch_s).where(watermarks.c.source == PRUNED)
    ).scalar()
    recorded = sa.exists().where(decisions.c.decision_id == runs.c.decision_id)
    return (
        sa.select(
            *(runs.c[name] for name in (*_SAME, *KEYS)),
            *(runs.c.decision_id, runs.c.admin_comment, runs.c.submit_s, runs.c.req_nodes),
        )
        .where(
            *_noted(connection),
            ~recorded,
            runs.c.submit_s >= (pruned or 0),
            runs.c.state != JobState.REQUEUED.value,
        )
        .order_by(runs.c.decision_id, runs.c.submit_s.desc(), runs.c.job_id)
    )


def _decision(note: Note, run: sa.Row[Any]) -> DecisionRow:
    # Of one count another one is made by `opt_in.proven` alone.
    other = note.low < note.high or note.asked not in {None, note.nodes}
    chosen = other and (note.unit is not None or run.req_nodes == note.nodes)
    set_otherwise = note.limit_min is not None or note.mem_mib is not None or note.place
    applied = note.mode == "enforce" and bool(chosen or set_otherwise)
    return DecisionRow(
        decision_id=note.decision_id,
        at_s=float(run.submit_s),
        mode=note.mode,
        via=FROM_NOTE,
        action="set" if applied else "keep",
        reason=note.reason,
        verdict=note.verdict,
        min_nodes=note.low,
        max_nodes=note.high,
        requested_nodes=note.asked,
        nodes=note.nodes,
        unit=note.unit or "nodes",
        applied=applied,
        predicted_s=float(note.time_s),
        low_s=float(note.low_s),
        high_s=float(note.high_s),
        request_predicted_s=float(note.asked_s) if note.asked_s else None,
        given_limit_s=seconds_of(note.limit_min),
        given_min_s=seconds_of(note.least_min),
        soft_s=seconds_of(note.soft_min),
        limit_s=seconds_of(note.own_min),
        given_mem_mib=note.mem_mib,
        given_place=note.place or "",
        **{name: getattr(run, name) for name in (*_SAME, *KEYS)},
    )
