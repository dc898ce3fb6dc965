"""The prediction table of one job: for its time limit, nodes, layout and sizes.

Nothing but the standard library is loaded, as in :mod:`predictor.table`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache

from predictor.checks import need_finite
from predictor.memory import UNBOUNDED, Memory
from predictor.prediction_table import AtLimit, ByType, Part, PredictionTable
from predictor.problems import Problem, problem
from predictor.table import at, doubtful, round_time, verdict_at
from predictor.types import Verdict
from sacct_ingest.records import JobState
from sacct_ingest.runs.layout import Each, Layout, Unit
from sacct_ingest.runs.submission import JobKind

#: Cached tables of a node type or time limit: the next job is often of the same kind.
_CACHED = 1024
#: Name of the problem that all runs had another layout than the job.
OTHER_LAYOUT = "other_layout"
#: Limits that differ by less than what the accounting rounds to are the same.
_SAME_LIMIT_S = 60.0
#: Doublings beyond the counts that were run to which jobs are said to run until their limit.
_REACH = 6
#: Problems of starts that their limit ended, of jobs that it is to end.
_OF_LIMITS = frozenset({"unbounded", "cut_off", "cut_short", "no_curve"})
#: Words for a layout that counts nothing.
_NOTHING = "no GPUs"
_OF_TYPE = tuple(one.name for one in fields(ByType))


def within_cluster(
    table: PredictionTable, nodes: int, cpus: int = 0, gpus: int = 0
) -> PredictionTable:
    """Table that ends with the cluster, as do its problems and the runs it proposes; 0: unknown.

    Where all of them were run, what needs another count for a curve is proposed half of the fewest.
    cpus, gpus: of a node; 0: unknown.
    """
    each = {Unit.NODES: 1, Unit.CPUS: cpus, Unit.GPUS: gpus}[table.unit]
    # A size in CPUs or GPUs that was spread over one number of nodes ends with theirs.
    own_nodes = 0 if table.unit is Unit.NODES else table.layout.nodes
    largest = (own_nodes or nodes) * each

    def fitting(own: PredictionTable | ByType, one: Problem) -> Problem:
        counts = sorted({one.nodes for one in own.observed} | {one.nodes for one in own.starts})
        if one.observe is None or one.observe <= largest:
            return one
        fewer = counts[0] // 2 if counts and one.name == "no_curve" else 0
        return replace(one, observe=(fewer or None) if largest in counts else largest)

    def problems(own: PredictionTable | ByType) -> tuple[Problem, ...]:
        return tuple(fitting(own, one) for one in own.problems if one.beyond <= largest)

    if not largest:
        return table
    by_type = tuple(replace(one, problems=problems(one)) for one in table.by_type)
    knee, end = (n if n and n <= largest else None for n in (table.knee, table.max_useful))
    own = replace(table, problems=problems(table), by_type=by_type, in_cluster=largest)
    return replace(own, knee=knee, max_useful=end)


def without_ended_runs(table: PredictionTable) -> PredictionTable:
    """Table that proposes no run which would be ended as earlier runs of it were.

    On fewer nodes than any run completed on, a run takes longer and each node needs more memory.
    """

    def problems(own: PredictionTable | ByType) -> tuple[Problem, ...]:
        return tuple(
            replace(one, observe=None) if one.observe and _ended(table, one.observe) else one
            for one in own.problems
        )

    by_type = tuple(replace(one, problems=problems(one)) for one in table.by_type)
    return replace(table, problems=problems(table), by_type=by_type)


@lru_cache(maxsize=_CACHED)
def for_one_count(table: PredictionTable) -> PredictionTable:
    """Table for jobs that can have no other count: none of them is proposed."""
    return replace(table, problems=tuple(one for one in table.problems if not one.observe))


def _ended(table: PredictionTable, nodes: int) -> bool:
    fewest = min((one.nodes for one in table.observed), default=0)
    unfit = max((one.nodes for one in table.memory if one.mem_bytes >= UNBOUNDED), default=0)
    return nodes <= unfit or (table.limit_reached is not None and nodes < fewest)


@lru_cache(maxsize=_CACHED)
def for_limit(table: PredictionTable, limit_s: float | None) -> PredictionTable:
    """Table for jobs that ask for the time limit ``limit_s``: that of the nearest one (by ratio).

    Of jobs that run until their limit it is that limit.  None is a request without a limit.
    """
    if limit_s is None or limit_s <= 0:
        return table
    if table.kind is JobKind.UNTIL_LIMIT:
        return _until(table, limit_s)
    if not table.at_limits:
        return table
    own = _nearest_limit(table, limit_s)
    median, low = (tuple(min(t, limit_s) for t in one) for one in (own.median_s, own.low_s))
    # Beyond the interval as far as jobs of all limits together.
    tails = tuple(
        replace(
            tail,
            time_s=tuple(
                round_time(high_s * max(time_s / of_all_s, 1.0))
                for high_s, time_s, of_all_s in zip(
                    own.high_s, tail.time_s, table.high_s, strict=True
                )
            ),
        )
        for tail in table.tails
    )
    return replace(
        table, median_s=median, low_s=low, high_s=own.high_s, tails=tails, starts=own.starts
    )


def _nearest_limit(table: PredictionTable, limit_s: float) -> AtLimit:
    return min(table.at_limits, key=lambda one: abs(math.log(one.limit_s / limit_s)))


def _until(table: PredictionTable, limit_s: float) -> PredictionTable:
    """Table of jobs that run until a limit: as measured with it, else all of it, on any count."""
    measured: PredictionTable | AtLimit = table
    ran_with_s = table.asked_limit_s
    if table.at_limits:
        measured = _nearest_limit(table, limit_s)
        ran_with_s = measured.limit_s
    times = dict[int, tuple[float, float, float]]()
    if abs(ran_with_s - limit_s) < _SAME_LIMIT_S:
        columns = zip(measured.low_s, measured.median_s, measured.high_s, strict=True)
        for n, (low_s, median_s, high_s) in zip(table.nodes, columns, strict=True):
            times[n] = min(low_s, limit_s), min(median_s, limit_s), min(high_s, limit_s)
    least_s = limit_s * (table.to_limit.least_share if table.to_limit else 0.0)
    unseen = (round_time(max(least_s, 1.0)), limit_s, limit_s)
    last = max(table.nodes, default=1)
    ends = {ending.state for ending in table.endings}
    other_ends = ends - {JobState.COMPLETED.value, JobState.TIMEOUT.value}
    beside_point = _OF_LIMITS if other_ends else _OF_LIMITS | {"unfinished"}
    nodes = tuple(sorted({1, *table.nodes, table.in_cluster or last << _REACH}))
    low, median, high = zip(*(times.get(n, unseen) for n in nodes), strict=True)
    return replace(
        table,
        nodes=nodes,
        low_s=low,
        median_s=median,
        high_s=high,
        curve_sd=(0.0,) * len(nodes),
        tails=tuple(replace(tail, time_s=high) for tail in table.tails),
        verdict=Verdict.DOUBTFUL,
        verdicts=(Verdict.DOUBTFUL,) * len(nodes),
        problems=tuple(one for one in table.problems if one.name not in beside_point),
        knee=None,
        max_useful=None,
        change=None,
        starts=(),
        at_limits=(),
    )


@lru_cache(maxsize=_CACHED)
def of_all_limits(table: PredictionTable) -> PredictionTable:
    """Table for jobs of any time limit: on each count that of the limit with the longest runs.

    What follows from it for a time limit is the same whichever limit a job has.
    """
    if not table.at_limits:
        return table
    longest = [max(table.at_limits, key=lambda one: one.high_s[i]) for i in range(len(table.nodes))]
    high = tuple(one.high_s[i] for i, one in enumerate(longest))
    starts = {
        start.nodes: start
        for i, one in enumerate(longest)
        for start in one.starts
        if start.nodes == table.nodes[i]
    }
    tails = tuple(
        replace(
            tail,
            time_s=tuple(
                round_time(own_s * max(time_s / of_one_s, 1.0))
                for own_s, time_s, of_one_s in zip(high, tail.time_s, table.high_s, strict=True)
            ),
        )
        for tail in table.tails
    )
    return replace(
        table,
        median_s=tuple(min(one.median_s[i], one.limit_s) for i, one in enumerate(longest)),
        low_s=tuple(min(one.low_s[i], one.limit_s) for i, one in enumerate(longest)),
        high_s=high,
        tails=tails,
        starts=tuple(starts[n] for n in sorted(starts)),
        at_limits=(),
    )


@lru_cache(maxsize=_CACHED)
def for_type(table: PredictionTable, node_type: str) -> PredictionTable:
    """Table for jobs on this type of node; the same one if the type is unknown."""
    own = next((one for one in table.by_type if one.node_type == node_type), None)
    if own is None or node_type == table.node_type:
        return table
    said = {name: getattr(own, name) for name in _OF_TYPE}
    return replace(table, **said | {"change": own.change or table.change}, at_limits=())


def part_for(
    table: PredictionTable,
    layouts: Sequence[Layout] | None,
    attributes: Callable[[], Mapping[str, str]] = dict,
) -> Part | None:
    """Find the part of an identity's runs that a job belongs to.

    layouts: of each of its nodes, or of the whole job; any will do.  None: they are left open.
    attributes: gives its attributes by name; asked only where parts differ by them.
    """
    parts = list(table.parts)
    if layouts is not None:
        parts = [p for p in parts if any(one.matches(p.layout) for one in layouts)]
    if any(part.values for part in parts):
        values = attributes()
        parts = [p for p in parts if all(values.get(name, "") == v for name, v in p.values)]
    return parts[0] if len(parts) == 1 else None


@lru_cache(maxsize=_CACHED)
def of_kind(table: PredictionTable, kind: JobKind) -> PredictionTable:
    """Table of jobs of this kind: where their length is no property of the work, it says so."""
    if kind is JobKind.WORK or table.kind is kind:
        return table
    facts: dict[str, object] = {}
    if table.to_limit is not None:
        share = table.to_limit.cpu_share
        used = "" if share is None else f" and used {share:.0%} of their CPUs"
        facts = {"runs": table.to_limit.runs, "of": table.to_limit.of, "used": used}
    said = problem(kind.value.replace(" ", "_"), **facts)
    return replace(doubtful(table, [said]), kind=kind)


@lru_cache(maxsize=_CACHED)
def for_layout(table: PredictionTable, layouts: tuple[Layout, ...]) -> PredictionTable:
    """Table for jobs with these layouts: refused where its runs had another one."""
    runs = [part.layout for part in table.parts] or [table.layout]
    if any(one.matches(other) for one in layouts for other in runs):
        return table
    had, asked = _apart(table.unit, runs, layouts)
    return replace(
        table,
        verdict=Verdict.REFUSED,
        verdicts=(Verdict.REFUSED,) * len(table.nodes),
        problems=(problem(OTHER_LAYOUT, had=had, asked=asked), *table.problems),
    )


def _apart(unit: Unit, runs: Sequence[Layout], layouts: Sequence[Layout]) -> tuple[str, str]:
    """Say how the runs were laid out, and how a job is that is laid out otherwise.

    unit: that runs are counted in.
    """
    had = " or ".join(str(one) or _NOTHING for one in runs)
    if any(one.shape for one in runs):
        several = any(one.shape for one in layouts)
        return had, "other components" if several else "another shape"
    alike = [one for one in layouts if _kind(one) == _kind(runs[0])]
    if unit is Unit.GPUS and all(one.gpus == 0 for one in alike):
        return "GPUs", "none"
    if unit is Unit.CPUS and not alike:
        return "a number of CPUs", "all that its nodes have"
    return had, str(next(iter(alike), layouts[0])) or _NOTHING


def is_otherwise(table: PredictionTable) -> bool:
    """Whether all runs had another layout than the job, as `for_layout` says it."""
    return any(problem.name == OTHER_LAYOUT for problem in table.problems)


@lru_cache(maxsize=_CACHED)
def over_nodes(table: PredictionTable, cpus: int) -> PredictionTable | None:
    """Table over nodes of one over CPUs, for jobs with ``cpus`` on each node.

    Only where the number of CPUs alone counts, however they are spread over nodes.  None: it says
    nothing of these.
    """
    need_finite("CPUs on each node", cpus, least=1)
    nodes = tuple(n // cpus for n in table.nodes if n % cpus == 0)
    if not nodes:
        return None
    at_each = [at(table, n * cpus) for n in nodes]
    rows = [table.nodes.index(n * cpus) for n in nodes]
    return replace(
        table,
        unit=Unit.NODES,
        layout=Layout(cpus=cpus, gpus=table.layout.gpus, gpu_type=table.layout.gpu_type),
        nodes=nodes,
        median_s=tuple(one.time_s for one in at_each),
        low_s=tuple(one.low_s for one in at_each),
        high_s=tuple(one.high_s for one in at_each),
        curve_sd=tuple(one.curve_sd for one in at_each),
        verdicts=tuple(verdict_at(table, n * cpus) for n in nodes),
        observed=tuple(
            replace(point, nodes=point.nodes // cpus)
            for point in table.observed
            if point.nodes % cpus == 0
        ),
        tails=tuple(replace(one, time_s=tuple(one.time_s[i] for i in rows)) for one in table.tails),
        at_limits=(),
        by_type=(),
        never_had=nodes,  # over CPUs nothing says how many nodes jobs had
        knee=table.knee and max(table.knee // cpus, 1),
        max_useful=table.max_useful and -(-table.max_useful // cpus),
        widest=table.widest // cpus,
        in_cluster=table.in_cluster // cpus,
        # Memory is that of the whole job, which its nodes share.
        memory=tuple(
            replace(one, nodes=one.nodes // cpus, mem_bytes=_shared(one, cpus))
            for one in table.memory
            if one.nodes % cpus == 0
        ),
        longest=tuple(replace(one, nodes=-(-one.nodes // cpus)) for one in table.longest),
        starts=tuple(
            replace(one, nodes=one.nodes // cpus) for one in table.starts if one.nodes % cpus == 0
        ),
        need=None,
    )


def _shared(one: Memory, cpus: int) -> int:
    """Memory of each node; that of a job that had too little stays above all."""
    return one.mem_bytes if one.mem_bytes >= UNBOUNDED else -(-one.mem_bytes * cpus // one.nodes)


def _kind(layout: Layout) -> tuple[bool, Each]:
    return layout.in_all, layout.each


def for_numbers(table: PredictionTable, numbers: Mapping[str, float]) -> PredictionTable:
    """Table whose need of memory is that of a job with these numbers; of all where one is missing.

    numbers: what the job names, by attribute.
    """
    need = table.need
    if need is None or not need.terms or any(one.name not in numbers for one in need.terms):
        return table
    own = tuple(numbers[term.name] for term in need.terms)
    factor = math.prod(term.factor(one) for term, one in zip(need.terms, own, strict=True))
    factor *= dict(need.same).get(own, 1.0)
    high = tuple(replace(one, mem_bytes=math.ceil(factor * one.mem_bytes)) for one in need.sized)
    return replace(table, need=replace(need, high=high, terms=(), sized=(), same=()))
