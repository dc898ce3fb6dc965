"""What may be asked, by whom, and what answers allow browsers to do."""

import pytest

from slurm_plugin.web.app import HEADERS
from slurm_plugin.web.viewer import Peer


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
        ("localhost", 200),
        ("LOCALHOST:8737", 200),
        ("127.0.0.1:8737", 200),
        ("[::1]:8737", 200),
        ("nimo.example.org", 200),
        ("evil.example", 421),
        ("nimo.example.org.evil.example", 421),
        ("localhost:8737:1", 421),
        ("localhost@evil.example", 421),
        ("", 421),
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
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr("slurm_plugin.web.data.PageData.catalogue", broken)
    with pytest.raises(ZeroDivisionError):
        ask("/applications")
