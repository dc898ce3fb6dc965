"""One JSON object a line, versioned."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from slurm_plugin.protocol.version import VERSION

_Row = TypeVar("_Row")
MAX_LINE_BYTES = 256 * 1024  #: longer requests are refused; the hooks cut scripts to fit
MAX_ANSWER_BYTES = 4 * 2**20  #: no answer is made longer
_BESIDE_ROWS = 64 * 1024  #: bytes of an answer for what stands beside its rows


class AnswerTooLong(Exception):  # noqa: N818 - a state, not an error
    """An answer would be longer than any may be."""

    def __init__(self) -> None:
        super().__init__(f"the answer is longer than {MAX_ANSWER_BYTES >> 20} MiB")


def version() -> int:
    """Give the version of a new message."""
    # A factory: plain defaults are not sent, and the version must be.
    return VERSION


class Message(msgspec.Struct, kw_only=True):
    """What all answers of nimod have."""

    v: int = msgspec.field(default_factory=version)
    ok: bool = True
    error: str = ""


_encoder = msgspec.json.Encoder()


def encode(message: Any) -> bytes:
    """One message as a line with its newline."""
    return _encoder.encode(message) + b"\n"


def bounded(line: bytes) -> bytes:
    """Give an answer on. Raises AnswerTooLong: it is."""
    if len(line) > MAX_ANSWER_BYTES:
        raise AnswerTooLong
    return line


def bounded_rows(
    rows: Iterable[_Row], shown: Callable[[_Row], None] = lambda _: None, *, cut: bool = False
) -> list[msgspec.Raw]:
    """Encode the rows of an answer one by one, so that a long one is not made first.

    shown: called with each.
    cut: leave off what is too much.
    Raises AnswerTooLong: they are too long together.
    """
    made = []
    left = MAX_ANSWER_BYTES - _BESIDE_ROWS
    for row in rows:
        data = _encoder.encode(row)
        left -= len(data) + 1
        if left < 0 and cut:
            break
        if left < 0:
            raise AnswerTooLong
        made.append(msgspec.Raw(data))
        shown(row)
    return made
