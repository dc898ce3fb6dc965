"""The text of ``sacct -P``: a header, then one record a job and one a step of it.

Job names and comments may hold newlines (and delimiters): a record ends where it has as many
fields as the header.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from sacct_ingest.columns import REQUIRED, known_name, names
from sacct_ingest.errors import FormatError
from sacct_ingest.records import JobRun
from sacct_ingest.sources.base import Tally
from sacct_ingest.sources.fold import fold

_MAX_RECORD = 4 * 2**20  #: characters; what is longer has lost its end


def read_text(
    lines: Iterable[str],
    tally: Tally,
    *,
    cluster: str = "",
    delimiter: str = "",
    fields: Sequence[str] = (),
) -> Iterator[JobRun]:
    r"""Read runs with their steps, in the order of the text.

    Parameters
    ----------
    lines
        Lines with their ends, split at ``\n`` only.
    tally
        Counts the rows and takes those that cannot be read.
    cluster
        Cluster of the runs where the text has no column that says it.
    delimiter
        What stands between the fields; empty: found out from the header.
    fields
        Names of the columns where the text has no header.

    Raises
    ------
    FormatError
        The header is missing or lacks a column, or the text ends in the middle of a record.
    """
    source = iter(lines)
    header_line = "" if fields else next(source, "").rstrip("\r\n")
    delimiter = delimiter or _delimiter(header_line)
    header = list(fields) or header_line.split(delimiter)
    _check(header, cluster)
    records = split_records(source, len(header), delimiter, tally)
    return fold(records, header, tally, cluster=cluster, delimiter=delimiter)


def split_records(
    lines: Iterable[str], width: int, delimiter: str, tally: Tally
) -> Iterator[list[str]]:
    """Split lines into records of ``width`` values.

    Raises
    ------
    FormatError
        The text ends in the middle of a record.
    """
    begun = ""  # a record that goes on in the next line
    for line in lines:
        values = line.rstrip("\n").split(delimiter)
        if len(values) == width and not begun:
            yield values
            continue
        if len(values) >= width and begun:
            tally.refuse("too few fields", begun)
            begun = ""
        elif begun or (len(values) < width and line.strip()):
            begun += line
            values = begun.rstrip("\n").split(delimiter)
            if len(values) < width and len(begun) < _MAX_RECORD:
                continue
            line, begun = begun, ""  # noqa: PLW2901
        if len(values) == width:
            yield values
        elif line.strip():
            tally.refuse(f"{len(values)} fields instead of {width}", line)
    if begun:
        raise FormatError(f"the text ends in the middle of a record: {begun[:80]!r}")


def _check(header: Sequence[str], cluster: str) -> None:
    known = {known_name(name) for name in header}
    missing = [name for name in REQUIRED if name not in known]
    if missing:
        raise FormatError(
            f"no column {', '.join(missing)} in the first line; write the file with "
            f"'sacct -a -D -P --noconvert -o {','.join(names())}'"
        )
    if "Cluster" not in known and not cluster:
        raise FormatError("no column Cluster; say with -M which cluster this is")


def _delimiter(header: str) -> str:
    """Find what stands between two names of columns."""
    spelled = "|".join(sorted(names(), key=len, reverse=True))
    found = re.search(rf"(?:{spelled})([^A-Za-z0-9]+)[A-Za-z]", header, re.IGNORECASE)
    if found is None or not found[1].strip(" "):
        raise FormatError("the first line does not name sacct's columns; use 'sacct -P'")
    return found[1]
