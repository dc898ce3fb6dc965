"""From a job request to an answer, a record and an advice.

Everything needed is in memory: tables and cluster are put here from outside and looked up.  No
SQL, no fit and no Slurm command happens on the way.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

import msgspec

from predictor.inputs import for_inputs
from predictor.types import PredictionTable
from sacct_ingest.layout import Unit
from sacct_ingest.records import DecisionRow, Identity
from sacct_ingest.signature import identity_of_request
from slurm_plugin.config import Config, JobSettings, Mode
from slurm_plugin.decision.advice import advice_of, side_by_side
from slurm_plugin.decision.answer import permitted
from slurm_plugin.decision.audit import note_of, row_of
from slurm_plugin.decision.bookings import Bookings
from slurm_plugin.decision.candidates import PolicySettings, Request
from slurm_plugin.decision.context import (
    DecisionContext,
    PartitionContext,
    application_of,
    attributes_of,
    distrust,
    request_of,
    shared_by,
)
from slurm_plugin.decision.eligibility import size_span_of
from slurm_plugin.decision.layout import layouts_of
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.decision.policy import Action, Decision, decide
from slurm_plugin.decision.reasons import Reason
from slurm_plugin.decision.size_request import sized_request
from slurm_plugin.decision.size_view import in_sizes, sizes_between
from slurm_plugin.decision.sized_cache import SizedCache
from slurm_plugin.decision.sizes import in_unit, size_layouts_of, sizes_of
from slurm_plugin.decision.tickets import (
    PreparedDecision,
    Publish,
    TicketCache,
    completed,
    given_of,
    without_texts,
)
from slurm_plugin.evaluation.wait_accuracy import WaitAccuracy
from slurm_plugin.protocol import ESTIMATE_COMMENT, Advice, Answer, Job, Row
from slurm_plugin.slurm.cluster_state import Cluster, Partition
from slurm_plugin.slurm.node_pool import NodeShare
from slurm_plugin.slurm.partition_view import TermsCache, partition_for, share_of, unready

#: Does what follows from a decision and gives its record, if there is to be one.
Book = Callable[[], DecisionRow | None]
Work = Callable[[], None]

_ASKED = 8 << 20  #: most characters of cached requests
_ASKED_LEAST = 4096  #: fewest that one counts, with what follows from it
_ALL_BUT_ARGV = attrgetter(*(name for name in Job.__struct_fields__ if name != "argv"))
#: Fields of a partition that a request depends on.
_OF_PARTITION = attrgetter(
    *("default_time_s", "max_time_s", "exclusive", "node_cpus", "threads_core"),
    *("mem_cpu_mib", "mem_node_mib", "max_mem_cpu_mib"),
)
#: What follows from a request as long as settings and tables hold.
_Asked = tuple[Identity, JobSettings, Request, PredictionTable | None]


def _requests() -> SizedCache[tuple[object, ...], _Asked]:
    return SizedCache(_ASKED)


def _size(key: tuple[object, ...]) -> int:
    job, *others = key
    texts = (one for one in (*job, *others) if isinstance(one, str))  # type: ignore[misc]
    return _ASKED_LEAST + sum(map(len, texts))


class DecisionService:
    """Decides on job requests.

    Parameters
    ----------
    config
        The site's settings.
    new_id
        Makes the id of a decision: 12 hexadecimal digits.
    later
        Does the first, which takes long, where no answer waits for it, and then the second where
        answers are made.
    publish
        Puts decisions that were prepared where job_submit finds them without asking.

    Attributes
    ----------
    waits
        How near predicted waits came on this cluster; may be exchanged at any time.
    """

    def __init__(
        self,
        config: Config,
        *,
        new_id: Callable[[], str],
        later: Callable[[Work, Work], None] | None = None,
        publish: Publish = lambda _key, _decision: None,
    ) -> None:
        self.config = config
        self._new_id = new_id
        self._later = later
        self._cluster: Cluster | None = None
        self._keeps_limit = False
        self._types: dict[tuple[str, NodeShare], str] = {}
        self._terms: TermsCache = {}
        self._asked = _requests()
        self._bookings = Bookings()
        self._tickets = TicketCache(publish)
        self.tables = PredictionLookup()
        self.waits = WaitAccuracy()

    @property
    def config(self) -> Config:
        """The site's settings; may be exchanged at any time."""
        return self._config

    @config.setter
    def config(self, config: Config) -> None:
        self._config, self._rules, self._asked = config, PolicySettings.of(config), _requests()

    @property
    def tables(self) -> PredictionLookup:
        """Prediction tables; may be exchanged at any time."""
        return self._tables

    @tables.setter
    def tables(self, tables: PredictionLookup) -> None:
        self._tables, self._types, self._asked = tables, {}, _requests()

    @property
    def cluster(self) -> Cluster | None:
        """Latest view of the cluster.  Nodes booked since count for their own user's jobs only.

        Whether a job is there is known from the next view on: ``--test-only`` brings none.
        """
        return self._cluster

    @cluster.setter
    def cluster(self, view: Cluster) -> None:
        if view.keeps_limit is not self._keeps_limit:  # slurmctld was upgraded, or is seen at last
            self._keeps_limit, self._asked = view.keeps_limit, _requests()
        self._cluster = view
        self._types, self._terms = {}, {}
        self._bookings.renew(view)

    def view(self, user: str) -> Cluster | None:
        """View of the cluster, less what was booked for the jobs of this user since."""
        return self._bookings.view(user)

    def submit(self, job: Job, *, via: str, now_s: float) -> tuple[Answer, DecisionRow | None]:
        """Answer for a job that is being submitted, and the record of the decision.

        There is no record where the site has switched the decision off.
        """
        answer, book = self.answer(job, via=via, now_s=now_s)
        return answer, book()

    def answer(self, job: Job, *, via: str, now_s: float) -> tuple[Answer, Book]:
        """Answer for a job that is being submitted, and what can wait until it was sent.

        The second must be called before the next job is decided on: it keeps the nodes in mind that
        this one will take, and gives the record of the decision.
        """
        if job.comment == ESTIMATE_COMMENT:
            # Somebody only asks Slurm when the job would start; it will not be there.
            return Answer(reason=Reason.OFF), lambda: None
        if (taken := self.redeem(job, now_s=now_s)) is not None:
            return taken
        case = self._case(job, now_s, prompt=True)
        if case.site.mode is Mode.OFF:
            return Answer(reason=Reason.OFF), partial(self._bookings.add, case, None)
        decided, answer, decision_id = self._judge(case)
        return answer, partial(self._book, case, decided, answer, decision_id, via)

    def redeem(self, job: Job, *, now_s: float) -> tuple[Answer, Book] | None:
        """As :meth:`answer`, from the decision that the job's ticket stands for; None: for none."""
        one = self._tickets.redeem(job, now_s=now_s) if job.ticket else None
        if one is None:
            return None
        case = one.at(now_s)
        if not one.comes:
            return one.remaining(), lambda: None
        book = partial(self._book, case, one.decided, one.answer, one.decision_id, "cli_filter")
        return one.remaining(), book

    def prepare(
        self,
        job: Job,
        *,
        now_s: float,
        private: bool = False,
        ticket: str = "",
        comes: bool = True,
    ) -> Answer:
        """Decide on a job that a submit command is about to ask for.

        Nothing is kept in mind for other jobs and nothing recorded before the job arrives with the
        ticket; without one the command is to leave everything to job_submit.

        Parameters
        ----------
        private
            As for :meth:`advise`.
        ticket
            Of a command that does not wait for the answer and submits the job as it is.
        comes
            Whether the job will be there afterwards; not so with ``--test-only``.
        """
        full = completed(job, self._config, self._cluster) if self._cluster else None
        if full is None or job.comment == ESTIMATE_COMMENT:
            return Answer()
        case = self._case(full, now_s, private=private, prompt=True)
        if case.site.mode is Mode.OFF:
            return Answer(reason=Reason.OFF)
        if case.unready:
            self._count(full, lambda: None)
            return Answer()
        if (waiting := without_texts(case)) is None:
            return Answer()
        decided, answer, decision_id = self._judge(case)
        given = None if ticket else given_of(answer)
        announced, ticket = bool(ticket), ticket or decision_id
        made = PreparedDecision(
            decision_id, waiting, decided, answer, given, announced, comes=comes
        )
        self._tickets.issue(made, ticket)
        return Answer(action="set" if given else "keep", set=given, ticket=ticket)

    def _judge(self, case: DecisionContext) -> tuple[Decision, Answer, str]:
        """Decide, under an id of its own."""
        decided, decision_id = self._decide(case), self._new_id()
        answer = permitted(case, decided)
        if case.site.mode in (Mode.ADVISE, Mode.ENFORCE):
            answer.admin_comment = note_of(case, decided, answer.set, decision_id=decision_id)
        return decided, answer, decision_id

    def _book(
        self, case: DecisionContext, decided: Decision, answer: Answer, decision_id: str, via: str
    ) -> DecisionRow:
        if case.unready:
            self._count(
                case.job, lambda: self._bookings.add(self._case(case.job, case.now_s), None)
            )
        else:
            self._bookings.add(case, decided if answer.action == "set" else None)
        cluster = self._config.cluster or (self._cluster.name if self._cluster else "")
        return row_of(case, decided, answer, decision_id=decision_id, cluster=cluster, via=via)

    def advise(self, job: Job, *, now_s: float, private: bool = False) -> Advice:
        """Advice for a job that may be submitted.

        Parameters
        ----------
        private
            Only from the runs of this user, whatever the site lets users share.
        """
        case = self._case(job, now_s, private=private)
        choices = self._choices(case, private=private)
        advice = side_by_side(choices) or self._advice(case)
        best = next((row for row in advice.rows if row.recommended), None)
        advice.waits = self.waits.like(best.wait_s) if best else None
        return advice

    def advise_at(self, job: Job, places: Sequence[PartitionContext], *, now_s: float) -> Advice:
        """Advice for a job where no cluster is seen, for each of the places that it may run at.

        As if all nodes were free; where node types make no difference, one advice for all.
        """
        case = self._case(job, now_s)
        if case.table is None or not case.table.node_type:
            return self._advice(case)
        choices = []
        for place in places:
            there = case.on(place.node_type)
            advice = self._advice(there)
            advice.partition = place.partition
            choices.append((advice, self._likely(there, advice)))
        return side_by_side(choices) or next((one for one, _ in choices), self._advice(case))

    def _advice(self, case: DecisionContext) -> Advice:
        advice = advice_of(case, self._rules, fresh=self._blind(case) is None)
        if case.table is not None and case.node_type:
            advice.partition = case.partition.name if case.partition else ""
            advice.node_type = case.node_type
        return advice

    def _choices(self, case: DecisionContext, *, private: bool) -> list[tuple[Advice, Row | None]]:
        """Advise for each partition that a job without one may use, where node types differ."""
        cluster, table = self._cluster, case.table
        if case.job.partition or cluster is None or table is None or not table.node_type:
            return []
        account = cluster.limits.account_of(case.job.user_name, case.job.account)
        jobs = [
            msgspec.structs.replace(case.job, partition=part.name)
            for part in cluster.partitions.values()
            if part.open and part.admits.holds(account, case.job.qos or "normal")
        ]
        cases = [self._case(job, case.now_s, private=private) for job in jobs]
        advised = [(one, self._advice(one)) for one in cases if one.node_type]
        return [(advice, self._likely(one, advice)) for one, advice in advised]

    def _likely(self, case: DecisionContext, advice: Advice) -> Row | None:
        """Find the count that is advised in a partition, or else the doubtful one that may do."""
        if advice.nodes is not None:
            return next((row for row in advice.rows if row.recommended), None)
        policy = msgspec.structs.replace(self._rules.policy, accept_doubtful=True)
        lenient = replace(self._rules, policy=policy)
        doubtful = advice_of(case, lenient, fresh=self._blind(case) is None)
        return next((row for row in doubtful.rows if row.recommended), None)

    def _count(self, job: Job, then: Work) -> None:
        """Count the nodes that are free for jobs of this shape, in the background."""
        cluster = self._cluster
        if self._later is None or cluster is None:
            return
        uncounted = unready(cluster, job, self._terms)

        def work() -> None:
            for part, share in uncounted:
                if part.pool and not part.pool.ready(share):
                    part.fitting(share)

        self._later(work, then)

    def _case(
        self, job: Job, now_s: float, *, private: bool = False, prompt: bool = False
    ) -> DecisionContext:
        """Put together what is known about a job; ``prompt``: without counting many nodes."""
        cluster = self.view(job.user_name)
        wait = prompt and self._later and cluster and bool(unready(cluster, job, self._terms))
        partition = partition_for(cluster, job, self._terms) if cluster and not wait else None
        terms = _OF_PARTITION(partition) if partition else None
        key = (_ALL_BUT_ARGV(job), *job.argv, terms, private)
        cached = self._asked  # another thread may exchange the tables, and begin with none
        if (asked := cached.get(key)) is None:
            asked = self._what_is_asked(job, partition, now_s, private=private)
            if asked[2].deadline_s is None:  # which may depend on the moment
                cached.put(key, asked, _size(key))
        identity, site, request, table = asked
        made = DecisionContext(
            job, identity, site, request, table, partition, now_s, unready=bool(wait)
        )
        if request.unit is not Unit.NODES and partition and cluster and table:
            made = self._in_sizes(made, cluster, table, every=not prompt)
        return made.on(self._type(job, partition) if table and table.node_type else "")

    def _in_sizes(
        self, case: DecisionContext, seen: Cluster, table: PredictionTable, *, every: bool
    ) -> DecisionContext:
        """Add the partition in the unit of the table; ``every``: all sizes, for advice."""
        own = sizes_of(case.job, case.partition)[table.unit]
        view = in_sizes(
            case.job,
            table,
            table.nodes if every else sizes_between(case.request.low, case.request.high, table),
            lambda job: partition_for(seen, job, self._terms),
            own=own,
            margin=self._rules.policy.memory_margin,
        )
        return msgspec.structs.replace(case, sized=view)

    def _what_is_asked(
        self, job: Job, partition: Partition | None, now_s: float, *, private: bool
    ) -> _Asked:
        identity = identity_of_request(
            user=job.user_name,
            name=job.name,
            comment=job.comment,
            script=job.script,
            argv=job.argv,
            work_dir=job.work_dir,
        )
        name = application_of(job, identity)
        site = self._config.for_job(
            partition=job.partition,
            account=job.account,
            qos=job.qos,
            user=job.user_name,
            application=name,
        )
        tags = () if private else self._config.sharing.tags
        shared = shared_by(tags, identity, self._account_of(job))
        table = self._tables.find(
            identity,
            (*layouts_of(job, partition), *size_layouts_of(job, partition)),
            shared=tuple(shared),
            attributes=partial(
                attributes_of, job, partition, identity.script, self._account_of(job)
            ),
        )
        table = table and in_unit(table, job, partition)
        off = table is not None and self._tables.is_off(table)
        if table is not None:
            table = for_inputs(table, job.work_dir, job.inputs_changed_s)
        request = request_of(
            job,
            self._config.opt_in,
            name,
            partition,
            time_use=site.time_limit,
            distrusted=distrust(
                table,
                site,
                user=job.user_name,
                shared=shared,
                own_runs=self._config.sharing.own_runs,
                off=off,
            ),
            now_s=now_s,
        )
        if table is not None and table.unit is not Unit.NODES:
            span = size_span_of(job, self._config.opt_in, table)
            request = sized_request(request, job, table, partition, span, site.time_limit)
        request = msgspec.structs.replace(
            request,
            with_least=self._keeps_limit,
            limit_raisable=request.limit_raisable and self._config.time_limit.lengthen,
        )
        return identity, site, request, table

    def _account_of(self, job: Job) -> str:
        cluster = self._cluster
        return cluster.limits.account_of(job.user_name, job.account) if cluster else job.account

    def _type(self, job: Job, partition: Partition | None) -> str:
        """Type of all nodes that a job may get; empty where it is not known, or they differ."""
        cluster, node_types = self._cluster, self.tables.node_types
        if cluster is None or partition is None:
            return ""
        share = share_of(job, partition)
        if (node_type := self._types.get((partition.name, share))) is None:
            name = self._config.cluster or cluster.name
            pools = [cluster.partitions[one].pool for one in partition.name.split(",")]
            names = {node for pool in pools if pool for node in pool.names(share)}
            types = {node_types[name, node] for node in names if (name, node) in node_types}
            node_type = types.pop() if len(types) == 1 else ""
            self._types[partition.name, share] = node_type
        return node_type

    def _decide(self, case: DecisionContext) -> Decision:
        problem = self._blind(case)
        if case.table is not None and not case.table.nodes:
            problem = problem or Reason.NO_FINISHED_RUN
        if problem is not None or case.table is None or case.place is None:
            reason = case.request.fixed or problem or Reason.UNKNOWN_APPLICATION
            return Decision(action=Action.KEEP, reason=reason)
        return decide(case.request, case.table, case.place, self._rules, now_s=case.now_s)

    def _blind(self, case: DecisionContext) -> Reason | None:
        """Tell why the nodes that the job would run on are not known."""
        if self._cluster is None:
            return Reason.NO_SNAPSHOT
        if case.now_s - self._cluster.taken_s > self._config.snapshot.max_age_s:
            return Reason.STALE_SNAPSHOT
        if case.unready:
            return Reason.NEW_SHAPE
        if case.partition is None or not case.partition.open:
            return Reason.UNKNOWN_PARTITION
        return None
