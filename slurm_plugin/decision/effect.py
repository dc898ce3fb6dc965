"""What one lever does to a job, and where it is said, noted and recorded."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from predictor.types import Prediction
from slurm_plugin.protocol.decision_messages import Change


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What a lever does to a job, or would do where the mode of the job permits it."""

    change: Change = msgspec.field(default_factory=Change)  #: fields of the job that it writes
    line: str = ""  #: for the user; empty: nothing that Slurm would not give anyway
    clause: str = ""  #: the same behind the line of another lever; empty: always its own line
    urgent: bool = False  #: its user is told wherever it happens, whatever the site tells
    noted: Mapping[str, Any] = {}  #: fields of the job's note, where the job is changed
    recorded: Mapping[str, Any] = {}  #: fields of the decision's record, changed or not
    prediction: Prediction | None = None  #: what it rests on, where the decision has no count


def change_of(effects: Iterable[Effect]) -> Change:
    """Join the fields that effects write: each lever has its own."""
    joined: dict[str, Any] = {}
    for effect in effects:
        fields = msgspec.structs.asdict(effect.change).items()
        joined |= {name: value for name, value in fields if value is not None}
    return Change(**joined)


def lines_of(effects: Iterable[Effect], *, every: bool) -> list[str]:
    """Say what effects do to a job, to its user.

    every: tell of every change; otherwise of all where one is urgent.
    """
    told = [effect for effect in effects if effect.line]
    if not (every or any(effect.urgent for effect in told)):
        return []
    lines: list[str] = []
    for effect in told:
        if effect.clause and lines:
            lines[-1] += f", {effect.clause}"
        else:
            lines.append(f"nimo: {effect.line}")
    return lines
