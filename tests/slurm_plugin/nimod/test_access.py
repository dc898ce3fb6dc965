"""Who may connect, and how often they may ask."""

import os
import socket
import threading
import time

import pytest

from slurm_plugin.config.settings import Access
from slurm_plugin.nimod.access import NAMELESS, UNNAMED, ConnectionLimiter, UserNames
from slurm_plugin.nimod.connection import Reply
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import Ask
from slurm_plugin.service.request_rates import Rates
from tests.processes import LONGEST_WAIT_S
from tests.slurm_plugin.nimod.handler import Handler

ME = os.geteuid()


@pytest.fixture
def channels():
    pairs = [socket.socketpair() for _ in range(6)]
    yield [there for _, there in pairs]
    for pair in pairs:
        for channel in pair:
            channel.close()


def never(connection):
    raise AssertionError(connection)


def listener(names, *, trusted=False, **limits):
    return ConnectionLimiter(
        limits=Access(**limits),
        trusted=lambda uid: trusted,
        respond=lambda line, uid: Reply(b""),
        names=names,
    )


def test_requests_come_back_with_time():
    rates = Rates(2.0)
    assert [rates.allow(7, 10.0) for _ in range(5)] == [True] * 4 + [False]
    assert rates.allow(8, 10.0)
    assert [rates.allow(7, 10.6) for _ in range(2)] == [True, False]
    assert [rates.allow(7, 1e6) for _ in range(5)] == [True] * 4 + [False]


def test_a_user_is_let_in_when_the_name_is_available(channels):
    arrived = threading.Event()
    names = UserNames(lambda uid: "alice")
    at_limit = listener(names)
    assert at_limit.enter(channels[0], lambda _: arrived.set()) is None
    assert arrived.wait(LONGEST_WAIT_S)
    assert names.cached(ME) == "alice"
    assert at_limit.enter(channels[1], never) is not None


def test_slurmctld_waits_for_no_name(channels):
    hung = threading.Event()
    names = UserNames(lambda uid: str(hung.wait(LONGEST_WAIT_S)))
    listener(names).enter(channels[0], lambda _: None)
    connection = listener(names, trusted=True).enter(channels[1], never)
    assert connection.first
    hung.set()


def test_a_user_without_a_name_is_let_in_with_none(channels):
    def unknown(uid):
        raise KeyError(uid)

    arrived = threading.Event()
    names = UserNames(unknown)
    listener(names).enter(channels[0], lambda _: arrived.set())
    assert arrived.wait(LONGEST_WAIT_S)
    assert names.cached(ME) == ""


def test_connections_are_counted_until_they_are_over(channels):
    names = UserNames(lambda uid: "alice")
    recorded = threading.Event()
    names.ask(ME, recorded.set)
    assert recorded.wait(LONGEST_WAIT_S)
    at_limit = listener(names, connections=2)
    first, _, third = (at_limit.enter(channel, never) for channel in channels[:3])
    assert third is None
    at_limit.leave(first)
    assert at_limit.enter(channels[3], never) is not None


def test_slurmctld_is_not_counted(channels):
    at_limit = listener(UserNames(lambda uid: ""), trusted=True, connections=2)
    assert all(at_limit.enter(channel, never) for channel in channels)


def test_a_uid_without_a_name_is_looked_up_again_after_a_while():
    now, result = [0.0], []

    def look_up(uid):
        if not result:
            raise OSError("LDAP is away")
        return result[0]

    names = UserNames(look_up, clock=lambda: now[0])
    asked(names)
    assert names.cached(ME) == ""
    result.append("alice")
    asked(names)
    assert names.cached(ME) == ""
    now[0] = 61.0
    assert names.cached(ME) is None
    asked(names)
    assert names.cached(ME) == "alice"


def asked(names, uid=ME):
    done = threading.Event()
    names.ask(uid, done.set)
    assert done.wait(LONGEST_WAIT_S)


def test_a_crowd_of_users_leaves_places_for_the_next_one():
    """25 users take all that they may have, 16 each; the next ones are still let in."""
    limiter = listener(UserNames(own={uid: str(uid) for uid in range(105)}))
    places = [limiter.admit(uid) for uid in range(25) for _ in range(16)]
    assert len([uid for uid in places if uid is not None]) < 400
    assert [limiter.admit(uid) for uid in range(100, 105)] == list(range(100, 105))


def test_uids_without_a_name_share_the_places_of_one_user():
    """The subordinate uids of one account; another user comes in, whose name is not known yet."""
    names = UserNames({7: "alice"}.__getitem__)
    limiter = listener(names)
    crowd = range(100_000, 100_400)
    unnamed = [uid for uid in crowd if limiter.admit(uid) is not None]
    assert len(unnamed) == 64
    for uid in unnamed:
        asked(names, uid)
    counted = [limiter.admit_named(uid) for uid in unnamed]
    assert counted == [NAMELESS] * 16 + [None] * 48
    assert limiter.admit(100_000) is None
    assert limiter.admit(7) == UNNAMED
    asked(names, 7)
    assert limiter.admit_named(7) == 7
    limiter.give_back(NAMELESS)
    assert limiter.admit(100_050) == NAMELESS
    assert [names.account(uid) for uid in (7, 8, 100_001)] == [7, 8, NAMELESS]


def test_uids_without_a_name_share_the_requests_of_one_user(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    made, crowd = Handler(tmp_path, names={7: "alice"}), range(100_000, 100_060)
    for uid in crowd:
        asked(made.names, uid)
    line = encode(Ask(op="status"))
    answers = [made.respond(line, uid).data for uid in crowd]
    assert [b'"ok":true' in one for one in answers] == [True] * 40 + [False] * 20
    assert b'"ok":true' in made.respond(line, 7).data
