"""The queries of every day read what they need by an index, on all three databases."""

import json
import re

import pytest
from sqlalchemy import Engine, create_engine, event

from sacct_ingest.records import KeyLevel
from sacct_ingest.store.rows import DecisionSelection
from tests.sacct_ingest.records import SUBMIT_S, decision, run, step

RUNS = 4000
LATE_S = SUBMIT_S + 60 * (RUNS - 20)

QUERIES = {
    "add what is known": lambda store: store.runs.add([run(job_id=1, submit_s=SUBMIT_S + 60)]),
    "add a batch": lambda store: store.runs.add(
        [run(job_id=RUNS + i, submit_s=SUBMIT_S + 60 * i) for i in range(2000)]
    ),
    "runs by tag": lambda store: list(store.runs.by_key(KeyLevel.TAG)),
    "runs by script": lambda store: list(store.runs.by_key(KeyLevel.SCRIPT)),
    "steps of runs": lambda store: store.runs.steps_of([1, 2, 3]),
    "join of outcomes": lambda store: store.decisions.join_outcomes(),
    "outcomes": lambda store: list(
        store.decisions.with_outcomes(DecisionSelection(since_s=LATE_S))
    ),
    "newest decisions": lambda store: store.decisions.newest(
        DecisionSelection(only_user="ada"), most=5, before=(float(LATE_S), "f" * 12)
    ),
    "last outcomes": lambda store: [*store.decisions.last_outcomes([(KeyLevel.NAME, "u1/n1")], 5)],
    "runs that started": lambda store: list(store.runs.started(cluster="pine", since_s=LATE_S)),
    "watermark": lambda store: store.watermarks.get("sacct:"),
}


@pytest.fixture
def engine(store_url):
    """Connections of our own to the database of the store."""
    made = create_engine(store_url)
    yield made
    made.dispose()


@pytest.fixture
def filled(store, engine):
    store.runs.add(
        run(
            job_id=i,
            submit_s=SUBMIT_S + 60 * i,
            user=f"u{i % 200}",
            name=f"n{i % 50}",
            comment="" if i % 400 else "nimo:app=x",
            admin_comment="" if i % 400 else f"NIMO1:{i:012x}:n=4",
            steps=(step(),),
        )
        for i in range(RUNS)
    )
    store.decisions.add(
        [decision(decision_id=f"{i:012x}", at_s=SUBMIT_S + 60 * i + 0.2) for i in range(0, RUNS, 4)]
    )
    # The servers do it by themselves after a while, SQLite does not.
    word = {"sqlite": "", "postgresql": "ANALYZE"}.get(engine.dialect.name, "ANALYZE TABLE")
    with engine.begin() as connection:
        for table in ("runs", "steps", "decisions") if word else ():
            connection.exec_driver_sql(f"{word} {table}")
    return store


@pytest.mark.parametrize("name", QUERIES)
def test_no_query_reads_all_runs_or_steps(filled, engine, name):
    statements = []

    def note(_, __, sql, parameters, ___, many):
        statements.append((sql, parameters[0] if many else parameters))

    event.listen(Engine, "before_cursor_execute", note)
    QUERIES[name](filled)
    event.remove(Engine, "before_cursor_execute", note)
    selects = [(sql, given) for sql, given in statements if sql.startswith(("SELECT", "DELETE"))]
    assert selects
    for sql, given in selects:
        assert scanned(engine, sql, given).isdisjoint({"runs", "steps"}), sql[:500]


@pytest.mark.usefixtures("filled")
def test_a_scan_is_noticed(engine):
    assert scanned(engine, "SELECT sum(elapsed_s) FROM runs", ()) == {"runs"}


def scanned(engine, sql, given):
    """Give the tables that a statement reads as a whole."""
    with engine.connect() as connection:
        return _SCANNED[engine.dialect.name](connection.exec_driver_sql, sql, given)


def _sqlite(execute, sql, given):
    details = [row[3] for row in execute(f"EXPLAIN QUERY PLAN {sql}", given)]
    # Nearly all runs have the same decision, none: to begin with its index reads them all.
    nearly_all = details[0].startswith("SEARCH runs USING INDEX ix_runs_decision_id (decision_id=?")
    scans = {result[1] for d in details if (result := re.fullmatch(r"SCAN (\w+)", d))}
    return scans | ({"runs"} if nearly_all else set())


def _postgresql(execute, sql, given):
    # Of so few rows it would read all in any case.
    execute("SET enable_seqscan = off")
    plan = "\n".join(row[0] for row in execute(f"EXPLAIN {sql}", given))
    return set(re.findall(r"Seq Scan on (\w+)", plan))


def _mariadb(execute, sql, given):
    plan = json.loads(execute(f"EXPLAIN FORMAT=JSON {sql}", given).scalar_one())
    return {result["table_name"] for result in _tables(plan) if result["access_type"] == "ALL"}


def _tables(plan):
    if isinstance(plan, list):
        for each in plan:
            yield from _tables(each)
    elif isinstance(plan, dict):
        if "access_type" in plan:
            yield plan
        yield from _tables(list(plan.values()))


_SCANNED = {"sqlite": _sqlite, "postgresql": _postgresql, "mysql": _mariadb, "mariadb": _mariadb}
