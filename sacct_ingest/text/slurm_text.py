"""Durations, sizes, ids and times as Slurm writes them."""

import re
from datetime import datetime, tzinfo
from functools import lru_cache
from math import isinf
from typing import Final, NamedTuple

#: Words in place of a limit that say that there is none, or none of the job's own.
_NO_LIMIT: Final = frozenset({"unlimited", "infinite", "partition_limit", "-1"})
#: Durations are rounded to the millisecond, which a double holds up to here: 285,000 years.
LONGEST_S: Final = 2.0**43
MAX_INTEGER: Final = 2**63 - 1  #: of the store's databases
#: Words in place of a value that say that there is none: Slurm's, and those of other tools' tables.
NOTHING: Final = frozenset(
    {"", "unknown", "none", "n/a", "invalid", "nan", "nat", "null", "<na>", "na", "(null)"}
)
#: The life of any cluster: the Parallel Workloads Archive's oldest log is of 1993, and Slurm's
#: times end with 32 bits.
FIRST_S: Final = 631_152_000  # 1990-01-01
LAST_S: Final = 2**32 - 1  # 2106-02-07
#: What times of other tools count, where a number is beyond that life in seconds.
_PARTS_OF_SECONDS: Final = (10**3, 10**6, 10**9)

#: Days also as pandas writes them: ``1 days 02:03:04``.
_DURATION = re.compile(r"(?:(\d+)(?:-| days? ))?(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d+)?)")
_WHOLE_NUMBER = re.compile(r"(\d+)\.0*", re.ASCII)
_EPOCH = re.compile(r"(\d+)(?:\.\d*)?", re.ASCII)
_DAY = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])", re.ASCII)
_LIMIT = re.compile(r"(?:(\d+)-(\d+)(?::(\d+)(?::(\d+))?)?|(\d+)(?::(\d+)(?::(\d+))?)?)")
_SIZE = re.compile(r"(\d+(?:\.\d*)?)([KMGTPE]?)(?:i?B)?([nc]?)", re.IGNORECASE)
_POWERS: Final = ("", "K", "M", "G", "T", "P", "E")
_JOB_ID = re.compile(r"(\d+)(?:_(?:(\d+)|\[([^\]]*)\]?)|\+(\d+))?(?:\.(.+))?")


class TooLarge(ValueError):  # noqa: N818 - what a value is
    """A number beyond what its unit can be: a counter of Slurm's that overflowed."""


def storable(number: int) -> int:
    """Give back a number that the store's databases can hold. Raises TooLarge: they cannot."""
    if abs(number) > MAX_INTEGER:
        raise TooLarge(f"too large: {number}")
    return number


def whole_number(text: str) -> str:
    """Take the point off a whole number that went through a table of floats.

    >>> whole_number("90.0"), whole_number("16"), whole_number("1.5")
    ('90', '16', '1.5')
    """
    match = _WHOLE_NUMBER.fullmatch(text) if "." in text else None
    return match[1] if match else text


