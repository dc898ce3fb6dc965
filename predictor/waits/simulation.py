"""A queue run forward: when would a job start that is submitted now, and when do those that wait.

Run times are drawn from what is predicted of each job, and the queue runs on with them under EASY
backfilling, which plans with the limits that users gave.  Each draw is one future.  In each of them
a job at the end of the queue would have started at some moment: that is looked at for a grid of
sizes and limits, without a job being there.  Jobs to come are drawn from the cluster's past, as far
as they go before those that wait already.

Sizes are in units of which a queue has so many: nodes, or CPUs where jobs share nodes.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from predictor.checks import need_finite
from predictor.waits.easy import Closing, Engine, JobShape, ReplaySchedule
from predictor.waits.estimate import QUANTILES, WaitGrid
from predictor.waits.probes import Awaited, FormProbe, GridProbe, Watch, waits_of
from predictor.waits.unit_use import Stays, UnitUse, unit_use

Floats = npt.NDArray[np.float64]

#: Time limits that are looked at, seconds.
LIMITS_S = (
    *(60.0 * m for m in (5, 10, 15, 20, 30, 45, 60, 90, 120, 150, 180, 240, 300, 360, 480, 600)),
    *(3600.0 * h for h in (12, 16, 20, 24, 36, 48, 72, 96, 120, 168)),
)
#: Sizes that are looked at: so many nodes one by one, then each so much larger.
_ONE_BY_ONE, _STEP = 64, 1.1
#: Jobs in front of the queue that are run one by one, the same where one size and limit is looked
#: at, and jobs that stand for those behind.
_WHOLE, _WHOLE_ONLY, _BEHIND = 10_000, 2_000, 4_000
#: Share of a queue's front whose starts tell its pace.
_MOST_BEGUN = 0.9
#: Jobs to come that are drawn, at most.
_MOST_COMING = 1_000
#: Jobs of the queue that may start at a moment where Slurm does not say (slurm.conf(5),
#: ``bf_max_job_test``).
DEPTH = 500
#: Draws: at most, at least, and jobs that may be run in all of them together.
_DRAWS, _FEWEST, _BUDGET = 20, 4, 40_000
#: The same where one size and limit is looked at.
_DRAWS_ONLY, _BUDGET_ONLY = 8, 1_000
#: Share of a deviation that jobs of one application have in common.
_COMMON = 0.5
#: A job that ran longer than nearly all of its like is expected to run for as long again.
_OVERDUE = 0.98
#: Where more jobs run, their ends are counted in steps of this share of the time until then.
_FEW, _GRAIN = 500, 0.01
#: No run takes less, seconds.
_LEAST_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A job that runs or waits."""

    units: int
    limit_s: float
    #: what is predicted of its run time: logarithms of quantiles; empty: the limit is all there is
    log_run_s: tuple[float, ...] = ()
    application: int = 0  #: jobs with the same number deviate alike; 0: this one is alone
    owner: str = ""  #: its user
    account: str = ""
    ran_s: float = 0.0  #: time that it has run for
    begin_s: float = 0.0  #: it cannot start before so many seconds from now
    number: int = -1  #: of the caller
    key: int = -1  #: by which others wait for it
    awaits: tuple[Awaited, ...] = ()  #: all of them are in the queue, or run


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Jobs to come, as they came in the past."""

    per_s: float = 0.0
    #: share of them that start before jobs which were there earlier
    ahead: float = 0.0
    shapes: Sequence[JobShape] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """A queue at one moment; times are seconds from then."""

    units: int
    nodes: int = 0  #: that the units are of; 0: each is a node
    running: Sequence[QueuedJob] = ()
    waiting: Sequence[QueuedJob] = ()  #: in the order of their priority; read where needed only
    closings: Sequence[Closing] = ()
    arrivals: Arrivals = Arrivals()
    depth: int = DEPTH  #: jobs that may start at a moment, from the first on


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """What came of running a queue forward."""

    grid: WaitGrid  #: waits of a job that is submitted now
    starts_s: dict[int, tuple[float, ...]]  #: of jobs that wait, by their numbers: rising
    front: Sequence[QueuedJob] = ()  #: jobs whose starts were looked for
    #: starts of each of an array's tasks among them, by its number: rising
    tasks_s: dict[int, tuple[tuple[float, ...], ...]] = field(default_factory=dict)
    #: what the waits of a user's new jobs are multiplied by, for what that user has in the queue
    factors: dict[str, float] = field(default_factory=dict)
    #: None where one size and limit was looked at
    use: UnitUse | None = None


def run_forward(
    state: QueueState,
    *,
    seed: int = 0,
    horizon_s: float = 30 * 86_400.0,
    only: tuple[int, float] | None = None,
) -> Forward:
    """Run a queue forward several times.

    state: the queue.
    seed: of the draws.
    horizon_s: what has not started by then counts as starting then.
    only: size and time limit, seconds, that are looked at; None: all.  A run ends once such a job
        has started, so that starts of others behind it are not found.
    Raises ValueError: the horizon is no number.
    """
    need_finite("horizon", horizon_s)
    rng = np.random.default_rng(seed)
    if only is None:
        sizes = _sizes(state.units, state.nodes or state.units)
        limits_s = LIMITS_S
    else:
        sizes = (min(only[0], state.units),)
        limits_s = (only[1],)
    if not state.waiting and not state.closings:
        return _without_queue(state, (sizes, limits_s), rng, horizon_s)
    chosen = _chosen(state.waiting, _WHOLE if only is None else _WHOLE_ONLY)
    front = chosen.jobs
    jobs = len(state.running) + len(front)
    budget, most = (_BUDGET, _DRAWS) if only is None else (_BUDGET_ONLY, _DRAWS_ONLY)
    draws = int(np.clip(budget // (jobs + 1), _FEWEST, most))
    left = _draw(state.running, draws, rng)
    if left.shape[1] > _FEW:  # many jobs end together: each moment at which jobs end costs a look
        left = np.exp(_GRAIN * np.round(np.log(left) / _GRAIN))
    coming = _draw(front, draws, rng)
    waits = np.empty((draws, len(sizes), len(limits_s)))
    starts = np.empty((draws, len(front)))
    for draw in range(draws):
        later = _arriving(state.arrivals, rng, horizon_s / 30) if front else []
        probe = GridProbe(sizes, horizon_s, limits_s=limits_s)
        starts[draw], behind_s = _run(
            *(state, chosen, left[draw], coming[draw], probe, later),
            late_until_s=0.0 if only else horizon_s,
        )
        waits[draw] = np.clip(probe.waits_s, behind_s, horizon_s)
    starts = np.minimum(starts, horizon_s)
    stays = coming.copy()
    stays[:, chosen.whole :] *= chosen.each
    tasks: dict[int, list[int]] = defaultdict(list)
    for place, job in enumerate(front):
        if job.number >= 0:
            tasks[job.number].append(place)
    arrays = {number: places for number, places in tasks.items() if len(places) > 1}
    return Forward(
        grid=_grid(sizes, limits_s, waits),
        # Of several tasks of an array the first to start.
        starts_s={number: _rising(starts[:, places[0]]) for number, places in tasks.items()},
        front=front,
        tasks_s={n: tuple(_rising(starts[:, p]) for p in places) for n, places in arrays.items()},
        use=None if only else _use(state, left, front, starts, stays),
    )


def _use(
    state: QueueState,
    left_s: Floats,
    front: Sequence[QueuedJob] = (),
    starts_s: Floats | None = None,
    run_s: Floats | None = None,
) -> UnitUse:
    """Add up what those that run, and those of the front, take over time."""
    none = np.zeros((len(left_s), 0))
    starts = none if starts_s is None else starts_s
    ends = none if run_s is None else starts + run_s
    return unit_use(
        Stays(_units(state.running), np.zeros_like(left_s), left_s),
        Stays(_units(front), starts, ends),
        state.closings,
    )


def _units(jobs: Sequence[QueuedJob]) -> Floats:
    return np.array([job.units for job in jobs], dtype=float)


def _rising(draws: Floats) -> tuple[float, ...]:
    return tuple(np.sort(draws).tolist())


def starts_behind(
    state: QueueState,
    forms: Sequence[QueuedJob],
    *,
    draws: int,
    seed: int = 0,
    horizon_s: float = 30 * 86_400.0,
) -> Floats:
    """Draw when a job starts behind all that wait, in each of the forms that it may have.

    state: the queue without it.
    forms: what it may ask for; others run as long in all of them, so that starts are compared.
    draws: futures that are drawn.
    seed: of the draws.
    horizon_s: what has not started by then counts as starting then.
    Returns starts, seconds from now, of shape ``(forms, draws)``.
    Raises ValueError: the horizon is no number.
    """
    need_finite("horizon", horizon_s)
    rng = np.random.default_rng(seed)
    chosen = _chosen(state.waiting, _WHOLE)
    left = _draw(state.running, draws, rng)
    coming = _draw(chosen.jobs, draws, rng)
    starts = np.empty((len(forms), draws))
    for draw in range(draws):
        probe = FormProbe(forms, horizon_s)
        behind_s = _run(state, chosen, left[draw], coming[draw], probe)[1]
        starts[:, draw] = np.clip(probe.starts_s, behind_s, horizon_s)
    return starts


def _shape(job: QueuedJob, units: int, run_s: float, *, ran_s: float = 0.0) -> JobShape:
    limit_s = max(job.limit_s - ran_s, run_s, 1.0) if ran_s else max(job.limit_s, 1.0)
    return JobShape(min(job.units, units), limit_s, run_s)


#: Sizes and time limits that are looked at.
_Looked = tuple[tuple[int, ...], tuple[float, ...]]


def _without_queue(
    state: QueueState, looked: _Looked, rng: np.random.Generator, horizon_s: float
) -> Forward:
    """Find when enough of what runs has ended: nothing else stands before a new job."""
    sizes, limits_s = looked
    asked = np.array(sizes)
    units = np.array([job.units for job in state.running], dtype=np.int64)
    free = state.units - int(units.sum())
    waits = np.zeros((_DRAWS, len(sizes)))
    left = _draw(state.running, _DRAWS, rng)
    if asked.max() > free:
        order = np.argsort(left, axis=1)
        freed = free + np.cumsum(units[order], axis=1)
        place = np.stack([np.searchsorted(row, asked) for row in freed])
        ended = np.take_along_axis(left, order, axis=1)
        ended = np.column_stack([ended, np.full(_DRAWS, horizon_s)])
        waits = np.where(asked <= free, 0.0, np.take_along_axis(ended, place, axis=1))
    every = np.repeat(waits[:, :, None], len(limits_s), axis=2)
    grid = _grid(sizes, limits_s, np.minimum(every, horizon_s))
    return Forward(grid=grid, starts_s={}, use=_use(state, left))


def _run(
    state: QueueState,
    chosen: "_Chosen",
    left_s: Floats,
    run_s: Floats,
    watch: Watch,
    later: Sequence[tuple[float, JobShape]] = (),
    *,
    late_until_s: float = 0.0,
) -> tuple[Floats, float]:
    """Run a queue once: give starts of those that wait, and when all of them have started.

    The second is 0 where all were run one by one.

    left_s, run_s: what is left of jobs that run, and run times of those that wait.
    later: jobs to come.
    late_until_s: so long the starts of those are looked for, too, that cannot start yet.
    """
    watch.engine = engine = Engine(
        state.units, closings=state.closings, depth=state.depth, moments=watch.moments
    )
    there = [
        _shape(job, state.units, one, ran_s=job.ran_s)
        for job, one in zip(state.running, left_s.tolist(), strict=True)
    ]
    every = [
        (job.begin_s, _shape(job, state.units, one))
        for job, one in zip(chosen.jobs, run_s.tolist(), strict=True)
    ]
    queued, rest = every[: chosen.whole], [shape for _, shape in every[chosen.whole :]]
    order = sorted(range(len(queued)), key=lambda i: queued[i][0])
    come = sorted([*(queued[i] for i in order), *later], key=lambda one: one[0])
    place = {id(one): number for number, one in enumerate(come, len(there))}
    shapes = [*there, *(shape for _, shape in come)]
    front = chosen.jobs[: chosen.whole]
    numbers = [*range(len(there)), *(place[id(one)] for one in queued)]
    watch.numbers = by_key = _by_key([*state.running, *front], numbers)
    own = dict(zip(numbers[len(there) :], front, strict=True))
    late = [number for number, job in own.items() if job.begin_s > 0 or job.awaits]

    def is_through(now_s: float) -> bool:
        if not watch(now_s) or (rest and engine.waiting_jobs):
            return False
        return now_s >= late_until_s or all(map(engine.has_started, late))

    if not there and (not come or come[0][0] > 0):
        watch(0.0)
    schedule = engine.run(
        [0.0] * len(there) + [begin_s for begin_s, _ in come],
        lambda job, _: shapes[job],
        running=len(there),
        waits={n: waits_of(job.awaits, by_key) for n, job in own.items() if job.awaits},
        done=is_through,
    )
    started = np.append(schedule.start_s, inf)
    starts = started[[min(place[id(one)], len(started) - 1) for one in queued]]
    if not rest:
        return starts, 0.0
    return _with_rest(schedule, starts, rest, chosen.each)


def _by_key(jobs: Sequence[QueuedJob], numbers: Sequence[int]) -> dict[int, list[int]]:
    """Give the engine's numbers of the jobs that others may wait for, by their keys."""
    found: dict[int, list[int]] = defaultdict(list)
    for job, number in zip(jobs, numbers, strict=True):
        if job.key >= 0:
            found[job.key].append(number)
    return found


