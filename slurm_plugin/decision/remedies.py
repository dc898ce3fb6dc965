"""What would make a deadline that a job is not sure to make: pure, for messages."""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, inf

from msgspec.structs import replace

from predictor.change.request import for_request
from predictor.table import at, covers
from predictor.types import PredictionTable
from sacct_ingest.runs.layout import Unit
from slurm_plugin.config.setting_types import TimeUse
from slurm_plugin.decision.candidates import PolicySettings, Request, scales
from slurm_plugin.decision.node_options import Option, PolicyContext
from slurm_plugin.decision.policy import Decision, every_option, limits_to_ask
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.text.formatting import clock, duration, percent

#: Reasons that are about a deadline that may be missed.
MISSED = frozenset({Reason.DEADLINE_MISSED, Reason.DEADLINE_LIMIT, Reason.DEADLINE_UNSURE})
_MINUTE_S = 60.0
#: A proposed deadline still holds when it is pasted that much later.
_PASTED_S = 300.0
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
    table = for_request(table, asked.nodes, request.given)
    requested = advised(request)
    alone = replace(decided, options=())  # those have the limit that the job asks for
    options = every_option(requested, table, partition, rules, alone, now_s=now_s)
    scene = PolicyContext(requested, table, partition, rules, now_s, asked.nodes)
    return (
        *_counts(scene, options),
        *_limit(scene, options),
        *_partitions(scene, asked, others, request.deadline_s - now_s),
        *_deadline(asked, rules, now_s),
    )


def advised(request: Request) -> Request:
    """Give a request with a deadline the time limits that its advice names."""
    if request.deadline_s is None:
        return request
    use = TimeUse.SET if request.time_use is TimeUse.ADVISE else request.time_use
    return replace(request, advised=True, time_use=use)


def _counts(scene: PolicyContext, options: Iterable[Option]) -> Iterator[str]:
    """Yield the nearest smaller and the nearest larger node count that would make it."""
    request, unit, part = scene.request, scene.request.unit, scene.partition
    useful = [
        option
        for option in sorted(options, key=lambda o: o.nodes)
        if option.nodes % request.segment == 0
        and part.min_nodes <= option.nodes <= part.largest
        and scales(scene.table, option.nodes)
        and _makes_it(option, scene.rules)
    ]
    fewer = [option for option in reversed(useful) if option.nodes < scene.asked]
    more = [option for option in useful if option.nodes > scene.asked]
    for option in (*fewer[:1], *more[:1]):
        size, nodes = f"{option.nodes} {unit.plural}", f"--nodes={option.nodes}"
        words = nodes if unit is Unit.NODES else size, _time(option, request)
        yield _with_chance(" ".join(filter(None, words)), option.chance or 0.0)


def _makes_it(option: Option, rules: PolicySettings) -> bool:
    return option.chance is not None and option.chance >= rules.deadline.confidence


def _time(option: Option, request: Request) -> str:
    limits = limits_to_ask(option, request)
    return f"--time={duration(limits.limit_s)}" if limits else ""


def _limit(scene: PolicyContext, options: Iterable[Option]) -> Iterator[str]:
    """Yield another limit, with which the job may start earlier, and later as well."""
    own = next(option for option in options if option.nodes == scene.asked)
    if (time := _time(own, scene.request)) and _makes_it(own, scene.rules):
        yield _with_chance(time, own.chance or 0.0)


def _partitions(
    scene: PolicyContext, asked: Option, others: Iterable[Partition], left_s: float
) -> Iterator[str]:
    """Yield the other partition that is most likely to make it."""
    limit_s, best, begin_s = asked.limit_s or 0.0, ("", 0.0), scene.request.begin_s
    for other in others if covers(scene.table, asked.nodes) else ():
        if other.outlook is None or asked.nodes > other.largest:
            continue
        if limit_s > (other.max_time_s or inf):
            continue
        wait = other.wait(asked.nodes, limit_s or inf, now_s=scene.now_s, begin_s=begin_s)
        chance = wait.chance(at(scene.table, asked.nodes), left_s, limit_s=limit_s)
        best = max(best, (other.name, chance), key=lambda one: one[1])
    if best[0] and best[1] >= scene.rules.deadline.confidence:
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
        when = now_s + _PASTED_S + _MINUTE_S * ceil(end_s / _MINUTE_S)
        yield _with_chance(f"--deadline={clock(when)}", share)


def _with_chance(option: str, chance: float) -> str:
    return f"{option} ({percent(min(chance, _SUREST))})"


def line(proposals: Sequence[str]) -> str:
    """Put remedies into one line; empty where there are none."""
    if not proposals:
        return ""
    *first, last = proposals
    return f"would make it: {', '.join(first)}{' or ' if first else ''}{last}"
