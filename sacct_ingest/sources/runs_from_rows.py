"""Records of sacct to runs: steps join their job, which takes from them what it lacks itself.

Values that cannot be read are of two kinds.  Without a value of `REQUIRED_VALUES` a row is set
aside; any other is unknown, and counted by its column.  What the values of a row have to be to each
other is checked too (`_check_times`, `_check_limits`): it shows units that no single value shows.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, repeat
from math import ceil
from typing import Any, Final, NamedTuple

from msgspec import structs

from sacct_ingest.errors import NimoError
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import Fault, JobState, OddValue, StepRun
from sacct_ingest.runs.usage import SERVANTS
from sacct_ingest.sources.columns import (
    REQUIRED_VALUES,
    Converter,
    best_columns,
    canonical_name,
    elapsed,
    epoch,
    relative,
    text,
)
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.text import slurm_text
from sacct_ingest.text.admin_comment import Measured

#: Digits of times that are possible, whatever they are.
_SAFE_DIGITS: Final = 12
#: Values of one converter that are remembered.
MOST_CACHED: Final = 4096


@dataclass(frozen=True, slots=True)
class _Numbers:
    """How a whole column of digits is read at once, and between which bounds."""

    convert: Callable[[str], float]
    lowest: float
    highest: float


#: Converters of columns that hold hardly anything but digits.
_NUMBERS: Final[dict[Converter, _Numbers]] = {
    epoch: _Numbers(int, slurm_text.FIRST_S, slurm_text.LAST_S),
    relative: _Numbers(int, 0, slurm_text.LONGEST_S),
    elapsed: _Numbers(float, 0, slurm_text.LONGEST_S),
}


class _Memo(dict[str, Any]):
    """Converted values by their text: the rows of a job and its steps repeat each other.

    required: whether a value that cannot be read is an error; else it is unknown.
    unknown: what stands for such a value.

    ``odd`` has the texts that could not be read, and why.
    """

    __slots__ = ("_convert", "_numbers", "_required", "_unknown", "odd")

    def __init__(self, convert: Converter, *, required: bool, unknown: Any) -> None:
        super().__init__()
        self._convert, self._required, self._unknown = convert, required, unknown
        self._numbers = _NUMBERS.get(convert)
        self.odd: dict[str, Fault] = {}

    def __missing__(self, value: str) -> Any:
        if len(self) >= MOST_CACHED:
            self.clear()
        try:
            converted = self._convert(value)
        except (ValueError, OverflowError) as error:
            if self._required:
                raise
            too_large = isinstance(error, slurm_text.TooLarge | OverflowError)
            self.odd[value] = Fault.OVERFLOWED if too_large else Fault.UNREADABLE
            converted = self._unknown
        self[value] = converted
        return converted

    def column(self, values: Sequence[str]) -> Sequence[Any]:
        """Convert the values of many records; texts are taken as they are.

        Raises ValueError: a required one cannot be read.
        """
        if self._convert is text:
            return values
        if len(self.odd) > MOST_CACHED:
            self.clear()
            self.odd.clear()
        if self._numbers is None:
            return list(map(self.__getitem__, values))
        if "" not in values and "".join(values).isdecimal():
            numbers = list(map(self._numbers.convert, values))
            if self._numbers.lowest <= min(numbers) and max(numbers) <= self._numbers.highest:
                return numbers
        # Times hardly repeat: remembered are the words between them, as Unknown.
        return [self._number(value, self._numbers) for value in values]

    def _number(self, value: str, numbers: _Numbers) -> Any:
        if value.isdecimal() and len(value) <= _SAFE_DIGITS:
            number = numbers.convert(value)
            if numbers.lowest <= number <= numbers.highest:
                return number
        return self[value]


@dataclass(frozen=True, slots=True)
class _Use:
    """A field, and where its value comes from."""

    field: str
    column: str
    position: int
    memo: _Memo


class Unknown(NamedTuple):
    """An optional value that could not be used: in which of some records, and what it is."""

    record: int
    column: str
    fault: Fault
    text: str


class ColumnPlan:
    """The table bound to one header, for one kind of row."""

    def __init__(self, uses: Sequence[_Use]) -> None:
        self._uses = tuple(uses)

    def read(
        self, records: Sequence[Sequence[str]], unknown: list[Unknown] | None = None
    ) -> dict[str, Sequence[Any]]:
        """Give the values of each field, in the order of the records.

        A column at a time: an ingest spends its time here, and so nearly all of it in C.

        unknown: takes the optional values that cannot be read.
        Raises ValueError: a required value is not what its column holds.
        """
        texts = list(zip(*records, strict=True))
        columns: dict[str, Sequence[Any]] = {}
        for use in self._uses:
            values = texts[use.position]
            columns[use.field] = use.memo.column(values)
            odd = use.memo.odd
            if odd and unknown is not None and not odd.keys().isdisjoint(values):
                unknown += [
                    Unknown(at, use.column, odd[value], value)
                    for at, value in enumerate(values)
                    if value in odd
                ]
        return columns

    def culprit(self, record: Sequence[str]) -> str:
        """Name the column that `read` fails at; empty where it does not."""
        for use in self._uses:
            try:
                use.memo.column([record[use.position]])
            except (ValueError, OverflowError):
                return use.column
        return ""


def plans(header: Sequence[str], *, dated: bool = True) -> tuple[ColumnPlan, ColumnPlan]:
    """Bind the table to a header, for the rows of jobs and for those of steps.

    dated: whether times count from 1970 on; else from a moment that is not known.
    """
    memos: dict[tuple[Converter, bool, Any], _Memo] = {}
    return _plan(header, "job", memos, dated=dated), _plan(header, "step", memos, dated=dated)


def _plan(
    header: Sequence[str],
    kind: str,
    memos: dict[tuple[Converter, bool, Any], _Memo],
    *,
    dated: bool,
) -> ColumnPlan:
    position = {canonical_name(name): i for i, name in reversed(list(enumerate(header)))}
    defaults = dict(_DEFAULTS[JobRun if kind == "job" else StepRun])
    uses = []
    for field, column in best_columns(position, kind).items():
        convert = relative if column.convert is epoch and not dated else column.convert
        required = column.name in REQUIRED_VALUES
        unknown = None if required else defaults.get(field)
        memo = memos.setdefault(
            (convert, required, unknown), _Memo(convert, required=required, unknown=unknown)
        )
        uses.append(_Use(field, column.name, position[column.name], memo))
    return ColumnPlan(uses)


_Record = list[str]
#: A record, and the number of its line (or of its job, in JSON).
Row = tuple[int, _Record]
_Job = tuple[Row, list[Row]]  # the steps' records second
#: Jobs read at a time, a column at a time.  Twice as fast as 500, with which the texts and what is
#: made of them are in the processor's cache no more.
_BLOCK = 100
_TASK_SHIFT = 32  # bits of a job id


def runs_from_rows(
    rows: Iterable[Row],
    header: Sequence[str],
    tally: Tally,
    *,
    cluster: str = "",
    delimiter: str = "|",
    dated: bool = True,
) -> Iterator[JobRun]:
    """Make runs with their steps.

    A row that cannot be read goes to the tally; so do the steps of a job that could not.

    dated: whether times count from 1970 on.
    """
    reader = _Reader(header, tally, cluster=cluster, delimiter=delimiter, dated=dated)
    for block in _blocks(_grouped(rows, list(header), reader)):
        yield from reader.runs(block)


def _blocks(jobs: Iterable[_Job]) -> Iterator[list[_Job]]:
    """Give jobs many at a time; those from before a source broke off are given, too."""
    block: list[_Job] = []
    try:
        for job in jobs:
            block.append(job)
            if len(block) == _BLOCK:
                yield block
                block = []
    except NimoError:
        yield block
        raise
    yield block


def _grouped(rows: Iterable[Row], header: _Record, reader: "_Reader") -> Iterator[_Job]:
    """Give each job's record with those of its steps, which follow it."""
    id_at = [canonical_name(name) for name in header].index("JobID")
    job: Row | None = None
    prefix, steps = "", list[Row]()
    for row in rows:
        name = row[1][id_at]
        if "." not in name:
            if job is not None:
                yield job, steps
            # The header again: files that were joined, or sacct's own in each.
            job, steps = (row if row[1] != header else None), []
            prefix = f"{name}."
            if job is None:
                continue
        elif job is not None and name.startswith(prefix):
            steps.append(row)
        else:
            reader.refuse(_lonely_step(name), row)
        reader.tally.rows += 1
    if job is not None:
        yield job, steps


