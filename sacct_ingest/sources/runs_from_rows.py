"""Records of sacct to runs: steps join their job, which takes from them what it lacks itself.

`column_plan` reads the values, a column at a time, and `row_checks` holds them against each other.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, repeat
from math import ceil
from operator import attrgetter
from typing import Any, Final

from sacct_ingest.errors import NimoError
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import OddValue, StepRun
from sacct_ingest.runs.usage import SERVANTS
from sacct_ingest.sources.column_plan import DEFAULTS, ColumnPlan, Columns, Unknown, plans
from sacct_ingest.sources.columns import canonical_name
from sacct_ingest.sources.number_columns import NumberColumn
from sacct_ingest.sources.row_checks import (
    check_cpu_times,
    check_limits,
    check_sums,
    check_times,
    fill_elapsed,
)
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.text import slurm_text
from sacct_ingest.text.admin_comment import Measured

_Record = list[str]
#: A record, and the number of its line (or of its job, in JSON).
Row = tuple[int, _Record]
_Job = tuple[Row, list[Row]]  # the steps' records second
#: Jobs read at a time, a column at a time.  Twice as fast as 500, with which the texts and what is
#: made of them are in the processor's cache no more.
_BLOCK = 100
_TASK_SHIFT = 32  # bits of a job id
_DISK = (
    ("AveDiskRead", "_disk_read_mean", "disk_read_bytes"),
    ("AveDiskWrite", "_disk_write_mean", "disk_write_bytes"),
)
_JOB_IDS: Final = NumberColumn(int, 0, slurm_text.MAX_INTEGER)
_ID_FIELDS = ("job_id", "array_job_id", "array_task_id", "het_job_id", "het_offset")
_OF_JOBSTATS = ("mem_bytes", "gpu_percent", "gpu_mem_bytes")
_OVER_STEPS: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "disk_read_bytes": sum,
    "disk_write_bytes": sum,
    "gpu_percent": max,
    "gpu_mem_bytes": max,
}


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
    prefix = ""
    steps = list[Row]()
    for row in rows:
        name = row[1][id_at]
        if "." not in name:
            if job is not None:
                yield job, steps
            # The header again: files that were joined, or sacct's own in each.
            job = row if row[1] != header else None
            steps = []
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
        self._cluster = cluster
        self._delimiter = delimiter
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


def _steps(columns: Columns, unknown: list[Unknown]) -> list[StepRun]:
    ids = columns.pop("_id")
    columns["step"] = [name.partition(".")[2] for name in ids]
    for column, mean_name, total_name in _DISK:
        if (means := columns.pop(mean_name, None)) is not None:
            totals = columns.get(total_name) or repeat(None)
            # Fields that sacct prints for steps only.
            tasks = columns.get("tasks") or repeat(None)
            columns[total_name] = list(map(_total, totals, means, tasks))
            check_sums(columns, total_name, column, unknown)
    fill_elapsed(columns, len(ids))
    check_times(columns)
    check_cpu_times(columns, unknown)
    return _structs(StepRun, columns)


def _total(total: int | None, mean: int | None, tasks: int | None) -> int | None:
    return mean * (tasks or 1) if total is None and mean is not None else total


def _runs(
    columns: Columns, unknown: list[Unknown], owned: list[tuple[StepRun, ...]], *, cluster: str
) -> list[JobRun]:
    clusters = columns.get("cluster") or [""] * len(owned)
    if "" in clusters:
        if not cluster:
            raise ValueError("no cluster; say it with -M")
        columns["cluster"] = [name or cluster for name in clusters]
    if None in columns["submit_s"]:
        raise ValueError("Submit: no submit time")
    _fill_ids(columns)
    fill_elapsed(columns, len(owned))
    check_times(columns)
    check_limits(columns, unknown)
    check_cpu_times(columns, unknown)
    if "_req_mem" in columns:
        requested = columns.pop("_req_mem")
        sizes = (columns.get("nodes") or repeat(1), columns.get("cpus") or repeat(1))
        columns["req_mem_bytes"] = list(map(slurm_text.memory_in_all, requested, *sizes))
    _fill_from_steps(columns, owned)
    check_sums(columns, "disk_read_bytes", "TRESUsageInTot", unknown)
    check_sums(columns, "disk_write_bytes", "TRESUsageOutTot", unknown)
    measured = columns.pop("_measured", ())
    if any(measured):
        _fill_from_jobstats(columns, measured)
    columns["steps"] = owned
    return _structs(JobRun, columns)


def _structs(kind: type[Any], columns: Columns) -> list[Any]:
    """Make records of columns; fields without a column keep the record's defaults."""
    return list(map(kind, *(columns.get(name) or repeat(it) for name, it in DEFAULTS[kind])))


def _fill_ids(columns: Columns) -> None:
    """Fill fields from JobID; without JobIDRaw the id too, for array tasks above all real ids."""
    names = columns.pop("_id")
    raw_ids = columns.pop("_raw_id", None) or [""] * len(names)
    numbers = _JOB_IDS.read(raw_ids)
    if numbers is None:
        ids = list(map(_ids_of, names, raw_ids))
    elif "".join(names).isdecimal():
        columns["job_id"] = numbers
        return
    else:
        ids = [
            (number, None, None, None, None) if name.isdecimal() else _ids_of(name, raw_id)
            for name, raw_id, number in zip(names, raw_ids, numbers, strict=True)
        ]
    for field, values in zip(_ID_FIELDS, zip(*ids, strict=True), strict=True):
        columns[field] = values


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


def _fill_from_jobstats(columns: Columns, measured: Sequence[Measured | None]) -> None:
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


def _fill_from_steps(columns: Columns, owned: Sequence[tuple[StepRun, ...]]) -> None:
    """Fill in what only steps say.

    Memory and the use of GPUs are the largest of any step; disk bytes are the sum (what srun relays
    of its tasks' output counts there too).
    """
    tasks = columns.get("tasks") or repeat(None)
    memory = columns.get("mem_bytes") or repeat(None)
    nodes = columns.get("nodes") or repeat(1)
    used = map(_tasks_and_memory, owned, tasks, nodes, memory)
    columns["tasks"], columns["mem_bytes"] = zip(*used, strict=True)
    for field, combined in _OVER_STEPS.items():
        values = list(map(attrgetter(field), chain.from_iterable(owned)))
        columns[field] = [None] * len(owned)
        if values.count(None) < len(values):
            rest = iter(values)
            own = ([one for one in islice(rest, len(steps)) if one is not None] for steps in owned)
            columns[field] = [combined(some) if some else None for some in own]


def _tasks_and_memory(
    steps: tuple[StepRun, ...], tasks: int | None, nodes: int | None, memory: int | None
) -> tuple[int | None, int | None]:
    """Give tasks, and memory of each.

    Tasks are those of the largest step that is not the batch script.  The script is there beside
    the tasks on its node, each of which bears a part of its memory.
    """
    script = largest = 0
    for step in steps:
        used = step.mem_bytes
        if step.step in SERVANTS:
            if used is not None and used > script:
                script = used
            continue
        if used is not None and used > largest:
            largest = used
        if step.tasks is not None and step.tasks > (tasks or -1):
            tasks = step.tasks
    part = script
    if script and largest:
        part = ceil(script / max(ceil((tasks or 0) / max(nodes or 0, 1)), 1))
    return tasks, max(memory or 0, largest + part) or memory
