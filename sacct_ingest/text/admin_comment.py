"""The short copy of a decision that goes into a job's admin_comment.

``NIMO1:3f9a0c12b7de:n=4,req=1-8,t=312,lo=290,hi=340,v=reliable,m=enforce,r=cheapest``: the id
under which the store has all of it, then times in whole seconds; a limit that was
set follows in minutes (``,tl=20,tm=15``), one to plan with beside the job's own (``,sl=25-1440``),
memory in MiB (``,mm=5300``), the count that the job would have had and its run time there
(``,a=8-205``), and what is counted where it is not nodes (``,u=cpus``).  Of a job that was given
one count of its range follow when it was planned to start, the latest start that its guard allows,
and when it got its range back (``,p=1795256400,l=1795257300,o=1795256520``, seconds since the
epoch).  Other tools write into the same field (jobstats: ``JS1:…``), so ours is one word among
others, separated by spaces.
"""

import base64
import re
import zlib
from typing import Annotated

import msgspec

_NOTE = re.compile(
    r"(?:^|\s)NIMO1:(?P<decision_id>[0-9a-f]{12}):n=(?P<nodes>\d+),req=(?P<low>\d+)-(?P<high>\d+),"
    r"t=(?P<time_s>\d+),lo=(?P<low_s>\d+),hi=(?P<high_s>\d+),"
    r"v=(?P<verdict>[a-z]+),m=(?P<mode>[a-z]+),r=(?P<reason>[a-z_]+)"
    r"(?:,tl=(?P<limit_min>\d+))?(?:,tm=(?P<least_min>\d+))?"
    r"(?:,sl=(?P<soft_min>\d+)-(?P<own_min>\d+))?(?:,mm=(?P<mem_mib>\d+))?"
    r"(?:,pl=(?P<place>[\w.:=&-]{1,200}))?"
    r"(?:,a=(?P<asked>\d+)-(?P<asked_s>\d+))?(?:,u=(?P<unit>cpus|gpus))?"
    r"(?:,p=(?P<planned_s>\d+))?(?:,l=(?P<latest_s>\d+))?(?:,o=(?P<opened_s>\d+))?(?=\s|$)"
)


_DECISION_ID = re.compile(r"(?:^|\s)NIMO1:([0-9a-f]{12}):")
_PAYLOAD = re.compile(r"(?:^|\s)JS1:(H4sI[A-Za-z0-9+/]+={0,2})(?=\s|$)")
_GZIP = 16 + zlib.MAX_WBITS
#: Ten thousand nodes have less; no more is unpacked.
_MOST_BYTES = 16 << 20


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
    place: str | None = None  #: partition or features that are tried first
    asked: int | None = None  #: count that the job would have had; older notes do not say
    asked_s: int | None = None  #: predicted run time there
    unit: str | None = None  #: of all counts; None: nodes
    #: when it was planned to start on its one count; None: it has no range to get back
    planned_s: int | None = None
    latest_s: int | None = None  #: latest start that its guard allows, by Slurm's plan
    opened_s: int | None = None  #: when it got its own range back


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
    place = "" if note.place is None else f",pl={note.place}"
    asked = "" if note.asked is None else f",a={note.asked}-{note.asked_s}"
    unit = "" if note.unit is None else f",u={note.unit}"
    moments = (("p", note.planned_s), ("l", note.latest_s), ("o", note.opened_s))
    starts = "".join(f",{name}={time_s}" for name, time_s in moments if time_s is not None)
    return (
        f"NIMO1:{note.decision_id}:n={note.nodes},req={note.low}-{note.high},"
        f"t={note.time_s},lo={note.low_s},hi={note.high_s},"
        f"v={note.verdict},m={note.mode},r={note.reason}{limit}{least}{soft}{memory}{place}{asked}{unit}"
        f"{starts}"
    )


def parse(admin_comment: str) -> Note | None:
    """Find the last note in a job's admin_comment: a requeued job may have been decided twice."""
    notes = list(_NOTE.finditer(admin_comment))
    try:
        return msgspec.convert(notes[-1].groupdict(), Note, strict=False) if notes else None
    except msgspec.ValidationError:  # a number beyond 64 bits is none of ours
        return None


def with_note(admin_comment: str, note: Note) -> str:
    """Put a note in the place of the last one in an admin_comment; other words stay.

    >>> text = "JS1:x NIMO1:3f9a0c12b7de:n=4,req=1-8,t=9,lo=8,hi=9,v=reliable,m=enforce,r=cheapest"
    >>> with_note(text, msgspec.structs.replace(parse(text), opened_s=7))[-14:]
    'r=cheapest,o=7'
    """
    notes = list(_NOTE.finditer(admin_comment))
    if not notes:
        return f"{admin_comment} {build(note)}".strip()
    begin, end = notes[-1].span()
    begin += len(notes[-1][0]) - len(notes[-1][0].lstrip())
    return f"{admin_comment[:begin]}{build(note)}{admin_comment[end:]}"


def decision_id_in(admin_comment: str) -> str:
    """Id of the newest decision noted in an admin_comment; empty where there is none.

    >>> decision_id_in("JS1:H4sIA NIMO1:3f9a0c12b7de:n=4,m=enforce")
    '3f9a0c12b7de'
    """
    if "NIMO1:" not in admin_comment:
        return ""
    ids: list[str] = _DECISION_ID.findall(admin_comment)
    return ids[-1] if ids else ""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Use of memory and GPUs; None where it was not measured on all nodes and GPUs."""

    node_mem_bytes: int | None = None  #: most on any node, all processes and shared memory
    gpu_percent: float | None = None  #: mean over the run, summed over GPUs; 100: of one GPU
    gpu_mem_bytes: int | None = None  #: most of each GPU, summed over GPUs


_Amount = Annotated[float, msgspec.Meta(ge=0, lt=2**48)]


class _MeasuredNode(msgspec.Struct):
    used_memory: _Amount | None = None
    gpu_utilization: dict[str, _Amount] = {}
    gpu_used_memory: dict[str, _Amount] = {}


class _MeasuredJob(msgspec.Struct):
    nodes: dict[str, _MeasuredNode]
    gpus: int = 0


def measured_in(admin_comment: str) -> Measured | None:
    """Read the last payload in an admin_comment; None where there is none that can be read."""
    if "JS1:" not in admin_comment:
        return None
    payloads = _PAYLOAD.findall(admin_comment)
    try:
        packed = base64.b64decode(payloads[-1], validate=True)
        text = zlib.decompressobj(_GZIP).decompress(packed, _MOST_BYTES)
        job = msgspec.json.decode(text, type=_MeasuredJob)
    except (IndexError, ValueError, zlib.error, msgspec.MsgspecError):
        return None
    nodes = list(job.nodes.values())
    memory = [node.used_memory for node in nodes if node.used_memory is not None]
    gpu_memory = _total([node.gpu_used_memory for node in nodes], job.gpus)
    return Measured(
        node_mem_bytes=round(max(memory)) if memory and len(memory) == len(nodes) else None,
        gpu_percent=_total([node.gpu_utilization for node in nodes], job.gpus),
        gpu_mem_bytes=None if gpu_memory is None else round(gpu_memory),
    )


def _total(by_node: list[dict[str, float]], gpus: int) -> float | None:
    values = [value for by_gpu in by_node for value in by_gpu.values()]
    return sum(values) if values and len(values) >= gpus else None
