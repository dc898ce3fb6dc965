"""Logs that job names cannot forge: users choose those names."""

import logging
from types import TracebackType

from slurm_plugin.text.formatting import printable

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class OneLine(logging.Formatter):
    r"""One line for each message, without control characters; tracebacks are indented.

    >>> made = logging.makeLogRecord({"levelname": "INFO", "name": "x", "msg": "a\nERROR b\x1b[2J"})
    >>> OneLine("%(levelname)s %(name)s: %(message)s").format(made)
    'INFO x: a ERROR b [2J'
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Text of a record, in one line."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802
        """Traceback whose lines cannot be taken for messages."""
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"  | {printable(line)}" for line in lines)


def set_up(level: int) -> None:
    """Log to standard error from this level on."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
