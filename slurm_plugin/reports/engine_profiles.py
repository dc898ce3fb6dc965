"""What processes of workflow engines need, by their own record, as the engines' profiles."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import PurePosixPath as Path

from predictor.tables.resource_use import node_need
from sacct_ingest.errors import NoHistory
from sacct_ingest.records import JobState
from sacct_ingest.scripts.engines import engine_job
from sacct_ingest.scripts.signature import words_of_line
from sacct_ingest.store import RunRow
from slurm_plugin.text.formatting import clock, count, duration

#: Completed runs that a need rests on, at least.
FEWEST = 5
SCHEMA = 1  #: of the JSON; raised where a field changes its meaning or goes
_MIB = 2**20
_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one application needs; memory is that of a node, None where it was not measured.

    ``time_s`` and ``mem_bytes`` are at least what every completed run took.
    """

    application: str
    runs: int
    low_s: float  #: 5 % of completed runs ended earlier ...
    median_s: float
    high_s: float  #: ... and 5 % later
    time_s: float
    mem_bytes: int | None
    cpus_per_task: int
    tasks: int
    nodes: int
    last_s: float  #: when the newest run ended, seconds since the epoch
    predicted: int  #: completed runs whose need was predicted from earlier runs ...
    short: int  #: ... that took longer or more memory
    spared_s: float  #: what their time limits were longer


def need_of(
    application: str, rows: Sequence[RunRow], *, quantile: float, margin: float
) -> Need | None:
    """Work out a need; None: there are fewer than `FEWEST` completed runs.

    rows: runs of one application, the newest last.
    quantile: share of completed runs that a need covers, before the margin.
    margin: factor on that quantile.
    """
    done = [row for row in rows if row.state is JobState.COMPLETED and row.nodes > 0]
    if len(done) < FEWEST:
        return None
    times = [float(row.elapsed_s) for row in done]
    needs = list(map(node_need, done))
    short, spared_s = 0, 0.0
    for place in range(FEWEST, len(done)):
        limit_s = _covering(times[:place], quantile, margin)
        memory = _covering([one for one in needs[:place] if one], quantile, margin)
        short += times[place] > limit_s or 0 < memory < needs[place]
        spared_s += max((done[place].limit_s or 0) - limit_s, 0.0)
    measured = [float(one) for one in needs if one]
    return Need(
        application=application,
        runs=len(done),
        low_s=_quantile(times, 0.05),
        median_s=_quantile(times, 0.5),
        high_s=_quantile(times, 0.95),
        time_s=_covering(times, quantile, margin),
        mem_bytes=(
            ceil(_covering(measured, quantile, margin)) if len(measured) >= FEWEST else None
        ),
        cpus_per_task=_usual([ceil((row.req_cpus or row.cpus) / (row.tasks or 1)) for row in done]),
        tasks=_usual([row.tasks or 1 for row in done]),
        nodes=_usual([row.nodes for row in done]),
        last_s=float(done[-1].end_s or 0),
        predicted=len(done) - FEWEST,
        short=short,
        spared_s=spared_s,
    )


def _usual(counts: Sequence[int]) -> int:
    """Give the largest of the last runs: a count that users lowered long ago is needed no more."""
    return max(*counts[-FEWEST:], 1)


def _covering(values: Sequence[float], quantile: float, margin: float) -> float:
    return max(_quantile(values, quantile) * margin, *values) if values else 0.0


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(max(ceil(share * len(ordered)) - 1, 0), len(ordered) - 1)]


def of_workflow(rows: Iterable[RunRow], name: str) -> list[RunRow]:
    """Choose the runs of a workflow, by the name of its file or folder, or of the working one.

    The whole name counts, with or without a file's extension, or several parts of the path.
    """
    asked = Path(name).parts

    def named(text: str) -> bool:
        path = Path(text)
        ways = (path.parts, path.with_suffix("").parts) if path.name else (path.parts,)
        ends = range(len(asked), len(path.parts) + 1)
        return any(parts[end - len(asked) : end] == asked for parts in ways for end in ends)

    return [row for row in rows if named(row.work_dir) or named(_workflow(row))]


