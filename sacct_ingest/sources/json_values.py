"""Values in Slurm's JSON, in any of their spellings, as the text that sacct's columns have."""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

_NO_VALUES: Final = frozenset({0xFFFFFFFE, 2**64 - 2})
SPECIAL: Final = 0xFFFFFFFE  #: numbers below stand for themselves
_INFINITE: Final = frozenset({0xFFFFFFFF, 2**64 - 1})


def plain(value: Any) -> str:  # noqa: PLR0911 - a table of types
    """Text of a scalar in any of its spellings; empty where it is not set.

    Raises ValueError: it is no scalar.

    >>> plain({"set": True, "infinite": False, "number": 5}), plain(4294967294), plain(None)
    ('5', '', '')
    """
    # By type, the most frequent first: this is called twenty times for each row.
    kind = type(value)
    if kind is str:
        return value if value.isascii() else well_formed(value)
    if kind is int and 0 <= value < SPECIAL:
        return str(value)
    if kind is dict and "number" in value:
        if value.get("infinite"):
            return "UNLIMITED"
        if not value.get("set", True):
            return ""
        number = value["number"]
        usual = type(number) is int and 0 <= number < SPECIAL
        return str(number) if usual else plain(number)
    if value is None or kind is bool:
        return ""
    if kind is int or kind is float:
        if value in _INFINITE:
            return "UNLIMITED"
        # Below zero: "not set" of a signed counter, such as the energy's -2.
        return "" if value in _NO_VALUES or value < 0 else str(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    raise ValueError(f"not one value: {str(value)[:60]}")


def well_formed(text: str) -> str:
    r"""Text without halves of characters: JSON may hold them, no database does.

    >>> well_formed("a\ud800b"), well_formed("\U0001f600")
    ('a\ufffdb', '\U0001f600')
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def reach(record: Any, *keys: str) -> Any:
    """Value behind several keys; None where one of them is missing.

    >>> reach({"time": {"end": 5}}, "time", "end"), reach({"time": None}, "time", "end")
    (5, None)
    """
    for key in keys:
        if type(record) is not dict:
            return None
        record = record.get(key)
    return record


@dataclass(frozen=True, slots=True)
class ColumnAt:
    """What stands at a place in a record, such as ``time.end``; of a ``moment``, 0 means none."""

    place: str
    moment: bool = False

    def __call__(self, record: Any) -> str:
        """Read it; empty where nothing is."""
        value = plain(attrgetter(self.place)(record))
        return "" if self.moment and value == "0" else value


def tres(listed: Any, kind: str, name: str = "") -> str:
    """Count of one trackable resource out of a list of them.

    >>> tres([{"type": "fs", "name": "disk", "id": 6, "count": 51184}], "fs", "disk")
    '51184'
    """
    for one in listed if type(listed) is list else ():
        if type(one) is dict and one.get("type") == kind and (one.get("name") or "") == name:
            return plain(one.get("count"))
    return ""


def tres_text(listed: Any) -> str:
    """Resources as in sacct's TRESUsageInTot."""
    if not listed or type(listed) is not list:
        return ""
    pairs = []
    for one in listed:
        if type(one) is dict and (count := plain(one.get("count"))):
            kind = one.get("type")
            name = one.get("name")
            words = f"{plain(kind)}/{plain(name)}" if kind and name else plain(kind or name)
            pairs.append(f"{words}={count}")
    return ",".join(pairs)


def cpu_microseconds(time: Any) -> int | None:
    """Microseconds of a CPU time; None where it is not known."""
    whole = time.seconds
    rest = time.microseconds
    if type(whole) is int and type(rest) is int and 0 <= whole < SPECIAL and 0 <= rest < SPECIAL:
        return whole * 10**6 + rest
    seconds = plain(whole)
    return int(seconds) * 10**6 + int(plain(rest) or 0) if seconds else None


def seconds_text(cpu_us: int | None) -> str:
    """Seconds, to the millisecond that sacct's text shows too; empty where there are none."""
    if cpu_us is None:
        return ""
    seconds, rest_us = divmod(cpu_us, 10**6)
    return f"{seconds}.{rest_us // 1000:03}"
