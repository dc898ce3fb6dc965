"""Memory of tasks that an engine runs again where they are short, walked in time.

The tasks of Nextflow traces, in the order of their ends.  Each gets what a rule says of those of
its process before it, and more at each further attempt, until it is enough; the first five tasks of
a process are left out.  A task that is short is taken to fail at its end.

Counted are attempts for each task, and the memory of all attempts over that which was needed, both
times the run time.  NIMO's first attempt and what follows are those of ``nimo export``.  Beside it
stand what was asked for, a profile that doubles the median or the 95 % quantile, and Ponder's rule
as we read it (Lehmann et al. 2024): where need and input correlate a line, else the mean, and an
offset by the deviation from it, weighted by how near inputs were.  The threshold of .3 and twice
the deviation are ours; further attempts are doubled.  *NIMO, by input* is the first attempt by the
bytes that a task read, where memory surely goes by these, as a profile for Snakemake has it.  *Best
constants* are the two amounts for each process that would have cost least, known only afterwards:
no rule that knows nothing of a task but its process can be expected to do better.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import _bench
import numpy as np
from memory import FIRST, LAST, LEAST, Task, made_up, trace

from predictor.tables.memory_need import enough_for
from sacct_ingest.store import RunRow
from slurm_plugin.reports.input_memory import MIB, InputMemory, input_memory
from tests.predictor.rows import row as stored_run

_MOST = 12  #: attempts
Rule = Callable[[Sequence[Task], Task], tuple[float, float]]


@dataclass(slots=True)
class Score:
    """What came of one rule."""

    tasks: int = 0
    attempts: int = 0
    needed: float = 0.0
    given: float = 0.0

    def add(self, task: Task, ladder: Iterator[float]) -> None:
        """Run a task until it has enough."""
        self.tasks += 1
        self.needed += task.need * task.run_s
        for number, given in zip(range(_MOST), ladder, strict=False):
            del number
            self.attempts += 1
            self.given += max(given, LEAST) * task.run_s
            if max(given, LEAST) >= task.need:
                return

    def row(self, log: str, rule: str) -> dict[str, Any]:
        """Make a row of the table."""
        return {
            "trace": log,
            "rule": rule,
            "tasks": self.tasks,
            "attempts": round(self.attempts / self.tasks, 3),
            "memory": round(self.given / self.needed, 3),
        }


def main() -> None:
    """Walk each trace by each rule, and print."""
    parser = _bench.options(str(__doc__))
    parser.add_argument("--data", type=Path, nargs="*", default=[], metavar="FILE")
    args = parser.parse_args()
    traces = {path.name.split(".")[0]: trace(path) for path in args.data}
    traces = traces or {"made up": made_up(60 if args.quick else 300)}
    table, sums = [], defaultdict[str, Score](Score)
    for name, tasks in traces.items():
        for rule, score in scores(tasks).items():
            table.append(score.row(name, rule))
            for part in Score.__slots__:
                setattr(sums[rule], part, getattr(sums[rule], part) + getattr(score, part))
    if len(traces) > 1:
        table += [score.row("all", rule) for rule, score in sums.items()]
    _bench.table(table, title="Attempts, and memory over what was needed")
    _bench.write(args.json, retries=table)


def scores(tasks: Sequence[Task]) -> dict[str, Score]:
    """Give what came of each rule."""
    made: dict[str, Score] = defaultdict(Score)
    earlier = defaultdict[str, list[Task]](list)
    rules = RULES | {"NIMO, by input": ByInput()}
    for task in tasks:
        past = earlier[task.process]
        if len(past) >= FIRST:
            for name, rule in rules.items():
                first, second = rule(past[-LAST:], task)
                made[name].add(task, ladder(first, max(second, 2 * first)))
        past.append(task)
    for past in earlier.values():
        add_best_constants(made["best constants"], past[FIRST:])
    return dict(made)


def add_best_constants(score: Score, tasks: Sequence[Task]) -> None:
    """Add what tasks cost with the two amounts that cost them least."""
    if not tasks:
        return
    firsts = np.quantile([task.need for task in tasks], np.linspace(0, 1, 51))
    most = max(task.need for task in tasks)
    tried = []
    for first in firsts.tolist():
        one = Score()
        for task in tasks:
            one.add(task, ladder(first, max(most, 2 * first)))
        tried.append(one)
    best = min(tried, key=lambda one: one.given)
    for part in Score.__slots__:
        setattr(score, part, getattr(score, part) + getattr(best, part))


class ByInput:
    """The first attempt by input, where memory surely goes by it; fitted as runs grow."""

    def __init__(self) -> None:
        self._fits: dict[str, tuple[int, InputMemory | None]] = {}
        self._seen = defaultdict[str, int](int)

    def __call__(self, past: Sequence[Task], task: Task) -> tuple[float, float]:
        """Give what a task gets first, and then."""
        process = task.process
        self._seen[process] += 1
        at, memory = self._fits.get(process, (0, None))
        if self._seen[process] >= 1.1 * at:
            memory = input_memory([self._run(one) for one in past], FIRST)
            self._fits[process] = self._seen[process], memory
        first, enough = RULES["NIMO"](past, task)
        if memory is None:
            return first, enough
        return min(memory.bytes_for(task.read / MIB), enough), enough

    def _run(self, task: Task) -> RunRow:
        done = stored_run(1, max(task.run_s, 1.0))
        inputs = f"1K={task.read:.0f}"
        return replace(
            done, mem_bytes=int(task.need), req_mem_bytes=int(task.asked or 0), inputs=inputs
        )


def ladder(first: float, second: float) -> Iterator[float]:
    """Give the memory of each attempt."""
    yield first
    for number in count():
        yield second * 2**number


def asked(_: Sequence[Task], task: Task) -> tuple[float, float]:
    """Give what the workflow asks for."""
    return task.asked, task.asked


def quantile(share: float) -> Rule:
    """Give a quantile of the needs."""

    def rule(past: Sequence[Task], _: Task) -> tuple[float, float]:
        return float(np.quantile([one.need for one in past], share)), 0.0

    return rule


def nimo(*, retried: bool) -> Rule:
    """Give what a profile of NIMO's says; not ``retried``: as where nobody runs it again."""

    def rule(past: Sequence[Task], task: Task) -> tuple[float, float]:
        needs = [(one.need, False) for one in past]
        room = enough_for(needs, task.asked) or task.asked
        enough = max(room, *(need for need, _ in needs))
        first = enough_for(needs, enough, retried=True) or enough
        return (min(first, enough), enough) if retried else (enough, enough)

    return rule


def ponder(past: Sequence[Task], task: Task) -> tuple[float, float]:
    """Predict by the input where needs go by it, else by the mean, and add twice the deviation."""
    x = np.array([one.read for one in past])
    y = np.array([one.need for one in past])
    line = np.array([0.0, y.mean()])
    if np.ptp(x) > 0 and np.ptp(y) > 0 and np.corrcoef(x, y)[0, 1] > 0.3:
        line = np.polyfit(x, y, 1)
    away = np.abs(x - task.read)
    weights = 1 - away / away.max() + 1e-3 if away.max() > 0 else np.ones(len(x))
    over = y - np.polyval(line, x)
    mean = np.average(over, weights=weights)
    spread = math.sqrt(np.average((over - mean) ** 2, weights=weights))
    return float(np.polyval(line, task.read)) + 2 * spread, 0.0


RULES: dict[str, Rule] = {
    "asked for": asked,
    "median, doubled": quantile(0.5),
    "95 % quantile, doubled": quantile(0.95),
    "Ponder": ponder,
    "NIMO, never short": nimo(retried=False),
    "NIMO": nimo(retried=True),
}

if __name__ == "__main__":
    main()
