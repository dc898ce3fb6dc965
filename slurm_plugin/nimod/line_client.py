"""Sending nimod a line and reading one, and an advice asked for that way.

For ``nimo-advise``, which starts fast: loads the standard library only.
"""

import json
import socket
import time
from typing import TYPE_CHECKING

from sacct_ingest.errors import NimoError
from slurm_plugin.protocol.version import VERSION
from slurm_plugin.text.local_time import utc_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from slurm_plugin.protocol.advice_messages import Advice

_MAX_ANSWER_BYTES = 16 * 2**20


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


def advise(
    path: "str | Path",
    job: "Mapping[str, object]",
    *,
    confidence: float = 0.0,
    clusters: str = "",
    application: str = "",
    timeout_s: float,
) -> "Advice":
    """Ask for an advice.

    job: fields of a `slurm_plugin.protocol.request_messages.Job`.
    confidence: required chance to make a deadline; 0: the site's.
    clusters: those that ``-M`` names; empty: none.
    application: whose usual job is meant, for the user that ``job`` names; empty: ``job`` is.
    Raises Unreachable: there is no answer.
    """
    from slurm_plugin.protocol.advice_messages import read_advice  # noqa: PLC0415 - advice alone

    ask = {"v": VERSION, "op": "advise", "via": "advise", "job": job, "confidence": confidence}
    ask["utc_offsets"] = utc_offsets(time.time())
    if clusters:
        ask["clusters"] = clusters
    if application:
        ask["name"] = application
    # Arguments may hold bytes that are no UTF-8.
    request = json.dumps(ask, ensure_ascii=False).encode(errors="replace") + b"\n"
    line = exchange_line(path, request, timeout_s)
    try:
        fields = json.loads(line)
        if fields.get("ok", True):
            return read_advice(fields)
        raise refusal(path, fields.get("error", ""), link_down=fields.get("link_down", False))
    except (ValueError, AttributeError) as error:
        raise unreadable(path, error) from error


def exchange_line(path: "str | Path", request: bytes, timeout_s: float) -> bytes:
    """Send a line and read one; the time-out is for all of it.

    Raises Unreachable: there is no answer.
    """
    try:
        return _line(str(path), request, timeout_s)
    except TimeoutError as error:
        raise Unanswered(f"nimod at {path} does not answer within {timeout_s:g} s") from error
    except OSError as error:
        raise Unreachable(f"nimod at {path}: {error.strerror or error}") from error


def unreadable(path: "str | Path", error: Exception) -> Unreachable:
    """Make the error of an answer that is none."""
    return Unreachable(f"nimod at {path} sent what NIMO cannot read: {error}")


def refusal(path: "str | Path", error: str, *, link_down: bool) -> RequestRefused:
    """Make the error of a request that nimod or a relay refused with these words."""
    if link_down:
        return LinkDown(error)
    return RequestRefused(f"nimod at {path}: {error or 'refused'}")


def _line(path: str, request: bytes, timeout_s: float) -> bytes:
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
