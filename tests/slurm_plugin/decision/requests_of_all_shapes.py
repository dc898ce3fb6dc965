"""Requests of all shapes from fixed seeds, and the sites that decide on them."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from predictor.memory import Memory
from predictor.prediction_table import Part, PredictionTable, Tail
from predictor.types import Verdict
from sacct_ingest.runs.layout import Layout
from slurm_plugin.config.setting_types import Mode, OnMissed, TimeUse
from slurm_plugin.config.settings import Config, Deadline, ModeRule, OptIn, Policy, TimeLimit
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.cluster_state import Cluster, Partition
from slurm_plugin.slurm.node_pool import NodeGroup, NodePool, profile
from tests.slurm_plugin.made import NOW, amdahl, history, stored, table

#: Requests that one site decides on, one after the other.
EACH = 60
GIB = 1 << 30
USERS = ("alice", "bob")
_SET = TimeLimit(use=TimeUse.SET)
SITES = {
    "enforce": Config(mode=Mode.ENFORCE),
    "enforce, limits": Config(mode=Mode.ENFORCE, time_limit=_SET),
    "enforce, deadlines binding": Config(
        mode=Mode.ENFORCE, deadline=Deadline(missed=OnMissed.REFUSE), time_limit=_SET
    ),
    "enforce, less sure": Config(mode=Mode.ENFORCE, policy=Policy(confidence=0.6)),
    "advise": Config(mode=Mode.ADVISE, time_limit=_SET),
    "observe": Config(mode=Mode.OBSERVE),
    "enforce for some": Config(
        mode=Mode.OBSERVE, rules=[ModeRule(partition="batch", mode=Mode.ENFORCE)]
    ),
    "enforce, only by tag": Config(mode=Mode.ENFORCE, opt_in=OptIn(node_range=False)),
    "off": Config(mode=Mode.OFF),
}


def _tailed(made: PredictionTable) -> PredictionTable:
    times = tuple(1.2 * t for t in made.high_s)
    return replace(made, tails=(Tail(0.9, made.high_s), Tail(0.99, times)))


def tables_of(user: str) -> list[PredictionTable]:
    """Applications of a user: each with another reason to be set or left alone."""
    steep, flat = amdahl(20.0, 20_000.0), amdahl(1800.0, 60.0)
    needs = tuple(Memory(n, 96 * GIB // n) for n in (1, 2, 4, 8, 16))
    kinds = {
        "solve": table(),
        "steep": _tailed(table(steep)),
        "flat": table(flat, knee=2),
        "risky": table(steep, verdict=Verdict.DOUBTFUL),
        "broken": table(steep, verdict=Verdict.REFUSED),
        "large": table(memory=needs, mem_node_bytes=96 * GIB),
        "gpus": table(layout=Layout(gpus=1)),
        "mixed": table(verdict=Verdict.DOUBTFUL, parts=(Part("x", Layout(tasks=4)),)),
        "wide": _tailed(table(amdahl(5.0, 90_000.0), curve_sd=0.05)),
    }
    made = [
        replace(one, key=f"{user}/{name}", label=name, owner=user) for name, one in kinds.items()
    ]
    return [*made, replace(history(), key=f"{user}/once", label="once", owner=user)]


def view() -> Cluster:
    """Three partitions: a free one, a busy one with its nodes one by one, one for some accounts."""
    small = NodeGroup(cpus=16, mem_mib=64_000, steps=((NOW, 16, 64_000, ()),), empty_s=NOW)
    busy = NodeGroup(
        cpus=16,
        mem_mib=128_000,
        features=frozenset({"big"}),
        steps=((NOW + 3600, 16, 128_000, ()),),
        empty_s=NOW + 3600,
    )
    names = {small: tuple(f"s{i}" for i in range(12)), busy: tuple(f"b{i}" for i in range(12))}
    parts = [
        Partition(name="batch", nodes=32, profile=profile([(NOW, 32)]), max_time_s=86_400.0),
        Partition(
            name="busy",
            nodes=24,
            profile=profile([(NOW, 12), (NOW + 3600, 24)]),
            queue=5,
            queue_mean=3.0,
            node_cpus=16,
            node_mem_bytes=64_000 << 20,
            default_time_s=3600.0,
            pool=NodePool(now_s=NOW, groups=names),
        ),
        Partition(
            name="small",
            nodes=4,
            profile=profile([(NOW, 1), (NOW + 900, 4)]),
            max_nodes=4,
            max_time_s=7200.0,
            exclusive=True,
            accounts=frozenset({"physics"}),
        ),
    ]
    return Cluster(
        name="pine",
        taken_s=NOW,
        partitions={part.name: part for part in parts},
        default_partition="batch",
        keeps_limit=True,
    )


def service(config: Config) -> DecisionService:
    """Make a site that counts its decisions."""
    ids = itertools.count(1)
    made = DecisionService(config, new_id=lambda: f"{next(ids):012x}")
    made.tables = stored(*(one for user in USERS for one in tables_of(user)))
    made.cluster = view()
    return made


def requests(seed: int) -> Iterator[Job]:
    """Requests of a site's users, one after the other."""
    random = Random(seed)
    for _ in range(EACH):
        given = _size(random) | _time(random) | _place(random)
        for chance, some in ((0.12, _layout), (0.2, _memory), (0.12, _odd), (0.2, _comment)):
            if random.random() < chance:
                given |= some(random)
        user = random.choice(USERS)
        name = random.choice(APPLICATIONS)
        script = f"#!/bin/sh\nsrun ./{name} input.{random.randrange(3)}\n"
        yield Job(
            user_id=1000 + USERS.index(user),
            user_name=user,
            name=name,
            script=script,
            argv=[f"{name}.sh"],
            **given,
        )


