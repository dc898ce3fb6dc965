"""Reports that one process of the pages leaves to the next."""

import os
import threading
import time
from dataclasses import replace

import pytest

from sacct_ingest.store import DecisionSelection, RecordRow, Store
from slurm_plugin.cli.nimo import main
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation.report_data import collect
from slurm_plugin.evaluation.stored_reports import REPORTS, find_report, keep_reports
from slurm_plugin.web.kept_reports import KeptReports
from tests.processes import LONGEST_WAIT_S
from tests.slurm_plugin.reports.rows import decision
from tests.slurm_plugin.web.conftest import ALL, decided, joined, own


@pytest.fixture
def report(store_path):
    joined(store_path)
    with Store.open(str(store_path)) as store:
        return collect(store, DecisionSelection(), config=Config())


@pytest.fixture
def kept(tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    return KeptReports(folder, "sqlite:////a.db", 1000.0)


def aged(folder, seconds):
    then_s = time.time() - seconds
    for one in folder.iterdir():
        os.utime(one, (then_s, then_s))


def test_a_report_is_found_as_it_was_left(kept, report):
    kept.put((ALL, 7), report)
    found, age_s = kept.find((ALL, 7))
    assert found == report
    assert age_s < 100.0
    (path,) = kept.folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


def test_reports_of_others_of_other_days_and_of_another_store_are_apart(kept, report):
    kept.put((ALL, 7), report)
    assert kept.find((ALL, 30)) is None
    assert kept.find((own("ada"), 7)) is None
    assert KeptReports(kept.folder, "sqlite:////b.db", 1000.0).find((ALL, 7)) is None


def test_what_is_too_old_or_broken_is_not_shown(kept, report):
    kept.put((ALL, 7), report)
    aged(kept.folder, 2000.0)
    assert kept.find((ALL, 7)) is None
    (path,) = kept.folder.iterdir()
    path.write_text("{")
    assert kept.find((ALL, 7)) is None


def test_what_has_no_decision_is_made_anew(kept, report, tmp_path):
    """Else the pages of a new site say for hours that nothing was decided."""
    kept.put((ALL, 7), replace(report, decisions=0))
    assert kept.find((ALL, 7)) is None
    path, now_s = tmp_path / "new.db", time.time()
    config = Config(store=f"sqlite:///{path}")
    with Store.open(str(path)) as store:
        keep_reports(store, config, now_s=now_s - 200.0)
        store.decisions.add(decided())
        keep_reports(store, config, now_s=now_s - 100.0)
        assert find_report(store, 90, now_s=now_s)[0].decisions == 3


def test_only_so_many_are_kept(kept, report, monkeypatch):
    monkeypatch.setattr("slurm_plugin.web.kept_reports._MOST", 2)
    for days in range(4):
        aged(kept.folder, 60.0 * (4 - days))
        kept.put((ALL, days), report)
    assert len(list(kept.folder.iterdir())) == 2
    assert kept.find((ALL, 3))


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path, report, caplog):
    none = KeptReports(tmp_path / "none", "", 1000.0)
    none.put((ALL, 7), report)
    assert none.find((ALL, 7)) is None
    assert "no report is kept" in caplog.text


@pytest.mark.parametrize("path", ["/", "/report", "/savings"])
def test_the_first_page_after_a_start_has_the_last_sums_and_says_their_age(
    ask, store_path, tmp_path, monkeypatch, path
):
    joined(store_path)
    folder = tmp_path / "kept"
    folder.mkdir()
    assert "Added up" not in ask(path, folder=folder).text
    aged(folder, 7300.0)
    shown = threading.Event()

    def after_the_page(*arguments, **options):
        shown.wait(timeout=LONGEST_WAIT_S)
        return collect(*arguments, **options)

    monkeypatch.setattr("slurm_plugin.web.data.collect", after_the_page)
    try:
        text = ask(path, folder=folder).text
    finally:
        shown.set()
    assert "Added up 2 h ago; the jobs since then are being added." in text


def test_a_fit_leaves_what_pages_show_first_once_a_day(store_path, monkeypatch):
    joined(store_path)
    config, now_s = Config(store=f"sqlite:///{store_path}"), time.time()
    with Store.open(str(store_path)) as store:
        keep_reports(store, config, now_s=now_s)
        monkeypatch.setattr("slurm_plugin.evaluation.stored_reports.collect", None)
        keep_reports(store, config, now_s=now_s + 80_000.0)
        for days in (config.web.days, 90):
            report, age_s = find_report(store, days, now_s=now_s + 100.0)
            assert report.decisions == 3
            assert age_s == pytest.approx(100.0, abs=1.0)
        assert find_report(store, 30, now_s=now_s) is None
        store.records.put(RecordRow(level=REPORTS, key="90", payload="0.0.1 1:1:x"))
        assert find_report(store, 90, now_s=now_s) is None
        with pytest.raises(TypeError):
            keep_reports(store, config, now_s=now_s)


def test_reports_go_with_the_decisions_that_are_in_them(store_path, capsys):
    joined(store_path)
    now_s, path = time.time(), f"sqlite:///{store_path}"
    prune = ["prune", "--store", path, "--decisions"]
    with Store.open(str(store_path)) as store:
        old = decision(decision_id="d" * 12, at_s=now_s - 40 * 86_400.0, key="a1", label="ada/wrf")
        store.decisions.add([old])
        keep_reports(store, Config(store=path), now_s=now_s)
        store.records.put(RecordRow(level=REPORTS, key="30", payload="0.0.1 1:1:x"))
        kept = store.records.keys(REPORTS)
    assert main([*prune, "30", "--dry-run"]) == main([*prune, "50"]) == 0
    with Store.open(str(store_path)) as store:
        assert store.records.keys(REPORTS) == kept, "no decision was deleted"
    assert main([*prune, "30"]) == 0
    with Store.open(str(store_path)) as store:
        assert store.records.keys(REPORTS) == ["7"]
        assert find_report(store, 7, now_s=now_s)
    capsys.readouterr()


@pytest.mark.parametrize("path", ["/", "/savings"])
def test_without_a_folder_the_first_page_has_the_sums_of_the_last_fit(
    ask, store_path, monkeypatch, path
):
    joined(store_path)
    with Store.open(str(store_path)) as store:
        keep_reports(store, Config(store=f"sqlite:///{store_path}"), now_s=time.time() - 7300.0)
    shown = threading.Event()

    def after_the_page(*arguments, **options):
        shown.wait(timeout=LONGEST_WAIT_S)
        return collect(*arguments, **options)

    monkeypatch.setattr("slurm_plugin.web.data.collect", after_the_page)
    try:
        text = ask(path).text
    finally:
        shown.set()
    assert "Added up 2 h ago; the jobs since then are being added." in text


def test_a_small_site_shows_the_decisions_since_the_last_fit(ask, store_path, monkeypatch):
    """As on a new site, which fits before its first decision."""
    monkeypatch.setattr("slurm_plugin.web.data._FIRST_REPORT_S", LONGEST_WAIT_S)
    with Store.open(str(store_path)) as store:
        keep_reports(store, Config(store=f"sqlite:///{store_path}"), now_s=time.time() - 7300.0)
    joined(store_path)
    text = ask("/").text
    assert "No decision" not in text
    assert "Added up" not in text


def test_who_sees_his_own_jobs_only_gets_no_report_on_all(ask, store_path):
    joined(store_path)
    with Store.open(str(store_path)) as store:
        keep_reports(store, Config(store=f"sqlite:///{store_path}"), now_s=time.time() - 7300.0)
    text = ask("/savings", visibility=own("ada")).text
    assert "Added up" not in text
