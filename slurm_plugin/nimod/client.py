"""Asking nimod, blocking, one question a connection: for nimo status and others, and for tests.

Starts fast: nothing but the standard library and msgspec.
"""

from typing import TYPE_CHECKING, TypeVar

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
from slurm_plugin.protocol.lines import Message, encode
from slurm_plugin.protocol.request_messages import Ask, Selection
from slurm_plugin.protocol.status_messages import Status, Waits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


__all__ = ["LinkDown", "RequestRefused", "Unanswered", "Unreachable"]


Reply = TypeVar("Reply", bound=Message)


def waits(
    path: "str | Path",
    jobs: "Sequence[tuple[int, int]]",
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


def status(path: "str | Path", *, reload: bool = False, timeout_s: float) -> Status:
    """Ask nimod how it is, after a look for new tables where ``reload`` says so.

    Raises Unreachable: there is no answer.
    """
    return exchange(path, Ask(op="reload" if reload else "status"), Status, timeout_s)


def exchange(path: "str | Path", ask: Ask, kind: type[Reply], timeout_s: float) -> Reply:
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
