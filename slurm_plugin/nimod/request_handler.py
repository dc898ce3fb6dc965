"""One request line and its answer: what nimod is asked, by whom, and who may ask it."""

import logging
import os
import re
import shutil
import time
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path

import msgspec

from sacct_ingest.errors import ScriptError
from sacct_ingest.records import DecisionRow
from slurm_plugin.decision.bookings import Booking
from slurm_plugin.decision.service import Book, DecisionService
from slurm_plugin.decision.tickets import TicketKey, job_of
from slurm_plugin.nimod.access import ConnectionLimiter, UserNames, refusal
from slurm_plugin.nimod.answering.process import PendingQuestion
from slurm_plugin.nimod.answering.questions import (
    AdviceQuestion,
    Question,
    StoreQuestion,
    WaitsQuestion,
)
from slurm_plugin.nimod.connection import Reply, Respond
from slurm_plugin.nimod.loop import Loop
from slurm_plugin.protocol.decision_messages import Answer, ReadyDecision
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import LONG_ANSWERS, Ask, Job, decode_ask
from slurm_plugin.protocol.status_messages import Counts, Decided, Status
from slurm_plugin.protocol.version import VERSION
from slurm_plugin.service.accountant import NEWCOMERS, Account, Kind, Principal, Resource
from slurm_plugin.slurm.poller import ClusterPoller
from slurm_plugin.text.local_time import local_time_of

_log = logging.getLogger(__name__)
_TICKET = re.compile(r"[0-9a-f]{12}")
_FOLDER_MODE, _FILE_MODE = 0o711, 0o644
_ALIKE = ("mode", "action", "reason", "applied")
_KIND = attrgetter(*_ALIKE)
#: Upper ends of the bins of answer times, seconds.
BOUNDS_S = (0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)


def is_ticket(text: str) -> bool:
    """Whether a ticket that somebody made is like ours."""
    return _TICKET.fullmatch(text) is not None


class ReadyDecisions:
    """Folder of decisions that need no request.

    socket: path of nimod's socket; the hooks look beside it.
    """

    def __init__(self, socket: Path) -> None:
        self._folder = socket.parent / "ready"
        self._usable = False

    def open(self) -> None:
        """Begin with an empty folder; without one, job_submit asks as ever."""
        self.close()
        try:
            self._folder.mkdir()
            self._folder.chmod(_FOLDER_MODE)
        except OSError as error:
            _log.warning("%s: no decision will lie ready there: %s", self._folder, error)
        else:
            self._usable = True

    def close(self) -> None:
        """Delete everything: another nimod has no record of it."""
        self._usable = False
        shutil.rmtree(self._folder, ignore_errors=True)

    def publish(self, key: TicketKey, decision: ReadyDecision | None) -> None:
        """Put a decision there, or take it away."""
        if not self._usable:
            return
        path = f"{self._folder}/{key[0]}-{key[1]}"
        if decision is None:
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - for each job
            return
        try:
            # Not put there whole: half of it is no JSON, and job_submit asks as ever.
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
            try:
                os.fchmod(file, _FILE_MODE)
                os.write(file, encode(decision))
            finally:
                os.close(file)
        except OSError as error:
            _log.debug("%s: %s", path, error)


