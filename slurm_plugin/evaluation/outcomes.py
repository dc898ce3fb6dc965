"""Decisions beside what became of their jobs: one pass over rows of the store, in little memory.

A decision predicts the run time on the count it chose and on the count asked for.  A finished run
is compared with the prediction for the node count that it really had; only completed runs count,
since a run that was stopped says how long it was let run, not how long it takes.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from sacct_ingest.records import LEARNING, DecisionRow, KeyLevel, StandingRow
from sacct_ingest.runs.layout import Unit
from sacct_ingest.scripts.signature import names_of
from sacct_ingest.store import ArrayRow, RunRow
from slurm_plugin.config.setting_types import Mode
from slurm_plugin.config.settings import Energy
from slurm_plugin.evaluation import effects
from slurm_plugin.evaluation.accuracy import (
    Accuracy,
    AccuracyTally,
    compare,
    levels_within,
    predicted_for,
)
from slurm_plugin.evaluation.diagnoses import JobDiagnosis, JobUsage, RecordSummary, Waste
from slurm_plugin.evaluation.group_waits import GroupWaits, GroupWaitsTally
from slurm_plugin.evaluation.resource_usage import EnergyTally, EnergyUse, Unused, UnusedTally
from slurm_plugin.evaluation.weeks import Week, WeekTally, number_of
from slurm_plugin.protocol.reasons import MISSED, NOT_APPLIED
from slurm_plugin.protocol.status_messages import WaitAccuracy, WaitTally

#: The newest jobs that a report lists, and the stopped ones.
MOST = 1000
_GUESSES = (KeyLevel.NAME.value, KeyLevel.USER.value)
_OF_DECISION = ("user", "at_s", "mode", "action", "reason", "applied", "verdict", "decision_id")
#: Raised when a field of the JSON report changes its meaning or goes.
VERSION = 5
#: Fields of rows, and of the selection, that hold names, and what stands for these.
_NAMED = {
    **dict.fromkeys(("application", "name", "label"), "application"),
    "user": "user",
    "account": "account",
}
#: The tables with names, in the order in which these are numbered.
_WITH_NAMES = (
    *("applications", "problems", "records", "drift", "stopped", "jobs"),
    *("waste", "arrays", "unused", "energy", "switched_off", "group_waits"),
)
#: Texts of problems that would name arguments, folders or jobs, without them.
_PROBLEMS = {
    "several_problems": "several problems: run times differ by attributes of the jobs",
    "not_one_problem": "several problems: runs on the same node count differ too much; a tag in "
    "the script, with another word for each input, separates them",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """One job; ``None`` where it is unknown."""

    job_id: int
    user: str
    application: str
    at_s: float  #: time of the decision, seconds since the epoch
    nodes: int
    predicted_s: float | None  #: on the nodes that it had
    took_s: float
    limit_s: int | None
    state: str
    mode: str
    action: str
    reason: str
    applied: bool
    given_nodes: int | None  #: node count that NIMO set
    given_limit_s: int | None  #: time limit that NIMO set
    verdict: str
    decision_id: str


def outcome_of(application: str, decision: DecisionRow, run: RunRow) -> JobOutcome:
    """Put a decision and its run side by side."""
    predicted = predicted_for(decision, run.nodes)
    nodes_set = decision.applied and decision.action == "set" and decision.nodes
    return JobOutcome(
        job_id=run.job_id,
        application=application,
        nodes=run.nodes,
        predicted_s=predicted[0] if predicted else None,
        took_s=float(run.elapsed_s),
        limit_s=run.limit_s,
        state=run.state.value,
        given_nodes=decision.nodes
        if nodes_set and decision.nodes != decision.requested_nodes
        else None,
        given_limit_s=decision.given_limit_s if decision.applied else None,
        **{name: getattr(decision, name) for name in _OF_DECISION},
    )


def why_unchanged(decision: DecisionRow | JobOutcome) -> str:
    """Name why a decision was not applied: its reason, or the mode that forbade the change."""
    if decision.action == "keep":
        return decision.reason
    return NOT_APPLIED if decision.mode == Mode.ENFORCE else decision.mode


def is_guess(decision: DecisionRow) -> bool:
    """Whether no decision could be based on the prediction: a guess, or not reliable."""
    return not decision.applied and (
        decision.key_level in _GUESSES or decision.verdict != "reliable"
    )


Pair = tuple[DecisionRow, RunRow | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationOutcome:
    """All decisions about one application."""

    application: str
    decisions: int
    changed: int  #: jobs whose node count NIMO changed
    finished: int
    accuracy: Accuracy | None
    counted: Accuracy | None = None  #: of the predictions that the headline counts


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonCount:
    """Decisions alike: the mode they were made in, what they came to and why."""

    mode: str
    action: str
    reason: str
    applied: bool
    decisions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEstimates:
    """Estimated waits of a partition's jobs, compared with the real ones."""

    cluster: str
    partition: str
    of: str  #: ``submissions``: nimod made them; ``history``: a refit did, of the past
    jobs: int
    waited: int  #: of them longer than a minute
    within: float  #: half of the waits are within this factor of the estimate, a minute added
    inside: float | None  #: share inside their 90 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReport:
    """What was decided, what came of it, and how far the predictions can be trusted."""

    version: int = VERSION
    selection: dict[str, str] = field(default_factory=dict)  #: what was asked for, in words
    anonymous: bool = False
    first_s: float | None  #: time of the first decision, seconds since the epoch
    last_s: float | None
    decisions: int
    finished: int
    modes: dict[str, int]
    actions: dict[str, int]
    unchanged: dict[str, int]  #: why jobs passed unchanged (`why_unchanged`) -> jobs
    reasons: tuple[ReasonCount, ...]  #: most first
    confidence: float  #: nominal share of runs inside their interval
    accuracy: Accuracy | None  #: of predictions that could be acted on
    guesses: Accuracy | None = None  #: of all others
    by_verdict: dict[str, Accuracy]
    by_level: dict[str, Accuracy]  #: by how the application was recognised
    weeks: tuple[Week, ...]
    deadlines: effects.Deadlines
    planned: effects.PlannedShorter  #: jobs with a limit to plan with
    waits: WaitAccuracy
    promises: effects.Promises = field(default_factory=effects.Promises)
    applied: tuple[effects.Effect, ...]  #: one for each unit with such jobs
    observed: tuple[effects.Effect, ...]
    #: what ``opt_in.proven: on`` would have given
    proven: effects.Gain = field(default_factory=effects.Gain)
    applications: tuple[ApplicationOutcome, ...]  #: most decisions first
    switched_off: tuple[StandingRow, ...] = ()  #: of these, for what their predictions missed
    #: why predictions are not reliable, and how to fix that
    problems: tuple[JobDiagnosis, ...] = ()
    drift: tuple[JobDiagnosis, ...] = ()  #: applications whose problem changed
    records: tuple[RecordSummary, ...] = ()  #: what became of the last predictions about each
    #: that a limit or deadline stopped after NIMO had changed them, by job id
    stopped: tuple[JobOutcome, ...] = ()
    jobs: tuple[JobOutcome, ...] = ()  #: the newest ones that ended
    queue_waits: tuple[QueueEstimates, ...] = ()  #: how near estimates of the queue's waits came
    group_waits: tuple[GroupWaits, ...] = ()  #: who waits longest, of the newest weeks
    waste: tuple[Waste, ...] = ()  #: nodes beyond the knee, most node-hours first
    unused: tuple[Unused, ...] = ()  #: CPUs and memory, most CPU-hours first
    arrays: tuple[ArrayRow, ...] = ()  #: the newest first
    energy: tuple[EnergyUse, ...] = ()  #: energy and cost, most energy first


