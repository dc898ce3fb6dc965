"""Accounts: nobody uses more than the table allows, each refusal is counted, few are in the log."""

import logging
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from slurm_plugin.service import accountant as accounts
from slurm_plugin.service.accountant import (
    LIMITS,
    NAMELESS,
    NEWCOMERS,
    Accountant,
    FairQueues,
    FairTurns,
    Kind,
    Principal,
    Resource,
)

HELD = [one for one in LIMITS if not one.per_s]
USED = [one for one in LIMITS if one.per_s]
LINES = (Resource.LOG_LINES, Resource.LINES_OF_ALL)
_LOG = logging.getLogger("test")


class Clock:
    """A clock that goes on when told."""

    now_s = 1000.0

    def __call__(self):
        return self.now_s


def made(**settings):
    clock = Clock()
    return Accountant(clock=clock, **settings), clock


def principal(limit, number):
    """One of several principals of the kind that a limit is about."""
    return Principal(limit.kind, number)


class Accounts(RuleBasedStateMachine):
    """Principals take, give back and spend at random while time goes by."""

    def __init__(self):
        super().__init__()
        self.accountant, self.clock = made()
        self.held = {}
        self.spent = {}
        self.logged = []
        self.refused = 0
        self.handler = logging.Handler()
        self.handler.emit = lambda record: self.logged.append((self.clock.now_s, record))
        logging.getLogger(accounts.__name__).addHandler(self.handler)

    def teardown(self):
        logging.getLogger(accounts.__name__).removeHandler(self.handler)

    @rule(limit=st.sampled_from(HELD), who=st.integers(0, 20), share=st.floats(0.01, 1.2))
    def take(self, limit, who, share):
        amount = share * limit.most
        if self.accountant.of(principal(limit, who)).take(limit.resource, amount):
            self.held.setdefault((limit, who), []).append(amount)
        else:
            self.refused += 1

    @rule(data=st.data())
    def give_back(self, data):
        if not self.held:
            return
        limit, who = data.draw(st.sampled_from(sorted(self.held, key=repr)))
        amount = self.held[limit, who].pop()
        if not self.held[limit, who]:
            del self.held[limit, who]
        self.accountant.of(principal(limit, who)).give_back(limit.resource, amount)

    @rule(limit=st.sampled_from(USED), who=st.integers(0, 20), share=st.floats(0.01, 1.0))
    def spend(self, limit, who, share):
        if limit.resource in LINES:
            return
        amount = share * limit.most
        if self.accountant.of(principal(limit, who)).spend(limit.resource, amount):
            self.spent.setdefault((limit, who), []).append((self.clock.now_s, amount))
        else:
            self.refused += 1

    @rule(seconds=st.floats(0.0, 300.0))
    def pass_time(self, seconds):
        self.clock.now_s += seconds

    @rule()
    def forget(self):
        """What a crowd of principals leads to; it may change nothing."""
        self.accountant.forget()

    @invariant()
    def nobody_holds_more_than_the_table_allows(self):
        for (limit, _), amounts in self.held.items():
            assert sum(amounts) <= limit.most * 1.000001
        for limit in HELD:
            together = sum(sum(some) for (its, _), some in self.held.items() if its is limit)
            assert together <= limit.all_most * 1.000001

    @invariant()
    def nobody_spends_more_than_comes_back(self):
        for (limit, _), amounts in self.spent.items():
            since_s = amounts[0][0]
            most = limit.most + (self.clock.now_s - since_s) * limit.per_s
            assert sum(amount for _, amount in amounts) <= most * 1.000001

    @invariant()
    def each_refusal_is_counted(self):
        assert sum(one.times for one in self.accountant.refusals()) == self.refused

    @invariant()
    def each_is_in_the_log_once_a_minute_at_most(self):
        for limit in LIMITS:
            for who in range(21):
                words = f"{principal(limit, who)} has"
                times = [at for at, record in self.logged if words in record.getMessage()]
                assert len(times) <= 1 + (self.clock.now_s - 1000.0) / 60.0


TestAccounts = Accounts.TestCase
TestAccounts.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda one: f"{one.kind}-{one.resource}")
def test_each_row_of_the_table_refuses_what_is_beyond_and_says_so(limit, caplog):
    accountant, clock = made()
    account = accountant.of(principal(limit, 7))
    act = account.spend if limit.per_s else account.take
    assert act(limit.resource, min(limit.most, limit.all_most * accounts.SHARE_LEFT))
    assert not act(limit.resource, limit.most)
    assert [tuple(one) for one in accountant.refusals()] == [(limit.kind, limit.resource, 1)]
    assert account.error(limit.resource).startswith(f"{limit.kind} 7 has reached the limit of ")
    if limit.resource not in LINES:
        assert [record.getMessage() for record in caplog.records] == [
            f"{account.error(limit.resource)}: {limit.beyond}"
        ]
    if limit.per_s:
        clock.now_s += limit.most / limit.per_s
        assert act(limit.resource, limit.most)
    else:
        account.give_back(limit.resource, limit.most)
        assert act(limit.resource, min(1.0, limit.most))


def test_requests_come_back_with_time():
    accountant, clock = made(requests_per_s=2.0)
    alice, bob = (accountant.of(Principal(Kind.USER, uid)) for uid in (7, 8))
    assert [alice.spend(Resource.REQUESTS) for _ in range(5)] == [True] * 4 + [False]
    assert bob.spend(Resource.REQUESTS)
    clock.now_s += 0.6
    assert [alice.spend(Resource.REQUESTS) for _ in range(2)] == [True, False]
    clock.now_s += 1e6
    assert [alice.spend(Resource.REQUESTS) for _ in range(5)] == [True] * 4 + [False]