def _lonely_step(name: str) -> str:
    reason = "step without its job"
    # Tables of floats make 501.0 of job 501, which is its first step.
    hint = "; if this is a job, its table was made of floats: read JobID as text (dtype=str)"
    return reason + hint if name.endswith(".0") else reason


class _Reader:
    """The table of columns bound to one header."""

    def __init__(
        self, header: Sequence[str], tally: Tally, *, cluster: str, delimiter: str, dated: bool
    ) -> None:
        self._job, self._step = plans(header, dated=dated)
        self._cluster, self._delimiter = cluster, delimiter
        self.tally = tally

    def runs(self, jobs: list[_Job]) -> Iterator[JobRun]:
        """Make the runs of some jobs, but for those whose rows cannot be read."""
        rows = [step for _, steps in jobs for step in steps]
        made = self._made("step", _steps, self._step, rows)
        rest = iter(made)
        owned = [tuple(filter(None, islice(rest, len(steps)))) for _, steps in jobs]
        refused = self.tally.refused
        make = partial(_runs, cluster=self._cluster)
        runs = self._made("job", make, self._job, [job for job, _ in jobs], owned)
        if self.tally.refused > refused:
            self._refuse_steps(jobs, runs, iter(made))
        return filter(None, runs)

    def refuse(self, reason: str, row: Row) -> None:
        """Keep a row that cannot be read."""
        number, record = row
        self.tally.refuse(reason, self._delimiter.join(record), number)

    def _refuse_steps(
        self, jobs: list[_Job], runs: list[JobRun | None], made: Iterator[StepRun | None]
    ) -> None:
        """Keep the steps of jobs that were refused, but for those that have been already."""
        for (_, steps), run in zip(jobs, runs, strict=True):
            for row, step in zip(steps, islice(made, len(steps)), strict=True):
                if run is None and step is not None:
                    self.refuse("its job could not be read", row)

    def _made(
        self,
        kind: str,
        make: Callable[..., list[Any]],
        plan: ColumnPlan,
        rows: list[Row],
        *more: list[Any],
    ) -> list[Any]:
        """Make something of each record: of all at once, or where that fails of each half."""
        if not rows:
            return []
        unknown: list[Unknown] = []
        try:
            made = make(plan.read([record for _, record in rows], unknown), unknown, *more)
        except (ValueError, TypeError, OverflowError) as error:
            if len(rows) == 1:
                column = plan.culprit(rows[0][1])
                self.refuse(f"{column}: {error}" if column else str(error), rows[0])
                return [None]
        else:
            self._count(kind, rows, unknown)
            return made
        half = len(rows) // 2
        parts = (slice(half), slice(half, None))
        first, second = (
            self._made(kind, make, plan, rows[part], *(each[part] for each in more))
            for part in parts
        )
        return first + second

    def _count(self, kind: str, rows: list[Row], unknown: list[Unknown]) -> None:
        """Count rows that were read, and the values in them that are unknown, each once."""
        self.tally.read[kind] += len(rows)
        # One column may fill several fields.
        counted = {(value.record, value.column): value for value in reversed(unknown)}
        for value in reversed(counted.values()):
            odd = OddValue(kind, value.column, value.fault)
            self.tally.take_for_unknown(odd, value.text, rows[value.record][0])


