"""Gateway and uplink: answers, every way in which there is none, and what users may ask."""

# ruff: noqa: SLF001 - a gateway is driven apart from its thread

import asyncio
import json
import os
import pwd
import socket
import time
from types import SimpleNamespace

import pytest

from sacct_ingest.store import Store
from slurm_plugin.config.setting_types import Address
from slurm_plugin.config.settings import Config, RelaySettings
from slurm_plugin.nimod import client
from slurm_plugin.nimod.relay import gateway
from slurm_plugin.nimod.relay import relay as uplink
from slurm_plugin.nimod.relay.gateway import Gateway
from slurm_plugin.nimod.relay.handshake import Greeting
from slurm_plugin.nimod.relay.relay import Relay
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import Ask, Command
from slurm_plugin.protocol.version import VERSION
from slurm_plugin.service.accountant import Accountant, Kind, Resource
from tests.cluster.host import missing_programs
from tests.conftest import unavailable
from tests.processes import LONGEST_WAIT_S, wait_until
from tests.slurm_plugin.made import job, table
from tests.slurm_plugin.nimod.own_nimod import SLURM
from tests.slurm_plugin.nimod.relay.credentials import munged
from tests.slurm_plugin.nimod.relay.links import HOST, asked, echo, listening, port
from tests.slurm_plugin.reports.rows import decision

USER = 4711


def error_of(link):
    answer, _ = asked(link)
    reported = json.loads(answer)
    assert (reported["ok"], reported.get("link_down")) == (False, True)
    return reported["error"]


def trouble(link):
    (state,) = link.state()
    return state.trouble


def test_a_request_goes_up_and_its_answer_comes_back(links):
    at = port()
    gate = links.gateway(at)
    link = links.uplink(at)
    assert asked(link, b"line\n", 7)[0] == b"7:line\n"
    wait_until(lambda: gate.relays == [socket.gethostname()], what="the relay's name")
    (state,) = link.state()
    assert (state.used, state.auth, abs(state.clock_offset_s) < 60) == (True, "munge", True)


def test_requests_are_answered_as_they_are_done_not_as_they_came(links):
    at, first = port(), []

    def submit(line, uid, account, done):
        if line == b"slow\n":
            first.append(done)
        else:
            echo(line, uid, account, done)

    links.gateway(at, submit)
    link = links.uplink(at)
    slow = []
    link.ask(b"slow\n", 1, slow.append)
    assert asked(link, b"fast\n")[0] == b"7:fast\n"
    first[0](b"done\n")
    wait_until(lambda: slow == [b"done\n"], what="the first answer")


def test_without_a_link_the_answer_comes_at_once_and_names_host_and_fix(links):
    at = port()
    link = links.uplink(at, up=False)
    wait_until(lambda: "refused" in trouble(link), what="an attempt")
    error = error_of(link)
    assert f"no link to nimod on {HOST}:{at}: connection refused" in error
    assert "relay.listen" in error


def test_a_cut_link_fails_what_waits_and_is_made_anew(links):
    at = port()
    gate = links.gateway(at, lambda *_: None)
    link = links.uplink(at)
    answers = []
    link.ask(b"line\n", 1, answers.append)
    gate.close()
    wait_until(lambda: bool(answers), what="the answer")
    assert len(answers) == 1
    assert "the link was cut" in json.loads(answers[0])["error"]
    links.gateway(at)
    wait_until(lambda: not trouble(link), what="a new link")
    assert asked(link)[0] == b"7:line\n"


def test_a_link_on_which_nothing_comes_is_given_up(links, monkeypatch):
    monkeypatch.setattr(uplink, "PING_S", LONGEST_WAIT_S)
    monkeypatch.setattr(uplink, "SILENCE_S", 0.05)
    at = port()
    links.gateway(at)
    link = links.uplink(at, up=False)
    wait_until(lambda: "no answer" in trouble(link), what="the end of the link")
    assert "no answer" in error_of(link)


def test_a_relay_that_says_nothing_is_given_up(links, monkeypatch):
    monkeypatch.setattr(uplink, "PING_S", LONGEST_WAIT_S)
    monkeypatch.setattr(gateway, "SILENCE_S", 0.05)
    at = port()
    gate = links.gateway(at)
    link = links.uplink(at, up=False)
    wait_until(lambda: "cut" in trouble(link), what="the end of the link")
    wait_until(lambda: gate.relays == [], what="the gateway to forget it")
    assert gate.relays == []


