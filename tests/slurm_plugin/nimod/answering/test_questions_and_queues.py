"""How long an answer may be, and how much is done for it before that is found."""

import pickle

import msgspec
import pytest
from msgspec.structs import replace

from predictor.neighbours import AskedJob, Neighbours, PastJob, PastJobs, words_of
from predictor.stored_table import encode
from sacct_ingest.records import Identity, Probe, Resource
from sacct_ingest.store import Store
from slurm_plugin.config.setting_types import Whose
from slurm_plugin.config.settings import Advise, Config, Sharing
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.nimod.answering import questions
from slurm_plugin.nimod.answering.questions import (
    Answerer,
    StateSender,
    StoreQuestion,
    WaitsQuestion,
    WorkerState,
)
from slurm_plugin.protocol.lines import MAX_ANSWER_BYTES
from slurm_plugin.protocol.request_messages import Ask, Job
from slurm_plugin.protocol.status_messages import Waits
from slurm_plugin.slurm.cluster_state import Awaited, ClusterViews, nothing_awaited
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


def answerer(starts=None, config=None, tables=None, **options):
    state = WorkerState(lambda level, key: None)
    state.service.tables = tables or PredictionLookup()
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


def guessing(first_runs, *users, more=()):
    """What answers about three jobs of ann and one of bob, where these users ran jobs."""
    asked = AskedJob(1, partition="batch", limit_s=3600.0, words=words_of("new"))
    past = [PastJob(user, 0.0, 1.0, 600.0, asked) for user in users for _ in range(5)]
    neighbours = Neighbours(msgspec.json.encode(PastJobs(past)).decode())
    queue = queue_of(
        *(
            pending(n, user=user, name=name, command="/home/ann/new.sh in", limit_s=3600.0)
            for n, user, name in ((1, "ann", "new"), (2, "ann", "new"), (3, "bob", "new"))
        ),
        pending(4, user="ann", name="solve"),
        *more,
    )
    ran = table(level="name", key="ann/solve", label="ann/solve", owner="ann")
    tables = PredictionLookup([(ran.level, ran.key, encode(ran))], neighbours=neighbours)
    return answerer(queue, Config(sharing=Sharing(first_runs=first_runs)), tables)


@pytest.mark.parametrize(
    ("first_runs", "users", "private", "guessed"),
    [
        (Whose.OWN, ("ann",), False, True),
        (Whose.OWN, ("bob", "zoe", "kim"), False, False),
        (Whose.SITE, ("bob", "zoe", "kim"), False, True),
        (Whose.SITE, ("bob", "zoe", "kim"), True, False),
    ],
)
def test_own_jobs_whose_command_never_ran_are_told_a_guess(first_runs, users, private, guessed):
    made = guessing(first_runs, *users)
    question = WaitsQuestion(
        Ask(op="waits", job_ids=[1, 2, 3, 4]), None, "ann", guesses_for="ann", private=private
    )
    rows = msgspec.json.decode(made.answer(question), type=Waits).rows
    assert [row.guess_s is not None for row in rows] == [guessed, guessed, False, False]
    if guessed:
        assert 300 < rows[0].guess_low_s < 600 < rows[0].guess_high_s <= 3600


def test_an_answer_guesses_for_a_few_commands_only(monkeypatch):
    monkeypatch.setattr(questions, "_GUESSES", 1)
    other = pending(5, user="ann", name="other", limit_s=60.0)
    made = guessing(Whose.OWN, "ann", more=[other])
    question = WaitsQuestion(Ask(op="waits", job_ids=[1, 2, 5]), None, "ann", guesses_for="ann")
    rows = msgspec.json.decode(made.answer(question), type=Waits).rows
    assert [row.guess_s is not None for row in rows] == [True, True, False]


