"""All levers, and what a user's tag asks of them in vain."""

from msgspec.structs import replace

from slurm_plugin.decision.levers import (
    deadline,
    memory,
    node_count,
    place,
    soft_limit,
    start,
    time_limit,
)
from slurm_plugin.decision.levers.lever import Lever, Surroundings
from slurm_plugin.decision.messages import guessed_from
from slurm_plugin.decision.policy import Decision, without_times
from slurm_plugin.decision.situation import Situation
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.text.formatting import printable

#: In the order of the lines that sbatch prints.
LEVERS: tuple[Lever, ...] = (
    deadline.LEVER,
    node_count.LEVER,
    start.LEVER,
    time_limit.LEVER,
    memory.LEVER,
    place.LEVER,
    soft_limit.LEVER,
)
#: Between a word of a tag and why it comes to nothing.
UNHEEDED = " changes nothing: "


def with_adjustments(case: Situation, decided: Decision, around: Surroundings) -> Decision:
    """Give a decision with what each lever does to the job."""
    adjustments = (lever.adjustment(case, decided, around) for lever in LEVERS)
    return replace(
        decided,
        adjustments=tuple(adjustment for adjustment in adjustments if adjustment is not None),
    )


def tag_texts(case: Situation, decided: Decision) -> list[str]:
    """Say which words of a tag are not read or have no effect, why, and what they need.

    Nothing where a job already asks for no more than it is predicted to need.
    """
    tag = case.request.tag
    fault = case.request.tag_fault
    fixed = case.request.fixed
    texts = [printable(fault)] if fault else []
    if tag is None or fixed in {Reason.OPTED_OUT, Reason.HET}:
        return texts
    why = _why_unused(case, decided)
    for one in (lever.word for lever in LEVERS):
        if one is None or not one.asked_in_vain(tag, case, decided):
            continue
        if reason := why or one.obstacle(case, decided):
            texts.append(f"{one.word}{UNHEEDED}{reason}; it takes {one.takes}")
    return texts


def _why_unused(case: Situation, decided: Decision) -> str:
    """Say why no lever uses the prediction; empty: each may."""
    request = case.request
    table = case.table
    if table is None:
        return Reason.NO_FINISHED_RUN.text
    if not table.nodes:
        return without_times(table).text
    if table.is_guess:
        return f"the prediction is based on {guessed_from(table)}"
    if request.distrusted:
        return request.distrusted.text
    if decided.chosen is None and decided.reason is not request.fixed:
        return decided.reason.text
    return ""
