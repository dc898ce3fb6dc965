"""Parameters of a URL: few names, short values, one error that says how to fix it."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from urllib.parse import urlencode

_LONGEST = 600  #: characters of a value; a key has 560


class BadQuery(Exception):  # noqa: N818 - it is the query that is bad
    """A parameter cannot be understood; the text names it and says how to fix it."""


def text(query: Mapping[str, str], name: str) -> str:
    """Give a value as it is, without blanks around it; empty where there is none."""
    value = query.get(name, "").strip()
    if len(value) > _LONGEST:
        raise BadQuery(f"{name}: at most {_LONGEST} characters")
    return value


def choice(query: Mapping[str, str], name: str, choices: Collection[str], default: str) -> str:
    """Give one of the allowed values."""
    value = text(query, name) or default
    if value not in choices:
        raise BadQuery(f"{name}: one of {', '.join(one for one in choices if one)}")
    return value


def number(query: Mapping[str, str], name: str, default: int) -> int:
    """Give a whole number from 1."""
    value = text(query, name) or str(default)
    if not (value.isascii() and value.isdecimal() and len(value) < 10 and int(value)):
        raise BadQuery(f"{name}: a whole number from 1")
    return int(value)


def day_end_s(query: Mapping[str, str], name: str) -> float | None:
    """Give the end of a day in local time, seconds since the epoch; None where there is none."""
    value = text(query, name)
    if not value:
        return None
    try:
        return (datetime.strptime(value, "%Y-%m-%d").astimezone() + timedelta(days=1)).timestamp()
    except (ValueError, OverflowError) as error:
        raise BadQuery(f"{name}: a date as 2026-11-25") from error


def link(path: str, **values: object) -> str:
    """URL with a query of the values that are not empty."""
    parameters = {name: str(value) for name, value in values.items() if value not in ("", None)}
    return f"{path}?{urlencode(parameters)}" if parameters else path
