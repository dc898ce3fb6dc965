"""When jobs start, as text.  Imports nothing heavy."""

from operator import attrgetter

from slurm_plugin.protocol.status_messages import WaitRow, Waits
from slurm_plugin.text.formatting import clock, count, duration, printable, short_clock
from slurm_plugin.text.table_columns import ON_REQUEST, OutputColumn


def queue_columns() -> list[OutputColumn]:
    """Columns of the table of jobs in the queue, in the manner of ``squeue --start``."""

    def moment(name: str, title: str, worth: int = 9) -> OutputColumn:
        get = attrgetter(name)
        return OutputColumn(
            name=name, title=title, value=get, show=lambda row: short_clock(get(row)), worth=worth
        )

    def words(name: str, title: str, worth: int) -> OutputColumn:
        get = attrgetter(name)
        return OutputColumn(
            name=name,
            title=title,
            value=get,
            show=lambda row: printable(get(row)),
            left=True,
            worth=worth,
            cuts=True,
        )

    return [
        OutputColumn(name="job_id", title="job", value=lambda row: row.job_id, show=_job),
        words("partition", "partition", 6),
        words("name", "name", 5),
        words("user", "user", 4),
        OutputColumn(name="nodes", title="nodes", value=lambda row: row.nodes, worth=3),
        moment("start_s", "starts"),
        moment("low_s", "not before", 8),
        moment("high_s", "by", 8),
        moment("slurm_start_s", "Slurm's start", 7),
        moment("last_s", "last task starts", ON_REQUEST),
        moment("submit_s", "submitted", ON_REQUEST),
        words("reason", "reason", 2),
    ]


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
