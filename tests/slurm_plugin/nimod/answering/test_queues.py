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
