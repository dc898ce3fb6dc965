"""How fast histories are replayed, rigid and under the policy.

Without ``--data`` the log is generated; with it a log in the Standard Workload Format is read
(KTH-SP2 of the Parallel Workloads Archive is the one whose slowdowns are published: EASY 92.6,
SJBF 69.4, clairvoyant SJBF 49.85).  ``CPU ratio`` is CPU time over that of the rigid replay of the
same jobs in the same run.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import _bench
import numpy as np
from _disturbances import disturbance_rows
from _generated_sites import generated_site
from history_accuracy import made_runs
from msgspec.structs import replace as replace_fields

from predictor.tables.settings import TableSettings
from predictor.waits.easy import Engine, JobShape, Order, ReplaySchedule
from sacct_ingest.ingest.into_store import ingest
from sacct_ingest.sources.saved import SavedSacct, cluster_nodes
from sacct_ingest.store import Store
from slurm_plugin.config import settings as config
from slurm_plugin.decision.allowed_counts import PolicySettings
from slurm_plugin.replay.measures import compare, guard_held, measure
from slurm_plugin.replay.soft_limits import QUANTILES, replay_limits, suggested
from slurm_plugin.replay.what_if import WhatIf
from slurm_plugin.replay.workload import Assumptions, Workload, assume

SHARES = (0.5, 1.0)
#: Of the users' limits and then NIMO's quantiles: 85 %.
_DEFAULT_ROW = 1 + QUANTILES.index(0.85)
#: Schedules with small changes, of which the worst is what chance does.
_DISTURBED = 10
LOADS = (0.3, 0.5, 0.7, 0.85, 0.95)


def archived(path: Path) -> Workload:
    """Read a log as ``nimo replay`` does: through ingest, on the nodes that its header names."""
    store = Store.open("sqlite://")
    ingest(store, SavedSacct(path, cluster="replay"), now_s=0)
    rows = store.runs.started(cluster="replay", partition=None, since_s=None, until_s=None)
    return replace(Workload.of(rows, cluster_nodes=cluster_nodes(path) or None), runs=())


def limit_rows(path: Path | None, log: str, count: int) -> list[dict[str, Any]]:
    """Replay a log with limits to plan with, as ``nimo replay --limits`` does."""
    store = Store.open("sqlite://")
    source = SavedSacct(path, cluster="replay") if path else None
    if source:
        ingest(store, source, now_s=0)
    else:
        store.runs.add(made_runs(count))
    rows = list(store.runs.started())
    work = Workload.of(rows, cluster_nodes=(cluster_nodes(path) or None) if path else None)
    figures = replay_limits(work, config.Config(), TableSettings(), lambda _: None)
    best = suggested(figures)
    return [
        {
            "log": log,
            "method": one.method,
            "quantile": one.quantile,
            "wait": one.wait,
            "slowdown": one.slowdown,
            "twice slower %": 100 * one.twice_slower,
            "twice faster %": 100 * one.twice_faster,
            "extended %": 100 * one.extended,
            "suggested": one is best,
        }
        for one in figures
    ]


def first_jobs(workload: Workload, count: int) -> Workload:
    """Take the first jobs of a log."""
    return replace(
        workload,
        submit_s=workload.submit_s[:count],
        nodes=workload.nodes[:count],
        run_s=workload.run_s[:count],
        limit_s=workload.limit_s[:count],
        wait_s=workload.wait_s[:count],
        users=workload.users[:count],
    )


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


def policy_rows(
    workload: Workload,
    variants: Mapping[str, config.Policy],
    assumed: Assumptions,
    *,
    load: float,
    rigid_cpu_s: float,
) -> list[dict[str, Any]]:
    """Replay one load under several settings of the policy, against as asked."""
    what_if = WhatIf(workload, assume(workload, assumed))
    as_asked = what_if.rigid()
    by_chance = [
        compare(workload, as_asked, what_if.disturbed(seed=seed), ~what_if.moldable)
        for seed in range(_DISTURBED)
    ]
    common = {
        "load": load,
        "moldable": assumed.share,
        "choice": assumed.seed,
        "rigid > 2 times by chance %": 100 * by_chance[0].much_worse,
        "rigid slowdown by chance": max(one.slowdown[1] for one in by_chance),
        "rigid response by chance": max(one.response_ratio for one in by_chance),
    }
    return [
        common | {"settings": name} | _came(what_if, as_asked, policy, rigid_cpu_s)
        for name, policy in variants.items()
    ]


def _came(
    what_if: WhatIf, as_asked: ReplaySchedule, policy: config.Policy, rigid_cpu_s: float
) -> dict[str, Any]:
    """Say what came of one setting; nothing of rigid jobs where there are none."""
    workload, moldable = what_if.workload, what_if.moldable
    run = timed(lambda: what_if.under(PolicySettings(policy, config.Deadline())))
    made = run.made
    result = compare(workload, as_asked, made.schedule)
    others = compare(workload, as_asked, made.schedule, None if moldable.all() else ~moldable)
    held = guard_held(
        workload,
        as_asked,
        made.schedule,
        made.moved,
        ratio=policy.guard_ratio,
        allowance_s=policy.guard_s,
    )
    row = {
        "CPU s": run.cpu_s,
        "CPU ratio": run.cpu_s / rigid_cpu_s,
        "response": result.response_ratio,
        "slowdown before": result.slowdown[0],
        "slowdown": result.slowdown[1],
        "> 2 times %": 100 * result.much_worse,
        "< half %": 100 * result.much_better,
        "guard kept %": 100 * held,
    }
    rigid = {
        "rigid response": others.response_ratio,
        "rigid slowdown before": others.slowdown[0],
        "rigid slowdown": others.slowdown[1],
        "rigid > 2 times %": 100 * others.much_worse,
        "rigid < half %": 100 * others.much_better,
    }
    return row | (dict.fromkeys(rigid) if moldable.all() else rigid)


def _variants(texts: Iterable[str]) -> dict[str, config.Policy]:
    """Read settings as ``guard_wait=0,price=16``; the default comes first."""
    made = {"default": config.Policy()}
    for text in texts:
        pairs = (one.split("=") for one in text.split(","))
        made[text] = replace_fields(config.Policy(), **{name: float(n) for name, n in pairs})
    return made


def _options() -> argparse.ArgumentParser:
    parser = _bench.options(str(__doc__), data="log in the Standard Workload Format")
    add = parser.add_argument
    add("--site", type=int, default=1, metavar="SEED", help="without --data: generate this site")
    add("--load", type=float, action="append", metavar="LOAD", help="only this load; repeatable")
    add("--moldable", type=float, action="append", metavar="SHARE", help="only this share")
    add("--choice", type=int, action="append", metavar="SEED", help="which jobs are moldable")
    add(
        "--policy",
        action="append",
        default=[],
        metavar="NAME=VALUE,...",
        help="settings to replay beside the default ones; repeatable",
    )
    add("--limits", action="store_true", help="limits to plan with instead of the policy")
    add("--jobs", type=int, metavar="COUNT", help="only the first jobs of the log")
    return parser


def main() -> None:
    """Run it."""
    args = _options().parse_args()
    if args.limits:
        log = args.data.name if args.data else "generated log"
        rows = limit_rows(args.data, log, args.jobs or (1_500 if args.quick else 5_000))
        _bench.table(rows, title="Limits to plan with, over the users' limits")
        # Of NIMO's quantiles the one that it suggests, or else its default.
        chosen = next((r for r in rows if r["suggested"]), None) or rows[_DEFAULT_ROW]
        kept = [row for row in rows if row["method"] != "nimo" or row is chosen]
        _bench.write(args.json, limits=kept, quantiles=rows)
        return
    count = args.jobs or (4_000 if args.quick else 28_000)
    workload = archived(args.data) if args.data else generated_site(args.site, count)
    workload = first_jobs(workload, args.jobs) if args.jobs else workload
    rigid = rigid_rows(workload)
    _bench.table(rigid, title=f"As asked, {workload.cluster_nodes} nodes, load {workload.load:.2f}")
    changes, under = [], []
    for load in args.load or ([0.7] if args.quick else LOADS):
        scaled = workload.at_load(load)
        as_asked = WhatIf(scaled, [None] * len(scaled)).rigid()
        changes += disturbance_rows(scaled, as_asked, load=load)
        for share, seed in product(args.moldable or SHARES, args.choice or [1]):
            assumed = Assumptions(share=share, seed=seed)
            policies, cpu_s = _variants(args.policy), rigid[0]["CPU s"]
            under += policy_rows(scaled, policies, assumed, load=load, rigid_cpu_s=cpu_s)
    _bench.table(changes, title="Without a policy: small changes, and the jobs not changed")
    _bench.table(under, title="Under the policy, against as asked")
    large: list[dict[str, Any]] = []
    if not (args.quick or args.load or args.jobs):
        large = rigid_rows(repeated(workload, -(-1_000_000 // len(workload))), orders=1)
        _bench.table(large, title="A million jobs")
    _bench.write(args.json, rigid=rigid, changes=changes, policy=under, million=large)


if __name__ == "__main__":
    main()
