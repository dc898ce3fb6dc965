"""How long fits take: one curve against its peers, and a store full of curves.

One curve: four to six node counts, repeated runs; ADEPT with its judgement, the whole way from
stored runs to a prediction table, and beside them SciPy's least squares and differential evolution
on the same model, and Extra-P where it is installed.  A store: `nimo fit` the first time, which
makes the records of all curves, with one new run of each, with nothing new, and all anew on 1 and 2
processes and on a Dask cluster of 2 workers on loopback, and whether their tables are the same.
"""

import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import _bench
import dask.config
import numpy as np
from _parametric import AmdahlLog
from distributed import LocalCluster
from scipy.optimize import differential_evolution, least_squares
from threadpoolctl import threadpool_limits

from predictor.models.adept import Adept
from predictor.models.downey import speedup
from predictor.models.selection import fit_curve
from predictor.refit import refit
from predictor.tables.of_curve import grid
from predictor.tables.settings import TableSettings
from predictor.types import Curve, Point
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState
from sacct_ingest.store import Store
from slurm_plugin.cli.dask_pool import WORKER_ENVIRONMENT, dask_pool

try:
    import _extrap
except ImportError:
    _extrap = None

COUNTS = ([1, 2, 4, 8], [2, 4, 8, 16, 32], [1, 2, 3, 4, 6, 8], [4, 16, 32, 64])


def curves(count: int, seed: int = 0) -> list[Curve]:
    """Curves of Amdahl's law with overhead and 3 % noise."""
    rng, result = random.Random(seed), []
    for number in range(count):
        work, rest, cost = rng.uniform(100, 5000), rng.uniform(1, 60), rng.uniform(0, 2)
        times = {n: work / n + rest + cost * np.log2(n) for n in COUNTS[number % len(COUNTS)]}
        points = (
            Point(n, float(t) * rng.lognormvariate(0, 0.03), 3, 0.03) for n, t in times.items()
        )
        result.append(Curve(tuple(points)))
    return result


def runs(count: int, seed: int = 0) -> Iterator[JobRun]:
    """Two runs of each point of ``count`` curves, each an application of its own."""
    number = 0
    for app, curve in enumerate(curves(count, seed)):
        for point in curve.points * 2:
            number += 1
            yield JobRun(
                cluster="bench",
                job_id=number,
                submit_s=1_790_000_000 + 60 * number,
                start_s=1_790_000_000 + 60 * number,
                end_s=1_790_000_000 + 60 * number + round(point.time_s),
                state=JobState.COMPLETED,
                user=f"user{app % 97}",
                name=f"app{app}",
                submit_line=f"sbatch -N {point.nodes} app{app}.sh",
                nodes=point.nodes,
                cpus=32 * point.nodes,
                elapsed_s=round(point.time_s),
            )


def with_adept(curve: Curve) -> None:
    """Anomalies, envelope, judgement, and predictions up to four times the largest observation."""
    Adept().fit(curve).predict(range(1, 4 * curve.points[-1].nodes + 1))


def with_choice(curve: Curve) -> None:
    """Fit the average over shapes and ADEPT as second opinion; a verdict on each observation."""
    choice = fit_curve(curve)
    choice.judge(choice.predict([point.nodes for point in curve.points]))


def whole_table(curve: Curve) -> None:
    """Predict and judge all node counts of a prediction table, as a refit does."""
    choice = fit_curve(curve)
    choice.judge(choice.predict(grid([point.nodes for point in curve.points], TableSettings())))


def with_amdahl_log(curve: Curve) -> None:
    """Fit the simplest form with an overhead."""
    AmdahlLog().fit(curve).predict(range(1, 4 * curve.points[-1].nodes + 1))


def with_least_squares(curve: Curve) -> None:
    """Downey's model by SciPy's trust region method from twelve starts, as is usual."""
    most, serial_s = curve.points[-1].nodes, curve.points[0].nodes * curve.points[0].time_s
    residuals = downey_residuals(curve)
    for A in (most / 2, most, 4 * most, 50 * most):
        for sigma in (0.05, 0.7, 2.0):
            least_squares(residuals, [np.log(A), np.log(sigma), np.log(serial_s)], max_nfev=200)


def with_differential_evolution(curve: Curve) -> None:
    """Downey's model by SciPy's global search, with its own settings."""
    most, serial_s = curve.points[-1].nodes, curve.points[0].nodes * curve.points[0].time_s
    residuals = downey_residuals(curve)
    spans = [(1, 50 * most), (0.01, 10), (serial_s / 2, 2 * serial_s)]
    bounds = [(np.log(low), np.log(high)) for low, high in spans]
    differential_evolution(lambda v: float((residuals(v) ** 2).sum()), bounds, rng=0)


