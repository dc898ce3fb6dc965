"""Logs of sites that do not exist, from fixed seeds: for choices that no archived log may make."""

from math import pi, sin
from typing import NamedTuple

import numpy as np

from slurm_plugin.replay.workload import Workload

_NODES = (64, 128, 256, 512)
_USERS = 40
_DAY_S = 86_400.0


class _Application(NamedTuple):
    nodes: int
    log_run_s: float  #: median of the run times, logarithm
    spread: float
    slack: float  #: the limit as a multiple of a long run


class _Job(NamedTuple):
    submit_s: float
    user: str
    nodes: int
    run_s: float
    limit_s: float


def generated_site(seed: int, jobs: int) -> Workload:
    """Make a log: users with a few applications each come in sessions, by day more than by night.

    Node counts and run times are log-normal; one job in ten fails within a minute; limits are
    round and generous.
    """
    rng = np.random.default_rng(100 + seed)
    nodes = _NODES[seed % len(_NODES)]
    applications = [
        [_application(rng, nodes) for _ in range(rng.integers(1, 6))] for _ in range(_USERS)
    ]
    weight = 1 / np.arange(1, _USERS + 1)
    made: list[_Job] = []
    now_s = 0.0
    while len(made) < jobs:
        now_s += rng.exponential(600.0)
        if rng.random() > _activity(now_s):
            continue
        user = int(rng.choice(_USERS, p=weight / weight.sum()))
        own = applications[user]
        made += _session(rng, now_s, f"u{user}", own[rng.integers(len(own))])
    made = sorted(made)[:jobs]
    return Workload(
        submit_s=np.array([one.submit_s for one in made]),
        nodes=np.array([one.nodes for one in made]),
        run_s=np.array([one.run_s for one in made]),
        limit_s=np.array([one.limit_s for one in made]),
        wait_s=np.zeros(jobs),
        users=tuple(one.user for one in made),
        cluster_nodes=nodes,
    )


def _application(rng: np.random.Generator, nodes: int) -> _Application:
    size = round(2 ** rng.normal(0.35 * np.log2(nodes), 1.8))
    return _Application(
        nodes=min(max(size, 1), nodes),
        log_run_s=rng.normal(6.8, 2.0),
        spread=rng.uniform(0.2, 1.2),
        slack=rng.choice([1.5, 3.0, 6.0, 12.0]),
    )


def _activity(now_s: float) -> float:
    """Give the share of sessions that begin, by the hour and the day of the week."""
    hour, day = now_s / 3600 % 24, int(now_s / _DAY_S) % 7
    by_hour = 0.2 + 0.8 * max(0.0, sin((hour - 7) / 14 * pi))
    return by_hour * (0.5 if day >= 5 else 1.0)


def _session(rng: np.random.Generator, now_s: float, user: str, one: _Application) -> list[_Job]:
    made = []
    for _ in range(rng.geometric(0.3)):
        run_s = float(np.clip(rng.lognormal(one.log_run_s, one.spread), 5.0, 2 * _DAY_S))
        if rng.random() < 0.1:
            run_s = float(rng.uniform(1.0, 60.0))
        long_s = min(np.exp(one.log_run_s + one.spread) * one.slack, 3 * _DAY_S)
        limit_s = max(np.ceil(long_s / 900) * 900, 900.0)
        made.append(_Job(now_s, user, one.nodes, round(min(run_s, limit_s)) + 1.0, limit_s + 1.0))
        now_s += rng.exponential(300.0)
    return made