APPLICATIONS = (
    *("solve", "steep", "flat", "risky", "broken", "large", "gpus", "mixed", "wide", "once"),
    "unknown",
)


def _size(random: Random) -> dict[str, Any]:
    low = random.choice((None, 1, 1, 1, 1, 2, 2, 4, 8))
    high = random.choice((None, low, 4, 8, 16, 16, 16, 16, 32, 64))
    if low and high and high < low:
        high = low
    return {"min_nodes": low, "max_nodes": high, "min_cpus": random.choice((1, 1, low, low, 16))}


def _time(random: Random) -> dict[str, Any]:
    limit = random.choice((None, 10, 30, 60, 120, 120, 120, 240, 720, 2880))
    least = random.choice((None, None, None, 5, 15, limit))
    deadline = random.choice((*[""] * 9, "now+1hour", "now+3hours", "now+2days", "nonsense"))
    begin = random.choice((None, None, None, None, None, int(NOW) + 1800))
    return {"time_limit": limit, "time_min": least, "deadline": deadline, "begin_time": begin}


def _place(random: Random) -> dict[str, Any]:
    return {
        "partition": random.choice(("", "", *["batch"] * 4, *["busy"] * 4, "small", "nix"))
        if random.random() < 0.9
        else "batch,busy",
        "account": random.choice(("", "physics", "chemistry")),
        "qos": random.choice(("", "", "", "normal", "high")),
    }


def _layout(random: Random) -> dict[str, Any]:
    return random.choice(
        (
            {"num_tasks": 16},
            {"num_tasks": 64, "min_cpus": 64},
            {"ntasks_per_node": 4, "num_tasks": 8},
            {"ntasks_per_node": 16},
            {"cpus_per_task": 4, "num_tasks": 4},
            {"ntasks_per_socket": 2},
            {"tres_per_node": "gres/gpu:1"},
            {"tres_per_job": "gres/gpu:4"},
            {"tres_per_task": "gres/gpu:1", "num_tasks": 2},
        )
    )


def _memory(random: Random) -> dict[str, Any]:
    return random.choice(
        (
            {"min_mem_per_node": 4096},
            {"min_mem_per_node": 60_000},
            {"min_mem_per_node": 120_000},
            {"min_mem_per_cpu": 2048},
            {"min_mem_per_cpu": 8192},
            {"shared": 0},
            {"shared": 0, "min_mem_per_cpu": 2048},
        )
    )


def _odd(random: Random) -> dict[str, Any]:
    return random.choice(
        (
            {"array_inx": "0-9"},
            {"het_job_offset": 0},
            {"dependency": "afterok:7"},
            {"reservation": "maintenance"},
            {"req_nodes": "s[0-1]"},
            {"exc_nodes": "s[0-3]"},
            {"features": "big"},
            {"features": "none"},
            {"licenses": "matlab:1"},
            {"contiguous": 1},
            {"segment_size": 4},
            {"req_switch": 1},
            {"node_sizes": True},
            {"script_cut": True},
            {"comment": "nimo:estimate"},
        )
    )


def _comment(random: Random) -> dict[str, Any]:
    return {
        "comment": random.choice(
            (
                "nimo:off",
                "nimo:nodes=2-8",
                "nimo:app=steep",
                "nimo:app=steep,problem=a,nodes=1-32",
                "nimo:nodes=nonsense",
                "for the paper",
            )
        )
    }
