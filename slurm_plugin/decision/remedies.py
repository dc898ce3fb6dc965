"""What would make a deadline that a job is not sure to make: pure, for messages."""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, inf

from predictor.table import at, covers
from predictor.types import Prediction, PredictionTable
from sacct_ingest.runs.layout import Unit
from slurm_plugin.decision.candidates import PolicySettings, Request, falls, trusted
from slurm_plugin.decision.node_options import Option
from slurm_plugin.decision.policy import Decision, every_option
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.text.formatting import clock, duration, percent

#: Reasons that are about a deadline that may be missed.
MISSED = frozenset({Reason.DEADLINE_MISSED, Reason.DEADLINE_LIMIT, Reason.DEADLINE_UNSURE})
_MINUTE_S = 60.0
_SUREST = 0.99  #: highest chance that is said


def remedies(
    request: Request,
    table: PredictionTable,
    partition: Partition,
    others: Iterable[Partition],
    rules: PolicySettings,
    decided: Decision,
    *,
    now_s: float,
) -> tuple[str, ...]:
    """Say what would make a deadline with the confidence that the site wants.

    request: what the job asks for.
    table: predicted run time of its application.
    partition: the one that it asks for.
    others: partitions that it might ask for instead, as the job would see them.
    rules: the site's settings.
    decided: what was decided of the job.
    now_s: time of the decision, seconds since the epoch.
    Returns tuple: options of sbatch, each with its chance: another count, a shorter limit, another
        partition, a later deadline.  Empty where waits have no distribution.
    """
    asked = decided.request or decided.chosen
    if asked is None or request.deadline_s is None or partition.outlook is None:
        return ()
    left_s = request.deadline_s - now_s
    proposals = [
        *_counts(request, table, partition, rules, decided, asked, now_s),
        *_limit(asked, request, partition, rules, now_s),
        *_partitions(asked, request, table, others, rules, left_s, now_s),
    ]
    return (*proposals, *_deadline(asked, rules, now_s))


def _counts(
    request: Request,
    table: PredictionTable,
    partition: Partition,
    rules: PolicySettings,
    decided: Decision,
    asked: Option,
    now_s: float,
) -> Iterator[str]:
    """Yield the nearest smaller and the nearest larger node count that would make it."""
    options = every_option(request, table, partition, rules, decided, now_s=now_s)
    useful = [
        option
        for option in sorted(options, key=lambda o: o.nodes)
        if option.nodes % request.segment == 0
        and partition.min_nodes <= option.nodes <= partition.largest
        and trusted(table, option.nodes, rules.policy)
    ]
    sure = falls(table, asked.nodes)
    fewer = [option for option in reversed(useful) if sure and option.nodes < asked.nodes]
    more = [option for option in useful if option.nodes > asked.nodes]
    for side in (fewer, more):
        for option in side:
            limits = (asked.limit_s, _holding(option.prediction, rules))
            best = _surest(option.prediction, limits, request, partition, rules, now_s)
            if best is not None:
                time = "" if best[0] == asked.limit_s else f" --time={duration(best[0])}"
                yield _with_chance(f"{_size(option.nodes, request.unit)}{time}", best[1])
                break


def _size(count: int, unit: Unit) -> str:
    return f"--nodes={count}" if unit is Unit.NODES else f"{count} {unit.plural}"


def _limit(
    asked: Option, request: Request, partition: Partition, rules: PolicySettings, now_s: float
) -> Iterator[str]:
    """Yield a shorter limit, with which the job may start earlier, and later as well."""
    limit_s = _holding(asked.prediction, rules)
    if limit_s < (asked.limit_s or inf):
        sure = _surest(asked.prediction, (limit_s,), request, partition, rules, now_s)
        if sure is not None:
            yield _with_chance(f"--time={duration(limit_s)}", sure[1])


def _holding(run: Prediction, rules: PolicySettings) -> float:
    """Shortest limit in whole minutes that holds a run."""
    return _MINUTE_S * ceil(run.high_s * rules.policy.limit_margin / _MINUTE_S)


def _surest(
    run: Prediction,
    limits: Iterable[float | None],
    request: Request,
    partition: Partition,
    rules: PolicySettings,
    now_s: float,
) -> tuple[float, float] | None:
    """Find the first of the limits that holds a run and makes the deadline, with its chance."""
    left_s = (request.deadline_s or inf) - now_s
    for limit_s in limits:
        if limit_s is not None and run.high_s <= limit_s <= (partition.max_time_s or inf):
            wait = partition.wait(run.nodes, limit_s, now_s=now_s, begin_s=request.begin_s)
            chance = wait.chance(run, left_s, limit_s=limit_s)
            if chance >= rules.deadline.confidence:
                return limit_s, chance
    return None


def _partitions(
    asked: Option,
    request: Request,
    table: PredictionTable,
    others: Iterable[Partition],
    rules: PolicySettings,
    left_s: float,
    now_s: float,
) -> Iterator[str]:
    """Yield the other partition that is most likely to make it."""
    limit_s, best = asked.limit_s or 0.0, ("", 0.0)
    for other in others:
        if other.outlook is None or asked.nodes > other.largest or not covers(table, asked.nodes):
            continue
        if limit_s > (other.max_time_s or inf):
            continue
        wait = other.wait(asked.nodes, limit_s or inf, now_s=now_s, begin_s=request.begin_s)
        chance = wait.chance(at(table, asked.nodes), left_s, limit_s=limit_s)
        best = max(best, (other.name, chance), key=lambda one: one[1])
    if best[0] and best[1] >= rules.deadline.confidence:
        yield _with_chance(f"--partition={best[0]}", best[1])


def _deadline(asked: Option, rules: PolicySettings, now_s: float) -> Iterator[str]:
    """Yield the deadline that the job as it is would make."""
    if asked.wait is None:
        return
    share = rules.deadline.confidence
    # Slurm starts it only as long as its limit ends by the deadline.
    latest_s = asked.wait.quantile(share) + (asked.limit_s or 0.0)
    end_s = max(asked.wait.end_s(asked.prediction, share), latest_s)
    if end_s < inf:
        when = now_s + _MINUTE_S * ceil(end_s / _MINUTE_S)
        yield _with_chance(f"--deadline={clock(when)}", share)


def _with_chance(option: str, chance: float) -> str:
    return f"{option} ({percent(min(chance, _SUREST))})"


def line(proposals: Sequence[str]) -> str:
    """Put remedies into one line; empty where there are none."""
    if not proposals:
        return ""
    *first, last = proposals
    return f"would make it: {', '.join(first)}{' or ' if first else ''}{last}"
