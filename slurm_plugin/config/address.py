"""Addresses as ``HOST[:PORT]``."""

import re
from typing import Final, NamedTuple

from sacct_ingest.errors import ConfigError

PORT: Final = 7734
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(\d{1,5}))?")


class Address(NamedTuple):
    """Where nimod listens for relays."""

    host: str
    port: int = PORT

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def address(text: str) -> Address:
    """Read ``HOST[:PORT]``; an IPv6 address stands in brackets.

    Raises ConfigError: it is none.

    >>> address("ctl1"), address("[::1]:7000")
    (Address(host='ctl1', port=7734), Address(host='::1', port=7000))
    """
    match = _ADDRESS.fullmatch(text)
    port = int(match[2] or PORT) if match else 0
    if match is None or not 0 < port <= 65535:
        raise ConfigError(f"{text!r} is no address of a controller; write HOST or HOST:PORT")
    return Address(match[1].strip("[]"), port)
