"""How good plans of large workflows are, and how long one takes to make, beside the usual rules.

Workflows are made up: layers of tasks that pass files on, three partitions with a storage each.
Peers in the same run: HEFT (each task where it ends first), everything on its fastest and on its
cheapest option.  Makespans and node-hours are ratios to the plan of the same target.
"""

import random
import time
from collections.abc import Callable
from math import inf
from typing import Any

import _bench

from predictor.transfer import transfer_time
from slurm_plugin.plan.file import parse
from slurm_plugin.plan.known import Copies, Learned
from slurm_plugin.plan.options import choices
from slurm_plugin.plan.schedule import Problem, Schedule
from slurm_plugin.plan.search import cheapest, fastest, heft, search
from slurm_plugin.profile import profile

NOW = 1_795_000_000.0
NODES = 64
#: Name, widest layer as a share of all tasks.
SHAPES = {"wide": 0.2, "narrow": 0.02}


def main() -> None:
    """Make workflows, plan them, print."""
    args = _bench.options(__doc__).parse_args()
    sizes = [100] if args.quick else [100, 300, 1000]
    rows = [row for tasks in sizes for shape in SHAPES for row in measure(tasks, shape)]
    _bench.table(rows, title="Plans")
    _bench.write(args.json, plans=rows)


def measure(tasks: int, shape: str) -> list[dict[str, Any]]:
    """Figures of one workflow: three targets, and the peers beside the fastest."""
    problem = made(random.Random(tasks), tasks, max(2, int(SHAPES[shape] * tasks)))
    all_of = choices(problem)
    fast, fast_s = timed(lambda: search(problem, all_of, NOW))
    cheap, cheap_s = timed(lambda: search(problem, all_of, inf))
    middle = NOW + 1.5 * (fast.end_s - NOW)
    in_time, in_time_s = timed(lambda: search(problem, all_of, middle))
    rows = [
        row(tasks, shape, "fastest plan", fast, fast, fast_s),
        row(tasks, shape, "in 1.5 times that, fewest node-hours", in_time, fast, in_time_s),
        row(tasks, shape, "fewest node-hours", cheap, fast, cheap_s),
    ]
    for name, rule in (("HEFT", heft), ("all fastest", fastest), ("all cheapest", cheapest)):
        schedule, took_s = timed(lambda rule=rule: rule(problem, all_of))  # type: ignore[misc]
        rows.append(row(tasks, shape, name, schedule, fast, took_s))
    return rows


def timed(plan: Callable[[], Any]) -> tuple[Schedule, float]:
    """Plan and how long it took to make."""
    began = time.perf_counter()
    found = plan()
    return getattr(found, "schedule", found), time.perf_counter() - began


def row(
    tasks: int, shape: str, name: str, schedule: Schedule, fast: Schedule, took_s: float
) -> dict[str, Any]:
    """One line of the table."""
    return {
        "tasks": tasks,
        "shape": shape,
        "plan": name,
        "makespan h": (schedule.end_s - NOW) / 3600,
        "times fastest": (schedule.end_s - NOW) / (fast.end_s - NOW),
        "node-hours": schedule.node_s / 3600,
        "times its node-hours": schedule.node_s / fast.node_s,
        "planned in s": took_s,
    }


def made(draw: random.Random, tasks: int, width: int) -> Problem:
    """Workflow of layers, at three places."""
    lines = [
        "storages: {s0: {path: /s0}, s1: {path: /s1}, s2: {path: /s2}}",
        "links:",
        "  - {from: s0, to: s1, bandwidth: 200M, latency: 1ms}",
        "  - {from: s0, to: s2, bandwidth: 50M, latency: 5ms}",
        "  - {from: s1, to: s2, bandwidth: 50M, latency: 5ms}",
        "places:",
        "  p0: {storage: s0}",
        "  p1: {storage: s1, speed: 1.5}",
        "  p2: {storage: s2, speed: 2}",
        "files:",
        "  f: {at: s0, size: 5G}",
        *(f"  f{i}: {{size: {draw.randint(10, 4000)}M}}" for i in range(tasks)),
        "tasks:",
    ]
    for i in range(tasks):
        layer = i // width
        above = range((layer - 1) * width, layer * width)
        reads = sorted({f"f{draw.choice(above)}" for _ in range(2)}) if layer else ["f"]
        lines.append(
            f"  t{i}: {{command: x, reads: [{', '.join(reads)}], writes: [f{i}], "
            f"run_time: {{{times(draw)}}}}}"
        )
    flow = parse("\n".join(lines), name="made.yaml")
    return Problem(
        workflow=flow,
        runs=Learned(tables={}, fits={}, near={}),
        transfers=Copies(flow=flow, measured=lambda *ends: transfer_time([], *ends, now_s=NOW)),
        free={
            place: profile([(NOW, NODES // 2), (NOW + 600, NODES // 2)]) for place in flow.places
        },
        now_s=NOW,
    )


def times(draw: random.Random) -> str:
    """Run times by Amdahl's law with a cost for each node, on 1 to 16 nodes."""
    work, serial = draw.uniform(200, 5000), draw.uniform(0.02, 0.3)
    known = {n: work * (serial + (1 - serial) / n) + n for n in (1, 2, 4, 8, 16)}
    return ", ".join(f"{nodes}: {time_s:.1f}" for nodes, time_s in known.items())


if __name__ == "__main__":
    main()