def _with_rest(
    schedule: ReplaySchedule, starts_s: Floats, rest: Sequence[JobShape], each: int
) -> tuple[Floats, float]:
    """Let jobs that stand for others start one after the other, at the pace of those before.

    starts_s: of those before.
    Returns starts of all, and when all have started.
    """
    # The last of those before leave gaps, as nobody is behind them.
    until_s = max(float(np.quantile(starts_s, _MOST_BEGUN)), 1.0)
    begun = schedule.start_s < until_s
    lasts_s = schedule.end_s[begun] - schedule.start_s[begun]
    spans_s = np.minimum(lasts_s, until_s - schedule.start_s[begun])
    pace = float((spans_s * schedule.nodes[begun]).sum()) / until_s
    ran = schedule.end_s < inf
    before = float(((schedule.end_s - schedule.start_s) * schedule.nodes)[ran].sum())
    work = np.array([each * shape.nodes * min(shape.run_s, shape.limit_s) for shape in rest])
    through = (before + np.concatenate([[0.0], np.cumsum(work)])) / pace
    return np.concatenate([starts_s, through[:-1]]), float(through[-1])


def _arriving(
    arrivals: Arrivals, rng: np.random.Generator, until_s: float
) -> list[tuple[float, JobShape]]:
    """Draw the jobs to come that go before those which wait already."""
    per_s = arrivals.per_s * arrivals.ahead
    if per_s <= 0 or not arrivals.shapes:
        return []
    count = min(int(rng.poisson(per_s * until_s)), _MOST_COMING)
    times = np.cumsum(rng.exponential(1 / per_s, count))
    which = rng.integers(0, len(arrivals.shapes), count)
    return [(t, arrivals.shapes[i]) for t, i in zip(times.tolist(), which.tolist(), strict=True)]


