"""Run times of tasks on machines on which they never ran, by the size of their input.

Data are tasks of three pipelines on six types of machines (Bader et al., *Future Generation
Computer Systems* 150, 2024).  Each task runs on one machine, "local", with small inputs, as a
user's job whose argument is the size.  Asked are large inputs on all machines.  What the machines
are worth is known from benchmarks of CPU and disk, as `nimo profile` makes them.

The peer is these authors' own method, Lotaru: a linear regression on the size, times the mean of
the ratios of CPU and disk; where size and time correlate by less than .75, the median time.
"""

import csv
import datetime as dt
import gzip
import io
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import _bench
import numpy as np

from sacct_ingest.records import NodeProfile
from sacct_ingest.store import Store
from slurm_plugin.cli.advise import main as advise
from slurm_plugin.cli.nimo import main as nimo

#: CPU (sysbench, events) and disk (fio, MB/s) of the machines, as published with the data.
CPU = {"local": 437, "asok01": 223, "asok02": 223, "n1": 369, "n2": 467, "c2": 523}
DISK = {"local": 415, "asok01": 303, "asok02": 339, "n1": 483, "n2": 483, "c2": 483}
#: Parts of the data that histories are made of, one at a time, and the one that is asked.
HISTORIES, ASKED = ("train-1", "train-2"), "test"
_LEAST = 3
#: Correlation of size and time from which on Lotaru fits a line, and runs that it is fitted to.
_CORRELATED, _LOTARU_RUNS = 0.75, 6
_HEADER = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|JobName|SubmitLine|WorkDir|Submit|Eligible|Start|"
    "End|Elapsed|State|ExitCode|NNodes|NCPUS|ReqCPUS|ReqNodes|Timelimit|AllocTRES|TotalCPU|NodeList"
)
_FORM = "%Y-%m-%dT%H:%M:%S"


@dataclass(frozen=True, slots=True)
class Run:
    """One task on one machine."""

    size: float
    time_s: float
    cpus: int
    used: float  #: CPUs


@dataclass(frozen=True, slots=True)
class Case:
    """The runs of a task on the local machine, and what is asked of it by machine."""

    task: str
    user: str
    history: Sequence[Run]
    asked: Mapping[str, Sequence[Run]]


def main() -> None:
    """Ask each task on each machine, and print."""
    args = _bench.options(__doc__, data="tasks, as CSV (required)").parse_args()
    if not args.data:
        return
    given = cases(args.data)[:: 4 if args.quick else 1]
    errors: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    inside: defaultdict[str, list[bool]] = defaultdict(list)
    for case, answers in zip(given, ask(given), strict=True):
        fit = lotaru(case.history)
        for machine, runs in case.asked.items():
            for run in runs:
                errors["Lotaru", machine].append(abs(fit(run.size, machine) / run.time_s - 1))
                row = answers.get((machine, run.size))
                if row is None:
                    errors["NIMO", machine].append(1.0)
                    inside[machine].append(False)
                    continue
                errors["NIMO", machine].append(abs(row["time_s"] / run.time_s - 1))
                inside[machine].append(row["low_s"] <= run.time_s <= row["high_s"])
    table = [
        {
            "machine": machine,
            "asked": len(errors["NIMO", machine]),
            "NIMO median %": 100 * median(errors["NIMO", machine]),
            "Lotaru median %": 100 * median(errors["Lotaru", machine]),
            "inside %": 100 * sum(inside[machine]) / len(inside[machine]),
        }
        for machine in CPU
    ]
    _bench.table(table, title=f"Machines that never ran a task, {len(given)} histories")
    _bench.write(args.json, machines=table)


def cases(path: Path) -> list[Case]:
    """Read the tasks; those with few runs are left out."""
    runs: defaultdict[tuple[str, str, str], list[Run]] = defaultdict(list)
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            size, time_s = float(row["TaskInputSizeUncompressed"]), float(row["Realtime"]) / 1000
            if size <= 0 or time_s < 1:
                continue
            name = f"{row['Workflow']}-{row['Task'].split(':')[-1]}"
            used = float(row["%cpu"] or 0) / 100
            run = Run(size, time_s, int(row["cpus"]), used)
            runs[name, row["Machine"], row["Label"]].append(run)
    made = []
    for task in sorted({name for name, *_ in runs}):
        for number, label in enumerate(HISTORIES):
            history = runs[task, "local", label]
            asked = {machine: runs[task, machine, ASKED] for machine in CPU}
            if len(history) >= _LEAST:
                made.append(Case(task, f"u{number}", history, asked))
    return made