def _workflow(row: RunRow) -> str:
    words = words_of_line(row.submit_line, row.work_dir, row.comment, row.name)
    job = engine_job(row.name, row.comment, words)
    return job.workflow if job else ""


def _lines(needs: Iterable[Need], engine: str) -> list[tuple[str, str, Need]]:
    """Give process, a comment and need of each application of an engine."""
    chosen = []
    for one in needs:
        name, _, process = one.application.partition("/")[2].partition(":")
        if name == engine and _NAME.fullmatch(process):
            again = f"{one.short} of {count(one.predicted, 'run')} short, limits"
            said = (
                f"{count(one.runs, 'run')}, {duration(one.median_s)} ({duration(one.low_s)} to "
                f"{duration(one.high_s)}), to {clock(one.last_s)[:10]}; backtest: {again} "
                f"{duration(one.spared_s)} less"
            )
            chosen.append((process, said, one))
    if not chosen:
        raise NoHistory(f"no process of {engine} has enough runs; csv and json have all tags")
    return chosen


def snakemake(needs: Iterable[Need]) -> str:
    """Make a profile with the resources of each rule; what may run out grows with attempts.

    Both do: an expression of a profile has the number of the attempt, not what ended the last one.
    """
    made = ["set-resources:"]
    for rule, said, need in _lines(needs, "snakemake"):
        made += [f"  # {said}", f"  {rule}:", f"    runtime: {ceil(need.time_s / 60)} * attempt"]
        if need.mem_bytes is not None:
            made.append(f"    mem_mb: {ceil(need.mem_bytes / _MIB)} * attempt")
        made.append(f"    cpus_per_task: {need.cpus_per_task}")
        made += [f"    tasks: {need.tasks}"] if need.tasks > 1 else []
        made += [f"    nodes: {need.nodes}"] if need.nodes > 1 else []
    return "\n".join(made) + "\n"


def nextflow(needs: Iterable[Need]) -> str:
    """Make a configuration with the resources of each process.

    Job names have underscores in place of the colons of a process's full name.  Nextflow's jobs
    exit with 140 at their time limit (USR2, which it asks Slurm for), and with 137 when killed for
    their memory: the other one stays.
    """
    made = [
        "// For Nextflow 24.10 and later; process.resourceLimits bounds what attempts grow to.",
        "process {",
    ]

    def grows(what: str, first: str, ended_other: int) -> str:
        factor = f"(task.previousTrace.exit == {ended_other} ? 1 : 2)"
        again = f"task.previousTrace.{what} * {factor}"
        return f"        {what} = {{ task.attempt > 1 ? {again} : {first} }}"

    for process, said, need in _lines(needs, "nextflow"):
        selector = process.replace(".", "[.]").replace("_", "[:_]")
        made += [f"    // {said}", f"    withName: '{selector}' {{"]
        made.append(grows("time", f"{ceil(need.time_s / 60)}.min", 137))
        if need.mem_bytes is not None:
            made.append(grows("memory", f"{ceil(need.mem_bytes / _MIB)}.MB", 140))
        made += [f"        cpus = {need.cpus_per_task * need.tasks}", "    }"]
    return "\n".join([*made, "}"]) + "\n"


def as_csv(needs: Iterable[Need]) -> str:
    """Make a table with one row an application."""
    text = io.StringIO()
    writer = csv.DictWriter(text, Need.__slots__, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(asdict, needs))
    return text.getvalue()


def as_json(needs: Iterable[Need]) -> str:
    """Make JSON with the number of its schema."""
    made: Mapping[str, object] = {"schema": SCHEMA, "applications": [asdict(n) for n in needs]}
    return json.dumps(made, indent=2) + "\n"


#: What is exported, by its name on the command line.
FORMATS = {"snakemake": snakemake, "nextflow": nextflow, "csv": as_csv, "json": as_json}
