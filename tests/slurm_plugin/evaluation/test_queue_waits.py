"""How near estimates of the queue's waits came, out of the records in the store."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from predictor.waits.estimate import WaitClass, WaitError
from predictor.waits.workload import PastRecord, QueuePast, encode
from sacct_ingest.store import DecisionSelection, Store
from sacct_ingest.store.fits import QUEUE, WAITS
from sacct_ingest.store.rows import RecordRow
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation.report_data import collect, queue_estimates
from slurm_plugin.reports import terminal
from slurm_plugin.reports.sheets import find, sheets_of


def error(at_s, estimate_s, actual_s, *, partition="batch", inside=True):
    return WaitError(at_s, WaitClass(True, partition), 0.0, estimate_s, actual_s, inside)


@pytest.fixture
def store():
    with Store.open("sqlite://") as made:
        own = [error(n, 140.0, 40.0, inside=n != 3) for n in range(10)]
        own += [error(n, 0.0, 0.0, partition="debug") for n in range(4)]
        past = [error(n, 540.0, 5_940.0, inside=False) for n in range(6)]
        rows = (
            (WAITS, "pine", encode(own)),
            (WAITS, "oak", encode([error(n, 60.0, 60.0) for n in range(5)])),
            (WAITS, "elm", "damaged"),
            (QUEUE, "pine", encode(QueuePast(waits=PastRecord(errors=past)))),
        )
        for level, key, payload in rows:
            made.records.put(RecordRow(level=level, key=key, payload=payload))
        yield made


def test_submissions_and_history_are_judged_by_partition(store):
    oak, batch, history = queue_estimates(store, DecisionSelection())
    assert (oak.cluster, oak.jobs, oak.within) == ("oak", 5, 1.0)
    assert (batch.cluster, batch.partition, batch.of) == ("pine", "batch", "submissions")
    assert (batch.jobs, batch.waited, batch.inside) == (10, 0, 0.9)
    assert batch.within == pytest.approx(2.0)
    assert (history.of, history.jobs, history.waited, history.inside) == ("history", 6, 6, 0.0)
    assert history.within == pytest.approx(10.0)


def test_a_selection_holds_as_far_as_a_record_tells(store):
    def jobs(**fields):
        return [one.jobs for one in queue_estimates(store, DecisionSelection(**fields))]

    assert jobs(cluster="oak") == [5]
    assert jobs(partition="debug") == []  # of so few nothing is said
    assert jobs(since_s=2.0, until_s=9.0, cluster="pine") == [7]
    for field in ("user", "account", "only_user"):
        assert jobs(**{field: "eve"}) == []


def test_the_report_shows_them(store):
    report = collect(store, DecisionSelection(cluster="pine"), config=Config())
    sheet = find(sheets_of(report, {}), "wait_estimates").table()
    assert [row[:4] for row in sheet.rows] == [
        ["pine", "batch", "submissions", "10"],
        ["pine", "batch", "history", "6"],
    ]
    console = Console(width=200, record=True, file=StringIO())
    console.print(terminal.render(replace(report, decisions=1), {}))
    text = console.export_text()
    assert "10 estimates (submissions): half within a factor of 2.00, 90 % inside" in text
    assert "6 estimates (history): half within a factor of 10.00, 0 % inside" in text
    assert collect(store, DecisionSelection(), config=Config(), application="a").queue_waits == ()
