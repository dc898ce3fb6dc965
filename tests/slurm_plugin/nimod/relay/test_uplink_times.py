"""How long a user of a login node waits for nothing: by a clock of the test's own."""

import heapq
import ssl
from itertools import count

import msgspec
import pytest

from slurm_plugin.cli import advise
from slurm_plugin.config.setting_types import address
from slurm_plugin.nimod.client import LinkDown
from slurm_plugin.nimod.relay import relay as module
from slurm_plugin.nimod.relay.frames import Frame, Kind, LinkError
from slurm_plugin.nimod.relay.handshake import Greeting
from slurm_plugin.nimod.relay.relay import RequestRouter
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import Ask
from slurm_plugin.service.accountant import Accountant
from tests.slurm_plugin.nimod.test_client_and_skew import server

#: Longest that a user may wait for the message that there is no answer, seconds.
MOST_S = 0.2
LINE = encode(Ask(op="advise"))


class VirtualTime:
    """Calls what is due when the test says that time passes."""

    def __init__(self):
        self.now_s = 0.0
        self._due = []
        self._numbers = count()

    def call_later(self, delay_s, call, *args):
        timer = Timer(call, args)
        heapq.heappush(self._due, (self.now_s + delay_s, next(self._numbers), timer))
        return timer

    def advance_to_next(self):
        self.now_s, _, timer = heapq.heappop(self._due)
        timer.run()


class Timer:
    def __init__(self, call, args):
        self._call, self._args, self._cancelled = call, args, False

    def cancel(self):
        self._cancelled = True

    def run(self):
        if not self._cancelled:
            self._call(*self._args)


class SilentLink:
    """A link on which nothing comes back."""

    def __init__(self):
        self.sent = []

    def send(self, frame):
        self.sent.append(frame)

    def has_room(self, size):
        return True


class Waiting:
    """A user's request, and when it was answered."""

    def __init__(self, relay, time):
        self.answer = None
        self.took_s = -1.0
        began_s = time.now_s

        def done(line):
            self.answer = msgspec.json.decode(line, type=Answer)
            self.took_s = time.now_s - began_s

        relay.ask(LINE, 1000, done)


@pytest.fixture
def time():
    return VirtualTime()


@pytest.fixture
def relay(time):
    controllers = [address("ctl1:7734"), address("ctl2:7734")]
    return RequestRouter(controllers, time.call_later, Accountant())


def link_up(relay, number=0):
    link = SilentLink()
    relay.linked(relay.controllers[number], link, Greeting(), 0.0)
    return link


def is_down(waiting, host):
    assert (waiting.answer.ok, waiting.answer.link_down) == (False, True)
    assert host in waiting.answer.error
    assert 0.0 <= waiting.took_s < MOST_S


TROUBLES = {
    "cut": EOFError(),
    "refused": ConnectionRefusedError(111, "refused"),
    "no packet comes back": TimeoutError(),
    "wrong version": LinkError("version 2; nimod here speaks 1"),
    "impersonated": LinkError("uid 1001 has answered in nimod's place"),
    "impersonated, TLS": ssl.SSLCertVerificationError("certificate of another host"),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_what_waits_when_a_link_breaks_is_answered_at_once_and_so_is_what_comes_later(
    relay, time, trouble
):
    link_up(relay)
    before = Waiting(relay, time)
    assert before.answer is None
    relay.lost(relay.controllers[0], trouble)
    is_down(before, "ctl1:7734")
    assert before.took_s == 0.0
    after = Waiting(relay, time)
    is_down(after, "ctl1:7734")
    assert after.took_s == 0.0


def test_before_the_first_link_the_answer_comes_at_once(relay, time):
    is_down(Waiting(relay, time), "ctl1:7734")


def test_a_controller_that_says_nothing_is_given_up_in_time(relay, time):
    link = link_up(relay)
    waiting = Waiting(relay, time)
    assert [frame.kind for frame in link.sent] == [Kind.ASK]
    time.advance_to_next()
    is_down(waiting, "ctl1:7734")
    assert waiting.took_s == module.ANSWER_S


def test_an_answer_of_which_word_came_that_it_takes_longer_has_its_own_time(relay, time):
    link = link_up(relay)
    answered, silent = Waiting(relay, time), Waiting(relay, time)
    for frame in link.sent:
        relay.received(relay.controllers[0], Frame(Kind.PENDING, frame.number))
    for _ in range(2):  # the first time that they had
        time.advance_to_next()
    assert (answered.answer, silent.answer, time.now_s) == (None, None, module.ANSWER_S)
    line = encode(Answer(ok=True))
    relay.received(relay.controllers[0], Frame(Kind.ANSWER, link.sent[0].number, data=line))
    assert answered.answer == Answer(ok=True)
    while silent.answer is None:
        time.advance_to_next()
    assert (silent.took_s, silent.answer.link_down) == (module.PENDING_S, True)


def test_the_second_controller_is_asked_by_the_next_not_after_the_first(relay, time):
    """One request never waits for both, one after the other."""
    first, second = link_up(relay, 0), link_up(relay, 1)
    waiting = Waiting(relay, time)
    time.advance_to_next()
    is_down(waiting, "ctl1:7734")
    assert (len(first.sent), len(second.sent)) == (1, 0)
    Waiting(relay, time)
    assert (len(first.sent), len(second.sent)) == (1, 1)


def test_the_command_ends_with_the_link_and_waits_for_nothing_else(tmp_path, monkeypatch, capsys):
    """It asks once: no second attempt, no store, no pause."""
    path = tmp_path / "nimod.sock"
    (tmp_path / "nimo.yaml").write_text(f"socket: {path}\n")
    (tmp_path / "job.sh").write_text("#!/bin/sh\nsrun ./a\n")
    monkeypatch.setenv("NIMO_CONFIG", str(tmp_path / "nimo.yaml"))
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it sleeps"))
    cut = encode(Answer(ok=False, error="no link to nimod on ctl1:7734: why", link_down=True))
    with server(path, cut) as asked:
        assert advise.main([str(tmp_path / "job.sh")]) == LinkDown.exit_status == 74
    assert len(asked) == 1
    assert "ctl1:7734" in capsys.readouterr().err
