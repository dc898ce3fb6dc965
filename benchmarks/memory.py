"""Memory of the next task of a workflow, walked in time through the product.

The tasks of a Nextflow trace are one user's jobs, each with the bytes that it read as those of its
input files (``--tags``: as ``nimo:size=``).  They are stored as a source would have them, a minute
apart in the order of their ends.  Each task gets what NIMO advises from those before it, and
otherwise what it asked for.  A process is fitted anew when its runs have grown by a tenth.

Wasted are the GB h that a task had and did not need.  One that is given too little wastes all that
it had, and what it asked for and did not need when it runs again.  It is taken to fail at its end.

Beside NIMO stand what was asked for, 1.2 times the highest need so far, a regression of log need on
log bytes read with a quantile of its residuals, and the .98 quantile of the process's last runs;
all of these from the fifth run of a process on.  Bytes read are known only afterwards: they stand
for the size of the input, which users know.
"""

import csv
import gzip
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import _bench
import numpy as np

from predictor.level.record import Record
from predictor.prediction_table import PredictionTable
from predictor.stored_table import encode
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.runs.input_sizes import sizes_of, to_text
from sacct_ingest.store import RunRow, Store
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.protocol.request_messages import HookLevel, Job

_HOUR_S, _GIB, _MIB = 3600.0, 2**30, 2**20
#: No task is given less.
LEAST = 256 * _MIB
#: Runs from which on the peers say something, and the last ones that they look at.
FIRST, LAST = 5, 200
#: Growth of the runs of a process after which it is fitted anew.
GROWTH = 1.1
_BEGIN_S, _APART_S = 1_790_000_000, 60


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a workflow; bytes and seconds."""

    process: str
    sample: str
    asked: float
    need: float
    read: float
    run_s: float
    cpus: int


@dataclass(slots=True)
class Score:
    """What came of one rule."""

    wasted: float = 0.0
    short: int = 0
    tasks: int = 0
    advised: int = 0

    def add(self, task: Task, given: float) -> None:
        """Count a task that got so much."""
        given = min(task.asked, max(given, LEAST))
        self.tasks += 1
        self.advised += given < task.asked
        unused = given - task.need
        if unused < 0:
            self.short += 1
            unused = given + task.asked - task.need
        self.wasted += unused * task.run_s / _GIB / _HOUR_S

    def row(self, data: str, rule: str) -> dict[str, Any]:
        """Give the row of a table."""
        return {
            "data": data,
            "rule": rule,
            "tasks": self.tasks,
            "GB h wasted": self.wasted,
            "short %": 100 * self.short / self.tasks,
            "got less than asked %": 100 * self.advised / self.tasks,
        }


#: Gives what a task is to get, from the earlier ones of its process.
Rule = Callable[[Sequence[Task], Task], float]


def main() -> None:
    """Walk each trace by each rule, and print."""
    parser = _bench.options(str(__doc__))
    parser.add_argument("--data", type=Path, nargs="*", default=[], metavar="FILE")
    parser.add_argument("--without-sizes", action="store_true", help="leave sizes out")
    parser.add_argument("--tags", action="store_true", help="give sizes in the tags of tasks")
    args = parser.parse_args()
    traces = {path.name.split(".")[0]: trace(path) for path in args.data}
    traces = traces or {"made up": made_up(60 if args.quick else 300)}
    table, sums = [], defaultdict[str, list[Score]](list)
    for name, tasks in traces.items():
        for rule, score in scores(tasks, sizes=not args.without_sizes, tags=args.tags).items():
            table.append(score.row(name, rule))
            sums[rule].append(score)
    if len(traces) > 1:
        table += [_sum(own).row("all", rule) for rule, own in sums.items()]
    _bench.table(table, title="Memory of the next task")
    _bench.write(args.json, memory=table)


def _sum(scores: Sequence[Score]) -> Score:
    return Score(
        wasted=sum(one.wasted for one in scores),
        short=sum(one.short for one in scores),
        tasks=sum(one.tasks for one in scores),
        advised=sum(one.advised for one in scores),
    )


def trace(path: Path) -> list[Task]:
    """Read the tasks of a trace in the order of their ends; those without figures are left out."""
    found = []
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            try:
                task = Task(
                    process=row["process"],
                    sample=row["tag"],
                    asked=float(row["memory"]),
                    need=float(row["peak_rss"]),
                    read=float(row["rchar"]),
                    run_s=max(float(row["realtime"]), 1.0) / 1000,
                    cpus=int(row["cpus"]),
                )
                found.append((float(row["complete"]), task))
            except ValueError:
                continue
    found.sort(key=lambda pair: pair[0])
    return [task for _, task in found if 0 < task.need <= task.asked]


def made_up(count: int) -> list[Task]:
    """Make up tasks: needs that are alike, vary, go by size, have giants, and hang together."""
    rng = random.Random(7)
    needs: dict[str, Callable[[float], float]] = {
        "alike": lambda _: 3.0,
        "varies": lambda _: 3.0 * rng.lognormvariate(0, 0.3),
        "by_size": lambda x: (0.5 + 2.0 * x) * rng.lognormvariate(0, 0.05),
        "root": lambda x: 3.0 * x**0.5 * rng.lognormvariate(0, 0.05),
        "giants": lambda _: rng.choice([1.0] * 29 + [10.0]) * rng.lognormvariate(0, 0.1),
    }
    tasks = []
    for number in range(count):
        for name, need in needs.items():
            size = rng.lognormvariate(0, 0.8)
            gib = min(need(size), 16.0)
            read, run_s = 1e9 * size, 600 * size * rng.lognormvariate(0, 0.2)
            tasks.append(
                Task(
                    f"MADE_{name.replace(' ', '_')}",
                    f"s{number}",
                    16 * _GIB,
                    gib * _GIB,
                    read,
                    run_s,
                    4,
                )
            )
    return tasks


def scores(tasks: Sequence[Task], *, sizes: bool, tags: bool = False) -> dict[str, Score]:
    """Give what came of each rule."""
    made: dict[str, Score] = defaultdict(Score)
    nimo = Nimo(tasks, sizes=sizes, tags=tags)
    earlier = defaultdict[str, list[Task]](list)
    for number, task in enumerate(tasks):
        past = earlier[task.process]
        for name, rule in PEERS.items():
            made[name].add(task, rule(past, task) if len(past) >= FIRST else task.asked)
        made["NIMO"].add(task, nimo.advises(number))
        past.append(task)
    return dict(made)


def largest(past: Sequence[Task], _: Task) -> float:
    """Give 1.2 times the highest need."""
    return 1.2 * max(one.need for one in past)


def by_bytes_read(past: Sequence[Task], task: Task) -> float:
    """Regress log need on log bytes read, and add a quantile of what is beyond and a tenth."""
    x = np.log([max(one.read, 1.0) for one in past[-LAST:]])
    y = np.log([one.need for one in past[-LAST:]])
    line = np.polyfit(x, y, 1) if np.ptp(x) > 0.1 else np.array([0.0, y.mean()])
    beyond = max(float(np.quantile(y - np.polyval(line, x), 0.98)), 0.0)
    usual = float(np.polyval(line, math.log(max(task.read, 1.0))))
    return 1.1 * math.exp(min(usual + beyond, 60.0))


def own_quantile(past: Sequence[Task], _: Task) -> float:
    """Give a quantile of the last needs."""
    return float(np.quantile([one.need for one in past[-LAST:]], 0.98))


PEERS: dict[str, Rule] = {
    "as asked": lambda _, task: task.asked,
    "1.2 times the highest": largest,
    "regression on bytes read": by_bytes_read,
    "quantile of own runs": own_quantile,
}


class Nimo:
    """The product: what it ingests, fits and advises."""

    def __init__(self, tasks: Sequence[Task], *, sizes: bool, tags: bool) -> None:
        self._tasks = tasks
        self._tags, self._inputs = sizes and tags, sizes and not tags
        with Store.open("sqlite://") as store:
            store.runs.add(self._run(number) for number in range(len(tasks)))
            rows = {row.job_id: row for row in store.runs.started()}
        self._rows = [
            replace(rows[number + 1], inputs=self._sizes(task)) for number, task in enumerate(tasks)
        ]
        self._places = defaultdict[tuple[KeyLevel, str], list[int]](list)
        for number, row in enumerate(self._rows):
            for name in _keys(row):
                self._places[name].append(number)
        self._fits: dict[tuple[KeyLevel, str], _Fit] = defaultdict(_Fit)
        self._service = DecisionService(Config(), new_id=str)

    def _comment(self, task: Task) -> str:
        return f"nimo:size={task.read:.0f}" if self._tags and task.read >= 1 else ""

    def _sizes(self, task: Task) -> str:
        """Give the sizes of a task's input files, as a client would send them."""
        return to_text(sizes_of([("", 1, round(task.read))])) if self._inputs else ""

    def _run(self, number: int) -> JobRun:
        task = self._tasks[number]
        end_s = _BEGIN_S + _APART_S * number
        return JobRun(
            cluster="c",
            job_id=number + 1,
            submit_s=round(end_s - task.run_s),
            eligible_s=round(end_s - task.run_s),
            start_s=round(end_s - task.run_s),
            end_s=end_s,
            elapsed_s=max(round(task.run_s), 1),
            state=JobState.COMPLETED,
            user="ann",
            name=_name(task),
            submit_line="sbatch .command.run",
            comment=self._comment(task),
            nodes=1,
            cpus=task.cpus,
            req_cpus=task.cpus,
            tasks=1,
            mem_bytes=round(task.need),
            req_mem_bytes=round(task.asked),
        )

    def advises(self, number: int) -> float:
        """Give the bytes that the advice for a task names, or those that it asks for."""
        task = self._tasks[number]
        tables = [
            table for name in _keys(self._rows[number]) for table in self._tables(name, number)
        ]
        self._service.tables = PredictionLookup((t.level, t.key, encode(t)) for t in tables)
        job = Job(
            user_id=1000,
            user_name="ann",
            name=_name(task),
            comment=self._comment(task),
            inputs=self._sizes(task),
            argv=[".command.run"],
            script="#!/bin/bash\nbash .command.sh\n",
            min_nodes=1,
            max_nodes=1,
            num_tasks=1,
            cpus_per_task=task.cpus,
            min_cpus=task.cpus,
            min_mem_per_node=math.ceil(task.asked / _MIB),
            hook=HookLevel.SIZES,
        )
        now_s = float(_BEGIN_S + _APART_S * number)
        advice = self._service.advise_at(job, (), now_s=now_s)
        _, _, mib = advice.memory_directive.partition("--mem=")
        return float(mib.removesuffix("M")) * _MIB if mib else task.asked

    def _tables(self, name: tuple[KeyLevel, str], number: int) -> Sequence[PredictionTable]:
        """Give the tables that a refit of an identity left before a task."""
        fit = self._fits[name]
        places = self._places[name]
        while fit.ended < len(places) and places[fit.ended] < number:
            fit.ended += 1
        if fit.ended and fit.ended >= GROWTH * fit.runs:
            level, key = name
            settings = TableSettings()
            rows = [self._rows[place] for place in places[: fit.ended]][-settings.recent :]
            identity = IdentityRuns(level, key, rows, float(_BEGIN_S + _APART_S * number))
            made = tables_of(identity, settings, records=fit.records)
            fit.runs = fit.ended
            fit.records = {one.key: one.record for one in made}
            fit.tables = [one.table for one in made if one.table is not None]
        return fit.tables


@dataclass(slots=True)
class _Fit:
    """What the last refit of an identity left."""

    ended: int = 0
    runs: int = 0
    records: dict[str, Record] = field(default_factory=dict)
    tables: Sequence[PredictionTable] = ()


def _keys(row: RunRow) -> Iterator[tuple[KeyLevel, str]]:
    for level in KeyLevel:
        if key := row.identity.key(level):
            yield level, key


def _name(task: Task) -> str:
    """Name a job as Nextflow does."""
    return f"nf-{task.process.replace(':', '_')}_({task.sample})"


if __name__ == "__main__":
    main()
