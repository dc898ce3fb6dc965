"""Asking nimod, blocking, one question a connection: for nimo-advise, nimo status and tests.

Starts fast: nothing but the standard library and msgspec.
"""

import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from sacct_ingest.errors import NimoError
from slurm_plugin.protocol import Advice, Answer, Ask, Status, Uplinks, Waits, encode

_MAX_ANSWER_BYTES = 16 * 2**20


class _Message(Protocol):
    """What all answers of nimod have."""

    ok: bool
    error: str


Message = TypeVar("Message", bound=_Message)


class Unreachable(NimoError):  # noqa: N818 - a state, not an error's name
    """Nimod does not run, does not answer in time, or answers something else."""

    exit_status = 69  # sysexits.h EX_UNAVAILABLE


class Unanswered(Unreachable):
    """Nimod runs and does not answer in time."""


class RequestRefused(Unreachable):
    """Nimod runs, and says why it has no answer."""


class LinkDown(RequestRefused):
    """The relay of this login node does not reach nimod on the controller."""

    exit_status = 74  # sysexits.h EX_IOERR


def advise(path: str | Path, ask: Ask, *, timeout_s: float) -> Advice:
    """Ask for an advice.

    Raises
    ------
    Unreachable
        There is no answer.
    """
    return exchange(path, ask, Advice, timeout_s)


def decide(path: str | Path, ask: Ask, *, timeout_s: float) -> Answer:
    """Ask for a decision as the hook does.

    Raises
    ------
    Unreachable
        There is no answer.
    """
    return exchange(path, ask, Answer, timeout_s)


def waits(path: str | Path, jobs: Sequence[tuple[int, int]], *, timeout_s: float) -> Waits:
    """Ask when jobs in the queue start; without any, all of one's own.

    Parameters
    ----------
    jobs
        Ids of jobs and arrays, each with the index of a task; below zero: all that it has.

    Raises
    ------
    Unreachable
        There is no answer.
    """
    ask = Ask(op="waits", job_ids=[n for n, _ in jobs], tasks=[task for _, task in jobs])
    return exchange(path, ask, Waits, timeout_s)


def status(path: str | Path, *, reload: bool = False, timeout_s: float) -> Status:
    """Ask nimod how it is, after a look for new tables where ``reload`` says so.

    Raises
    ------
    Unreachable
        There is no answer.
    """
    return exchange(path, Ask(op="reload" if reload else "status"), Status, timeout_s)


def links(path: str | Path, *, timeout_s: float) -> Uplinks:
    """Ask a relay for its links; nimod on a controller has none.

    Raises
    ------
    Unreachable
        There is no answer.
    """
    return exchange(path, Ask(op="links"), Uplinks, timeout_s)


def exchange(path: str | Path, ask: Ask, kind: type[Message], timeout_s: float) -> Message:
    """Ask something, and give the answer as a message of this kind.

    Raises
    ------
    Unreachable
        There is no answer.
    """
    try:
        line = _line(str(path), encode(ask), timeout_s)
        answer = msgspec.json.decode(line, type=kind)
    except TimeoutError as error:
        raise Unanswered(f"nimod at {path} does not answer within {timeout_s:g} s") from error
    except OSError as error:
        raise Unreachable(f"nimod at {path}: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise Unreachable(f"nimod at {path} sent what NIMO cannot read: {error}") from error
    if not answer.ok and msgspec.json.decode(line, type=Answer).link_down:
        raise LinkDown(answer.error)
    if not answer.ok:
        raise RequestRefused(f"nimod at {path}: {answer.error or 'refused'}")
    return answer


def _line(path: str, request: bytes, timeout_s: float) -> bytes:
    """Send a line and read one; the time-out is for all of it."""
    end = time.monotonic() + timeout_s
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(timeout_s)
        channel.connect(path)
        channel.sendall(request)
        answer = bytearray()
        while not answer.endswith(b"\n") and len(answer) < _MAX_ANSWER_BYTES:
            channel.settimeout(max(end - time.monotonic(), 1e-3))
            piece = channel.recv(65536)
            if not piece:
                break
            answer += piece
            if time.monotonic() > end:
                raise TimeoutError
    return bytes(answer)
