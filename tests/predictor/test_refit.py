from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from threadpoolctl import threadpool_info

from predictor.refit import BATCH, refit
from predictor.table import decode
from predictor.tables.settings import TableSettings
from predictor.types import PredictionTable, Verdict
from sacct_ingest.records import KeyLevel
from sacct_ingest.store import Store
from tests.predictor.rows import applications, job


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open("sqlite://") as opened:
        yield opened


def tables(store: Store, level: KeyLevel) -> dict[str, PredictionTable]:
    return {row.key: decode(row.payload) for row in store.fits.all() if row.level is level}


def test_every_application_gets_its_table(store):
    store.runs.add(applications(3))
    summary = refit(store, now_s=5.0)
    assert (summary.curves, summary.reliable) == (3, 3)
    assert summary.histories == 3 + 1  # three job names, one user
    curves = tables(store, KeyLevel.LINE)
    assert sorted(t.label for t in curves.values()) == ["ann/solve0", "ann/solve1", "ann/solve2"]
    for row in store.fits.all():
        table = decode(row.payload)
        assert (row.level, row.key, row.label) == (table.level, table.key, table.label)
        assert (row.verdict, row.model, row.fitted_s) == (table.verdict, table.model, 5.0)


def test_a_second_refit_leaves_the_same_tables_and_a_new_version(store):
    store.runs.add(applications(2))
    # The first one makes the site's record, which the second goes by.
    refit(store, now_s=5.0)
    refit(store, now_s=5.0)
    before, version = store.fits.all(), store.fits.version()
    refit(store, now_s=5.0)
    assert store.fits.all() == before
    assert store.fits.version() > version


def test_a_table_keeps_the_command_of_its_newest_run(store):
    store.runs.add(applications(2))
    refit(store, now_s=5.0)
    commands = {one.label: one.command for one in tables(store, KeyLevel.LINE).values()}
    assert commands == {"ann/solve0": "solve0.sh", "ann/solve1": "solve1.sh"}


def test_tables_of_applications_that_are_gone_go(store):
    store.runs.add(applications(1))
    refit(store, now_s=1.0)
    stale = replace(store.fits.all()[0], key="gone")
    store.fits.replace([stale], keep_others=True)
    refit(store, now_s=2.0)
    assert "gone" not in {row.key for row in store.fits.all()}


def test_the_number_of_workers_changes_nothing(store):
    store.runs.add(applications(BATCH + 20))
    refit(store, now_s=5.0)
    alone = refit(store, now_s=5.0, workers=1)
    before = store.fits.all()
    together = refit(store, now_s=5.0, workers=2)
    assert store.fits.all() == before
    assert replace(together, seconds=0) == replace(alone, seconds=0)


def test_fits_leave_the_other_cores_alone(store, monkeypatch):
    store.runs.add(applications(1))
    observed: set[int] = set()
    monkeypatch.setattr(
        "predictor.tables.parts.tabulate",
        lambda *_, **__: observed.update(
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        ),
    )
    refit(store, now_s=5.0)
    assert observed == {1}


def test_any_executor_will_do(store):
    store.runs.add(applications(BATCH + 20))
    refit(store, now_s=5.0)
    refit(store, now_s=5.0)
    before = store.fits.all()
    with ThreadPoolExecutor(2) as pool:
        refit(store, now_s=5.0, workers=2, pool=pool)
    assert store.fits.all() == before


def test_progress_counts_all_identities(store):
    store.runs.add(applications(3))
    observed: list[int] = []
    refit(store, now_s=5.0, progress=observed.append)
    identities = sum(len(list(store.runs.by_key(level))) for level in KeyLevel)
    assert sum(observed) == identities


def test_the_interval_of_a_history_holds_what_its_runs_did(store):
    times = [100, 100, *[100, 130] * 40]
    runs = (job(9 * i, 4, t, submit_line=f"sbatch x{i}.sh") for i, t in enumerate(times))
    store.runs.add(runs)
    refit(store, now_s=5.0)
    (table,) = tables(store, KeyLevel.NAME).values()
    assert table.model == "history"
    assert table.verdict is Verdict.DOUBTFUL
    assert 75 < table.low_s[0] <= 100
    assert 130 <= table.high_s[0] < 180


def test_of_a_long_history_the_recent_runs_are_enough(store):
    old = (job(i, 2, 500) for i in range(30))
    new = (job(i, 4, 100) for i in range(30, 60))
    store.runs.add([*old, *new])
    refit(store, now_s=5.0, settings=TableSettings(recent=20))
    (table,) = tables(store, KeyLevel.USER).values()
    assert (table.nodes, table.runs) == ((4,), 20)


def test_an_empty_store_leaves_no_tables(store):
    summary = refit(store, now_s=5.0)
    assert (summary.curves, summary.histories) == (0, 0)
    assert store.fits.all() == []
