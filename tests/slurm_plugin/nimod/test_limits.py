"""Each limit of the table is reached by who uses too much, where it is used, and counted there."""

# ruff: noqa: SLF001 - parts are driven apart from their threads

import asyncio
import itertools
import os
import socket
import threading
from functools import partial
from types import SimpleNamespace

import pytest

from slurm_plugin.cli.fit_time import FitTimeLimit
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.context_builder import BudgetSpent
from slurm_plugin.nimod.access import ConnectionLimiter, UserNames
from slurm_plugin.nimod.answering.questions import Answerer, StoreQuestion
from slurm_plugin.nimod.connection import Connection, PeerClosed, Reply
from slurm_plugin.nimod.loop import Loop
from slurm_plugin.nimod.relay.frames import Frame
from slurm_plugin.nimod.relay.frames import Kind as FrameKind
from slurm_plugin.nimod.relay.gateway import Gateway
from slurm_plugin.nimod.relay.relay import Relay
from slurm_plugin.protocol.lines import MAX_ANSWER_BYTES, MAX_LINE_BYTES, AnswerTooLong, encode
from slurm_plugin.protocol.request_messages import Ask
from slurm_plugin.service.accountant import (
    LIMITS,
    NEWCOMERS,
    SERVICE,
    Accountant,
    FairQueues,
    Kind,
    Principal,
    Resource,
)
from slurm_plugin.slurm.view_texts import ViewTexts
from tests.slurm_plugin.nimod.handler import Handler

ME = os.geteuid()
MIB = 2**20


class Site:
    """A nimod's parts, with an accountant whose clock stands still."""

    def __init__(self, folder):
        self.accountant = Accountant(clock=lambda: 1000.0)
        self.user = self.accountant.of(Principal(Kind.USER, ME))
        self.link = self.accountant.of(Principal(Kind.LINK, "login1#1"))
        self.handler = Handler(folder, names={ME: "me"})
        self.handler.names.accountant = self.accountant
        self.channels = []

    def limiter(self, *, known=True):
        names = UserNames(own={ME: "me"} if known else {}, accountant=self.accountant)
        names.ask = lambda uid, then: None  # nobody's name is found
        return ConnectionLimiter(
            trusted=lambda uid: False, respond=lambda line, uid: Reply(b""), names=names
        )

    def pair(self):
        here, there = socket.socketpair()
        self.channels += [here, there]
        return here, there

    def enter(self, limiter, times):
        for _ in range(times):
            limiter.enter(self.pair()[0], lambda _: None)

    def serve(self, data, respond=lambda line, uid: Reply(b"")):
        here, there = self.pair()
        here.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
        peer = Connection(here, respond, uid=ME, account=self.user)
        there.setblocking(False)
        try:
            for start in range(0, len(data), 50_000):
                there.sendall(data[start : start + 50_000])
                peer.serve()
        except PeerClosed:
            peer.close()
        return peer

    def submit(self, data=b"x", times=1):
        gate = SimpleNamespace(submit=lambda *_: None)
        for _ in range(times):
            Gateway._submit(gate, Frame(FrameKind.ASK, 1, 7, data), self.link, lambda _: None)


def connections(site):
    for uid in range(4):
        account = site.accountant.of(Principal(Kind.USER, uid))
        while account.take(Resource.CONNECTIONS):
            pass


def user_arrivals(site):
    site.enter(site.limiter(), 41)


def user_requests(site):
    for _ in range(41):
        site.handler.respond(encode(Ask(op="status")), ME, remote=True)


def user_time(site):
    site.user.charge(Resource.PROCESSOR_TIME, 1.0)
    assert (
        b"5 % of a processor"
        in site.handler.respond(encode(Ask(op="status")), ME, remote=True).data
    )


def user_bytes_in(site):
    for _ in range(3):
        site.serve((b"x" * 200_000 + b"\n") * 20)


def user_bytes_held(site):
    site.held = [site.serve(b"\n", lambda line, uid: Reply(b"y" * 2 * MIB)) for _ in range(8)]


def user_questions(site):
    queues = FairQueues(Resource.QUESTIONS)
    for number in range(9):
        queues.put(site.user, number)


def user_request_bytes(site):
    site.serve(b"x" * 300_000)


def answered_with(site, error):
    """What the process that answers questions does where an answer ends so."""

    def answer(_question):
        raise error

    answerer = Answerer(None)
    answerer._accountant, answerer._answer = site.accountant, answer
    assert b'ok":false' in answerer.answer(StoreQuestion(Ask(op="report"), "me", private=False))


