"""What the texts of a submission say, as it is stored beside a run, and the attributes of a job.

Texts are read by `sacct_ingest.runs.reading`, once, when their run is stored; nobody behind the
store reads them again.
"""

from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

COMMAND, ARGUMENT = "command", "argument "
TIME_LIMIT, MEMORY, ACCOUNT = "time limit", "memory", "account"
WORK_DIR, SCRIPT, SIZE = "working directory", "script", "size"
NAME, SAMPLE, WORKFLOW = "name", "sample", "workflow"
ARRAY_INDEX = "array index"
_MIB: Final = 2**20
#: Version of what is made of a row: `Submission`, the keys of its identity, and which rows are one
#: job.  Whoever changes one of these adds one; stores then follow by themselves.
RULES: Final = 6


class JobKind(StrEnum):
    """Whether the length of a job is a property of its work."""

    WORK = "work"  #: it is
    PILOT = "pilot"  #: it takes whatever work there is, until it is stopped
    SESSION = "session"  #: it lasts as long as its user stays
    UNTIL_LIMIT = "until limit"  #: it saves its state, and goes on in the next job


class Said(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the texts of a job say of its problem: its command, name, comment and ``--export``."""

    arguments: dict[str, str] = {}  #: command, variables and arguments; of an engine's job none
    size: str = ""  #: of the problem, as its tag has it
    name: str = ""  #: where something in it is volatile
    sample: str = ""  #: of a workflow engine's job
    workflow: str = ""
    attempt: int = 1
    numbers: dict[str, float] = {}  #: those of these that may be sizes of the problem


class Submission(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a user's command line, comment, name and folder say."""

    said: Said = Said()
    command: str = ""  #: script and arguments, without what is volatile
    label: str = ""  #: the job's name, without what is volatile
    program: str = ""  #: ``sbatch``, ``salloc`` or ``srun``; empty: there is no command line
    #: of the command line, by long name; those that take no value have an empty one
    options: dict[str, str] = {}
    nodes: tuple[int, int] | None = None  #: the range of counts that was asked for
    study: str = ""  #: scaling study of one problem that it was for
    sizes: str = ""  #: what its tag offers sizes of: ``gpus``, ``tasks`` or ``cpus``
    off: bool = False  #: its tag asks to be left alone
    het: bool = False  #: the command line has several components
    exports: bool = False  #: it gives values to variables
    kind: JobKind = JobKind.WORK  #: as far as texts show it
    folder: str = ""  #: working directory, without what is volatile

    @property
    def tasks(self) -> int | None:
        """Tasks that the command line names; None: it names none."""
        number = self.options.get("ntasks", "")
        return int(number) if number.isdecimal() else None

    @property
    def numbered(self) -> bool:
        """Whether it says numbers besides its arguments."""
        return self.exports or bool(self.said.size)


#: Of a run of which nothing is known.
UNKNOWN: Final = Submission()

_decode = msgspec.json.Decoder(Submission).decode


@lru_cache(maxsize=4096)
def decode(text: str) -> Submission:
    """Read the text of a stored submission."""
    return _decode(text)


def named(
    said: Said,
    *,
    account: str,
    limit_s: float | None,
    mem_node_bytes: float | None,
    folder: str,
    script: str,
    array: str,
) -> dict[str, str]:
    """Give the attributes of a job whose texts were read already; parameters as of `attributes`.

    folder: its working directory, without what is volatile.
    """
    again = said.attempt > 1  # may ask for more of the same
    values = {
        TIME_LIMIT: f"{limit_s:.0f}" if limit_s and not again else "",
        MEMORY: f"{mem_node_bytes / _MIB:.0f}" if mem_node_bytes and not again else "",
        ACCOUNT: account,
        WORK_DIR: folder,
        SCRIPT: script,
        SIZE: said.size,
        ARRAY_INDEX: array if array.isdecimal() else "",
        SAMPLE: "" if array else said.sample,  # an engine names the first task's
        WORKFLOW: said.workflow,
        NAME: said.name,
    }
    return said.arguments | {name: value for name, value in values.items() if value}
