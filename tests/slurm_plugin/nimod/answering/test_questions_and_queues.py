"""How long an answer may be, and how much is done for it before that is found."""

import pickle

import msgspec

from sacct_ingest.records import Identity
from sacct_ingest.store import Store
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.nimod.answering.process import FairQueues
from slurm_plugin.nimod.answering.questions import (
    Answerer,
    StateSender,
    StoreQuestion,
    WaitsQuestion,
    WorkerState,
)
from slurm_plugin.protocol.lines import MAX_ANSWER_BYTES
from slurm_plugin.protocol.request_messages import Ask
from slurm_plugin.wait_forecasts.forecasts import Outlooks, QueueRunTimes
from slurm_plugin.wait_forecasts.queued_starts import QueuedStarts
from tests.slurm_plugin.decision.test_eligibility_and_budget import site
from tests.slurm_plugin.made import stored, table
from tests.slurm_plugin.nimod.test_store_link import fit
from tests.slurm_plugin.wait_forecasts.test_simulated_queue import pending
from tests.steps import counting

#: A name of which each character takes six bytes of JSON.
NAME = "\x01" * 1000


def queue_of(*jobs):
    return QueuedStarts(pending={job.job_id: job for job in jobs})


def tasks_of_an_array(count, name="solve"):
    return [pending(n + 10, array_id=9, tasks=str(n), user="ann", name=name) for n in range(count)]


def answerer(starts=None, config=None, **options):
    state = WorkerState(lambda level, key: None)
    state.starts = starts or QueuedStarts()
    state.config = config or Config()
    return Answerer(state, **options)


def waits(**fields):
    return WaitsQuestion(Ask(op="waits", **fields), None, "ann")


def test_an_answer_that_would_be_too_long_is_refused_before_it_is_made():
    made = answerer(queue_of(*tasks_of_an_array(2_000, NAME)))
    numbers = range(1_000)
    few = msgspec.json.decode(made.answer(waits(job_ids=[9] * 500, tasks=list(numbers[:500]))))
    assert len(few["rows"]) == 500
    line = made.answer(waits(job_ids=[9] * 1000, tasks=list(numbers)))
    answer = msgspec.json.decode(line)
    assert len(line) < 1000
    assert (answer["ok"], "longer than 4 MiB; ask for fewer jobs" in answer["error"]) == (
        False,
        True,
    )


def test_a_request_about_each_task_of_a_split_array_looks_at_each_record_once():
    tasks = list(range(1_000))
    starts = queue_of(*tasks_of_an_array(1_000))
    with counting(most=200_000):
        rows = list(starts.queued([9] * 1_000, tasks, user=None, own="ann"))
    assert [row.task for row in rows] == tasks


def test_waits_that_take_too_much_processor_time_are_refused():
    ticks = iter(range(10**6))
    made = answerer(queue_of(*tasks_of_an_array(20)), cpu_clock=lambda: next(ticks) / 10)
    assert b"processor time; ask for fewer jobs" in made.answer(waits(job_ids=[9]))


def test_tables_beyond_what_an_answer_holds_are_left_off(tmp_path):
    config = Config(store=f"sqlite:///{tmp_path}/nimo.db")
    with Store.open(config.store_url) as store:
        wide = [table(level="tag", key=f"ann/a{n}", label=f"ann/a{n}", nodes=range(1, 300))
                for n in range(600)]  # fmt: skip
        store.fits.replace([fit(one) for one in wide])
    question = StoreQuestion(Ask(op="applications", every=True), None, private=False)
    line = answerer(config=config).answer(question)
    answer = msgspec.json.decode(line)
    assert MAX_ANSWER_BYTES // 2 < len(line) < MAX_ANSWER_BYTES
    assert len(answer["tables"]) + answer["left_off"] == 600
    assert answer["left_off"] > 0


def test_state_goes_over_whole_in_small_pieces_and_once():
    service = DecisionService(Config(), new_id=str)
    types = {("pine", f"n{n}"): "fast" for n in range(1_000)}
    service.tables = stored(table(), node_types=types, off=[("name", "alice/solve")])
    service.cluster = site()
    outlooks = Outlooks(QueueRunTimes(lambda: service.tables))
    sender = StateSender(service, outlooks)
    pieces = [pickle.dumps(piece) for piece in (*sender.for_advice(), *sender.for_waits())]
    assert max(map(len, pieces)) < 20_000
    assert list(sender.for_advice()) == list(sender.for_waits()) == []
    state = WorkerState(sender.text)
    for piece in pieces:
        state.take(pickle.loads(piece))
    assert state.service.cluster == service.cluster
    assert state.service.tables.node_types == types
    found = state.service.tables.find(Identity("alice", "solve"))
    assert found == table()
    assert state.service.tables.is_off(found)
    sender.forget()
    assert len(list(sender.for_advice())) > len(pieces) // 2


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
