"""Rows that were read by earlier rules are read anew; nothing is lost when that is stopped."""

import os

import pytest
import sqlalchemy as sa

from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.runs.submission import UNKNOWN
from sacct_ingest.store import Store, resolution
from sacct_ingest.store.engine import make_engine, writing
from sacct_ingest.store.schema import counters, job_pieces, runs
from tests.sacct_ingest.records import SUBMIT_S, run, step

_RUNS = 40


def _history():
    """Jobs of which each second one was requeued, and each third has two components."""
    for number in range(_RUNS):
        common = {"job_id": 100 * number, "submit_line": f"sbatch solve.sh --steps {number}"}
        submit_s = SUBMIT_S + 10_000 * number
        if number % 2:
            yield run(**common, submit_s=submit_s, state=JobState.REQUEUED)
            submit_s += 200
        if number % 3:
            yield run(**common, submit_s=submit_s)
            continue
        for offset in (0, 1):
            component = {"job_id": 100 * number + offset, "het_offset": offset}
            yield run(
                **common | component, submit_s=submit_s, het_job_id=100 * number, nodes=1 + offset
            )


def _facts(store):
    """Give all that was made of the rows."""
    jobs = store.runs.of_key(KeyLevel.USER, "ada")
    return [
        (one.job_id, one.submission, one.starts, one.shape, one.line, one.tag, one.nodes)
        for one in jobs
    ]


def _forget(url):
    """Make a store as an earlier release left it, by other rules."""
    engine = make_engine(url, create=False)
    with writing(engine) as connection:
        unknown = dict.fromkeys(("submission", "failed_steps", "part_of", "pieces"))
        connection.execute(sa.update(runs).values(**unknown, rules=0, line="old"))
        connection.execute(sa.delete(job_pieces))
        place = counters.c.name == resolution.counters.RULES_PLACE
        connection.execute(sa.delete(counters).where(place))
    engine.dispose()


def _killed_after(url, statements):
    """Read anew in a process that dies before its so manyeth statement; whether it came to that."""
    if not (child := os.fork()):

        def counted(*_):
            nonlocal statements
            if not statements:
                os._exit(9)
            statements -= 1

        try:
            with Store.open(url, create=False) as store:
                sa.event.listen(sa.Engine, "before_cursor_execute", counted)
                store.resolve()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_stored_runs_are_read_by_new_rules_and_it_says_how_far_that_is(store, store_url):
    store.runs.add(_history())
    before = _facts(store)
    assert store.unresolved() is None
    _forget(store_url)
    assert all(one.submission == UNKNOWN for one in store.runs.started())
    told = []
    store.resolve(told.append)
    assert [done.runs for done in told] == [done.of for done in told[-1:]]
    assert _facts(store) == before
    assert store.unresolved() is None


def test_whoever_is_killed_anywhere_has_lost_nothing(new_url, monkeypatch):
    monkeypatch.setattr(resolution, "BATCH", 7)
    with Store.open(new_url) as store:
        store.runs.add(_history())
        before = _facts(store)
        _forget(new_url)
    killed, places, statements = 0, [], 1
    while _killed_after(new_url, statements):
        killed += 1
        statements += 3
        with Store.open(new_url) as store:
            places.append(store.unresolved().runs)
            assert store.runs.count() == sum(1 for _ in _history())
    assert killed > 5
    assert places == sorted(places)
    assert max(places) > 0
    with Store.open(new_url) as store:
        assert store.unresolved() is None
        assert _facts(store) == before


def test_runs_that_come_meanwhile_are_read_once(sqlite_store, tmp_path, monkeypatch):
    monkeypatch.setattr(resolution, "BATCH", 7)
    history = list(_history())
    sqlite_store.runs.add(history[:20])
    _forget(f"sqlite:///{tmp_path / 'nimo.db'}")

    def arrive(_):
        sqlite_store.runs.add(history[20:])

    sqlite_store.resolve(arrive)
    assert sqlite_store.unresolved() is None
    assert all(one.submission.program for one in sqlite_store.runs.of_key(KeyLevel.USER, "ada"))


def test_failed_steps_are_counted_of_the_steps_that_are_kept(store, store_url):
    failed, added = step(state=JobState.FAILED), step(step="extern", state=JobState.CANCELLED)
    store.runs.add([run(job_id=1, steps=(step(step="batch"), failed, added))])
    store.runs.add([run(job_id=2, steps=(step(),)), run(job_id=3)])
    _forget(store_url)
    store.resolve()
    counted = {one.job_id: one.failed_steps for one in store.runs.of_key(KeyLevel.USER, "ada")}
    assert counted == {1: 1, 2: 0, 3: None}


def test_the_keys_of_a_decision_stay(sqlite_store, tmp_path):
    sqlite_store.runs.add([run()])
    url = f"sqlite:///{tmp_path / 'nimo.db'}"
    _forget(url)
    engine = make_engine(url, create=False)
    with writing(engine) as connection:
        connection.execute(sa.update(runs).values(script="5c", line="of a decision"))
    engine.dispose()
    sqlite_store.resolve()
    (stored,) = sqlite_store.runs.of_key(KeyLevel.SCRIPT, "5c")
    assert stored.line == "of a decision"


@pytest.mark.parametrize("place", [0, 17])
def test_a_store_that_is_read_says_how_far_it_is(sqlite_store, tmp_path, place):
    sqlite_store.runs.add(_history())
    url = f"sqlite:///{tmp_path / 'nimo.db'}"
    _forget(url)
    engine = make_engine(url, create=False)
    with writing(engine) as connection:
        row = {"name": resolution.counters.RULES_PLACE, "value": place}
        connection.execute(sa.insert(counters).values(row))
    engine.dispose()
    assert sqlite_store.unresolved().runs == place
