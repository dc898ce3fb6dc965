"""The short copy of a decision that goes into a job's admin_comment.

``NIMO1:3f9a0c12b7de:n=4,req=1-8,t=312,lo=290,hi=340,v=reliable,m=enforce,r=cheapest``: the id
under which the store has all of it, then times in whole seconds; a limit that was
set follows in minutes (``,tl=20,tm=15``), one to plan with beside the job's own (``,sl=25-1440``),
memory in MiB (``,mm=5300``).  Other tools write into the same field (jobstats: ``JS1:…``), so ours
is one word among others, separated by spaces.
"""

import re

import msgspec

_NOTE = re.compile(
    r"(?:^|\s)NIMO1:(?P<decision_id>[0-9a-f]{12}):n=(?P<nodes>\d+),req=(?P<low>\d+)-(?P<high>\d+),"
    r"t=(?P<time_s>\d+),lo=(?P<low_s>\d+),hi=(?P<high_s>\d+),"
    r"v=(?P<verdict>[a-z]+),m=(?P<mode>[a-z]+),r=(?P<reason>[a-z_]+)"
    r"(?:,tl=(?P<limit_min>\d+))?(?:,tm=(?P<least_min>\d+))?"
    r"(?:,sl=(?P<soft_min>\d+)-(?P<own_min>\d+))?(?:,mm=(?P<mem_mib>\d+))?(?=\s|$)"
)


_DECISION_ID = re.compile(r"(?:^|\s)NIMO1:([0-9a-f]{12}):")


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What an admin_comment says about a decision."""

    decision_id: str  #: 12 hexadecimal digits
    nodes: int
    low: int  #: fewest nodes asked for
    high: int
    time_s: int  #: predicted run time
    low_s: int
    high_s: int
    verdict: str
    mode: str
    reason: str
    limit_min: int | None = None  #: time limit that was set, minutes
    least_min: int | None = None  #: and ``--time-min``
    soft_min: int | None = None  #: limit that Slurm plans with, minutes ...
    own_min: int | None = None  #: ... beside the one that the job is held to
    mem_mib: int | None = None  #: memory of each node that was set, MiB


def build(note: Note) -> str:
    """Text of a note.

    >>> build(Note(decision_id="3f9a0c12b7de", nodes=4, low=1, high=8, time_s=312, low_s=290,
    ...            high_s=340, verdict="reliable", mode="enforce", reason="cheapest"))
    'NIMO1:3f9a0c12b7de:n=4,req=1-8,t=312,lo=290,hi=340,v=reliable,m=enforce,r=cheapest'
    """
    limit = "" if note.limit_min is None else f",tl={note.limit_min}"
    least = "" if note.least_min is None else f",tm={note.least_min}"
    soft = "" if note.soft_min is None else f",sl={note.soft_min}-{note.own_min}"
    memory = "" if note.mem_mib is None else f",mm={note.mem_mib}"
    return (
        f"NIMO1:{note.decision_id}:n={note.nodes},req={note.low}-{note.high},"
        f"t={note.time_s},lo={note.low_s},hi={note.high_s},"
        f"v={note.verdict},m={note.mode},r={note.reason}{limit}{least}{soft}{memory}"
    )


def parse(admin_comment: str) -> Note | None:
    """Find the last note in a job's admin_comment: a requeued job may have been decided twice."""
    notes = list(_NOTE.finditer(admin_comment))
    try:
        return msgspec.convert(notes[-1].groupdict(), Note, strict=False) if notes else None
    except msgspec.ValidationError:  # a number beyond 64 bits is none of ours
        return None


def decision_id_in(admin_comment: str) -> str:
    """Id of the newest decision noted in an admin_comment; empty where there is none.

    >>> decision_id_in("JS1:H4sIA NIMO1:3f9a0c12b7de:n=4,m=enforce")
    '3f9a0c12b7de'
    """
    if "NIMO1:" not in admin_comment:
        return ""
    ids: list[str] = _DECISION_ID.findall(admin_comment)
    return ids[-1] if ids else ""