def test_state_goes_over_whole_in_small_pieces_and_once():
    service = DecisionService(Config(), new_id=str)
    types = {("pine", f"n{n}"): "fast" for n in range(1_000)}
    service.tables = stored(table(), node_types=types, off=[("name", "alice/solve")])
    service.cluster = site()
    service.links = {
        cluster: [
            Probe(resource=Resource.TRANSFER, source="n1", target=cluster, at_s=n, value=1.0)
            for n in range(300)
        ]
        for cluster in ("oak", "elm")
    }
    outlooks = Outlooks(QueueRunTimes(lambda: service.tables))
    sender = StateSender(service, outlooks)
    pieces = [pickle.dumps(piece) for piece in (*sender.for_advice(), *sender.for_waits())]
    assert max(map(len, pieces)) < 20_000
    assert list(sender.for_advice()) == list(sender.for_waits()) == []
    state = WorkerState(sender.text)
    for piece in pieces:
        state.take(pickle.loads(piece))
    assert state.service.cluster == replace(service.cluster, awaited=nothing_awaited)
    assert state.service.tables.node_types == types
    assert state.service.links == service.links
    found = state.service.tables.find(Identity("alice", "solve"))
    assert found == table()
    assert state.service.tables.is_off(found)
    sender.forget()
    assert len(list(sender.for_advice())) > len(pieces) // 2


def test_what_a_job_waits_for_goes_over_with_its_question():
    service = DecisionService(Config(), new_id=str)
    told = Awaited((12,), 1e9)
    asked_for = ("afterok:12", "", "", "0-3")
    service.cluster = replace(site(), awaited=lambda *asked: {asked_for: told}[asked])
    sender = StateSender(service, Outlooks(QueueRunTimes(lambda: service.tables)))
    state = WorkerState(sender.text)
    for piece in sender.for_advice(Job(dependency="afterok:12", array_inx="0-3")):
        state.take(pickle.loads(pickle.dumps(piece)))
    assert state.service.cluster.awaited("afterok:12", "", "") == told
    assert [name for name, _ in sender.for_advice(Job())] == []


def test_other_clusters_go_over_with_the_question_of_who_may_use_them():
    service = DecisionService(Config(), new_id=str)
    service.cluster = site()
    elm = replace(site(), name="elm")
    of_user = {"ann": ClusterViews({"elm": elm}), "bob": ClusterViews({}, {"elm": "no answer"})}
    asked = []

    def others(own, user):
        asked.append((own, user))
        return of_user[user]

    sender = StateSender(service, Outlooks(QueueRunTimes(lambda: service.tables)), others)
    state = WorkerState(sender.text)

    def ask(**job):
        pieces = [pickle.dumps(piece) for piece in sender.for_advice(Job(**job))]
        for piece in pieces:
            state.take(pickle.loads(piece))
        return len(pieces)

    ask(user_name="ann")
    whole = replace(elm, awaited=nothing_awaited)
    assert state.service.others == ClusterViews({"elm": whole})
    assert state.service.cluster == replace(service.cluster, awaited=nothing_awaited)
    ask(user_name="bob")
    assert state.service.others == of_user["bob"]
    # The view is there already.
    assert ask(user_name="ann") == 1
    assert state.service.others == ClusterViews({"elm": whole})
    assert ask(user_name="ann") == 0
    assert set(asked) == {(service.cluster.name, "ann"), (service.cluster.name, "bob")}
    before = len(asked)
    ask(user_name="ann", dependency="afterok:1")
    service.config = Config(advise=Advise(clusters=False))
    ask(user_name="ann")
    assert len(asked) == before
    assert state.service.others == ClusterViews()


def test_past_jobs_go_over_with_the_tables():
    service = DecisionService(Config(), new_id=str)
    service.tables = PredictionLookup(neighbours=Neighbours('{"jobs":[]}'))
    sender = StateSender(service, Outlooks(QueueRunTimes(lambda: service.tables)))
    state = WorkerState(sender.text)
    for piece in sender.for_advice():
        state.take(piece)
    assert state.service.tables.neighbours.payload == '{"jobs":[]}'
