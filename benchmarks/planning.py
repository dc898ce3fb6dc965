"""How good plans of large workflows are, and how long one takes to make, beside the usual rules.

Workflows are made up: layers of tasks that pass files on, three partitions with a storage each.
Peers in the same run: HEFT (each task where it ends first), everything on its fastest and on its
cheapest option.  Makespans and node-hours are ratios to the plan of the same target.

Small workflows are planned exactly and by the rules for large ones, too, and held against the best
of all plans: every order of the tasks with every choice for each.
"""

import random
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import permutations, product
from math import inf
from operator import attrgetter
from statistics import fmean
from typing import Any

import _bench

from predictor.forecasts.transfer_time import transfer_time
from slurm_plugin.experiments.plan.options import Choices, choices
from slurm_plugin.experiments.plan.plan_search import exact, fixed, heft, heuristic, score, search
from slurm_plugin.experiments.plan.run_times import Copies, LearnedRunTimes
from slurm_plugin.experiments.plan.schedule import PlanningProblem, PlanSchedule, build
from slurm_plugin.experiments.plan.workflow_file import parse
from slurm_plugin.slurm.node_pool import profile

NOW = 1_795_000_000.0
NODES = 64
#: Name, widest layer as a share of all tasks.
SHAPES = {"wide": 0.2, "narrow": 0.02}
#: Tasks of a workflow all of whose plans are looked at, and choices for each of them.
_TASKS, _EACH = 4, 5


def main() -> None:
    """Make workflows, plan them, print."""
    args = _bench.options(__doc__).parse_args()
    sizes = [100] if args.quick else [100, 300, 1000]
    rows = [row for tasks in sizes for shape in SHAPES for row in measure(tasks, shape)]
    _bench.table(rows, title="Plans")
    small = optima(3 if args.quick else 40)
    _bench.table(small, title="Small plans beside the best of all")
    _bench.write(args.json, plans=rows, optima=small)


def all_least(cost: str) -> Callable[[PlanningProblem, Choices], PlanSchedule | None]:
    """Plan with the option of the least cost for each task."""

    def plan(problem: PlanningProblem, all_of: Choices) -> PlanSchedule | None:
        least = {task: min(own, key=attrgetter(cost)) for task, own in all_of.items()}
        return fixed(problem, all_of, least)

    return plan


def optima(cases: int) -> list[dict[str, Any]]:
    """How often each way finds the best of all plans of small workflows, and what it takes."""
    ways: dict[str, Callable[[PlanningProblem, Choices, float], Any]] = {
        "all plans": best_of_all,
        "branch and bound": exact,
        "as large workflows are": heuristic,
        "HEFT": lambda problem, all_of, _: heft(problem, all_of),
    }
    result: dict[tuple[str, str], list[tuple[bool, float, float]]] = defaultdict(list)
    for case in range(cases):
        problem = made(random.Random(case), _TASKS, 2)
        all_of = {task: own[:: max(1, len(own) // _EACH)] for task, own in choices(problem).items()}
        fast = best_of_all(problem, all_of, NOW)
        targets = {"fastest": NOW, "in 1.5 times that": NOW + 1.5 * (fast.end_s - NOW)}
        for name, target_s in targets.items():
            best = best_of_all(problem, all_of, target_s)
            for way, plan in ways.items():
                schedule, took_s = timed(partial(plan, problem, all_of, target_s))
                hit = score(schedule, target_s)[:2] == score(best, target_s)[:2]
                result[name, way].append((hit, worse(schedule, best, target_s), took_s))
    return [
        {
            "target": name,
            "plan by": way,
            "workflows": len(hits),
            "optimal share": fmean(hit for hit, _, _ in hits),
            "times the best, mean": fmean(times for _, times, _ in hits),
            "worst": max(times for _, times, _ in hits),
            "mean s": fmean(took_s for _, _, took_s in hits),
        }
        for (name, way), hits in result.items()
    ]


def worse(schedule: PlanSchedule, best: PlanSchedule, target_s: float) -> float:
    """How many times the best one's makespan, or its node-hours where both are in time."""
    if max(schedule.end_s, best.end_s) > target_s:
        return (schedule.end_s - NOW) / (best.end_s - NOW)
    return schedule.node_s / best.node_s


def best_of_all(problem: PlanningProblem, all_of: Choices, target_s: float) -> PlanSchedule:
    """Look at every order of the tasks with every choice for each."""
    before = problem.workflow.before
    options = [[one.option for one in own] for own in all_of.values()]
    best: PlanSchedule | None = None
    for order in permutations(all_of):
        place = {name: at for at, name in enumerate(order)}
        if any(place[one] > place[name] for name in order for one in before[name]):
            continue
        for chosen in product(*options):
            schedule = build(problem, order, dict(zip(all_of, chosen, strict=True)))
            if schedule and (not best or score(schedule, target_s) < score(best, target_s)):
                best = schedule
    assert best is not None
    return best


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
    rules = {"HEFT": heft, "all fastest": all_least("time_s"), "all cheapest": all_least("node_s")}
    for name, rule in rules.items():
        schedule, took_s = timed(lambda rule=rule: rule(problem, all_of))  # type: ignore[misc]
        rows.append(row(tasks, shape, name, schedule, fast, took_s))
    return rows


def timed(plan: Callable[[], Any]) -> tuple[PlanSchedule, float]:
    """Plan and how long it took to make."""
    began = time.perf_counter()
    result = plan()
    return getattr(result, "schedule", result), time.perf_counter() - began


def row(
    tasks: int, shape: str, name: str, schedule: PlanSchedule, fast: PlanSchedule, took_s: float
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


def made(draw: random.Random, tasks: int, width: int) -> PlanningProblem:
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
    return PlanningProblem(
        workflow=flow,
        runs=LearnedRunTimes(tables={}, fits={}, near={}),
        transfers=Copies(flow=flow, measured=lambda *ends: transfer_time([], *ends, now_s=NOW)),
        free={
            place: profile([(NOW, NODES // 2), (NOW + 600, NODES // 2)]) for place in flow.places
        },
        now_s=NOW,
    )


def times(draw: random.Random) -> str:
    """Run times by Amdahl's law with a cost for each node, on 1 to 16 nodes."""
    work, serial = draw.uniform(200, 5000), draw.uniform(0.02, 0.3)
    recorded = {n: work * (serial + (1 - serial) / n) + n for n in (1, 2, 4, 8, 16)}
    return ", ".join(f"{nodes}: {time_s:.1f}" for nodes, time_s in recorded.items())


if __name__ == "__main__":
    main()
