"""Making and reading a prediction table: all the mathematics that a submission needs.

Loaded by nimod and ``nimo-advise``, so nothing but the standard library and msgspec.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from statistics import NormalDist
from typing import TypeVar

import msgspec

import sacct_ingest
from predictor.checks import need_finite, need_share
from predictor.facts import Starts
from predictor.memory import UNBOUNDED, Memory
from predictor.prediction_table import ByType, Part, PredictionTable
from predictor.problems import Problem, problem
from predictor.types import Point, Prediction, Verdict
from sacct_ingest.records import PART
from sacct_ingest.runs.layout import Each, Layout, Unit
from sacct_ingest.runs.submission import JobKind

#: Cached tables of a node type or time limit: the next job is often of the same kind.
_CACHED = 1024
#: Name of the problem that all runs had another layout than the job.
OTHER_LAYOUT = "other_layout"
#: Name of the problem that the models of another release made the table.
OTHER_MODELS = "other_models"
#: Words for a layout that counts nothing.
_NOTHING = "no GPUs"
_Judged = TypeVar("_Judged", PredictionTable, ByType)
BY_TRUST = tuple(Verdict)
_OF_TYPE = tuple(one.name for one in fields(ByType))
_FIELDS = tuple(one.name for one in fields(PredictionTable) if one.name != "acting")
_decoder = msgspec.json.Decoder(PredictionTable)
_encoder = msgspec.json.Encoder()


def table_of(
    predictions: Sequence[Prediction], verdicts: tuple[Verdict, ...], confidence: float
) -> PredictionTable:
    """Table with its columns; what else belongs into it is replaced by the callers."""
    need_share("confidence", confidence)
    return PredictionTable(
        level="",
        key="",
        label="",
        model="",
        verdict=min(verdicts, key=BY_TRUST.index),
        problems=(),
        nodes=tuple(p.nodes for p in predictions),
        median_s=tuple(round_time(p.time_s) for p in predictions),
        low_s=tuple(round_time(p.low_s) for p in predictions),
        high_s=tuple(round_time(p.high_s) for p in predictions),
        curve_sd=tuple(round_time(p.curve_sd) for p in predictions),
        confidence=confidence,
        observed=(),
        knee=None,
        max_useful=None,
        runs=0,
        mem_node_bytes=None,
        fitted_s=0.0,
        verdicts=verdicts,
    )


def round_time(value: float) -> float:
    """Six digits are enough for a prediction, in half the text."""
    return float(f"{value:.6g}")


@lru_cache(maxsize=1)
def models_version() -> str:
    """Version of the code that makes tables: a digest of its sources, in 5 ms.

    Whatever changes them makes another version, so that nobody has to remember to raise one.
    """
    digest = blake2b(digest_size=8)
    for package in (Path(__file__).parent, Path(sacct_ingest.__file__).parent):
        for source in sorted(package.rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def encode(table: PredictionTable) -> str:
    """Text of a table as the store keeps it: JSON that begins with the models' version."""
    return head() + _encoder.encode(table).decode().removeprefix("{")


def decode(payload: str | bytes) -> PredictionTable:
    """Table of a text that :func:`encode` made; an empty one where other models made it.

    Raises msgspec.DecodeError: not JSON, or not a table (``msgspec.ValidationError``).
    """
    table = _decoder.decode(payload)
    return table if is_current(payload) else _emptied(table)


def is_current(payload: str | bytes) -> bool:
    """Whether the models of this release made the table of a text."""
    if isinstance(payload, bytes):
        return payload.startswith(head().encode())
    return payload.startswith(head())


def is_outdated(table: PredictionTable) -> bool:
    """Whether other models made a table, of which only its names are left."""
    return any(one.name == OTHER_MODELS for one in table.problems)


@lru_cache(maxsize=1)
def head() -> str:
    """Give what the texts of the tables begin with that the models of this release made."""
    return f'{{"models":"{models_version()}",'


def _emptied(table: PredictionTable) -> PredictionTable:
    """Leave what a table is about, and nothing that its models predicted."""
    return PredictionTable(
        level=table.level,
        key=table.key,
        label=table.label,
        command=table.command,
        owner=table.owner,
        unit=table.unit,
        runs=table.runs,
        last_s=table.last_s,
        fitted_s=table.fitted_s,
        confidence=table.confidence,
        model=table.model,
        verdict=Verdict.REFUSED,
        problems=(problem(OTHER_MODELS),),
        nodes=(),
        median_s=(),
        low_s=(),
        high_s=(),
        curve_sd=(),
        observed=(),
        knee=None,
        max_useful=None,
        mem_node_bytes=None,
    )


