"""What users ask nimod: their own applications, decisions and waits, and no others'."""

import itertools
import json
import socket
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.errors import NimoError
from sacct_ingest.records import ShownJob
from sacct_ingest.store import DecisionSelection, Store
from sacct_ingest.store.shown_job import alike, decision_of
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation.outcomes import OutcomeReport
from slurm_plugin.evaluation.report_data import collect
from slurm_plugin.nimod import client
from slurm_plugin.nimod.queries import StoreQueries, explain
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.query_messages import Applications
from slurm_plugin.protocol.request_messages import Ask, Job, Selection
from slurm_plugin.protocol.status_messages import Reported, Status, Waits
from slurm_plugin.reports.headline import Head, title_of
from slurm_plugin.slurm.snapshot import build as view
from tests.predictor.rows import job as made_run
from tests.processes import LONGEST_WAIT_S
from tests.sacct_ingest.records import SUBMIT_S
from tests.sacct_ingest.store.test_shown_job import submissions
from tests.slurm_plugin.made import table
from tests.slurm_plugin.nimod.handler import Handler
from tests.slurm_plugin.nimod.own_nimod import SLURM, ask_as_nobody, needs_root
from tests.slurm_plugin.reports.rows import decision
from tests.slurm_plugin.wait_forecasts.outlooks_of_queues import CONF, learned_queue
from tests.slurm_plugin.wait_forecasts.test_simulated_queue import NOW, pending

EVERY = Ask(op="applications", every=True)
PRIVATE = SLURM.replace('"ClusterName = pine"', '"ClusterName = pine\nPrivateData = jobs"')
MINE = {"level": "line", "key": "a1", "label": "nobody/solve"}
THEIRS = {"level": "line", "key": "b2", "label": "alice/solve"}
TAGGED = {"level": "tag", "key": "nobody/cfd", "label": "nobody/cfd"}


@pytest.fixture(params=[SLURM, PRIVATE], ids=["open", "private"])
def asked(request, in_the_open):
    """Curves of nobody's and of alice's; a decision about a job of each."""
    in_the_open.set_slurm(request.param)
    in_the_open.fit(*(table(**one) for one in (MINE, THEIRS, TAGGED)))
    with Store.open(in_the_open.url) as store:
        for number, user in enumerate(("nobody", "alice")):
            note = f"NIMO1:{number:012x}:n=4,req=1-8,t=9,lo=8,hi=10,v=reliable,m=enforce,r=cheapest"
            tagged = {"user": user, "comment": "nimo:app=cfd", "admin_comment": note}
            store.runs.add([made_run(17 + number, 4, 900, **tagged)])
            store.decisions.add([
                decision(decision_id=f"{number:012x}", user=user, name="solve", tag="cfd",
                         at_s=1_790_000_000.0 + 100 * (17 + number), uid=None, line="",
                         account="", work_dir="")
            ])  # fmt: skip
        store.decisions.join_outcomes()
    in_the_open.start()
    in_the_open.see_cluster()
    in_the_open.private = request.param is PRIVATE
    return in_the_open


@needs_root
def test_users_list_what_they_ran(asked):
    (answer,) = ask_as_nobody(asked, Ask(op="applications"))
    assert {one["label"] for one in answer["tables"]} == {"nobody/solve", "nobody/cfd"}


@needs_root
def test_others_applications_are_shown_by_name_unless_jobs_are_private(asked):
    mine, theirs = ask_as_nobody(
        asked,
        Ask(op="applications", name="nobody/solve"),
        Ask(op="applications", name="alice/solve"),
    )
    assert [one["label"] for one in mine["tables"]] == ["nobody/solve"]
    assert len(theirs["tables"]) == (0 if asked.private else 1)


@needs_root
def test_the_usual_job_of_others_is_not_named_where_jobs_are_private(asked):
    """Neither store has runs of these tables: who may see one hears that."""
    mine, theirs, posing = ask_as_nobody(
        asked,
        Ask(op="advise", name="nobody/solve"),
        Ask(op="advise", name="alice/solve"),
        Ask(op="advise", name="alice/solve", job=Job(user_name="alice")),
    )
    assert mine["error"] == "no run of 'nobody/solve' has finished yet"
    known = "no run of" if not asked.private else "there is no history of"
    assert theirs["error"].startswith(f"{known} 'alice/solve'")
    assert posing["error"].startswith("jobs of user 'alice' are not for user")


