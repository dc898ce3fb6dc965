"""Durations: one form for people, and Slurm's for what is pasted.

What Slurm wrote is read in :mod:`sacct_ingest.text.slurm_text`.  Imports nothing.
"""

from typing import Final, NamedTuple


class _Unit(NamedTuple):
    name: str
    seconds: float
    until: float  #: of it: as many, rounded, are said in the next unit
    whole_from: float  #: of it: less has one decimal


#: Hours go up to two days, as people say time limits; Slurm counts whole seconds.
_UNITS: Final = (
    _Unit("s", 1.0, 60.0, 0.95),
    _Unit("min", 60.0, 60.0, 9.95),
    _Unit("h", 3600.0, 48.0, 9.95),
    _Unit("days", 86_400.0, float("inf"), 9.95),
)


def duration_text(seconds: float | None) -> str:
    """Write seconds for people: in the unit that suits, two digits or whole ones; ``-`` for None.

    >>> duration_text(90), duration_text(42.4), duration_text(9000), duration_text(2298)
    ('1.5 min', '42 s', '2.5 h', '38 min')
    >>> duration_text(3598), duration_text(86400), duration_text(172800), duration_text(0.32)
    ('1 h', '24 h', '2 days', '0.3 s')
    """
    if seconds is None:
        return "-"
    for unit in _UNITS:
        number = seconds / unit.seconds
        if round(number) < unit.until:
            break
    text = f"{number:.0f}" if number >= unit.whole_from else f"{number:.1f}".removesuffix(".0")
    return f"{text} {unit.name}"


def duration_range(low_s: float | None, high_s: float | None) -> str:
    """Write an interval for people: a unit that both ends have stands once; ``-`` for none.

    >>> duration_range(660, 840), duration_range(1800, 5400), duration_range(720, 720)
    ('11 to 14 min', '30 min to 1.5 h', '12 min')
    """
    if low_s is None or high_s is None:
        return "-"
    low = duration_text(low_s)
    high = duration_text(high_s)
    if low == high:
        return low
    number, unit = low.split(" ")
    return f"{number if high.endswith(f' {unit}') else low} to {high}"


def slurm_time(seconds: float | None) -> str:
    """Write seconds as ``--time`` takes and Slurm prints them, ``[D-]HH:MM:SS``; ``-`` for None.

    >>> slurm_time(3661.4), slurm_time(90000)
    ('01:01:01', '1-01:00:00')
    """
    if seconds is None:
        return "-"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{f'{days}-' if days else ''}{hour:02}:{minute:02}:{second:02}"
