"""The prediction table of one set of runs: pure, one call for each identity or part of one.

What is below: :mod:`predictor.tables.of_node_types` for runs on several types of nodes,
:mod:`predictor.tables.of_curve` for a curve.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, log
from statistics import NormalDist

from predictor.curves.from_runs import OtherSizes, build
from predictor.facts import NodePower
from predictor.job_table import of_kind
from predictor.level import backtest
from predictor.level.calibration import JudgedPrediction
from predictor.level.experts import AROUND
from predictor.level.record import Record
from predictor.memory import UNBOUNDED
from predictor.models import selection
from predictor.prediction_table import AtLimit, PredictionTable, Tail
from predictor.problems import Problem, problem
from predictor.sample import Sample
from predictor.table import doubtful, round_time, table_of
from predictor.tables import run_facts as facts
from predictor.tables.kinds import kind_of_runs
from predictor.tables.memory_need import memory_need
from predictor.tables.of_curve import REPEATS, curve_table, mixed, tails_of, to_prediction
from predictor.tables.of_node_types import SumsByType, split, type_tables, with_types
from predictor.tables.resource_use import had_whole_nodes, node_power, resource_uses
from predictor.tables.samples import ended_runs, samples_of
from predictor.tables.settings import TableSettings
from predictor.tables.starts import with_starts
from predictor.types import HISTORY, Curve, Point, Prediction, Verdict
from sacct_ingest.records import CURVE_LEVELS, KeyLevel
from sacct_ingest.store.rows import RunRow

#: Curves are shared by the table that is shown and the one that jobs are changed by.
_drawn = lru_cache(maxsize=32)(build)


@dataclass(frozen=True, slots=True)
class IdentityRuns:
    """Runs of one identity, or of a part of one, the newest last."""

    level: KeyLevel
    key: str
    rows: Sequence[RunRow]  #: on the counts asked for
    now_s: float  #: when they are fitted, seconds since the epoch
    #: the same on those that they had, where these are others: see `predictor.tables.run_facts`
    had: Sequence[RunRow] = ()


def tabulate(
    runs: IdentityRuns,
    settings: TableSettings,
    *,
    sums: SumsByType | None = None,
    record: Record | None = None,
    others: OtherSizes | None = None,
) -> PredictionTable | None:
    """Table of one identity, or None where nothing can be said.

    sums: aprof's sums over the identity's runs, by node type.
    record: what became of earlier predictions; None: it is made of the runs.
    others: runs of other second sizes; None: there are none.
    """
    level = runs.level
    rows = runs.rows
    shaped = bool(rows) and all(row.shape for row in rows)
    if shaped:
        settings = replace(settings, reach=1)  # of other counts its components say nothing
    curve = _same(level, settings)
    settings = _of_level(level, rows, settings)
    earned = record_of(level, rows, settings) if record is None else record
    counted = rows
    table = None
    groups: dict[str, list[RunRow]] = {}
    if curve and len(settings.node_types) > 1:
        groups = split(rows, settings.node_types)
        table = type_tables(groups, sums or {}, settings, earned)
        if table is not None:
            # A table of one node type counts the runs on that type.
            counted = next(iter(groups.values()))
    own = samples_of(counted)
    finished = sum(not run.censored for run in own)
    if table is not None:
        others_of_type = {name: samples_of(group) for name, group in groups.items()}
        table = replace(
            table,
            by_type=tuple(
                with_starts(one, others_of_type.get(one.node_type, []), same=True)
                for one in table.by_type
            ),
        )
    if table is None:
        drawn = _drawn(tuple(own), settings.curve) if curve else Curve(())
        if others is not None and drawn.points:
            # Few node counts make a curve together with the runs of other second sizes.
            drawn = others.curve(drawn, settings.curve)
        if len(selection.shown_of(drawn).points) >= selection.MIN_POINTS:
            table = curve_table(drawn, own, settings, earned)
        elif finished >= (1 if curve else 2):
            table = history_table(own, level, settings, earned)
            table = with_types(table, groups, sums or {}, settings)
        else:
            return None
    if shaped:
        no_proposal = (one for one in table.problems if one.name != "no_curve")
        table = replace(table, problems=tuple(no_proposal))
    table = _with_record(table, earned, rows, same=curve)
    table = with_starts(table, own[-settings.recent :], same=curve)
    return _described(table, runs, settings, finished)


def _with_record(
    table: PredictionTable, record: Record, rows: Sequence[RunRow], *, same: bool
) -> PredictionTable:
    """Table with what became of its predictions."""
    several = mixed(record, rows[-1].name, rows) if same else ()
    held = backtest.recorded(record)
    return replace(table, record=held, problems=(*several, *table.problems))


def record_of(
    level: KeyLevel, rows: Sequence[RunRow], settings: TableSettings, old: Record | None = None
) -> Record:
    """Record of an identity with the runs that ended since it was made.

    Of several node types that of the one with most runs.
    """
    rows = [start for row in rows for start in row.each_start()]
    same = _same(level, settings)
    settings = _of_level(level, rows, settings)
    if same and len(settings.node_types) > 1:
        rows = next(iter(split(rows, settings.node_types).values()))
    return backtest.replay(
        samples_of(rows), old or Record(), settings.pooled, settings.backtest, same=same
    )


def _same(level: KeyLevel, settings: TableSettings) -> bool:
    """Whether runs are one application: so recognised, or explained by their numbers."""
    return settings.sized or level in CURVE_LEVELS


def _of_level(level: KeyLevel, rows: Sequence[RunRow], settings: TableSettings) -> TableSettings:
    """Choose settings for a key: a user whose job names come again is asked for new ones only.

    Of these the last runs, which mostly repeat each other, say little.  Where names do not come
    again the next run may be of any application, and the last runs are of one burst.  Where one
    that was cut short outlasted those that finished, quantiles of these end too early.
    """
    last = rows[-AROUND:]
    longest_s = max((row.elapsed_s for row in last if row.state.finished), default=0.0)
    ended = not any(row.state.cut_short and row.elapsed_s > longest_s for row in last)
    own = replace(settings.backtest, averaged=ended)
    if level is KeyLevel.USER:
        names = {row.name for row in rows if row.name}
        again = bool(names) and 2 * len(names) <= len(rows)
        own = replace(own, mixed=not again, averaged=ended and again)
    return replace(settings, backtest=own)


def mixture(
    runs: IdentityRuns, settings: TableSettings, *, record: Record
) -> PredictionTable | None:
    """Table of runs that are not one curve: a history; parameters of `tabulate`."""
    own = samples_of(runs.rows)
    finished = sum(not run.censored for run in own)
    if finished < 2:
        return None
    table = history_table(own, runs.level, settings, record)
    table = _with_record(table, record, runs.rows, same=True)
    table = with_starts(table, own[-settings.recent :], same=_same(runs.level, settings))
    return _described(table, runs, settings, finished)


def unfinished(runs: IdentityRuns) -> PredictionTable | None:
    """Table without a node count, of a command whose runs all failed or were cut short."""
    level = runs.level
    endings = facts.endings_of(runs.rows)
    if level not in CURVE_LEVELS or not endings or facts.ending_problem(endings) is None:
        return None
    nothing = table_of([], (Verdict.REFUSED,), TableSettings().confidence)
    empty = replace(nothing, verdicts=(), model=HISTORY)
    return _described(empty, runs, TableSettings(), 0)


def _described(
    table: PredictionTable, runs: IdentityRuns, settings: TableSettings, finished: int
) -> PredictionTable:
    level = runs.level
    rows = runs.had or runs.rows
    memory = facts.memory_of(rows)
    endings = facts.endings_of(rows)
    if (failed := facts.failed_steps_problem(rows)) is not None:
        table = doubtful(table, [failed])
    unfinished = facts.ending_problem(endings) if level in CURVE_LEVELS else None
    measured = [row for row in rows if row.node_watts is not None]
    whole = [row for row in measured if had_whole_nodes(row, settings.node_cpus)]

    def power(node_type: str) -> NodePower | None:
        return node_power(row for row in whole if node_type in ("", row.node_type))

    kind, to_limit = kind_of_runs(rows)
    described = replace(
        table,
        problems=(*table.problems, *([unfinished] if unfinished else [])),
        to_limit=to_limit,
        endings=endings,
        work_dirs=facts.work_dirs_of(rows),
        script=facts.script_of(rows) if level is KeyLevel.LINE else "",
        last_s=max(((row.end_s or 0) - row.elapsed_s for row in ended_runs(rows)), default=0.0),
        level=level.value,
        key=runs.key,
        label=facts.label_of(level, runs.key, rows),
        runs=finished,
        mem_node_bytes=max((m.mem_bytes for m in memory if m.mem_bytes < UNBOUNDED), default=None),
        memory=memory,
        need=memory_need(rows, margin=settings.memory_margin, sized=level is not KeyLevel.USER),
        uses=resource_uses(rows),
        power=power(table.node_type),
        by_type=tuple(replace(one, power=power(one.node_type)) for one in table.by_type),
        shares_nodes=not had_whole_nodes(rows[-1], settings.node_cpus),
        fitted_s=runs.now_s,
        owner=facts.owner_of(rows),
        longest=facts.longest_of(rows),
        asked_limit_s=facts.limit_asked(rows),
        command=facts.command_of(level, rows),
        limit_reached=facts.limit_reached(rows) if level in CURVE_LEVELS else None,
        failures=facts.failures_of(rows) if level in CURVE_LEVELS else None,
    )
    return of_kind(described, kind) if level is not KeyLevel.USER else described


def history_table(
    runs: Sequence[Sample], level: KeyLevel, settings: TableSettings, record: Record
) -> PredictionTable:
    """Table of run times on node counts that were run; of one application on counts around, too.

    record: what became of earlier predictions.
    """
    same = _same(level, settings)
    recent = backtest.in_order(runs)[-settings.recent :]
    panel = backtest.ExpertPanel(recent, settings.backtest.around, same=same)
    share = settings.confidence
    now = backtest.NextRun(panel, record, settings.pooled, settings.backtest, level=share)
    counts = Counter(run.nodes for run in recent if not run.censored)
    ran = sorted(counts)
    nodes = _around(ran, settings) if same else ran
    judged = [now.judge(n) for n in nodes]
    by = "the user" if level is KeyLevel.USER else "user and job name"
    problems = _no_curve(ran) if same else (problem("no_identity", by=by),)
    rows = list(zip(judged, nodes, strict=True))
    predictions = [to_prediction(one, n, settings.confidence) for one, n in rows]
    # Time limits, the newest first; none if there is only one.
    asked = dict.fromkeys(run.limit_s for run in reversed(recent) if run.limit_s > 0)
    return replace(
        table_of(
            predictions,
            tuple(_of_count(now, one, counts[n], same=same) for one, n in rows),
            settings.confidence,
        ),
        model=HISTORY,
        problems=problems,
        observed=tuple(
            Point(n, round_time(exp(one.log_s)), counts[n]) for one, n in rows if counts[n]
        ),
        tails=_tails(predictions, runs, settings) if same else (),
        at_limits=tuple(
            _at_limit(limit_s, [now.judge(n, limit_s) for n in nodes])
            for limit_s in (list(asked)[: settings.limits] if len(asked) > 1 else [])
        ),
    )


def _tails(
    predictions: Sequence[Prediction], runs: Sequence[Sample], settings: TableSettings
) -> tuple[Tail, ...]:
    """High quantiles of a history: logs are normal above the median, as wide as the interval."""
    shares = tuple(sorted(set(settings.tails)))
    normal = NormalDist()
    reaches = [
        normal.inv_cdf(share) / normal.inv_cdf((1 + settings.confidence) / 2) for share in shares
    ]
    quantiles = [
        [one.time_s * exp(reach * log(one.high_s / one.time_s)) for one in predictions]
        for reach in reaches
    ]
    surprises = _drawn(tuple(runs), settings.curve).surprises
    return tails_of(predictions, shares, surprises, quantiles)


def _around(ran: Sequence[int], settings: TableSettings) -> list[int]:
    """Node counts of one application without a curve: those that were run, and doublings around."""
    counts = set(ran)
    low = ran[0] / settings.reach
    high = ran[-1] * settings.reach
    counts |= {round(n * 2.0**k) for n in ran for k in range(-4, 5)}
    return sorted(n for n in counts if n >= 1 and low <= n <= high)


def _of_count(
    now: backtest.NextRun, judged: JudgedPrediction, repeats: int, *, same: bool
) -> Verdict:
    """Verdict on a count of a history: runs there and the record have to speak for it."""
    if repeats < 2:
        return Verdict.REFUSED
    if (
        same
        and repeats >= REPEATS
        and now.calibrator.evident(judged)
        and now.calibrator.reliable(judged)
    ):
        return Verdict.RELIABLE
    return Verdict.DOUBTFUL


def _at_limit(limit_s: float, judged: Sequence[JudgedPrediction]) -> AtLimit:
    return AtLimit(
        limit_s,
        tuple(round_time(exp(one.log_s)) for one in judged),
        tuple(round_time(exp(one.low)) for one in judged),
        tuple(round_time(exp(one.high)) for one in judged),
    )


def _no_curve(ran: Sequence[int]) -> tuple[Problem, ...]:
    """One count asks for twice as many; two ask for the same step once more, or between them.

    Of more than two the runs make no curve for another reason, such as several layouts.
    """
    if len(ran) >= selection.MIN_POINTS:
        return ()
    if len(ran) == 1:
        observe = 2 * ran[0]
    elif ran[1] >= 4 * ran[0]:
        observe = round((ran[0] * ran[1]) ** 0.5)
    else:
        observe = max(2 * ran[1], 4 * ran[0])
    counts = f"{' and '.join(map(str, ran))} {'node' if ran == [1] else 'nodes'}"
    return (problem("no_curve", observe, counts=counts, least=selection.MIN_POINTS),)