def lotaru(history: Sequence[Run]) -> Callable[[float, str], float]:
    """Fit Lotaru's regression, as its authors published it."""
    first = history[:_LOTARU_RUNS]
    sizes, times = np.array([(run.size, run.time_s) for run in first]).T
    varied = sizes.std() > 0 and times.std() > 0
    if not varied or np.corrcoef(sizes, times)[0, 1] < _CORRELATED:
        middle = float(np.median(times))
        return lambda _, __: middle
    slope, start = np.polyfit(sizes, times, 1)

    def predict(size: float, machine: str) -> float:
        ratio = (CPU["local"] / CPU[machine] + DISK["local"] / DISK[machine]) / 2
        return float((start + slope * size) * ratio)

    return predict


def ask(given: Sequence[Case]) -> list[Mapping[tuple[str, float], Mapping[str, float]]]:
    """Give the rows that the product advises, by machine and size; ingest and fit first."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("h.sacct").write_text("\n".join([_HEADER, *_lines(given)]) + "\n")
        Path("task.sh").write_text('#!/bin/bash\nsrun task "$@"\n')
        with redirect_stdout(io.StringIO()):
            nimo(["ingest", "--store", "s.db", "h.sacct"])
            with Store.open("sqlite:///s.db") as store:
                store.profiles.add(_profiles())
            nimo(["ingest", "--store", "s.db", "h.sacct"])
            nimo(["fit", "--store", "s.db"])
        return [_advice(case) for case in given]


def _profiles() -> list[NodeProfile]:
    return [
        NodeProfile(
            cluster="c",
            node=f"{machine}n1",
            node_type=machine,
            at_s=dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp(),
            cpu_events_per_s=float(CPU[machine]),
            disk_read_bytes_per_s=1e6 * DISK[machine],
            disk_write_bytes_per_s=1e6 * DISK[machine],
        )
        for machine in CPU
    ]


def _lines(given: Sequence[Case]) -> Iterator[str]:
    number = 1000
    for case in given:
        begin = dt.datetime(2026, 1, 5)  # noqa: DTZ001 - sacct writes local times
        for run in case.history:
            seconds = round(run.time_s)
            end, start = begin + dt.timedelta(seconds=seconds), f"{begin:{_FORM}}"
            line = f"sbatch -N 1 -n 1 -c {run.cpus} -p local task.sh --input={run.size:.0f}"
            elapsed = str(dt.timedelta(seconds=seconds))
            busy = str(dt.timedelta(seconds=round(seconds * min(run.used, run.cpus))))
            columns = (
                *(number, number, "c", case.user, "lab", "local", case.task, line, "/home/app"),
                *(start, start, start, f"{end:{_FORM}}", elapsed, "COMPLETED", "0:0"),
                *(1, run.cpus, run.cpus, 1, "08:00:00", f"cpu={run.cpus},node=1", busy, "localn1"),
            )
            yield "|".join(map(str, columns))
            number += 1
            begin = end + dt.timedelta(minutes=40)


def _advice(case: Case) -> Mapping[tuple[str, float], Mapping[str, float]]:
    sizes = sorted({run.size for runs in case.asked.values() for run in runs})
    cpus = case.history[-1].cpus
    head = ["-D", "/home/app", "-N", "1", "-n", "1", "-c", str(cpus), "-t", "08:00:00"]
    questions = [
        {"id": i, "argv": [*head, f"--job-name={case.task}", "task.sh", f"--input={size:.0f}"]}
        for i, size in enumerate(sizes)
    ]
    said = io.StringIO()
    asked = io.StringIO("\n".join(map(json.dumps, questions)))
    with redirect_stdout(said), patch("sys.stdin", asked):
        advise(["--json-lines", "--store", "s.db", f"--user={case.user}"])
    answers = {
        one["id"]: one.get("advice") or {} for one in map(json.loads, said.getvalue().splitlines())
    }
    return {
        (machine, size): row
        for i, size in enumerate(sizes)
        for machine, row in _rows(answers.get(i, {}))
    }


def _rows(answer: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Give the rows of an answer by machine: of one without node types the same for all."""
    by_type = {one["node_type"]: one for one in answer.get("partitions") or () if one["time_s"]}
    usual = next(iter(answer.get("rows") or ()), None)
    for machine in CPU:
        row = by_type.get(machine, usual)
        if row is not None:
            yield machine, row


if __name__ == "__main__":
    main()
