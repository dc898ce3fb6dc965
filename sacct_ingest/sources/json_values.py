"""Values in Slurm's JSON, in any of their spellings, as the texts that sacct prints.

For data_parser 0.0.38 to 0.0.45: a number may stand alone or as ``{"set", "infinite", "number"}``,
and keys may be missing, null or "".
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

Json = Mapping[str, Any]

_NO_VALUES: Final = frozenset({0xFFFFFFFE, 2**64 - 2})
_LEAST_SPECIAL: Final = 0xFFFFFFFE  #: numbers below stand for themselves
_INFINITE: Final = frozenset({0xFFFFFFFF, 2**64 - 1})


def plain(value: Any) -> str:  # noqa: PLR0911 - a table of types
    """Text of a scalar in any of its spellings; empty where it is not set.

    Raises
    ------
    ValueError
        It is no scalar.

    Examples
    --------
    >>> plain({"set": True, "infinite": False, "number": 5}), plain(4294967294), plain(None)
    ('5', '', '')
    """
    # By type, the most frequent first: this is called thirty times for each row.
    kind = type(value)
    if kind is str:
        return value if value.isascii() else well_formed(value)
    if kind is int and 0 <= value < _LEAST_SPECIAL:
        return str(value)
    if value is None or kind is bool:
        return ""
    if kind is int or kind is float:
        return _number(value)
    if kind is dict and "number" in value:
        if value.get("infinite"):
            return "UNLIMITED"
        return plain(value["number"]) if value.get("set", True) else ""
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


def _number(value: float) -> str:
    if value in _INFINITE:
        return "UNLIMITED"
    # Below zero: "not set" of a signed counter, such as the energy's -2.
    return "" if value in _NO_VALUES or value < 0 else str(value)


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


def column_at(*keys: str) -> Callable[[Json], str]:
    """Read what stands behind one to three keys."""
    reader: Callable[..., str] = (value_of, value_within, _value_deep_within)[len(keys) - 1]
    return partial(reader, *keys)


# One function for each number of keys, which asks for forgiveness: half of the time that reading
# JSON takes is spent here.
def value_of(key: str, record: Any) -> str:
    """Read what stands behind a key; empty where nothing does."""
    try:
        value = record[key]
    except (KeyError, TypeError, IndexError):
        return ""
    return value if type(value) is str and value.isascii() else plain(value)


def value_within(first: str, second: str, record: Any) -> str:
    """Read what stands behind two keys; empty where nothing does."""
    try:
        value = record[first][second]
    except (KeyError, TypeError, IndexError):
        return ""
    return value if type(value) is str and value.isascii() else plain(value)


def _value_deep_within(first: str, second: str, third: str, record: Any) -> str:
    try:
        value = record[first][second][third]
    except (KeyError, TypeError, IndexError):
        return ""
    return value if type(value) is str and value.isascii() else plain(value)


def moment_at(*keys: str) -> Callable[[Json], str]:
    """Point in time; 0 means none."""
    at = column_at(*keys)

    def read(record: Json) -> str:
        value = at(record)
        return "" if value == "0" else value

    return read


def tres(listed: Any, kind: str, name: str = "") -> str:
    """Count of one trackable resource out of a list of them.

    >>> tres([{"type": "fs", "name": "disk", "id": 6, "count": 51184}], "fs", "disk")
    '51184'
    """
    for one in listed if type(listed) is list else ():
        if type(one) is dict and one.get("type") == kind and plain(one.get("name")) == name:
            return plain(one.get("count"))
    return ""


def tres_at(*keys: str) -> Callable[[Json], str]:
    """Resources as in sacct's TRESUsageInTot."""

    def read(step: Json) -> str:
        listed = reach(step, "tres", *keys)
        pairs = (_tres_pair(one) for one in (listed if type(listed) is list else ()))
        return ",".join(filter(None, pairs))

    return read


def _tres_pair(one: Any) -> str:
    """``fs/disk=51184``; empty for a resource without a count."""
    count = value_of("count", one)
    if not count:
        return ""
    return "/".join(filter(None, (value_of("type", one), value_of("name", one)))) + f"={count}"


def cpu_microseconds(record: Any, name: str) -> int | None:
    """CPU time of a record; None where it has none."""
    moment = reach(record, "time", name)
    whole, rest = value_of("seconds", moment), value_of("microseconds", moment)
    return int(whole) * 10**6 + int(rest or 0) if whole else None


def cpu_seconds(name: str) -> Callable[[Json], str]:
    """CPU time in seconds, to the millisecond that sacct's text shows too."""

    def read(record: Json) -> str:
        cpu_us = cpu_microseconds(record, name)
        return "" if cpu_us is None else f"{cpu_us // 10**6}.{cpu_us // 1000 % 1000:03}"

    return read
