"""Programs whose run times were measured over sizes of their problem and counts, and made-up ones.

Read are files of the C3O project (Will et al., IEEE Big Data 2021), step times of trainings by GPUs
and batch size (Jayaram Subramanya et al., SOSP 2023) and results of MLPerf's trainings by nodes.
"""

import csv
import gzip
import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

Sizes = tuple[float, ...]
#: Times of each count of each set of sizes, in seconds.
Times = Mapping[Sizes, Mapping[int, Sequence[float]]]

#: Sets of sizes that a program has at least; counts, where it has no size.
LEAST, _COUNTS = 5, 3
#: Columns of C3O's data that are no sizes of the problem.
_NO_SIZES = {"gross_runtime", "instance_count", "slots", "memory", "machine_type"}
#: Hardware of trainings whose rows are another's, too.
_TWICE = {"base", "dgx"}
#: Median run time of an epoch, in seconds.
_EPOCH_S = 900.0
_NOISE = 0.03


@dataclass(frozen=True, slots=True)
class Program:
    """One program on one type of machine; what is counted are nodes, or GPUs of one node."""

    source: str  #: of what data set
    name: str
    names: tuple[str, ...]  #: of its sizes
    times: Times
    gpus: bool = False


def read_programs(path: Path) -> list[Program]:
    """Read the programs of a file, which its columns tell."""
    separator = "\t" if ".tsv" in path.name else ","
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file, delimiter=separator))
    if "local_bsz" in rows[0]:
        return _trainings(rows)
    if "benchmark" in rows[0]:
        return _mlperf(rows)
    return _c3o(path.name.split(".")[0], rows)


def _c3o(name: str, rows: Sequence[Mapping[str, str]]) -> list[Program]:
    """Programs on Spark; those with few sizes are left out."""
    names = tuple(name for name in rows[0] if name not in _NO_SIZES)
    machines: dict[str, dict[Sizes, dict[int, list[float]]]] = {}
    for row in rows:
        sizes = tuple(float(row[name]) for name in names)
        if min(sizes) <= 0:  # no size of a problem
            continue
        counts = machines.setdefault(row["machine_type"], {}).setdefault(sizes, {})
        counts.setdefault(int(row["instance_count"]), []).append(float(row["gross_runtime"]))
    return [
        Program("C3O", f"{name}-{machine}", names, times)
        for machine, times in sorted(machines.items())
        if len(times) >= LEAST
    ]


def _trainings(rows: Sequence[Mapping[str, str]]) -> list[Program]:
    """One epoch of trainings by GPUs and by samples of each in a step.

    Where GPUs were spread over nodes in several ways, the fewest nodes count.
    """
    steps: defaultdict[tuple[str, str], dict[tuple[int, int], dict[int, list[float]]]]
    steps = defaultdict(dict)
    for row in rows:
        if row["hardware"] in _TWICE:
            continue
        nodes, gpus, batch, step_s = _step(row)
        by_nodes = steps[row["model"], row["hardware"]].setdefault((batch, gpus), {})
        by_nodes.setdefault(nodes, []).append(step_s)
    programs = []
    for (model, hardware), cells in sorted(steps.items()):
        epochs: dict[Sizes, dict[int, list[float]]] = {}
        for (batch, gpus), by_nodes in cells.items():
            own = [step_s / (gpus * batch) for step_s in by_nodes[min(by_nodes)]]
            epochs.setdefault((float(batch),), {})[gpus] = own
        every = [one for counts in epochs.values() for own in counts.values() for one in own]
        scale = _EPOCH_S / median(every)
        times = {
            size: {n: [scale * one for one in own] for n, own in counts.items()}
            for size, counts in epochs.items()
        }
        if len(times) >= LEAST:
            name = f"{model}-{hardware}"
            programs.append(Program("trainings", name, ("batch-size",), times, gpus=True))
    return programs


def _step(row: Mapping[str, str]) -> tuple[int, int, int, float]:
    """Nodes, GPUs, batch of each GPU and seconds of a step: columns stand in one of two orders."""
    values = [float(row[name]) for name in list(row)[2:7]]
    if values[1].is_integer() and values[1] >= values[0]:
        nodes, gpus, batch, step_s, _ = values
    else:
        batch, step_s, _, nodes, gpus = values
    return int(nodes), int(gpus), int(batch), step_s


def _mlperf(rows: Sequence[Mapping[str, str]]) -> list[Program]:
    """Trainings of one problem each on several counts of one system's nodes."""
    systems: defaultdict[tuple[str, ...], dict[int, list[float]]] = defaultdict(dict)
    for row in rows:
        if row["status"] != "success":
            continue
        # Names of systems say how many nodes they have: 2xDGX, dgx_n2.
        system = re.sub(r"^\d+x|_?n\d+(?=_|$)", "", row["system"])
        name = row["round"], row["submitter"], row["benchmark"], system
        systems[name].setdefault(int(row["nodes"]), []).append(float(row["seconds"]))
    return [
        Program("MLPerf", re.sub(r"\W+", "-", "-".join(name)), (), {(): counts})
        for name, counts in sorted(systems.items())
        if len(counts) >= _COUNTS
    ]


def made_up() -> Iterator[Program]:
    """Programs whose truth is a formula, each time with noise."""
    forms: dict[str, Callable[[float, int], float]] = {
        "serial": lambda x, n: 20 + 0.3 * x**1.1 / n,
        "tree": lambda x, n: 10 + 0.2 * x**1.2 / n + (2 + 0.02 * x**0.7) * math.log2(n),
        "square": lambda x, n: 5 + 1e-4 * x**2 / n + 0.02 * x,
        "power": lambda x, n: 0.5 * x / n**0.9,
        "line": lambda x, n: 15 + 0.4 * x / n + 1.5 * n,
    }
    rng = random.Random(5)
    counts, steps = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), (100, 150, 250, 400, 700, 1000, 2000, 3000)

    def noise() -> float:
        return rng.lognormvariate(0, _NOISE)

    for name, form in forms.items():
        times = {(float(x),): {n: [form(x, n) * noise()] for n in counts} for x in steps}
        yield Program("made up", name, ("steps",), times)
    two = {
        (float(x), float(y)): {
            n: [(12 + 1e-3 * x * y / n + 0.01 * x + math.log2(n)) * noise()] for n in counts
        }
        for x in steps[::2]
        for y in (10, 20, 50, 100)
    }
    yield Program("made up", "two", ("steps", "cells"), two)
