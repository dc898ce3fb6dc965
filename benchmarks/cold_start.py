"""What a site gains from an application that never ran: twenty jobs of one problem, from nothing.

Each job may have any count of a measured scaling curve. It costs T(n) (1 + q n/N), N twice the
largest count, which is its turnaround: the wait is q n/N T(n). Figures are costs over the least,
means over the curves. Methods: the count that Slurm gives on an idle cluster (the most), the
middle of the range, and NIMO. The product ingests each run, refits and decides.

Beside that: a study of each curve by ``nimo scale``, its runs, node-hours and n T^2 over the least.
"""

import math
import random
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import _bench
from _one_application import Application, Curve, Outcome, curves, figures, outcome, truth
from scaling_study import studied

JOBS, LAST = 20, 10
QUEUES, NOISES = (1, 4, 16), (0.03, 0.3)
METHODS = ("most", "as asked", "nimo")


def main() -> None:
    """Run each curve from nothing, and print."""
    parser = _bench.options(__doc__, data="scaling curves, as CSV (required)")
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    args = parser.parse_args()
    given = curves(args.data or Path(), least=5) if args.data else []
    given = given[:: 12 if args.quick else 1]
    rows = []
    with ProcessPoolExecutor(args.workers) as pool:
        for q in QUEUES[1:2] if args.quick else QUEUES:
            for sigma in NOISES:
                for method in METHODS:
                    work = partial(jobs, q=q, sigma=sigma, method=method)
                    made = list(pool.map(work, given, range(len(given))))
                    if made:
                        rows.append(_row(made, q=q, sigma=sigma, method=method))
    _bench.table(rows, title=f"Cold start, {len(given)} curves")
    study = [studied(given, sigma) for sigma in NOISES] if given else []
    _bench.table(study, title="A study by nimo scale")
    _bench.write(args.json, cold_start=rows, study=study)


def _row(made: list[list[Outcome]], **setting: Any) -> dict[str, Any]:
    return {**setting, **figures(made, "last ten", LAST)}


def jobs(curve: Curve, seed: int, *, q: float, sigma: float, method: str) -> list[Outcome]:
    """Give the outcome of each job of an application."""
    rng, time_s = random.Random(seed), truth(curve)
    low, high = min(curve), max(curve)
    nodes = 2 * high

    def wait_s(n: int) -> float:
        return q * n / nodes * time_s(n)

    costs = {n: time_s(n) + wait_s(n) for n in range(low, high + 1)}
    middle = round(math.sqrt(low * high))
    if method != "nimo":
        return [outcome(costs, high if method == "most" else middle, high)] * JOBS
    app, made = Application(nodes), []
    for job in range(1, JOBS + 1):
        decided = app.decide(low, high, high, (low, high), wait_s)
        n = decided.chosen.nodes if decided and decided.chosen else high
        made.append(outcome(costs, n, high, learned=bool(decided and decided.learns)))
        app.ran(n, time_s(n) * math.exp(rng.gauss(0, sigma)), (low, high), high, decided=decided)
        app.refit(job=job)
    return made


if __name__ == "__main__":
    main()
