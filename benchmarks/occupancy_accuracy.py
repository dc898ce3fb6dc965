"""How well NIMO's occupancy models predict run times, on tasks built as those of its first paper.

Shivam, Babu, Chase, *Learning Application Models for Utility Resource Planning*, ICAC 2006, section
V: one task on 50 assignments (five processor speeds, ten network latencies); 50-way
cross-validation in which each assignment is once the reference and the 14 that share its speed or
its latency are learned from; the other 36 are predicted.  GAMUT's six tasks are simulated here:
think time for each block, a bounded number of requests under way (prefetching, write-behind), a
network with latency, a disk that serves one request at a time.  Nothing of the models' form is in
the simulation.

Peers in the same run: the paper's own way (each occupancy linear in the reciprocal of the
processor's speed and in the latency; both know which attribute is which), each occupancy linear
in x and 1/x of every attribute, and, where scikit-learn is installed, a Gaussian process and a
random forest on log time.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _bench
import numpy as np
from _error_measures import absolute_errors, percentage_errors
from numpy.typing import NDArray

from predictor.occupancy.application_model import OccupancyModel, Sample, occupancies
from predictor.occupancy.ranking import order_preserving_degree, ranking_distance
from predictor.occupancy.regression import LinearOccupancyModel

try:
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel
except ImportError:
    RandomForestRegressor = None

Floats = NDArray[np.float64]
MHZ = (451.0, 797.0, 930.0, 996.0, 1396.0)
LATENCY_MS = tuple(0.1 + 2 * i for i in range(10))
BLOCK_BYTES, BLOCKS, SIMULATED = 65_536, 40_000, 240
NOISE = 0.015  #: standard deviation of log time from run to run
SIZES = (4, 6, 8, 10)
#: Attributes of which more makes runs faster: the paper's predetermined transformations.
FASTER = frozenset({"cpu_mhz"})
PAPER = "paper's functions"


@dataclass(frozen=True, slots=True)
class Operation:
    """One kind of request: how many may be under way, and how long the disk takes for each.

    A read is sent when the block so many before it is asked for; a write when it is made, but the
    one so many before it has to be back.
    """

    window: int
    service_ms: float
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A task of GAMUT's kind, with what the paper found: PE mean, worst and 90th percentile."""

    name: str
    think_ms: float  #: for each block at 930 MHz
    operations: tuple[Operation, ...]  #: in turn
    paper: tuple[float, float, float]


SEQ_READ, RAND_READ = Operation(4, 0.3), Operation(1, 1.0)
SEQ_WRITE, RAND_WRITE = Operation(16, 0.3, writes=True), Operation(8, 4.0, writes=True)
TASKS = (
    Task("seq. read", 2.0, (SEQ_READ,), (6, 30, 23)),
    Task("rand. read", 2.0, (RAND_READ,), (3, 13, 6)),
    Task("seq. write", 2.0, (SEQ_WRITE,), (2, 7, 4)),
    Task("rand. write", 2.0, (RAND_WRITE,), (5, 15, 10)),
    Task("rand. r/w", 2.0, (RAND_READ, Operation(8, 2.0, writes=True)), (1, 6, 2.3)),
    Task("seq. r/w", 2.0, (SEQ_READ, SEQ_WRITE), (5, 23, 12)),
)
#: Table III (fMRI): training set size -> mean PE.
TABLE_3 = {4: 13.12, 6: 6.8, 8: 4.0, 10: 3.0}


OTHERS_SEED = 77  #: of tasks that nobody looked at while the models were made


def other_task(number: int) -> Task:
    """Make a task of another kind: one to three operations, windows, disks and think times."""
    rng = np.random.default_rng([OTHERS_SEED, number])
    operations = []
    for _ in range(int(rng.integers(1, 4))):
        window = int(rng.choice([1, 2, 3, 5, 6, 12, 24, 32]))
        service = float(np.exp(rng.uniform(np.log(0.1), np.log(6))))
        operations.append(Operation(window, service, writes=bool(rng.random() < 0.4)))
    think = float(np.exp(rng.uniform(np.log(0.5), np.log(8))))
    return Task(f"other {number}", think, tuple(operations), (0, 0, 0))


