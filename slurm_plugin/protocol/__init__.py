"""Messages between the hooks, ``nimo-advise`` and nimod: one JSON object a line, versioned.

A peer answers a message of another ``v`` with ``ok: false`` and its own version; the hooks then
let the job pass.  Unknown fields are ignored and new ones have defaults, so that releases in a row
understand each other without a new version (``tests/data/messages-*.json``: what they sent).  Where
a meaning has to change, nimod speaks both versions for one release before the hooks begin with the
new one.

`slurm_plugin.protocol.query_messages` is apart: prediction tables and records take long to load.
"""

from slurm_plugin.advice_messages import (
    ESTIMATE_COMMENT,
    VERSION,
    Advice,
    LayoutRow,
    ObservedPoint,
    PartitionRow,
    Row,
    WaitShares,
)
from slurm_plugin.protocol.decision_messages import (
    Answer,
    Change,
    ReadyDecision,
)
from slurm_plugin.protocol.lines import (
    MAX_LINE_BYTES,
    encode,
)
from slurm_plugin.protocol.request_messages import (
    Ask,
    Command,
    HookLevel,
    Job,
    Selection,
    decode_ask,
)
from slurm_plugin.protocol.status_messages import (
    Counts,
    Decided,
    PartitionWait,
    QueueOutlook,
    Reported,
    Status,
    Uplinked,
    Uplinks,
    WaitRow,
    Waits,
)

__all__ = [
    "ESTIMATE_COMMENT",
    "MAX_LINE_BYTES",
    "VERSION",
    "Advice",
    "Answer",
    "Ask",
    "Change",
    "Command",
    "Counts",
    "Decided",
    "HookLevel",
    "Job",
    "LayoutRow",
    "ObservedPoint",
    "PartitionRow",
    "PartitionWait",
    "QueueOutlook",
    "ReadyDecision",
    "Reported",
    "Row",
    "Selection",
    "Status",
    "Uplinked",
    "Uplinks",
    "WaitRow",
    "WaitShares",
    "Waits",
    "decode_ask",
    "encode",
]
