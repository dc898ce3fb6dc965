"""Asking nimod about the store: applications, the decision about a job, a report.

Answers are of types that take long to load, so each is imported where it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from slurm_plugin.nimod.client import exchange
from slurm_plugin.protocol.request_messages import Ask, Job, Selection
from slurm_plugin.protocol.status_messages import Reported

if TYPE_CHECKING:
    from pathlib import Path

    from slurm_plugin.evaluation.outcomes import OutcomeReport
    from slurm_plugin.protocol.query_messages import Applications, Explanation


class Head(msgspec.Struct, frozen=True):
    """What stands in the first line of a report."""

    decisions: int
    finished: int
    first_s: float | None
    last_s: float | None


def applications(
    path: str | Path, name: str = "", *, every: bool, timeout_s: float
) -> Applications:
    """Ask for prediction tables: one application's, or all that the user ran.

    Raises Unreachable: there is no answer.
    """
    from slurm_plugin.protocol.query_messages import Applications  # noqa: PLC0415

    return exchange(path, Ask(op="applications", name=name, every=every), Applications, timeout_s)


def explain(
    path: str | Path,
    job_id: int,
    decision_id: str,
    *,
    submitted: tuple[str, str, str, float] | None = None,
    timeout_s: float,
) -> Explanation:
    """Ask for the decision about a job; ``submitted`` as of the store's ``of_job``.

    Raises NoDecision: there is none that the user may see; Unreachable: there is no answer.
    """
    from slurm_plugin.protocol.query_messages import Explanation  # noqa: PLC0415

    ask = Ask(op="explain", job_id=job_id, decision_id=decision_id)
    if submitted is not None:
        user, name, work_dir, at_s = submitted
        ask.job = Job(user_name=user, name=name, work_dir=work_dir)
        ask.selection = Selection(since_s=at_s)
    return exchange(path, ask, Explanation, timeout_s)


def report(path: str | Path, selection: Selection, *, timeout_s: float) -> Reported:
    """Ask for a report of decisions.

    Raises Unreachable: there is no answer.
    """
    return exchange(path, Ask(op="report", selection=selection), Reported, timeout_s)


def head_of(answer: Reported) -> Head:
    """Read what stands in the first line of a report."""
    return msgspec.json.decode(answer.report, type=Head)


def report_of(answer: Reported) -> OutcomeReport:
    """Read a report, whose types take long to load."""
    from slurm_plugin.evaluation.outcomes import OutcomeReport  # noqa: PLC0415

    return msgspec.json.decode(answer.report, type=OutcomeReport)
