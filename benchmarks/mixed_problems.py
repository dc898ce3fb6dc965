"""Users run larger problems on more nodes: what a change of nodes is worth then.

From each measured scaling curve an application with problems of five sizes is made: size s on n
nodes takes T(n/s). Its users ask for n0 nodes that grow with s, as s^gamma; the size is unseen,
but for the memory that the accounting measures afterwards. Sixty jobs run as asked; then sixty
more may have n0/4 to 4 n0 nodes. A job costs T (1 + q n/N), its turnaround. Figures are costs
over the best count's of that very problem. Methods: as asked, the cheapest by the curve through
the runs as they were, and NIMO, whose product ingests each run, refits and decides.
"""

import math
import random
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import _bench
from _one_application import Application, Curve, Outcome, curves, figures, outcome, truth

from predictor.table import at, covers

SIZES, HISTORY, JOBS, LAST, SIGMA = (0.25, 0.5, 1, 2, 4), 60, 60, 20, 0.05
QUEUES = (1, 4, 16)
METHODS = ("as asked", "curve", "nimo")
_GIB = 2**30


def main() -> None:
    """Run each application, and print."""
    parser = _bench.options(__doc__, data="scaling curves, as CSV (required)")
    parser.add_argument("--gamma", type=float, default=0.8, help="n0 ~ s^gamma (default 0.8)")
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    args = parser.parse_args()
    given = curves(args.data, least=5, span=16) if args.data else []
    given = given[:: 12 if args.quick else 1]
    rows = []
    with ProcessPoolExecutor(args.workers) as pool:
        for q in QUEUES:
            work = partial(jobs, q=q, gamma=args.gamma)
            made = list(pool.map(work, given, range(len(given))))
            for method in METHODS if made else ():
                row = figures([one[method] for one in made], "last 20", LAST)
                rows.append({"q": q, "method": method, **row})
    _bench.table(rows, title=f"Mixed problems, {len(given)} applications, gamma {args.gamma:g}")
    _bench.write(args.json, mixed_problems=rows, gamma=args.gamma)


def jobs(curve: Curve, seed: int, *, q: float, gamma: float) -> dict[str, list[Outcome]]:
    """Give the outcome of each job of an application that may change, by method."""
    rng, time_s = random.Random(seed), truth(curve)
    low, high = math.ceil(math.log2(min(curve))), math.floor(math.log2(max(curve)))
    counts = [2**k for k in range(low, high + 1)]
    middle, nodes = math.sqrt(min(curve) * max(curve)), 2 * max(curve)
    app = Application(nodes)

    def job() -> tuple[float, int]:
        size = rng.choice(SIZES)
        wanted = middle * size**gamma * rng.choice((0.7, 1, 1.4))
        return size, min(counts, key=lambda n: abs(math.log(n / wanted)))

    def ran(size: float, n: int, asked: int, **more: Any) -> None:
        run_s = time_s(n / size) * math.exp(rng.gauss(0, SIGMA))
        memory = round(64 * _GIB * size * math.exp(rng.gauss(0, 0.1)))
        app.ran(n, run_s, (asked, asked), asked, mem_bytes=memory, **more)

    def wait_s(n: int, *, size: float) -> float:
        return q * n / nodes * time_s(n / size)

    for _ in range(HISTORY):
        size, asked = job()
        ran(size, asked, asked)
    app.refit()
    curve_table, made = app.table, dict[str, list[Outcome]]({one: [] for one in METHODS})
    assert curve_table is not None
    for number in range(1, JOBS + 1):
        size, asked = job()
        fewest, most = max(asked // 4, counts[0]), min(4 * asked, counts[-1])
        costs = {n: time_s(n / size) + wait_s(n, size=size) for n in range(fewest, most + 1)}
        covered = [n for n in costs if covers(curve_table, n)]
        by_curve = min(covered, key=lambda n: at(curve_table, n).time_s * (1 + q * n / nodes))
        decided = app.decide(fewest, most, asked, (asked, asked), partial(wait_s, size=size))
        n = decided.chosen.nodes if decided and decided.chosen else asked
        made["as asked"].append(outcome(costs, asked, asked))
        made["curve"].append(outcome(costs, by_curve, asked))
        learned = bool(decided and decided.learns)
        made["nimo"].append(outcome(costs, n, asked, learned=learned))
        ran(size, n, asked, decided=decided)
        app.refit(job=number)
    return made


if __name__ == "__main__":
    main()
