"""The text of ``sacct -P``: a header, then one record a job and one a step of it.

Job names and comments may hold newlines (and delimiters): a record ends where it has as many
fields as the header.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from sacct_ingest.columns import REQUIRED, known_name, names
from sacct_ingest.errors import FormatError
from sacct_ingest.records import JobRun
from sacct_ingest.sources.base import Tally
from sacct_ingest.sources.fold import fold

#: Lines split at a time; one that is no whole record has only these looked at one by one.
_BLOCK = 256
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
    lines = iter(lines)
    joiner = _Joiner(width, delimiter, tally)
    while block := list(islice(lines, _BLOCK)):
        records = [line.rstrip("\n").split(delimiter) for line in block]
        if not joiner.begun and set(map(len, records)) == {width}:
            yield from records
        else:
            yield from joiner.join(block, records)
    if joiner.begun:
        raise FormatError(f"the text ends in the middle of a record: {joiner.begun[:80]!r}")


class _Joiner:
    """Puts together the records that go over several lines; ``begun`` is one that goes on."""

    def __init__(self, width: int, delimiter: str, tally: Tally) -> None:
        self._width, self._delimiter, self._tally = width, delimiter, tally
        self.begun = ""

    def join(self, lines: Sequence[str], split: Sequence[list[str]]) -> Iterator[list[str]]:
        """Give the records that end in these lines."""
        width = self._width
        for line, values in zip(lines, split, strict=True):
            if len(values) == width and not self.begun:
                yield values
                continue
            if len(values) >= width and self.begun:
                self._tally.refuse("too few fields", self.begun)
                self.begun = ""
                whole, found = line, values
            elif self.begun or (len(values) < width and line.strip()):
                whole = self.begun + line
                found = whole.rstrip("\n").split(self._delimiter)
                if len(found) < width and len(whole) < _MAX_RECORD:
                    self.begun = whole
                    continue
                self.begun = ""
            else:
                whole, found = line, values
            if len(found) == width:
                yield found
            elif whole.strip():
                self._tally.refuse(f"{len(found)} fields instead of {width}", whole)


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