#: Values by field, those of a field in the order of the records.
_Columns = dict[str, Sequence[Any]]


def _steps(columns: _Columns, unknown: list[Unknown]) -> list[StepRun]:
    ids = columns.pop("_id")
    columns["step"] = [name.partition(".")[2] for name in ids]
    for column, mean_name, total_name in _DISK:
        if (means := columns.pop(mean_name, None)) is not None:
            totals = columns.get(total_name) or repeat(None)
            # Fields that sacct prints for steps only.
            tasks = columns.get("tasks") or repeat(None)
            columns[total_name] = list(map(_total, totals, means, tasks))
            _bound(columns, total_name, column, unknown)
    _fill_elapsed(columns, len(ids))
    _check_times(columns)
    for column, field in _CPU_TIMES:
        _check_cpu_time(columns, column, field, unknown)
    return _structs(StepRun, columns)


_DISK = (
    ("AveDiskRead", "_disk_read_mean", "disk_read_bytes"),
    ("AveDiskWrite", "_disk_write_mean", "disk_write_bytes"),
)


def _total(total: int | None, mean: int | None, tasks: int | None) -> int | None:
    return mean * (tasks or 1) if total is None and mean is not None else total


def _bound(columns: _Columns, field: str, column: str, unknown: list[Unknown]) -> None:
    """Take sums that no database holds for unknown."""
    if max(filter(None, columns[field]), default=0) <= slurm_text.MAX_INTEGER:
        return
    values = list(columns[field])
    for at, value in enumerate(values):
        if value is not None and value > slurm_text.MAX_INTEGER:
            unknown.append(Unknown(at, column, Fault.OVERFLOWED, str(value)))
            values[at] = None
    columns[field] = values


