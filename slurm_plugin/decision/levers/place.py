"""Lever: the faster of the places that a job names is tried first.

Of several partitions (``-p a,b``) Slurm tries those of one priority tier in the order of the list;
of several constraints (``a|b``) it takes any nodes, but those of ``--prefer`` where these are free.
Both are no more than a preference: a job still starts in another place where that is free first.
So no start is lost, nothing has to be taken back, and no wait has to be believed, only run times.
"""

from predictor.application.request import for_request
from predictor.table import at, covers, verdict_at
from predictor.types import Prediction, Verdict
from sacct_ingest.text.durations import duration_text
from sacct_ingest.text.tag import Tag
from slurm_plugin.config.setting_types import Mode, PlaceUse
from slurm_plugin.decision.adjustment import Adjustment
from slurm_plugin.decision.levers.lever import Lever, Surroundings, TagWord, size_of
from slurm_plugin.decision.policy import Action, Decision
from slurm_plugin.decision.situation import PlaceOption, Situation
from slurm_plugin.protocol.decision_messages import Change


def _adjustment(case: Situation, decided: Decision, _: Surroundings) -> Adjustment | None:
    """Put the partition first, or prefer the features, that surely take less time."""
    predicted = _predicted(case, decided)
    if predicted is None:
        return None
    job = case.request.resources
    partitions = "," in job.partition
    best = min(predicted, key=lambda name: predicted[name].time_s)
    others = [one for name, one in predicted.items() if name != best]
    first = next(iter(predicted))
    # Slurm would take the first partition that is free; of alternatives it may take any.
    against = [predicted[first]] if partitions else others
    if partitions and best == first:
        return None
    other_s = min(one.time_s for one in against)
    if predicted[best].high_s > other_s:
        return None
    asked = job.partition if partitions else job.features
    recorded = {"given_place": best, "asked_place": asked}
    if case.site.mode is not Mode.ENFORCE or decided.action is Action.REFUSE:
        return Adjustment(recorded=recorded)
    order = ",".join([best, *(name for name in predicted if name != best)])
    times = (
        f"about {duration_text(predicted[best].time_s)} there, {duration_text(other_s)} elsewhere"
    )
    return Adjustment(
        change=Change(partition=order) if partitions else Change(prefer=best),
        line=f"this job tries {best} first of {asked} ({times})",
        noted={"place": best},
        recorded=recorded,
        prediction=predicted[best],
    )


def _predicted(case: Situation, decided: Decision) -> dict[str, Prediction] | None:
    """Give the run time in each place, in the job's order; None: one of them is not known well."""
    table = case.table
    places = case.places
    if table is None or table.is_guess or case.request.distrusted or len(places) < 2:
        return None
    if len({place.tier for place in places}) > 1:  # which Slurm goes by, whatever the order
        return None
    if decided.request is not None:
        table = for_request(table, decided.request.nodes, case.request.given)
    size = size_of(case, decided, table)
    if size is None:
        return None
    times = {place.name: _time(place, size, case, decided) for place in places}
    known = {name: one for name, one in times.items() if one is not None}
    return known if len(known) == len(places) else None


def _time(place: PlaceOption, size: int, case: Situation, decided: Decision) -> Prediction | None:
    table = place.table
    if decided.request is not None:
        table = for_request(table, decided.request.nodes, case.request.given)
    if not covers(table, size) or verdict_at(table, size) is not Verdict.RELIABLE:
        return None
    one = at(table, size)
    return None if one.unbounded else one


def _asked_in_vain(tag: Tag, _: Situation, decided: Decision) -> bool:
    done = any("given_place" in adjustment.recorded for adjustment in decided.adjustments)
    return tag.place == PlaceUse.AUTO and not done


def _unknown(case: Situation, decided: Decision) -> str:
    job = case.request.resources
    if "," not in job.partition and "|" not in job.features:
        return "the job names one place"
    if len({place.tier for place in case.places}) > 1:
        return "its partitions differ in priority tier, which Slurm goes by"
    if not case.places or _predicted(case, decided) is None:
        return "the run time is not known well enough on the nodes of each"
    return "" if _is_first(case, decided) else "no place is surely faster than the others"


def _is_first(case: Situation, decided: Decision) -> bool:
    """Whether the job's first partition is the fastest already: nothing is to be said."""
    predicted = _predicted(case, decided) or {}
    best = min(predicted, key=lambda name: predicted[name].time_s, default="")
    return "," in case.request.resources.partition and best == next(iter(predicted), "")


_WORD = TagWord(
    "place=auto", "several partitions or constraints, and measured nodes", _asked_in_vain, _unknown
)
LEVER = Lever(_adjustment, _WORD)
