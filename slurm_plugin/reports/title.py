"""The first line of the report, for terminals and pages."""

from slurm_plugin.reports.outcomes import OutcomeReport
from slurm_plugin.reports.text import clock, count


def title_of(report: OutcomeReport) -> str:
    """Say in one line how many decisions of which time there are."""
    if not report.decisions:
        return "No decision is recorded for this selection; nimod records one at each submission."
    decisions = count(report.decisions, "decision")
    span = f"from {clock(report.first_s)} to {clock(report.last_s)}"
    return f"{decisions} {span}, {report.finished} with an outcome"