def with_acting(shown: PredictionTable, acting: PredictionTable) -> PredictionTable:
    """Table that holds another one, too: what jobs are changed by (:func:`acting_of`)."""
    pairs = ((name, getattr(shown, name), getattr(acting, name)) for name in _FIELDS)
    differing = {name: own for name, other, own in pairs if own != other}
    return replace(shown, acting=msgspec.to_builtins(differing))


def acting_of(table: PredictionTable) -> PredictionTable:
    """Table that changes jobs: no other user's runs have a say in it.

    What is shown leans on the record of the whole site where an application has few runs.
    """
    if not table.acting:
        return table
    values = {name: getattr(table, name) for name in _FIELDS}
    return msgspec.convert({**msgspec.to_builtins(values), **table.acting}, PredictionTable)


def part_key(key: str, name: str) -> str:
    """Key of a part of an identity."""
    return f"{key}{PART}{name}"


def whole_key(key: str) -> str:
    """Key of the identity that a part belongs to; its own where it is none.

    >>> whole_key(part_key("ann/cfd", "1f"))
    'ann/cfd'
    """
    return key.partition(PART)[0]


def covers(table: PredictionTable, nodes: int) -> bool:
    """Whether the table holds an answer for ``nodes``."""
    return bool(table.nodes) and table.nodes[0] <= nodes <= table.nodes[-1]


def at(table: PredictionTable, nodes: int) -> Prediction:
    """Run time on ``nodes`` nodes: between entries, log time is linear in log nodes.

    Raises LookupError: ``nodes`` is outside the table; see :func:`covers`.
    """
    low, high, share = _bracket(table, nodes)
    return Prediction(
        nodes=nodes,
        time_s=_log_mix(table.median_s[low], table.median_s[high], share),
        low_s=_log_mix(table.low_s[low], table.low_s[high], share),
        high_s=_log_mix(table.high_s[low], table.high_s[high], share),
        level=table.confidence,
        curve_sd=table.curve_sd[low] * (1 - share) + table.curve_sd[high] * share,
        unbounded=any(one.unbounded for one in _starts_around(table, low, high)),
    )


def ran_on(table: PredictionTable) -> tuple[Point, ...]:
    """Give the observations on counts that some job had: others follow from what it asked for."""
    return tuple(point for point in table.observed if point.nodes not in table.never_had)


def starts_at(table: PredictionTable, nodes: int) -> Starts | None:
    """Give what the starts on ``nodes`` nodes say that the columns do not; None: nothing."""
    return next((one for one in table.starts if one.nodes == nodes), None)


def _starts_around(table: PredictionTable, low: int, high: int) -> list[Starts]:
    """Give what starts say on the entries around a count."""
    if not table.starts:
        return []
    counts = {table.nodes[low], table.nodes[high]}
    return [one for one in table.starts if one.nodes in counts]


def scaled_starts(one: Starts, nodes: int, factor: float) -> Starts:
    """Give what starts say of another count, on which they would take ``factor`` as long."""
    return replace(
        one,
        nodes=nodes,
        over_s=round_time(factor * one.over_s),
        longest_s=round_time(factor * one.longest_s),
        ends=tuple(
            (share, None if end_s is None else round_time(factor * end_s))
            for share, end_s in one.ends
        ),
    )


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


def _ended(table: PredictionTable, nodes: int) -> bool:
    fewest = min((one.nodes for one in table.observed), default=0)
    unfit = max((one.nodes for one in table.memory if one.mem_bytes >= UNBOUNDED), default=0)
    return nodes <= unfit or (table.limit_reached is not None and nodes < fewest)


def longest_likely(table: PredictionTable, nodes: int) -> float:
    """Upper end of a run time in seconds, also on a count that the table does not cover.

    On fewer nodes it may take as many times longer as they are fewer.

    Raises LookupError: the table has no count.
    """
    if not table.nodes:
        raise LookupError("a table without counts")
    near = min(max(nodes, table.nodes[0]), table.nodes[-1])
    return at(table, near).high_s * max(near / nodes, 1.0)


@lru_cache(maxsize=_CACHED)
def for_limit(table: PredictionTable, limit_s: float | None) -> PredictionTable:
    """Table for jobs that ask for the time limit ``limit_s``: that of the nearest one (by ratio).

    None is a request without a limit.
    """
    if limit_s is None or limit_s <= 0 or not table.at_limits:
        return table
    own = min(table.at_limits, key=lambda one: abs(math.log(one.limit_s / limit_s)))
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