class _Chosen(NamedTuple):
    """Jobs of a queue that are looked at."""

    jobs: list[QueuedJob]
    whole: int  #: so many of them, the first, are run one by one
    each: int  #: how many jobs one of the others stands for


def _chosen(waiting: Sequence[QueuedJob], most: int) -> _Chosen:
    """Choose jobs to look at: all of those in front, and every so many-th of a long queue's end."""
    whole = min(most, len(waiting))
    each = max(-(-(len(waiting) - whole) // _BEHIND), 1)
    places = (*range(whole), *range(whole + each // 2, len(waiting), each))
    return _Chosen([waiting[place] for place in places], whole, each)


def _draw(jobs: Sequence[QueuedJob], draws: int, rng: np.random.Generator) -> Floats:
    """Draw what is left of each job's run time, shape ``(draws, jobs)``."""
    if not jobs:
        return np.zeros((draws, 0))
    limits = np.array([job.limit_s for job in jobs])
    ran = np.array([job.ran_s for job in jobs])
    times, predicted = _quantiles(jobs)
    # Uniform shares, alike for jobs of one application.
    _, which = np.unique([job.application for job in jobs], return_inverse=True)
    common = rng.standard_normal((draws, int(which.max()) + 1))[:, which]
    own = rng.standard_normal((draws, len(jobs)))
    alone = np.array([job.application == 0 for job in jobs])
    mixed = np.where(alone, own, np.sqrt(_COMMON) * common + np.sqrt(1 - _COMMON) * own)
    share = normal_cdf(mixed)
    # Given that it runs still: the part of the distribution that is left.
    passed = np.where(ran > 0, _share_below(times, np.log(np.maximum(ran, _LEAST_S))), 0.0)
    drawn = np.exp(_at(times, passed + share * (1 - passed)))
    again = np.maximum(ran, _LEAST_S) * (1 + rng.exponential(1.0, share.shape))
    drawn = np.where(passed >= _OVERDUE, again, np.maximum(drawn, ran))
    total = np.where(predicted, np.minimum(drawn, limits), limits)
    left: Floats = np.maximum(total - ran, _LEAST_S)
    return left


def _quantiles(jobs: Sequence[QueuedJob]) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Log quantiles of each job's run time, shape ``(jobs, quantiles)``, and who has any."""
    rows: dict[tuple[float, ...], int] = {}
    which = np.array([rows.setdefault(job.log_run_s, len(rows)) for job in jobs])
    width = max(map(len, rows))
    table = np.array([row or (0.0,) * width for row in rows], dtype=float).reshape(len(rows), width)
    predicted = np.array([bool(row) for row in rows])
    every: Floats = (table if width else np.zeros((len(rows), QUANTILES)))[which]
    return every, predicted[which]


def normal_cdf(z: Floats) -> Floats:
    """Cumulative distribution of the standard normal, within 1e-7.

    SciPy's takes 30 MiB of nimod's memory.  Abramowitz and Stegun, Handbook of Mathematical
    Functions, equation 26.2.17.
    """
    t = 1.0 / (1.0 + 0.2316419 * np.abs(z))
    powers = np.zeros_like(z)
    for factor in (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530):
        powers = t * (powers + factor)
    above = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) * powers
    below: Floats = np.where(z >= 0.0, 1.0 - above, above)
    return below


def _share_below(times: Floats, value: Floats) -> Floats:
    """Share of each distribution below a value."""
    count = times.shape[1]
    below = (times < value[:, None]).sum(axis=1)
    low = np.take_along_axis(times, np.clip(below - 1, 0, count - 1)[:, None], 1)[:, 0]
    high = np.take_along_axis(times, np.clip(below, 0, count - 1)[:, None], 1)[:, 0]
    part = np.where(high > low, (value - low) / np.maximum(high - low, 1e-12), 0.0)
    inside = (below - 1 + np.clip(part, 0.0, 1.0) + 0.5) / count
    shares: Floats = np.clip(np.where(below == 0, 0.0, np.where(below == count, 1.0, inside)), 0, 1)
    return shares


def _at(times: Floats, share: Floats) -> Floats:
    """Quantiles of the distributions at shares of shape ``(draws, jobs)``."""
    count = times.shape[1]
    where = np.clip(share * count - 0.5, 0, count - 1)
    low = np.floor(where).astype(int)
    high = np.minimum(low + 1, count - 1)
    each = np.arange(times.shape[0])
    values: Floats = times[each, low] + (where - low) * (times[each, high] - times[each, low])
    return values


def _sizes(units: int, nodes: int) -> tuple[int, ...]:
    """Sizes to look at: parts of a node, small numbers of nodes one by one, large ones in steps."""
    each = units / nodes
    counts = list(range(1, min(nodes, _ONE_BY_ONE) + 1))
    while counts[-1] < nodes:
        counts.append(min(int(counts[-1] * _STEP), nodes))
    whole = {ceil(count * each - 1e-9) for count in counts}
    parts = {1 << power for power in range(int(each).bit_length())}
    return tuple(sorted(size for size in whole | parts if 0 < size <= units))


def _grid(sizes: Sequence[int], limits_s: Sequence[float], waits: Floats) -> WaitGrid:
    """Put the draws in order; more units or a longer limit never start earlier."""
    rising = np.maximum.accumulate(np.maximum.accumulate(waits, axis=1), axis=2)
    cells = np.sort(np.moveaxis(rising, 0, -1), axis=-1)
    assert all(a < b for a, b in pairwise(sizes))
    return WaitGrid(
        sizes=tuple(sizes),
        limits_s=(*limits_s[:-1], inf),
        draws_s=tuple(tuple(tuple(cell) for cell in row) for row in cells.tolist()),
    )
