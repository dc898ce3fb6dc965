"""Asking nimod, blocking, one question a connection: for nimo status and others, and for tests.

Starts fast: nothing but the standard library and msgspec.  Types of answers that take long to load
are imported where they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from slurm_plugin.nimod.line_client import (
    LinkDown,
    RequestRefused,
    Unanswered,
    Unreachable,
    exchange_line,
    refusal,
    unreadable,
)
from slurm_plugin.protocol.decision_messages import Answer
from slurm_plugin.protocol.lines import encode
from slurm_plugin.protocol.request_messages import Ask, Job, Selection
from slurm_plugin.protocol.status_messages import Reported, Status, Uplinks, Waits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from slurm_plugin.evaluation.outcomes import OutcomeReport
    from slurm_plugin.protocol.query_messages import Applications, Explanation


__all__ = ["LinkDown", "RequestRefused", "Unanswered", "Unreachable"]


class _Message(Protocol):
    """What all answers of nimod have."""

    ok: bool
    error: str


Message = TypeVar("Message", bound=_Message)


def decide(path: str | Path, ask: Ask, *, timeout_s: float) -> Answer:
    """Ask for a decision as the hook does.

    Raises Unreachable: there is no answer.
    """
    return exchange(path, ask, Answer, timeout_s)


def waits(
    path: str | Path,
    jobs: Sequence[tuple[int, int]],
    *,
    user: str = "",
    partition: str = "",
    timeout_s: float,
) -> Waits:
    """Ask when jobs in the queue start; without any, all of one's own.

    jobs: ids of jobs and arrays, each with the index of a task; below zero: all that it has.
    user, partition: only jobs of this user, and in this partition; empty: they say nothing.
    Raises Unreachable: there is no answer.
    """
    ask = Ask(
        op="waits",
        job_ids=[n for n, _ in jobs],
        tasks=[task for _, task in jobs],
        selection=Selection(user=user, partition=partition),
    )
    return exchange(path, ask, Waits, timeout_s)


def status(path: str | Path, *, reload: bool = False, timeout_s: float) -> Status:
    """Ask nimod how it is, after a look for new tables where ``reload`` says so.

    Raises Unreachable: there is no answer.
    """
    return exchange(path, Ask(op="reload" if reload else "status"), Status, timeout_s)


def links(path: str | Path, *, timeout_s: float) -> Uplinks:
    """Ask a relay for its links; nimod on a controller has none.

    Raises Unreachable: there is no answer.
    """
    return exchange(path, Ask(op="links"), Uplinks, timeout_s)


def exchange(path: str | Path, ask: Ask, kind: type[Message], timeout_s: float) -> Message:
    """Ask something, and give the answer as a message of this kind.

    Raises Unreachable: there is no answer.
    """
    line = exchange_line(path, encode(ask), timeout_s)
    try:
        answer = msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError as error:
        raise unreadable(path, error) from error
    if not answer.ok:
        link_down = msgspec.json.decode(line, type=Answer).link_down
        raise refusal(path, answer.error, link_down=link_down)
    return answer


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
