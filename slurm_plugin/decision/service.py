"""From a job request to an answer, a record and an advice.

Everything needed is in memory: tables and cluster are put here from outside and looked up.  No
SQL, no fit and no Slurm command happens on the way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from predictor.forecasts.transfer_time import TransferTime
from predictor.job_table import is_otherwise
from sacct_ingest.records import DecisionRow, Probe
from sacct_ingest.runs.layout import Unit
from slurm_plugin.config.setting_types import Mode, Proven
from slurm_plugin.config.settings import Config
from slurm_plugin.decision import context_builder, messages, tickets
from slurm_plugin.decision.advice import advice_of, may_be_pasted
from slurm_plugin.decision.answer import note_of, permitted, row_of
from slurm_plugin.decision.bookings import Bookings
from slurm_plugin.decision.elsewhere import (
    after_copying,
    asked_clusters,
    best_of_each_kind,
    copying,
    files_text,
    not_compared,
    not_told_apart,
    of_one_cluster,
    seen_from_home,
)
from slurm_plugin.decision.explore import PendingTries, RecentCounts
from slurm_plugin.decision.levers.all_levers import tag_texts, with_adjustments
from slurm_plugin.decision.levers.lever import Surroundings
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.decision.other_layouts import layout_rows, ran_so
from slurm_plugin.decision.places import Choice, is_own, is_unlike, jobs_in_places, side_by_side
from slurm_plugin.decision.policy import Action, Decision, decide, opened_by_runs, remedies
from slurm_plugin.decision.situation import PartitionContext, Situation
from slurm_plugin.decision.sizes import gpu_options, nodes_left_open
from slurm_plugin.decision.soft_plans import SoftPlans
from slurm_plugin.decision.submitted_job import may_leave
from slurm_plugin.protocol.advice_messages import ESTIMATE_COMMENT, Advice
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.reasons import MISSED, Reason
from slurm_plugin.protocol.request_messages import HookLevel, Job
from slurm_plugin.protocol.status_messages import WaitAccuracy
from slurm_plugin.slurm.cluster_state import Cluster, ClusterViews
from slurm_plugin.slurm.footprint import gpu_type_of

#: Does what follows from a decision and gives its record, if there is to be one.
Book = Callable[[], DecisionRow | None]


class DecisionService:
    """Decides on job requests.

    config: the site's settings.
    new_id: makes the id of a decision: 12 hexadecimal digits.
    later: does the first, which takes long, where no answer waits for it, and then the second where
        answers are made.
    publish: puts decisions that were prepared where job_submit finds them without asking.
    cpu_clock: processor time of the thread that answers, seconds.
    most_s: processor time of one request; a job that takes more is not changed.
    bookings: nodes booked for users' jobs since the latest view of the cluster.
    others: the clusters beside this one that the user of the next advice may use.
    links: by other cluster what was measured between the hosts of `advise.copy_hosts`.
    tries: the last try of each application.
    plans: what came of limits to plan with; may be exchanged at any time.
    waits: how near predicted waits came on this cluster; may be exchanged at any time.
    """

    def __init__(
        self,
        config: Config,
        *,
        new_id: Callable[[], str],
        later: context_builder.Later | None = None,
        publish: tickets.Publish = lambda _key, _decision: None,
        cpu_clock: Callable[[], float] = lambda: 0.0,
        most_s: float = context_builder.SUBMISSION_S,
    ) -> None:
        self._new_id = new_id
        self._budget = context_builder.Budget(most_s, cpu_clock)
        self._processor_time = most_s, cpu_clock
        self._cluster: Cluster | None = None
        self.others = ClusterViews()
        self.links: Mapping[str, Sequence[Probe]] = {}
        self.bookings = Bookings()
        self._contexts = context_builder.ContextBuilder(config, self.bookings, later, self._budget)
        self.config = config
        self._tickets = tickets.TicketCache(publish)
        self.tries = PendingTries()
        self._recent = RecentCounts()
        self.tables = PredictionLookup()
        self.waits = WaitAccuracy()
        self.plans = SoftPlans()

    @property
    def config(self) -> Config:
        """The site's settings; may be exchanged at any time."""
        return self._config

    @config.setter
    def config(self, config: Config) -> None:
        self._config = config
        self._contexts.configure(config)

    @property
    def tables(self) -> PredictionLookup:
        """Prediction tables; may be exchanged at any time."""
        return self._tables

    @tables.setter
    def tables(self, tables: PredictionLookup) -> None:
        self._tables = tables
        self._contexts.load(tables)

    @property
    def cluster(self) -> Cluster | None:
        """Latest view of the cluster.  Nodes booked since count for their own user's jobs only.

        The next view shows whether the job exists: ``--test-only`` brings none.
        """
        return self._cluster

    @cluster.setter
    def cluster(self, view: Cluster) -> None:
        self._cluster = view
        self._contexts.renew(view)
        self.bookings.renew(view)

    def submit(self, job: Job, *, via: str, now_s: float) -> tuple[Answer, DecisionRow | None]:
        """Answer for a job that is being submitted, and the record of the decision.

        There is no record where the site has switched the decision off.
        """
        answer, book = self.answer(job, via=via, now_s=now_s)
        return answer, book()

    def answer(self, job: Job, *, via: str, now_s: float) -> tuple[Answer, Book]:
        """Answer for a job that is being submitted, and what can wait until it was sent.

        The second must be called before the next job is decided on: it books the nodes that
        this one will take, and gives the record of the decision.
        """
        if job.comment == ESTIMATE_COMMENT:
            # Somebody only asks Slurm when the job would start; it will not be there.
            return Answer(reason=Reason.OFF), lambda: None
        if (taken := self.redeem(job, now_s=now_s)) is not None:
            return taken
        try:
            with self._budget.counted():
                case = self._contexts.build(job, now_s, prompt=True)
                if case.site.mode is Mode.OFF:
                    return Answer(reason=Reason.OFF), partial(self.bookings.add, case, None)
                decided, answer, decision_id = self._judge(case)
        except context_builder.BudgetSpent:
            case = self._contexts.without_data(job, now_s)
            if case.site.mode is Mode.OFF:
                return Answer(reason=Reason.OFF), lambda: None
            decided = Decision(action=Action.KEEP, reason=Reason.PROCESSOR_TIME)
            answer = Answer(reason=decided.reason)
            decision_id = self._new_id()
        return answer, partial(self._book, job, case, decided, answer, decision_id, via)

    def redeem(self, job: Job, *, now_s: float) -> tuple[Answer, Book] | None:
        """Answer with the decision prepared under the job's ticket; None if there is none."""
        one = self._tickets.redeem(job, now_s=now_s) if job.ticket else None
        if one is None:
            return None
        if not one.comes:
            return one.remaining(), lambda: None
        case = msgspec.structs.replace(one.case, now_s=now_s)
        book = partial(
            self._book, job, case, one.decided, one.answer, one.decision_id, "cli_filter"
        )
        return one.remaining(), book

    def prepare(
        self, job: Job, *, now_s: float, private: bool = False, ticket: str = "", comes: bool = True
    ) -> Answer:
        """Decide on a job that a submit command is about to ask for.

        Nothing is booked and nothing recorded before the job arrives with the
        ticket; without one the command is to leave everything to job_submit.

        private: as for :meth:`advise`.
        ticket: of a command that does not wait for the answer and submits the job as it is.
        comes: whether the job will be there afterwards; not so with ``--test-only``.
        """
        full = tickets.completed(job, self._config, self._cluster) if self._cluster else None
        if full is None or job.comment == ESTIMATE_COMMENT:
            return Answer()
        try:
            with self._budget.counted():
                case = self._contexts.build(full, now_s, private=private, prompt=True)
                if case.site.mode is Mode.OFF:
                    return Answer(reason=Reason.OFF)
                if case.unready:
                    self._contexts.count(full, lambda: None)
                    return Answer()
                if (waiting := tickets.without_texts(full)) is None:
                    return Answer()
                decided, answer, decision_id = self._judge(case)
        except context_builder.BudgetSpent:
            return Answer()
        given = None if ticket else tickets.given_of(answer, full.hook)
        announced = bool(ticket)
        ticket = ticket or decision_id
        made = tickets.PreparedDecision(
            decision_id,
            waiting,
            tickets.decided_on(case),
            decided,
            answer,
            given,
            announced,
            comes=comes,
        )
        self._tickets.issue(made, ticket)
        return Answer(action="set" if given else "keep", set=given, ticket=ticket)

    def _judge(self, case: Situation) -> tuple[Decision, Answer, str]:
        """Decide, under an id of its own."""
        decided = self._with_remedies(case, self._decide(case))
        decision_id = self._new_id()
        around = Surroundings(self._config, self._cluster, self.plans)
        decided = with_adjustments(case, decided, around)
        answer = permitted(case, decided)
        if decided.reason is Reason.LEARNING and answer.set is not None and case.table:
            self.tries.add(case.table, decision_id, case.now_s)
        if case.site.mode in (Mode.ADVISE, Mode.ENFORCE):
            answer.admin_comment = note_of(case, decided, answer.set, decision_id=decision_id)
        return decided, answer, decision_id

    def _book(
        self,
        job: Job,
        case: Situation,
        decided: Decision,
        answer: Answer,
        decision_id: str,
        via: str,
    ) -> DecisionRow:
        if case.unready:
            self._contexts.count(
                job,
                lambda: self.bookings.add(self._contexts.build(job, case.now_s), None, decision_id),
            )
        else:
            self.bookings.add(case, decided if answer.action == "set" else None, decision_id)
        if case.request.proven and case.table:
            self._recent.add(case.table.key, case.request.low, case.now_s)
        cluster = self._cluster_name()
        return row_of(case, decided, answer, decision_id=decision_id, cluster=cluster, via=via)

    def _cluster_name(self) -> str:
        return self._config.cluster or (self._cluster.name if self._cluster else "")

    def advise(
        self,
        job: Job,
        *,
        now_s: float,
        private: bool = False,
        confidence: float = 0.0,
        clusters: Sequence[str] = (),
    ) -> Advice:
        """Advice for a job that may be submitted.

        private: only from the runs of this user, whatever the site lets users share.
        confidence: required chance to make a deadline; 0: the site's.
        clusters: those that it names; none: the ones that its user may use are compared.
        """
        if len(clusters) == 1 and (view := self.others.views.get(clusters[0])) is not None:
            if not may_leave(job):
                return Advice(ok=False, error=of_one_cluster(view.name))
            there = self._service_of(view)
            advice = there.advise(job, now_s=now_s, private=private, confidence=confidence)
            return not_told_apart(advice)
        try:
            with self._budget.counted():
                case = self._on_enough_nodes(job, now_s, private=private)
                rules = case.rules
                if confidence:
                    deadline = msgspec.structs.replace(rules.deadline, confidence=confidence)
                    rules = replace(rules, deadline=deadline)
                    case = msgspec.structs.replace(case, rules=rules)
                advice = self._advice(case)
            advice = self._beside_others(job, case, advice, clusters, private=private)
            best = next((row for row in advice.rows if row.recommended), None)
            advice.waits = self.waits.like(best.wait_s) if best else None
            with self._budget.counted():
                advice.submit_text = self._announced(job, advice, now_s, private=private)
        except context_builder.BudgetSpent:
            error = "this takes too much processor time; name fewer partitions or features"
            return Advice(ok=False, error=error)
        return advice

    def _on_enough_nodes(self, job: Job, now_s: float, *, private: bool) -> Situation:
        """Situation of a job; of tasks or GPUs whose runs had several nodes, on these."""
        case = self._contexts.build(job, now_s, private=private, guess=True)
        if case.table is None or ran_so(case.table, case.request):
            return case
        alike = case
        for nodes in nodes_left_open(job, case.partition, case.table):
            spread = msgspec.structs.replace(job, min_nodes=nodes, max_nodes=nodes)
            other = self._contexts.build(spread, now_s, private=private, guess=True)
            if other.table is None or is_otherwise(other.table):
                continue
            if ran_so(other.table, other.request):
                return other
            if alike is case and is_otherwise(case.table):
                alike = other
        return alike

    def _announced(self, job: Job, advice: Advice, now_s: float, *, private: bool) -> str:
        """Say what the submission of a job as it is would make of it, if it is something else."""
        newest = msgspec.structs.replace(job, hook=max(job.hook, HookLevel.SIZES))
        case = self._contexts.build(newest, now_s, private=private, prompt=True)
        if case.site.mode is not Mode.ENFORCE:
            return ""
        return messages.announced(self._decide(case), case.request, advice.nodes)

    def advise_at(self, job: Job, places: Sequence[PartitionContext], *, now_s: float) -> Advice:
        """Advise without a view of the queue, as if all nodes were free.

        One advice for each place where the job may run; one for all where node types do not matter.
        """
        case = self._on_enough_nodes(job, now_s, private=False)
        if case.table is None or not case.table.node_type:
            return self._advice(case)
        choices = [
            Choice(
                advice=self._advice(context_builder.on_nodes(case, place.node_type)),
                partition=place.partition,
                alike=False,
            )
            for place in places
        ]
        for choice in choices:
            choice.advice.partition = choice.partition
        only = choices[0].advice if choices else self._advice(case)
        return side_by_side(choices, case.request.objective) or only

    def _advice(self, case: Situation) -> Advice:
        others = partial(self._contexts.other_partitions, case)
        advice = advice_of(case, others=others)
        if case.request.tag and case.blind is None:
            advice.comment_text = "\n".join(tag_texts(case, self._decide(case)))
        advice.cluster = self._cluster_name()
        if case.table is not None and advice.rows and may_be_pasted(case, case.table):
            size = advice.nodes or case.request.asked or case.request.low
            tables = self._tables.laid_out_otherwise(case.table)
            types = self._cluster.gpu_types() if self._cluster else ()
            advice.layouts = layout_rows(tables, case.table, size, types)
        if case.table is not None and case.node_type:
            advice.partition = case.partition.name if case.partition else ""
            advice.node_type = case.node_type
        return advice

    def _beside_others(
        self, job: Job, case: Situation, advice: Advice, clusters: Sequence[str], *, private: bool
    ) -> Advice:
        """Put an advice beside that for other places; where the job names none the best is it."""
        objective = case.request.objective
        try:
            with self._budget.counted():
                choices = self._choices(job, case, private=private)
        except context_builder.BudgetSpent:
            advice.place_text = "Other partitions are not compared: that takes too long."
            return advice
        silent: dict[str, str] = {}
        if choices and may_leave(job):
            others, silent = asked_clusters(self.others, clusters)
            for view in others.values():
                try:
                    choices += self._choices_on(view, job, case, private=private)
                except context_builder.BudgetSpent:
                    silent[view.name] = "that takes too long"
        asked = advice if job.partition else None
        shown = side_by_side(choices, objective, asked) or advice
        best = next((row.cluster for row in shown.partitions if row.recommended), shown.cluster)
        if shown.place_text and best != shown.cluster:
            files = files_text(case.request.inputs, self._copying(best, case))
            shown.place_text = f"{shown.place_text} {files}"
        if silent:
            shown.place_text = " ".join(filter(None, (shown.place_text, not_compared(silent))))
        return shown

    def _choices_on(
        self, view: Cluster, job: Job, case: Situation, *, private: bool
    ) -> list[Choice]:
        """Advice for each place of another cluster where a job may run.

        Partitions of this one mean nothing there.
        """
        there = self._service_of(view)
        names_partition = bool(job.partition)
        seen = [
            seen_from_home(choice, view, self._cluster, case, names_partition=names_partition)
            for choice in there.choices(job, case, private=private)
        ]
        if copied := self._copying(view.name, case):
            seen = [replace(choice, advice=after_copying(choice.advice, copied)) for choice in seen]
        return best_of_each_kind(seen, case.request.objective)

    def _copying(self, cluster: str, case: Situation) -> TransferTime | None:
        """Predict how long the job's files take to another cluster; None: that is not known."""
        hosts = self._config.advise.copy_hosts
        pair = hosts.get(self._cluster_name(), ""), hosts.get(cluster, "")
        link = self.links.get(cluster, ())
        return copying(case.request.inputs, link, pair, now_s=case.now_s)

    def _service_of(self, view: Cluster) -> "DecisionService":
        """Make a service for another cluster, so that nothing of this one is looked up for it.

        What hooks do there is not known.
        """
        most_s, cpu_clock = self._processor_time
        config = msgspec.structs.replace(self._config, cluster=view.name, mode=Mode.OBSERVE)
        made = DecisionService(config, new_id=str, cpu_clock=cpu_clock, most_s=most_s)
        made.tables = self._tables
        made.cluster = view
        return made

    def choices(self, job: Job, case: Situation, *, private: bool) -> list[Choice]:
        """Advice for each place of this cluster where a job of another one may run.

        case: that of the job on its own cluster.
        """
        free = msgspec.structs.replace(job, partition="")
        with self._budget.counted():
            context = self._contexts.build(free, case.now_s, private=private)
            context = msgspec.structs.replace(context, rules=case.rules)
            return self._choices(free, context, private=private)

    def _choices(self, job: Job, case: Situation, *, private: bool) -> list[Choice]:
        """Advice for each place where a job may run.

        Where types of nodes matter, a place with several of them says nothing of what a job gets.
        """
        cluster = self._cluster
        table = case.table
        if cluster is None or table is None or table.is_guess or not table.nodes:
            return []
        choices = []
        for place in jobs_in_places(cluster, case, self._contexts.type_of):
            other = msgspec.structs.replace(job, **msgspec.structs.asdict(place))
            gpus = gpu_options(place) if gpu_type_of(place) != gpu_type_of(job) else ""
            one = self._contexts.build(other, case.now_s, private=private)
            if one.partition is None or (table.node_type and not one.node_type):
                continue
            choice = Choice(
                advice=self._advice(msgspec.structs.replace(one, rules=case.rules)),
                partition=place.partition,
                constraint=place.features if place.features != job.features else "",
                gpus=gpus,
                own=is_own(case, place),
                unlike=not one.node_type and is_unlike(cluster, case, place),
                alike=one.node_type in ("", case.node_type),
            )
            choices.append(choice)
        return choices

    def _decide(self, case: Situation) -> Decision:
        request = case.request
        table = case.table
        if case.blind or table is None or not table.nodes:
            return decide(case)
        if request.explore and self.tries.pending(table, self._cluster, case.now_s):
            request = msgspec.structs.replace(request, explore=False)
            case = msgspec.structs.replace(case, request=request)
        proven = bool(request.proven) and not self._recent.is_study(
            table.key, request.low, case.now_s
        )
        if proven and case.site.proven is Proven.ON:
            return decide(msgspec.structs.replace(case, request=opened_by_runs(request)))
        decided = decide(case)
        if not proven or decided.reason is not Reason.FIXED_COUNT:
            return decided
        opened = decide(msgspec.structs.replace(case, request=opened_by_runs(request)))
        changes = opened.chosen and opened.request and opened.chosen.nodes != opened.request.nodes
        better = opened.action is Action.SET and changes
        return msgspec.structs.replace(decided, better=opened if better else None)

    def _with_remedies(self, case: Situation, decided: Decision) -> Decision:
        """Add what would make the deadline, where it may be missed and a user can read it."""
        if decided.reason not in MISSED or case.site.mode is Mode.OBSERVE:
            return decided
        others = self._contexts.other_partitions(case) if case.request.unit is Unit.NODES else ()
        return msgspec.structs.replace(decided, remedies=remedies(case, others, decided))
