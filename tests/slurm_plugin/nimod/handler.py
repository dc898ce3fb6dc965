"""What answers nimod's request lines, without the process around it."""

import pickle
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from sacct_ingest.records import DecisionRow
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.nimod.access import UserNames
from slurm_plugin.nimod.answering.questions import (
    Answerer,
    Question,
    StateSender,
    WaitsQuestion,
    WorkerState,
)
from slurm_plugin.nimod.request_handler import RequestHandler
from slurm_plugin.protocol.status_messages import Status
from slurm_plugin.service.accountant import Accountant
from slurm_plugin.slurm.poller import ClusterPoller
from slurm_plugin.wait_forecasts.forecasts import Outlooks, QueueRunTimes


class Handler(RequestHandler):
    """As nimod makes it, with its parts at hand: ``service``, ``outlooks``,
    ``poller``, ``names``."""

    def __init__(
        self,
        folder: Path,
        config: Config | None = None,
        *,
        names: Mapping[int, str] = MappingProxyType({}),
        record: Callable[[DecisionRow], None] = lambda _: None,
    ) -> None:
        config = config or Config(store=f"sqlite:///{folder}/nimo.db")
        self.outlooks = Outlooks(QueueRunTimes(lambda: self.service.tables))
        super().__init__(
            service=DecisionService(config, new_id=lambda: "0" * 12),
            poller=ClusterPoller(time.time),
            pending=lambda account, question: AnsweredHere(self, question),
            names=UserNames(
                own=names, accountant=Accountant(requests_per_s=config.access.requests_per_s)
            ),
            trusted=frozenset({0}),
            record=record,
            status=lambda: Status(waits=self.outlooks.partition_waits()),
            reload=lambda: None,
        )

    def answer(self, line: bytes, uid: int) -> bytes:
        """Give the answer to a line, also where it takes long."""
        reply, answers = self.respond(line, uid), []
        if reply.query is None:
            return reply.data
        reply.query(answers.append)
        return answers[0]


class AnsweredHere:
    """A question that is answered in this process, as a worker would."""

    def __init__(self, handler: Handler, question: Question) -> None:
        sender = StateSender(handler.service, handler.outlooks)
        state, self._question = WorkerState(sender.text), question
        waits, job = isinstance(question, WaitsQuestion), getattr(question, "job", None)
        for piece in sender.for_waits() if waits else sender.for_advice(job):
            state.take(pickle.loads(pickle.dumps(piece)))
        self._answerer = Answerer(state)

    def query(self, done: Callable[[bytes], None]) -> None:
        done(self._answerer.answer(pickle.loads(pickle.dumps(self._question))))

    def taken(self) -> None:
        pass
