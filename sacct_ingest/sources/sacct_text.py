"""The text of ``sacct -P``: a header, then one record a job and one a step of it.

Job names and comments may hold newlines (and delimiters): a record ends where it has as many
fields as the header.

Tables that other tools made of it (pandas, R, a spreadsheet) quote such values.  A table whose
header is quoted, or that has commas, semicolons or tabs between its fields, is read by the rules of
CSV (RFC 4180) wherever a line holds a quote; a line that breaks these rules is read as sacct's.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Final

from sacct_ingest.errors import FormatError
from sacct_ingest.job_run import JobRun
from sacct_ingest.sources.columns import REQUIRED, canonical_name, names
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.runs_from_rows import Row, runs_from_rows

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
#: Lines split at a time; one that is no whole record has only these looked at one by one.
_BLOCK = 32
_BEHIND_WORD = re.compile(r"([A-Za-z0-9]+)([^A-Za-z0-9]+)(?=[A-Za-z])")
#: Characters and lines of a record; what is longer has lost its end.
_MAX_RECORD = 2**20
_MAX_LINES = 2000
#: Lines of a quoted value; a quote that is open for longer is one of a job's own text.
_MOST_QUOTED_LINES = 50
_WINDOWS_END = re.compile(r"\r\n\Z")
_FIX = (
    "write the file with 'sacct -P -a -D --noconvert -o ALL', or say with -o and --delimiter what "
    "stands in it"
)
#: Delimiters of the tables that other tools write; sacct's own is another.
_OF_TABLES: Final = frozenset({",", ";", "\t"})


def rejoiner(header: Sequence[str], delimiter: str) -> Rejoin:
    """Make what puts a record's values together; it gives None unless there is one way to do so."""
    columns = tuple(canonical_name(name) for name in header)
    return partial(_rejoin, columns, delimiter)


def _rejoin(columns: Sequence[str], delimiter: str, pieces: Sequence[str]) -> list[str] | None:
    spare = len(pieces) - len(columns)
    if not 0 < spare <= MOST_REJOINED:
        return None
    ends = _ends(columns, delimiter, pieces)
    values = list[str]()
    at = 0
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


def read_text(
    lines: Iterable[str],
    tally: Tally,
    *,
    cluster: str = "",
    delimiter: str = "",
    fields: Sequence[str] = (),
    word: str = "",
) -> Iterator[JobRun]:
    r"""Read runs with their steps, in the order of the text.

    lines: lines with their ends, split at ``\n`` only.
    tally: counts the rows and takes those that cannot be read.
    cluster: cluster of the runs where the text has no column for it.
    delimiter: what stands between the fields; empty: detected from the header.
    fields: names of the columns where the text has no header.
    word: what sacct writes behind each time, and no user knows: a record begins where it stands.
    Raises FormatError: the header is missing or lacks a column, or the text ends in the middle of a
        record.
    """
    source = _unix(iter(lines))
    if fields:
        above = 0
        header_line = ""
        header = list(fields)
        source, header = _with_last_delimiter(source, header, delimiter)
    else:
        above, header_line = _first_line(source)
        delimiter = delimiter or _delimiter(header_line)
        header = quoted_values(header_line, delimiter) or header_line.split(delimiter)
    header = _with_job_id(header)
    _check(header, cluster, header_line)
    quoted = not word and (delimiter in _OF_TABLES or '"' in header_line)
    rejoin = rejoiner(header, delimiter)
    rows = split_records(
        source, len(header), delimiter, tally, rejoin, above=above, word=word, quoted=quoted
    )
    return runs_from_rows(rows, header, tally, cluster=cluster, delimiter=delimiter)


def quoted_values(text: str, delimiter: str) -> list[str] | None:
    """Split a record by the rules of CSV; None where it has no quotes, or breaks the rules.

    >>> quoted_values('1,"a,b",2', ","), quoted_values('1,"a', ",")
    (['1', 'a,b', '2'], None)
    """
    if '"' not in text or len(delimiter) != 1:
        return None
    lines = io.StringIO(text.rstrip("\n"), newline="\n")
    try:
        records = list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    return records[0] if len(records) == 1 else None


