"""Questions to the process that answers what takes long, and how it answers them.

What advice and waits follow from is brought over piece by piece.  Pieces are small: to pickle one
keeps the interpreter from answering submissions.
"""

import dataclasses
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from predictor.neighbours import AskedJob, Neighbours
from predictor.table import at
from predictor.types import Prediction
from sacct_ingest.errors import NimoError
from sacct_ingest.records import KeyLevel, Probe
from sacct_ingest.text.hostlist import NodeNames
from slurm_plugin.config.setting_types import Whose
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.bookings import Booking
from slurm_plugin.decision.context_builder import Budget, BudgetSpent
from slurm_plugin.decision.job_keys import identity_in_queue, queued_job
from slurm_plugin.decision.lookup import FetchedTables, PredictionLookup
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.decision.submitted_job import may_leave
from slurm_plugin.protocol.advice_messages import Advice
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.lines import AnswerTooLong, bounded, bounded_rows, encode
from slurm_plugin.protocol.request_messages import Ask, Job
from slurm_plugin.protocol.status_messages import WaitRow, Waits
from slurm_plugin.service.accountant import ANSWER_S, Account, Accountant, Kind, Principal, Resource
from slurm_plugin.slurm.cluster_state import (
    Awaited,
    Cluster,
    ClusterViews,
    Partition,
    RawJob,
    nothing_awaited,
)
from slurm_plugin.slurm.limits import LimitTables
from slurm_plugin.slurm.node_pool import NodePool
from slurm_plugin.text.local_time import UtcOffset, local_time_of
from slurm_plugin.wait_forecasts.forecasts import Outlooks
from slurm_plugin.wait_forecasts.queued_starts import QueuedStarts

if TYPE_CHECKING:
    from slurm_plugin.nimod.queries import StoreQueries

#: Name and value.
Piece = tuple[str, Any]
_SLICE = 200  #: entries of a mapping in one piece, under 1 ms
_ADVICE_S = 0.5  #: processor time of one advice
_GUESSES = 20  #: commands that never ran whose run time an answer guesses, 11 ms each
#: Limits without the mappings that grow with the site.
_BARE_LIMITS: dict[str, Any] = {"associations": {}, "default_accounts": {}, "user_names": {}}


#: Pieces of views of clusters.
_OF_CLUSTERS = frozenset({"limits", "partition", "look", "elsewhere", "others"})
_TOO_LONG = "ask for fewer jobs, by id or with -u, -p or -S"


