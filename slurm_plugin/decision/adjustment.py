"""What one lever does to a job, and where it is said, noted and recorded."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from predictor.types import Prediction
from slurm_plugin.protocol.decision_messages import Change


class Adjustment(msgspec.Struct, frozen=True, kw_only=True):
    """What a lever does to a job, or would do where the mode of the job permits it."""

    change: Change = msgspec.field(default_factory=Change)  #: fields of the job that it writes
    refuses: bool = False  #: the job does not come in
    warnings: tuple[str, ...] = ()  #: for the user, printed first
    line: str = ""  #: for the user; empty: nothing that Slurm would not give anyway
    clause: str = ""  #: the same behind the line of another lever; empty: always its own line
    urgent: bool = False  #: sbatch prints the line even with `tell_changes: false`
    noted: Mapping[str, Any] = {}  #: fields of the job's note, where the job is changed
    recorded: Mapping[str, Any] = {}  #: fields of the decision's record, changed or not
    prediction: Prediction | None = None  #: what it rests on, where the decision has no count


def change_of(adjustments: Iterable[Adjustment]) -> Change:
    """Join the fields that adjustments write: each lever has its own."""
    joined: dict[str, Any] = {}
    for adjustment in adjustments:
        fields = msgspec.structs.asdict(adjustment.change).items()
        joined |= {name: value for name, value in fields if value is not None}
    return Change(**joined)


def lines_of(adjustments: Iterable[Adjustment], *, every: bool) -> list[str]:
    """Say what adjustments do to a job, to its user.

    every: tell of every change; otherwise of all where one is urgent.
    """
    told = [adjustment for adjustment in adjustments if adjustment.line]
    if not (every or any(adjustment.urgent for adjustment in told)):
        return []
    lines: list[str] = []
    for adjustment in told:
        if adjustment.clause and lines:
            lines[-1] += f", {adjustment.clause}"
        else:
            lines.append(f"nimo: {adjustment.line}")
    return lines