def user_answer_bytes(site):
    answered_with(site, AnswerTooLong())


def user_answer_time(site):
    answered_with(site, BudgetSpent())


def view(site):
    texts = ViewTexts(site.accountant)
    with texts.look():
        for number in range(6):
            texts.of_job({"user": "eve", "name": f"{number}" * MIB})


def user_fit(site):
    limit = FitTimeLimit(site.accountant, clock=lambda: 0.0)
    limit.took("eve", 301.0)
    assert not limit.may_go_on("eve")
    assert limit.may_go_on("bob")


def service_fit(site):
    now = [0.0]
    limit = FitTimeLimit(site.accountant, clock=lambda: now[0])
    now[0] = 601.0
    assert not limit.may_go_on("bob")


def user_in_work(site):
    answers = []
    relay = Relay(Config(), SimpleNamespace(ask=lambda *_: None), site.accountant)
    for _ in range(17):
        relay.respond(encode(Ask(op="status")), ME).query(answers.append)
    assert b"16 requests in work" in answers[0]


def lines(account):
    def log(_):
        for _ in range(2):
            account(_site).log(_log(), "a line")

    _site = None

    def drive(site):
        nonlocal _site
        _site = site
        log(site)

    return drive


def _log():
    import logging  # noqa: PLC0415 - the name is taken

    return logging.getLogger("test")


def newcomers(site):
    site.enter(site.limiter(known=False), 65)


def newcomers_arrivals(site):
    site.enter(site.limiter(known=False), 401)


def host_links(site):
    class Link:
        closed = 0

        def close(self):
            self.closed += 1

    async def serve(_link, _account):
        await asyncio.sleep(60)

    async def crowd():
        gate = SimpleNamespace(
            accountant=site.accountant,
            _account=lambda host: site.accountant.of(Principal(Kind.HOST, host)),
            _links={},
            _serve=serve,
        )
        follow = [
            asyncio.ensure_future(Gateway._follow(gate, Link(), "h", "login1", number))
            for number in range(5)
        ]
        await asyncio.sleep(0)
        assert len(gate._links) == 4
        for one in follow:
            one.cancel()

    asyncio.run(crowd())


def host_arrivals(site):
    gate = SimpleNamespace(
        accountant=site.accountant,
        _account=lambda host: site.accountant.of(Principal(Kind.HOST, host)),
    )
    assert sum(Gateway._may_come(gate, "login1") for _ in range(201)) == 200


def host_strangers(site):
    async def crowd():
        gate = SimpleNamespace(
            accountant=site.accountant,
            _account=lambda host: site.accountant.of(Principal(Kind.HOST, host)),
            _loop=asyncio.get_running_loop(),
            _numbers=itertools.count(),
            _strangers={},
            _gone=lambda number: None,
            _meet=lambda *_: asyncio.sleep(60),
        )
        gate._no_stranger = partial(Gateway._no_stranger, gate)
        for _ in range(33):
            Gateway._take_in(gate, None, "login1")
        assert len(gate._strangers) == 32
        for one in gate._strangers.values():
            one.task.cancel()

    asyncio.run(crowd())


def link_requests(site):
    for _ in range(801):
        site.submit()
        site.link.give_back(Resource.IN_WORK)
        site.link.give_back(Resource.BYTES_HELD, 1)


def link_in_work(site):
    site.submit(times=257)


def link_bytes_held(site):
    site.submit(b"x" * MIB, times=5)


def link_time(site):
    from slurm_plugin.nimod.request_handler import RemoteRequests  # noqa: PLC0415
    from slurm_plugin.nimod.request_handler import _RemoteRequest as Request  # noqa: PLC0415

    answers = []
    site.link.charge(Resource.PROCESSOR_TIME, 1.0)
    limiter = site.limiter()
    remote = RemoteRequests(None, limiter, limiter.names, site.handler.respond)
    remote._begin(Request(encode(Ask(op="status")), ME, site.link, answers.append))
    assert b"10 % of a processor" in answers[0]


def link_bytes_in(site):
    assert site.link.spend(Resource.BYTES_IN, 2 * MIB)
    assert not site.link.spend(Resource.BYTES_IN, 1)


def link_bytes_out(site):
    from slurm_plugin.nimod.relay.gateway import _answer  # noqa: PLC0415

    sent = []
    link = SimpleNamespace(has_room=lambda size: False, send=sent.append)
    _answer(link, site.link, {1: SimpleNamespace(cancel=lambda: None)}, 1, b"x")
    assert b"16 MiB to be sent" in sent[0].data


