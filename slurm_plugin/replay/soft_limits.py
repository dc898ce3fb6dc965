"""A history with limits to plan with: what they would have given, and to whom they would have cost.

EASY in order of submission.  NIMO plans each job with what its table said of the runs that had
ended when the job was submitted; beside it stand the users' limits, the mean of the user's last two
runs (EASY+: Tsafrir, Etsion, Feitelson 2007) and the run times themselves.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter

import msgspec
import numpy as np

from predictor.job_table import for_limit
from predictor.level.record import Record
from predictor.prediction_table import PredictionTable
from predictor.stored_table import encode
from predictor.table import covers
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from predictor.waits.easy import Engine, JobShape, ReplaySchedule
from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.layout import layouts_of_run
from sacct_ingest.store import RunRow
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.decision.soft_plans import planned_s
from slurm_plugin.replay.measures import measure
from slurm_plugin.replay.workload import Floats, Workload, recent_mean

QUANTILES = (0.5, 0.7, 0.85, 0.95)
#: A smaller gain is not worth a change.
WORTH = 0.03
#: A table is made anew an hour after the last one, once so many of its runs ended since, or twice
#: as many as it had.
_EVERY, _HOUR_S = 10, 3600.0
_LEAST_S = 60.0


class LimitReplay(msgspec.Struct, frozen=True, kw_only=True):
    """All ways to plan the jobs of one log, and the quantile to switch on; None: leave it."""

    log: str
    jobs: int
    figures: list["LimitFigures"]
    outlasted_share: float | None


class LimitFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One way to plan, over the users' limits: ratios of mean waits and of mean slowdowns."""

    method: str
    quantile: float | None = None  #: of NIMO's predictions
    wait: float
    slowdown: float
    halves: tuple[float, float]  #: ratio of the waits in each half of the history
    twice_slower: float  #: share of the jobs whose turnaround more than doubled ...
    twice_faster: float  #: ... and more than halved
    extended: float  #: share of the jobs that outlasted their plan
    users_worse: int  #: users whose mean wait grew by more than a twentieth and a minute ...
    users: int  #: ... of so many
    worst_user: str  #: to whom it costs most ...
    worst_s: float  #: ... and how much longer the mean wait is


def replay_limits(
    work: Workload, config: Config, settings: TableSettings, report: Callable[[int], None]
) -> list[LimitFigures]:
    """Replay a workload in each way; the users' limits come first.

    report: called after each replay, with its number of jobs.
    """
    rules = config.time_limit
    limits = work.limit_s
    ended = _run(work, limits)
    tables = list(_tables(work, settings, config.sharing.own_runs))
    ways: dict[tuple[str, float | None], Floats] = {("user", None): limits}
    for share in QUANTILES:
        plans = [
            limit_s if found is None else planned_s(*found, limit_s, share, rules)
            for found, limit_s in zip(tables, limits.tolist(), strict=True)
        ]
        ways["nimo", share] = np.array(plans)
    ways["last two", None] = np.maximum(recent_mean(work), _LEAST_S)
    ways["perfect", None] = np.maximum(work.run_s, 1.0)
    made = []
    for (method, quantile), plans_s in ways.items():
        plan = np.minimum(plans_s, limits)
        made.append(_figures(work, ended, _run(work, plan), plan, method, quantile))
        report(len(work))
    return made


def suggested(figures: Sequence[LimitFigures]) -> LimitFigures | None:
    """Choose the quantile with the shortest waits; None: leave it, at least in one half."""
    nimo = [one for one in figures if one.method == "nimo" and max(one.halves) <= 1.0]
    best = min(nimo, key=lambda one: one.wait, default=None)
    return best if best and best.wait <= 1 - WORTH else None


def _run(work: Workload, plans: Floats) -> ReplaySchedule:
    rows = (work.nodes.tolist(), plans.tolist(), work.run_s.tolist(), work.limit_s.tolist())
    shapes = [JobShape(*row) for row in zip(*rows, strict=True)]
    return Engine(work.cluster_nodes).run(work.submit_s.tolist(), lambda job, _: shapes[job])


