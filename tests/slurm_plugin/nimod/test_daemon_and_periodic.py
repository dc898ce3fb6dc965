"""nimod as a process: what it answers, how it begins, reloads and ends."""

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from slurm_plugin.nimod.supervision import Periodic
from slurm_plugin.protocol.lines import MAX_LINE_BYTES, encode
from slurm_plugin.protocol.request_messages import Ask, Command
from slurm_plugin.slurm.node_pool import AT_ONCE
from tests.processes import LONGEST_WAIT_S, wait_until
from tests.slurm_plugin.made import cluster, job
from tests.slurm_plugin.nimod.handler import Handler
from tests.slurm_plugin.nimod.own_nimod import idle_node, talk


def test_a_submission_is_answered_and_recorded(running):
    answer = running.decide()
    assert answer.action == "set"
    assert 1 <= answer.set.min_nodes <= 8
    wait_until(running.decisions, what="the decision in the store")
    (row,) = running.decisions()
    assert (row.nodes, row.cluster, row.applied) == (answer.set.min_nodes, "pine", True)
    assert row.decision_id in answer.admin_comment


def test_one_connection_serves_many_requests(running):
    line = encode(Ask(job=job()))
    answers = talk(running.socket, line * 50, 50)
    assert [answer["v"] for answer in answers if answer.get("ok", True)] == [1] * 50


BAD = [
    (b"garbage", "malformed"),
    (b"[1, 2]", "Expected `object`"),
    (b'{"v":1,"op":"dance"}', "Invalid enum value 'dance'"),
    (b'{"v":1,"job":{"min_nodes":"four"}}', "Expected `int"),
    (b'{"v":1,"job":{"partition":"%s"}}' % (b"p," * 2049), "length <= 4096"),
    (b'{"v":1,"job":{"exc_nodes":"%s"}}' % (b"n1," * 5462), "length <= 16384"),
    (b'{"v":1,"job":{"min_mem_per_cpu":9223372036854775807}}', "`int` <= 8796093022207"),
    (b'{"v":1,"op":"waits","job_ids":[%s1]}' % (b"1," * 1000), "length <= 1000"),
    (b'{"v":1,"op":"waits","tasks":[-2]}', "`int` >= -1"),
    (b'{"v":1,"op":"explain","job_id":9223372036854775808}', "`int`"),
    (b'{"v":1,"op":"report","selection":{"since_s":1e300}}', "`float` < 8796093022208"),
    (b'{"v":1,"op":"report","selection":{"since_s":1e999}}', "out of range"),
    (b'{"v":1,"op":"advise","confidence":NaN}', "malformed"),
    (b'{"v":2}', "nimod speaks 1"),
    (b"\xff\xfe", "malformed"),
    (b'{"x":1,"op":"\xff"}', "UTF-8"),
    (b'{"x":' + b"[" * 1000, "nested"),
    (b'{"op":"status","x":' + b"[" * 60_000 + b"]" * 60_000 + b"}", "nested"),
]


def test_a_bad_request_gets_an_error_and_the_connection_lives(running):
    for line, reported in BAD:
        bad, good = talk(running.socket, line + b"\n" + encode(Ask(op="status")), 2)
        assert bad["ok"] is False
        assert reported in bad["error"], line[:100]
        assert good["identities"] == 1


@pytest.mark.parametrize("text", ["a:²", "a:" + "9" * 4000])
def test_digits_that_are_no_number_are_answered(tmp_path, text):
    made = Handler(tmp_path, names={1001: "ada"})
    made.service.cluster = cluster()
    for op in ("advise", "prepare"):
        command = Command(argv=["a.sh"], options={"licenses": text, "nodes": "1-8"})
        line = encode(Ask(op=op, job=job(licenses=text), command=command))
        assert b"see its log" not in made.answer(line, 1001)