@needs_root
def test_a_decision_is_for_its_owner(asked):
    mine, theirs, by_id = ask_as_nobody(
        asked,
        Ask(op="explain", job_id=17),
        Ask(op="explain", job_id=18),
        Ask(op="explain", job_id=18, decision_id=f"{1:012x}"),
    )
    assert (mine["decision"]["user"], mine["outcome"]["job_id"]) == ("nobody", 17)
    assert (theirs["decision"], by_id["decision"]) == (None, None)


def test_root_sees_everything(running):
    result = client.exchange(running.socket, EVERY, Applications, LONGEST_WAIT_S)
    assert [one.label for one in result.tables] == ["solve"]
    assert not result.own_only


def test_answers_come_in_order_while_others_are_served(running):
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(LONGEST_WAIT_S)
        channel.connect(running.socket)
        channel.sendall((encode(Ask(op="applications")) + encode(Ask(op="status"))) * 5)
        lines = channel.makefile("rb")
        answers = [lines.readline() for _ in range(10)]
    assert [b'"tables"' in line for line in answers] == [True, False] * 5


def test_no_store_is_an_error_in_words(nimod):
    nimod.url = "sqlite:////dev/null/nimo.db"
    nimod.start(ready=False)
    nimod.notify.recv(100)
    with pytest.raises(client.Unreachable, match="/dev/null"):
        client.exchange(nimod.socket, EVERY, Applications, LONGEST_WAIT_S)


@needs_root
def test_a_report_is_about_ones_own_jobs_where_jobs_are_private(asked):
    everyone, theirs = ask_as_nobody(
        asked, Ask(op="report"), Ask(op="report", selection=Selection(user="alice"))
    )
    assert everyone["own_only"] is asked.private
    assert everyone["report"]["decisions"] == (1 if asked.private else 2)
    assert theirs["report"]["decisions"] == (0 if asked.private else 1)


@needs_root
def test_a_report_of_nimod_is_that_of_the_store(asked):
    answer = client.exchange(asked.socket, Ask(op="report"), Reported, LONGEST_WAIT_S)
    with Store.open(asked.url) as store:
        whole = collect(store, DecisionSelection(), config=Config())
    assert msgspec.json.decode(answer.report, type=OutcomeReport) == whole
    head = msgspec.json.decode(answer.report, type=Head)
    assert (head.decisions, head.first_s, head.last_s) == (2, whole.first_s, whole.last_s)
    assert title_of(head) == title_of(whole)


def test_a_report_of_too_many_decisions_is_refused_with_the_fix(tmp_path):
    url = f"sqlite:///{tmp_path / 'nimo.db'}"
    with Store.open(url) as store:
        store.decisions.add([decision(decision_id=f"{n:012x}") for n in range(2_000)])
    few, enough = (StoreQueries(url, Config, most_decisions=most) for most in (1_999, 2_000))
    with pytest.raises(NimoError, match="ask for fewer with -S"):
        few.answer(Ask(op="report"), None, private=False)
    answer = json.loads(enough.answer(Ask(op="report"), None, private=False))
    assert answer["report"]["decisions"] == 2_000


ROOT, ANN, BOB, NAMELESS = 0, 4001, 4002, 2**31 - 7


@pytest.fixture
def handler(tmp_path):
    made = Handler(tmp_path, names={ROOT: "root", ANN: "ann", BOB: "bob"})
    jobs = [pending(9, user="ann", tres={"cpu": 8.0}), pending(10, user="bob", tres={"cpu": 8.0})]
    state = learned_queue(*jobs)
    made.outlooks.add_wait_forecasts(view(state, CONF, cluster="pine", taken_s=NOW), state, CONF)
    return made


