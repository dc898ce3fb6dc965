"""What ``nimo waste`` says could come back, and what comes back in a queue that is replayed.

The starts of a log run through a queue (EASY) whose units are CPUs: as they were; and each on what
is left of it without what the record at its start would have given back.  As starts begin earlier
there, their records are others: what could come back is asked anew with the times of each replay,
three times.  Said and come back are both node-hours; timeouts, which are judged by what followed,
are in neither.

Without ``--data`` the log is made up: applications that use a part of what they ask for, fail again
and again, or need more memory now and then.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import _bench
import numpy as np
from _logs import runs

from predictor.waits.easy import Engine, JobShape
from sacct_ingest.records import JobState
from sacct_ingest.store import RunRow, Store
from slurm_plugin.evaluation.waste import NodeShape, node_hours, occupancy_of, shapes_of
from slurm_plugin.evaluation.waste_report import WasteTally
from tests.predictor.rows import row, submitted

_GIB = 2**30
_HOUR_S = 3600.0
_NODE = NodeShape(cpus=32, mem_bytes=128 * _GIB)
_NODES, _LOADS = 10, (0.5, 0.9)
_ROUNDS = 3


def main() -> None:
    """Compare, and print."""
    parser = _bench.options(str(__doc__))
    parser.add_argument("--data", type=Path, nargs="*", default=[], metavar="FILE")
    args = parser.parse_args()
    table: list[dict[str, Any]] = []
    for path in args.data:
        store = Store.open("sqlite://")
        store.runs.add(list(runs(path)))
        starts = _in_order(store.runs.started())
        table.append(compared(path.name, starts, shapes_of(starts), nodes=None))
    if not args.data:
        for load in _LOADS:
            made = made_up(300 if args.quick else 5000, load)
            table.append(
                compared(f"made up, load {load}", made, {"pine/main": _NODE}, nodes=_NODES)
            )
    _bench.table(table, title="What could come back, and what does")
    _bench.write(args.json, waste=table)


def compared(
    log: str, starts: list[RunRow], shapes: dict[str, NodeShape], *, nodes: int | None
) -> dict[str, Any]:
    """Give the row of a log.

    nodes: of the queue; None: as many as were in use at the busiest moment.
    """
    hours, said = _hours_and_back(starts, shapes)
    most = max(shape.cpus for shape in shapes.values())
    units = nodes * most if nodes else _most_in_use(starts, hours, most)
    queue = partial(_replayed, starts, units, most, hours)
    before = queue(np.zeros(len(starts)))
    back = _hours_and_back(before[0], shapes)[1]
    for _ in range(_ROUNDS):
        after = queue(back)
        back = _hours_and_back(after[0], shapes)[1]
    came = before[1] - after[1]
    return {
        "log": log,
        "starts": len(starts),
        "node-hours": round(float(hours.sum())),
        "said": round(float(said.sum()), 1),
        "came back": round(came, 1),
        "said / came": round(float(said.sum()) / came, 3) if came > 0 else None,
        "waits": round(after[2] / before[2], 3) if before[2] else None,
    }


def _in_order(starts: Any) -> list[RunRow]:
    return sorted(
        (one for one in starts if one.start_s is not None and one.nodes > 0 < one.elapsed_s),
        key=lambda one: one.submit_s,
    )


def _hours_and_back(starts: Sequence[RunRow], shapes: dict[str, NodeShape]) -> Any:
    """Give the node-hours of each start, and those of them that could come back."""
    tally = WasteTally(shapes)
    hours = [node_hours(one, occupancy_of(one, _shape(one, shapes))) for one in starts]
    return np.array(hours), np.array([tally.add(one) for one in starts])


def _shape(start: RunRow, shapes: dict[str, NodeShape]) -> NodeShape:
    return shapes[f"{start.cluster}/{start.partition}"]


def _replayed(
    starts: Sequence[RunRow],
    units: int,
    most: int,
    hours: np.ndarray[Any, Any],
    back: np.ndarray[Any, Any],
) -> tuple[list[RunRow], float, float]:
    """Run starts through a queue without what comes back: they, their node-hours, their waits.

    units: CPUs of the queue; most: of a node.
    """
    jobs: list[JobShape] = []
    for start, own, less in zip(starts, hours, back, strict=True):
        left = 1 - less / own
        cpus = own * _HOUR_S / start.elapsed_s * most
        again = max(left, 1.0)  # one that was lost runs again
        # Whole CPUs; what would not have begun has next to no time.
        kept = max(round(cpus * min(left, 1.0)), 1)
        run_s = max(start.elapsed_s * again * (left > 0), 1e-3)
        jobs.append(JobShape(kept, max(run_s, float(start.limit_s or run_s)), run_s))
    schedule = Engine(units).run([float(one.submit_s) for one in starts], lambda job, _: jobs[job])
    moved = [
        replace(one, start_s=int(begin), end_s=int(begin + one.elapsed_s))
        for one, begin in zip(starts, schedule.start_s, strict=True)
    ]
    used = float(((schedule.end_s - schedule.start_s) * schedule.nodes).sum()) / most / _HOUR_S
    waits = float((schedule.start_s - [one.submit_s for one in starts]).sum())
    return moved, used, waits


def _most_in_use(starts: Sequence[RunRow], hours: np.ndarray[Any, Any], most: int) -> int:
    """CPUs that were in use at the busiest moment."""
    changes = []
    for start, own in zip(starts, hours, strict=True):
        cpus = max(round(own * _HOUR_S / start.elapsed_s * most), 1)
        begin_s = float(start.start_s or 0)
        changes += [(begin_s, cpus), (begin_s + start.elapsed_s, -cpus)]
    in_use, highest = 0, 0
    for _, change in sorted(changes):
        in_use += change
        highest = max(highest, in_use)
    return highest


def made_up(count: int, load: float) -> list[RunRow]:
    """Make starts of twenty applications, in the order of their submission."""
    random = np.random.default_rng(7)
    starts = []
    at_s = 0.0
    for number in range(count):
        kind = int(random.integers(20))
        own = np.random.default_rng(kind)
        cpus = int(own.integers(2, 33))
        busy = float(own.uniform(0.1, 1.0))
        needs = float(own.uniform(1, 30)) * _GIB
        lasts_s = float(own.lognormal(8, 0.8))
        elapsed_s = lasts_s * float(random.lognormal(0, 0.3))
        fails = kind < 3 and random.random() < 0.6
        if fails:
            elapsed_s = max(elapsed_s / 10, 60.0)
        used = cpus * min(busy * float(random.lognormal(0, 0.1)), 1.0)
        begin_s = int(at_s)
        made = row(1, elapsed_s, JobState.FAILED if fails else JobState.COMPLETED)
        values: dict[str, Any] = {
            "run_id": number + 1,
            "user": f"user{kind % 7}",
            "name": f"application{kind}",
            "cpus": cpus,
            "req_cpus": cpus,
            "cpu_s": used * elapsed_s,
            "tasks": 1,
            "req_mem_bytes": int(needs * float(own.uniform(1, 5))),
            "mem_bytes": int(needs * float(random.lognormal(-0.3, 0.1))),
            "submit_s": begin_s,
            "start_s": begin_s,
            "limit_s": int(4 * lasts_s),
            "account": "physics",
        }
        starts.append(submitted(made, **values))
        at_s += float(random.exponential(lasts_s)) * cpus / (load * _NODES * _NODE.cpus)
    return starts


if __name__ == "__main__":
    main()
