"""Records of sacct to runs: steps join their job, which takes from them what it lacks itself."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sacct_ingest.columns import known_name, plans
from sacct_ingest.records import JobRun, StepRun
from sacct_ingest.slurm_text import JobId, parse_job_id, parse_memory_request
from sacct_ingest.sources.base import Tally

_Record = list[str]
_TASK_SHIFT = 32  # bits of a job id


def fold(
    records: Iterable[_Record],
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
    id_at = [known_name(name) for name in header].index("JobID")
    job: _Record | None = None
    prefix, steps = "", list[_Record]()
    for record in records:
        tally.rows += 1
        name = record[id_at]
        if "." not in name:
            if job is not None and (run := reader.run(job, steps)):
                yield run
            # The header again: files that were joined, or sacct's own in each.
            job, steps = (record if record != list(header) else None), []
            prefix = f"{name}."
        elif job is not None and name.startswith(prefix):
            steps.append(record)
        else:
            reader.refuse("step without its job", record)
    if job is not None and (run := reader.run(job, steps)):
        yield run


class _Reader:
    """The table of columns bound to one header."""

    def __init__(
        self, header: Sequence[str], tally: Tally, *, cluster: str, delimiter: str
    ) -> None:
        self._job, self._step = plans(header)
        self._defaults = {"cluster": cluster} if cluster else {}
        self._tally, self._delimiter = tally, delimiter

    def run(self, job: _Record, steps: list[_Record]) -> JobRun | None:
        """Make one run; None where its row cannot be read."""
        folded = tuple(step for record in steps if (step := self._read_step(record)))
        try:
            return _run(self._defaults | self._job.read(job), folded)
        except (ValueError, TypeError) as error:
            self.refuse(f"{self._job.culprit(job)}: {error}", job)
            return None

    def refuse(self, reason: str, record: _Record) -> None:
        """Keep a row that cannot be read."""
        self._tally.refuse(reason, self._delimiter.join(record))

    def _read_step(self, record: _Record) -> StepRun | None:
        try:
            return _step(self._step.read(record))
        except (ValueError, TypeError) as error:
            self.refuse(f"{self._step.culprit(record)}: {error}", record)
            return None


def _step(fields: dict[str, Any]) -> StepRun:
    for mean_name, total_name in _DISK:
        mean = fields.pop(mean_name, None)
        if mean is not None and fields.get(total_name) is None:
            fields[total_name] = mean * (fields.get("tasks") or 1)
    if "elapsed_s" not in fields:
        fields["elapsed_s"] = _between(fields)
    fields["step"] = fields.pop("_id").partition(".")[2]
    return StepRun(**fields)


_DISK = (("_disk_read_mean", "disk_read_bytes"), ("_disk_write_mean", "disk_write_bytes"))


def _run(fields: dict[str, Any], steps: tuple[StepRun, ...]) -> JobRun:
    requested = fields.pop("_req_mem", "")
    name, raw_id = fields.pop("_id"), fields.pop("_raw_id", "")
    if raw_id:
        fields["job_id"] = int(raw_id)
    if not (raw_id and name.isdecimal()):
        _take_from_id(fields, parse_job_id(name))
    if fields["submit_s"] is None:
        raise ValueError("no submit time")
    if "elapsed_s" not in fields:
        fields["elapsed_s"] = _between(fields)
    if requested:
        fields["req_mem_bytes"] = parse_memory_request(
            requested, nodes=fields.get("nodes", 1), cpus=fields.get("cpus", 1)
        )
    if steps:
        _take_from_steps(fields, steps)
    return JobRun(**fields, steps=steps)


#: Steps that are not the application.
_SERVANTS = frozenset({"batch", "extern", "interactive"})


def _take_from_id(fields: dict[str, Any], job_id: JobId) -> None:
    """Fill what JobID says; without JobIDRaw the id too, for array tasks above all real ids."""
    if job_id.task is not None or job_id.tasks:
        fields["array_job_id"], fields["array_task_id"] = job_id.job, job_id.task
    if job_id.het is not None:
        fields["het_job_id"], fields["het_offset"] = job_id.job, job_id.het
    if "job_id" not in fields:
        task = 0 if job_id.task is None else job_id.task + 1
        fields["job_id"] = (task << _TASK_SHIFT) + job_id.job + (job_id.het or 0)


def _take_from_steps(fields: dict[str, Any], steps: tuple[StepRun, ...]) -> None:
    """Fill what sacct says of steps only.

    Tasks are those of the largest step that is not the batch script; memory is the largest of any
    step; disk bytes are the sum (what srun relays of its tasks' output counts there too).
    """
    tasks, memory, read, written = fields.get("tasks"), fields.get("mem_bytes"), None, None
    for step in steps:
        if step.tasks is not None and step.step not in _SERVANTS:
            tasks = max(tasks or 0, step.tasks)
        if step.mem_bytes is not None:
            memory = max(memory or 0, step.mem_bytes)
        if step.disk_read_bytes is not None:
            read = (read or 0) + step.disk_read_bytes
        if step.disk_write_bytes is not None:
            written = (written or 0) + step.disk_write_bytes
    fields |= {
        "tasks": tasks,
        "mem_bytes": memory,
        "disk_read_bytes": read,
        "disk_write_bytes": written,
    }


def _between(fields: dict[str, Any]) -> float:
    start, end = fields.get("start_s"), fields.get("end_s")
    return float(end - start) if start is not None and end is not None else 0.0
