"""Plain text for terminals and logs: moments, shares, tables.  Imports nothing heavy."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from unicodedata import combining, east_asian_width

from sacct_ingest.text.durations import duration_text
from slurm_plugin.text.local_time import local_moment

#: How an application was recognised, in words.
RECOGNISED = {
    "tag": "its tag or workflow process",
    "script": "its script and arguments",
    "line": "user, job name and command line",
    "name": "user and job name only",
    "user": "user only",
}

#: Moments nearer than this are said to the second.
_NEAR_S = 3600.0
#: From here on six digits are less than a whole number has.
_LARGE = 1e6
#: Where prose may be folded: not between a number and its percent sign.
_BREAKS = re.compile(r"\s+(?!%)")
#: A job that waits no longer starts at once: Slurm itself looks at its queue as often.
_AT_ONCE_S = 60.0


def clock(epoch_s: float | None) -> str:
    """Write a moment in local time as Slurm does, ``2026-11-21T16:30:00``; ``-`` for ``None``."""
    if epoch_s is None:
        return "-"
    return local_moment(epoch_s).strftime("%Y-%m-%dT%H:%M:%S")


def short_clock(epoch_s: float | None) -> str:
    """Write a moment of these days in local time, ``11-21 16:30``; ``-`` for ``None``."""
    if epoch_s is None:
        return "-"
    return local_moment(epoch_s).strftime("%m-%d %H:%M")


def ends_differ(
    low: float | None, high: float | None, as_text: Callable[[float], str] = short_clock
) -> bool:
    """Whether an interval is known, and its ends read differently.

    >>> ends_differ(60.0, 61.0), ends_differ(60.0, 180.0), ends_differ(60.0, None)
    (False, True, False)
    """
    if low is None or high is None:
        return False
    return as_text(low) != as_text(high)


def interval(low: float | None, high: float | None, as_text: Callable[[float], str]) -> str:
    """Write an interval; one text where both ends read the same, ``-`` where there is none.

    >>> interval(60, 240, "{:.0f} s".format), interval(60.1, 60.2, "{:.0f} s".format)
    ('60 s to 240 s', '60 s')
    """
    if low is None or high is None:
        return "-"
    if not ends_differ(low, high, as_text):
        return as_text(low)
    return f"{as_text(low)} to {as_text(high)}"


def with_interval(
    text: str, low: float | None, high: float | None, as_text: Callable[[float], str]
) -> str:
    """Put an interval in brackets behind a value; nothing where its ends read the same.

    >>> with_interval("2 W", 1, 3, "{:.0f} W".format), with_interval("2 W", 2, 2, "{} W".format)
    ('2 W (1 W to 3 W)', '2 W')
    """
    if not ends_differ(low, high, as_text):
        return text
    return f"{text} ({interval(low, high, as_text)})"


def clock_between(
    now_s: float, moment_s: float | None, low_s: float | None, high_s: float | None
) -> str:
    """Write a moment with its interval, ``14:20 (14:12 to 14:51)``; ``-`` where it is not known.

    Dates are written where they change: of another day than ``now_s`` or the moment before.  An
    interval whose ends read the same is left out.
    """
    if moment_s is None:
        return "-"
    moments_s = [moment_s]
    if low_s is not None and high_s is not None and ends_differ(low_s, high_s):
        moments_s += [low_s, high_s]
    dates = [short_clock(one_s).split() for one_s in (now_s, *moments_s)]
    words = [
        clock if date == before else f"{date} {clock}"
        for (before, _), (date, clock) in pairwise(dates)
    ]
    return f"{words[0]} ({words[1]} to {words[2]})" if len(words) > 1 else words[0]


def spoken_clock(epoch_s: float, now_s: float) -> str:
    """Write a moment as people say it: to the second within an hour of now, else to the minute.

    >>> len(spoken_clock(1000.0, 0.0)), len(spoken_clock(9000.0, 0.0))
    (14, 11)
    """
    near = abs(epoch_s - now_s) < _NEAR_S
    moment = local_moment(epoch_s)
    return moment.strftime("%m-%d %H:%M:%S" if near else "%m-%d %H:%M")


def percent(share: float | None, digits: int = 0) -> str:
    """Format a fraction as a percentage; ``-`` for ``None``.

    >>> percent(0.256)
    '26 %'
    """
    return "-" if share is None else f"{100 * share:.{digits}f} %"


def starts_text(wait_s: float, *, bound: bool = False) -> str:
    """Say when a job starts that waits so long.

    bound: it waits that long at most.

    >>> starts_text(3.0), starts_text(7200.0), starts_text(7200.0, bound=True)
    ('starts at once', 'starts in about 2 h', 'starts within 2 h')
    """
    if wait_s <= _AT_ONCE_S:
        return "starts at once"
    about = "within" if bound else "in about"
    return f"starts {about} {duration_text(wait_s)}"


def hours(value: float) -> str:
    """Format hours or node-hours: one decimal, more where that would say nothing.

    >>> hours(57.04), hours(0.0178), hours(0)
    ('57.0', '0.018', '0.0')
    """
    return f"{value:.1f}" if value >= 1 or not value else f"{value:.2g}"


def printable(text: str) -> str:
    r"""Replace what would break a line or drive the terminal: names are the users' own text.

    >>> printable("a\tb\x1b[2J")
    'a b [2J'
    """
    return "".join(char if char.isprintable() else " " for char in text)


def count(number: int, singular: str, plural: str = "") -> str:
    """Put a number beside its noun.

    >>> count(1, "run"), count(2, "run"), count(0, "query", "queries")
    ('1 run', '2 runs', '0 queries')
    """
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Suggest a fix for a misspelt name: the nearest name, or all names.

    >>> did_you_mean("sttaus", ["status", "fit"])
    "did you mean 'status'?"
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only for typos

    names = list(choices)
    near = get_close_matches(word, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}"


def plain(value: str | float | None) -> str:
    """Write a raw value: numbers to six digits, points in time to the second, nothing for None.

    >>> plain(0.12345678), plain(None), plain(True), plain(17), plain(1795181446.58)
    ('0.123457', '', '1', '17', '1795181447')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= _LARGE else f"{value:.6g}"


