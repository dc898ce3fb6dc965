"""One JSON object a line, versioned."""

from typing import Any

import msgspec

from slurm_plugin.protocol.advice_messages import VERSION

MAX_LINE_BYTES = 256 * 1024  #: longer requests are refused; the hooks cut scripts to fit


def version() -> int:
    """Give the version of a new message."""
    # A factory: plain defaults are not sent, and the version must be.
    return VERSION


_encoder = msgspec.json.Encoder()


def encode(message: Any) -> bytes:
    """One message as a line with its newline."""
    return _encoder.encode(message) + b"\n"
