"""Questions to the process that answers what takes long, and how it answers them."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from sacct_ingest.errors import NimoError
from slurm_plugin.decision.bookings import Booking
from slurm_plugin.decision.context_builder import Budget, BudgetSpent
from slurm_plugin.nimod.answering.state import WorkerState
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.lines import AnswerTooLong, bounded, bounded_rows, encode
from slurm_plugin.protocol.request_messages import Ask, Job
from slurm_plugin.protocol.status_messages import WaitRow, Waits
from slurm_plugin.service.request_rates import Complaints

if TYPE_CHECKING:
    from slurm_plugin.nimod.queries import StoreQueries

_log = logging.getLogger(__name__)
#: Processor time of one answer: others wait for it.
ANSWER_S = 0.5
_TOO_LONG = "ask for fewer jobs, by id or with -u, -p or -S"


@dataclass(frozen=True, slots=True)
class AdviceQuestion:
    """What to advise for a job."""

    job: Job
    private: bool  #: by this user's runs alone
    confidence: float
    booked: tuple[Booking, ...]  #: nodes booked for this user's jobs since the last look


@dataclass(frozen=True, slots=True)
class WaitsQuestion:
    """When jobs in the queue start."""

    ask: Ask
    user: str | None  #: whose jobs may be shown; None: everybody's
    own: str  #: who asks


@dataclass(frozen=True, slots=True)
class StoreQuestion:
    """Something about the store."""

    ask: Ask
    user: str | None  #: who asks; None: somebody who may see everything
    private: bool  #: whether users must not see each other's jobs


Question = AdviceQuestion | WaitsQuestion | StoreQuestion


class Answerer:
    """Answers questions, one after the other; never raises.

    state: what advice and waits follow from.
    cpu_clock: processor time of this thread, seconds.
    """

    def __init__(
        self, state: WorkerState, *, cpu_clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._state = state
        self._budget = Budget(ANSWER_S, cpu_clock)
        self._complaints = Complaints(_log)
        self._store: StoreQueries | None = None

    def answer(self, question: Question) -> bytes:
        """Give the answer as a line."""
        try:
            return self._answer(question)
        except AnswerTooLong as error:
            return encode(Answer(ok=False, error=f"{error}; {_TOO_LONG}"))
        except BudgetSpent:
            error_text = f"the answer takes over {ANSWER_S:g} s of processor time; {_TOO_LONG}"
            return encode(Answer(ok=False, error=error_text))
        except NimoError as error:
            return encode(Answer(ok=False, error=str(error)))
        except Exception as error:
            self._complaints.error(_user_of(question), "a question was not answered", error)
            return encode(Answer(ok=False, error=f"{type(error).__name__} in nimod; see its log"))

    def _answer(self, question: Question) -> bytes:
        if isinstance(question, AdviceQuestion):
            return self._advice(question)
        if isinstance(question, WaitsQuestion):
            return self._waits(question)
        config = self._state.config
        if self._store is None:
            # A worker that only advises needs no database.
            from slurm_plugin.nimod.queries import StoreQueries  # noqa: PLC0415

            self._store = StoreQueries(config.store_url, lambda: self._state.config)
        return self._store.answer(question.ask, question.user, private=question.private)

    def _advice(self, question: AdviceQuestion) -> bytes:
        service = self._state.service
        service.book(question.job.user_name, question.booked)
        private, confidence = question.private, question.confidence
        advice = service.advise(
            question.job, now_s=time.time(), private=private, confidence=confidence
        )
        return bounded(encode(advice))

    def _waits(self, question: WaitsQuestion) -> bytes:
        starts, ask, shown = self._state.starts, question.ask, set[int | None]()
        with self._budget.counted():
            rows = starts.queued(
                ask.job_ids,
                ask.tasks,
                user=question.user,
                own=question.own,
                of=ask.selection.user,
                partition=ask.selection.partition,
                check=self._budget.check,
            )
            raw = bounded_rows(rows, lambda row: shown.update((row.job_id, row.array_id)))
        return encode(
            Waits(
                made_s=starts.made_s or None,
                recorded=len(starts.record),
                rows=cast("list[WaitRow]", raw),
                missing=[one for one in ask.job_ids if one not in shown],
            )
        )


def _user_of(question: Question) -> str:
    if isinstance(question, AdviceQuestion):
        return question.job.user_name
    return question.own if isinstance(question, WaitsQuestion) else question.user or "root"
