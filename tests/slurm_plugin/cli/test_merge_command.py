"""``nimo merge``: what two clusters know of node types, in one store, each run once."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from sacct_ingest.store import Store
from slurm_plugin.cli.nimo import main
from tests.predictor.node_types.test_sums import add, all_sums, profiles, runs, same

_BY_TAG = ("tag", "nodes")


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[list[Path]]:
    """Three stores: two saw some runs in common, and the third one of them another way."""
    paths = [tmp_path / f"{name}.db" for name in ("oak", "pine", "elm")]
    faster = {"old": 1100.0, "new": 2500.0}
    for path, observed, speed in zip(
        paths, (runs()[:5], runs()[3:], runs()[2:4]), (None, None, faster), strict=True
    ):
        with Store.open(str(path)) as store:
            store.profiles.add(profiles(speed) if speed else profiles())
            store.runs.add(observed)
            add(store)
    yield paths


def merge(store: str | Path, *argv: str | Path, capsys: Any) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["merge", "--store", str(store), "--json", *map(str, argv)]) == 0
    reported: dict[str, Any] = json.loads(capsys.readouterr().out)
    return reported


@pytest.mark.database
def test_order_and_repetition_do_not_matter_in_any_database(
    clusters, tmp_path, postgresql_url, mariadb_url, capsys
):
    urls = [*(str(tmp_path / f"into{i}.db") for i in range(4)), postgresql_url, mariadb_url]
    for url, order in zip(urls, permutations(clusters), strict=True):
        Store.open(url).close()
        merge(url, *order, capsys=capsys)
        again = merge(url, *clusters, *order, capsys=capsys)
        assert [one["new"] for one in again["merged"]] == [0] * 6
    with ExitStack() as opened:
        first, *others = [opened.enter_context(Store.open(url)) for url in urls]
        by_tag = [sums for key, sums in all_sums(first).items() if (key[0], key[3]) == _BY_TAG]
        assert sum(sums.count for sums in by_tag) == len(runs())
        assert all(same(first, other) for other in others)


def test_a_run_of_ones_own_stays_as_it_is_stored_here(clusters, capsys):
    oak, _, elm = clusters
    before = merge(oak, elm, capsys=capsys)
    assert before["merged"][0]["new"] == 0
    with Store.open(str(oak)) as store:
        sums = all_sums(store)
        assert sums["tag", "ann/wrf", "old", "cpu"].hh[0][2] == pytest.approx(
            sums["tag", "ann/wrf", "old", "cpu"].hh[0][0] / 1000
        )


def test_a_file_says_the_same_and_its_bad_lines_are_left_out(clusters, tmp_path, capsys):
    oak, pine, _ = clusters
    file, other = tmp_path / "pine.sums", tmp_path / "other.db"
    assert merge(pine, "--export", file, capsys=capsys)["exported"] == 5
    lines = file.read_text().splitlines(keepends=True)
    bad = lines[1].replace('"nodes":', '"nodes":-')
    file.write_text("".join([lines[0], bad, "{\n", *lines[1:]]))
    (done,) = merge(oak, file, capsys=capsys)["merged"]
    assert (done["new"], done["refused"]) == (3, 2)
    assert done["first_refused"].startswith(f"{file}: line 2: nodes is -")
    Store.open(str(other)).close()
    merge(other, oak, capsys=capsys)
    with Store.open(str(oak)) as one, Store.open(str(other)) as two:
        assert same(one, two)
    assert main(["merge", "--store", str(oak), str(tmp_path / "none.db")]) == 74