def test_an_impostor_is_named_and_gets_nothing(links):
    at = port()
    links.patch.setattr("slurm_plugin.nimod.relay.handshake.os.geteuid", lambda: 0)
    links.gateway(at, uid=USER)
    link = links.uplink(at, up=False)
    wait_until(lambda: "not linked yet" not in trouble(link), what="an attempt")
    assert f"{HOST}:{at}" in error_of(link)
    assert "Unauthorized" in error_of(link) or f"uid {USER}" in error_of(link)


def test_another_release_is_named(links):
    at = port()
    with listening(at) as listener:
        link = links.uplink(at, up=False)
        peer, _ = listener.accept()
        peer.sendall(encode(Greeting(v=VERSION + 1, release="9.9", uid=os.geteuid())))
        wait_until(lambda: "9.9" in trouble(link), what="the greeting to be read")
        peer.close()
    assert "install the same release" in trouble(link)


def test_a_crowd_of_strangers_keeps_no_relay_out(links, monkeypatch):
    monkeypatch.setattr(gateway, "HANDSHAKE_S", LONGEST_WAIT_S)
    at = port()
    links.gateway(at)
    crowd = [socket.create_connection((HOST, at)) for _ in range(100)]
    try:
        link = links.uplink(at)
        assert asked(link)[0] == b"7:line\n"
        # The oldest were sent away: their end is all that comes after the greeting.
        crowd[0].settimeout(LONGEST_WAIT_S)
        while crowd[0].recv(4096):
            pass
    finally:
        for one in crowd:
            one.close()


@pytest.mark.parametrize("data", [b"", b"{", b"x" * 100_000, b"{}\n"])
def test_whoever_does_not_say_who_it_is_in_time_is_cut_off(links, monkeypatch, data):
    monkeypatch.setattr(gateway, "HANDSHAKE_S", 0.2)
    at, submitted = port(), []
    links.gateway(at, lambda *given: submitted.append(given))
    with socket.create_connection((HOST, at)) as stranger:
        stranger.settimeout(LONGEST_WAIT_S)
        stranger.sendall(data)
        try:
            while stranger.recv(4096):
                pass
        except ConnectionResetError:
            pass
    assert submitted == []


def test_requests_go_where_slurmctld_asked_last_and_elsewhere_when_that_is_gone(links):
    first, second = port(), port()
    ages = {first: None, second: None}

    def answer(name):
        return lambda line, uid, account, done: done(name)

    gates = {
        at: links.gateway(at, answer(name), asked_s=lambda at=at: ages[at])
        for at, name in ((first, b"first\n"), (second, b"second\n"))
    }
    link = links.uplink(first, second)
    assert asked(link)[0] == b"first\n"
    ages[second] = 5.0  # a takeover: there slurmctld asks now
    wait_until(lambda: asked(link)[0] == b"second\n", what="the relay to follow")
    ages[first] = 1.0
    wait_until(lambda: asked(link)[0] == b"first\n", what="the relay to follow back")
    gates[first].close()
    wait_until(lambda: asked(link)[0] == b"second\n", what="the relay to go on with the other")


def test_a_slow_controller_is_asked_no_more_while_another_answers(links):
    first, second = port(), port()
    links.gateway(second, lambda line, uid, account, done: done(b"second\n"))
    with listening(first):  # takes connections and says nothing
        link = links.uplink(first, second, up=False)
        wait_until(lambda: any(not one.trouble for one in link.state()), what="a link")
        assert asked(link)[0] == b"second\n"


def test_a_relay_that_asks_too_much_at_once_is_warned(links):
    at = port()
    links.gateway(at, lambda *_: None)
    link = links.uplink(at)
    answers = []
    for _ in range(258):
        link.ask(b"line\n", 1, answers.append)
    wait_until(lambda: len(answers) == 2, what="the refusals")
    time.sleep(0.05)
    errors = [json.loads(one)["error"] for one in answers]
    assert ["limit of 256 requests in work" in error for error in errors] == [True] * 2


