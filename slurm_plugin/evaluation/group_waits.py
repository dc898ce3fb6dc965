"""Who waits most: waits for nodes by partition, account and user.

They are those of the newest four weeks with a wait, beside the four weeks before.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from sacct_ingest.records import DecisionRow
from sacct_ingest.store import RunRow
from slurm_plugin.evaluation.effects import waited_s

#: Weeks that are looked at, and as many before them.
WEEKS: Final = 4
#: Share of the jobs that waited no longer than the longest wait that is said.
MOST: Final = 0.9
#: Jobs of a group; of fewer no wait is said.
FEWEST: Final = 5
#: What jobs are grouped by, in the order of `_Group`.
KINDS: Final = ("partition", "account", "user")

_Group = tuple[str, str, str]
#: Jobs by their wait in seconds.
_Waits = dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWaits:
    """How long the jobs of a partition, an account or a user waited for nodes."""

    kind: str  #: one of `KINDS`
    who: str  #: its name
    jobs: int
    median_s: float
    most_s: float  #: nine jobs in ten waited no longer
    before_median_s: float | None = None  #: the same of the weeks before; None: too few jobs
    before_most_s: float | None = None


@dataclass(slots=True)
class GroupWaitsTally:
    """Adds up waits by week; only the newest weeks stay."""

    _weeks: dict[int, dict[_Group, _Waits]] = field(default_factory=dict)

    def add(self, week: int, decision: DecisionRow, run: RunRow) -> None:
        """Take the wait of a run.

        week: number of the week of its decision.
        """
        wait_s = waited_s(run)
        newest = max(self._weeks, default=week)
        if wait_s is None or week <= newest - 2 * WEEKS:
            return
        if week not in self._weeks:
            self._weeks[week] = {}
            for old in [one for one in self._weeks if one <= week - 2 * WEEKS]:
                del self._weeks[old]
        group = (run.partition, decision.account, decision.user)
        waits = self._weeks[week].setdefault(group, {})
        rounded = _three_digits(int(wait_s))
        waits[rounded] = waits.get(rounded, 0) + 1

    def result(self) -> tuple[GroupWaits, ...]:
        """List partitions, then accounts, then users, of each those that wait longest first."""
        newest = max(self._weeks, default=0)
        now: list[tuple[_Group, _Waits]] = []
        before: list[tuple[_Group, _Waits]] = []
        for week, groups in self._weeks.items():
            (now if week > newest - WEEKS else before).extend(groups.items())
        return tuple(row for place in range(len(KINDS)) for row in _rows(place, now, before))


def _three_digits(seconds: int) -> int:
    """Round more finely than people read: there are few such waits, however many jobs."""
    return round(seconds, min(3 - len(str(seconds)), 0))


def _rows(
    place: int, now: Iterable[tuple[_Group, _Waits]], before: Iterable[tuple[_Group, _Waits]]
) -> list[GroupWaits]:
    """Give the rows of the kind at this place of `KINDS`."""
    earlier = _by_name(place, before)
    rows = []
    for name, waits in _by_name(place, now).items():
        jobs = sum(waits.values())
        if not name or jobs < FEWEST:
            continue
        past = earlier.get(name, {})
        enough = sum(past.values()) >= FEWEST
        rows.append(
            GroupWaits(
                kind=KINDS[place],
                who=name,
                jobs=jobs,
                median_s=_quantile(waits, 0.5),
                most_s=_quantile(waits, MOST),
                before_median_s=_quantile(past, 0.5) if enough else None,
                before_most_s=_quantile(past, MOST) if enough else None,
            )
        )
    return sorted(rows, key=lambda row: (-row.most_s, -row.median_s, -row.jobs, row.who))


def _by_name(place: int, groups: Iterable[tuple[_Group, _Waits]]) -> Mapping[str, _Waits]:
    """Add up the groups that have the same name at this place."""
    sums: defaultdict[str, _Waits] = defaultdict(dict)
    for group, waits in groups:
        own = sums[group[place]]
        for wait_s, jobs in waits.items():
            own[wait_s] = own.get(wait_s, 0) + jobs
    return sums


def _quantile(waits: _Waits, share: float) -> float:
    """Give the shortest wait that at least this share of the jobs did not exceed."""
    ordered = sorted(waits)
    least = share * sum(waits.values())
    sums = accumulate(waits[wait_s] for wait_s in ordered)
    return float(next(wait_s for wait_s, jobs in zip(ordered, sums, strict=True) if jobs >= least))
