"""Slurm's JSON: ``sacct --json``, ``squeue --json`` and what slurmrestd answers to ``jobs``.

The file is read job by job: memory does not grow with it, and a job that is not JSON costs only
itself.  A serialiser writes the same between any two jobs: what stands between the first two is
looked for, and of what is before it msgspec decodes the fields that are needed.  If it is one whole
JSON object, it is the job.  Else Python's own decoder finds where the job ends, and can go on after
a mistake.
"""

import json
import re
from collections.abc import Iterator
from itertools import repeat
from typing import Any, Final, TextIO

from msgspec import Struct

from sacct_ingest.errors import FormatError
from sacct_ingest.job_run import JobRun
from sacct_ingest.sources.columns import names
from sacct_ingest.sources.json_columns import DB_JOB, DB_STEP, LIVE_JOB, RowPlan
from sacct_ingest.sources.json_records import DbJob, LiveJob, decode_like, job_of
from sacct_ingest.sources.json_values import well_formed
from sacct_ingest.sources.run_source import Tally, take_unread
from sacct_ingest.sources.runs_from_rows import Row, runs_from_rows

CHUNK: Final = 2**20  #: characters read at a time
_MAX_JOB: Final = 16 * 2**20  #: characters; what is longer has lost its end
_SHOWN: Final = 1000  #: characters of such a one that are stored
_SPACE = re.compile(r"[ \t\r\n]*")
_OBJECT = re.compile(r'\{\s*"')
#: What stands between two objects of a list, with the first key of the second.
_BETWEEN = re.compile(r'\}\s*,\s*(\{)\s*"[^"\\]*"\s*:')
#: The end of a list of jobs, recognised by what follows it.
_LIST_END = re.compile(r'\]\s*(?:\}\s*\Z|,\s*"(?:meta|errors|warnings|last_\w+)"\s*:)')
#: A mistake nearer to the end of what was read so far may be none once more is read.
_MARGIN: Final = 64

_HEADER: Final = [name for name in names() if name in {*DB_JOB, *DB_STEP, *LIVE_JOB}]
_NO_ID: Final = (
    "JobIDRaw: no job_id; if this is a table of sacct's columns, write it as CSV, not as JSON"
)
_DB_JOB, _DB_STEP, _LIVE_JOB = (RowPlan(rows, _HEADER) for rows in (DB_JOB, DB_STEP, LIVE_JOB))
_CLUSTER, _RAW_ID, _ID = map(_HEADER.index, ("Cluster", "JobIDRaw", "JobID"))


def read_json(text: TextIO, tally: Tally, *, cluster: str = "") -> Iterator[JobRun]:
    """Read runs with their steps, in the order of the file.

    text: one or more JSON documents with a list ``jobs``, such a list alone, or a job a line.
    cluster: cluster of the runs where a job does not name it.
    Raises FormatError: it is not JSON, breaks off, or Slurm noted an error in it.
    """
    ended: list[FormatError] = []
    rows = _rows(_until_error(_Scanner(text, tally).jobs(), ended), tally, cluster)
    # An error is held back until the last job is out: it has all its steps, unlike in a text.
    yield from runs_from_rows(rows, _HEADER, tally)
    if ended:
        raise ended[0]


#: A job as it was decoded, or what Python's own decoder gave; and its text.
_Found = tuple[Any, str | None]
#: Which job in the file it is, and the job.
_Numbered = tuple[int, _Found]


def _until_error(jobs: Iterator[_Numbered], ended: list[FormatError]) -> Iterator[_Numbered]:
    try:
        yield from jobs
    except FormatError as error:
        ended.append(error)


def _rows(jobs: Iterator[_Numbered], tally: Tally, cluster: str) -> Iterator[Row]:
    for number, (value, source) in jobs:
        try:
            job = job_of(value) if source is None else value
            records = list(_records(job, cluster, tally, number))
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            tally.rows += 1
            whole = value if source is None else json.loads(source, strict=False)
            text = json.dumps(whole, ensure_ascii=False, default=str)
            tally.refuse(str(error), well_formed(text), number)
            continue
        yield from zip(repeat(number), records, strict=False)