def test_a_host_has_few_links_and_is_one_line_in_the_log(links, caplog):
    """Root of a login node makes a thousand: four are taken, and leave descriptors for others."""
    caplog.set_level("INFO")
    at, accountant = port(), Accountant()
    gate = links.gateway(at, accountant=accountant)
    crowd = [links.uplink(at, up=False) for _ in range(9)]
    wait_until(lambda: accountant.refused[Kind.HOST, Resource.LINKS] >= 5, what="the refusals")
    assert len(gate.relays) == 4
    assert accountant.whole.held(Resource.DESCRIPTORS) <= 9
    caused = ("is linked", ": no link", "has reached the limit")
    lines = [record.getMessage() for record in caplog.records]
    assert sum(any(words in line for words in caused) for line in lines) == 1, lines
    for link in crowd:
        link.close()
    wait_until(lambda: not accountant.whole.holds, what="the descriptors to be given back")
    assert links.uplink(at).state()[0].trouble == ""


def test_notices_without_end_are_read_no_faster_than_a_link_may_and_fill_no_memory(links):
    """Each costs more to read than to send; nothing takes them: what is in work stays bounded."""
    at, accountant, waiting = port(), Accountant(), []
    links.gateway(at, lambda *request: waiting.append(request), accountant=accountant)
    link = links.uplink(at)
    line = b"x" * 250_000 + b"\n"
    for uid in range(100):
        link.notify(line, uid)
    wait_until(lambda: accountant.refused[Kind.LINK, Resource.BYTES_HELD] > 10, what="the refusals")
    assert sum(len(data) for data, *_ in waiting) <= 4 * 2**20
    wait_until(
        lambda: accountant.refused[Kind.LINK, Resource.BYTES_IN] > 0, what="it to read no more"
    )
    for _, _, _, done in waiting:
        done(b"")
    account = waiting[0][2]
    assert account.held(Resource.BYTES_HELD) == account.held(Resource.IN_WORK) == 0


def test_an_answer_that_no_frame_holds_cuts_nobody_off(links):
    def submit(line, uid, account, done):
        done(b"x" * (20 * 2**20) if line == b"long\n" else line)

    at = port()
    links.gateway(at, submit)
    link = links.uplink(at)
    answers = []
    link.ask(b"long\n", 1, answers.append)
    assert asked(link, b"short\n")[0] == b"short\n"
    assert "the limit of 16 MiB to be sent" in json.loads(answers[0])["error"]
    assert "link_down" not in json.loads(answers[0])


def test_a_user_has_few_long_answers_at_a_time():
    relay = Relay(Config(), uplink=SimpleNamespace(ask=print), accountant=Accountant())
    line = encode(Ask(op="report"))
    replies = [relay.respond(line, 7) for _ in range(9)]
    assert [reply.query is not None for reply in replies] == [True] * 8 + [False]
    assert "limit of 8 questions that wait" in json.loads(replies[-1].data)["error"]
    assert relay.respond(line, 8).query is not None
    replies[0].taken()
    assert relay.respond(line, 7).query is not None


def test_a_link_that_takes_too_little_refuses_and_is_not_cut_off():
    accountant, sent, answers = Accountant(), [], []
    router = uplink.RequestRouter([Address("here", 1)], lambda *_: None, accountant)
    router.controllers[0].link = SimpleNamespace(has_room=lambda size: False, send=sent.append)
    router.ask(b"line\n", 7, answers.append)
    router.notify(b"line\n", 7)
    assert sent == []
    assert "16 MiB to be sent" in json.loads(answers[0])["error"]
    assert accountant.refused[Kind.LINK, Resource.BYTES_OUT] == 2


def test_a_crowd_of_strangers_of_one_host_sends_away_none_of_another():
    async def crowd():
        gate = Gateway(
            RelaySettings(listen="127.0.0.1:1", auth="munge"),
            submit=echo,
            asked_s=lambda: None,
            accountant=Accountant(),
        )
        gate._loop = asyncio.get_running_loop()

        async def meet(channel, host, number):
            await asyncio.sleep(LONGEST_WAIT_S)

        gate._meet = meet
        for host in ["login1"] * 2 + ["login2"] * 200 + ["login3"] * 200:
            assert gate.accountant.whole.take(Resource.DESCRIPTORS)
            gate._take_in(None, host)
            await asyncio.sleep(0)
        strangers = [one.account.principal.name for one in gate._strangers.values()]
        for one in gate._strangers.values():
            one.task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return strangers, gate

    strangers, gate = asyncio.run(crowd())
    assert strangers.count("login1") == 2
    assert strangers.count("login2") == 32
    assert 20 <= strangers.count("login3") <= 32
    assert gate._strangers == {}
    assert not gate.accountant.totals[Kind.HOST, Resource.CONNECTIONS]
    assert not gate.accountant.whole.holds


