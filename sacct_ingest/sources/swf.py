"""The Standard Workload Format, version 2.2, of the Parallel Workloads Archive.

Chapin et al., Benchmarks and Standards for the Evaluation of Parallel Job Schedulers, JSSPP 1999;
https://www.cs.huji.ac.il/labs/parallel/workload/swf.html.  A line becomes a row of sacct's columns.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from sacct_ingest.errors import FormatError
from sacct_ingest.job_run import JobRun
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.runs_from_rows import Row, runs_from_rows
from sacct_ingest.text.slurm_text import FIRST_S, LAST_S

_FIELDS: Final = 18
_NOTE = re.compile(r"\w+")
_RECORD = re.compile(rb"\s*-?\d+(?:[ \t]+-?\d+(?:\.\d+)?){10,}\s*$")
_NAMED = re.compile(r"(\d+)\s+(\S+)")
#: Field 11; 2 to 4 are parts of a job that was checkpointed, -1 is what models and some logs give.
_STATES: Final = {
    "0": "FAILED",
    "1": "COMPLETED",
    "2": "REQUEUED",
    "3": "COMPLETED",
    "4": "FAILED",
    "5": "CANCELLED",
    "-1": "COMPLETED",
}
#: The columns of sacct that a line fills.
COLUMNS: Final = (
    *("JobID", "Cluster", "User", "Account", "Partition", "QOS", "State", "Submit", "Start", "End"),
    *("Timelimit", "NNodes", "ReqNodes", "NCPUS", "ReqCPUS", "ReqMem", "MaxRSS", "TotalCPU"),
    *("JobName", "Elapsed"),
)  # fmt: skip
#: What the first fields of a line are: they identify and time the job.
_REQUIRED: Final = ("JobID", "Submit", "wait", "Elapsed")


def looks_like_swf(start: bytes) -> bool:
    """Whether a file that starts so is in this format."""
    first = start.split(b"\n", 1)[0]
    return first.startswith(b";") or _RECORD.match(first + b"\n") is not None


def read_swf(lines: Iterable[str], tally: Tally, *, cluster: str = "") -> Iterator[JobRun]:
    """Read the jobs of a log.

    cluster: their cluster; empty: the log's ``Computer``.
    Raises FormatError: neither ``cluster`` nor the log names the machine.
    """
    return runs_from_rows(_rows(lines, tally, cluster), COLUMNS, tally, dated=False)


def machine_nodes(lines: Iterable[str]) -> int:
    """Count the nodes of the machine by the header of a log; 0 where it does not say.

    A processor counts as a node where the header names no number of nodes, as in :func:`read_swf`.

    >>> machine_nodes(["; MaxNodes: 50", "; MaxProcs: 400", "1 0 0 9 8 -1 -1 8"])
    50
    """
    notes = _Notes("")
    for line in lines:
        if not line.startswith(";"):
            break
        notes.read(line)
    return notes.number("MaxNodes") or notes.number("MaxProcs")


@dataclass(slots=True)
class _Notes:
    """Header fields: the lines that start with a semicolon."""

    cluster: str
    values: dict[str, str] = field(default_factory=dict)
    named: dict[str, dict[str, str]] = field(default_factory=lambda: {"Queue": {}, "Partition": {}})

    def read(self, line: str) -> None:
        name, colon, value = (part.strip() for part in line[1:].partition(":"))
        if not colon or not _NOTE.fullmatch(name):
            return
        if name in self.named and (pair := _NAMED.match(value)):
            self.named[name][pair[1]] = pair[2]
        self.values.setdefault(name, value)

    @property
    def start_s(self) -> int:
        """Start of the log, seconds since the epoch; 0 where it does not say.

        Raises FormatError: what it says is no number.
        """
        said = self.values.get("UnixStartTime", "0")
        start_s = self.number("UnixStartTime")
        if not re.match(r"\d", said) or (start_s and not FIRST_S <= start_s <= LAST_S):
            raise FormatError(
                f"'; UnixStartTime: {said[:40]}' is no time in seconds since 1970; correct it"
            )
        return start_s

    def number(self, name: str) -> int:
        match = re.match(r"\d+", self.values.get(name, ""))
        return int(match[0]) if match else 0

    @property
    def machine(self) -> str:
        """Cluster of the log. Raises FormatError: neither ``cluster`` nor the log names it."""
        name = self.cluster or self.values.get("Computer", "")
        if not name:
            raise FormatError("no line '; Computer: NAME'; say with -M which cluster this is")
        return name


def _rows(lines: Iterable[str], tally: Tally, cluster: str) -> Iterator[Row]:
    notes = _Notes(cluster)
    for number, line in enumerate(lines, 1):
        if line.startswith(";"):
            notes.read(line)
        elif values := line.split():
            try:
                yield number, _record(values, notes)
            except ValueError as error:
                tally.rows += 1
                tally.refuse(str(error), line.rstrip("\n"), number)


def _record(values: list[str], notes: _Notes) -> list[str]:
    """Give one line as the row that sacct would have printed of the job.

    Raises ValueError: a number cannot be read that identifies or times the job.
    """
    if len(values) < _FIELDS:
        raise ValueError(f"{len(values)} fields instead of {_FIELDS}")
    job, submit, wait, run = map(_required, _REQUIRED, values)
    if job is None or submit is None:
        raise ValueError("no job number or submit time")
    procs, cpu_s, memory, requested_procs, limit_s, requested_memory = (
        _optional(value) for value in values[4:10]
    )
    state, user, group, program, queue, partition = values[10:16]
    if state not in _STATES:
        raise ValueError(f"State: not a status: {state!r}")
    submit_s = notes.start_s + int(submit)
    # Whose wait is not known, its start is not.
    start_s = None if run is None or wait is None else submit_s + int(wait)
    # Some logs have only one of both counts.
    cpus = procs or requested_procs or 0
    requested_cpus = requested_procs or procs
    return [
        _text(job),
        notes.machine,
        _label(user, "user"),
        _label(group, "group"),
        notes.named["Partition"].get(partition, _label(partition, "")),
        notes.named["Queue"].get(queue, _label(queue, "")),
        _STATES[state],
        _text(submit_s),
        _text(start_s),
        _text(start_s + int(run) if start_s is not None and run is not None else None),
        _text(limit_s),
        _text(_nodes(cpus, notes)),
        _text(_nodes(requested_cpus, notes)),
        _text(cpus),
        _text(requested_cpus),
        f"{text}Kc" if (text := _text(requested_memory)) else "",
        f"{text}K" if (text := _text(memory)) else "",
        _cpu_text(cpu_s, cpus),
        "" if program == "0" else _label(program, "program"),
        _text(run),
    ]


def _required(name: str, text: str) -> float | None:
    try:
        return _number(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


#: A number of a log; what is none, as it stands; None: unknown.
_Value = float | str | None


def _optional(text: str) -> _Value:
    """Read a number; what is none stays as it is, to be counted by its column."""
    try:
        return _number(text)
    except ValueError:
        return text


def _cpu_text(cpu_s: _Value, cpus: _Value) -> str:
    """Give the CPU time of a job: field 6 is the mean over its processors."""
    if isinstance(cpu_s, str) or cpu_s is None:
        return _text(cpu_s)
    return _text(cpu_s * cpus) if isinstance(cpus, float | int) else ""


def _number(text: str) -> float | None:
    """Read a number; -1 means unknown."""
    number = float(text)
    if not abs(number) < 2**63:  # or not a number at all
        raise ValueError(f"not a number that a log holds: {text!r}")
    return None if number < 0 else number


def _text(value: _Value) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def _label(number: str, word: str) -> str:
    return "" if number == "-1" else f"{word}{number}"


def _nodes(cpus: _Value, notes: _Notes) -> _Value:
    """Whole nodes of processors; one processor a node where the log does not say."""
    if isinstance(cpus, str):
        return cpus
    nodes = notes.number("MaxNodes")
    processors = notes.number("MaxProcs")
    each = max(processors // nodes, 1) if nodes else 1
    return None if cpus is None else float(-(-cpus // each))
