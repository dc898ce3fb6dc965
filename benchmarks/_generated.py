"""Inputs for benchmarks without measured data: scaling curves and a batch log, from fixed seeds.

They show that a benchmark runs and in which order the methods come.  How accurate predictions are
on real applications and sites, only measured data tells: pass it with ``--data``.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log, log2

from predictor.models.downey import speedup

Law = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class GeneratedCurve:
    """Run times of one law with noise, at rising node counts."""

    family: str
    nodes: tuple[int, ...]
    times_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class GeneratedJob:
    """One job of a generated log; times in seconds, the wait in the queue included in ``end_s``."""

    submit_s: float
    end_s: float
    elapsed_s: float
    limit_s: float
    user: str
    name: str
    nodes: int


def curves(count: int, seed: int = 0) -> list[GeneratedCurve]:
    """Curves of five laws in turn, eight or nine node counts each, with 1 to 5 % of noise.

    The laws: Amdahl's, Downey's (:mod:`predictor.models.downey`), a logarithmic and a linear
    overhead, and data that fit into the caches from some node count on.
    """
    rng = random.Random(seed)
    result = []
    for number in range(count):
        family, make = list(_LAWS.items())[number % len(_LAWS)]
        law, scale = make(rng), exp(rng.uniform(log(30), log(3e4)))
        first, noise = rng.choice((1, 2, 4, 16)), rng.uniform(0.01, 0.05)
        nodes = tuple(first * 2**i for i in range(rng.choice((8, 9))))
        times = (scale * law(n / first) * rng.lognormvariate(0, noise) for n in nodes)
        result.append(GeneratedCurve(family, nodes, tuple(times)))
    return result


def jobs(count: int, seed: int = 0, users: int = 60) -> list[GeneratedJob]:
    """Jobs of ``users`` people with a few applications each, in the order of their submission.

    People come in bursts and mostly repeat what they did last.  An application's run time scatters
    around its own median, now and then fails at once or runs into the limit; limits are round and
    generous (Tsafrir, Etsion and Feitelson, JSSPP 2005, on what users ask for).
    """
    rng = random.Random(seed)
    kinds = {f"user{i}": [_kind(rng) for _ in range(rng.randint(1, 6))] for i in range(users)}
    weight = [1 / (i + 1) for i in range(users)]
    clock = accumulate(rng.expovariate(1 / 200) for _ in range(count))
    last: dict[str, int] = {}
    result = []
    for submit_s in clock:
        (user,) = rng.choices(list(kinds), weight)
        if user not in last or rng.random() < 0.25:
            last[user] = rng.randrange(len(kinds[user]))
        result.append(_job(rng, submit_s, user, kinds[user][last[user]]))
    return result


def _job(rng: random.Random, submit_s: float, user: str, kind: "_Kind") -> GeneratedJob:
    typical = kind.median_s * rng.lognormvariate(0, kind.spread)
    elapsed = rng.uniform(1, 30) if rng.random() < 0.08 else min(typical, kind.limit_s)
    wait = rng.expovariate(1 / 1800)
    end_s = submit_s + wait + elapsed
    return GeneratedJob(submit_s, end_s, elapsed, kind.limit_s, user, kind.name, kind.nodes)


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    nodes: int
    median_s: float
    spread: float
    limit_s: float


def _kind(rng: random.Random) -> _Kind:
    median = exp(rng.uniform(log(60), log(40_000)))
    wished = median * rng.uniform(1.2, 8)
    limit = next((x for x in (900, 3600, 14_400, 43_200, 86_400) if x > wished), 172_800)
    return _Kind(
        f"app{rng.randrange(40)}", 2 ** rng.randrange(7), median, rng.uniform(0.02, 0.6), limit
    )


def _amdahl(rng: random.Random) -> Law:
    serial = exp(rng.uniform(log(1e-3), log(0.2)))
    return lambda x: (1 - serial) / x + serial


def _downey(rng: random.Random) -> Law:
    A, sigma = exp(rng.uniform(log(8), log(300))), rng.choice((0.1, 0.5, 1.0, 2.0))
    return lambda x: 1 / float(speedup(x, A, sigma))


def _tree(rng: random.Random) -> Law:
    serial, cost = exp(rng.uniform(log(1e-3), log(0.05))), exp(rng.uniform(log(1e-4), log(0.02)))
    return lambda x: (1 - serial) / x + serial + cost * log2(x)


def _linear(rng: random.Random) -> Law:
    serial, cost = exp(rng.uniform(log(1e-3), log(0.05))), exp(rng.uniform(log(1e-6), log(1e-3)))
    return lambda x: (1 - serial) / x + serial + cost * (x - 1)


def _cached(rng: random.Random) -> Law:
    serial, fits = exp(rng.uniform(log(1e-3), log(0.05))), rng.uniform(2, 20)
    return lambda x: (1 - serial) / x * (0.8 + 0.2 / (1 + (x / fits) ** 2)) + serial


_LAWS: dict[str, Callable[[random.Random], Law]] = {
    "Amdahl": _amdahl,
    "Downey": _downey,
    "log overhead": _tree,
    "linear overhead": _linear,
    "caches": _cached,
}