def test_errors_that_requests_cause_are_one_line_a_user_and_minute(tmp_path, caplog, monkeypatch):
    made = Handler(tmp_path, names={1001: "ada", 1002: "bob"})

    def broken(*_, **__):
        raise ValueError("a text\n\x1b[2J of a user")

    monkeypatch.setattr("slurm_plugin.nimod.request_handler.job_of", broken)
    for uid in (1001, 1001, 1002):
        answer = made.answer(encode(Ask(op="prepare")), uid)
        assert b'"ValueError in nimod; see its log"' in answer
    first, second = caplog.records
    assert (first.exc_info, second.exc_info) == (None, None)
    assert "(user 1001): ValueError in" in first.getMessage()
    assert first.getMessage().endswith("a text  [2J of a user")


def test_a_user_whose_name_is_unknown_sees_nothing(tmp_path):
    made = Handler(tmp_path)
    for op in ("applications", "explain", "report"):
        reply = made.respond(encode(Ask(op=op, name="wrf", job_id=1)), 4_000_000)
        assert b"has no name" in reply.data
        assert reply.query is None


def test_a_request_without_end_is_cut_off(running):
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(LONGEST_WAIT_S)
        channel.connect(running.socket)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            channel.sendall(b"x" * (MAX_LINE_BYTES + 70_000))
        with contextlib.suppress(ConnectionResetError):
            assert b"longer than" in channel.makefile("rb").readline()
    assert running.status().ok


def test_many_clients_at_once(running):
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: running.decide(), range(200)))
    assert {answer.ok for answer in answers} == {True}
    wait_until(lambda: len(running.decisions()) == 200, what="all decisions")


def test_no_answer_waits_while_nodes_are_counted_for_a_new_shape(nimod):
    nimod.fit()
    memory = range(2000, 2000 + AT_ONCE + 1)
    (nimod.folder / "nodes").write_text("".join(idle_node(mib, Memory=mib) for mib in memory))
    nimod.start()
    nimod.see_cluster()
    first = nimod.decide()
    assert (first.action, first.reason) == ("keep", "new_shape")
    wait_until(lambda: nimod.decide().action == "set", what="counted nodes")
    assert nimod.decide(features="other").reason == "new_shape"


LONG_S = 1000.0


def test_the_work_is_done_at_once_and_when_woken():
    done = threading.Semaphore(0)
    periodic = Periodic("test", done.release, pause_s=lambda: LONG_S)
    periodic.start()
    assert done.acquire(timeout=LONGEST_WAIT_S)
    assert periodic.tried(LONGEST_WAIT_S)
    periodic.wake()
    assert done.acquire(timeout=LONGEST_WAIT_S)
    assert periodic.stop(LONGEST_WAIT_S)
    assert not done.acquire(blocking=False)


def test_it_may_be_done_a_last_time():
    calls = []
    periodic = Periodic("test", lambda: calls.append(1), pause_s=lambda: LONG_S)
    periodic.start()
    periodic.tried(LONGEST_WAIT_S)
    assert periodic.stop(LONGEST_WAIT_S, once_more=True)
    assert len(calls) == 2


def test_an_error_does_not_end_it(caplog):
    turns = iter([1, 0, 0])
    done = threading.Semaphore(0)

    def work():
        done.release()
        1 / (1 - next(turns))

    periodic = Periodic("test", work, pause_s=lambda: 0.001)
    periodic.start()
    assert all(done.acquire(timeout=LONGEST_WAIT_S) for _ in range(2))
    periodic.stop(LONGEST_WAIT_S)
    assert "trying again" in caplog.text


def test_work_that_hangs_does_not_keep_the_process():
    begun, forever = threading.Event(), threading.Event()

    def hang():
        begun.set()
        forever.wait()

    periodic = Periodic("test", hang, pause_s=lambda: LONG_S)
    periodic.start()
    assert begun.wait(LONGEST_WAIT_S)
    assert not periodic.stop(0.05)
    forever.set()
