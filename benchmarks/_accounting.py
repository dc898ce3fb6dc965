"""Made-up accounting of any length, with the oddities of the real one, as text and JSON."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState, StepRun
from sacct_ingest.sources.run_source import Tally
from sacct_ingest.sources.sacct_text import read_text
from slurm_plugin.demo.history import applications, make_runs
from slurm_plugin.demo.sandbox import DELIMITER, sacct_text

END_S = 1_790_000_000
DAYS = 30
SHIFT_S = DAYS * 86_400
COPY_IDS = 10**6


def write_text(path: Path, rows: int) -> int:
    """Write about so many rows as sacct prints them; gives how many runs that are."""
    runs = 0
    with path.open("w", encoding="utf-8", errors="replace") as out:
        for runs, (head, lines) in enumerate(_texts(_jobs(rows)), 1):
            out.writelines(lines if runs > 1 else [head, *lines])
    return runs


def write_json(path: Path, rows: int) -> int:
    """Write the same jobs as ``sacct --json`` does; gives how many runs that are."""
    runs = 0
    with path.open("w", encoding="utf-8", errors="replace") as out:
        out.write('{"jobs": [\n')
        for runs, run in enumerate(_jobs(rows), 1):
            out.write((",\n" if runs > 1 else "") + json.dumps(_job(run)))
        out.write('\n], "warnings": [], "errors": []}\n')
    return runs


def runs_of(rows: int) -> Iterator[JobRun]:
    """Give the same jobs as records."""
    return _jobs(rows)


def _jobs(rows: int) -> Iterator[JobRun]:
    """Repeat a month, each time later and with other ids, until there are enough rows."""
    rng = Random(1)
    made = make_runs(applications("ada"), end_s=END_S, rng=rng, days=DAYS)
    month = read_text(sacct_text(made), Tally())
    odd = [one for i, run in enumerate(month) for one in _odd(i, run)]
    left = rows
    for copy in count():
        for run in odd:
            yield moved(run, copy)
            left -= 1 + len(run.steps)
            if left <= 0:
                return


def _odd(number: int, run: JobRun) -> list[JobRun]:
    """Make one run in four one of the oddities in turn, the others as they are."""
    if number % 4:
        return [run]
    return _ODDITIES[number // 4 % len(_ODDITIES)](run)


def _named(name: str) -> Callable[[JobRun], list[JobRun]]:
    return lambda run: [replace(run, name=name)]


def _requeued(run: JobRun) -> list[JobRun]:
    first = replace(run, state=JobState.REQUEUED, steps=run.steps[:1], submit_s=run.submit_s - 60)
    return [first, run]


def _cancelled(run: JobRun) -> list[JobRun]:
    return [replace(run, state=JobState.CANCELLED, cancelled_by=str(run.uid))]


def _never_started(run: JobRun) -> list[JobRun]:
    ended = replace(run, state=JobState.CANCELLED, cancelled_by=str(run.uid), steps=())
    return [replace(ended, start_s=None, elapsed_s=0, node_list="None assigned", limit_s=None)]


def _many_steps(run: JobRun) -> list[JobRun]:
    batch, step = run.steps
    rng = Random(run.job_id)
    steps = (_varied(replace(step, step=str(i)), rng) for i in range(12))
    return [replace(run, steps=(batch, *steps))]


def _varied(step: StepRun, rng: Random) -> StepRun:
    return replace(step, cpu_s=rng.uniform(1, 1e5), mem_bytes=rng.randrange(2**20, 2**34))


def _het(run: JobRun) -> list[JobRun]:
    """Make a heterogeneous job of two components; their ids are no other job's."""
    lead = replace(run, array_job_id=None, array_task_id=None, het_job_id=run.job_id, het_offset=0)
    return [lead, replace(lead, job_id=run.job_id + COPY_IDS // 2, het_offset=1)]


def _tagged(run: JobRun) -> list[JobRun]:
    return [replace(run, comment=f"for the paper nimo:app=app{run.job_id % 50},problem=d01")]


#: Each makes one run or several of one.  A newline goes into every thirteenth odd run: 2 % of all.
_ODDITIES: Sequence[Callable[[JobRun], list[JobRun]]] = (
    _requeued,
    _cancelled,
    _never_started,
    _many_steps,
    _tagged,
    _het,
    lambda run: [run, run],
    _named("two\nlines"),
    _named('a|b;|;"quoted" \\ %s <script>alert(1)</script>'),
    _named("\u202eright to left \u0645\u0631\u062d\u0628\u0627"),
    _named("broken \ufffd bytes 😀"),
    lambda run: [replace(run, state=JobState.RUNNING, end_s=None, steps=())],
    lambda run: [replace(run, work_dir="/scratch/" + "deep/" * 40)],
)


def moved(run: JobRun, copy: int) -> JobRun:
    """Give the same run that many months later, with other ids."""
    shift = copy * SHIFT_S
    return replace(
        run,
        job_id=run.job_id + copy * COPY_IDS,
        array_job_id=run.array_job_id and run.array_job_id + copy * COPY_IDS,
        het_job_id=run.het_job_id and run.het_job_id + copy * COPY_IDS,
        submit_s=run.submit_s + shift,
        eligible_s=run.eligible_s and run.eligible_s + shift,
        start_s=run.start_s and run.start_s + shift,
        end_s=run.end_s and run.end_s + shift,
    )


def _texts(runs: Iterable[JobRun]) -> Iterator[tuple[str, list[str]]]:
    """Header and records; the name, which may hold newlines, neither begins nor ends a record."""
    for run in runs:
        head, *lines = (_name_inside(line) for line in sacct_text([run]))
        yield head, lines


def _name_inside(line: str) -> str:
    first, *fields, name = line.removesuffix("\n").split(DELIMITER)
    return DELIMITER.join([first, name, *("Unknown" if f == "None" else f for f in fields)]) + "\n"


def _job(run: JobRun) -> dict[str, Any]:
    """Job as data_parser 0.0.42 (Slurm 24.11) writes it, in what is read of it."""
    return {
        "job_id": run.job_id,
        "array": {"job_id": run.array_job_id or 0, "task_id": _number(run.array_task_id)},
        "het": {"job_id": run.het_job_id or 0, "job_offset": _number(run.het_offset)},
        "cluster": run.cluster,
        "user": run.user,
        "account": run.account,
        "partition": run.partition,
        "qos": run.qos,
        "state": {"current": [run.state.value], "reason": "None"},
        "kill_request_user": run.cancelled_by,
        "exit_code": {"return_code": _number(run.exit_code), "signal": {"id": _number(None)}},
        "time": {
            "submission": run.submit_s,
            "eligible": run.eligible_s or 0,
            "start": run.start_s or 0,
            "end": run.end_s or 0,
            "elapsed": round(run.elapsed_s),
            "limit": _number(run.limit_s and run.limit_s // 60),
            "total": _time(run.cpu_s),
        },
        "allocation_nodes": run.nodes,
        "tres": {"allocated": [_tres("cpu", run.cpus)], "requested": [_tres("node", run.nodes)]},
        "required": {"CPUs": run.cpus},
        "nodes": run.node_list,
        "constraints": run.constraints,
        "submit_line": run.submit_line,
        "working_directory": run.work_dir,
        "comment": {"job": run.comment, "administrator": run.admin_comment, "system": ""},
        "name": run.name,
        "steps": [_step(run, step) for step in run.steps],
    }


def _step(run: JobRun, step: StepRun) -> dict[str, Any]:
    return {
        "step": {"id": f"{run.job_id}.{step.step}", "name": step.name},
        "state": [step.state.value],
        "time": {
            "start": _number(step.start_s),
            "end": _number(step.end_s),
            "elapsed": round(step.elapsed_s),
            "total": _time(step.cpu_s),
        },
        "nodes": {"count": step.nodes},
        "tasks": {"count": step.tasks},
        "tres": {
            "allocated": [_tres("cpu", step.cpus)],
            "requested": {"max": [_tres("mem", step.mem_bytes or 0)], "total": []},
            "consumed": {"total": []},
        },
    }


def _number(value: int | None) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def _time(seconds: float | None) -> dict[str, int]:
    whole = int(seconds or 0)
    return {"seconds": whole, "microseconds": int(((seconds or 0) - whole) * 1e6)}


def _tres(kind: str, number: int) -> dict[str, Any]:
    return {"type": kind, "name": "", "count": number}