def service_descriptors(site):
    site.accountant.whole.take(Resource.DESCRIPTORS, 896)
    site.enter(site.limiter(), 1)


def service_time(site):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("")
    listener.listen()
    site.channels.append(listener)
    loop = Loop(listener, site.limiter(), clock=lambda: 0.0)
    loop._shut_for_a_moment(1.0)
    loop.close()


#: What reaches each limit.
DRIVERS = {
    (Kind.USER, Resource.CONNECTIONS): connections,
    (Kind.USER, Resource.ARRIVALS): user_arrivals,
    (Kind.USER, Resource.REQUESTS): user_requests,
    (Kind.USER, Resource.PROCESSOR_TIME): user_time,
    (Kind.USER, Resource.REQUEST_BYTES): user_request_bytes,
    (Kind.USER, Resource.ANSWER_BYTES): user_answer_bytes,
    (Kind.USER, Resource.ANSWER_TIME): user_answer_time,
    (Kind.USER, Resource.BYTES_IN): user_bytes_in,
    (Kind.USER, Resource.BYTES_HELD): user_bytes_held,
    (Kind.USER, Resource.QUESTIONS): user_questions,
    (Kind.USER, Resource.VIEW_BYTES): view,
    (Kind.USER, Resource.IN_WORK): user_in_work,
    (Kind.USER, Resource.FIT_TIME): user_fit,
    (Kind.USER, Resource.LOG_LINES): lines(lambda site: site.user),
    (Kind.NEWCOMERS, Resource.CONNECTIONS): newcomers,
    (Kind.NEWCOMERS, Resource.ARRIVALS): newcomers_arrivals,
    (Kind.NEWCOMERS, Resource.LOG_LINES): lines(lambda site: site.accountant.of(NEWCOMERS)),
    (Kind.HOST, Resource.LINKS): host_links,
    (Kind.HOST, Resource.ARRIVALS): host_arrivals,
    (Kind.HOST, Resource.CONNECTIONS): host_strangers,
    (Kind.HOST, Resource.LOG_LINES): lines(
        lambda site: site.accountant.of(Principal(Kind.HOST, "login1"))
    ),
    (Kind.LINK, Resource.REQUESTS): link_requests,
    (Kind.LINK, Resource.IN_WORK): link_in_work,
    (Kind.LINK, Resource.PROCESSOR_TIME): link_time,
    (Kind.LINK, Resource.BYTES_IN): link_bytes_in,
    (Kind.LINK, Resource.BYTES_HELD): link_bytes_held,
    (Kind.LINK, Resource.BYTES_OUT): link_bytes_out,
    (Kind.LINK, Resource.LOG_LINES): lines(lambda site: site.link),
    (Kind.SERVICE, Resource.DESCRIPTORS): service_descriptors,
    (Kind.SERVICE, Resource.PROCESSOR_TIME): service_time,
    (Kind.SERVICE, Resource.FIT_TIME): service_fit,
    (Kind.SERVICE, Resource.LOG_LINES): lines(lambda site: site.accountant.of(SERVICE)),
}


def service_lines(site):
    for number in range(61):
        account = site.accountant.of(Principal(Kind.HOST, number))
        account.log(_log(), "a line")


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    for channel in made.channels:
        channel.close()


def test_every_row_of_the_table_is_driven_beyond():
    rows = {(one.kind, one.resource) for one in LIMITS}
    assert rows - DRIVERS.keys() == {(Kind.SERVICE, Resource.LINES_OF_ALL)}
    assert DRIVERS.keys() <= rows


def test_the_table_has_the_sizes_of_the_protocol():
    accountant = Accountant()
    assert accountant.limit(Kind.USER, Resource.REQUEST_BYTES).most == MAX_LINE_BYTES
    assert accountant.limit(Kind.USER, Resource.ANSWER_BYTES).most == MAX_ANSWER_BYTES


@pytest.mark.parametrize("row", DRIVERS, ids="-".join)
def test_who_uses_more_than_the_table_allows_is_refused_and_counted(site, row):
    DRIVERS[row](site)
    assert site.accountant.refused[row] >= 1
    assert not site.accountant.lock.locked()
    assert threading.active_count() < 100


def test_lines_of_all_are_left_out_and_counted_for_who_caused_them(site, caplog):
    service_lines(site)
    assert len(caplog.records) == 60
    assert site.accountant.refused[Kind.HOST, Resource.LOG_LINES] == 1
