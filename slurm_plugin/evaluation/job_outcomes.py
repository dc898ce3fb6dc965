"""Jobs one by one: what was predicted and decided, and what came of each."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from sacct_ingest.records import DecisionRow, JobState, KeyLevel
from sacct_ingest.store import RunRow
from slurm_plugin.evaluation.comparison import predicted_for

#: The newest jobs that a report lists, and the stopped ones.
MOST = 1000
_GUESSES = (KeyLevel.NAME.value, KeyLevel.USER.value)


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
        user=decision.user,
        application=application,
        at_s=decision.at_s,
        nodes=run.nodes,
        predicted_s=predicted[0] if predicted else None,
        took_s=float(run.elapsed_s),
        limit_s=run.limit_s,
        state=run.state.value,
        mode=decision.mode,
        action=decision.action,
        reason=decision.reason,
        applied=decision.applied,
        given_nodes=decision.nodes
        if nodes_set and decision.nodes != decision.requested_nodes
        else None,
        given_limit_s=decision.given_limit_s if decision.applied else None,
        verdict=decision.verdict,
        decision_id=decision.decision_id,
    )


def is_guess(decision: DecisionRow) -> bool:
    """Whether no decision could be based on the prediction: a guess, or not reliable."""
    return not decision.applied and (
        decision.key_level in _GUESSES or decision.verdict != "reliable"
    )


class JobOutcomeTally:
    """Keeps the newest jobs, and all that NIMO changed and that a limit or deadline stopped."""

    def __init__(self) -> None:
        self._newest: deque[JobOutcome] = deque(maxlen=MOST)
        self._stopped: deque[JobOutcome] = deque(maxlen=MOST)

    def add(self, one: JobOutcome) -> None:
        """Take a job that ended."""
        self._newest.append(one)
        changed = one.given_limit_s is not None or one.given_nodes is not None
        if changed and JobState(one.state).cut_short:
            self._stopped.append(one)

    def newest(self) -> tuple[JobOutcome, ...]:
        """Give the newest jobs, the newest first."""
        return tuple(reversed(self._newest))

    def stopped(self) -> tuple[JobOutcome, ...]:
        """Give the jobs that a limit or deadline stopped after NIMO had changed them, by job id."""
        return by_id(self._stopped)


def by_id(jobs: Iterable[JobOutcome]) -> tuple[JobOutcome, ...]:
    """Order jobs by their ids."""
    return tuple(sorted(jobs, key=lambda one: (one.job_id, one.at_s)))
