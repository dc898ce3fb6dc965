"""What aprof's form with the network is worth, on synthetic node types of unlike CPUs and networks.

T(n) = share/(cpu n) + network part/(network n^.5) + 5 %, with 3 % noise; two runs each on 1, 2, 4
and 8 nodes of the known types, which the next type is predicted from.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import exp, log
from random import Random
from statistics import fmean
from typing import Any

from predictor.node_types.product_form import Sums
from predictor.node_types.ratios import WAYS, ObservedRatios, TypeEvidence, believe, ratio_at
from predictor.node_types.sums import FORMS

NODES, REPEATS = (1, 2, 4, 8), 2
#: Share of an application's work that is the network's, and node types with runs.
SHARES, KNOWN = {"none": 0.0, "half": 0.5, "most": 0.85}, (3, 4, 6)
FORM, WAY = "cpu_network", "aprof, CPU and network"

Figures = Mapping[str, float]


def table(draws: int) -> list[dict[str, Any]]:
    """Mean errors in percent, without the form and with it."""
    rows = []
    for name, share in SHARES.items():
        for known in KNOWN:
            with_it = fmean(_error(share, known, seed) for seed in range(draws))
            with _without():
                without = fmean(_error(share, known, seed) for seed in range(draws))
            rows.append({
                "the network's share": name, "types with runs": known,
                "without the form": without, "with it": with_it,
            })  # fmt: skip
    return rows


@contextmanager
def _without() -> Iterator[None]:
    way = WAYS.pop(WAY)
    try:
        yield
    finally:
        WAYS[WAY] = way


def _error(share: float, known: int, seed: int) -> float:
    draw = Random(seed)
    figures = {
        f"t{number}": {
            "cpu": 1000 * exp(draw.gauss(0, 0.35)),
            "network": 1e9 * exp(draw.gauss(0, 0.6)),
            "memory": 1e10 * exp(draw.gauss(0, 0.3)),
        }
        for number in range(known + 1)
    }
    *names, target = figures
    here = figures[names[0]]

    def time_s(own: Figures, nodes: int) -> float:
        compute = (1 - share) * here["cpu"] / own["cpu"] / nodes
        return 1000 * (compute + share * here["network"] / own["network"] / nodes**0.5 + 0.05)

    ran = {
        name: [
            (n, time_s(figures[name], n) * exp(draw.gauss(0, 0.03)))
            for n in NODES
            for _ in range(REPEATS)
        ]
        for name in names
    }
    mean = {
        name: [fmean(t for n, t in runs if n == one) for one in NODES] for name, runs in ran.items()
    }
    observed = {
        name: ObservedRatios(
            NODES,
            tuple(log(a / b) for a, b in zip(mean[name], mean[names[0]], strict=True)),
            (1e-3,) * len(NODES),
        )
        for name in names[1:]
    }
    evidence = TypeEvidence(
        reference=names[0],
        figures=figures,
        utilisation=[(n, 1000 * (1 - share) / n / time_s(here, n)) for n in NODES],
        sums={name: _sums(figures[name], ran[name]) for name in names},
    )
    said = ratio_at(believe(evidence, observed, target), evidence, target, None, NODES).mean
    truth = [time_s(figures[target], n) / time_s(here, n) for n in NODES]
    return 100 * fmean(abs(exp(one) / true - 1) for one, true in zip(said, truth, strict=True))


def _sums(own: Figures, runs: list[tuple[int, float]]) -> dict[str, Sums]:
    amounts = [({**own, "nodes": float(n), "tasks": 1.0}, t) for n, t in runs]
    there = {"nodes", "tasks", *own}
    return {
        form: Sums.none(needed).add_all(amounts)
        for form, needed in FORMS.items()
        if there.issuperset(needed)
    }
