"""Records of sacct to runs: steps join their job, which takes from them what it lacks itself."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice, repeat
from math import ceil
from typing import Any, Final

from msgspec import structs

from sacct_ingest.errors import NimoError
from sacct_ingest.records import JobRun, StepRun
from sacct_ingest.runs.usage import SERVANTS
from sacct_ingest.sources.columns import (
    Converter,
    best_columns,
    canonical_name,
    elapsed,
    epoch,
    text,
)
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.text import slurm_text
from sacct_ingest.text.admin_comment import Measured

#: Digits of times that are possible, whatever they are.
_SAFE_DIGITS: Final = 12
#: Values of one converter that are remembered.
MOST_CACHED: Final = 4096
#: What reads a whole column at once where it holds nothing but digits.
_NUMBERS: Final[dict[Converter, Callable[[str], float]]] = {epoch: int, elapsed: float}


class _Memo(dict[str, Any]):
    """Converted values by their text: the rows of a job and its steps repeat each other."""

    __slots__ = ("_convert",)

    def __init__(self, convert: Converter) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, value: str) -> Any:
        if len(self) >= MOST_CACHED:
            self.clear()
        converted = self[value] = self._convert(value)
        return converted

    def column(self, values: Sequence[str]) -> Sequence[Any]:
        """Convert the values of many records; texts are taken as they are."""
        if self._convert is text:
            return values
        number = _NUMBERS.get(self._convert)
        if number is None:
            return list(map(self.__getitem__, values))
        if "" not in values and "".join(values).isdecimal():
            numbers = list(map(number, values))
            slurm_text.possible_duration(max(numbers))
            return numbers
        # Times hardly repeat: remembered are the words between them, as Unknown.
        return [
            number(value) if value.isdecimal() and len(value) <= _SAFE_DIGITS else self[value]
            for value in values
        ]


@dataclass(frozen=True, slots=True)
class _Use:
    """A field, and where its value comes from."""

    field: str
    column: str
    position: int
    memo: _Memo


class ColumnPlan:
    """The table bound to one header, for one kind of row."""

    def __init__(self, uses: Sequence[_Use]) -> None:
        self._uses = tuple(uses)

    def read(self, records: Sequence[Sequence[str]]) -> dict[str, Sequence[Any]]:
        """Give the values of each field, in the order of the records.

        A column at a time: an ingest spends its time here, and so nearly all of it in C.

        Raises ValueError: a value is not what its column holds.
        """
        texts = list(zip(*records, strict=True))
        return {use.field: use.memo.column(texts[use.position]) for use in self._uses}

    def culprit(self, record: Sequence[str]) -> str:
        """Name the column that `read` fails at; empty where it does not."""
        for use in self._uses:
            try:
                use.memo.column([record[use.position]])
            except (ValueError, OverflowError):
                return use.column
        return ""


def plans(header: Sequence[str]) -> tuple[ColumnPlan, ColumnPlan]:
    """Bind the table to a header, for the rows of jobs and for those of steps."""
    memos: dict[Converter, _Memo] = {}
    return _plan(header, "job", memos), _plan(header, "step", memos)


def _plan(header: Sequence[str], kind: str, memos: dict[Converter, _Memo]) -> ColumnPlan:
    position = {canonical_name(name): i for i, name in reversed(list(enumerate(header)))}
    return ColumnPlan(
        [
            _Use(
                field,
                column.name,
                position[column.name],
                memos.setdefault(column.convert, _Memo(column.convert)),
            )
            for field, column in best_columns(position, kind).items()
        ]
    )


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
) -> Iterator[JobRun]:
    """Make runs with their steps.

    A row that cannot be read goes to the tally; so do the steps of a job that could not.
    """
    reader = _Reader(header, tally, cluster=cluster, delimiter=delimiter)
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
            reader.refuse("step without its job", row)
        reader.tally.rows += 1
    if job is not None:
        yield job, steps


class _Reader:
    """The table of columns bound to one header."""

    def __init__(
        self, header: Sequence[str], tally: Tally, *, cluster: str, delimiter: str
    ) -> None:
        self._job, self._step = plans(header)
        self._cluster, self._delimiter = cluster, delimiter
        self.tally = tally

    def runs(self, jobs: list[_Job]) -> Iterator[JobRun]:
        """Make the runs of some jobs, but for those whose rows cannot be read."""
        rows = [step for _, steps in jobs for step in steps]
        made = self._made(_steps, self._step, rows)
        rest = iter(made)
        owned = [tuple(filter(None, islice(rest, len(steps)))) for _, steps in jobs]
        refused = self.tally.refused
        make = partial(_runs, cluster=self._cluster)
        runs = self._made(make, self._job, [job for job, _ in jobs], owned)
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
        self, make: Callable[..., list[Any]], plan: ColumnPlan, rows: list[Row], *more: list[Any]
    ) -> list[Any]:
        """Make something of each record: of all at once, or where that fails of each half."""
        if not rows:
            return []
        try:
            return make(plan.read([record for _, record in rows]), *more)
        except (ValueError, TypeError, OverflowError) as error:
            if len(rows) == 1:
                column = plan.culprit(rows[0][1])
                self.refuse(f"{column}: {error}" if column else str(error), rows[0])
                return [None]
        half = len(rows) // 2
        parts = (slice(half), slice(half, None))
        first, second = (
            self._made(make, plan, rows[part], *(each[part] for each in more)) for part in parts
        )
        return first + second


#: Values by field, those of a field in the order of the records.
_Columns = dict[str, Sequence[Any]]


def _steps(columns: _Columns) -> list[StepRun]:
    ids = columns.pop("_id")
    columns["step"] = [name.partition(".")[2] for name in ids]
    for mean_name, total_name in _DISK:
        if (means := columns.pop(mean_name, None)) is not None:
            totals = columns.get(total_name) or repeat(None)
            # Fields that sacct prints for steps only.
            tasks = columns.get("tasks") or repeat(None)
            columns[total_name] = list(map(_total, totals, means, tasks))
    _fill_elapsed(columns, len(ids))
    _correct_ends(columns)
    return _structs(StepRun, columns)


_DISK = (("_disk_read_mean", "disk_read_bytes"), ("_disk_write_mean", "disk_write_bytes"))


def _total(total: int | None, mean: int | None, tasks: int | None) -> int | None:
    return slurm_text.storable(mean * (tasks or 1)) if total is None and mean is not None else total


def _runs(columns: _Columns, owned: list[tuple[StepRun, ...]], *, cluster: str) -> list[JobRun]:
    clusters = columns.get("cluster") or [""] * len(owned)
    if "" in clusters:
        if not cluster:
            raise ValueError("no cluster; say it with -M")
        columns["cluster"] = [name or cluster for name in clusters]
    if None in columns["submit_s"]:
        raise ValueError("no submit time")
    _fill_ids(columns)
    _fill_elapsed(columns, len(owned))
    _correct_ends(columns)
    if "_req_mem" in columns:
        requested = columns.pop("_req_mem")
        sizes = (columns.get("nodes") or repeat(1), columns.get("cpus") or repeat(1))
        columns["req_mem_bytes"] = list(map(_memory_request, requested, *sizes))
    tasks = columns.get("tasks") or repeat(None)
    memory = columns.get("mem_bytes") or repeat(None)
    nodes = columns.get("nodes") or repeat(1)
    used = zip(*map(_used, owned, tasks, nodes, memory), strict=True)
    for field, values in zip(_USED_FIELDS, used, strict=True):
        columns[field] = values
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


@lru_cache(maxsize=4096)
def _memory_request(text: str, nodes: int, cpus: int) -> int | None:
    try:
        return slurm_text.parse_memory_request(text, nodes=nodes, cpus=cpus)
    except ValueError as error:
        raise ValueError(f"ReqMem: {error}") from error


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
        return slurm_text.storable(int(job_id))
    except ValueError as error:
        raise ValueError(f"not a job id: {job_id[:40]!r}") from error


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
    read = written = None
    script = largest = 0
    for step in steps:
        if step.tasks is not None and step.step not in SERVANTS:
            tasks = max(tasks or 0, step.tasks)
        if step.mem_bytes is not None and step.step in SERVANTS:
            script = max(script, step.mem_bytes)
        elif step.mem_bytes is not None:
            largest = max(largest, step.mem_bytes)
        if step.disk_read_bytes is not None:
            read = (read or 0) + step.disk_read_bytes
        if step.disk_write_bytes is not None:
            written = (written or 0) + step.disk_write_bytes
    part = ceil(script / max(ceil((tasks or 0) / max(nodes or 0, 1)), 1)) if largest else script
    return (
        tasks,
        max(memory or 0, largest + part) or memory,
        None if read is None else slurm_text.storable(read),
        None if written is None else slurm_text.storable(written),
        max((one.gpu_percent for one in steps if one.gpu_percent is not None), default=None),
        max((one.gpu_mem_bytes for one in steps if one.gpu_mem_bytes is not None), default=None),
    )


def _fill_elapsed(columns: _Columns, count: int) -> None:
    if "elapsed_s" not in columns:
        starts, ends = (columns.get(name) or [None] * count for name in ("start_s", "end_s"))
        columns["elapsed_s"] = list(map(_between, starts, ends))


def _correct_ends(columns: _Columns) -> None:
    """Move ends of the hour that local time has twice in autumn behind the start."""
    if {"start_s", "end_s"} <= columns.keys():
        rows = zip(columns["start_s"], columns["end_s"], columns["elapsed_s"], strict=True)
        columns["end_s"] = [
            start + round(elapsed)
            if start and end and start > end and abs(end + 3600 - start - elapsed) <= 1
            else end
            for start, end, elapsed in rows
        ]


def _between(start: int | None, end: int | None) -> float:
    # Not below zero where a clock was set back.
    return float(max(end - start, 0)) if start is not None and end is not None else 0.0
