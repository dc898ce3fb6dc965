"""What Slurm's words mean: text, a number, a list or an object of JSON becomes one value.

A converter takes text, a number, a list, or the ``{"set": …, "infinite": …, "number": …}`` of JSON
since 23.02.
"""

import re
from collections.abc import Mapping
from math import inf
from typing import Any

from sacct_ingest.text.hostlist import count_indexes, expand
from sacct_ingest.text.slurm_text import parse_size, parse_time_limit

_NOTHING = frozenset({"", "(null)", "N/A", "n/a", "NONE", "None", "Unknown", "UNLIMITED", "ALL"})
_MOST_DIGITS = 9  #: of a count of devices
_NO_VAL = 0xFFFFFFFE  #: slurm.h; one more is INFINITE
_WHICH = re.compile(r"\([^()]*\)")  #: which devices, after a count
#: What Slurm adds to ``ReqNodeNotAvail`` where a reservation alone keeps a job from its nodes
#: (``node_scheduler.c``).
_RESERVED = ("Reserved for maintenance", "May be reserved for other job")


def words(value: Any) -> tuple[str, ...]:
    """Names in a list, or in text with commas."""
    if isinstance(value, str):
        value = () if value in _NOTHING else value.split(",")
    return tuple(str(word).strip() for word in value or () if str(word).strip())


def name_set(value: Any) -> frozenset[str]:
    """As :func:`words`, without order."""
    return frozenset(words(value))


def some(value: Any) -> frozenset[str] | None:
    """Names that a list is limited to; None: not limited."""
    return name_set(value) or None


def text(value: Any) -> str:
    """Text, empty for Slurm's words for nothing."""
    if type(value) is str:  # of a million words in a look at a large cluster nearly all
        return "" if value in _NOTHING else value
    return "" if value is None or str(value) in _NOTHING else str(value)


def number(value: Any) -> int | None:
    """Read a count; None where there is none or no limit.

    >>> number({"set": True, "infinite": False, "number": 3}), number("UNLIMITED"), number("4+")
    (3, None, 4)
    """
    if isinstance(value, Mapping):
        is_set = value.get("set") and not value.get("infinite")
        return number(value.get("number")) if is_set else None
    if isinstance(value, str):
        value = value.rstrip("+")
        return int(value) if value.isdecimal() else None
    return None if value is None or value >= _NO_VAL else int(value)


def count(value: Any) -> int:
    """Read a count that is zero where there is none."""
    if type(value) is str and value.isdecimal():
        return int(value)
    return number(value) or 0


def some_id(value: Any) -> int | None:
    """Read an id that is zero where there is none."""
    return number(value) or None


def moment(value: Any) -> float:
    """Read a time; ``inf`` where there is none (yet)."""
    seconds = number(value)
    return float(seconds) if seconds else inf


def flags(value: Any) -> frozenset[str]:
    """State and flags: ``idle+planned``, ``["IDLE", "PLANNED"]``, ``IDLE*+DRAIN``.

    A ``*`` after the state, which text has for nodes that do not respond, becomes the flag.
    """
    parts = value.split("+") if isinstance(value, str) else list(value or ())
    raw = {str(part).upper() for part in parts if part}
    plain = {part.rstrip("*~#!%$@^-") for part in raw}
    silent = {"NOT_RESPONDING"} if any(part.endswith("*") for part in raw) else set()
    return frozenset(plain | silent) - {""}


def state(value: Any) -> str:
    """Read the base state of a job: the first of its words."""
    first = value if isinstance(value, str) else next(iter(value or ()), "")
    return str(first).upper()


def reason(value: Any) -> str:
    """Read why a job waits: only the first word, since squeue may print a sentence.

    >>> reason("ReqNodeNotAvail, UnavailableNodes:n1"), reason("Nodes required for job are DOWN")
    ('ReqNodeNotAvail', 'Resources')
    """
    word = text(value).partition(",")[0]
    return "Resources" if word.startswith("Nodes required") else word


def is_reserved(value: Any) -> bool:
    """Whether the reason of a job says that it waits for the end of a reservation.

    >>> is_reserved("ReqNodeNotAvail, Reserved for maintenance"), is_reserved("Resources")
    (True, False)
    """
    return text(value).replace("_", " ").endswith(_RESERVED)


def seconds(value: Any) -> float | None:
    """Read a time limit as text writes it; None: none."""
    return None if value in (None, *_NOTHING) else parse_time_limit(str(value))


def minutes(value: Any) -> float | None:
    """Read a time limit as text writes it or in minutes, as seconds; None: none.

    >>> minutes("1-00:00:00"), minutes({"set": True, "infinite": False, "number": 5})
    (86400.0, 300.0)
    """
    if isinstance(value, str):
        text_s = seconds(value)
        return None if text_s is None else float(text_s)
    count = number(value)
    return None if count is None else 60.0 * count


def some_minutes(value: Any) -> float | None:
    """Read a limit as :func:`minutes` does; None also where it is zero."""
    return minutes(value) or None


def hosts(value: Any) -> tuple[str, ...]:
    """Names in a node list."""
    return expand(text(value))


def tres(value: Any) -> dict[str, float]:
    """Amounts in a TRES list; memory in MiB.

    >>> tres("cpu=2,mem=1G,node=2,gres/gpu=4")
    {'cpu': 2.0, 'mem': 1024.0, 'node': 2.0, 'gres/gpu': 4.0}
    """
    pairs = (part.partition("=") for part in words(value))
    return {name: _amount(name, amount) for name, _, amount in pairs if amount}


