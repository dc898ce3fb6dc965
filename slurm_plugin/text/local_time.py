"""Local time of who reads what is written: commands send theirs, and nimod writes in it."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta, timezone

#: Seconds since the epoch, and how many local time is ahead of UTC from then on.
UtcOffset = tuple[int, int]
_YEAR_S = 366 * 86_400
#: No zone changes its clock twice in so short a time.
_STEP_S = 28 * 86_400
#: Local time of who reads what is written; empty: that of this process.
_OFFSETS: ContextVar[Sequence[UtcOffset]] = ContextVar("_OFFSETS", default=())


def utc_offsets(now_s: float) -> list[UtcOffset]:
    """Give the local time of this process: how it is now, and its changes in a year from now."""
    moment_s = int(now_s)
    found = [(moment_s, _offset_s(moment_s))]
    for end_s in range(moment_s + _STEP_S, moment_s + _YEAR_S, _STEP_S):
        changed_s = _offset_s(end_s)
        if changed_s != found[-1][1]:
            step = range(end_s - _STEP_S, end_s)
            earlier = bisect_left(step, 1, key=lambda at_s: int(_offset_s(at_s) == changed_s))
            found.append((step[0] + earlier, changed_s))
    return found


def _offset_s(epoch_s: int) -> int:
    return round(
        (datetime.fromtimestamp(epoch_s).astimezone().utcoffset() or timedelta()).total_seconds()
    )


@contextmanager
def local_time_of(offsets: Sequence[UtcOffset]) -> Iterator[None]:
    """Write moments in this local time meanwhile, in this thread; empty: in that of the process."""
    before = _OFFSETS.set(offsets)
    try:
        yield
    finally:
        _OFFSETS.reset(before)


def local_moment(epoch_s: float) -> datetime:
    """Give a moment in the local time of who reads it."""
    offsets = _OFFSETS.get()
    if not offsets:
        return datetime.fromtimestamp(epoch_s).astimezone()
    since = bisect_right(offsets, epoch_s, key=lambda offset: offset[0])
    _, offset_s = offsets[max(since - 1, 0)]
    return datetime.fromtimestamp(epoch_s, timezone(timedelta(seconds=offset_s)))