def waits(handler, uid, *job_ids):
    answer = handler.answer(encode(Ask(op="waits", job_ids=list(job_ids))), uid)
    return msgspec.json.decode(answer, type=Waits)


def waits_of(handler, uid, *job_ids):
    answer = waits(handler, uid, *job_ids)
    return [row.job_id for row in answer.rows], answer.missing


def test_private_data_hides_others_jobs(handler):
    handler.poller.private = True
    assert waits_of(handler, ANN) == ([9], [])
    assert waits_of(handler, ANN, 9, 10) == ([9], [10])
    # Root and slurmctld's own account see all.
    assert waits_of(handler, ROOT, 9, 10) == ([9, 10], [])


def queued(handler, uid):
    """How many jobs wait, as the status says."""
    reply = handler.respond(encode(Ask(op="status")), uid)
    return {one.waiting for one in msgspec.json.decode(reply.data, type=Status).waits}


def test_private_data_hides_how_many_jobs_wait(handler):
    handler.poller.private = True
    assert queued(handler, ANN) == {None}
    assert queued(handler, ROOT) == {2}
    handler.poller.private = False
    assert queued(handler, ANN) == {2}


def test_without_private_data_everybody_sees_what_squeue_shows(handler):
    handler.poller.private = False
    assert waits_of(handler, ANN, 9, 10) == ([9, 10], [])
    assert waits_of(handler, BOB) == ([10], [])


def test_a_user_without_a_name_gets_nothing(handler):
    answer = waits(handler, NAMELESS, 9)
    assert not answer.ok
    assert answer.rows == []


@st.composite
def crowds(draw):
    """Draw jobs of one second, as pairs: what was decided, and what scontrol shows."""
    return [draw(submissions(number)) for number in range(draw(st.integers(1, 6)))]


@given(crowds())
def test_no_job_is_told_the_request_of_another(crowd_store, crowd):
    """Before the accounting is read, whatever else was submitted in its second."""
    store, number = crowd_store
    work_dir = f"/home/ada/{next(number)}"
    rows = [
        replace(row, decision_id=f"{hash((work_dir, i)) & 0xFFFFFFFFFFFF:012x}", work_dir=work_dir)
        for i, (row, *_) in enumerate(crowd)
    ]
    store.decisions.add(rows)
    for row, (_, shown, _) in zip(rows, crowd, strict=True):
        ask = Ask(op="explain", job_id=17, shown=replace(shown, work_dir=work_dir))
        found = explain(store, ask, "ada")
        assert found.at_that_time == len(rows)
        assert found.fitting > 0
        if found.decision is not None:
            own = decision_of(row, ask.shown)
            assert alike(found.decision) == alike(own)
        assert explain(store, ask, "bob").decision is None
        changed = replace(ask.shown, low_nodes=77, high_nodes=77)
        lost = explain(store, msgspec.structs.replace(ask, shown=changed), None)
        if all(row.max_nodes is not None for row in rows):
            assert (lost.decision, lost.fitting) == (None, 0)


@given(st.lists(st.integers(1, 64), min_size=2, max_size=6, unique=True))
def test_jobs_of_one_second_are_told_apart_by_their_counts(crowd_store, counts):
    store, number = crowd_store
    work_dir = f"/home/ada/{next(number)}"
    rows = [
        decision(decision_id=f"{hash((work_dir, n)) & 0xFFFFFFFFFFFF:012x}", work_dir=work_dir,
                 at_s=float(SUBMIT_S), min_nodes=n, max_nodes=n, action="keep", applied=False)
        for n in counts
    ]  # fmt: skip
    store.decisions.add(rows)
    for row in rows:
        n = row.min_nodes
        shown = ShownJob(user="ada", name="wrf", work_dir=work_dir, submit_s=SUBMIT_S,
                         low_nodes=n, high_nodes=n, limit_s=7200)  # fmt: skip
        assert explain(store, Ask(op="explain", job_id=17, shown=shown), None).decision == row


@pytest.fixture(scope="module")
def crowd_store(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('crowd')}/nimo.db"
    with Store.open(url) as store:
        yield store, itertools.count()