def doubtful(table: _Judged, problems: Sequence[Problem]) -> _Judged:
    """Table that is doubtful at best, with the problems that make it so."""
    return replace(
        table,
        verdict=worse(table.verdict, Verdict.DOUBTFUL),
        verdicts=tuple(worse(one, Verdict.DOUBTFUL) for one in table.verdicts),
        problems=(*problems, *table.problems),
    )


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
    alike = (one for one in layouts if _kind(one) == _kind(runs[0]))
    asked = str(next(alike, layouts[0])) or _NOTHING
    if any(one.shape for one in runs):
        several = any(one.shape for one in layouts)
        asked = "components that cannot be compared here" if several else "another shape"
    had = " or ".join(str(one) or _NOTHING for one in runs)
    return replace(
        table,
        verdict=Verdict.REFUSED,
        verdicts=(Verdict.REFUSED,) * len(table.nodes),
        problems=(problem(OTHER_LAYOUT, had=had, asked=asked), *table.problems),
    )


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


def quantile(table: PredictionTable, nodes: int, share: float) -> float | None:
    """Give the run time in seconds that ``share`` of new runs on ``nodes`` stay below, or more.

    That of the lowest share in the table which is no lower.  None where there is none, or where so
    many starts were cut off that it is beyond all that was seen.

    Raises LookupError: ``nodes`` is outside the table; see :func:`covers`.
    """
    tail = next((one for one in table.tails if one.share >= share), None)
    if tail is None:
        return None
    low, high, part = _bracket(table, nodes)
    time_s = _log_mix(tail.time_s[low], tail.time_s[high], part)
    return _no_less(time_s, _starts_around(table, low, high), share)


def _no_less(time_s: float, starts: Sequence[Starts], share: float) -> float | None:
    """Quantile that is no less than those of starts; None: one of them is beyond what was seen."""
    for one in starts:
        end_s = one.end_s(share)
        if end_s is None:
            return None
        time_s = max(time_s, end_s)
    return time_s


def of_rows(table: PredictionTable, rows: slice) -> PredictionTable:
    """Table on some of its node counts."""
    names = ("nodes", "median_s", "low_s", "high_s", "curve_sd", "verdicts")
    cut = {name: getattr(table, name)[rows] for name in names}
    tails = tuple(replace(one, time_s=one.time_s[rows]) for one in table.tails)
    return replace(table, **cut, tails=tails)


@lru_cache(maxsize=_CACHED)
def level_quantile(table: PredictionTable, nodes: int, share: float) -> float | None:
    """Give the run time in seconds that ``share`` of new runs on ``nodes`` stay below.

    The logs of run times are taken to be normal on each side of the median, as wide as the
    interval.  None where so many starts were cut off that it is beyond all that was seen.

    Raises LookupError: ``nodes`` is outside the table; ValueError: ``share`` is no share.
    """
    need_share("share of runs", share)
    one, normal = at(table, nodes), NormalDist()
    end_s = one.high_s if share >= 0.5 else one.low_s
    reach = abs(normal.inv_cdf(share)) / normal.inv_cdf((1 + table.confidence) / 2)
    time_s = float(one.time_s * (end_s / one.time_s) ** reach)
    low, high, _ = _bracket(table, nodes)
    return _no_less(time_s, _starts_around(table, low, high), share)


def longest(table: PredictionTable, nodes: int) -> float:
    """Longest run in seconds that was seen on as many nodes or more; 0: there was none.

    Fewer nodes take no less time.
    """
    return max((one.time_s for one in table.longest if one.nodes >= nodes), default=0.0)


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


def shared_out(own: int, nodes: int) -> float:
    """Memory of each of ``nodes`` nodes over that of each of ``own``: fewer nodes share it out."""
    return max(own / nodes, 1.0)


def verdict_at(table: PredictionTable, nodes: int) -> Verdict:
    """Verdict on ``nodes``: the worse of its neighbouring entries, refused outside the table."""
    if not covers(table, nodes):
        return Verdict.REFUSED
    if not table.verdicts:
        return table.verdict
    low, high, _ = _bracket(table, nodes)
    one, other = table.verdicts[low], table.verdicts[high]
    return one if one is other else worse(one, other)


def worse(one: Verdict, other: Verdict) -> Verdict:
    """Return the less trusting of two verdicts."""
    return max(one, other, key=BY_TRUST.index)


def _bracket(table: PredictionTable, nodes: int) -> tuple[int, int, float]:
    """Find the indices of the entries around ``nodes`` and its place between them, in log nodes."""
    if not covers(table, nodes):
        raise LookupError(f"{table.label}: {nodes} nodes are outside the predicted range")
    high = bisect_left(table.nodes, nodes)
    if table.nodes[high] == nodes:
        return high, high, 0.0
    low = high - 1
    step = math.log(table.nodes[high] / table.nodes[low])
    return low, high, math.log(nodes / table.nodes[low]) / step


def _log_mix(low: float, high: float, share: float) -> float:
    return low if share == 0.0 else math.exp((1 - share) * math.log(low) + share * math.log(high))
