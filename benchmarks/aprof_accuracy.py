"""aprof's errors as its paper measures them, on a real program here and on two simulated clusters.

Sadjadi et al. (2008), sections 5 and 6: run times at CPU limits of 100, 80, 60, 40, 30, 20 and 10 %
on each node count; within a cluster each run is predicted from the others of the same cluster,
across clusters from all runs of the other one.

The real program (``_limited.py``) runs on this machine's cores, which stand for nodes.  The two
simulated clusters are GCB with 7 nodes and Mind with 15.  The truth there is like WRF's, and not of
aprof's form: T = set-up/speed + work/(nodes·speed) + halo·sqrt(nodes)⁻¹ + collective·log2(nodes) +
input, where ``speed`` is what the node does of the work under its limit.  cpulimit takes 2 % of a
limited CPU, run times vary by 3 % (log-normal).  Mind's clock is 1.35 times GCB's, and each of its
cycles does 1.12 times as much: a benchmark shows that, the clock does not.

Peers in the same run: aprof as published (ordinary least squares, all four terms, clock), Amdahl's
law for each cluster that knows nothing of the limit, and Amdahl's law scaled by the clock.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, median

import _bench
import _limited
import numpy as np

from predictor.node_types.product_form import ProductForm, Sums

LIMITS = (100, 80, 60, 40, 30, 20, 10)
PAPER = {
    "within GCB": (5.34, 5.86),
    "within Mind": (5.66, 3.80),
    "GCB to Mind": (9.97, 5.86),
    "Mind to GCB": (5.83, 4.13),
}


@dataclass(frozen=True)
class Observed:
    """One run: ``cpu`` is the benchmark's figure times the limit, ``clock`` that of the clock."""

    nodes: int
    cpu: float
    clock: float
    time_s: float


Predict = Callable[[Observed], float]
Method = Callable[[Sequence[Observed]], Predict]


def _aprof(figure: str, *, relative: bool, select: bool) -> Method:
    def learn(runs: Sequence[Observed]) -> Predict:
        given = [({"nodes": r.nodes, "cpu": getattr(r, figure)}, r.time_s) for r in runs]
        sums = Sums.none(("nodes", "cpu"), relative=relative).add_all(given)
        fit = ProductForm(select=select).fit(sums)
        return lambda run: fit.predict({"nodes": run.nodes, "cpu": getattr(run, figure)}).time_s

    return learn


def _amdahl(power: float) -> Method:
    """T·clock^power = a + b/nodes, by least squares of relative errors."""

    def learn(runs: Sequence[Observed]) -> Predict:
        scaled = np.array([r.time_s * r.clock**power for r in runs])
        rows = np.array([[1.0, 1 / r.nodes] for r in runs]) / scaled[:, None]
        result = np.linalg.lstsq(rows, np.ones(len(runs)), rcond=None)[0]
        return lambda run: float(result @ [1.0, 1 / run.nodes]) / run.clock**power

    return learn


METHODS: dict[str, Method] = {
    "aprof": _aprof("cpu", relative=True, select=True),
    "aprof as published": _aprof("clock", relative=False, select=False),
    "Amdahl a cluster": _amdahl(0.0),
    "Amdahl by clock": _amdahl(1.0),
}


def errors(learn: Method, pairs: Sequence[tuple[Sequence[Observed], Observed]]) -> list[float]:
    """Relative errors in percent; a prediction that cannot be made is wholly wrong."""
    result = []
    for train, run in pairs:
        try:
            result.append(100 * abs(learn(train)(run) / run.time_s - 1))
        except ValueError:
            result.append(100.0)
    return result


def within(runs: Sequence[Observed]) -> list[tuple[Sequence[Observed], Observed]]:
    """Predict each run from the others."""
    return [([*runs[:i], *runs[i + 1 :]], run) for i, run in enumerate(runs)]


def across(
    source: Sequence[Observed], target: Sequence[Observed]
) -> list[tuple[Sequence[Observed], Observed]]:
    """Predict each run of a cluster from all of another."""
    return [(source, run) for run in target]


def simulated(most: int, clock: float, cycle: float, rng: np.random.Generator) -> list[Observed]:
    """Run a WRF-like application once at each limit and node count."""
    result = []
    for percent in LIMITS:
        share = percent / 100 * (0.98 if percent < 100 else 1.0)
        speed = clock * cycle * share
        for nodes in range(1, most + 1):
            true_s = 60 / speed + 1500 / (nodes * speed) + 12 / nodes**0.5
            true_s += 5 * np.log2(nodes) + 8
            time_s = float(true_s * rng.lognormal(0, 0.03))
            result.append(
                Observed(nodes, clock * cycle * percent / 100, clock * percent / 100, time_s)
            )
    return result


def simulations(repeats: int) -> dict[str, dict[str, list[float]]]:
    """Errors of each method in each of the paper's four tests."""
    result: dict[str, dict[str, list[float]]] = {t: {m: [] for m in METHODS} for t in PAPER}
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        gcb, limit = simulated(7, 1.0, 1.0, rng), simulated(15, 1.35, 1.12, rng)
        tests = (within(gcb), within(limit), across(gcb, limit), across(limit, gcb))
        for test, pairs in zip(PAPER, tests, strict=True):
            for name, method in METHODS.items():
                result[test][name] += errors(method, pairs)
    return result


def measured(*, quick: bool) -> list[Observed]:
    """Run the real program at each limit on each number of cores, the faster of two runs."""
    size = {"rows": 300, "sweeps": 60 if quick else 300}
    limits = (100, 60, 30) if quick else LIMITS
    result = []
    for percent in limits:
        for nodes in range(1, (2 if quick else 4) + 1):
            if _limited.fits(nodes, percent):
                runs = [_limited.run_s(nodes, percent, **size) for _ in range(1 if quick else 2)]
                result.append(Observed(nodes, percent / 100, percent / 100, min(runs)))
    return result


def rows_of(test: str, result: dict[str, list[float]]) -> list[dict[str, object]]:
    """Rows of the table: one for each method."""
    paper = PAPER.get(test)
    rows: list[dict[str, object]] = [
        {"test": test, "method": name, "mean %": mean(e), "median %": median(e), "runs": len(e)}
        for name, e in result.items()
    ]
    if paper:
        rows.append(
            {"test": test, "method": "the paper's aprof", "mean %": paper[0], "median %": paper[1]}
        )
    return rows


def main() -> None:
    """Measure, print beside the paper's figures, write."""
    args = _bench.options(__doc__).parse_args()
    started = time.perf_counter()
    rows = []
    lacking = _limited.missing()
    runs = [] if lacking else measured(quick=args.quick)
    if runs:
        pairs = within(runs)
        real = {name: errors(method, pairs) for name, method in METHODS.items()}
        rows += rows_of("a real program here", real)
    else:
        print(f"the real program is left out: {lacking}")
    for test, result in simulations(1 if args.quick else 10).items():
        rows += rows_of(test, result)
    _bench.table(rows, title="aprof: relative errors")
    print(f"\n{time.perf_counter() - started:.1f} s")
    _bench.write(
        args.json, rows=rows, observed=[[r.nodes, r.cpu, r.time_s] for r in runs], paper=PAPER
    )


if __name__ == "__main__":
    main()
