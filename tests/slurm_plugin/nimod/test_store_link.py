"""nimod and the store: new tables in, decisions out, whatever happens in between."""

import logging
from dataclasses import replace

import pytest

from predictor.stored_table import encode
from sacct_ingest.errors import StoreError
from sacct_ingest.records import DecisionRow, KeyLevel, Probe, Resource, StandingRow
from sacct_ingest.store import FitRow, RecordRow, Store
from sacct_ingest.store.fits import CLOSED_COUNTS, NEIGHBOURS
from slurm_plugin.decision.lookup import PackedTables
from slurm_plugin.nimod.store_link import StoreLink
from slurm_plugin.protocol.status_messages import WaitAccuracy
from slurm_plugin.slurm.operator_updates import ClosedFields
from tests.slurm_plugin.made import NOW, table


def fit(made=None, payload=""):
    made = made or table()
    return FitRow(
        level=KeyLevel(made.level),
        key=made.key,
        label=made.label,
        verdict=made.verdict.value,
        model=made.model,
        fitted_s=NOW,
        payload=payload or encode(made),
    )


def decision(number, **fields):
    given = {"cluster": "pine", "at_s": NOW, **fields}
    return DecisionRow(decision_id=f"{number:012x}", **given)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/nimo.db"


@pytest.fixture
def published():
    return []


@pytest.fixture
def link(url, published):
    made = StoreLink(
        url=url, publish=lambda t: published.append(len(t)), cluster=lambda: "pine", limit=1000
    )
    yield made
    made.close()


def written(url):
    with Store.open(url) as store:
        return [row for row, _ in store.decisions.with_outcomes()]


def test_a_store_that_is_not_there_yet_is_made(link, published):
    link.visit()
    assert published == [0]


def test_past_jobs_are_read_with_the_tables(url):
    published = []
    link = StoreLink(url=url, publish=published.append, cluster=lambda: "pine")
    with Store.open(url) as store:
        store.records.put(RecordRow(level=NEIGHBOURS[0], key=NEIGHBOURS[1], payload='{"jobs":[]}'))
        store.fits.replace([fit()])
    link.visit()
    link.close()
    assert [tables.neighbours.payload for tables in published] == ['{"jobs":[]}']


def test_tables_are_read_when_they_change_and_only_then(link, published, url):
    link.visit()
    with Store.open(url) as store:
        store.fits.replace([fit(), fit(table(key="bob/solve"))])
    link.visit()
    link.visit()
    assert published == [0, 2]


def test_of_many_tables_those_that_are_new_are_read(link, published, url, monkeypatch):
    link.visit()
    with Store.open(url) as store:
        store.fits.replace([fit(), fit(table(key="bob/solve"))])
        link.visit()
        store.fits.replace([fit(table(key="bob/solve", runs=99))], keep_others=True)
    read = []
    monkeypatch.setattr(PackedTables, "put", lambda *given: read.append(given[2]))
    link.visit()
    assert (published, read) == ([0, 2, 2], ["bob/solve"])


def test_tables_are_read_again_on_demand(link, published):
    link.visit()
    link.forget()
    link.visit()
    assert len(published) == 2


def test_tables_that_are_gone_from_the_store_go(link, published, url):
    for made in ([fit(), fit(table(key="bob/solve"))], [fit()]):
        with Store.open(url) as store:
            store.fits.replace(made)
        link.visit()
    assert published == [2, 1]


def test_answers_have_their_turn_while_tables_are_read(url):
    recorded, pauses = [], []
    link = StoreLink(
        url=url,
        publish=recorded.append,
        cluster=lambda: "",
        pause=lambda: pauses.append(len(recorded)),
    )
    with Store.open(url, create=True) as store:
        store.fits.replace([fit(table(key=f"alice/{n}")) for n in range(250)])
    for _ in range(2):
        link.visit()
        link.forget()
    link.visit()
    link.close()
    # Not at the first reading, for which nobody can wait; twice at the second and the third.
    assert pauses == [1, 1, 2, 2]