def select(pairs: Iterable[Pair], application: str = "") -> Iterator[Pair]:
    """Keep the decisions about this application (empty: all)."""
    for pair in pairs:
        name = application_of(pair[0])
        if not application or application in names_of(name):
            yield pair


def application_of(decision: DecisionRow) -> str:
    """Name the decision's application: its label, or user and job name where it has none."""
    return decision.label or f"{decision.user}/{decision.name}"


class OutcomeTally:
    """Adds up decisions with their outcomes, one after the other.

    confidence: nominal level of intervals without one of their own.
    energy, node_cpus: see `EnergyTally`.
    asked: decisions by the identity that predicted them: (level, key).
    usage: what completed runs used, to compare with the curves.
    unused: what jobs had and did not use.
    """

    def __init__(
        self,
        confidence: float,
        energy: Energy | None = None,
        node_cpus: Mapping[str, int] | None = None,
    ) -> None:
        self._confidence = confidence
        self._first_s: float | None = None
        self._last_s: float | None = None
        self._finished = 0
        self._unchanged: Counter[str] = Counter()
        self._reasons: Counter[tuple[str, str, str, bool]] = Counter()
        self._all = AccuracyTally()
        self._guesses = AccuracyTally()
        self._newest: deque[JobOutcome] = deque(maxlen=MOST)
        self._stopped: deque[JobOutcome] = deque(maxlen=MOST)
        self._verdicts: defaultdict[str, AccuracyTally] = defaultdict(AccuracyTally)
        self._levels: defaultdict[str, AccuracyTally] = defaultdict(AccuracyTally)
        self._by_week: defaultdict[int, WeekTally] = defaultdict(WeekTally)
        self._applications: defaultdict[str, AccuracyTally] = defaultdict(AccuracyTally)
        self._counted: defaultdict[str, AccuracyTally] = defaultdict(AccuracyTally)
        #: decisions, changed and finished jobs of each application
        self._of_applications: dict[str, Counter[str]] = defaultdict(Counter)
        self._applied = {unit: effects.EffectTally(unit) for unit in Unit}
        self._observed = {unit: effects.EffectTally(unit) for unit in Unit}
        self._proven = effects.EffectTally()
        self._pairs = effects.PairedRuns()
        self._deadlines: Counter[str] = Counter()
        self._waits = WaitTally()
        self._group_waits = GroupWaitsTally()
        self._promises = effects.PromiseTally()
        self._planned = effects.PlannedTally()
        self.asked: Counter[tuple[str, str]] = Counter()
        self.usage = JobUsage()
        self.unused = UnusedTally()
        self._energy = EnergyTally(energy or Energy(), node_cpus or {})

    def add(self, decision: DecisionRow, run: RunRow | None) -> None:
        """Take a decision and its run."""
        name = application_of(decision)
        at_s = decision.at_s
        week = self._by_week[number_of(at_s)]
        own = self._applications[name]
        self._first_s = at_s if self._first_s is None else min(self._first_s, at_s)
        self._last_s = at_s if self._last_s is None else max(self._last_s, at_s)
        self._reasons[decision.mode, decision.action, decision.reason, decision.applied] += 1
        if not decision.applied:
            self._unchanged[why_unchanged(decision)] += 1
        if decision.key:
            self.asked[decision.key_level, decision.key] += 1
        finished = run is not None and run.state.final
        week.decisions += 1
        self._finished += finished
        self._of_applications[name].update(
            decisions=1, changed=int(effects.is_changed(decision)), finished=int(finished)
        )
        if decision.deadline_s:
            self._deadlines[effects.deadline_of(decision, run)] += 1
            self._deadlines["warned"] += decision.reason in MISSED
        if run is None:
            return
        self._planned.add(decision, run)
        week.add_wait(run)
        self._group_waits.add(number_of(at_s), decision, run)
        self._pairs.add(name, decision, run)
        self._newest.append(one := outcome_of(name, decision, run))
        changed = one.given_limit_s is not None or one.given_nodes is not None
        if changed and run.state.out_of_time:
            self._stopped.append(one)
        # A week's errors are of the predictions that the headline counts.
        trusted = (self._all, week.accuracy, self._counted[name])
        counted = (self._guesses,) if is_guess(decision) else trusted
        self._compare(decision, run, (*counted, own))
        if waits := effects.waits_of(decision, run):
            self._waits.add(*waits)
        if effects.is_changed(decision):
            self._promises.add(name, decision, run)
            if run.nodes == decision.nodes:
                self._applied[Unit(decision.unit)].add(name, decision, run)
                week.add_changed(name, decision, run)
        elif effects.chooses(decision) and run.nodes != decision.nodes:
            proven = decision.reason == effects.PROVEN
            other = self._proven if proven else self._observed[Unit(decision.unit)]
            other.add(name, decision, run)
        self.usage.add(name, decision, run)
        self.unused.add(name, decision, run)
        self._energy.add(name, decision, run)

    def report(self, standings: Iterable[StandingRow] = (), **more: Any) -> OutcomeReport:
        """Sum up; ``more`` are fields that the tally does not have."""
        waits, off_by = self._waits.result(), self._pairs.factor()

        def by_unit(tallies: Mapping[Unit, effects.EffectTally]) -> tuple[effects.Effect, ...]:
            made = (one.result(waits, off_by) for one in tallies.values())
            return tuple(one for one in made if one is not None)

        return OutcomeReport(
            first_s=self._first_s,
            last_s=self._last_s,
            decisions=self._reasons.total(),
            finished=self._finished,
            modes=self._by(0),
            actions=self._by(1),
            unchanged=dict(self._unchanged.most_common()),
            reasons=tuple(
                ReasonCount(
                    mode=mode, action=action, reason=reason, applied=applied, decisions=number
                )
                for (mode, action, reason, applied), number in self._reasons.most_common()
            ),
            confidence=self._confidence,
            accuracy=self._all.result(),
            guesses=self._guesses.result(),
            stopped=tuple(sorted(self._stopped, key=lambda one: (one.job_id, one.at_s))),
            jobs=tuple(reversed(self._newest)),
            by_verdict=_results(self._verdicts),
            by_level=_results(self._levels),
            weeks=tuple(
                week.result(number, waits, off_by) for number, week in sorted(self._by_week.items())
            ),
            waits=waits,
            deadlines=effects.Deadlines(**self._deadlines),
            promises=self._promises.result(waits),
            planned=self._planned.result(),
            group_waits=self._group_waits.result(),
            energy=self._energy.result(),
            applied=by_unit(self._applied),
            observed=by_unit(self._observed),
            proven=effects.gain_of(self._proven.result(waits, off_by), applied=False),
            applications=self._application_rows(),
            switched_off=tuple(
                row for row in standings if row.off and (row.level.value, row.key) in self.asked
            ),
            **more,
        )

    def _compare(
        self, decision: DecisionRow, run: RunRow, tallies: Iterable[AccuracyTally]
    ) -> None:
        comparison = compare(decision, run)
        if comparison is None or comparison.cut:
            return
        level = decision.confidence or self._confidence
        within = levels_within(comparison, level)
        for tally in tallies:
            tally.add(comparison, level, within)
        if decision.verdict:
            self._verdicts[decision.verdict].add(comparison, level, within)
        if decision.key_level:
            self._levels[decision.key_level].add(comparison, level, within)

    def _by(self, place: int) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for key, number in self._reasons.items():
            counts[str(key[place])] += number
        return dict(counts.most_common())

    def _application_rows(self) -> tuple[ApplicationOutcome, ...]:
        rows = (
            ApplicationOutcome(
                application=name,
                accuracy=one.result(),
                counted=self._counted[name].result(),
                **self._of_applications[name],
            )
            for name, one in self._applications.items()
            if not names_of(name)[1].startswith(LEARNING)
        )
        return tuple(sorted(rows, key=lambda row: (-row.decisions, row.application)))