class StateSender:
    """Gives what a worker has not got yet.

    service, outlooks: nimod's own.
    others: gives the clusters beside an own one that a user may use; it may take 2 s.
    """

    def __init__(
        self,
        service: DecisionService,
        outlooks: Outlooks,
        others: Callable[[str, str], ClusterViews] = lambda *_: ClusterViews(),
    ) -> None:
        self._service = service
        self._outlooks = outlooks
        self._others = others
        self._sent: dict[str, object] = {}

    def forget(self) -> None:
        """Begin anew: with a worker that has nothing."""
        self._sent = {}

    def for_all(self) -> Iterator[Piece]:
        """Give new settings."""
        config = self._service.config
        if self._new("config", config):
            yield "config", config

    def for_advice(self, job: Job | None = None) -> Iterator[Piece]:
        """Give what is new in the cluster and among the tables, and what a job waits for."""
        yield from self.for_all()
        cluster = self._service.cluster
        waits = self._service.waits
        yield from self._tables()
        tries = self._service.tries
        if self._new("tries", (tries.changes,)):
            yield from _sliced("try", tries.listed())
            yield "tries", None
        if self._new("accuracy", waits):
            yield "accuracy", waits
        if self._new("links", self._service.links):
            every = enumerate(
                (cluster, probe) for cluster, link in self._service.links.items() for probe in link
            )
            yield from _sliced("link", dict(every))
            yield "links", None
        if cluster is not None and self._new("look", cluster.taken_s):
            yield from self._cluster(cluster)
        if cluster is not None and job is not None and job.dependency:
            yield "awaited", cluster.awaited(job.dependency, job.user_name, job.name, job.array_inx)
        if cluster is not None and job is not None and may_leave(job):
            yield from self._elsewhere(cluster.name, job.user_name)

    def for_waits(self) -> Iterator[Piece]:
        """Give what is new in the queue and among the tables."""
        yield from self.for_all()
        yield from self._tables()
        starts = self._outlooks.queued_starts()
        if self._new("queue", (starts.made_s, starts.looked_s)):
            for name in ("pending", "starts", "tasks"):
                yield from _sliced(name, getattr(starts, name))
            yield "queue", dataclasses.replace(starts, pending={}, starts={}, tasks={})

    def text(self, level: str, key: str) -> str | None:
        """Give the text of a prediction table."""
        return self._service.tables.text(level, key)

    def _new(self, name: str, value: object) -> bool:
        before = self._sent.get(name)
        if before is value or (isinstance(value, tuple) and before == value):
            return False
        self._sent[name] = value
        return True

    def _tables(self) -> Iterator[Piece]:
        tables = self._service.tables
        if self._new("tables", tables):
            yield from _sliced("node_types", tables.node_types)
            yield "tables", (tables.version, len(tables), tables.off, tables.neighbours.payload)

    def _elsewhere(self, own: str, user: str) -> Iterator[Piece]:
        """Give the views of other clusters that are new, and which there are."""
        wanted = self._service.config.advise.clusters
        found = self._others(own, user) if wanted else ClusterViews()
        newer = [v for name, v in found.views.items() if self._new(f"look of {name}", v.taken_s)]
        for view in newer:
            yield from self._cluster(view, last="elsewhere")
        # Who asked before may use others.
        names = tuple(found.views), tuple(found.silent.items())
        if newer or names != self._sent.get("others", ((), ())):
            self._sent["others"] = names
            yield "others", names

    def _cluster(self, cluster: Cluster, last: str = "look") -> Iterator[Piece]:
        """Give a view of a cluster, piece by piece.

        last: name of the piece that ends it.
        """
        limits = cluster.limits
        if self._new(f"limits of {cluster.name}", limits):
            for name in _BARE_LIMITS:
                yield from _sliced(name, getattr(limits, name))
            yield "limits", (cluster.name, dataclasses.replace(limits, **_BARE_LIMITS))
        for part in cluster.partitions.values():
            pool = part.pool
            yield from _sliced("groups", pool.groups if pool else {})
            bare = pool and dataclasses.replace(pool, groups={}, memo={}, listed=None)
            yield "partition", replace(part, pool=bare)
        # nimod resolves dependencies, as it has all jobs; the result for one job is sent.
        yield (last, replace(cluster, partitions={}, limits=LimitTables(), awaited=nothing_awaited))


