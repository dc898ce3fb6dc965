"""The first line of a report.  Imports nothing heavy: it is printed before the rest is laid out."""

from typing import Protocol

from slurm_plugin.text.formatting import clock, count


class ReportHead(Protocol):
    """What of a report is in its first line."""

    @property
    def decisions(self) -> int: ...  # noqa: D102
    @property
    def finished(self) -> int: ...  # noqa: D102
    @property
    def first_s(self) -> float | None: ...  # noqa: D102
    @property
    def last_s(self) -> float | None: ...  # noqa: D102


def title_of(report: ReportHead) -> str:
    """Give the number of decisions and their period in one line."""
    if not report.decisions:
        return "No decision is recorded for this selection; nimod records one at each submission."
    decisions = count(report.decisions, "decision")
    span = f"from {clock(report.first_s)} to {clock(report.last_s)}"
    return f"{decisions} {span}, {report.finished} with an outcome"
