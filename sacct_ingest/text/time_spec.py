"""Points in time as ``--deadline`` and ``--begin`` take them.

Follows ``parse_time`` in Slurm's ``src/common/parse_time.c``, oddities included: a ``T`` between
date and time is skipped, and so is one that begins a word.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final

_HOURS: Final = {"midnight": 0, "elevenses": 11, "noon": 12, "fika": 15, "teatime": 16}
_UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}

#: Characters of a point in time: "midnight", a date, a time and their blanks are a tenth of it.
LONGEST: Final = 256

_SKIPPED = re.compile(r"[ \tT-]+")
_EPOCH = re.compile(r"uts(\d+)", re.IGNORECASE)
_NOW = re.compile(r"now", re.IGNORECASE)
_COUNT = re.compile(r"[\d\s]+")
_WORD = re.compile("|".join([*_HOURS, "today", "tomorrow"]), re.IGNORECASE)
_TIME = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?\s*(am|pm)?", re.IGNORECASE)
_ISO_DATE = re.compile(r"(\d{4})-(\d\d)-(\d{1,2})")
_US_DATE = re.compile(r"(\d{1,2}+)[./]?(\d{1,2}+)[./]?(?:(\d\d)|(?!\d))")


@dataclass(slots=True)
class _TimeParts:
    """What the text has said so far; a date is (year, month, day), its year None if left out."""

    now: datetime
    date: tuple[int | None, int, int] | None = None
    time: tuple[int, int, int] | None = None
    epoch_s: int | None = None


def parse_time(text: str, *, now_s: float, zone: tzinfo | None = None) -> int:
    """Seconds since the epoch of a point in time.

    text: ``now+1hour``, ``16:30``, ``3:04 PM``, ``2026-01-02T03:04``, ``010226``, ``1/2/26``,
        ``01/02-15:00``, ``noon tomorrow``, ``teatime`` …  A time without a date is the next one to
        come, a date without a time is its midnight, a date without a year the next such.
    now_s: the present, seconds since the epoch.
    zone: time zone that the text is in; None: the local one.
    Raises ValueError: Slurm would not take it either.

    >>> from datetime import UTC
    >>> parse_time("1970-01-02T00:01", now_s=0, zone=UTC), parse_time("now+2hours", now_s=0)
    (86460, 7200)
    """
    if len(text) > LONGEST:
        raise ValueError(f"a point in time of more than {LONGEST} characters")
    epoch = _EPOCH.fullmatch(text.strip())
    if epoch:
        return int(epoch[1])
    moment = _TimeParts(datetime.fromtimestamp(int(now_s), zone))
    position = 0
    text = text.partition("\n")[0]
    while position < len(text):
        position = _advance(text, position, moment)
    if moment.epoch_s is not None:
        return moment.epoch_s
    try:
        return int(_moment(moment).timestamp())
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"not a point in time: {text!r}") from error


def _advance(text: str, position: int, moment: _TimeParts) -> int:
    skipped = _SKIPPED.match(text, position)
    if skipped:
        return skipped.end()
    if _NOW.match(text, position) and (delta_s := _delta(text[position + 3 :])) is not None:
        # Not by way of the clock: an hour is an hour also when the clocks change.
        moment.epoch_s = int(moment.now.timestamp()) + delta_s
        return len(text)
    for pattern, read in _READERS:
        match = pattern.match(text, position)
        if match:
            read(match, moment)
            return match.end()
    raise ValueError(f"not a point in time: {text!r}; write now+4hours or 2026-01-31T18:00")


def _delta(text: str) -> int | None:
    """Seconds of what follows "now": nothing, ``+90``, ``- 2 days``; None where it is neither."""
    text = text.strip()
    if not text:
        return 0
    sign = text[0]
    rest = text[1:]
    digits = _COUNT.match(rest)
    count = "".join(digits[0].split()) if digits else ""
    unit = rest[digits.end() :].lower() if digits else ""
    unit_s = _UNITS.get(unit.removesuffix("s"), 0) if unit else 1
    if sign not in "+-" or not count or not unit_s:
        return None
    return (-1 if sign == "-" else 1) * int(count) * unit_s


def _read_word(match: re.Match[str], moment: _TimeParts) -> None:
    word = match[0].lower()
    if word in _HOURS:
        moment.time = (_HOURS[word], 0, 0)
    else:
        moment.date = _day(moment.now, days=1 if word == "tomorrow" else 0)


def _read_time(match: re.Match[str], moment: _TimeParts) -> None:
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    half = (match[4] or "").lower()
    if half and hour > 12:
        raise ValueError(f"not a time of day: {match[0]!r}")
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    moment.time = (hour, minute, second)


def _read_iso_date(match: re.Match[str], moment: _TimeParts) -> None:
    moment.date = (int(match[1]), int(match[2]), int(match[3]))


def _read_us_date(match: re.Match[str], moment: _TimeParts) -> None:
    year = int(match[3] or 0)
    moment.date = (2000 + year if year else None, int(match[1]), int(match[2]))


_READERS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str], _TimeParts], None]], ...]] = (
    (_WORD, _read_word),
    (_TIME, _read_time),
    (_ISO_DATE, _read_iso_date),
    (_US_DATE, _read_us_date),
)


def _moment(moment: _TimeParts) -> datetime:
    if moment.date is None and moment.time is None:
        raise ValueError("nothing said")
    hour, minute, second = moment.time or (0, 0, 0)
    date = moment.date
    if date is None:
        to_come = (hour, minute) > (moment.now.hour, moment.now.minute)
        date = _day(moment.now, days=0 if to_come else 1)
    year, month, day = date
    if year is None:
        now = moment.now
        ahead = (month, day, hour, minute) > (now.month, now.day, now.hour, now.minute)
        year = now.year if ahead else now.year + 1
    if not 1 <= day <= 31:
        raise ValueError(f"no day {day}")
    # Days that a month lacks run over into the next, as mktime(3) has it.
    first = datetime(year, month, 1, hour, minute, second, tzinfo=moment.now.tzinfo)
    return first + timedelta(days=day - 1)


def _day(now: datetime, *, days: int) -> tuple[int, int, int]:
    # Slurm adds 24 hours of seconds, which differs from the next day when the clocks change.
    later = datetime.fromtimestamp(now.timestamp() + days * 86400, now.tzinfo)
    return later.year, later.month, later.day