def _amount(name: str, amount: str) -> float:
    if name == "mem":
        size = parse_size(amount if amount[-1].isalpha() else f"{amount}M")
        return (size or 0) / 2**20
    return float(amount) if amount.replace(".", "", 1).isdecimal() else 0.0


def gres(value: Any) -> dict[str, int]:
    """Devices by name, those of all types together.

    >>> gres("gpu:a100:4(S:0-1),gpu:t4:2,shard:8,nic")
    {'gpu': 6, 'shard': 8, 'nic': 1}
    """
    counts: dict[str, int] = {}
    if isinstance(value, Mapping):
        return {str(name): _devices(n) for name, n in value.items()}
    for part in filter(None, map(device, _WHICH.sub("", text(value)).split(","))):
        counts[part[0]] = counts.get(part[0], 0) + part[1]
    return counts


def gpu_type(value: Any) -> str:
    """Type of a node's GPUs as sbatch takes it; empty: none, several, or unknown.

    >>> gpu_type("gpu:A100:4(S:0-1),nic"), gpu_type("gpu:2"), gpu_type("gpu:a100:2,gpu:t4:1")
    ('A100', '', '')
    """
    if isinstance(value, Mapping):
        by_type = value.get("gpu")
        types = {str(name) for name in by_type} if isinstance(by_type, Mapping) else set()
    else:
        parts = (part.split(":") for part in _WHICH.sub("", text(value)).split(","))
        types = {part[1] if len(part) == 3 else "" for part in parts if part[0] == "gpu"}
    return types.pop() if len(types) == 1 else ""


def device(value: str) -> tuple[str, int] | None:
    """Name and count of ``gpu``, ``gpu:2``, ``gpu=2``, ``gpu:a100``, ``gpu:a100:2``.

    >>> device("gpu:a100:2"), device("nic"), device("")
    (('gpu', 2), ('nic', 1), None)
    """
    name, *rest = value.replace("=", ":").split(":")
    amount = rest.pop() if rest and rest[-1].isdecimal() else "1"
    if not name or len(rest) > 1 or len(amount) > _MOST_DIGITS:
        return None
    return name, int(amount)


def _devices(value: Any) -> int:
    """Count of devices as PySlurm has it: by type, as an object, or plain."""
    if isinstance(value, Mapping):
        return sum(map(_devices, value.values()))
    return int(getattr(value, "count", value))


def licences(value: Any) -> dict[str, int]:
    """Licences by name: ``matlab:4,fluent@server``.

    >>> licences("matlab:4,fluent@server")
    {'matlab': 4, 'fluent@server': 1}
    """
    pairs = (word.partition(":") for word in words(value))
    return {name: int(n[:_MOST_DIGITS]) if n.isdecimal() else 1 for name, _, n in pairs}


def array_tasks(value: Any) -> int:
    """Jobs that a record stands for: ``4_[1-9%2]`` of text, ``1-9%2`` of JSON.

    >>> array_tasks("4_[1-9:2%2]"), array_tasks("1-9%2"), array_tasks("4_7")
    (5, 9, 1)
    """
    indexes = text(value).rpartition("_[")[2].rstrip("]")
    return count_indexes(indexes) if set("-,") & set(indexes) else 1


def indexes(value: Any) -> str:
    """Read the index of a task of an array, or of those that wait; without how many run at once.

    >>> indexes("1-9%2"), indexes({"set": True, "infinite": False, "number": 3}), indexes("N/A")
    ('1-9', '3', '')
    """
    if not isinstance(value, str):
        index = number(value)
        return "" if index is None else str(index)
    return text(value).partition("%")[0]


def throttle(value: Any) -> int | None:
    """Read how many tasks of an array may run at once; None: all.

    >>> throttle("1-9%2"), throttle("1-9"), throttle("7")
    (2, None, None)
    """
    return some_id(text(value).partition("%")[2])


def allocated(value: Any) -> int:
    """How many CPUs are in use: a number, or ``2/6/0/8`` for allocated, idle, other and all."""
    return number(value.partition("/")[0] if isinstance(value, str) else value) or 0


def yes(value: Any) -> bool:
    """Whether it says yes."""
    return str(value).upper() in ("YES", "TRUE", "1")


def is_up(value: Any) -> bool:
    """Whether a partition starts jobs: ``UP``."""
    return "UP" in flags(value)


def is_exclusive(value: Any) -> bool:
    """Whether a partition gives whole nodes only: ``OverSubscribe=EXCLUSIVE``, until 25.11."""
    return str(value).upper().startswith("EXCLUSIVE")


def is_alone(value: Any) -> bool:
    """Whether a job has its nodes to itself.

    ``OverSubscribe=NO`` and ``shared: none`` say so; from 26.05 on see :func:`takes_nodes`.

    >>> is_alone("NO"), is_alone(["none"]), is_alone("OK"), is_alone(["mcs"])
    (True, True, False, False)
    """
    options = words(value) if isinstance(value, (list, tuple)) else (str(value),)
    return not {"NO", "NONE"}.isdisjoint(word.upper() for word in options)


def takes_nodes(value: Any) -> bool:
    """Whether jobs have their nodes to themselves, since Slurm 26.05: ``Exclusive=NODE``.

    Jobs and partitions have such a field; ``USER`` shares nodes among a user's jobs.

    >>> takes_nodes("NODE"), takes_nodes("NO"), takes_nodes("USER")
    (True, False, False)
    """
    return str(value).upper() == "NODE"


def least(value: Any) -> int:
    """Read a smallest count, which is one at least."""
    return max(count(value), 1)
