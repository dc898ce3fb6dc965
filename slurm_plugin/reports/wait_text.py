"""When jobs start, as text.  Imports nothing heavy."""

from collections.abc import Sequence

from slurm_plugin.protocol.status_messages import WaitRow, Waits
from slurm_plugin.text.formatting import clock, count, duration, short_clock
from slurm_plugin.text.table_columns import (
    ALWAYS,
    ON_REQUEST,
    OutputColumn,
    OutputTable,
    text_column,
)


def queue_table(rows: Sequence[WaitRow]) -> OutputTable:
    """Jobs in the queue, in the manner of ``squeue --start``."""

    def moment(name: str, title: str, worth: int = ALWAYS) -> OutputColumn:
        return OutputColumn(name, title, as_text=short_clock, worth=worth)

    columns = [
        OutputColumn("job_id", "job", show=_job),
        text_column("partition", "partition", 6),
        text_column("name", "name", 5),
        text_column("user", "user", 4),
        OutputColumn("nodes", "nodes", worth=3),
        moment("start_s", "starts"),
        moment("low_s", "not before", 8),
        moment("high_s", "by", 8),
        moment("slurm_start_s", "Slurm's start", 7),
        moment("last_s", "last task starts", ON_REQUEST),
        moment("submit_s", "submitted", ON_REQUEST),
        text_column("reason", "reason", 2),
    ]
    return OutputTable(columns, rows)


def sentence(waits: Waits, *, now_s: float) -> str:
    """Say what the moments are, and what they rest on."""
    if waits.made_s is None:
        return "The queue was not run forward yet; ask again in a minute."
    age = duration(max(now_s - waits.made_s, 0.0))
    record = (
        f"{count(waits.recorded, 'start')} recorded"
        if waits.recorded
        else "no job start recorded yet, so intervals are wide"
    )
    return (
        'Half of such jobs have started by "starts", nine in ten between the next two moments.\n'
        f"The queue was run forward {age} ago ({clock(waits.made_s)}), {record}."
    )


def _job(row: WaitRow) -> str:
    if row.task is not None:
        return f"{row.array_id}_{row.task}"
    return f"{row.job_id}" if row.tasks == 1 else f"{row.job_id} ({row.tasks} tasks)"
