"""One history through ingest, prune and refit: the same from every database."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from predictor.refit import refit
from sacct_ingest.ingest.into_store import ingest
from sacct_ingest.records import KeyLevel
from sacct_ingest.sources.saved import SavedSacct
from sacct_ingest.store import Store
from sacct_ingest.store.rows import RetentionTimes
from slurm_plugin.demo.history import applications, make_runs
from slurm_plugin.demo.sandbox import sacct_text

NOW_S, DAY_S = 1_790_000_000, 86_400


def outcome(url: str, path: Path) -> dict[str, Any]:
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