def simulate(task: Task, mhz: float, latency_ms: float, rng: np.random.Generator) -> Sample:
    """Run a task once, block by block, and measure it as NIMO does."""
    think = task.think_ms * 930 / mhz + 0.1
    asked: dict[Operation, list[float]] = {one: [] for one in task.operations}
    returned: dict[Operation, list[float]] = {one: [] for one in task.operations}
    now = disk_free = stalled = in_network = at_disk = 0.0
    for i in range(SIMULATED):
        operation = task.operations[i % len(task.operations)]
        before = returned[operation]
        begun = now
        asked[operation].append(now)
        if operation.writes and len(before) >= operation.window:
            now = max(now, before[-operation.window])
        sent = now if operation.writes else asked[operation][-operation.window :][0]
        disk_free = max(sent + latency_ms / 2, disk_free) + operation.service_ms
        back = disk_free + latency_ms / 2
        before.append(back)
        if not operation.writes:
            now = max(now, back)
        in_network += latency_ms
        at_disk += back - sent - latency_ms
        stalled += now - begun
        now += think
    stretch = float(rng.lognormal(0, NOISE))
    time_s = now * stretch * BLOCKS / SIMULATED / 1e3
    busy = min(1.0, (1 - stalled / now) * float(rng.lognormal(0, 0.01)))
    share = in_network / (in_network + at_disk)
    result = occupancies(busy, time_s, BLOCK_BYTES * BLOCKS, network_share=share)
    return Sample({"cpu_mhz": mhz, "latency_ms": latency_ms}, result)


def grid(task: Task, rng: np.random.Generator) -> list[Sample]:
    """One run on each of the paper's 50 assignments."""
    return [simulate(task, mhz, latency, rng) for mhz in MHZ for latency in LATENCY_MS]


Predictor = Callable[[Sequence[Sample], Sequence[Sample]], Floats]


def ours(train: Sequence[Sample], test: Sequence[Sample]) -> Floats:
    """Predict with the project's model."""
    fit = OccupancyModel(faster=FASTER).fit(train, train[0].attributes)
    return np.array([fit.predict(one.attributes).time_s for one in test])


def papers(train: Sequence[Sample], test: Sequence[Sample]) -> Floats:
    """Predict as algorithm 2 of the paper: one predetermined transformation of each attribute."""
    fit = LinearOccupancyModel(faster=FASTER).fit(train, train[0].attributes)
    return np.array([fit.predict(one.attributes).time_s for one in test])


def both_transformed(train: Sequence[Sample], test: Sequence[Sample]) -> Floats:
    """Predict with x and 1/x of each attribute, least squares."""
    x, asked = _terms(train, train), _terms(test, train)
    total = np.zeros(len(test))
    for part in ("compute_s", "network_s", "disk_s"):
        y = np.array([getattr(one.measured, part) for one in train])
        total += np.maximum(asked @ np.linalg.lstsq(x, y, rcond=None)[0], 0.0)
    data = np.mean([one.measured.data_bytes for one in train])
    return np.maximum(total * data, 1e-6)


def _terms(samples: Sequence[Sample], train: Sequence[Sample]) -> Floats:
    reference = train[0].attributes
    ratios = np.array([[one.attributes[n] / reference[n] for n in reference] for one in samples])
    return np.column_stack([np.ones(len(samples)), ratios, 1 / ratios])


def _learned(make: Callable[[], Any]) -> Predictor:
    def predict(train: Sequence[Sample], test: Sequence[Sample]) -> Floats:
        x = np.log([list(one.attributes.values()) for one in train])
        asked = np.log([list(one.attributes.values()) for one in test])
        y = np.log([one.measured.time_s for one in train])
        scale = x.std(axis=0) + 1e-9
        return np.exp(make().fit(x / scale, y - y.mean()).predict(asked / scale) + y.mean())

    return predict


def methods() -> dict[str, Predictor]:
    """Everything that is compared; what is not installed is left out."""
    result: dict[str, Predictor] = {"NIMO": ours, PAPER: papers, "x and 1/x": both_transformed}
    if RandomForestRegressor is not None:
        kernel = RBF([1.0, 1.0]) + WhiteKernel(1e-3)
        result["Gaussian process"] = _learned(
            lambda: GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=1)
        )
        result["random forest"] = _learned(lambda: RandomForestRegressor(100, random_state=1))
    return result


def folds(samples: Sequence[Sample], size: int | None, seed: int) -> Iterator[tuple[Any, Any]]:
    """Each assignment once as the reference: what is learned from, and what is asked."""
    for number, reference in enumerate(samples):
        own = reference.attributes
        near = [
            one
            for one in samples
            if one is not reference and any(one.attributes[n] == own[n] for n in own)
        ]
        if size is not None:
            order = np.random.default_rng([seed, number]).permutation(len(samples))
            near = [samples[i] for i in order if samples[i] is not reference][: size - 1]
        train = [reference, *near]
        yield train, [one for one in samples if not any(one is each for each in train)]