def test_decisions_are_written_in_their_order(link, url):
    rows = [decision(n, at_s=NOW + n) for n in range(700)]
    for row in rows:
        link.record(row)
    link.visit()
    assert link.pending == 0
    assert written(url) == rows


def test_decisions_from_before_the_cluster_was_available_get_its_name(link, url):
    link.record(decision(1, cluster=""))
    link.visit()
    assert written(url) == [decision(1)]


def test_a_store_that_fails_loses_nothing(link, url, monkeypatch, caplog):
    link.visit()

    def fails(_):
        raise StoreError("store pine: database is locked")

    link.record(decision(1))
    with monkeypatch.context() as patch:
        patch.setattr("sacct_ingest.store.decisions.Decisions.add", lambda self, rows: fails(rows))
        link.visit()
        link.record(decision(2))
        link.visit()
    assert link.pending == 2
    assert [r.levelno for r in caplog.records].count(logging.ERROR) == 1
    link.visit()
    assert [row.decision_id for row in written(url)] == [f"{n:012x}" for n in (1, 2)]


def test_a_broken_store_is_no_end(tmp_path, published, caplog):
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is no database" * 100)
    link = StoreLink(url=f"sqlite:///{broken}", publish=published.append, cluster=lambda: "")
    link.record(decision(1))
    link.visit()
    assert (link.pending, published) == (1, [])
    broken.unlink()
    link.visit()
    assert link.pending == 0
    link.close()


def test_beyond_the_limit_the_oldest_are_given_up_and_that_is_said(url, published, caplog):
    link = StoreLink(url=url, publish=published.append, cluster=lambda: "", limit=3)
    for number in range(5):
        link.record(decision(number))
    link.visit()
    link.close()
    assert "2 decisions were lost" in caplog.text
    assert [row.decision_id for row in written(url)] == [f"{n:012x}" for n in (2, 3, 4)]


def test_a_decision_that_was_written_half_way_is_not_doubled(link, url):
    link.record(decision(1))
    link.visit()
    link.record(replace(decision(1), user="late"))
    link.visit()
    assert written(url) == [decision(1)]


def test_what_is_switched_off_comes_with_the_tables_and_alone(url):
    published = []
    link = StoreLink(url=url, publish=published.append, cluster=lambda: "pine")
    with Store.open(url) as store:
        store.fits.replace([fit()])
        link.visit()
        store.standings.put([standing(off=True)])
        link.visit()
        store.standings.put([standing(off=False)])
        link.visit()
    assert [tables.is_off(table()) for tables in published] == [False, True, False]
    assert [len(tables) for tables in published] == [1, 1, 1]
    link.close()


def standing(**fields):
    recorded = table()
    numbers = {"ratio": 3.0, "runs": 6, "low": 0.6, "high": 1.5, "since_s": NOW, "judged_s": NOW}
    named = {"level": KeyLevel(recorded.level), "key": recorded.key, "label": recorded.label}
    return StandingRow(**named, **numbers, **fields)


def test_waits_are_judged_now_and_then(url):
    judged, now = [], [1e9]
    link = StoreLink(
        url=url,
        publish=lambda _: None,
        publish_waits=judged.append,
        clock=lambda: now[0],
        cluster=lambda: "",
    )
    for later in (0, 300, 600):
        now[0] = 1e9 + later
        link.visit()
    link.close()
    assert judged == [WaitAccuracy(), WaitAccuracy()]


