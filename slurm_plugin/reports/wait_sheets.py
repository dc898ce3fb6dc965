"""The report's tables of waits: as predicted at submission, and of the queue's estimates."""

from slurm_plugin.evaluation.outcomes import OutcomeReport
from slurm_plugin.protocol.wait_accuracy import SHARE
from slurm_plugin.reports.sheet import Sheet, of_second, share
from slurm_plugin.text.formatting import duration, factor, percent
from slurm_plugin.text.table_columns import OutputColumn


def waits(report: OutcomeReport) -> Sheet:
    """Compare the waits that decisions predicted with the real ones."""
    groups = (("to start at once", report.waits.at_once), ("to wait", report.waits.waiting))
    return Sheet(
        name="waits",
        caption="Waits as predicted at submission, compared with the real ones",
        fields=(
            OutputColumn("predicted", "predicted", lambda row: str(row[0]), left=True),
            OutputColumn("jobs", "jobs", of_second("jobs")),
            OutputColumn(
                "within_s", f"{percent(SHARE)} started within", of_second("within_s"), duration
            ),
            OutputColumn("later", "a minute late or more", of_second("later"), share),
        ),
        rows=[row for row in groups if row[1]],
        empty="too few started jobs with a predicted wait",
    )


def wait_estimates(report: OutcomeReport) -> Sheet:
    """Estimates of the queue's waits by partition, compared with the real ones."""
    return Sheet(
        name="wait_estimates",
        caption="Estimated waits in the queue, compared with the real ones",
        fields=(
            OutputColumn("cluster", "cluster", left=True),
            OutputColumn("partition", "partition", left=True),
            OutputColumn("of", "source", left=True),
            OutputColumn("jobs", "jobs"),
            OutputColumn("waited", "waited over a minute"),
            OutputColumn("within", "half within a factor", as_text=factor),
            OutputColumn("inside", "in 90 %", as_text=percent),
        ),
        rows=report.queue_waits,
        note="history: estimates of 'nimo fit' for past jobs, from data before each submission. "
        "The factor is that of the wait plus a minute.",
        empty="no job with an estimated wait has started yet",
    )
