"""For how many jobs of a log there is a curve, a history and advice: by sizes, and by nodes alone.

Walks a log in time as ``history_accuracy.py`` does, twice: by each run's nodes, tasks, CPUs and
GPUs, and by its nodes alone, as if the product saw no other size.  Of each job that completed it
says what there was when it was submitted:

- a *curve*: the table that the job gets says run times on sizes that were not run;
- a *history* of its tag, script or command line, or of its *name or user* alone;
- *advice*: ``nimo-advise`` would name a count, on an idle cluster.

The error is that of the jobs that both walks predict.

With ``--hindsight`` it says instead what a size can give in a log of one application at all: the
least median error of one constant for each size, chosen with all run times at hand.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import _bench
from history_accuracy import Fits, histories, stored

from predictor.job_table import for_limit
from predictor.prediction_table import PredictionTable
from predictor.table import at, covers
from predictor.types import HISTORY
from sacct_ingest.records import CURVE_LEVELS, JobState
from sacct_ingest.runs.layout import Unit, layouts_of_run
from sacct_ingest.store import RunRow
from slurm_plugin.config.settings import Deadline, Policy
from slurm_plugin.decision.advised_count import best_of
from slurm_plugin.decision.allowed_counts import PolicySettings
from slurm_plugin.decision.policy import decide, every_option
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.node_pool import profile

RULES = PolicySettings(Policy(), Deadline())


@dataclass(frozen=True, slots=True)
class Said:
    """What there was for one job."""

    kind: str  #: ``curve``, ``history``, ``name or user``, ``nothing``
    unit: Unit = Unit.NODES
    advice: bool = False
    error: float | None = None  #: relative to its run time; None: no prediction


def main() -> None:
    """Walk the logs and print what there was."""
    parser = _bench.options(str(__doc__))
    parser.add_argument("--data", nargs="*", type=Path, metavar="FILE", help="logs of sites")
    parser.add_argument("--jobs", type=int, help="only so many jobs of each, from the beginning")
    parser.add_argument("--every", type=int, default=20, help="refit after so many runs (20)")
    parser.add_argument("--hindsight", action="store_true", help="the best constants for each size")
    arguments = parser.parse_args()
    most = arguments.jobs or (500 if arguments.quick else None)
    figures: list[dict[str, Any]] = []
    for path in arguments.data or [None]:
        log = path.name if path else "generated log"
        rows = stored(path)[:most]
        if arguments.hindsight:
            figures += hindsight(log, rows)
        else:
            figures += both(log, rows, every=arguments.every)
    title = "Constants in hindsight" if arguments.hindsight else "Share of completed jobs, in %"
    _bench.table(figures, title=title)
    _bench.write(arguments.json, shares=figures)


def both(log: str, rows: Sequence[RunRow], *, every: int) -> list[dict[str, Any]]:
    """Walk one log by nodes alone and by all sizes, and give a row of each."""
    before = walk([of_nodes_alone(row) for row in rows], every=every)
    after = walk(rows, every=every)
    errors = [
        (one.error, other.error)
        for one, other in zip(before, after, strict=True)
        if one.error is not None and other.error is not None
    ]
    return [
        {"log": log, "sizes": sizes, **_shares(said), "median error %": _median(own)}
        for sizes, said, own in (
            ("nodes alone", before, [pair[0] for pair in errors]),
            ("all", after, [pair[1] for pair in errors]),
        )
    ]


def hindsight(log: str, rows: Sequence[RunRow]) -> list[dict[str, Any]]:
    """Give the least median error of constants for each node count, CPU count, or both."""
    done = [row for row in rows if row.state is JobState.COMPLETED and row.elapsed_s > 0]
    sizes: dict[str, Callable[[RunRow], Hashable]] = {
        "nothing": lambda _: 0,
        "nodes": lambda row: row.nodes,
        "CPUs": lambda row: row.cpus,
        "nodes and CPUs": lambda row: (row.nodes, row.cpus),
    }
    figures = []
    for name, size_of in sizes.items():
        groups: dict[Hashable, list[float]] = defaultdict(list)
        for row in done:
            groups[size_of(row)].append(row.elapsed_s)
        error = least_median_error(list(groups.values()))
        figures.append(
            {"log": log, "groups by": name, "groups": len(groups), "least median error %": error}
        )
    return figures


def least_median_error(groups: Sequence[Sequence[float]]) -> float:
    """Least error, in %, that half of all times have against one constant for each group.

    A constant c is within e of the times from c / (1 + e) to c / (1 - e): of each group those
    count that most such an interval holds.
    """
    half, low, high = sum(map(len, groups)) / 2, 0.0, 1.0
    for _ in range(40):
        error = (low + high) / 2
        if sum(_most_within(sorted(times), error) for times in groups) >= half:
            high = error
        else:
            low = error
    return 100 * high


def _most_within(times: Sequence[float], error: float) -> int:
    widest = (1 + error) / (1 - error)
    return max(bisect_right(times, time * widest) - i for i, time in enumerate(times))


def of_nodes_alone(row: RunRow) -> RunRow:
    """Run whose tasks, CPUs and GPUs nobody recorded: its size is its node count."""
    return replace(
        row, cpus=row.nodes, tasks=None, gpus=None, gpu_types="", req_cpus=None, req_gpus=None
    )


def walk(rows: Sequence[RunRow], *, every: int) -> list[Said]:
    """Say of each job that completed what there was when it was submitted."""
    fits = Fits(histories(rows), every)
    ordered = sorted(rows, key=lambda one: (one.submit_s, one.job_id))
    return [
        _said(row, fits)
        for row in ordered
        if row.state is JobState.COMPLETED and row.elapsed_s > 0 and row.nodes > 0
    ]


def _said(row: RunRow, fits: Fits) -> Said:
    attributes = partial(getattr, row, "attributes")
    table = fits.find(row.identity, layouts_of_run(row), attributes, float(row.submit_s))
    if table is None or not table.nodes:
        return Said("nothing")
    size = table.unit.size_of(row)
    table = for_limit(table, float(row.limit_s) if row.limit_s else None)
    covered = covers(table, size)
    error = abs(at(table, size).time_s / row.elapsed_s - 1) if covered else None
    return Said(_kind(table), table.unit, _has_advice(table, size, row), error)


def _has_advice(table: PredictionTable, size: int, row: RunRow) -> bool:
    now_s, largest = float(row.submit_s), max(size, table.nodes[-1])
    part = Partition(name="", nodes=largest, profile=profile([(now_s, largest)]))
    limit_s = float(row.limit_s) if row.limit_s else None
    request = Request(
        low=1, high=largest, asked=size, limit_s=limit_s, unit=table.unit, given=(size, size)
    )
    decided = decide(Situation(request, table, part.supply, RULES, now_s))
    options = every_option(Situation(request, table, part.supply, RULES, now_s), decided)
    return best_of(decided, options, request, RULES.policy, table) is not None


def _kind(table: PredictionTable) -> str:
    if table.model != HISTORY:
        return "curve"
    return "history" if table.level in CURVE_LEVELS else "name or user"


def _shares(said: Sequence[Said]) -> dict[str, Any]:
    count = max(len(said), 1)

    def share(chosen: Sequence[bool]) -> float:
        return round(100 * sum(chosen) / count, 1)

    kinds = ("curve", "history", "name or user", "nothing")
    sized = [one.kind == "curve" and one.unit is not Unit.NODES for one in said]
    return {
        "jobs": len(said),
        **{kind: share([one.kind == kind for one in said]) for kind in kinds},
        "curve over CPUs or GPUs": share(sized),
        "advice": share([one.advice for one in said]),
    }


def _median(errors: Sequence[float]) -> float | None:
    return 100 * median(errors) if errors else None


if __name__ == "__main__":
    main()