@pytest.mark.parametrize(
    ("hosts", "resources"),
    [
        ({"pine": "p1", "oak": "o1"}, {"oak": {"bandwidth", "transfer", "cpu"}}),
        ({"oak": "o1"}, {}),
        ({"pine": "p1"}, {}),
        ({}, {}),
    ],
)
def test_what_was_measured_on_the_way_to_other_clusters_is_read(url, hosts, resources):
    def probe(resource, source, target="", at_s=1e9 - 60):
        return Probe(resource=resource, source=source, target=target, at_s=at_s, value=1.0)

    with Store.open(url) as store:
        store.probes.add([
            probe(Resource.BANDWIDTH, "p1", "o1"), probe(Resource.TRANSFER, "p1", "o1"),
            probe(Resource.TRANSFER, "p1", "o1", at_s=1e9 - 40 * 86_400),
            probe(Resource.TRANSFER, "o1", "p1"), probe(Resource.BANDWIDTH, "p1", "n7"),
            probe(Resource.CPU, "o1"), probe(Resource.CPU, "n7"),
        ])  # fmt: skip
    links = []
    link = StoreLink(
        url=url,
        publish=lambda _: None,
        publish_links=links.append,
        copy_hosts=lambda: hosts,
        clock=lambda: 1e9,
        cluster=lambda: "pine",
    )
    link.visit()
    link.close()
    found = links[0] if links else {}
    assert len(links) == bool(resources)
    assert {name: {one.resource.value for one in got} for name, got in found.items()} == resources
    assert all(len(got) == 3 for got in found.values())


def test_what_is_left_alone_for_good_survives_a_restart(url):
    key, names = (7, "", "numnodes"), [""]
    for _ in range(2):
        closed = ClosedFields(restored=False)
        link = StoreLink(
            url=url,
            publish=lambda _: None,
            cluster=lambda: names[0],
            closed={CLOSED_COUNTS: closed},
        )
        link.visit()
        assert closed.restored == bool(names[0])
        names[0] = "pine"
        link.visit()
        assert closed.restored
        seen_before = key in closed
        closed.close(key)
        link.visit()
        link.close()
    assert seen_before


def test_a_store_in_the_place_of_another_is_read(link, url, tmp_path, published):
    link.visit()
    other = f"sqlite:///{tmp_path}/other.db"
    with Store.open(other) as store:
        store.fits.replace([fit()])
    # SQLite takes a log that was left there for one of the new file.
    for path in tmp_path.glob("nimo.db-*"):
        path.unlink()
    (tmp_path / "other.db").replace(tmp_path / "nimo.db")
    link.record(decision(3))
    link.visit()
    assert published == [0, 1]
    assert [row.decision_id for row in written(url)] == [f"{3:012x}"]


def test_a_store_that_was_deleted_is_named_and_no_decision_is_lost(link, url, published, tmp_path):
    link.record(decision(1))
    link.visit()
    tables = len(published)
    for path in tmp_path.glob("nimo.db*"):
        path.unlink()
    link.record(decision(2))
    link.visit()
    assert "nimo.db" in link.trouble
    link.visit()
    # None is made anew behind the admin's back, and the tables stay.
    assert not (tmp_path / "nimo.db").exists()
    assert (link.pending, len(published)) == (2, tables)
    Store.open(url).close()
    link.visit()
    assert (link.trouble, link.pending) == ("", 0)
    assert sorted(row.decision_id for row in written(url)) == [f"{n:012x}" for n in (1, 2)]


@pytest.mark.parametrize(
    "fields", [{"limit_s": 2**63}, {"predicted_s": float("nan")}, {"name": "\udcff"}]
)
def test_a_decision_that_no_store_takes_is_set_aside_and_the_link_lives(link, url, fields, caplog):
    good = [decision(number) for number in (1, 3)]
    for row in (good[0], decision(2, user="mallory", **fields), good[1]):
        link.record(row)
    link.visit()
    assert (link.trouble, link.pending, written(url)) == ("", 0, good)
    with Store.open(url) as store:
        (rejected,) = store.rejects.all()
    assert "mallory" in rejected.text
    assert rejected.reason in caplog.text


def test_a_store_that_was_read_only_at_the_start_is_written_once_it_can_be(
    link, url, published, monkeypatch
):
    with Store.open(url) as store:
        store.fits.replace([fit()])
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda path, mode: False)
        link.record(decision(1))
        link.visit()
        assert (published, link.pending) == ([1], 1)
        assert "readonly" in link.trouble
    with Store.open(url) as store:
        store.fits.replace([fit(), fit(table(key="bob/solve"))])
    link.visit()
    assert (link.trouble, link.pending, published) == ("", 0, [1, 2])