NOBODY = pwd.getpwnam("nobody").pw_uid
GAMES = pwd.getpwnam("games").pw_uid
PRIVATE = SLURM.replace('"ClusterName = pine"', '"ClusterName = pine\nPrivateData = jobs"')
MINE = {"level": "line", "key": "a1", "label": "nobody/solve"}
THEIRS = {"level": "line", "key": "b2", "label": "games/solve"}


@pytest.fixture
def site(in_the_open, links):
    links.patch.setattr(uplink, "PENDING_S", LONGEST_WAIT_S)
    if "munged" in missing_programs():
        unavailable("not installed: munged")
    with munged(in_the_open.folder / "munge") as munge_socket:
        settings = RelaySettings(listen=f"{HOST}:{port()}", munge_socket=munge_socket)
        in_the_open.fit(table(**MINE), table(**THEIRS))
        in_the_open.settings = settings

        at = int(settings.listen.partition(":")[2])
        in_the_open.link = lambda: links.uplink(at, settings=settings)
        yield in_the_open


def begin(site, slurm=SLURM):
    site.set_slurm(slurm)
    site.start(relay=site.settings)
    site.see_cluster()
    return site.link()


def answer(link, ask, uid):
    return json.loads(asked(link, encode(ask), uid)[0])


def test_status_names_the_relays(site):
    link = begin(site)
    assert answer(link, Ask(op="status"), NOBODY)["relays"] == [os.uname().nodename]


def test_decisions_and_reloads_are_not_for_login_nodes_not_even_for_their_root(site):
    link = begin(site)
    for uid in (0, NOBODY):
        for op in ("decide", "reload"):
            reported = answer(link, Ask(op=op, job=job()), uid)
            assert (reported["ok"], reported["error"]) == (False, f"{op} is not for user {uid}")
    with Store.open(site.url) as store:
        assert list(store.decisions.with_outcomes()) == []


def test_users_ask_about_their_own_jobs_only(site):
    link = begin(site)
    own = answer(link, Ask(op="advise", job=job(user_id=None, user_name="")), NOBODY)
    assert own["ok"]
    reported = answer(link, Ask(op="advise", job=job(user_id=GAMES, user_name="games")), NOBODY)
    assert not reported["ok"]
    assert "not for user" in reported["error"]
    assert not answer(link, Ask(op="advise", job=job()), 0)["ok"], (
        "root there is a user like others"
    )


@pytest.mark.parametrize("private", [False, True])
def test_applications_are_shown_as_to_users_here(site, private):
    link = begin(site, PRIVATE if private else SLURM)
    own = answer(link, Ask(op="applications"), NOBODY)
    assert [one["label"] for one in own["tables"]] == ["nobody/solve"]
    theirs = answer(link, Ask(op="applications", name="games/solve"), NOBODY)
    assert len(theirs["tables"]) == (0 if private else 1)
    assert answer(link, Ask(op="applications"), 0)["tables"] == []
    assert "has no name" in answer(link, Ask(op="applications"), 4_000_000)["error"]


def test_a_decision_is_for_its_owner(site):
    with Store.open(site.url) as store:
        store.decisions.add([decision(decision_id=f"{1:012x}", user="games", name="solve")])
    link = begin(site)
    ask = Ask(op="explain", job_id=17, decision_id=f"{1:012x}")
    assert answer(link, ask, NOBODY)["decision"] is None


def test_a_rate_holds_over_all_relays(site):
    first = begin(site)
    second = site.link()
    reported = [
        answer(link, Ask(op="status"), NOBODY) for _ in range(40) for link in (first, second)
    ]
    refused = [one["error"] for one in reported if not one["ok"]]
    assert refused
    assert set(refused) == {
        f"user {NOBODY} has reached the limit of 20 requests a second; wait a moment"
    }
    assert answer(second, Ask(op="status"), GAMES)["ok"], "another user's rate is another"
    assert client.status(site.socket, timeout_s=60).ok


def test_a_command_is_prepared_as_its_user(site):
    link = begin(site)
    command = Command(argv=["solve.sh"], script="#!/bin/sh\n", options={"nodes": "1-8"})
    assert "error" not in answer(link, Ask(op="prepare", command=command), NOBODY)
