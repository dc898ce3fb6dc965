"""How often a user may ask."""

from dataclasses import dataclass

_REMEMBERED = 10_000  #: users whose requests are counted


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
