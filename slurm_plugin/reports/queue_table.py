"""Jobs in the queue as a table.  Imports nothing heavy."""

from collections.abc import Sequence
from typing import Any

from slurm_plugin.protocol.status_messages import WaitRow
from slurm_plugin.text import table_columns as cols
from slurm_plugin.text.formatting import ends_differ, short_clock

#: What the moments of a row are.
_MOMENTS = 'Half of such jobs have started by "starts", nine in ten between "not before" and "by".'
_NONE = "No start can be said of these jobs yet."


def moments_text(rows: Sequence[WaitRow]) -> str:
    """Say what the moments of a table are, or that it has none; empty without rows."""
    if not rows:
        return ""
    return _MOMENTS if any(row.start_s is not None for row in rows) else _NONE


def queue_table(rows: Sequence[WaitRow]) -> cols.Table:
    """Jobs in the queue, in the manner of ``squeue --start``."""

    def moment(name: str, title: str, worth: int = cols.ALWAYS, **fields: Any) -> cols.Column:
        return cols.Column(name, title, as_text=cols.MOMENT, worth=worth, **fields)

    def end(name: str, title: str, meaning: str) -> cols.Column:
        return moment(name, title, 8, show=lambda row: _end(row, name), meaning=meaning)

    columns = [
        cols.Column("job_id", "job", show=_job),
        cols.text_column("partition", "partition", 6),
        cols.text_column("name", "name", 5),
        cols.text_column("user", "user", 4, on_page=False),
        cols.Column("nodes", "nodes", worth=3),
        moment("start_s", "starts", meaning="half of such jobs have started by then"),
        end("low_s", "not before", "one job in twenty starts before it"),
        end("high_s", "by", "nineteen of twenty such jobs have started by then"),
        moment("slurm_start_s", "Slurm's start", 7, on_page=False, meaning="as Slurm plans it"),
        moment("last_s", "last task starts", cols.ON_REQUEST, on_page=False),
        moment("submit_s", "submitted", cols.ON_REQUEST, on_page=False),
        cols.text_column("reason", "reason", 2, meaning="why it waits, as squeue names it"),
    ]
    return cols.Table(columns, rows, "waiting", empty="no job waits")


def _end(row: WaitRow, name: str) -> str:
    """Write one end of the interval of starts; ``-`` where both read the same."""
    if row.low_s is not None and row.high_s is not None and not ends_differ(row.low_s, row.high_s):
        return "-"
    return short_clock(getattr(row, name))


def _job(row: WaitRow) -> str:
    return job_name(row) if row.tasks == 1 else f"{row.job_id} ({row.tasks} tasks)"


def job_name(row: WaitRow) -> str:
    """Write the number of a job or a task: ``4711``, ``4711_3``."""
    return f"{row.job_id}" if row.task is None else f"{row.array_id}_{row.task}"
