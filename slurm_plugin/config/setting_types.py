"""Kinds of values that settings have: ranges of numbers, and words to choose from."""

import re
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import msgspec

from sacct_ingest.errors import ConfigError

Positive = Annotated[float, msgspec.Meta(gt=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Ratio = Annotated[float, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
Part = Annotated[float, msgspec.Meta(ge=0, le=1)]
Days = Annotated[int, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
HighShare = Annotated[float, msgspec.Meta(gt=0.5, lt=1)]
#: A shell pattern, several, or ``@FILE`` with one on each line.
Patterns = str | tuple[str, ...]
NodeRange = Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]*-[1-9][0-9]*$")]
PORT: Final = 7734
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(\d{1,5}))?")


class Mode(StrEnum):
    """What nimod may do with a job."""

    OFF = "off"  #: nothing, not even a record
    OBSERVE = "observe"  #: decide and record, change nothing
    ADVISE = "advise"  #: also send the user a message with a better count
    ENFORCE = "enforce"  #: change the job


class Bystanders(StrEnum):
    """Whom a change of node counts must not harm."""

    GROUP = "group"  #: other jobs as a group
    EACH = "each"  #: each single one, as far as arrivals of the past tell


class Explore(StrEnum):
    """Whether jobs whose user gave a range run on counts that were not tried, to learn."""

    OFF = "off"  #: only where its comment says ``nimo:learn``
    ON = "on"  #: unless its comment says ``nimo:learn=off``


class Whose(StrEnum):
    """Whose jobs say something to a user, for advice and plans alone."""

    OWN = "own"  #: the user's own
    SITE = "site"  #: those of all users, as figures without names


class Objective(StrEnum):
    """What the count that a job gets is the best for, within its guard."""

    TURNAROUND = "turnaround"  #: its turnaround and the delay that it causes to others
    COST = "cost"
    ENERGY = "energy"


class Proven(StrEnum):
    """What becomes of a job of one count whose script its user ran on two other counts or more."""

    OFF = "off"
    ADVISE = "advise"  #: a message names a better one of these counts
    ON = "on"  #: the job may get any of these counts


class OnMissed(StrEnum):
    """What becomes of a job that cannot make its deadline."""

    WARN = "warn"
    REFUSE = "refuse"


class TimeUse(StrEnum):
    """What becomes of a time limit that the prediction would shorten."""

    OFF = "off"
    ADVISE = "advise"  #: shown in advice, and at submission in advise mode
    SET = "set"  #: written to the job in enforce mode


class SoftUse(StrEnum):
    """Whether Slurm plans jobs with a shorter limit than the one that they are held to."""

    OFF = "off"
    ON = "on"


class MemoryUse(StrEnum):
    """Whether memory that runs do not need is taken off a job."""

    OFF = "off"
    TAG = "tag"  #: where its comment says ``nimo:mem=auto``
    AUTO = "auto"  #: unless its comment says ``nimo:mem=off``


class PlaceUse(StrEnum):
    """Whether the faster of the partitions or constraints that a job names is tried first."""

    OFF = "off"
    TAG = "tag"  #: where its comment says ``nimo:place=auto``
    AUTO = "auto"  #: unless its comment says ``nimo:place=off``


class Trust(StrEnum):
    """Whether an application may be switched off for what its predictions missed."""

    AUTO = "auto"  #: by its band
    ON = "on"  #: it is acted on, whatever came of it
    OFF = "off"  #: it is never acted on, only observed


class Source(StrEnum):
    """Who is asked for nodes and jobs."""

    AUTO = "auto"  #: PySlurm where it fits the running Slurm, else text
    PYSLURM = "pyslurm"
    JSON = "json"
    TEXT = "text"


class TypeColumn(StrEnum):
    """What makes nodes one type."""

    CPU_MODEL = "cpu_model"
    CPUS = "cpus"
    MEMORY = "memory"
    FEATURES = "features"


class Shown(StrEnum):
    """Whose jobs the pages of ``nimo web`` show to those who are no admins."""

    OWN = "own"  #: their own, and those of accounts that they coordinate
    SLURM = "slurm"  #: as Slurm's PrivateData has it


class Auth(StrEnum):
    """How nimod and relays prove to each other who they are."""

    MUNGE = "munge"
    TLS = "tls"


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the file: unknown keys are errors."""


class Address(NamedTuple):
    """Where nimod listens for relays."""

    host: str
    port: int = PORT

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def address(text: str) -> Address:
    """Read ``HOST[:PORT]``; an IPv6 address stands in brackets.

    Raises ConfigError: it is none.

    >>> address("ctl1"), address("[::1]:7000")
    (Address(host='ctl1', port=7734), Address(host='::1', port=7000))
    """
    match = _ADDRESS.fullmatch(text)
    port = int(match[2] or PORT) if match else 0
    if match is None or not 0 < port <= 65535:
        raise ConfigError(f"{text!r} is no address of a controller; write HOST or HOST:PORT")
    return Address(match[1].strip("[]"), port)
