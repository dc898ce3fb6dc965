"""Runs of `nimo lab learn` as a model of later jobs: run time over CPUs, memory and input size.

The occupancy model (Shivam, Babu, Chase, VLDB 2006) is fitted to these runs as the accounting has
them.  All runs of the application are then given as they would be on each number of CPUs and memory
with one size of the input: each keeps its residual of the model of all.  So a table on each of
these rests on all runs and says what learning said, and later runs correct it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import exp, log

import numpy as np
from scipy.optimize import nnls

from predictor.occupancy.application_model import OccupancyModel, Sample, occupancies
from predictor.occupancy.data_flow import EvidenceModel
from predictor.prediction_table import Part
from predictor.sizes import Form, SizeTerm, Surface
from sacct_ingest.records import LEARNING
from sacct_ingest.runs.layout import Layout
from sacct_ingest.runs.submission import MEMORY, SIZE
from sacct_ingest.store.rows import RunRow

#: Fewest and most runs that are learned from, and most tables.
_FEWEST, _RECENT, _MOST = 6, 100, 32
#: Ratio of run times from which on memory distinguishes tables.
_MATTERS = 1.05
_NODES, _CPUS, _MIB = "nodes", "cpus", 2.0**20
#: Attributes of which more makes runs faster, as `nimo lab learn` has them.
_FASTER = frozenset({_NODES, _CPUS, MEMORY})
#: Ratio of two amounts between which an exponent is taken.
_NEAR = 1.1
_Amounts = Mapping[str, float]
_Levels = Mapping[str, Sequence[float]]
_LogTime = Callable[[_Amounts], float]


@dataclass(frozen=True, slots=True)
class SizeOfInput:
    """What the size of the input does to a run time."""

    term: SizeTerm
    surface: Surface


def learned(finished: Iterable[RunRow]) -> Iterator[tuple[Part, list[RunRow], SizeOfInput | None]]:
    """Yield each part of the runs' requests: the runs as they would be in it, what its size does.

    Nothing where runs of `nimo lab learn` are few or differ in one amount alone.

    finished: runs of one user's application, the newest last.
    """
    ended = [row for row in finished if row.state.finished and row.elapsed_s > 0 < row.cpus]
    if sum(row.name.startswith(LEARNING) for row in ended) < _FEWEST:
        return
    asked = [(row, _requested(row)) for row in ended]
    made = [one for one in asked if one[0].name.startswith(LEARNING)][-_RECENT:]
    names = set[str].intersection(*(set(given) for _, given in made))
    levels = {name: sorted({given[name] for _, given in made}) for name in sorted(names)}
    varied = [name for name, values in levels.items() if len(values) > 1]
    if len(varied) < 2:
        return
    # The model of `nimo lab learn` itself: the same choices of the same runs.
    model = EvidenceModel(OccupancyModel(faster=_FASTER), (SIZE,))
    fit = model.fit([_sample(row, {n: given[n] for n in varied}) for row, given in made])

    def log_time(given: _Amounts) -> float:
        return log(fit.predict({name: given[name] for name in varied}).time_s)

    runs = [
        (row, given, log(row.elapsed_s) - log_time(given))
        for row, given in asked
        if given.keys() >= names
    ]
    usual = {name: values[len(values) // 2] for name, values in levels.items()}
    for cell in _cells(usual, levels, log_time):
        fixed = {**cell, SIZE: usual.get(SIZE, 1.0)}
        name = _NODES if _CPUS in cell else _CPUS
        counts = [{**usual, **fixed, name: n} for n in levels[name]]
        values = ((MEMORY, f"{cell[MEMORY]:.0f}"),) if MEMORY in cell else ()
        rows = [_moved(row, {**given, **fixed}, log_time, off) for row, given, off in runs]
        part = Part("", Layout(cpus=round(cell.get(_CPUS, 0))), values)
        yield part, rows, _of_size(levels.get(SIZE, ()), counts, log_time)


def _requested(row: RunRow) -> dict[str, float]:
    """Amounts that a run asked for; memory in MiB on each node."""
    size = row.numbers.get(SIZE, 0.0)
    memory = round((row.req_mem_bytes or 0) / row.nodes / _MIB)
    given = {_NODES: row.nodes, _CPUS: row.cpus / row.nodes, MEMORY: memory, SIZE: size}
    return {name: float(amount) for name, amount in given.items() if amount > 0}


def _sample(row: RunRow, given: _Amounts) -> Sample:
    """Sample of a run; of its data flow nothing was counted."""
    busy = min((row.cpu_s or 0.0) / (row.cpus * row.elapsed_s), 1.0) or 1.0
    return Sample(given, occupancies(busy, row.elapsed_s, 1.0))


def _cells(usual: _Amounts, levels: _Levels, log_time: _LogTime) -> list[dict[str, float]]:
    """CPUs and memory that have a table each; where node counts are alike it is over CPUs."""
    memory = levels.get(MEMORY, ())
    times = [log_time({**usual, MEMORY: one}) for one in memory]
    by_memory: list[dict[str, float]] = [{}]
    if times and max(times) - min(times) > log(_MATTERS):
        by_memory = [{MEMORY: one} for one in memory]
    if len(levels[_NODES]) < 2:
        return by_memory
    cpus = levels[_CPUS]
    if (cpus[-1] - cpus[0] + 1) * len(by_memory) <= _MOST:
        cpus = [float(n) for n in range(int(cpus[0]), int(cpus[-1]) + 1)]
    return [{_CPUS: n, **one} for n in cpus for one in by_memory][:_MOST]


def _moved(row: RunRow, amounts: _Amounts, log_time: _LogTime, residual: float) -> RunRow:
    """Run as it would be with other amounts."""
    return replace(
        row,
        cpus=round(amounts[_CPUS] * row.nodes),
        req_cpus=None,
        cpu_s=None,
        req_mem_bytes=round(amounts.get(MEMORY, 0.0) * _MIB) * row.nodes or None,
        elapsed_s=exp(log_time(amounts) + residual),
        limit_s=None,
    )


def _of_size(
    sizes: Sequence[float], counts: Sequence[_Amounts], log_time: _LogTime
) -> SizeOfInput | None:
    """How run time goes by size and count: a sum of products of their powers, as the model says."""
    if len(sizes) < 2:
        return None
    low = sizes[0]
    middle = sizes[len(sizes) // 2]
    high = sizes[-1]
    counted = [name for name in counts[0] if len({one[name] for one in counts}) > 1]
    unit = counted[0] if counted else _NODES
    usual = counts[len(counts) // 2]
    every = [one[unit] for one in counts]
    grid = list(product(_spread(sizes), _spread(every)))
    logs = np.array([log_time({**usual, SIZE: size, unit: n}) for size, n in grid])
    span = log(high / low)
    rise = log_time({**usual, SIZE: high}) - log_time({**usual, SIZE: high / _NEAR})
    exponent = (log_time({**usual, SIZE: high}) - log_time({**usual, SIZE: low})) / span
    growths = {0.0, 0.5, 1.0, 2.0, round(exponent, 3), round(rise / log(_NEAR), 3)}
    powers = (
        {0.0}
        if len(set(every)) == 1
        else {-1.0, -0.5, 0.0, 1.0, *_falls(usual, every, unit, log_time)}
    )
    candidates = list(product(sorted(growths), sorted(powers)))
    columns = np.array([[(s / middle) ** g * n**p for g, p in candidates] for s, n in grid])
    relative = columns / np.exp(logs)[:, None]
    scale = relative.max(axis=0)
    shares = nnls(relative / scale, np.ones(len(grid)))[0] / scale
    parts = tuple(
        (log(share), by, power)
        for share, (by, power) in zip(shares.tolist(), candidates, strict=True)
        if share > 0
    )
    # Where the sum differs from the model the interval is wider: two folds as far apart.
    error = float(np.abs(np.log(relative @ shares)).max()) / span
    forms = [Form(0, 1.0, parts)]
    for fold, away in ((1, -error), (2, error)):
        forms.append(Form(fold, 1.0, tuple((own, by + away, power) for own, by, power in parts)))
    term = SizeTerm(SIZE, exponent, error, middle, low, high)
    return SizeOfInput(term, Surface((middle,), 1.0, tuple(forms)))


def _spread(values: Sequence[float]) -> list[float]:
    """Give the values, and one between any two of them."""
    rising = sorted(set(values))
    between = [(low * high) ** 0.5 for low, high in pairwise(rising)]
    return sorted([*rising, *between])


def _falls(
    usual: _Amounts, counts: Sequence[float], unit: str, log_time: _LogTime
) -> Iterator[float]:
    """Give the exponents of the count at both ends of the counts."""
    for count in (min(counts), max(counts)):
        there, beside = ({**usual, unit: n} for n in (count, count * _NEAR))
        yield round((log_time(beside) - log_time(there)) / log(_NEAR), 3)
