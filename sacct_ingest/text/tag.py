"""Tags: users' settings for NIMO in a job's comment.

``nimo:app=wrf,problem=d02`` names the application, ``nimo:off`` asks to be left alone, ``nimo:on``
says that the node count may be chosen, ``nimo:nodes=2-8`` from which counts, and ``nimo:time=set``
that the time limit may be; with ``nimo:soft=off`` Slurm plans with it, too.  ``nimo:cpus=4-32``,
``nimo:tasks=8-64`` and ``nimo:gpus=1-8`` do so for CPUs of each task, tasks and GPUs,
``nimo:mem=auto`` that memory which runs do not need may be taken off, ``nimo:place=auto`` that the
faster of its partitions or constraints may be tried first, ``nimo:learn`` that it may
run on a count that was not tried, ``nimo:learn=off`` that not; ``nimo:size=3.2G`` says how large
the problem is, in any unit that its runs share, and ``nimo:inputs=off`` that nobody shall look at
how large its input files are.  `nimo scale` writes ``study=NAME-NUMBER`` into the
tags of its runs.  ``nimo:objective=cost`` and ``energy`` say what the count shall be the best for.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

#: How a tag begins.
TAG = "nimo:"
_TAG = re.compile(r"(?:^|[\s;|])nimo:(\S*)")
_STUDY = re.compile(r"\bnimo:off,study=(\w+)-\d")
_NODES = re.compile(r"([1-9]\d{0,6})-([1-9]\d{0,6})")
_TEXTS = ("app", "problem", "time", "soft", "mem", "place", "size", "inputs", "objective")
_RANGES = ("nodes", "cpus", "tasks", "gpus")
#: Values of each word; without one any.
_VALUES: dict[str, str | None] = {
    **dict.fromkeys(("app", "problem", "size", "study", "off", "on", "estimate")),
    **dict.fromkeys(_RANGES, _NODES.pattern),
    "time": "off|advise|set",
    "soft": "off",
    "inputs": "off",
    "mem": "auto|off",
    "place": "auto|off",
    "learn": "|on|off",
    "objective": "turnaround|cost|energy",
}
_LENGTH, _SHOWN = 200, 60
#: Characters of a tag; the rest of a longer one is not read.
LONGEST = 1024


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag; ``off`` asks to be left alone, ``on`` to be looked after."""

    app: str = ""
    problem: str = ""
    off: bool = False
    on: bool = False
    time: str = ""  #: what to do with the time limit
    soft: str = ""  #: ``off``: Slurm plans with the time limit itself
    mem: str = ""  #: and with the memory: ``auto`` or ``off``
    place: str = ""  #: whether the faster place is tried first: ``auto`` or ``off``
    learn: str = ""  #: whether it may run on a count that was not tried: ``on`` or ``off``
    size: str = ""  #: of the problem, as a number with a unit: ``3.2G``
    inputs: str = ""  #: ``off``: sizes of its input files are not looked at
    objective: str = ""  #: what its count is the best for
    nodes: tuple[int, int] | None = None  #: fewest and most nodes that it may get
    cpus: tuple[int, int] | None = None  #: CPUs of each task
    tasks: tuple[int, int] | None = None
    gpus: tuple[int, int] | None = None

    @property
    def key(self) -> str:
        """Identity key: ``APP`` or ``APP/PROBLEM``, empty without an application."""
        if not self.app:
            return ""
        key = f"{self.app}/{self.problem}" if self.problem else self.app
        return key[:_LENGTH]


#: Several parts of one request ask for its tag.
@lru_cache(maxsize=16)
def parse_tag(comment: str) -> Tag | None:
    """Tag in a comment, the last where there are several; None where there is none.

    >>> parse_tag("for the paper nimo:app=wrf,problem=d02").key
    'wrf/d02'
    >>> parse_tag("nimo:off").off
    True
    """
    if "nimo:" not in comment:
        return None
    tags = _TAG.findall(comment)
    if not tags:
        return None
    pairs = [part.partition("=") for part in tags[-1][:LONGEST].split(",")]
    values = {name: value for name, _, value in pairs}
    texts: dict[str, Any] = {name: values.get(name, "") for name in _TEXTS}
    ranges: dict[str, Any] = {name: _range(values.get(name, "")) for name in _RANGES}
    learn = values.get("learn", "") or ("on" if "learn" in values else "")
    return Tag(off="off" in values, on="on" in values, learn=learn, **texts, **ranges)


def tag_fault(comment: str) -> str:
    """Say which word of a comment's tag is not read, and what would be; empty: all are.

    >>> tag_fault("nimo:app=wrf,objective=nonsense")
    'objective=nonsense in the comment is not read: objective may be turnaround or cost or energy'
    >>> tag_fault("nimo:nodes=4"), tag_fault("nimo:on,mem=auto")
    ('nodes=4 in the comment is not read: nodes may be a range such as 2-8', '')
    """
    tags = _TAG.findall(comment) if "nimo:" in comment else []
    for part in filter(None, tags[-1][:LONGEST].split(",") if tags else ()):
        name, _, value = part.partition("=")
        allowed = _VALUES.get(name, "")
        if allowed is None or (allowed and re.fullmatch(allowed, value)):
            continue
        words = (
            "a range such as 2-8" if name in _RANGES else allowed.strip("|").replace("|", " or ")
        )
        why = f"{name} may be {words}" if allowed else "no such word"
        return f"{part[:_SHOWN]} in the comment is not read: {why}"
    return ""


def without_tag(comment: str) -> str:
    """Give a comment without the tags in it: what its user or a workflow engine says.

    >>> without_tag("rule_align_wildcards_a nimo:on")
    'rule_align_wildcards_a'
    """
    return _TAG.sub("", comment).strip() if "nimo:" in comment else comment


def study_of(*texts: str) -> str:
    """Name of the scaling study of one problem that a run was for; empty: of none.

    texts: its comment and its submit line, which has the comment where accounting keeps none.
    """
    return next((match[1] for text in texts if (match := _STUDY.search(text))), "")


def _range(text: str) -> tuple[int, int] | None:
    ends = _NODES.fullmatch(text)
    if ends is None:
        return None
    low, high = sorted(map(int, ends.groups()))
    return low, high