def _with_last_delimiter(
    lines: Iterator[str], header: list[str], delimiter: str
) -> tuple[Iterator[str], list[str]]:
    """Add a column where each line of a text without a header ends with a delimiter.

    ``sacct --parsable`` writes one behind the last field.
    """
    first = next(lines, "")
    whole = chain([first], lines) if first else iter(())
    ends = first.rstrip("\n").endswith(delimiter)
    more = ends and first.count(delimiter) == len(header)
    return whole, [*header, ""] if more else header


def split_records(  # noqa: PLR0913 - each by its name
    lines: Iterable[str],
    width: int,
    delimiter: str,
    tally: Tally,
    rejoin: Rejoin = lambda _: None,
    *,
    above: int = 0,
    word: str = "",
    quoted: bool = False,
) -> Iterator[Row]:
    """Split lines into records of ``width`` values; each with the number of its first line.

    A last line without its end is refused: what is missing of its last value does not show.

    rejoin: puts the values of a record together of which there are too many; None where it cannot.
    above: lines that have been read before.
    word: as in :func:`read_text`.
    quoted: whether values may stand between quotes.
    Raises FormatError: the text ends in the middle of a record.
    """
    lines = iter(lines)
    joiner = _Joiner(width, delimiter, tally, rejoin, quoted=quoted)
    number = above + 1
    cut = ""
    while block := list(islice(lines, _BLOCK)):
        if not block[-1].endswith("\n"):
            cut = block.pop()
        begins = [word in line for line in block] if word else [None] * len(block)
        block = [line.replace(word, "") for line in block] if word else block
        records = [line.rstrip("\n").split(delimiter) for line in block]
        whole = not joiner.begun and False not in begins and set(map(len, records)) <= {width}
        if whole and not (quoted and '"' in "".join(block)):
            yield from enumerate(records, number)
        else:
            yield from joiner.join(number, block, records, begins)
        number += len(block)
    for first, values in joiner.join(number, [cut], [cut.split(delimiter)], [None]):
        tally.rows += 1
        tally.refuse("the text ends inside this line", delimiter.join(values), first)
    yield from joiner.last()
    joiner.end()


class _Joiner:
    """Puts together the records that go over several lines; ``begun`` is one that goes on."""

    def __init__(
        self, width: int, delimiter: str, tally: Tally, rejoin: Rejoin, *, quoted: bool
    ) -> None:
        self._width = width
        self._delimiter = delimiter
        self._quoted = quoted
        self._tally = tally
        self._rejoin = rejoin
        self.begun: list[str] = []
        # Fields, characters, first line of what has begun.
        self._count = self._size = self._first = 0

    def join(
        self,
        first: int,
        lines: Sequence[str],
        split: Sequence[list[str]],
        begins: Sequence[bool | None],
    ) -> Iterator[Row]:
        """Give the records that end in these lines, of which the first has that number.

        begins: whether a record begins with each line; None where that is unknown.
        """
        for number, (line, values, begin) in enumerate(
            zip(lines, split, begins, strict=True), first
        ):
            if not self.begun and (record := self._csv(line)) is not None:
                yield number, record
                continue
            # Where a quote is open the record goes on, whatever stands in it.
            closed = not self._quoted or line.count('"') % 2 == 0
            whole = closed and len(values) >= self._width
            if self.begun and (begin or (begin is None and whole)):
                yield from self._broken_off()
            if begin is False and not self.begun:
                self._tally.rows += 1
                self._tally.refuse("a job's text looks like a record", line, number)
                continue
            if len(values) == self._width and not self.begun and whole:
                yield number, values
                continue
            if self.begun or line.strip():
                self._add(number, line, len(values))
                record = self._whole()
                if record is not None:
                    self.begun = []
                    yield self._first, record
                # No further line can make a record of what is too long.
                elif (
                    self._count > self._width + (MOST_REJOINED if len(self.begun) > 1 else 0)
                    or len(self.begun) > _MAX_LINES
                    or self._size > _MAX_RECORD
                ):
                    self._refuse()

    def _broken_off(self) -> Iterator[Row]:
        """End what has begun before it is whole.

        Where only a quote is open, a user typed it, and the record is as sacct prints it.
        """
        if not self._quoted or self._count != self._width:
            self._refuse()
            return
        values = "".join(self.begun).rstrip("\n").split(self._delimiter)
        self.begun = []
        yield self._first, values

    def last(self) -> Iterator[Row]:
        """Give the last record, where only a quote of it is open."""
        if self.begun and self._quoted and self._count == self._width:
            yield from self._broken_off()

    def end(self) -> None:
        """Refuse a record that is incomplete at the end of the text."""
        if self.begun and self._count <= self._width:
            start = self.begun[0][:80]
            raise FormatError(
                f"the text ends in the middle of a record, which begins in line {self._first}: "
                f"{start!r}"
            )
        if self.begun:
            self._refuse()

    def _add(self, number: int, line: str, fields: int) -> None:
        if self.begun:
            self._count, self._size = self._count + fields - 1, self._size + len(line)
        else:
            self._count = fields
            self._size = len(line)
            self._first = number
        self.begun.append(line)

    def _csv(self, text: str) -> list[str] | None:
        """Give a record with quoted values; None where it is none, or incomplete."""
        values = quoted_values(text, self._delimiter) if self._quoted else None
        return values if values is not None and len(values) == self._width else None

    def _whole(self) -> list[str] | None:
        """Give the record that has begun; None where it is incomplete or ambiguous."""
        if self._count < self._width:
            return None
        text = "".join(self.begun)
        if (record := self._csv(text)) is not None:
            return record
        if self._quoted and text.count('"') % 2 and len(self.begun) <= _MOST_QUOTED_LINES:
            return None
        values = text.rstrip("\n").split(self._delimiter)
        return values if len(values) == self._width else self._rejoin(values)

    def _refuse(self) -> None:
        reason = "too few fields"
        if self._count >= self._width:
            reason = (
                f"{self._count} fields instead of {self._width}: a text holds the delimiter, and "
                "NIMO cannot find out which; choose another with 'sacct -P --delimiter'"
            )
        self._tally.rows += 1
        self._tally.refuse(reason, "".join(self.begun), self._first)
        self.begun = []