def _runs(
    columns: _Columns, unknown: list[Unknown], owned: list[tuple[StepRun, ...]], *, cluster: str
) -> list[JobRun]:
    clusters = columns.get("cluster") or [""] * len(owned)
    if "" in clusters:
        if not cluster:
            raise ValueError("no cluster; say it with -M")
        columns["cluster"] = [name or cluster for name in clusters]
    if None in columns["submit_s"]:
        raise ValueError("Submit: no submit time")
    _fill_ids(columns)
    _fill_elapsed(columns, len(owned))
    _check_times(columns)
    _check_limits(columns, unknown)
    _check_cpu_time(columns, "TotalCPU", "cpu_s", unknown)
    if "_req_mem" in columns:
        requested = columns.pop("_req_mem")
        sizes = (columns.get("nodes") or repeat(1), columns.get("cpus") or repeat(1))
        columns["req_mem_bytes"] = list(map(slurm_text.memory_in_all, requested, *sizes))
    tasks = columns.get("tasks") or repeat(None)
    memory = columns.get("mem_bytes") or repeat(None)
    nodes = columns.get("nodes") or repeat(1)
    used = zip(*map(_used, owned, tasks, nodes, memory), strict=True)
    for field, values in zip(_USED_FIELDS, used, strict=True):
        columns[field] = values
    _bound(columns, "disk_read_bytes", "TRESUsageInTot", unknown)
    _bound(columns, "disk_write_bytes", "TRESUsageOutTot", unknown)
    measured = columns.pop("_measured", ())
    if any(measured):
        _fill_from_jobstats(columns, measured)
    columns["steps"] = owned
    return _structs(JobRun, columns)


def _structs(kind: type[Any], columns: _Columns) -> list[Any]:
    """Make records of columns; fields without a column keep the record's defaults."""
    return list(map(kind, *(columns.get(name) or repeat(it) for name, it in _DEFAULTS[kind])))


_DEFAULTS = {
    kind: [(field.name, field.default) for field in structs.fields(kind)]
    for kind in (JobRun, StepRun)
}


def _fill_ids(columns: _Columns) -> None:
    """Fill fields from JobID; without JobIDRaw the id too, for array tasks above all real ids."""
    names = columns.pop("_id")
    raw_ids = columns.pop("_raw_id", None) or [""] * len(names)
    if "" not in raw_ids and "".join(names).isdecimal():
        columns["job_id"] = list(map(_number, raw_ids))
        return
    ids = list(map(_ids_of, names, raw_ids))
    for field, values in zip(_ID_FIELDS, zip(*ids, strict=True), strict=True):
        columns[field] = values


_ID_FIELDS = ("job_id", "array_job_id", "array_task_id", "het_job_id", "het_offset")


def _ids_of(name: str, raw_id: str) -> tuple[int | None, ...]:
    if raw_id and name.isdecimal():
        return _number(raw_id), None, None, None, None
    parsed = slurm_text.parse_job_id(name)
    array = parsed.job if parsed.task is not None or parsed.tasks else None
    het = parsed.job if parsed.het is not None else None
    task = 0 if parsed.task is None else parsed.task + 1
    job_id = _number(raw_id) if raw_id else (task << _TASK_SHIFT) + parsed.job + (parsed.het or 0)
    return slurm_text.storable(job_id), array, parsed.task, het, parsed.het


