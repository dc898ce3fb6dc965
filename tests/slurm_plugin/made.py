"""Tables, clusters and jobs for tests, with what does not matter filled in."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from predictor.prediction_table import PredictionTable, Tail
from predictor.problems import Problem
from predictor.stored_table import encode
from predictor.types import Point, Verdict
from slurm_plugin.config.settings import Config, Policy
from slurm_plugin.decision.allowed_counts import PolicySettings
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.protocol.request_messages import HookLevel, Job
from slurm_plugin.slurm.cluster_state import Cluster, Partition
from slurm_plugin.slurm.node_pool import NodeAvailability, profile

NOW = 1_790_000_000.0


def amdahl(serial_s: float, parallel_s: float) -> Callable[[int], float]:
    return lambda n: serial_s + parallel_s / n


#: T(n) = 100 + 3600/n seconds.
AMDAHL = amdahl(100.0, 3600.0)


def with_tails(low: float, high: float) -> Callable[[PredictionTable], PredictionTable]:
    """Let the two quantiles that limits are made of be so many times the median."""

    def change(recorded: PredictionTable) -> PredictionTable:
        factors = ((0.9, low), (0.99, high))
        tails = [
            Tail(share, tuple(factor * t for t in recorded.median_s)) for share, factor in factors
        ]
        return replace(recorded, tails=tuple(tails))

    return change


def table(
    time_of: Callable[[int], float] = AMDAHL,
    *,
    nodes: Sequence[int] = range(1, 33),
    observed: Sequence[int] = (1, 2, 4, 8, 16),
    spread: float = 1.1,
    curve_sd: float = 0.0,
    verdict: Verdict = Verdict.RELIABLE,
    **fields: Any,
) -> PredictionTable:
    given: dict[str, Any] = {
        "level": "name",
        "key": "alice/solve",
        "label": "solve",
        "model": "amdahl",
        "verdict": verdict,
        "problems": (),
        "nodes": tuple(nodes),
        "median_s": tuple(time_of(n) for n in nodes),
        "low_s": tuple(time_of(n) / spread for n in nodes),
        "high_s": tuple(time_of(n) * spread for n in nodes),
        "curve_sd": tuple(curve_sd for _ in nodes),
        "confidence": 0.9,
        "observed": tuple(Point(n, time_of(n)) for n in observed),
        "knee": 8,
        "max_useful": None,
        "runs": 10,
        "mem_node_bytes": None,
        "fitted_s": NOW - 3600,
        "owner": "alice",
    }
    return PredictionTable(**given | fields)


def stored(*made: PredictionTable, **fields: Any) -> PredictionLookup:
    """Tables as the store gives them."""
    return PredictionLookup(((one.level, one.key, encode(one)) for one in made), **fields)


def history(**fields: Any) -> PredictionTable:
    """One node count, so no curve."""
    problem = Problem("no_curve", "finished runs on 4 nodes only", 8)
    made = table(nodes=[4], observed=[4], model="history", verdict=Verdict.DOUBTFUL)
    return replace(made, **{"problems": (problem,), **fields})


def idle(nodes: int = 32) -> NodeAvailability:
    return profile([(NOW, nodes)])


def partition(free: NodeAvailability | None = None, **fields: Any) -> Partition:
    given: dict[str, Any] = {"name": "batch", "nodes": 32, "profile": free or idle()}
    return Partition(**given | fields)


def cluster(
    part: Partition | None = None, *, taken_s: float = NOW, keeps_limit: bool = True
) -> Cluster:
    part = part or partition()
    return Cluster(
        name="pine",
        taken_s=taken_s,
        partitions={part.name: part},
        default_partition=part.name,
        keeps_limit=keeps_limit,
    )


def thrifty(**settings: Any) -> Config:
    """Settings of a site where node time is dear: of 16 nodes of `table` 10 are chosen."""
    return Config(**{"policy": Policy(saving_weight=20.0), **settings})


def rules(config: Config | None = None) -> PolicySettings:
    config = config or thrifty()
    return PolicySettings.of(config)


def job(**fields: Any) -> Job:
    given: dict[str, Any] = {
        "user_id": 1000,
        "user_name": "alice",
        "name": "solve",
        "min_nodes": 1,
        "max_nodes": 16,
        "min_cpus": 1,
        "time_limit": 120,
        "script": "#!/bin/sh\nsrun ./solve\n",
        "argv": ["solve.sh"],
        "hook": HookLevel.SIZES,
    }
    return Job(**given | fields)
