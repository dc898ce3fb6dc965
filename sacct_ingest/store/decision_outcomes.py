"""The join of decisions and the runs of their jobs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, func, select, update

from sacct_ingest.records import JobState
from sacct_ingest.store import counters
from sacct_ingest.store.request_keys import copy_to_linked, copy_to_noted
from sacct_ingest.store.schema import decisions, runs

#: Seconds between a decision and the submit time of its job; slurmctld may have been busy.
BEFORE_S, AFTER_S = 2, 5
#: Decisions older than this without a run will not get one by their submit time any more, and an
#: application is not judged anew for a job that took longer to wait and run.
GIVE_UP_S = 90 * 86_400
#: Values in one list: of 1,000 MariaDB makes a table, for which it reads all runs.
LISTED = 900
_BATCH = LISTED // (BEFORE_S + 1 + AFTER_S)
_Pair = tuple[str, int]  # decision, run


def join(connection: Connection) -> int:
    """Link decisions to runs inside a transaction; returns how many got a run."""
    counters.lock(connection, "runs")
    linked = sum(
        _link(connection, pairs) for pairs in (_by_id(connection), _by_submission(connection))
    )
    copy_to_noted(connection)
    return linked


def _link(connection: Connection, pairs: Iterator[_Pair]) -> int:
    links: list[dict[str, Any]] = [{"decision_": one, "run_": run} for one, run in pairs]
    if not links:
        return 0
    chosen = decisions.c.decision_id == bindparam("decision_")
    # Two statements, for the run that goes from one decision to another in the same batch.
    connection.execute(update(decisions).where(chosen).values(run_id=None), links)
    connection.execute(update(decisions).where(chosen).values(run_id=bindparam("run_")), links)
    for start in range(0, len(links), LISTED):
        batch = links[start : start + LISTED]
        copy_to_linked(connection, [one["decision_"] for one in batch])
    return len(links)


def _by_id(connection: Connection) -> Iterator[_Pair]:
    """Decisions whose id is in a run's admin_comment.

    A requeued job has a run for each start and an array one for each task, all with the same
    note: the last start of the first task counts.
    """
    query = (
        select(decisions.c.decision_id, decisions.c.run_id.label("linked"), runs.c.id)
        .join(runs, runs.c.decision_id == decisions.c.decision_id)
        # The first condition spares reading the many runs without a note.
        .where(runs.c.decision_id > "", runs.c.state != JobState.REQUEUED.value)
        .order_by(decisions.c.decision_id, runs.c.submit_s.desc(), runs.c.job_id)
    )
    linked: set[str] = set()
    pairs = []
    for row in connection.execute(query):
        if row.decision_id not in linked and row.linked != row.id:
            pairs.append((row.decision_id, row.id))
        linked.add(row.decision_id)
    return iter(pairs)


def _by_submission(connection: Connection) -> Iterator[_Pair]:
    """Decisions without a note, by who submitted what from where and when."""
    waiting = list(connection.execute(_waiting(connection)))
    taken: set[int] = set()
    for start in range(0, len(waiting), _BATCH):
        batch = waiting[start : start + _BATCH]
        candidates = _candidates(connection, batch)
        for decision in batch:
            matches = (run for run in candidates[decision.cluster] if run.id not in taken)
            nearest = min(
                (run for run in matches if _same_job(decision, run)),
                key=lambda run: (abs(run.submit_s - decision.at_s), run.job_id),
                default=None,
            )
            if nearest is not None:
                taken.add(nearest.id)
                yield decision.decision_id, nearest.id


def _waiting(connection: Connection) -> Select[Any]:
    newest = connection.execute(select(func.max(decisions.c.at_s))).scalar() or 0.0
    return (
        select(decisions)
        .where(
            decisions.c.run_id.is_(None),
            decisions.c.action != "refuse",
            decisions.c.at_s > newest - GIVE_UP_S,
        )
        .order_by(decisions.c.at_s, decisions.c.decision_id)
    )


def _candidates(
    connection: Connection, batch: Iterable[Row[Any]]
) -> defaultdict[str, list[Row[Any]]]:
    """Find runs of no decision that were submitted about when these decisions were made."""
    seconds: defaultdict[str, set[int]] = defaultdict(set)
    for decision in batch:
        at = int(decision.at_s)
        seconds[decision.cluster].update(range(at - BEFORE_S, at + AFTER_S + 1))
    by_job: defaultdict[str, list[Row[Any]]] = defaultdict(list)
    for cluster, times in seconds.items():
        query = (
            select(
                runs.c.id, runs.c.job_id, runs.c.submit_s, runs.c.uid, runs.c.user, runs.c.name,
                runs.c.work_dir,
            )
            .outerjoin(decisions, decisions.c.run_id == runs.c.id)
            .where(
                runs.c.cluster == cluster,
                runs.c.submit_s.in_(times),
                runs.c.decision_id == "",
                decisions.c.decision_id.is_(None),
            )
            .order_by(runs.c.submit_s, runs.c.job_id)
        )  # fmt: skip
        by_job[cluster].extend(connection.execute(query))
    return by_job


def _same_job(decision: Row[Any], run: Row[Any]) -> bool:
    if not -BEFORE_S <= run.submit_s - int(decision.at_s) <= AFTER_S:
        return False
    if decision.uid is not None and run.uid is not None:
        same_user = decision.uid == run.uid
    else:
        same_user = decision.user == run.user
    # slurmdbd stores a double quote in a job's name as a backtick.
    same_name = decision.name.replace('"', "`") == run.name.replace('"', "`")
    return bool(same_user and same_name and decision.work_dir == run.work_dir)