def _number(job_id: str) -> int:
    try:
        number = slurm_text.storable(int(job_id))
    except ValueError as error:
        raise ValueError(f"not a job id: {job_id[:40]!r}") from error
    if number < 0:
        raise ValueError(f"not a job id: {job_id[:40]!r}")
    return number


def _fill_from_jobstats(columns: _Columns, measured: Sequence[Measured | None]) -> None:
    """Take memory where it is more than Slurm sampled, and the use of GPUs where Slurm has none."""
    filled: dict[str, list[Any]] = {name: list(columns[name]) for name in _OF_JOBSTATS}
    sizes = zip(columns["tasks"], columns.get("nodes") or repeat(1), strict=False)
    for at, (one, (tasks, nodes)) in enumerate(zip(measured, sizes, strict=False)):
        if one is None:
            continue
        if one.node_mem_bytes is not None:
            share = ceil(one.node_mem_bytes / max(ceil((tasks or 0) / max(nodes, 1)), 1))
            filled["mem_bytes"][at] = max(filled["mem_bytes"][at] or 0, share)
        for name in ("gpu_percent", "gpu_mem_bytes"):
            if filled[name][at] is None:
                filled[name][at] = getattr(one, name)
    columns |= filled


_OF_JOBSTATS = ("mem_bytes", "gpu_percent", "gpu_mem_bytes")


_USED_FIELDS = (
    *("tasks", "mem_bytes", "disk_read_bytes", "disk_write_bytes"),
    *("gpu_percent", "gpu_mem_bytes"),
)


def _used(
    steps: tuple[StepRun, ...], tasks: int | None, nodes: int | None, memory: int | None
) -> tuple[float | None, ...]:
    """Sum up steps.

    Tasks are those of the largest step that is not the batch script; memory and the use of GPUs are
    the largest of any step; disk bytes are the sum (what srun relays of its tasks' output counts
    there too).  The batch script is there beside the tasks on its node, each of which bears a part.
    """
    read = written = gpu_percent = gpu_mem = None
    script = largest = 0
    for step in steps:
        servant = step.step in SERVANTS
        if step.tasks is not None and not servant:
            tasks = max(tasks or 0, step.tasks)
        if step.mem_bytes is not None:
            if servant:
                script = max(script, step.mem_bytes)
            else:
                largest = max(largest, step.mem_bytes)
        if step.disk_read_bytes is not None:
            read = (read or 0) + step.disk_read_bytes
        if step.disk_write_bytes is not None:
            written = (written or 0) + step.disk_write_bytes
        if step.gpu_percent is not None:
            gpu_percent = max(gpu_percent or 0.0, step.gpu_percent)
        if step.gpu_mem_bytes is not None:
            gpu_mem = max(gpu_mem or 0, step.gpu_mem_bytes)
    part = script
    if script and largest:
        part = ceil(script / max(ceil((tasks or 0) / max(nodes or 0, 1)), 1))
    return tasks, max(memory or 0, largest + part) or memory, read, written, gpu_percent, gpu_mem


#: States of jobs that ran: one without a run time says nothing.
_RAN: Final = frozenset({JobState.COMPLETED, JobState.TIMEOUT})


def _fill_elapsed(columns: _Columns, count: int) -> None:
    """Fill in run times that the accounting does not say, from start and end.

    Raises ValueError: a job that ran has no run time.
    """
    nothing: Sequence[None] = [None] * count
    given = columns.get("elapsed_s") or nothing
    if None not in given:
        return
    starts, ends, states = (columns.get(name) or nothing for name in ("start_s", "end_s", "state"))
    columns["elapsed_s"] = [
        _between(*times) if elapsed_s is None else elapsed_s
        for elapsed_s, *times in zip(given, starts, ends, states, strict=True)
    ]


def _between(start: int | None, end: int | None, state: JobState | None) -> float:
    if start is not None and end is not None:
        # Not below zero where a clock was set back.
        return float(max(end - start, 0))
    if state in _RAN or (start is not None and state is not None and state.ended):
        raise ValueError("Elapsed: no run time, and no Start and End that would say it")
    return 0.0


#: Seconds by which a run time may differ from end less start: both are rounded.
_ROUNDED_S: Final = 2
#: Clocks go back in autumn by so much; a text without an offset does not say in which hour it is.
_CLOCK_CHANGES_S: Final = (3600, 1800)
#: Units in which other tools count, in seconds, and run times from which on it is no coincidence.
_LARGER_UNITS: Final = (("minutes", 60), ("hours", 3600), ("days", 86400))
_NO_COINCIDENCE: Final = 10


