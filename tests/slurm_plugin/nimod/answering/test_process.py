"""A worker that answers, ends, hangs up; and nimod's side of it."""

import os
import queue
import signal
import socket
import sys
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.nimod.answering.process import AnswerProcess
from slurm_plugin.nimod.answering.questions import AdviceQuestion, StateSender, StoreQuestion
from slurm_plugin.protocol.advice_messages import Advice
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import Ask
from slurm_plugin.service.accountant import Accountant, Kind, Principal
from slurm_plugin.wait_forecasts.forecasts import Outlooks, QueueRunTimes
from tests.processes import LONGEST_WAIT_S, wait_until
from tests.slurm_plugin.made import NOW, cluster, job, stored, table
from tests.slurm_plugin.nimod.own_nimod import talk

#: Answers with its own process id, and ends at every question about an application named "end".
STAND_IN = (
    sys.executable,
    "-c",
    """
import os, pickle, socket, sys, threading
def serve(number):
    lane = socket.socket(fileno=number); received = lane.makefile("rb")
    while True:
        question = pickle.load(received)
        if isinstance(question, tuple): continue
        if question.ask.name == "end": os._exit(1)
        if question.ask.name == "long": lane.sendall(b"x" * 5_000_000)
        lane.sendall(b'{"ok":true,"pid":%d}\\n' % os.getpid())
[threading.Thread(target=serve, args=(int(number),)).start() for number in sys.argv[1:]]
""",
)


@pytest.fixture
def service(tmp_path):
    config = Config(mode=Mode.ENFORCE, store=f"sqlite:///{tmp_path}/nimo.db")
    made = DecisionService(config, new_id=lambda: "0" * 12)
    made.tables, made.cluster = stored(table()), cluster()
    return made


@contextmanager
def process(service, *command):
    outlooks = Outlooks(QueueRunTimes(lambda: service.tables))
    made = AnswerProcess(lambda: StateSender(service, outlooks), *command)
    made.start()
    try:
        yield made
    finally:
        made.close()


def about(name):
    return StoreQuestion(Ask(op="applications", name=name), None, private=False)


ACCOUNTANT = Accountant()


def user(uid):
    return ACCOUNTANT.of(Principal(Kind.USER, uid))


def asked(made, question, account=1):
    answers = queue.SimpleQueue()
    pending = made.pending(user(account), question)
    pending.query(answers.put)
    line = answers.get(timeout=LONGEST_WAIT_S)
    pending.taken()
    return msgspec.json.decode(line)


def test_advice_of_the_process_is_that_of_nimod_with_what_was_booked(service):
    service.submit(job(), via="job_submit", now_s=NOW)
    own = service.advise(job(), now_s=NOW)
    assert own != DecisionService(service.config, new_id=str).advise(job(), now_s=NOW)
    question = AdviceQuestion(
        job(), private=False, confidence=0.0, booked=service.bookings.of("alice"), clusters=""
    )
    with process(service) as made:
        for _ in range(2):
            advice = msgspec.convert(asked(made, question), Advice)
            assert advice.verdict == own.verdict
            assert [(one.nodes, one.time_s) for one in advice.rows] == [
                (one.nodes, one.time_s) for one in own.rows
            ]
        # No store, and yet it advised; the next question says so.
        refused = asked(made, about("wrf"))
    assert not refused["ok"]


@pytest.mark.parametrize("name", ["end", "long"])
def test_who_asked_a_worker_that_ends_is_informed_and_the_next_one_gets_another(service, name):
    with process(service, STAND_IN) as made:
        first = asked(made, about("wrf"))["pid"]
        assert asked(made, about("wrf"))["pid"] == first
        ended = asked(made, about(name))
        assert (ended["ok"], "try again" in ended["error"]) == (False, True)
        assert asked(made, about("wrf"))["pid"] != first


def test_a_worker_that_cannot_be_started_is_an_error_in_words(service):
    with process(service, ("/nonexistent",)) as made:
        assert "try again" in asked(made, about("wrf"))["error"]


def test_the_next_question_of_a_user_begins_once_the_last_answer_was_taken(service):
    answers = queue.SimpleQueue()
    with process(service, STAND_IN) as made:
        first, second, *others = [made.pending(user(1), about("wrf")) for _ in range(9)]
        for one in (first, second, *others):
            one.query(lambda line, one=one: answers.put((one, line)))
        given = [answers.get(timeout=LONGEST_WAIT_S) for _ in range(2)]
        # The first answer, and that the ninth question is too many.
        refused = next(line for one, line in given if one is others[-1])
        assert b"user 1 has reached the limit of 8 questions that wait" in refused
        others[-1].taken()
        assert asked(made, about("wrf"), account=2)["ok"]
        assert answers.empty()
        first.taken()
        assert answers.get(timeout=LONGEST_WAIT_S)[0] is second


def worker_of(nimod):
    children = Path(f"/proc/{nimod.process.pid}/task").glob("*/children")
    pids = {int(word) for path in children for word in path.read_text().split()}
    (worker,) = (one for one in pids if b"answering.worker" in command_of(one))
    return worker


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # a Slurm command that ended
        return b""


def ended(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stuck_worker_holds_no_submission_and_none_outlives_nimod(nimod, number):
    nimod.fit()
    nimod.start()
    nimod.see_cluster()
    advise = encode(Ask(op="advise", job=job()))
    assert talk(nimod.socket, advise)[0]["ok"]
    first = worker_of(nimod)
    # Where memory is short it goes before nimod.
    assert Path(f"/proc/{first}/oom_score_adj").read_text().strip() == "1000"
    os.kill(first, signal.SIGSTOP)
    with socket.socket(socket.AF_UNIX) as waiting:
        waiting.settimeout(LONGEST_WAIT_S)
        waiting.connect(nimod.socket)
        waiting.sendall(advise)
        assert nimod.decide(min_nodes=1, max_nodes=8).ok
        os.kill(first, signal.SIGKILL)
        # That it ended, or what the next one says.
        assert msgspec.json.decode(waiting.makefile("rb").readline())
    # A machine that stood still may have used up an answer's processor time: users ask again.
    wait_until(lambda: talk(nimod.socket, advise)[0]["ok"], what="an answer of the next worker")
    second = worker_of(nimod)
    nimod.process.send_signal(number)
    nimod.process.wait(LONGEST_WAIT_S)
    wait_until(lambda: ended(second), what="the end of the worker")
