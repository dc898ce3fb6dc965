"""What each week brought: how near predictions came, what changed jobs saved, how long jobs waited.

Weeks are those of the decisions, and begin on Monday, UTC.
"""

from dataclasses import dataclass, field

from sacct_ingest.records import DecisionRow
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import RunRow
from slurm_plugin.evaluation.accuracy import Accuracy, AccuracyTally
from slurm_plugin.evaluation.effects import Effect, EffectTally, waited_s
from slurm_plugin.protocol.status_messages import WaitAccuracy

_WEEK_S = 7 * 86_400
_MONDAY_S = 4 * 86_400  #: the first one of the epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """One week's decisions; it begins on Monday, UTC."""

    begin_s: float
    decisions: int
    accuracy: Accuracy | None
    applied: tuple[Effect, ...] = ()  #: of jobs whose count NIMO changed, one for each unit
    waited_jobs: int = 0  #: jobs that started, and waited for nothing but nodes
    wait_s: float | None = None  #: mean of their waits

    @property
    def end_s(self) -> float:
        """When the next one begins."""
        return self.begin_s + _WEEK_S


def number_of(at_s: float) -> int:
    """Give the number of the week of a moment, seconds since the epoch."""
    return int((at_s - _MONDAY_S) // _WEEK_S)


@dataclass(slots=True)
class WeekTally:
    """Adds up the decisions of a week."""

    decisions: int = 0
    accuracy: AccuracyTally = field(default_factory=AccuracyTally)
    _applied: dict[Unit, EffectTally] = field(default_factory=dict)
    _waited_jobs: int = 0
    _waited_s: float = 0.0

    def add_wait(self, run: RunRow) -> None:
        """Take the wait of a run."""
        if (wait_s := waited_s(run)) is not None:
            self._waited_jobs += 1
            self._waited_s += wait_s

    def add_changed(self, application: str, decision: DecisionRow, run: RunRow) -> None:
        """Take a job that ran on the count that NIMO gave it."""
        unit = Unit(decision.unit)
        self._applied.setdefault(unit, EffectTally(unit)).add(application, decision, run)

    def result(self, number: int, record: WaitAccuracy, off_by: float | None) -> Week:
        """Sum up; see `EffectTally.result`."""
        effects = (one.result(record, off_by) for one in self._applied.values())
        return Week(
            begin_s=float(number * _WEEK_S + _MONDAY_S),
            decisions=self.decisions,
            accuracy=self.accuracy.result(),
            applied=tuple(one for one in effects if one is not None),
            waited_jobs=self._waited_jobs,
            wait_s=self._waited_s / self._waited_jobs if self._waited_jobs else None,
        )
