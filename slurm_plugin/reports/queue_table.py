"""Jobs in the queue as a table.  Imports nothing heavy."""

from collections.abc import Sequence
from typing import Any

from slurm_plugin.protocol.status_messages import WaitRow
from slurm_plugin.text import table_columns as cols


def queue_table(rows: Sequence[WaitRow]) -> cols.Table:
    """Jobs in the queue, in the manner of ``squeue --start``."""

    def moment(name: str, title: str, worth: int = cols.ALWAYS, **fields: Any) -> cols.Column:
        return cols.Column(name, title, as_text=cols.MOMENT, worth=worth, **fields)

    columns = [
        cols.Column("job_id", "job", show=_job),
        cols.text_column("partition", "partition", 6),
        cols.text_column("name", "name", 5),
        cols.text_column("user", "user", 4, on_page=False),
        cols.Column("nodes", "nodes", worth=3),
        moment("start_s", "starts", meaning="half of such jobs have started by then"),
        moment("low_s", "not before", 8, meaning="one job in twenty starts before it"),
        moment("high_s", "by", 8, meaning="nineteen of twenty such jobs have started by then"),
        moment("slurm_start_s", "Slurm's start", 7, on_page=False, meaning="as Slurm plans it"),
        moment("last_s", "last task starts", cols.ON_REQUEST, on_page=False),
        moment("submit_s", "submitted", cols.ON_REQUEST, on_page=False),
        cols.text_column("reason", "reason", 2, meaning="why it waits, as squeue names it"),
    ]
    return cols.Table(columns, rows, "waiting", empty="no job waits")


def _job(row: WaitRow) -> str:
    if row.task is not None:
        return f"{row.array_id}_{row.task}"
    return f"{row.job_id}" if row.tasks == 1 else f"{row.job_id} ({row.tasks} tasks)"