@dataclass(kw_only=True)
class RequestHandler:
    """Answers request lines; ``answered`` and ``failed`` count them."""

    service: DecisionService  #: decides and advises
    poller: ClusterPoller  #: says who slurmctld runs as, and whether Slurm hides users' jobs
    #: makes a question of an account, for the process that answers what takes long
    pending: Callable[[Account, Question], PendingQuestion]
    names: UserNames
    trusted: frozenset[int]  #: users who may ask about all jobs, besides the poller's
    record: Callable[[DecisionRow], None]  #: takes a decision for the store
    status: Callable[[], Status]
    reload: Callable[[], None]  #: has everything read anew
    answered: int = 0
    failed: int = 0
    asked_s: float | None = None  #: when slurmctld asked last, by the monotonic clock

    def __post_init__(self) -> None:
        self.counts = AnswerCounts(began_s=time.time())
        self.quiet = self.service.config.changes_nothing

    def trusts(self, uid: int) -> bool:
        """Whether a user may ask about all jobs."""
        return uid in self.trusted or uid in self.poller.slurm_users

    def respond(self, line: bytes, uid: int, *, remote: bool = False) -> Reply:
        """Answer one request line of a peer; never raises.

        An empty one says that slurmctld is about to ask.

        remote: it comes from a login node, where no one may do more than a user.
        """
        trusted = not remote and self.trusts(uid)
        if not trusted and (error := refusal(self.names.account(uid))):
            self.failed += 1
            return Reply(encode(Answer(ok=False, error=error)), last=True)
        if line.isspace():
            return Reply(awake=trusted)
        try:
            ask = decode_ask(line)
        except msgspec.DecodeError as error:
            self.failed += 1
            return Reply(encode(Answer(ok=False, error=str(error))))
        if ask.op == "prepare" and ask.one_way:
            # At once: slurmctld is about to look for it.
            self._reply(ask, uid, trusted=trusted)
            return Reply(last=True)
        if ask.one_way and trusted:
            return Reply(afterwards=partial(self._handle_notice, ask, uid))
        return self._reply(ask, uid, trusted=trusted)

    def _question(self, ask: Ask, uid: int, *, trusted: bool) -> Question | str:
        """Make the question, or say why this user may not ask it."""
        private = self.poller.private
        if ask.op == "advise" and trusted:
            booked = self.service.bookings.of(ask.job.user_name)
            return _advice_question(ask, ask.job, booked, private=False)
        own = self.names.cached(uid)
        if ask.op == "advise":
            job = ask.job
            if not own or job.user_name not in ("", own) or job.user_id not in (None, uid):
                return f"jobs of user {job.user_name or job.user_id!r} are not for user {uid}"
            job = msgspec.structs.replace(job, user_name=own, user_id=uid)
            booked = self.service.bookings.of(own)
            return _advice_question(ask, job, booked, private=private)
        # None asks about all users' jobs: an unknown name must not become that.
        if not own and (not trusted or ask.op == "waits"):
            return f"user {uid} has no name"
        if ask.op == "waits":
            shown = None if trusted or not private else own
            whose = (ask.selection.user if trusted else "") or own or ""
            return WaitsQuestion(ask, shown, own or "", guesses_for=whose, private=private)
        return StoreQuestion(ask, None if trusted else own, private=private)

    def _handle_notice(self, ask: Ask, uid: int) -> None:
        """Decide on a job for which slurmctld waits for no answer."""
        reply = self._reply(ask, uid, trusted=True)
        if reply.afterwards is not None:
            reply.afterwards()

    def _reply(self, ask: Ask, uid: int, *, trusted: bool) -> Reply:
        if ask.op in LONG_ANSWERS and ask.v == VERSION:
            # What takes long, about everybody's jobs or one's own, is answered elsewhere.
            question = self._question(ask, uid, trusted=trusted)
            if isinstance(question, str):
                self.failed += 1
                return Reply(encode(Answer(ok=False, error=question)))
            self.answered += 1
            pending = self.pending(self.names.account(uid), question)
            return Reply(query=pending.query, taken=pending.taken)
        began = time.perf_counter()
        book = None
        message: Answer | Status
        try:
            with local_time_of(ask.utc_offsets):
                message, book = self._answer(ask, uid, trusted=trusted)
        except Exception as error:
            self._log_error(_user_of(ask, uid), "a request was not answered", error)
            message = Answer(ok=False, error=f"{type(error).__name__} in nimod; see its log")
        self.answered += message.ok
        self.failed += not message.ok
        if book is None:
            return Reply(encode(message))
        if isinstance(message, Answer):
            message.quiet = self.quiet
        data = encode(message)
        self.counts.took(time.perf_counter() - began)
        return Reply(data, partial(self._book, book, _user_of(ask, uid)), quiet=self.quiet)

    def _answer(self, ask: Ask, uid: int, *, trusted: bool) -> tuple[Answer | Status, Book | None]:
        if ask.v != VERSION:
            return Answer(ok=False, error=f"version {ask.v}; nimod speaks {VERSION}"), None
        if ask.op == "decide" and trusted:
            self.asked_s = time.monotonic()
            if ask.taken:
                # Of a nimod before this one: only the job's note has the decision.
                return self.service.redeem(ask.job, now_s=time.time()) or (Answer(), None)
            return self.service.answer(ask.job, via=ask.via, now_s=time.time())
        for_all: dict[str, Callable[[], Answer | Status]] = {
            "status": lambda: self._status_for(trusted=trusted),
            "links": lambda: Answer(ok=False, error="this is no relay"),
            "prepare": lambda: self._prepare(ask, uid, trusted=trusted),
        }
        if ask.op in for_all:
            return for_all[ask.op](), None
        if not trusted:
            return Answer(ok=False, error=f"{ask.op} is not for user {uid}"), None
        self.reload()
        return self.status(), None

    def _status_for(self, *, trusted: bool) -> Status:
        """Give the state: where Slurm hides others' jobs, not how many wait."""
        status = self.status()
        if self.poller.private and not trusted:
            status.waits = [msgspec.structs.replace(one, waiting=None) for one in status.waits]
        return status

    def _prepare(self, ask: Ask, uid: int, *, trusted: bool) -> Answer:
        """Decide on what a peer is about to submit, always as itself."""
        user = self.names.cached(uid)
        now_s = time.time()
        if ask.one_way and not is_ticket(ask.ticket):
            return Answer(ok=False, error=f"no ticket: {ask.ticket!r}")
        try:
            command = ask.command.resolved()
            job = job_of(command, user=user, uid=uid, now_s=now_s) if user else None
        except (ScriptError, msgspec.DecodeError) as error:
            return Answer(ok=False, error=str(error))
        private = not trusted and self.poller.private
        ticket = ask.ticket if ask.one_way else ""
        if job is None:
            return Answer()
        comes = "test-only" not in command.options
        return self.service.prepare(job, now_s=now_s, private=private, ticket=ticket, comes=comes)

    def _log_error(self, user: int, what: str, error: Exception) -> None:
        self.names.accountant.of(Principal(Kind.USER, user)).log_error(_log, what, error)

    def _book(self, book: Book, user: int) -> None:
        """Book the nodes of a decision and record it: its answer has been sent."""
        try:
            row = book()
        except Exception as error:
            self._log_error(user, "a decision was not recorded", error)
            return
        if row is not None:
            self.counts.decided(row)
            self.record(row)


