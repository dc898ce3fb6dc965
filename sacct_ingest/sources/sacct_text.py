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
from sacct_ingest.sources.rejoin import MOST_REJOINED, Rejoin, rejoiner

#: Lines split at a time; one that is no whole record has only these looked at one by one.
_BLOCK = 256
#: Characters and lines of a record; what is longer has lost its end.
_MAX_RECORD = 2**20
_MAX_LINES = 2000


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
    header = _with_job_id(list(fields) or header_line.split(delimiter))
    _check(header, cluster)
    records = split_records(source, len(header), delimiter, tally, rejoiner(header, delimiter))
    return fold(records, header, tally, cluster=cluster, delimiter=delimiter)


def split_records(
    lines: Iterable[str],
    width: int,
    delimiter: str,
    tally: Tally,
    rejoin: Rejoin = lambda _: None,
) -> Iterator[list[str]]:
    """Split lines into records of ``width`` values.

    Parameters
    ----------
    rejoin
        Puts the values of a record together of which there are too many; None where it cannot.

    Raises
    ------
    FormatError
        The text ends in the middle of a record.
    """
    lines = iter(lines)
    joiner = _Joiner(width, delimiter, tally, rejoin)
    while block := list(islice(lines, _BLOCK)):
        records = [line.rstrip("\n").split(delimiter) for line in block]
        if not joiner.begun and set(map(len, records)) == {width}:
            yield from records
        else:
            yield from joiner.join(block, records)
    joiner.end()


class _Joiner:
    """Puts together the records that go over several lines; ``begun`` is one that goes on."""

    def __init__(self, width: int, delimiter: str, tally: Tally, rejoin: Rejoin) -> None:
        self._width, self._delimiter = width, delimiter
        self._tally, self._rejoin = tally, rejoin
        self.begun: list[str] = []
        self._count = self._size = 0  # fields and characters of what has begun

    def join(self, lines: Sequence[str], split: Sequence[list[str]]) -> Iterator[list[str]]:
        """Give the records that end in these lines."""
        for line, values in zip(lines, split, strict=True):
            if len(values) == self._width and not self.begun:
                yield values
                continue
            if self.begun and len(values) >= self._width:
                self._refuse()
            if self.begun or line.strip():
                self._add(line, len(values))
                record = self._whole()
                if record is not None:
                    self.begun = []
                    yield record
                elif self._is_lost():
                    self._refuse()

    def end(self) -> None:
        """Say what becomes of a record that goes on at the end."""
        if self.begun and self._count <= self._width:
            start = self.begun[0][:80]
            raise FormatError(f"the text ends in the middle of a record: {start!r}")
        if self.begun:
            self._refuse()

    def _add(self, line: str, fields: int) -> None:
        if self.begun:
            self._count, self._size = self._count + fields - 1, self._size + len(line)
        else:
            self._count, self._size = fields, len(line)
        self.begun.append(line)

    def _whole(self) -> list[str] | None:
        """Give the record that has begun; None where there is more of it, or nobody can tell."""
        if self._count < self._width:
            return None
        values = "".join(self.begun).rstrip("\n").split(self._delimiter)
        return values if len(values) == self._width else self._rejoin(values)

    def _is_lost(self) -> bool:
        """Whether no further line can make a record of what has begun."""
        spare = MOST_REJOINED if len(self.begun) > 1 else 0
        too_many = self._count > self._width + spare
        return too_many or len(self.begun) > _MAX_LINES or self._size > _MAX_RECORD

    def _refuse(self) -> None:
        reason = "too few fields"
        if self._count >= self._width:
            reason = (
                f"{self._count} fields instead of {self._width}: the delimiter stands in a text, "
                "nobody can tell in which; choose another with 'sacct -P --delimiter'"
            )
        self._tally.refuse(reason, "".join(self.begun))
        self.begun = []


def _with_job_id(header: list[str]) -> list[str]:
    """Let JobIDRaw stand for JobID where that is not there: only arrays are not told then."""
    known = [known_name(name) for name in header]
    if "JobID" in known or "JobIDRaw" not in known:
        return header
    header[known.index("JobIDRaw")] = "JobID"
    return header


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