def parsable(rows: Iterable[Iterable[str | float | None]]) -> Iterator[str]:
    """Lines with ``|`` between the fields, as ``sacct -P``.

    >>> list(parsable([["node type", "wait"], ["a|b", None]]))
    ['node type|wait', 'a_b|']
    """
    for row in rows:
        yield "|".join(printable(plain(value)).replace("|", "_") for value in row)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: frozenset[int]) -> str:
    """Align columns: to the right, but for those in ``left``; two spaces between them.

    >>> print(table(["nodes", "why"], [["2", "asked"], ["16", "fast"]], left=frozenset({1})))
    nodes  why
        2  asked
       16  fast
    """
    widths = [max(map(screen_width, column)) for column in zip(header, *rows, strict=True)]
    lines = (
        "  ".join(
            padded(cell, width, left=i in left)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    )
    return "\n".join(lines)


def screen_width(text: str) -> int:
    """Count the terminal's columns that a text takes: ideographs two, accents none.

    >>> screen_width("wrf"), screen_width("名前")
    (3, 4)
    """
    return len(text) if text.isascii() else sum(map(_char_width, text))


def padded(text: str, width: int, *, left: bool) -> str:
    """Fill a text with spaces to a number of the terminal's columns."""
    space = " " * (width - screen_width(text))
    return text + space if left else space + text


def cut(text: str, width: int) -> str:
    """Take the beginning of a text that fits a number of the terminal's columns.

    >>> cut("melt", 3), cut("名前", 3)
    ('mel', '名')
    """
    if text.isascii():
        return text[:width]
    ends = accumulate(map(_char_width, text))
    return text[: sum(end <= width for end in ends)]


def _char_width(char: str) -> int:
    if combining(char):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def wrapped(text: str, width: int) -> str:
    """Wrap lines of prose; lines that fit, tables among them, and directives stay whole.

    >>> print(wrapped("  one two three", 9))
      one two
      three
    >>> print(wrapped("within 4 %", 9))
    within
    4 %
    """
    return "\n".join(
        "\n".join(_folded(line, width))
        if screen_width(line) > width and not line.startswith("#SBATCH")
        else line
        for line in text.splitlines()
    )


def beside(rows: Iterable[tuple[str, str]], width: int) -> str:
    """Put texts, folded, beside their names.

    >>> print(beside([("modes", "off 2"), ("", "a text that is folded")], 20))
    modes  off 2
           a text that
           is folded
    """
    named = list(rows)
    indent = max((screen_width(name) for name, _ in named), default=0) + 2
    lines: list[str] = []
    for name, text in named:
        first, *more = wrapped(text, max(width - indent, 1)).splitlines() or [""]
        lines.append(f"{padded(name, indent, left=True)}{first}".rstrip())
        lines += [" " * indent + line for line in more]
    return "\n".join(lines)


def _folded(line: str, width: int) -> Iterator[str]:
    indent = line[: len(line) - len(line.lstrip())]
    row = ""
    for word in _BREAKS.split(line.strip()):
        if row and screen_width(row) + 1 + screen_width(word) > width:
            yield row
            row = ""
        row = f"{row} {word}" if row else f"{indent}{word}"
    yield row