def _advice_question(
    ask: Ask, job: Job, booked: tuple[Booking, ...], *, private: bool
) -> AdviceQuestion:
    """Make the question of a job that was found to be its asker's."""
    return AdviceQuestion(
        job,
        private=private,
        confidence=ask.confidence,
        clusters=ask.clusters,
        application=ask.name,
        booked=booked,
        utc_offsets=ask.utc_offsets,
    )


def _user_of(ask: Ask, uid: int) -> int:
    """User on whose behalf a peer asks: slurmctld asks for all."""
    return ask.job.user_id if ask.op == "decide" and ask.job.user_id is not None else uid


class AnswerCounts(Counts, kw_only=True):
    """Counts since nimod began, as it says them."""

    bounds_s: list[float] = msgspec.field(default_factory=lambda: list(BOUNDS_S))
    bins: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))

    def took(self, seconds: float) -> None:
        """Take the time that the answer to a submission was made in."""
        self.bins[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def decided(self, row: DecisionRow) -> None:
        """Take a decision."""
        kind = _KIND(row)
        for one in self.decisions:
            if _KIND(one) == kind:
                one.count += 1
                return
        self.decisions.append(Decided(**dict(zip(_ALIKE, kind, strict=True)), count=1))


Done = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class RemoteRequests:
    """Gives requests of users on login nodes to the loop, one after the other."""

    loop: Loop  #: that answers everybody
    limiter: ConnectionLimiter  #: a request takes a place in it, as a connection here does
    names: UserNames
    respond: Respond

    def submit(self, line: bytes, uid: int, link: Account, done: Done) -> None:
        """Have a request answered; ``done`` is called once, with nothing where none is due.

        link: that it came over.
        """
        request = _RemoteRequest(line, uid, link, done)
        self.loop.call_in_turn(link, partial(self._begin, request))

    def _begin(self, request: "_RemoteRequest") -> None:
        account = self.limiter.admit(request.uid)
        if account is None:
            self._refuse(request, self.names.account(request.uid), Resource.CONNECTIONS)
        elif account.principal is NEWCOMERS:
            named = partial(self._named, request)
            self.names.ask(request.uid, partial(self.loop.call_in_turn, request.link, named))
        else:
            self._answer(request, account)

    def _named(self, request: "_RemoteRequest") -> None:
        self.names.newcomers().give_back(Resource.CONNECTIONS)
        account = self.limiter.admit(request.uid)
        if account is None:
            self._refuse(request, self.names.account(request.uid), Resource.CONNECTIONS)
        else:
            self._answer(request, account)

    def _refuse(self, request: "_RemoteRequest", account: Account, resource: Resource) -> None:
        error = f"{account.error(resource)}; wait a moment"
        request.done(encode(Answer(ok=False, error=error)))

    def _answer(self, request: "_RemoteRequest", account: Account) -> None:
        if not request.link.spend(Resource.PROCESSOR_TIME, 0.0):
            account.give_back(Resource.CONNECTIONS)
            self._refuse(request, request.link, Resource.PROCESSOR_TIME)
            return
        end = partial(self._end, account, request.done)
        began_s = time.thread_time()
        try:
            reply = self.respond(request.line, request.uid)
        except BaseException:
            end(b"")
            raise
        finally:
            took_s = time.thread_time() - began_s
            for payer in (account, request.link):
                payer.charge(Resource.PROCESSOR_TIME, took_s)
        if reply.query is None:
            end(reply.data)
        else:
            end = partial(end, taken=reply.taken)
            reply.query(lambda data: self.loop.call_soon(partial(end, data)))

    def _end(
        self, account: Account, done: Done, data: bytes, taken: Callable[[], None] | None = None
    ) -> None:
        account.give_back(Resource.CONNECTIONS)
        done(data)
        if taken is not None:
            taken()


@dataclass(frozen=True, slots=True)
class _RemoteRequest:
    """A request of a user on a login node."""

    line: bytes
    uid: int
    link: Account
    done: Done