def _results(tallies: dict[str, AccuracyTally]) -> dict[str, Accuracy]:
    results = ((name, tally.result()) for name, tally in sorted(tallies.items()))
    return {name: one for name, one in results if one is not None}


def anonymous(report: OutcomeReport) -> OutcomeReport:
    """Replace the names of users, accounts and applications; partitions and clusters stay."""
    given: dict[tuple[str, str], str] = {}
    counts: Counter[str] = Counter()

    def pseudonym(kind: str, name: str) -> str:
        """Numbered, in the order in which names are asked for."""
        if (kind, name) not in given:
            counts[kind] += 1
            given[kind, name] = f"{kind}-{counts[kind]}"
        return given[kind, name]

    def row(one: Any) -> Any:
        own = {field.name for field in fields(one)}
        changes = {
            name: pseudonym(kind, getattr(one, name))
            for name, kind in _NAMED.items()
            if name in own
        }
        if isinstance(one, JobDiagnosis):
            # Arguments, folders and job names stand in some of these texts.
            changes["text"] = _PROBLEMS.get(one.problem, one.text)
        elif isinstance(one, StandingRow):
            changes["key"] = ""
        elif isinstance(one, GroupWaits) and one.kind in _NAMED:
            changes["who"] = pseudonym(one.kind, one.who)
        return replace(one, **changes)

    tables: dict[str, Any] = {name: tuple(map(row, getattr(report, name))) for name in _WITH_NAMES}
    selection = {
        key: pseudonym(key, value) if key in _NAMED else value
        for key, value in report.selection.items()
    }
    return replace(report, anonymous=True, selection=selection, **tables)