def _records(job: Any, cluster: str, tally: Tally, number: int) -> Iterator[list[str]]:
    """Give the rows that sacct would have printed of a job and its steps."""
    unread: list[str] = []
    first = (_LIVE_JOB if isinstance(job, LiveJob) else _DB_JOB).row(job, unread)
    first[_CLUSTER] = first[_CLUSTER] or cluster
    if not first[_RAW_ID] or not first[_CLUSTER]:
        raise ValueError(_NO_ID if not first[_RAW_ID] else "Cluster: no cluster; say it with -M")
    take_unread(tally, "job", unread, number)
    yield first
    for step in () if isinstance(job, LiveJob) else job.steps:
        unread = []
        row = _DB_STEP.row(step, unread)
        row[_ID] = f"{first[_ID]}.{row[_ID]}"
        take_unread(tally, "step", unread, number)
        yield row


class _Scanner:
    """Finds the jobs in a stream of JSON."""

    def __init__(self, text: TextIO, tally: Tally) -> None:
        self._text = text
        self._tally = tally
        self._decode = json.JSONDecoder(strict=False).raw_decode
        self._between: re.Match[str] | None = None
        self._buffer = ""
        self._at = 0
        self._ended = False
        self._number = 0

    def jobs(self) -> Iterator[_Numbered]:
        """Give what stands in the lists of jobs, numbered from 1 on."""
        for found in self._listed():
            self._number += 1
            yield self._number, found

    def _listed(self) -> Iterator[_Found]:
        while self._peek():
            if self._peek() == "[":
                yield from self._list()
            elif self._peek() == "{":
                yield from self._document()
            else:
                raise FormatError(f"not Slurm's JSON: {self._buffer[self._at : self._at + 40]!r}")

    def _document(self) -> Iterator[_Found]:
        """One object with ``jobs`` and ``errors``, or one job."""
        self._at += 1
        job: dict[str, Any] = {}
        listed = False
        while self._peek() != "}":
            key = self._value()
            self._take(":")
            if key == "jobs" and self._peek() == "[":
                listed = True
                yield from self._list()
            else:
                job[str(key)] = self._value()
            if self._peek() != "}":
                self._take(",")
        self._at += 1
        if listed:
            _check(job.get("errors"))
        elif "job_id" in job:
            yield job, None
        elif job:
            raise FormatError("no list 'jobs' in the JSON")

    def _list(self) -> Iterator[_Found]:
        self._at += 1
        while self._peek() != "]":
            yield from self._element()
            if self._peek() == ",":
                self._at += 1
            elif self._peek() != "]":
                yield from self._skip("no comma after it")
        self._at += 1

    def _element(self) -> Iterator[_Found]:
        """Give the job that stands here, and those that end as it does."""
        try:
            job = self._value()
        except _BrokenError as error:
            yield from self._skip(str(error))
            return
        self._between = _BETWEEN.match(self._buffer, self._at - 1)
        yield job, None
        if self._between is not None:
            kind = LiveJob if type(job) is dict and "job_state" in job else DbJob
            yield from self._alike(kind, self._between[0], self._between.start(1) - self._at + 1)

    def _alike(self, kind: type[Struct], between: str, next_at: int) -> Iterator[_Found]:
        """Give jobs up to the last that ends so in what was read, or one that is no whole object.

        kind: of the job before them.
        between: what stands between two jobs.
        next_at: where in it the second begins.
        """
        begin = self._at - 1 + next_at
        while (end := self._buffer.find(between, begin)) >= 0:
            text = self._buffer[begin : end + 1]
            try:
                job = decode_like(kind, text)
            except (ValueError, RecursionError):
                break
            self._at = end + 1
            yield job, text
            begin = end + next_at

    def _skip(self, reason: str) -> Iterator[_Found]:
        """Refuse what cannot be read, up to where the next job starts or the list ends.

        Of what is very long only the end stays in memory, where a job may have begun.
        """
        begun = ""
        while True:
            for match in _OBJECT.finditer(self._buffer, self._at + 1):
                job, end = self._job_at(match.start())
                if job is not None:
                    self._refuse(reason, match.start(), begun)
                    self._at = end
                    yield job, None
                    return
            if self._ended:
                break
            if len(self._buffer) - self._at > 2 * _MAX_JOB:
                begun = begun or self._buffer[self._at : self._at + _SHOWN]
                reason = f"a job of over {2 * _MAX_JOB:,} characters"
                self._at = len(self._buffer) - _MAX_JOB
                while not self._ended and len(self._buffer) - self._at < 2 * _MAX_JOB:
                    self._more()
            else:
                self._more()
        end_of_list = _LIST_END.search(self._buffer, self._at)
        if end_of_list is None:
            raise FormatError(self._breaks_off())
        self._refuse(reason, end_of_list.start(), begun)

    def _breaks_off(self) -> str:
        return f"breaks off in the middle of a job: {self._buffer[self._at :][:60]!r}"

    def _job_at(self, at: int) -> tuple[Any, int]:
        """Job that starts here; None where there is none, or not all of it."""
        try:
            job, end = self._decode(self._buffer, at)
        except (ValueError, RecursionError):
            return None, at
        whole = "job_id" in job and ("job_state" in job or "time" in job)
        return (job if whole else None), end

    def _refuse(self, reason: str, end: int, begun: str) -> None:
        self._tally.rows += 1
        self._number += 1
        text = begun or self._buffer[self._at : end].rstrip(", \t\r\n")
        self._tally.refuse(reason, text, self._number)
        self._at = end

    def _value(self) -> Any:
        """Decode what stands here, reading on until it is whole."""
        while True:
            self._peek()
            try:
                value, end = self._decode(self._buffer, self._at)
            except RecursionError as error:
                raise _BrokenError("nested too deeply") from error
            except json.JSONDecodeError as error:
                left = len(self._buffer) - error.pos
                margin = _MAX_JOB if error.msg.startswith("Unterminated") else _MARGIN
                # Reading on will not help.
                if self._ended or left > margin or len(self._buffer) - self._at > _MAX_JOB:
                    # All was well up to the end: no mistake, but a file that lost its tail.
                    if self._ended and not self._buffer[error.pos :].strip():
                        raise FormatError(self._breaks_off()) from error
                    raise _BrokenError(error.msg) from error
                self._more()
                continue
            # A number goes on where the text that was read so far happens to end.
            if end == len(self._buffer) and not self._ended:
                self._more()
                continue
            self._at = end
            return value

    def _take(self, sign: str) -> None:
        if self._peek() != sign:
            broken = "the text breaks off" if self._ended and not self._peek() else "not JSON"
            raise _BrokenError(f"{broken}: no {sign!r} after {self._buffer[: self._at][-40:]!r}")
        self._at += 1

    def _peek(self) -> str:
        """Give the next character that is not space; empty at the end."""
        while True:
            space = _SPACE.match(self._buffer, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if self._ended:
                return ""
            self._more()

    def _more(self) -> None:
        chunk = self._text.read(CHUNK)
        self._ended = not chunk
        self._buffer = self._buffer[self._at :] + chunk
        self._at = 0


class _BrokenError(FormatError):
    """What stands here is not JSON."""


def _check(errors: Any) -> None:
    """Raise where Slurm reports that the list is incomplete."""
    for error in errors if isinstance(errors, list) else ():
        said = error.get("description") or error.get("error") if isinstance(error, dict) else error
        raise FormatError(f"Slurm noted an error: {said}")