def _with_job_id(header: list[str]) -> list[str]:
    """Use JobIDRaw for JobID where that is missing: array tasks then look like single jobs."""
    canonical = [canonical_name(name) for name in header]
    if "JobID" in canonical or "JobIDRaw" not in canonical:
        return header
    header[canonical.index("JobIDRaw")] = "JobID"
    return header


def _unix(lines: Iterator[str]) -> Iterator[str]:
    """Give lines that end as those of Unix, where the first of them ends as those of Windows."""
    first = next(lines, "")
    whole = chain([first], lines) if first else iter(())
    return (_WINDOWS_END.sub("\n", line) for line in whole) if first.endswith("\r\n") else whole


def _first_line(lines: Iterator[str]) -> tuple[int, str]:
    """Give the first line that is not empty, and its number."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            return number, line.rstrip("\n")
    raise FormatError(f"there is nothing in it; {_FIX}")


def _check(header: Sequence[str], cluster: str, line: str) -> None:
    canonical = [canonical_name(name) for name in header]
    twice = sorted({name for name in canonical if name in names() and canonical.count(name) > 1})
    if twice:
        raise FormatError(f"column {', '.join(twice)} stands there twice; {_FIX}")
    missing = [name for name in REQUIRED if name not in canonical]
    if missing:
        where = f"in the first line {line[:60]!r}" if line else "in -o"
        raise FormatError(f"no column {', '.join(missing)} {where}; {_FIX}")
    if "Cluster" not in canonical and not cluster:
        raise FormatError("no column Cluster; say with -M which cluster this is")


def _delimiter(header: str) -> str:
    """Find what stands between two names of columns."""
    known = {name.lower() for name in names()}
    # Between quoted names the quotes are none of it.
    text = re.sub(r'"\s*$|^\s*"', "", header.replace('""', ""))
    named = (match for match in _BEHIND_WORD.finditer(text) if match[1].lower() in known)
    match = next(named, None)
    between = match[2].replace('"', "") if match is not None else ""
    if not between.strip(" "):
        raise FormatError(f"the first line does not name sacct's columns: {header[:60]!r}; {_FIX}")
    return between
