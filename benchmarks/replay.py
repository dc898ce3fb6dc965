"""How fast histories are replayed, rigid and under the policy.

Without ``--data`` the log is generated; with it a log in the Standard Workload Format is read
(KTH-SP2 of the Parallel Workloads Archive is the one whose slowdowns are published: EASY 92.6,
SJBF 69.4, clairvoyant SJBF 49.85).  ``CPU ratio`` is CPU time over that of the rigid replay of the
same jobs in the same run.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import _bench
import numpy as np

from predictor.backfilling import Engine, JobShape, Order, ReplaySchedule
from sacct_ingest.ingest import ingest
from sacct_ingest.sources.saved import SavedSacct, cluster_nodes
from sacct_ingest.store import Store
from slurm_plugin import config
from slurm_plugin.decision.candidates import PolicySettings
from slurm_plugin.replay.assumed_jobs import Assumptions, assume
from slurm_plugin.replay.measures import compare, guard_held, measure
from slurm_plugin.replay.what_if import WhatIf
from slurm_plugin.replay.workload import Workload

SHARES = (0.5, 1.0)


def generated(jobs: int, nodes_in_all: int = 128, load: float = 0.7) -> Workload:
    """Make a log: powers of two, log-normal run times, limits that users round up."""
    rng = np.random.default_rng(1)
    nodes = 2 ** rng.integers(0, 6, jobs)
    run_s = np.clip(rng.lognormal(7.0, 1.8, jobs), 5.0, 86_400.0).round()
    limit_s = np.minimum(np.ceil(run_s * rng.uniform(1.0, 6.0, jobs) / 900) * 900, 172_800.0)
    made = Workload(
        submit_s=np.cumsum(rng.exponential(60.0, jobs)),
        nodes=nodes,
        run_s=run_s,
        limit_s=limit_s,
        wait_s=np.zeros(jobs),
        users=tuple(f"u{n}" for n in rng.zipf(1.5, jobs) % 100),
        cluster_nodes=nodes_in_all,
    )
    return made.at_load(load)


def archived(path: Path) -> Workload:
    """Read a log as ``nimo replay`` does: through ingest, on the nodes that its header names."""
    store = Store.open("sqlite://")
    ingest(store, SavedSacct(path, cluster="replay"), now_s=0)
    rows = store.runs.started(cluster="replay", partition=None, since_s=None, until_s=None)
    return replace(Workload.of(rows, cluster_nodes=cluster_nodes(path) or None), runs=())


def repeated(workload: Workload, times: int) -> Workload:
    """Put a log behind itself again and again."""
    span = float(np.ptp(workload.submit_s)) + 1.0
    return replace(
        workload,
        submit_s=np.concatenate([workload.submit_s + span * n for n in range(times)]),
        nodes=np.tile(workload.nodes, times),
        run_s=np.tile(workload.run_s, times),
        limit_s=np.tile(workload.limit_s, times),
        wait_s=np.tile(workload.wait_s, times),
        users=workload.users * times,
    )


class Timed(NamedTuple):
    """What a replay takes and gives; CPU says on a busy machine what seconds say on an idle one."""

    seconds: float
    cpu_s: float
    made: Any


def timed(replay: Callable[[], Any]) -> Timed:
    """Time one replay."""
    began_s, cpu_s = time.perf_counter(), time.process_time()
    made = replay()
    return Timed(time.perf_counter() - began_s, time.process_time() - cpu_s, made)


def clairvoyant(workload: Workload) -> ReplaySchedule:
    """Shortest first, with limits that are the run times."""
    limits = np.minimum(workload.run_s, workload.limit_s).tolist()
    shapes = list(map(JobShape, workload.nodes.tolist(), limits, workload.run_s.tolist()))
    engine = Engine(workload.cluster_nodes, Order.SHORTEST)
    return engine.run(workload.submit_s.tolist(), lambda job, _: shapes[job])


def rigid_rows(workload: Workload, orders: int = 3) -> list[dict[str, Any]]:
    """Replay as asked, in the first of three orders."""
    none = [None] * len(workload)
    ways = {
        "EASY": WhatIf(workload, none).rigid,
        "EASY, shortest first": WhatIf(workload, none, Order.SHORTEST).rigid,
        "EASY, shortest first, clairvoyant": lambda: clairvoyant(workload),
    }
    rows = []
    for name, way in islice(ways.items(), orders):
        seconds, cpu_s, schedule = timed(way)
        result = measure(workload, schedule)
        rows.append(
            {
                "replay": name,
                "jobs": result.jobs,
                "seconds": seconds,
                "CPU s": cpu_s,
                "CPU us a job": 1e6 * cpu_s / result.jobs,
                "CPU ratio": cpu_s / (rows[0]["CPU s"] if rows else cpu_s),
                "slowdown": result.slowdown,
                "mean response h": result.response_s / 3600,
            }
        )
    return rows


def policy_rows(workload: Workload, rigid_cpu_s: float, loads: list[float]) -> list[dict[str, Any]]:
    """Replay under the policy as it is set by default."""
    rules = PolicySettings(config.Policy(), config.Deadline())
    rows = []
    for load in loads:
        scaled = workload.at_load(load)
        as_asked = WhatIf(scaled, [None] * len(scaled)).rigid()
        unmoved = WhatIf(scaled, [None] * len(scaled))
        by_chance = compare(scaled, as_asked, unmoved.disturbed(seed=0))
        for share in SHARES:
            what_if = WhatIf(scaled, assume(scaled, Assumptions(share=share)))
            run = partial(what_if.under, rules)
            seconds, cpu_s, outcome = timed(run)
            result = compare(scaled, as_asked, outcome.schedule)
            bystanders = compare(scaled, as_asked, outcome.schedule, ~what_if.moldable)
            rows.append(
                {
                    "moldable": share,
                    "load": load,
                    "seconds": seconds,
                    "CPU s": cpu_s,
                    "CPU ratio": cpu_s / rigid_cpu_s,
                    "response": result.response_ratio,
                    "worse off": result.worse_off,
                    "slowdown before": result.slowdown[0],
                    "slowdown": result.slowdown[1],
                    "rigid response": bystanders.response_ratio if share < 1 else None,
                    "rigid slowdown before": bystanders.slowdown[0] if share < 1 else None,
                    "rigid slowdown": bystanders.slowdown[1] if share < 1 else None,
                    "guard kept %": 100
                    * guard_held(
                        scaled,
                        as_asked,
                        outcome.schedule,
                        outcome.moved,
                        ratio=rules.policy.guard_ratio,
                        allowance_s=rules.policy.guard_s,
                    ),
                    "> 2 times %": 100 * result.much_worse,
                    "< half %": 100 * result.much_better,
                    "> 2 times by chance %": 100 * by_chance.much_worse,
                }
            )
    return rows


def main() -> None:
    """Run it."""
    parser = _bench.options(str(__doc__), data="log in the Standard Workload Format")
    args = parser.parse_args()
    workload = archived(args.data) if args.data else generated(4_000 if args.quick else 28_000)
    rigid = rigid_rows(workload)
    _bench.table(rigid, title=f"As asked, {workload.cluster_nodes} nodes, load {workload.load:.2f}")
    loads = [0.7] if args.quick else [0.3, 0.5, 0.7, 0.85, 0.95]
    under = policy_rows(workload, rigid[0]["CPU s"], loads)
    _bench.table(under, title="Under the policy, against as asked")
    large: list[dict[str, Any]] = []
    if not args.quick:
        large = rigid_rows(repeated(workload, -(-1_000_000 // len(workload))), orders=1)
        _bench.table(large, title="A million jobs")
    _bench.write(args.json, rigid=rigid, policy=under, million=large)


if __name__ == "__main__":
    main()
