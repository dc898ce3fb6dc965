"""Records with more fields than the header: a job's name or comment holds the delimiter itself.

The columns beside it show where it belongs: a user id is a number, a time a time.  Where only one
way fits, the text is put together again; where several fit, the record is refused.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sacct_ingest.sources.columns import canonical_name

Rejoin = Callable[[Sequence[str]], list[str] | None]

#: Columns that hold what a user typed.
_FREE: Final = frozenset(
    (
        *("JobName", "SubmitLine", "WorkDir", "Comment", "AdminComment", "SystemComment", "Extra"),
        *("WCKey", "Container", "Constraints", "StdIn", "StdOut", "StdErr"),
    )
)
_NUMBER = r"(?:\d+(?:\.\d+)?[KMGTPE]?)?"
_TIME = r"(?:\d[\dT:.+ Z-]*|Unknown|None|N/A)?"
_DURATION = r"(?:[\d:.-]+|UNLIMITED|Partition_Limit|INVALID)?"
_TRES = r"(?:[\w/:.-]+=[^,]*(?:,[\w/:.-]+=[^,]*)*)?"
_WORD = r"\S*"
#: What other columns look like; one that is not here may hold anything but the delimiter.
_SHAPES: Final = {
    name: re.compile(shape)
    for shape, names in (
        (r"\d+(?:[_+]\S*)?(?:\.\S+)?", "JobID JobIDRaw"),
        (r"[A-Z_]+(?: by \S+)?\+?", "State"),
        (r"(?:\d+:\d+)?", "ExitCode DerivedExitCode"),
        (r"(?:/(?s:.*))?", "WorkDir"),
        (_WORD, "User Group Account Cluster Partition QOS QOSREQ SLUID OriginalSLUID Flags"),
        (_TIME, "Submit Eligible Start End"),
        (_DURATION, "Elapsed Timelimit Suspended Reserved Planned TotalCPU UserCPU SystemCPU"),
        (_DURATION, "CPUTime AveCPU MinCPU TimelimitRaw"),
        (_TRES, "ReqTRES AllocTRES TRESUsageInTot TRESUsageOutTot TRESUsageInAve TRESUsageInMax"),
        (_NUMBER, "UID GID ElapsedRaw CPUTimeRAW NNodes AllocNodes ReqNodes NCPUS AllocCPUS"),
        (_NUMBER, "ReqCPUS NTasks MaxRSS AveRSS MaxVMSize AveVMSize DBIndex Priority Restarts"),
        (_NUMBER + "[nc]?", "ReqMem"),
    )
    for name in names.split()
}  # fmt: skip
#: Delimiters in one record's texts; more of them are rather a lost line end.
MOST_REJOINED: Final = 64


def rejoiner(header: Sequence[str], delimiter: str) -> Rejoin:
    """Make what puts a record's values together; it gives None unless there is one way to do so."""
    columns = tuple(canonical_name(name) for name in header)
    return partial(_rejoin, columns, delimiter)


def _rejoin(columns: Sequence[str], delimiter: str, pieces: Sequence[str]) -> list[str] | None:
    spare = len(pieces) - len(columns)
    if not 0 < spare <= MOST_REJOINED:
        return None
    ends = _ends(columns, delimiter, pieces)
    values, at = list[str](), 0
    for column in range(len(columns)):
        choice = ends.get((column, at), [])
        if len(choice) != 1:
            return None
        values.append(delimiter.join(pieces[at : choice[0]]))
        at = choice[0]
    return values


def _ends(
    columns: Sequence[str], delimiter: str, pieces: Sequence[str]
) -> dict[tuple[int, int], list[int]]:
    """Where each column may end that starts at a piece, so that all columns behind it fit too."""
    spare = len(pieces) - len(columns)
    fitting: dict[tuple[int, int], list[int]] = {(len(columns), len(pieces)): [len(pieces)]}
    for column in reversed(range(len(columns))):
        widest = spare if columns[column] in _FREE else 0
        for start in range(column, column + spare + 1):
            candidates = [
                end
                for end in range(start + 1, start + 2 + widest)
                if (column + 1, end) in fitting
                and _fits(columns[column], delimiter.join(pieces[start:end]))
            ]
            if candidates:
                fitting[column, start] = candidates
    return fitting


def _fits(column: str, value: str) -> bool:
    shape = _SHAPES.get(column)
    return shape is None or shape.fullmatch(value) is not None
