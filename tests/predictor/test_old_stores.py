"""Histories that an earlier release stored have curves over CPUs, too."""

import random
from random import Random

import pytest
from sqlalchemy import create_engine, insert, update

from predictor.refit import refit
from predictor.stored_table import decode
from sacct_ingest.ingest.into_store import ingest
from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.layout import Unit
from sacct_ingest.sources.saved import SavedSacct
from sacct_ingest.store import Store
from sacct_ingest.store.engine import writing
from sacct_ingest.store.rows import RetentionTimes
from sacct_ingest.store.schema import counters
from slurm_plugin.demo.history import applications, make_runs
from slurm_plugin.demo.sandbox import sacct_text
from tests.sacct_ingest.conftest import KINDS
from tests.sacct_ingest.store.test_upgrades import make, tables


@pytest.fixture(params=KINDS)
def url(request, tmp_path):
    """URL of a database without tables, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'nimo.db'}"
    return request.getfixturevalue(f"{request.param}_url")


def test_runs_of_an_old_store_have_a_curve_over_their_cpus(url):
    engine = create_engine(url)
    with writing(engine) as connection:
        make(connection)
    with writing(engine) as connection:
        (runs,) = [one for one in tables(connection) if one.name == "runs"]
        rng, at_s = random.Random(1), 1_790_000_000
        texts = {column.name: "" for column in runs.columns if not column.nullable}
        for number in range(12):
            cpus = 4 * 2 ** (number % 4)
            elapsed_s = round(20_000 * (0.95 / cpus + 0.02) * rng.lognormvariate(0, 0.02))
            times = {"submit_s": at_s, "start_s": at_s, "end_s": at_s + elapsed_s}
            size = {"nodes": 1, "cpus": cpus, "tasks": 1, "elapsed_s": elapsed_s}
            name = {"cluster": "pine", "user": "ann", "name": "threads", "line": "5c41"}
            own = {"id": number + 1, "job_id": number, "state": "COMPLETED", "limit_s": 36_000}
            connection.execute(insert(runs), texts | own | name | size | times)
            at_s += elapsed_s + 100
        connection.execute(update(counters).values(value=1000))
    engine.dispose()
    with Store.open(url, create=False) as store:
        refit(store, now_s=at_s)
        (fitted,) = [row for row in store.fits.all() if row.level is KeyLevel.LINE]
    table = decode(fitted.payload)
    assert table.unit is Unit.CPUS
    assert [point.nodes for point in table.observed] == [4, 8, 16, 32]


NOW_S, DAY_S = 1_790_000_000, 86_400


def outcome(url, path):
    with Store.open(url) as store:
        read = ingest(store, SavedSacct(path), now_s=NOW_S)
        refit(store, now_s=NOW_S)
        before = store.fits.all()
        retention = RetentionTimes(runs=NOW_S - 20 * DAY_S, steps=NOW_S - 10 * DAY_S, rejects=NOW_S)
        expected = store.prune(retention, dry_run=True)
        pruned = store.prune(retention)
        refit(store, now_s=NOW_S)
        return {
            "read": (read.new, read.refused),
            "expected": expected,
            "pruned": pruned,
            "kept": [
                [(key, [(r.cluster, r.job_id, r.submit_s) for r in rows])
                 for key, rows in store.runs.by_key(level)]
                for level in KeyLevel
            ],
            "before": before,
            "after": store.fits.all(),
        }  # fmt: skip


@pytest.mark.database
def test_ingest_prune_and_refit_come_to_the_same_on_all(tmp_path, postgresql_url, mariadb_url):
    runs = make_runs(applications("ada"), end_s=NOW_S, rng=Random(4), days=45)
    path = tmp_path / "sacct.txt"
    path.write_text("".join(sacct_text(runs)))
    sqlite = outcome(str(tmp_path / "nimo.db"), path)
    assert sqlite["expected"] == sqlite["pruned"]
    assert all(each.rows for each in sqlite["pruned"][:2])
    assert len(sqlite["after"]) > 10
    for url in (postgresql_url, mariadb_url):
        other = outcome(url, path)
        for name, value in sqlite.items():
            assert other[name] == value, name