def _figures(
    work: Workload,
    before: ReplaySchedule,
    after: ReplaySchedule,
    plans: Floats,
    method: str,
    quantile: float | None,
) -> LimitFigures:
    waits = after.start_s - work.submit_s
    base = before.start_s - work.submit_s
    turnaround = (waits + work.run_s) / (base + work.run_s)
    middle = len(work) // 2
    groups: dict[str, list[int]] = defaultdict(list)
    for number, user in enumerate(work.users):
        groups[user].append(number)
    costs = {
        user: (float(waits[jobs].mean()), float(base[jobs].mean())) for user, jobs in groups.items()
    }
    grown = {user: now - was for user, (now, was) in costs.items()}
    worse = [user for user, (now, was) in costs.items() if now > max(1.05 * was, was + 60.0)]
    worst, worst_s = max(grown.items(), key=itemgetter(1))
    return LimitFigures(
        method=method,
        quantile=quantile,
        wait=_ratio(waits, base),
        slowdown=measure(work, after).slowdown / measure(work, before).slowdown,
        halves=(_ratio(waits[:middle], base[:middle]), _ratio(waits[middle:], base[middle:])),
        twice_slower=float((turnaround > 2).mean()),
        twice_faster=float((turnaround < 0.5).mean()),
        extended=float((work.run_s > plans).mean()) if method != "user" else 0.0,
        users_worse=len(worse),
        users=len(costs),
        worst_user=worst if worst_s > 0 else "",
        worst_s=max(worst_s, 0.0),
    )


def _ratio(waits: Floats, base: Floats) -> float:
    return float(waits.sum() / base.sum()) if base.sum() else 1.0


def _tables(
    work: Workload, settings: TableSettings, own_runs: int
) -> Iterator[tuple[PredictionTable, int] | None]:
    """Give each job's table of what had ended before, and its size there; None: there is none."""
    rows = [run for run in work.runs if isinstance(run, RunRow)]
    history: dict[tuple[KeyLevel, str], list[RunRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda one: one.end_s or 0):
        for level in KeyLevel:
            if key := row.identity.key(level):
                history[level, key].append(row)
    past = {name: _Past(*name, of_it, settings) for name, of_it in history.items()}
    for run in work.runs:
        yield _found(run, past, own_runs) if isinstance(run, RunRow) else None


def _found(
    row: RunRow, past: Mapping[tuple[KeyLevel, str], "_Past"], own_runs: int
) -> tuple[PredictionTable, int] | None:
    identity = row.identity
    now_s = float(row.submit_s)
    of_it = [past[level, key] for level in KeyLevel if (key := identity.key(level))]
    payloads = [one for each in of_it for one in each.payloads(now_s)]
    layouts = layouts_of_run(row)
    table = PredictionLookup(payloads).find(
        identity, layouts, attributes=partial(getattr, row, "attributes"), acting=True
    )
    if table is None or table.runs < own_runs or not table.nodes:
        return None
    table, size = for_limit(table, float(row.limit_s or 0) or None), table.unit.size_of(row)
    if table.is_guess:
        size = min(max(size, table.nodes[0]), table.nodes[-1])
    return (table, size) if covers(table, size) else None


class _Past:
    """One identity's runs in the order of their ends, and its tables at the present moment."""

    def __init__(
        self, level: KeyLevel, key: str, rows: Sequence[RunRow], settings: TableSettings
    ) -> None:
        self._level = level
        self._key = key
        self._rows = rows
        self._settings = settings
        self._ends = [float(row.end_s or 0) for row in rows]
        self._count = 0
        self._fitted_s = -_HOUR_S
        self._payloads: list[tuple[str, str, str]] = []
        self._records: dict[str, Record] = {}

    def payloads(self, now_s: float) -> list[tuple[str, str, str]]:
        """Give level, key and text of its tables, made of the runs that had ended by then."""
        ended = bisect_right(self._ends, now_s)
        due = now_s >= self._fitted_s + _HOUR_S
        if due and ended >= self._count + min(_EVERY, self._count + 1):
            recent = self._rows[:ended][-self._settings.recent :]
            runs = IdentityRuns(self._level, self._key, recent, now_s)
            fitted = tables_of(runs, self._settings, records=self._records)
            self._records = {one.key: one.record for one in fitted}
            tables = [one.table for one in fitted if one.table is not None]
            self._payloads = [(one.level, one.key, encode(one)) for one in tables]
            self._count = ended
            self._fitted_s = now_s
        return self._payloads
