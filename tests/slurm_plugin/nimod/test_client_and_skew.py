"""Asking over the socket, and every way in which there may be no answer."""

import contextlib
import copy
import dataclasses
import json
import socket
import threading
from functools import partial

import msgspec
import pytest

from slurm_plugin.nimod import client, line_client
from slurm_plugin.protocol import advice_messages
from slurm_plugin.protocol.advice_messages import Advice, read_advice
from slurm_plugin.protocol.decision_messages import Answer, Change
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import Ask, Job
from slurm_plugin.protocol.status_messages import Status
from tests.messages import RELEASES, recorded, with_news
from tests.processes import LONGEST_WAIT_S
from tests.slurm_plugin.nimod.own_nimod import talk


@pytest.fixture
def path(tmp_path):
    return tmp_path / "nimod.sock"


@contextlib.contextmanager
def server(path, *pieces, keep_open=False):
    """Answer one request with ``pieces`` of bytes."""
    asked = []
    ended = threading.Event()

    def serve():
        connection, _ = listener.accept()
        with connection:
            asked.append(connection.recv(65536))
            with contextlib.suppress(OSError):
                for piece in pieces:
                    connection.sendall(piece)
            if keep_open:
                ended.wait(60)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield asked
        ended.set()
        thread.join(60)


def test_an_advice_comes_in_any_number_of_pieces(path):
    line = encode(Advice(nodes=4))
    with server(path, line[:5], line[5:9], line[9:]) as asked:
        assert line_client.advise(path, {"name": "wrf"}, timeout_s=60).nodes == 4
    ask = msgspec.json.decode(asked[0], type=Ask)
    assert ask == Ask(op="advise", via="advise", job=Job(name="wrf"), utc_offsets=ask.utc_offsets)


def test_a_status_and_a_reload(path):
    with server(path, encode(Status(identities=7))) as asked:
        assert client.status(path, reload=True, timeout_s=60).identities == 7
    assert b'"op":"reload"' in asked[0]


@pytest.mark.parametrize(
    ("pieces", "reported"),
    [
        ([], "cannot read"),
        ([b"garbage\n"], "cannot read"),
        ([b'{"v":1,"nodes":"four"}\n'], "cannot read"),
        ([b'{"v":1,"rows":{}}\n'], "cannot read"),
        ([b'{"v":1,"rows":[{"nodes":4}]}\n'], "cannot read"),
        ([b'{"v":1,"unit":"miles"}\n'], "cannot read"),
        ([b'{"v":1,"waits":7}\n'], "cannot read"),
        ([b"[4]\n"], "cannot read"),
        ([encode(Advice(nodes=4))[:9]], "cannot read"),
        ([encode(Answer(ok=False, error="version 1; nimod speaks 2"))], "nimod speaks 2"),
    ],
)
def test_a_bad_answer_is_none(path, pieces, reported):
    with server(path, *pieces), pytest.raises(client.Unreachable, match=reported):
        line_client.advise(path, {}, timeout_s=60)


def test_a_relay_without_a_link_is_an_error_of_its_own(path):
    cut = encode(Answer(ok=False, error="no link to nimod on ctl1:7734: why", link_down=True))
    with server(path, cut), pytest.raises(client.LinkDown, match=r"^no link") as caught:
        line_client.advise(path, {}, timeout_s=60)
    assert caught.value.exit_status == 74
    refused = encode(Answer(ok=False, error="user 7 has reached the limit of 20 requests a second"))
    with server(path.with_name("r"), refused), pytest.raises(client.RequestRefused) as caught:
        line_client.advise(path.with_name("r"), {}, timeout_s=60)
    assert caught.value.exit_status == 69


def test_silence_ends_at_the_time_out(path):
    hung = server(path, keep_open=True)
    with hung, pytest.raises(client.Unreachable, match=r"within 0\.1 s"):
        line_client.advise(path, {}, timeout_s=0.1)


def test_nobody_there(path):
    with pytest.raises(client.Unreachable, match="No such file"):
        client.status(path, timeout_s=LONGEST_WAIT_S)
    path.touch()
    with pytest.raises(client.Unreachable, match="refused"):
        client.status(path, timeout_s=LONGEST_WAIT_S)


def test_a_path_that_is_too_long(tmp_path):
    with pytest.raises(client.Unreachable):
        client.status(tmp_path / ("x" * 200), timeout_s=LONGEST_WAIT_S)


READERS = {
    "decide": partial(msgspec.convert, type=Answer),
    "keep": partial(msgspec.convert, type=Answer),
    "prepare": partial(msgspec.convert, type=Answer),
    "advise": read_advice,
    "status": partial(msgspec.convert, type=Status),
    "reload": partial(msgspec.convert, type=Status),
}


def test_nimod_answers_what_other_releases_ask(running):
    asks = [ask for path in RELEASES for ask in recorded(path)["asks"]]
    asks += with_news(copy.deepcopy(asks))
    lines = "".join(f"{json.dumps(ask)}\n" for ask in asks)
    answers = talk(running.socket, lines.encode(), len(asks))
    refused = [(ask, answer) for ask, answer in zip(asks, answers, strict=True) if wrong(answer)]
    assert refused == []
    assert [answer["v"] for answer in answers] == [ask["v"] for ask in asks]


_GIVEN = {"bool": True, "float": 0.5, "int": 1, "str": "x", "Unit": "nodes"}


def filled(kind):
    """A message of this kind, each field of which is there."""
    return {one.name: _given(str(one.type)) for one in dataclasses.fields(kind)}


def _given(kind):
    if kind.startswith("list["):
        return [_given(kind[5:-1])]
    word = kind.split(" | ")[0]
    return _GIVEN[word] if word in _GIVEN else filled(getattr(advice_messages, word))


def test_an_advice_is_read_whatever_it_has():
    read = msgspec.to_builtins(read_advice(filled(Advice)))
    assert read == filled(Advice)


def wrong(answer):
    return not answer.get("ok", True) or answer.get("error", "") != ""


@pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.stem)
def test_commands_read_what_nimod_of_other_releases_answers(path):
    for asked, answer in recorded(path)["answers"].items():
        for reported in (answer, with_news(answer)):
            assert READERS[asked](reported).ok
    set_by = recorded(path)["answers"]["decide"]["set"]
    assert msgspec.convert(set_by, Change).min_nodes == 4