def downey_residuals(curve: Curve) -> Callable[[np.ndarray], np.ndarray]:
    """Relative errors of Downey's model as a function of the logarithms of A, σ and T(1)."""
    n = np.array([float(p.nodes) for p in curve.points])
    t = np.array([p.time_s for p in curve.points])
    # Solvers look beyond what the model allows, too: A is 1 or more.
    return lambda v: np.exp(v[2]) / speedup(n, np.exp(max(v[0], 0.0)), np.exp(v[1])) / t - 1


def with_extrap(curve: Curve) -> None:
    """Extra-P's performance model normal form."""
    assert _extrap is not None
    model = _extrap.fitted([p.nodes for p in curve.points], [p.time_s for p in curve.points])
    for nodes in range(1, 4 * curve.points[-1].nodes + 1):
        model(nodes)


def per_curve(method: Callable[[Curve], None], count: int) -> dict[str, float]:
    """Median and 95th percentile of the milliseconds that one curve takes."""
    sample = curves(count)
    method(sample[0])
    taken = []
    for curve in sample:
        started = time.perf_counter()
        method(curve)
        taken.append(1e3 * (time.perf_counter() - started))
    return {"median ms": float(np.median(taken)), "p95 ms": float(np.quantile(taken, 0.95))}


def whole_store(count: int, processes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Time refits of ``count`` curves: the first, with a new run each, with nothing new, all anew.

    Those of all, on so many processes and on Dask, leave the same tables.
    """
    every = list(runs(count))
    last = {run.name: run for run in every}
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(f"sqlite:///{Path(folder) / 'bench.db'}") as store,
    ):
        most = max(processes)
        store.runs.add(run for run in every if run is not last[run.name])
        rows = [measured(store, f"{most} processes, the first time", own_processes(most))]
        store.runs.add(last.values())
        rows.append(measured(store, f"{most} processes, a new run each", own_processes(most)))
        while refit(store, now_s=0.0, workers=most).fitted:  # until all rest on one record
            pass
        rows.append(measured(store, "nothing new", own_processes(1)))
        whole = partial(measured, store, whole=True)
        again = [whole(f"{n} processes, all anew", own_processes(n)) for n in processes]
        again.append(whole("Dask, 2 workers, all anew", two_dask_workers()))
    same = len({row["digest"] for row in again}) == 1
    for row in (*rows, *again):
        del row["digest"]
    return [*rows, *(row | {"same tables": same} for row in again)]


def measured(
    store: Store,
    where: str,
    workers: AbstractContextManager[tuple[int, Executor | None]],
    *,
    whole: bool = False,
) -> dict[str, Any]:
    """Refit once: wall time without, processor time with the start of the workers."""
    before = cpu_seconds()
    with workers as (count, pool):
        done = refit(store, now_s=0.0, whole=whole, workers=count, pool=pool)
    return {
        "where": where,
        "curves": done.curves,
        "histories": done.histories,
        "seconds": done.seconds,
        "CPU seconds": cpu_seconds() - before,
        "ms a curve": 1e3 * done.seconds / done.curves,
        "digest": digest(store),
    }


def cpu_seconds() -> float:
    """Processor time of this process and of those that it started and that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


@contextmanager
def own_processes(count: int) -> Iterator[tuple[int, None]]:
    """Leave it to the refit to start them."""
    yield count, None


@contextmanager
def two_dask_workers() -> Iterator[tuple[int, Executor]]:
    """Give a Dask cluster on loopback, each worker a process, set up as ours on Slurm are."""
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": WORKER_ENVIRONMENT}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        dask_pool(cluster.scheduler_address) as pool,
    ):
        yield pool.workers, pool.executor


def digest(store: Store) -> bytes:
    """Digest of all prediction tables."""
    result = sha256()
    for row in store.fits.all():
        result.update(repr(row).encode())
    return result.digest()


def main() -> None:
    """Run the benchmark."""
    options = _bench.options(__doc__ or "").parse_args()
    methods = {
        "ADEPT": with_adept,
        "NIMO, fit and verdict": with_choice,
        "NIMO, whole table": whole_table,
        "Amdahl + log": with_amdahl_log,
        "SciPy least squares, 12 starts": with_least_squares,
        "SciPy differential evolution": with_differential_evolution,
    }
    if _extrap is not None:
        methods["Extra-P"] = with_extrap
    count = 40 if options.quick else 400
    # As a refit does: see predictor.refit.
    with threadpool_limits(limits=1, user_api="blas"):
        one = [{"method": name} | per_curve(method, count) for name, method in methods.items()]
    _bench.table(one, title="One curve, fitted, judged and predicted")
    many = whole_store(300 if options.quick else 10_000, (1, 2))
    if not options.quick:
        many += whole_store(100_000, (2,))
    _bench.table(many, title="A store")
    _bench.write(options.json, one_curve=one, store=many)


if __name__ == "__main__":
    main()