def parse_duration(text: str) -> float | None:
    """Seconds of a duration as sacct prints it, ``[D-[HH:]]MM:SS[.mmm]``; None for "no limit".

    Raises ValueError: it is none.

    >>> parse_duration("1-02:03:04"), parse_duration("12:34.567")
    (93784.0, 754.567)
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        _check_no_limit(text)
        return None
    days, hours, minutes, seconds = map(float, match.groups(default="0"))
    return possible_duration(days * 86400 + hours * 3600 + minutes * 60 + seconds)


def possible_duration(seconds: float) -> float:
    """Give back a duration, seconds, that can be one. Raises TooLarge: it is longer than any."""
    if seconds > LONGEST_S:
        raise TooLarge(f"too large: {seconds:g} s")
    return seconds


def parse_time_limit(text: str) -> int | None:
    """Seconds of a time limit as ``--time`` takes it; None for "no limit".

    ``M``, ``M:S``, ``H:M:S``, ``D-H``, ``D-H:M``, ``D-H:M:S`` (``time_str2secs`` in Slurm's
    ``src/common/parse_time.c``).

    Raises ValueError: it is none.

    >>> parse_time_limit("90"), parse_time_limit("1:30"), parse_time_limit("1-12")
    (5400, 90, 129600)
    """
    match = _LIMIT.fullmatch(text.strip())
    if match is None:
        _check_no_limit(text)
        return None
    days, hours, minutes, seconds, *plain = match.groups(default="0")
    if match[1] is not None:
        return int(days) * 86400 + int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    first, second, third = (int(part) for part in plain)
    if match[7] is not None:
        return first * 3600 + second * 60 + third
    return first * 60 + second


def parse_size(text: str) -> int | None:
    """Bytes of a size such as ``56.06M``; None for an empty text, and for one beyond 63 bits.

    Such sizes are Slurm's "not set" times a unit: sacct 22.05 shows the memory request of jobs
    that never got nodes as ``18446744073709551616.00M``.

    Without a letter it is bytes.  A memory request's ``n`` or ``c`` (per node, per CPU; releases
    before 21.08) is ignored: see `parse_memory_request`.

    Raises ValueError: it is none.

    >>> parse_size("2000Mn"), parse_size("0.5K"), parse_size("")
    (2097152000, 512, None)
    """
    text = text.strip()
    if not text:
        return None
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"not a size: {text!r}")
    power: int = 1024 ** _POWERS.index(match[2].upper())
    size = float(match[1]) * power
    return None if isinf(size) else _in_63_bits(round(size))


def parse_memory_request(text: str) -> tuple[int, str] | None:
    """Bytes that a job asked for, and of what: ``n`` each node, ``c`` each CPU, else all of it.

    None where it is 0: with ``--mem=0``, or where memory is not counted, a job may have all that
    its nodes have, and sacct's JSON says nothing.

    Raises ValueError: it is no size.

    >>> parse_memory_request("4Gc"), parse_memory_request("1K"), parse_memory_request("0")
    ((4294967296, 'c'), (1024, ''), None)
    """
    size = parse_size(text)
    if not size:
        return None
    of = text.strip()[-1].lower()
    return size, of if of in "nc" else ""


def memory_in_all(request: tuple[int, str] | None, nodes: int, cpus: int) -> int | None:
    """Bytes of a memory request on all nodes; None where there is none, or beyond 63 bits.

    >>> memory_in_all((4 * 2**30, "c"), nodes=2, cpus=8) == 32 * 2**30
    True
    """
    if request is None:
        return None
    size, of = request
    return _in_63_bits(size * {"n": nodes, "c": cpus}.get(of, 1))


def _in_63_bits(size: int) -> int | None:
    return size if size < 2**63 else None


def parse_tres(text: str) -> dict[str, str]:
    """Trackable resources by name.

    >>> parse_tres("cpu=2,mem=4000M,gres/gpu:a100=1")
    {'cpu': '2', 'mem': '4000M', 'gres/gpu:a100': '1'}
    """
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name: value for name, _, value in pairs}


class JobId(NamedTuple):
    """A job id taken apart; ``tasks`` are those of an array that has not been split yet."""

    job: int
    task: int | None = None
    tasks: str = ""
    het: int | None = None
    step: str = ""


def parse_job_id(text: str) -> JobId:
    """Take apart ``6``, ``6_3``, ``6_[0-3%2]``, ``7+1``, ``7.batch``, ``6_3.0``, ``7+0.0``.

    Raises ValueError: it is no job id.

    >>> parse_job_id("6_3.batch")
    JobId(job=6, task=3, tasks='', het=None, step='batch')
    """
    job, _, task = text.partition("_")
    if job.isdecimal() and task.isdecimal():  # most are
        return JobId(storable(int(job)), storable(int(task)))
    match = _JOB_ID.fullmatch(text)
    if match is None:
        raise ValueError(f"not a job id: {text!r}")
    job, task, tasks, het, step = match.groups()
    return JobId(
        storable(int(job)),
        None if task is None else storable(int(task)),
        tasks or "",
        None if het is None else storable(int(het)),
        step or "",
    )


@lru_cache(maxsize=4096)
def parse_epoch(text: str, zone: tzinfo | None = None) -> int | None:
    """Seconds since the epoch of a time in sacct's output; None for ``Unknown`` and ``None``.

    Takes what ``SLURM_TIME_FORMAT=%s`` gives, ISO 8601 with or without an offset, and what other
    tools make of both: seconds with a point, milli-, micro- and nanoseconds.

    zone: time zone of texts without an offset; None: the local one.
    Raises ValueError: it is no time.

    >>> parse_epoch("1714557600"), parse_epoch("1714557600.0"), parse_epoch("1714557600000")
    (1714557600, 1714557600, 1714557600)
    """
    if _DAY.fullmatch(text) is None and (number := _EPOCH.fullmatch(text)):
        return _in_seconds(int(number[1]))
    if text.lower() in NOTHING:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        wanted = "write 2024-05-31T12:00:00, or seconds since 1970"
        raise ValueError(f"not a time: {text[:40]!r}; {wanted}") from error
    if moment.tzinfo is None and zone is not None:
        moment = moment.replace(tzinfo=zone)
    return int(moment.timestamp())


def _in_seconds(number: int) -> int:
    """Seconds of a time that may count parts of them: no time beyond the life of clusters."""
    if number > LAST_S:
        for part in _PARTS_OF_SECONDS:
            if FIRST_S <= number // part <= LAST_S:
                return number // part
    return number


def in_life(epoch_s: int) -> int:
    """Give back a time that a cluster may have seen. Raises ValueError: none has.

    >>> in_life(1714557600)
    1714557600
    """
    if epoch_s > LAST_S:
        raise TooLarge(f"too large for a time: {epoch_s}")
    if epoch_s < FIRST_S:
        raise ValueError(f"no cluster is so old: {epoch_s} s since 1970")
    return epoch_s


def _check_no_limit(text: str) -> None:
    word = text.strip().lower()
    if word not in _NO_LIMIT and word not in NOTHING:
        raise ValueError(f"not a duration: {text!r}")