def _check_times(columns: _Columns) -> None:
    """Check that each run ends its run time after its start, or later where it was suspended.

    Ends of the hour that local time has twice in autumn are moved behind the start.

    Raises ValueError: a run time is longer than from start to end, or in another unit.
    """
    if not {"start_s", "end_s"} <= columns.keys():
        return
    rows = zip(columns["start_s"], columns["end_s"], columns["elapsed_s"], strict=True)
    # Slurm makes the run time of both (as_mysql_jobacct_process.c), less the time suspended.
    differing = [
        (at, start, end, elapsed_s)
        for at, (start, end, elapsed_s) in enumerate(rows)
        if start and end and end - start != elapsed_s
    ]
    if differing:
        ends = list(columns["end_s"])
        for at, start, end, elapsed_s in differing:
            ends[at] = _end(start, end, elapsed_s)
        columns["end_s"] = ends


def _end(start: int, end: int, elapsed_s: float) -> int:
    """Give the end of a run whose run time is not the time from start to end."""
    span_s = end - start
    for change_s in _CLOCK_CHANGES_S:
        if abs(span_s + change_s - elapsed_s) <= 1:
            return start + round(elapsed_s)
    # A clock that was set back leaves the end before the start.
    if span_s >= 0 and elapsed_s > span_s + _ROUNDED_S:
        raise ValueError(f"Elapsed: {elapsed_s:g} s, but End is {span_s} s after Start")
    for unit, unit_s in _LARGER_UNITS:
        exact = elapsed_s >= _NO_COINCIDENCE or not elapsed_s.is_integer()
        if exact and abs(elapsed_s * unit_s - span_s) <= unit_s / 2 + 1:
            raise ValueError(f"Elapsed: {elapsed_s:g} are {unit}: End is {span_s} s after Start")
    return end


#: Seconds by which a run may outlast its limit: what sites grant (OverTimeLimit, minutes), 30 s
#: from the first signal to the last (KillWait), and slurmctld looks at limits twice a minute.
GRACE_S: Final = 600


def _check_limits(columns: _Columns, unknown: list[Unknown]) -> None:
    """Take limits that are shorter than the run for unknown: they are in another unit."""
    if "limit_s" not in columns:
        return
    rows = zip(columns["limit_s"], columns["elapsed_s"], strict=True)
    exceeded = [
        at
        for at, (limit_s, elapsed_s) in enumerate(rows)
        if limit_s is not None and elapsed_s > limit_s + GRACE_S
    ]
    if exceeded:
        limits = list(columns["limit_s"])
        for at in exceeded:
            shown = f"{limits[at]} s, and the run took {columns['elapsed_s'][at]:.0f} s"
            unknown.append(Unknown(at, "Timelimit", Fault.CONTRADICTED, shown))
            limits[at] = None
        columns["limit_s"] = limits


_CPU_TIMES: Final = (
    ("TotalCPU", "cpu_s"),
    ("UserCPU", "user_cpu_s"),
    ("SystemCPU", "system_cpu_s"),
)
#: CPUs of a node, more than any has: jobs may use more than they were given.
_MOST_CPUS: Final = 2048
_LEAST_S: Final = 60.0


def _check_cpu_time(columns: _Columns, column: str, field: str, unknown: list[Unknown]) -> None:
    """Take CPU times for unknown that no node can have: a counter of 32 bits that overflowed."""
    times = columns.get(field)
    if times is None or max(filter(None, times), default=0) <= _MOST_CPUS * _LEAST_S:
        return
    rows = zip(times, columns["elapsed_s"], columns.get("nodes") or repeat(1), strict=False)
    overflowed = [
        at
        for at, (cpu_s, elapsed_s, nodes) in enumerate(rows)
        if cpu_s and cpu_s > _MOST_CPUS * (nodes or 1) * (elapsed_s + _LEAST_S)
    ]
    if overflowed:
        columns[field] = values = list(times)
        for at in overflowed:
            unknown.append(Unknown(at, column, Fault.OVERFLOWED, f"{values[at]:.0f} s"))
            values[at] = None
