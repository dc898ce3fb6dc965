"""Whose question is next."""

from slurm_plugin.nimod.answering.process import FairQueues


def test_accounts_take_turns_however_many_questions_one_has():
    queues = FairQueues(each=8)
    assert [queues.put(1, f"crowd {n}") for n in range(9)] == [True] * 8 + [False]
    assert queues.put(2, "honest")
    order = []
    while (item := queues.take()) is not None:
        order.append(item)
        queues.release(1 if item.startswith("crowd") else 2)
    assert order == ["crowd 0", "honest", *(f"crowd {n}" for n in range(1, 8))]


def test_the_next_of_an_account_waits_until_its_last_answer_was_taken():
    queues = FairQueues()
    for item in ("first", "second"):
        queues.put(1, item)
    queues.put(2, "other")
    assert [queues.take() for _ in range(3)] == ["first", "other", None]
    queues.release(1)
    assert queues.take() == "second"


def test_one_in_work_counts_and_so_do_all_together():
    queues = FairQueues(each=2, most=3)
    assert [queues.put(1, n) for n in range(3)] == [True, True, False]
    queues.take()
    assert not queues.put(1, 3)
    assert [queues.put(account, account) for account in (2, 3, 4)] == [True, True, False]


def served(queues: FairQueues, took_s: dict[int, float], times: int) -> list[int]:
    """Serve accounts that ask anew at once, so often; give whose turns came."""
    turns = []
    for _ in range(times):
        turns.append(account := queues.take())
        queues.charge(account, took_s[account])
        queues.release(account)
        queues.put(account, account)
    return turns


def test_who_comes_after_a_pause_waits_for_the_one_in_work_only():
    queues = FairQueues()
    for account in (1, 2, 3):
        queues.put(account, account)
    served(queues, {1: 0.0211, 2: 0.0345, 3: 0.0557}, 20)
    queues.put(9, 9)
    assert queues.take() == 9


def test_long_questions_get_their_share_and_a_pause_earns_none():
    queues = FairQueues()
    queues.put(1, 1)
    served(queues, {1: 5.0}, 10)
    queues.put(2, 2)
    turns = served(queues, {1: 5.0, 2: 1.0}, 60)
    assert 8 <= turns.count(1) <= 12
    assert 1 in turns[:12]
