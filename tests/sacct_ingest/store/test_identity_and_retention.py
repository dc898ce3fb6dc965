"""Retention: what goes, what stays, and that the space comes back."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, update

from sacct_ingest.records import JobState, KeyLevel, Probe, Resource
from sacct_ingest.store import RejectRow, Store
from sacct_ingest.store.retention import RUNS_PER_KEY
from sacct_ingest.store.rows import Pruned, RetentionTimes
from sacct_ingest.store.schema import counters
from tests.predictor.rows import row
from tests.sacct_ingest.records import SUBMIT_S, decision, run, runs_with, step

DAY_S = 86_400


def history(days, *, job_id=0, **given):
    """A run a day, each with a step; the newest on day 0."""
    return [
        run(
            job_id=job_id + day,
            submit_s=SUBMIT_S - day * DAY_S,
            end_s=SUBMIT_S - day * DAY_S + 100,
            steps=(step(),),
            **given,
        )
        for day in range(days)
    ]


def test_old_runs_go_but_for_the_newest_of_each_application_and_node_count(store):
    store.runs.add(history(RUNS_PER_KEY + 15))
    store.runs.add(history(40, job_id=1000, nodes=64))
    failed = history(50, job_id=2000, state=JobState.FAILED)
    store.runs.add(failed)
    retention = RetentionTimes(runs=SUBMIT_S - 10 * DAY_S)
    would = store.prune(retention, dry_run=True)
    assert store.runs.count() == RUNS_PER_KEY + 15 + 40 + 50
    assert store.prune(retention) == would
    remaining = runs_with(store, KeyLevel.USER, "ada")
    assert {r.job_id for r in remaining if r.state is JobState.FAILED} == set(range(2000, 2011)) - {
        2010
    } | {2010 for r in remaining if r.job_id == 2010}
    assert sorted(r.job_id for r in remaining if r.nodes == 2 and r.job_id < 1000) == list(
        range(RUNS_PER_KEY)
    )
    assert sum(r.nodes == 64 for r in remaining) == RUNS_PER_KEY
    assert store.prune(retention) == [Pruned("runs", SUBMIT_S - 10 * DAY_S, 0)]


def test_runs_of_retained_decisions_stay(store):
    store.runs.add(history(3, state=JobState.FAILED))
    store.decisions.add([decision(at_s=SUBMIT_S - 2 * DAY_S + 1.0, decision_id="a" * 12)])
    assert store.decisions.join_outcomes() == 1
    before_s = SUBMIT_S + DAY_S
    assert store.prune(RetentionTimes(runs=before_s))[0].rows == 2
    both = RetentionTimes(runs=before_s, decisions=before_s)
    assert [each.rows for each in store.prune(both, dry_run=True)] == [1, 1]
    assert [each.rows for each in store.prune(both)] == [1, 1]
    assert store.runs.count() == 0
    assert list(store.decisions.with_outcomes()) == []


def test_steps_rejects_and_probes_go_by_their_own_age(store):
    store.runs.add(history(10))
    store.rejects.add(
        [RejectRow(source="f", reason="odd", text=str(i), read_s=i) for i in range(5)]
    )
    store.probes.add(
        [Probe(resource=Resource.LATENCY, source="a", target=t, at_s=i, value=1.0)
         for i in range(4) for t in "bc"]
    )  # fmt: skip
    done = store.prune(RetentionTimes(steps=SUBMIT_S - 4 * DAY_S, rejects=3, probes=1))
    assert {each.table: each.rows for each in done} == {"steps": 5, "rejects": 3, "probes": 2}
    assert store.runs.count() == 10
    assert len(store.rejects.all()) == 2


@pytest.mark.parametrize("older", [False, True])
def test_sqlite_gives_the_space_back(tmp_path, older):
    path = tmp_path / "nimo.db"
    Store.open(str(path)).close()
    if older:  # made before files could shrink in steps
        with closing(sqlite3.connect(path)) as raw:
            raw.execute("PRAGMA auto_vacuum=NONE")
            raw.execute("VACUUM")
    with Store.open(str(path)) as store:
        store.runs.add(history(3000, state=JobState.FAILED, submit_line="x" * 2000))
        full = path.stat().st_size
        store.prune(RetentionTimes(runs=SUBMIT_S - DAY_S))
        assert path.stat().st_size < full / 10
        assert store.runs.count() == 2


def test_a_store_that_stays_has_not_changed(store):
    store.runs.add([run()])
    assert store.change() == ""


@pytest.mark.parametrize("remaining", [True, False])
def test_a_deleted_file_is_noticed(tmp_path, remaining):
    path = tmp_path / "nimo.db"
    with Store.open(str(path)) as store:
        for one in tmp_path.glob("nimo.db*"):
            one.rename(tmp_path / "away") if remaining else one.unlink()
        assert store.change() == "was deleted"
        with Store.open(str(path)) as other:
            assert other.change() == ""
            assert store.change() == "was replaced by another file"


def test_another_store_in_the_place_of_the_file_is_noticed(tmp_path):
    ours, theirs = tmp_path / "nimo.db", tmp_path / "other.db"
    Store.open(str(theirs)).close()
    with Store.open(str(ours)) as store:
        theirs.replace(ours)
        assert store.change() == "was replaced by another file"


def test_a_copy_of_a_backup_has_the_number_of_the_store(tmp_path):
    ours, backup = tmp_path / "nimo.db", tmp_path / "backup.db"
    Store.open(str(ours)).close()
    shutil.copy(ours, backup)
    assert number_in(ours) == number_in(backup) is not None


def test_a_database_that_was_made_anew_is_noticed(store, store_url):
    """Its number is another one, on a server as well as in a file that was written over."""
    engine = create_engine(store_url)
    with engine.begin() as connection:
        connection.execute(update(counters).where(counters.c.name == "store").values(value=7))
    engine.dispose()
    assert store.change() == "was replaced by another database"


def test_a_store_of_before_gets_a_number(tmp_path):
    path = tmp_path / "nimo.db"
    Store.open(str(path)).close()
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("DELETE FROM counters WHERE name = 'store'")
    with Store.open(str(path)) as store:
        assert number_in(path) is not None
        assert store.change() == ""


def number_in(path):
    """Give the number in the store's file, which another store at the same place does not have."""
    with closing(sqlite3.connect(path)) as raw:
        row = raw.execute("SELECT value FROM counters WHERE name = 'store'").fetchone()
    return row and row[0]


#: Sixteen CPUs, of which four were asked for.
MORE = replace(row(1, 100.0), cpus=16, req_cpus=4, cpu_s=380.0, tasks=1)


def test_cpus_that_slurm_added_for_memory_do_not_count():
    assert MORE.without_added_cpus() == replace(MORE, cpus=4)


@pytest.mark.parametrize(
    "changes",
    [
        {"cpu_s": 1500.0},  # it used them
        {"cpu_s": 380.0, "tasks": 16},
        {"cpu_s": None},
        {"req_cpus": None},
        {"req_cpus": 16},
        {"req_cpus": 15},  # a core was filled
        {"req_cpus": 8, "tasks": 8},
    ],
)
def test_other_cpus_count(changes):
    other = replace(MORE, **changes)
    assert other.without_added_cpus() is other


def test_types_of_gpus():
    assert replace(MORE, gpu_types="a100=3,v100=1").gpu_type == "a100+v100"
    assert MORE.gpu_type == ""