class WorkerState:
    """What a worker has got.

    fetch: gives the text of a prediction table by level and key; None where there is none.
    service: advises.
    starts: when jobs in the queue start.
    """

    def __init__(self, fetch: Callable[[str, str], str | None]) -> None:
        self._fetch = fetch
        self._some: dict[str, dict[Any, Any]] = {}
        self._partitions: dict[str, Partition] = {}
        self._limits: dict[str, LimitTables] = {}
        self._elsewhere: dict[str, Cluster] = {}
        self.config = Config()
        self.service = DecisionService(
            self.config, new_id=str, cpu_clock=time.thread_time, most_s=_ADVICE_S
        )
        self.starts = QueuedStarts()

    def take(self, piece: Piece) -> None:
        """Take a piece."""
        name, value = piece
        if name == "config":
            self.config = self.service.config = value
        elif name == "accuracy":
            self.service.waits = value
        elif name == "links":
            links: dict[str, list[Probe]] = {}
            for cluster, probe in self._taken("link").values():
                links.setdefault(cluster, []).append(probe)
            self.service.links = links
        elif name == "tries":
            self.service.tries.put(self._taken("try"))
        elif name == "tables":
            version, count, off, past_jobs = value
            self.service.tables = PredictionLookup(
                version=version,
                off=off,
                node_types=self._taken("node_types"),
                packed=FetchedTables(self._fetch, count),
                neighbours=Neighbours(past_jobs),
            )
        elif name in _OF_CLUSTERS:
            self._take_of_cluster(name, value)
        elif name == "awaited":
            self._await(value)
        elif name == "queue":
            parts = {n: self._taken(n) for n in ("pending", "starts", "tasks")}
            self.starts = dataclasses.replace(value, **parts)
        else:
            self._some.setdefault(name, {}).update(value)

    def _take_of_cluster(self, name: str, value: Any) -> None:
        """Take a piece of a view of a cluster, or which clusters there are."""
        if name == "limits":
            cluster, bare = value
            whole = {n: self._taken(n) for n in _BARE_LIMITS}
            self._limits[cluster] = dataclasses.replace(bare, **whole)
        elif name == "partition":
            groups = self._taken("groups")
            pool = value.pool and dataclasses.replace(value.pool, groups=groups)
            self._partitions[value.name] = replace(value, pool=pool)
        elif name == "look":
            self.service.cluster = self._whole(value)
        elif name == "elsewhere":
            self._elsewhere[value.name] = self._whole(value)
        elif name == "others":
            names, silent = value
            views = {one: self._elsewhere[one] for one in names}
            self.service.others = ClusterViews(views, dict(silent))

    def _whole(self, bare: Cluster) -> Cluster:
        """Give a view of a cluster with the pieces that came before it."""
        parts = _with_all_nodes(self._partitions)
        self._partitions = {}
        limits = self._limits.get(bare.name, LimitTables())
        return replace(bare, partitions=parts, limits=limits)

    def _await(self, told: Awaited) -> None:
        """Let the cluster tell this of the next question's job."""
        if (cluster := self.service.cluster) is not None:
            self.service.cluster = replace(cluster, awaited=lambda *_: told)

    def _taken(self, name: str) -> dict[Any, Any]:
        return self._some.pop(name, {})


def _with_all_nodes(partitions: Mapping[str, Partition]) -> dict[str, Partition]:
    """Let all pools compare lists with the same nodes, whose names are there once."""
    names = {
        group: tuple(map(sys.intern, some))
        for part in partitions.values()
        if part.pool
        for group, some in part.pool.groups.items()
    }
    listed = NodeNames(name for some in names.values() for name in some)

    def shared(pool: NodePool) -> NodePool:
        groups = {group: tuple(map(sys.intern, some)) for group, some in pool.groups.items()}
        return dataclasses.replace(pool, groups=groups, listed=listed)

    return {
        name: replace(part, pool=part.pool and shared(part.pool))
        for name, part in partitions.items()
    }


def _sliced(name: str, entries: Mapping[Any, Any]) -> Iterator[Piece]:
    left = iter(entries.items())
    while some := list(islice(left, _SLICE)):
        yield name, some


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AdviceQuestion:
    """What to advise for a job."""

    job: Job
    private: bool  #: by this user's runs alone
    confidence: float
    clusters: str  #: those that ``-M`` names; empty: none
    booked: tuple[Booking, ...]  #: nodes booked for this user's jobs since the last look
    application: str = ""  #: whose usual job is meant, for the user of ``job``; empty: ``job`` is
    utc_offsets: Sequence[UtcOffset] = ()  #: local time of who asks; empty: nimod's