def test_who_is_in_debt_waits_until_it_is_paid():
    accountant, clock = made()
    account = accountant.of(Principal(Kind.USER, 7))
    account.charge(Resource.PROCESSOR_TIME, 1.2)
    assert not account.spend(Resource.PROCESSOR_TIME, 0.0)
    assert account.wait_s(Resource.PROCESSOR_TIME) == pytest.approx(20.0)
    clock.now_s += 20.1
    assert account.spend(Resource.PROCESSOR_TIME, 0.0)


def test_uids_without_a_name_and_those_whose_name_is_looked_up_are_told_apart():
    accountant, _ = made()
    assert accountant.of(NAMELESS) is not accountant.of(NEWCOMERS)
    assert hash(-1) == hash(-2)  # of CPython: numbers of that kind were one and the same


def test_a_crowd_of_principals_makes_none_of_them_anew(monkeypatch):
    monkeypatch.setattr(accounts, "_REMEMBERED", 50)
    accountant, _ = made(requests_per_s=2.0)
    holding = accountant.of(Principal(Kind.USER, 7))
    assert holding.take(Resource.CONNECTIONS)
    for uid in range(100, 1000):
        accountant.of(Principal(Kind.USER, uid)).spend(Resource.REQUESTS)
    assert accountant.of(Principal(Kind.USER, 7)) is holding
    assert len(accountant) <= 50


def test_lines_of_all_together_are_few_too(caplog):
    accountant, _ = made()
    for number in range(500):
        accountant.of(Principal(Kind.HOST, number)).log(_LOG, "host %d", number)
    assert len(caplog.records) == 60
    assert [tuple(one) for one in accountant.refusals()] == [(Kind.HOST, Resource.LOG_LINES, 440)]


def test_accounts_of_several_threads_lose_nothing():
    accountant, _ = made()
    account = accountant.of(Principal(Kind.LINK, 1))

    def work():
        for _ in range(5_000):
            assert account.take(Resource.IN_WORK)
            account.give_back(Resource.IN_WORK)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not account.holds
    assert accountant.totals[Kind.LINK, Resource.IN_WORK] == 0


class Queues:
    """Queues of items of users, by number."""

    def __init__(self, **limits):
        self.accountant = Accountant()
        self.queues = FairQueues(Resource.QUESTIONS)

    def of(self, number):
        return self.accountant.of(Principal(Kind.USER, number))

    def put(self, number, item):
        return self.queues.put(self.of(number), item)

    def take(self):
        return self.queues.take()

    def release(self, number):
        self.queues.release(self.of(number))

    def charge(self, number, seconds):
        self.queues.charge(self.of(number), seconds)


def test_accounts_take_turns_however_many_questions_one_has():
    queues = Queues()
    assert [queues.put(1, f"crowd {n}") for n in range(9)] == [True] * 8 + [False]
    assert queues.put(2, "honest")
    order = []
    while (item := queues.take()) is not None:
        order.append(item)
        queues.release(1 if item.startswith("crowd") else 2)
    assert order == ["crowd 0", "honest", *(f"crowd {n}" for n in range(1, 8))]


def test_the_next_of_an_account_waits_until_its_last_answer_was_taken():
    queues = Queues()
    for item in ("first", "second"):
        queues.put(1, item)
    queues.put(2, "other")
    assert [queues.take() for _ in range(3)] == ["first", "other", None]
    queues.release(1)
    assert queues.take() == "second"


def test_one_in_work_counts():
    queues = Queues()
    assert [queues.put(1, n) for n in range(8)] == [True] * 8
    queues.take()
    assert not queues.put(1, 8)
    queues.release(1)
    assert queues.put(1, 8)


def served(queues, took_s, times):
    """Serve accounts that ask anew at once, so often; give whose turns came."""
    turns = []
    for _ in range(times):
        turns.append(account := queues.take())
        queues.charge(account, took_s[account])
        queues.release(account)
        queues.put(account, account)
    return turns


def test_who_comes_after_a_pause_waits_for_the_one_in_work_only():
    queues = Queues()
    for account in (1, 2, 3):
        queues.put(account, account)
    served(queues, {1: 0.0211, 2: 0.0345, 3: 0.0557}, 20)
    queues.put(9, 9)
    assert queues.take() == 9


def test_long_questions_get_their_share_and_a_pause_earns_none():
    queues = Queues()
    queues.put(1, 1)
    served(queues, {1: 5.0}, 10)
    queues.put(2, 2)
    turns = served(queues, {1: 5.0, 2: 1.0}, 60)
    assert 8 <= turns.count(1) <= 12
    assert 1 in turns[:12]


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.001, 1.0)), min_size=40, max_size=80))
def test_whoever_always_waits_gets_as_much_as_anybody(costs):
    """Of accounts that always wait no two are further apart than one turn of each."""
    accountant, turns = Accountant(), FairTurns()
    crowd = [accountant.of(Principal(Kind.USER, n)) for n in range(4)]
    took = dict.fromkeys(crowd, 0.0)
    for _, seconds in costs:
        account = min(crowd, key=turns.took)
        turns.serve(account)
        turns.charge(account, seconds)
        took[account] += seconds
    assert max(took.values()) - min(took.values()) <= 2.0
