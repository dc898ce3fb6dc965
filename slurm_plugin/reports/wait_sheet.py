"""The report's table of the queue's waits."""

from operator import attrgetter

from slurm_plugin.evaluation.outcomes import OutcomeReport
from slurm_plugin.formatting import percent
from slurm_plugin.reports.sheet import Sheet, SheetField


def wait_estimates(report: OutcomeReport) -> Sheet:
    """Estimates of the queue's waits by partition, compared with the real ones."""
    return Sheet(
        name="wait_estimates",
        caption="Estimated waits in the queue, compared with the real ones",
        fields=(
            SheetField("cluster", "cluster", attrgetter("cluster"), left=True),
            SheetField("partition", "partition", attrgetter("partition"), left=True),
            SheetField("of", "source", attrgetter("of"), left=True),
            SheetField("jobs", "jobs", attrgetter("jobs")),
            SheetField("waited", "waited over a minute", attrgetter("waited")),
            SheetField("within", "half within a factor", attrgetter("within"), _factor),
            SheetField("inside", "in 90 %", attrgetter("inside"), percent),
        ),
        rows=report.queue_waits,
        note="history: estimates of 'nimo fit' for past jobs, from data before each submission. "
        "The factor is that of the wait plus a minute.",
        empty="no job with an estimated wait has started yet",
    )


def _factor(value: float) -> str:
    return f"{value:.2f}"
