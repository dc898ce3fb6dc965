"""How often a user may ask, and be logged."""

import logging
import time
from collections.abc import Hashable
from dataclasses import dataclass
from traceback import extract_tb

from slurm_plugin.text.formatting import printable

_REMEMBERED = 10_000  #: users whose requests are counted
_LONGEST = 200  #: characters of an error in the log


@dataclass(slots=True)
class _Bucket:
    """Requests that a user may send at once, refilled as time goes by."""

    left: float
    at_s: float


class Rates:
    """Token buckets, one for each uid.

    per_s: requests a second that a user may send for ever; twice as many at once.
    """

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._burst = max(2 * per_s, 1.0)
        self._buckets: dict[int, _Bucket] = {}

    def allow(self, uid: int, now_s: float) -> bool:
        """Take one request of a user off; False where there is none left."""
        if len(self._buckets) >= _REMEMBERED:
            self._buckets.clear()
        bucket = self._buckets.setdefault(uid, _Bucket(self._burst, now_s))
        bucket.left = min(self._burst, bucket.left + (now_s - bucket.at_s) * self._per_s)
        bucket.at_s = now_s
        if bucket.left < 1.0:
            return False
        bucket.left -= 1.0
        return True


class Complaints:
    """Log lines that users can cause: one a user and minute, or they could fill the log.

    log: takes them.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log, self._rates = log, Rates(1 / 60)

    def log(self, who: Hashable, text: str, *values: object, level: int = logging.WARNING) -> None:
        """Log a line on behalf of somebody."""
        if self._rates.allow(hash(who), time.monotonic()):
            self._log.log(level, text, *values)

    def error(self, who: Hashable, what: str, error: Exception) -> None:
        """Log an unexpected error in one line: its place, and its text, which may be the user's."""
        last = extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} in {last.filename}:{last.lineno}"
        text = printable(str(error))[:_LONGEST]
        self.log(who, "%s (user %s): %s: %s", what, who, place, text, level=logging.ERROR)
