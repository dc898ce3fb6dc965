"""How many runs ``nimo scale`` makes, and what the count that it recommends costs over the best.

Reads strong-scaling curves from a CSV with the columns ``source_repo, app, system, problem, unit,
n, runtime_s`` (one row a run; without ``--data`` curves are generated).  A run takes the measured
time of its count, half an hour in the middle, times noise.  Cost is n T(n)².
"""

import math
import random
from collections.abc import Mapping, Sequence
from statistics import fmean, median, quantiles
from typing import Any

import _bench
import _generated
from _one_application import curves

from predictor.sample import Sample
from slurm_plugin.experiments.scale.study import answer_of, fitted, next_count

RUNS, TYPICAL_S, NOISES = 6, 1800.0, (0.03, 0.1, 0.3)


def main() -> None:
    """Make a study of each curve, and print."""
    parser = _bench.options(__doc__ or "", data="scaling curves, as CSV")
    args = parser.parse_args()
    made = _generated.curves(60)
    given: list[Mapping[int, float]] = [
        dict(zip(one.nodes, one.times_s, strict=True)) for one in made
    ]
    given = (curves(args.data) if args.data else given)[:: 6 if args.quick else 1]
    rows = [studied(given, noise) for noise in NOISES]
    _bench.table(rows, title=f"Scaling studies of {len(given)} curves")
    _bench.write(args.json, rows=rows)


def studied(given: Sequence[Mapping[int, float]], noise: float) -> dict[str, Any]:
    """Make a study of each curve: runs and node-hours used, and cost of the count recommended."""
    studies = [_study(curve, noise, random.Random(seed)) for seed, curve in enumerate(given)]
    runs, hours, costs = zip(*studies, strict=True)
    return {
        "noise": noise,
        "runs, median": median(runs),
        "runs, mean": fmean(runs),
        "node-hours, share of all counts'": fmean(hours),
        "cost over the best, median": median(costs),
        "mean": fmean(costs),
        "90 %": quantiles(costs, n=10)[-1],
    }


def _study(
    curve: Mapping[int, float], noise: float, rng: random.Random
) -> tuple[int, float, float]:
    """Give runs made, their node-hours over those of one run on each count, and cost."""
    scale, counts, runs = TYPICAL_S / median(curve.values()), tuple(curve), list[Sample]()
    while len(runs) < RUNS and (chosen := next_count(runs, counts, ())):
        time_s = scale * curve[chosen.count] * math.exp(rng.gauss(0, noise))
        runs.append(Sample(chosen.count, max(1.0, round(time_s))))
    fit = fitted(runs)
    best = answer_of(fit, counts, weak=False).count if fit else counts[-1]
    cost = {n: n * time_s**2 for n, time_s in curve.items()}
    used = sum(run.nodes * run.elapsed_s for run in runs)
    every = sum(n * time_s * scale for n, time_s in curve.items())
    return len(runs), used / every, cost[best] / min(cost.values())


if __name__ == "__main__":
    main()
