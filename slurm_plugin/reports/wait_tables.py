"""Who waits most, as tables: partitions, accounts and users, for the report and for pages."""

from collections.abc import Iterator
from typing import Final

from sacct_ingest.text.durations import duration_text
from slurm_plugin.evaluation.group_waits import WEEKS, GroupWaits
from slurm_plugin.evaluation.outcomes import OutcomeReport
from slurm_plugin.text.formatting import count, printable
from slurm_plugin.text.table_columns import SECONDS, Column, Table, text_column

#: Tables by what their jobs are grouped by.
TABLES: Final = {"partition": "partition_waits", "account": "account_waits", "user": "user_waits"}
_CAPTIONS: Final = {
    "partition": "Partitions, longest waits first",
    "account": "Accounts, longest waits first",
    "user": "Users, longest waits first",
}
NOTE: Final = (
    f"Jobs of the last {WEEKS} weeks that waited for nothing but nodes. "
    f"Change: from the {WEEKS} weeks before."
)
#: Shorter than this a difference is none: Slurm looks at its queue as often.
_SAME_S: Final = 60.0
#: Nor is one of less than this share of the longer wait.
_SAME: Final = 0.1


def wait_tables(report: OutcomeReport) -> Iterator[Table]:
    """Give a table of each kind of group."""
    for kind, name in TABLES.items():
        yield Table(
            (
                text_column("who", kind),
                Column("jobs", "jobs"),
                Column("median_s", "median wait", as_text=SECONDS),
                Column("most_s", "9 in 10 within", as_text=SECONDS),
                Column("trend", "change", trend, derived=True),
                Column("before_median_s", "median, before", as_text=SECONDS, on_page=False),
                Column("before_most_s", "9 in 10, before", as_text=SECONDS, on_page=False),
            ),
            [row for row in report.group_waits if row.kind == kind],
            name,
            _CAPTIONS[kind],
            note=NOTE,
            empty="too few jobs that started",
        )


def trend(row: GroupWaits) -> str | None:
    """Say by how much nine jobs in ten wait longer than before; None: too few did before."""
    if row.before_most_s is None:
        return None
    longer_s = row.most_s - row.before_most_s
    if abs(longer_s) <= max(_SAME_S, _SAME * max(row.most_s, row.before_most_s)):
        return "as before"
    return f"{duration_text(abs(longer_s))} {'longer' if longer_s > 0 else 'shorter'}"


def wait_line(row: GroupWaits) -> str:
    """Say in a sentence how long a group waits."""
    before_s = row.before_most_s
    before = "" if before_s is None else f" ({duration_text(before_s)} before)"
    return (
        f"{row.kind} {printable(row.who)}: 9 in 10 of {count(row.jobs, 'job')} wait at most "
        f"{duration_text(row.most_s)}{before}, half at most {duration_text(row.median_s)}"
    )
