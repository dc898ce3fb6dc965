"""What may be asked, by whom, and what answers allow browsers to do."""

import time

import msgspec
import pytest

from slurm_plugin.protocol.status_messages import PartitionWait, QueueOutlook
from slurm_plugin.web.app import HEADERS
from slurm_plugin.web.report_pages import outlooks
from slurm_plugin.web.viewer import Peer
from tests.slurm_plugin.web.conftest import own, put_waits


@pytest.mark.parametrize("path", ["/", "/nothing", "/applications?page=x", "/icon.svg"])
def test_every_answer_forbids_what_pages_do_not_need(ask, path):
    got = ask(path)
    assert {name: got.headers[name] for name in HEADERS} == HEADERS
    assert "default-src 'none'" in got.headers["content-security-policy"]
    assert "unsafe" not in got.headers["content-security-policy"]
    assert got.headers["cache-control"].startswith(("private", "no-store"))
    assert "set-cookie" not in got.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_but_reading_is_possible(ask, method):
    got = ask("/", method=method)
    assert got.status_code == 405
    assert got.headers["allow"] == "GET, HEAD"
    assert got.headers["x-content-type-options"] == "nosniff"


def test_head_is_get_without_the_page(ask):
    got = ask("/applications", method="HEAD")
    assert (got.status_code, got.content) == (200, b"")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((one, 200) for one in ("localhost", "LOCALHOST:8737", "127.0.0.1:8737", "[::1]:8737")),
        *(("nimo.example.org", 200), ("evil.example", 421), ("nimo.example.org.evil.example", 421)),
        *((one, 421) for one in ("localhost:8737:1", "localhost@evil.example", "")),
    ],
)
def test_only_the_names_of_the_site_are_answered(ask, host, status):
    got = ask("/", headers={"Host": host}, hosts=("NIMO.example.org",))
    assert got.status_code == status


@pytest.mark.parametrize("headers", [{"Content-Length": "1"}, {"Transfer-Encoding": "chunked"}])
def test_nothing_is_sent_along(ask, headers):
    assert ask("/", headers=headers).status_code == 413


def test_a_query_has_an_end(ask):
    assert ask(f"/?q={'x' * 5000}").status_code == 414


@pytest.mark.parametrize(
    ("user", "peer"), [("", Peer(uid=33)), ("a b", Peer(uid=33)), ("ada", Peer(address="10.9.9.9"))]
)
def test_who_is_unknown_sees_nothing(ask, user, peer):
    for path in ("/", "/applications", "/decisions", "/report"):
        got = ask(path, user, peer=peer)
        assert got.status_code == 403
        assert "wrf" not in got.text


def test_a_users_own_header_is_not_believed(ask):
    assert "<bdi>nobody</bdi> sees" in ask("/", "root", peer=Peer(uid=65534)).text


def test_a_mistake_of_the_program_shows_none_of_its_text(ask, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr("slurm_plugin.web.data.PageData.catalogue", broken)
    with pytest.raises(ZeroDivisionError):
        ask("/applications")


def wait(partition, nodes, wait_s):
    return PartitionWait(
        partition=partition, waiting=7, nodes=nodes, limit_s=3600.0,
        wait_s=wait_s, low_s=wait_s / 2, high_s=4 * wait_s + 60.0,
    )  # fmt: skip


def payload(**fields):
    partitions = [wait("batch", n, 100.0 * n) for n in (1, 2, 4)] + [wait("gpu", 1, 0.0)]
    return msgspec.json.encode(QueueOutlook(made_s=1e9, partitions=partitions, **fields)).decode()


def test_each_partition_has_a_chart_that_says_what_it_shows():
    (one,) = outlooks(
        {"pine": payload(recorded=120, inside=0.91), "oak": "{"}, counts=True, now_s=1e9 + 60
    )
    assert one.cluster == "pine"
    batch, gpu = one.charts
    assert batch.title == "Wait in batch: 7 jobs in the queue"
    assert "4 nodes: 6.7 min (90 % of such jobs: 3.3 to 28 min)" in batch.description
    assert gpu.marks
    assert one.table.cells()[0] == ["batch", "7", "1", "1.7 min", "50 s", "7.7 min"]
    assert one.age_s == 60
    assert one.record == "120 starts recorded, 91 % of them inside their interval."


def test_partitions_where_nobody_waits_have_no_chart():
    idle = [msgspec.structs.replace(wait("debug", n, 0.0), high_s=0.0) for n in (1, 2)]
    made = QueueOutlook(made_s=1e9, partitions=[wait("batch", 1, 50.0), *idle])
    (one,) = outlooks({"pine": msgspec.json.encode(made).decode()}, counts=True, now_s=1e9 + 60)
    assert [chart.title for chart in one.charts] == ["Wait in batch: 7 jobs in the queue"]
    assert one.idle == "debug"
    assert len(one.table.rows) == 3


def test_waits_never_pretend_to_be_of_now(ask, store_path):
    day = msgspec.structs.replace(wait("batch", 4, 900.0), limit_s=86_400.0)
    for made_s in (time.time() - 60, time.time() - 7200):
        put_waits(store_path, wait("batch", 4, 100.0), day, made_s=made_s)
        text = ask("/queue").text
        assert ("not the queue" in text) == (made_s < time.time() - 300)
    assert "as of 2.0 h ago" in text
    assert "1.7 min" in text
    day_long = ask("/queue?limit=24").text
    assert "15 min" in day_long
    assert "limit of 24 h" in day_long
    assert ask("/queue?limit=5").status_code == 400


def test_a_young_record_says_that_intervals_are_wide():
    (one,) = outlooks({"pine": payload()}, counts=True, now_s=1e9 + 60)
    assert "wide" in one.record


def test_who_may_not_see_others_jobs_is_not_told_how_many_wait(ask, store_path):
    put_waits(store_path, wait("batch", 1, 100.0))
    assert "7 jobs in the queue" in ask("/queue").text
    hidden = ask("/queue", "ada", own("ada")).text
    assert "Wait in batch" in hidden
    assert "7 jobs" not in hidden
    assert ">7<" not in hidden
