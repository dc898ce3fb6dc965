"""What may be asked, by whom, and what answers allow browsers to do."""

import re
import time

import msgspec
import pytest

from slurm_plugin.protocol.status_messages import PartitionWait, QueueOutlook, WaitRow, Waits
from slurm_plugin.web.app import HEADERS
from slurm_plugin.web.data import Service
from slurm_plugin.web.queue_page import NewJob, outlooks
from slurm_plugin.web.refreshing_cache import NotReady
from slurm_plugin.web.viewer import Peer
from tests.slurm_plugin.web.conftest import own, put_waits, use_of


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
    assert one.answers == [
        "In debug it starts at once.",
        "In batch it starts in about 50 s (9 of 10 such jobs: 25 s to 4.3 min).",
    ]


def test_of_a_job_larger_than_any_nothing_is_said():
    (one,) = outlooks(
        {"pine": payload()}, counts=True, now_s=1e9 + 60, job=NewJob(nodes=999, limit_s=3600.0)
    )
    assert one.answers == []


def test_waits_never_pretend_to_be_of_now(ask, store_path):
    day = msgspec.structs.replace(wait("batch", 4, 900.0), limit_s=86_400.0)
    for made_s in (time.time() - 60, time.time() - 7200):
        put_waits(store_path, wait("batch", 4, 100.0), day, made_s=made_s)
        text = ask("/queue").text
        assert ("not the queue" in text) == (made_s < time.time() - 300)
    assert "as of 2 h ago" in text
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


def test_the_queue_is_drawn_with_the_own_job_and_one_that_is_thought_of(ask, store_path):
    made_s = time.time() - 60
    closed = [0.0] * 24 + [8.0] * 25
    rows = [wait("batch", n, 1000.0 * n) for n in (1, 8, 32)]
    uses = [use_of("batch", "long", closed=closed), use_of("gpu")]
    put_waits(store_path, *rows, made_s=made_s, uses=uses)
    start = {"start_s": made_s + 7200, "low_s": made_s + 3600, "high_s": made_s + 10_800}
    ada = WaitRow(job_id=4301, user="ada", partition="long", nodes=4, limit_s=3600.0, **start)
    others = WaitRow(job_id=4302, user="bob", partition="long", nodes=4, name="secret", **start)
    service = Service(waits=lambda _: Waits(made_s=made_s, rows=[ada, others]))
    text = ask("/queue?nodes=5", "ada", own("ada"), service=service).text
    first, second = re.findall("<desc.*?</desc>", text, re.DOTALL)[:2]
    assert "Your job 4301, 4 nodes: in 2 h (1 to 3 h)" in first
    assert "New job, 5 nodes for 1 h: in 2.2 h (1.1 to 8.9 h)" in first
    assert "In 3 h: 12 of 32 nodes in use; 8 reserved" in first
    assert "job 4301" not in second
    assert "Next 6 h in batch, long" in text
    assert "4302" not in text
    assert "secret" not in text


def test_who_may_not_see_others_jobs_does_not_see_which_nodes_wait_for_them(ask, store_path):
    put_waits(store_path, wait("batch", 1, 100.0), uses=[use_of("batch")])
    everything, hidden = ask("/queue").text, ask("/queue", "ada", own("ada")).text
    assert "In 6 h: 20 of 32 nodes in use, 20 of them by jobs that wait now" in everything
    assert "In 6 h: 20 of 32 nodes in use;" in hidden
    assert 'class="queued"' in everything
    assert 'class="queued"' not in hidden


def test_a_part_of_the_time_of_the_queue_is_seen_larger(ask, store_path):
    put_waits(store_path, wait("batch", 1, 100.0), uses=[use_of("batch")])
    whole, part = ask("/queue").text, ask("/queue?minutes=120..240").text
    assert 'data-zoom="minutes"' in whole
    assert "Shown: 120 to 240 minutes from now" in part
    (whole_said, said) = (re.search("<desc.*?</desc>", one, re.DOTALL)[0] for one in (whole, part))
    assert "Now: " in whole_said
    assert "Now: " not in said
    assert "In 2 h: 18 of 32 nodes in use" in said
    places = re.findall(r'class="spot"[^>]*data-key="(\d+)"', part.partition("</svg>")[0])
    assert (places[0], places[-1]) == ("120", "240")
    assert ">now<" not in part
    assert ">3 h<" in part
    # What is no part of it is drawn as a whole.
    assert "Now: " in ask("/queue?minutes=9000..9999").text
    assert ask("/queue?minutes=soon").status_code == 400


def test_a_new_job_has_no_more_nodes_than_there_are(ask, store_path):
    put_waits(store_path, wait("batch", 4, 100.0), uses=[use_of("batch")])
    assert "A new job of 4 nodes for 1 h" in ask("/queue?nodes=99").text
    assert ask("/queue?nodes=none").status_code == 400


def test_nothing_is_drawn_of_nodes_that_nobody_uses(ask, store_path):
    idle = [0.0] * 49
    use = use_of("batch", running=idle, waiting=idle)
    put_waits(store_path, wait("batch", 1, 0.0), uses=[use])
    assert "nodes in use" not in ask("/queue").text


def test_a_page_whose_sums_take_long_says_so_and_comes_by_itself(ask, monkeypatch):
    def busy(*_):
        raise NotReady

    monkeypatch.setattr("slurm_plugin.web.data.PageData.report", busy)
    for path in ("/", "/report", "/savings", "/table.csv?name=applications"):
        got = ask(path)
        assert got.status_code == 503
        assert got.headers["refresh"] == got.headers["retry-after"] == "2"
        assert "the page comes by itself" in got.text
