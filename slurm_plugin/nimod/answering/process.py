"""nimod's side of the process that answers what takes long: questions in, answers out.

A thread for each kind of question gives the worker one after the other, and begins a new worker
where the last one ended.  No submission waits for any of them.
"""

import logging
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from slurm_plugin.nimod.answering import questions
from slurm_plugin.nimod.answering.worker import TABLE
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.lines import MAX_ANSWER_BYTES, encode
from slurm_plugin.service.accountant import Account, FairQueues, Resource

_log = logging.getLogger(__name__)
#: Longest that an answer may take; a worker that takes longer is ended.
_LONGEST_S = 120.0
_PAUSE_S = 1.0  #: between two workers
#: -P: no module comes from the folder that nimod was started in.
_COMMAND = (sys.executable, "-P", "-m", "slurm_plugin.nimod.answering.worker")
_ENDED = "the process that answers this ended; try again in a moment"

Done = Callable[[bytes], None]


@dataclass(slots=True, eq=False)
class PendingQuestion:
    """A question that waits for its turn, or whose answer was not taken yet."""

    _lane: "_Lane"
    account: Account
    question: questions.Question
    begun: bool = False
    #: called with the answer, in any thread
    done: Done = lambda _: None

    def query(self, done: Done) -> None:
        """Have it answered, and ``done`` called with the answer, in any thread."""
        self.done = done
        if not self._lane.put(self):
            error = f"{self.account.error(Resource.QUESTIONS)}; try again in a moment"
            done(encode(Answer(ok=False, error=error)))

    def taken(self) -> None:
        """Note that the answer was taken, or is wanted no more: the account's next one begins."""
        if self.begun:
            self._lane.release(self.account)


class AnswerProcess:
    """Has questions answered by a worker, in turns by account.

    sender: makes what the worker needs for advice and waits; called in the threads here.
    command: starts a worker; the numbers of its sockets are added.
    """

    def __init__(
        self, sender: Callable[[], questions.StateSender], command: tuple[str, ...] = _COMMAND
    ) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self._started_s = 0.0
        self._closed = False
        # Reports take long: others' questions do not wait for them.
        self._lanes = tuple(_Lane(self, number, sender()) for number in range(2))

    def start(self) -> None:
        """Begin to answer."""
        for lane in self._lanes:
            lane.thread.start()

    def pending(self, account: Account, question: questions.Question) -> PendingQuestion:
        """Make a question of an account."""
        report = isinstance(question, questions.StoreQuestion) and question.ask.op == "report"
        return PendingQuestion(self._lanes[report], account, question)

    def close(self) -> None:
        """Answer no more."""
        with self._lock:
            self._closed = True
            if self._worker is not None:
                self._worker.end()
        for lane in self._lanes:
            lane.wake()

    # --- in the threads of the lanes -----------------------------------------------------------

    def worker(self) -> "_Worker":
        """Give the worker that runs, or a new one. Raises OSError: none can be started."""
        with self._lock:
            if self._closed:
                raise OSError("nimod ends")
            if self._worker is None or not self._worker.runs:
                pause_s = self._started_s + _PAUSE_S - time.monotonic()
                time.sleep(max(pause_s if self._worker else 0.0, 0.0))
                self._started_s = time.monotonic()
                self._worker = _Worker(self._command, len(self._lanes))
            return self._worker


class _Worker:
    """A worker, and the sockets to it. Raises OSError: it cannot be started."""

    def __init__(self, command: tuple[str, ...], lanes: int) -> None:
        pairs = [socket.socketpair() for _ in range(lanes)]
        numbers = [there.fileno() for _, there in pairs]
        self._process = subprocess.Popen(
            [*command, *map(str, numbers)], pass_fds=numbers, stdin=subprocess.DEVNULL
        )
        for here, there in pairs:
            there.close()
            here.settimeout(_LONGEST_S)
        self._channels = [here for here, _ in pairs]
        self.received = [here.makefile("rb") for here in self._channels]
        self.sent = [here.makefile("wb") for here in self._channels]

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def end(self) -> None:
        """End it: whatever waits for it learns that."""
        self._process.kill()
        for channel in self._channels:
            with suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)
        self._process.wait()


class _Lane:
    """One kind of questions: their queues and their thread.

    process: has the worker.
    number: of its socket.
    sender: what this lane's side of the worker has got.
    """

    def __init__(self, process: AnswerProcess, number: int, sender: questions.StateSender) -> None:
        self._process = process
        self._number = number
        self._sender = sender
        self._of: _Worker | None = None
        self._queues: FairQueues[PendingQuestion] = FairQueues(Resource.QUESTIONS)
        self._changed = threading.Condition()
        self._closing = False
        self.thread = threading.Thread(target=self._run, name="answers", daemon=True)

    def put(self, pending: PendingQuestion) -> bool:
        """Take a question; False where its account has too many."""
        with self._changed:
            self._changed.notify()
            return self._queues.put(pending.account, pending)

    def release(self, account: Account) -> None:
        """Let the next question of an account begin."""
        with self._changed:
            self._queues.release(account)
            self._changed.notify()

    def wake(self) -> None:
        """End the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def _run(self) -> None:
        while (pending := self._next()) is not None:
            began_s = time.monotonic()
            pending.done(self._answer(pending))
            with self._changed:
                self._queues.charge(pending.account, time.monotonic() - began_s)

    def _next(self) -> PendingQuestion | None:
        with self._changed:
            while not self._closing:
                if (pending := self._queues.take()) is not None:
                    pending.begun = True
                    return pending
                self._changed.wait()
        return None

    def _answer(self, pending: PendingQuestion) -> bytes:
        worker = None
        try:
            worker = self._process.worker()
            if worker is not self._of:
                self._of = worker
                self._sender.forget()
            return self._exchange(worker, pending.question)
        except Exception as error:  # of pickling, too: the next worker begins anew
            pending.account.log(_log, "a question was not answered: %r", error)
            if worker is not None:
                worker.end()
            return encode(Answer(ok=False, error=_ENDED))

    def _exchange(self, worker: _Worker, question: questions.Question) -> bytes:
        sent = worker.sent[self._number]
        received = worker.received[self._number]
        match question:
            case questions.AdviceQuestion():
                news = self._sender.for_advice(question.job)
            case questions.WaitsQuestion():
                news = self._sender.for_waits()
            case _:
                news = self._sender.for_all()
        for piece in news:
            pickle.dump(piece, sent, pickle.HIGHEST_PROTOCOL)
        pickle.dump(question, sent, pickle.HIGHEST_PROTOCOL)
        sent.flush()
        while (line := received.readline(MAX_ANSWER_BYTES + 1)).startswith(TABLE):
            level, key = msgspec.json.decode(line[len(TABLE) :], type=tuple[str, str])
            pickle.dump(self._sender.text(level, key), sent, pickle.HIGHEST_PROTOCOL)
            sent.flush()
        if not line.endswith(b"\n"):
            raise EOFError("no whole answer")
        return line