@dataclass(frozen=True, slots=True)
class WaitsQuestion:
    """When jobs in the queue start."""

    ask: Ask
    user: str | None  #: whose jobs may be shown; None: everybody's
    own: str  #: who asks
    guesses_for: str = ""  #: user whose waiting jobs without a run get a guessed run time
    private: bool = False  #: by the jobs of that user alone


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
        self._accountant = Accountant()
        self._store: StoreQueries | None = None

    def answer(self, question: Question) -> bytes:
        """Give the answer as a line."""
        try:
            return self._answer(question)
        except AnswerTooLong as error:
            self._account(question).refuse(Resource.ANSWER_BYTES)
            return encode(Answer(ok=False, error=f"{error}; {_TOO_LONG}"))
        except BudgetSpent:
            self._account(question).refuse(Resource.ANSWER_TIME)
            error_text = f"the answer takes over {ANSWER_S:g} s of processor time; {_TOO_LONG}"
            return encode(Answer(ok=False, error=error_text))
        except NimoError as error:
            return encode(Answer(ok=False, error=str(error)))
        except Exception as error:
            self._account(question).log_error(_log, "a question was not answered", error)
            return encode(Answer(ok=False, error=f"{type(error).__name__} in nimod; see its log"))

    def _account(self, question: Question) -> Account:
        return self._accountant.of(Principal(Kind.USER, _user_of(question)))

    def _answer(self, question: Question) -> bytes:
        if isinstance(question, AdviceQuestion):
            self._state.service.bookings.put(question.job.user_name, question.booked)
            with local_time_of(question.utc_offsets):
                named = question.application
                advice = self._of_application(question) if named else self._advise(question)
            return bounded(encode(advice))
        if isinstance(question, WaitsQuestion):
            return self._waits(question)
        queries = self._queries()
        return queries.answer(question.ask, question.user, private=question.private)

    def _queries(self) -> "StoreQueries":
        """Give what reads the store: a worker that only advises on jobs needs no database."""
        if self._store is None:
            from slurm_plugin.nimod.queries import StoreQueries  # noqa: PLC0415 - see above

            self._store = StoreQueries(self._state.config.store_url, lambda: self._state.config)
        return self._store

    def _advise(self, question: AdviceQuestion) -> Advice:
        return self._state.service.advise(
            question.job,
            now_s=time.time(),
            private=question.private,
            confidence=question.confidence,
            clusters=tuple(filter(None, question.clusters.split(","))),
        )

    def _of_application(self, question: AdviceQuestion) -> Advice:
        """Advise on the job that the runs of an application usually were.

        Raises NoHistory: no run of it has finished.
        """
        from slurm_plugin.stored_advice.advise import advise_named_by  # noqa: PLC0415 - database

        return advise_named_by(
            self._state.service,
            self._queries().opened(),
            question.application,
            question.job,
            lambda job: self._advise(dataclasses.replace(question, job=job)),
            own_only=question.private,
        )

    def _waits(self, question: WaitsQuestion) -> bytes:
        starts, ask, shown = self._state.starts, question.ask, set[int | None]()
        with self._budget.counted():
            rows = starts.queued(
                ask.job_ids,
                ask.tasks,
                user=question.user,
                own=question.own,
                selection=ask.selection,
                check=self._budget.check,
                guess=self._guesses(question),
            )
            raw = bounded_rows(rows, lambda row: shown.update((row.job_id, row.array_id)))
        return encode(
            Waits(
                made_s=starts.made_s or None,
                recorded=len(starts.record),
                rows=cast("list[WaitRow]", raw),
                missing=[one for one in ask.job_ids if one not in shown],
                limit_shares=list(starts.limit_shares),
            )
        )

    def _guesses(self, question: WaitsQuestion) -> Callable[[RawJob], Prediction | None]:
        """Give what guesses how long jobs take whose command never ran, those of one user."""
        tables, config = self._state.service.tables, self._state.config
        others = config.sharing.first_runs is Whose.SITE and not question.private
        left = [_GUESSES]

        @cache
        def by_request(asked: AskedJob) -> Prediction | None:
            if not left[0]:
                return None
            left[0] -= 1
            made = tables.neighbours.table(
                question.guesses_for, asked, others=others, confidence=config.fit.confidence
            )
            return at(made, asked.nodes) if made else None

        def guess(job: RawJob) -> Prediction | None:
            if job.user != question.guesses_for:
                return None
            found = tables.find(identity_in_queue(job))
            ran = found is not None and found.level != KeyLevel.USER
            return None if ran else by_request(queued_job(job))

        return guess


def _user_of(question: Question) -> str:
    if isinstance(question, AdviceQuestion):
        return question.job.user_name
    return question.own if isinstance(question, WaitsQuestion) else question.user or "root"
