"""ADEPT's curve fitting against three peers, as in Table 2 of its paper.

For each of two sets of instances of Downey's model ten run times are computed, four of which are
given.  Each method has to find the instance again: A in 1..3000, sigma in 0..3000, T(1) unknown.
All peers minimise the same sum of squared relative errors, with T(1) taken out in closed form.
"""

import time
from collections.abc import Callable
from typing import Any

import _bench
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import differential_evolution, least_squares

from predictor.models.adept import Adept
from predictor.models.downey import max_useful, speedup
from predictor.types import Curve, Point

Floats = NDArray[np.float64]
#: Run times at all ten node counts, and the instance that was found.
Fitted = tuple[Floats, float, float]
Method = Callable[[Floats, Floats, Floats], Fitted]

SETS = {
    "A 400..1000, sigma 0..1": [(400, 0.0), (600, 0.35), (800, 0.7), (1000, 1.0)],
    "A 400..2000, sigma 1.1..12": [(400, 1.1), (900, 4.0), (1500, 8.0), (2000, 12.0)],
}
PAPER_S = {
    "ADEPT": (0.46, 0.48),
    "exhaustive search": (5, 5),
    "differential evolution": (14, 14),  # there: GALib
    "Levenberg-Marquardt": (0.08, 0.07),
}
LAST_A, LAST_SIGMA = 3000.0, 3000.0


def relative_errors(A: float, sigma: float, nodes: Floats, times: Floats) -> Floats:
    """Of the instance with the best T(1)."""
    shape = 1 / speedup(nodes, A, sigma) / times
    return shape * shape.sum() / (shape**2).sum() - 1


def completed(A: float, sigma: float, nodes: Floats, times: Floats, every: Floats) -> Fitted:
    """Run times of an instance, with the best T(1)."""
    shape = 1 / speedup(nodes, A, sigma) / times
    serial = shape.sum() / (shape**2).sum()
    return serial / speedup(every, A, sigma), A, sigma


def adept(nodes: Floats, times: Floats, every: Floats) -> Fitted:
    """All ten targets, with anomalies looked for and reliability judged."""
    points = (Point(int(n), float(t)) for n, t in zip(nodes, times, strict=True))
    fit = Adept().fit(Curve(tuple(points)))
    predicted = [p.time_s for p in fit.predict([int(n) for n in every])]
    result = fit.instance(int(every[-1]))
    return np.array(predicted), result.parallelism, result.sigma


def exhaustive(steps_A: int, steps_sigma: int) -> Method:
    """All combinations on a grid: A in equal steps, sigma in equal steps up to 1, then ratios."""
    low, high = np.linspace(0, 1, steps_sigma // 2), np.geomspace(1, LAST_SIGMA, steps_sigma // 2)

    def method(nodes: Floats, times: Floats, every: Floats) -> Fitted:
        best = (np.inf, 1.0, 0.0)
        for A in np.linspace(1, LAST_A, steps_A):
            for sigmas in (low, high[1:]):
                shape = 1 / _speedups(nodes, A, sigmas) / times
                total = shape.sum(axis=1)
                error = len(nodes) - total**2 / (shape**2).sum(axis=1)
                i = int(error.argmin())
                best = min(best, (float(error[i]), float(A), float(sigmas[i])))
        return completed(best[1], best[2], nodes, times, every)

    return method


def _speedups(nodes: Floats, A: float, sigmas: Floats) -> Floats:
    """Speedup of one A and sigmas of one mode: rows are sigmas."""
    s, n = sigmas[:, None], nodes[None, :]
    if sigmas[-1] > 1:
        return np.where(n <= A + A * s - s, n * A * (s + 1) / (s * (n + A - 1) + A), A)
    first, second = A * n / (A + s / 2 * (n - 1)), A * n / (s * (A - 0.5) + n * (1 - s / 2))
    return np.where(n <= A, first, np.where(n <= 2 * A - 1, second, A))


def genetic(nodes: Floats, times: Floats, every: Floats) -> Fitted:
    """SciPy's genetic algorithm, over logarithms: on plain axes it seldom finds sigma."""

    def error(v: Floats) -> float:
        result = relative_errors(float(np.exp(v[0])), float(np.expm1(v[1])), nodes, times)
        return float((result**2).sum())

    bounds = [(0, np.log(LAST_A)), (0, np.log1p(LAST_SIGMA))]
    done = differential_evolution(error, bounds, seed=1, popsize=50, tol=1e-10, maxiter=1000)
    return completed(float(np.exp(done.x[0])), float(np.expm1(done.x[1])), nodes, times, every)


def levenberg_marquardt(nodes: Floats, times: Floats, every: Floats) -> Fitted:
    """From an arbitrary start, as in the paper: the middle of the bounds."""

    def residuals(v: Floats) -> Floats:
        A, sigma = np.clip(v, [1, 0], [LAST_A, LAST_SIGMA])
        return relative_errors(A, sigma, nodes, times)

    done = least_squares(residuals, [LAST_A / 2, LAST_SIGMA / 2], method="lm", max_nfev=1000)
    A, sigma = np.clip(done.x, [1, 0], [LAST_A, LAST_SIGMA])
    return completed(float(A), float(sigma), nodes, times, every)


def score(method: Method, instances: list[tuple[int, float]], repeats: int) -> dict[str, Any]:
    """Mean time (of the fastest repeat) and worst errors over the instances of one set."""
    seconds, error, error_A, error_sigma, recovered = [], 0.0, 0.0, 0.0, 0
    for A, sigma in instances:
        every = np.geomspace(4, 1.3 * max_useful(A, sigma), 10).round()
        times = 1000 / speedup(every, A, sigma)
        given = [1, 4, 7, 9]
        taken = []
        for _ in range(repeats):
            started = time.perf_counter()
            predicted, fitted_A, fitted_sigma = method(every[given], times[given], every)
            taken.append(time.perf_counter() - started)
        seconds.append(min(taken))
        off = 100 * float(np.abs(predicted / times - 1).max())
        recovered += off < 1
        error = max(error, off)
        error_A = max(error_A, 100 * abs(fitted_A / A - 1))
        error_sigma = max(error_sigma, abs(fitted_sigma - sigma))
    return {
        "ms": 1e3 * float(np.mean(seconds)),
        "recovered": f"{recovered}/{len(instances)}",
        "worst time error %": error,
        "worst A error %": error_A,
        "worst sigma error": error_sigma,
    }


def main() -> None:
    """Run the benchmark."""
    options = _bench.options(__doc__ or "").parse_args()
    steps = (300, 100) if options.quick else (3000, 600)
    methods: dict[str, tuple[Method, int]] = {
        "ADEPT": (adept, 20),
        "exhaustive search": (exhaustive(*steps), 1),
        "differential evolution": (genetic, 1),
        "Levenberg-Marquardt": (levenberg_marquardt, 5),
    }
    figures = {}
    for number, (title, instances) in enumerate(SETS.items()):
        rows = [
            {"method": name}
            | score(method, instances, repeats)
            | {"paper ms": 1e3 * PAPER_S[name][number]}
            for name, (method, repeats) in methods.items()
        ]
        _bench.table(rows, title=title)
        figures[title] = rows
    _bench.write(options.json, sets=figures)


if __name__ == "__main__":
    main()