def scored(
    predict: Predictor, samples: Sequence[Sample], size: int | None = None
) -> dict[str, Any]:
    """Give AE, PE, OPD and RD(1) over all folds, as table II does."""
    absolute, relative, orders, ranks = [], [], [], []
    for train, test in folds(samples, size, seed=1):
        predicted, actual = predict(train, test), np.array([one.measured.time_s for one in test])
        absolute.append(absolute_errors(predicted, actual) / 60)
        relative.append(percentage_errors(predicted, actual))
        orders.append(order_preserving_degree(predicted, actual))
        ranks.append(ranking_distance(predicted, actual, 1))
    row: dict[str, Any] = {}
    for name, values, worst in (
        ("AE min", np.concatenate(absolute), 100),
        ("PE %", np.concatenate(relative), 100),
        ("OPD", np.array(orders), 0),
        ("RD(1)", np.array(ranks), 100),
    ):
        tail = 90 if worst else 10
        row[f"{name} mean"] = float(values.mean())
        row[f"{name} sd"] = float(values.std())
        row[f"{name} worst"] = float(np.percentile(values, worst))
        row[f"{name} p90"] = float(np.percentile(values, tail))
    return row


def table_2(chosen: dict[str, Predictor], runs: Path | None) -> list[dict[str, Any]]:
    """Accuracy on each task by each method."""
    rows = []
    for task in TASKS:
        samples = grid(task, np.random.default_rng(1))
        _keep(runs, task, samples)
        for name, predict in chosen.items():
            rows.append({"task": task.name, "method": name, **scored(predict, samples)})
        mean, worst, p90 = task.paper
        paper = {"PE % mean": mean, "PE % worst": worst, "PE % p90": p90}
        rows.append({"task": task.name, "method": "(paper, its testbed)", **paper})
    return rows


def other_tasks(chosen: dict[str, Predictor], count: int) -> list[dict[str, Any]]:
    """Errors on all other tasks together, and how often the intervals of 90 % hold."""
    every = [grid(other_task(i), np.random.default_rng([5, i])) for i in range(count)]
    rows = []
    for name, predict in chosen.items():
        parts = [
            percentage_errors(predict(train, test), np.array([one.measured.time_s for one in test]))
            for samples in every
            for train, test in folds(samples, None, seed=1)
        ]
        errors = np.concatenate(parts)
        shares = {f"PE % p{q}": float(np.percentile(errors, q)) for q in (50, 90, 99)}
        means = {"PE % mean": float(errors.mean()), **shares, "PE % worst": float(errors.max())}
        rows.append({"method": name, "tasks": count, **means})
    return rows


def held(count: int) -> dict[str, float]:
    """How often the run time is within our interval of 90 %, and how wide that is."""
    inside, widths = [], []
    for i in range(count):
        samples = grid(other_task(i), np.random.default_rng([5, i]))
        for train, test in folds(samples, None, seed=1):
            fit = OccupancyModel(faster=FASTER).fit(train, train[0].attributes)
            for one in test:
                made = fit.predict(one.attributes)
                inside.append(made.low_s <= one.measured.time_s <= made.high_s)
                widths.append(made.high_s / made.low_s)
    return {
        "tasks": count,
        "within %": 100 * float(np.mean(inside)),
        "high/low, median": float(np.median(widths)),
    }


def table_3(chosen: dict[str, Predictor], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Mean PE by the number of runs learned from, taken at random, over all tasks."""
    every = [grid(task, np.random.default_rng(1)) for task in TASKS]
    rows = []
    for size in sizes:
        row: dict[str, Any] = {"runs": size}
        for name, predict in chosen.items():
            row[name] = float(np.mean([scored(predict, one, size)["PE % mean"] for one in every]))
        rows.append(row | {"(paper, fMRI)": TABLE_3[size]})
    return rows


def _keep(folder: Path | None, task: Task, samples: Sequence[Sample]) -> None:
    """Write the simulated runs down, for whoever wants to see them."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{task.name.replace('. ', '-').replace('/', '')}.csv"
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["cpu_mhz", "latency_ms", "time_s", "compute_s", "network_s", "disk_s"])
        for one in samples:
            result = one.measured
            parts = (result.compute_s, result.network_s, result.disk_s)
            lines.writerow([*one.attributes.values(), result.time_s, *parts])


def main() -> None:
    """Print and write both tables."""
    parser = _bench.options(__doc__ or "")
    parser.add_argument("--runs", type=Path, metavar="FOLDER", help="write the simulated runs here")
    args = parser.parse_args()
    chosen = methods()
    if args.quick:
        chosen = {name: chosen[name] for name in ("NIMO", PAPER)}
    accuracy = table_2(chosen, args.runs)
    shown = [
        {key: value for key, value in row.items() if "sd" not in key and "AE" not in key}
        for row in accuracy
    ]
    _bench.table(shown, title="Table II in kind: 14 runs learned from, 36 predicted, 50 times")
    count = 1 if args.quick else 12
    others = other_tasks(chosen, count)
    _bench.table(others, title="Other tasks, made at random")
    intervals = held(count)
    _bench.table([intervals], title="Intervals of 90 % there")
    sizes = table_3(chosen, SIZES[:2] if args.quick else SIZES)
    _bench.table(sizes, title="Table III in kind: mean PE % over the six tasks")
    _bench.write(args.json, accuracy=accuracy, others=others, intervals=intervals, sizes=sizes)


if __name__ == "__main__":
    main()
