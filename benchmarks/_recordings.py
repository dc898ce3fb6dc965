"""Recordings that the papers' figures are made of: kernels like NAS's, and links.

``python benchmarks/_recordings.py kernels`` records the kernels again, here; ``links FILE`` takes
the series that ``transfer_accuracy.py --record FILE`` measured.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

FOLDER = Path(__file__).parent / "recordings"
KERNELS, LINKS = FOLDER / "nas_like.csv", FOLDER / "links.csv"
NAMES = ("ep", "cg", "mg", "ft", "lu", "is")
THREADS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Kernel:
    """Scaling curve of one kernel: medians of its repeats, in seconds."""

    name: str
    threads: tuple[int, ...]
    wall_s: tuple[float, ...]
    dedicated_s: tuple[float, ...]  #: on as many idle processors; see ``nas_like.c``


@dataclass(frozen=True, slots=True)
class Link:
    """Probes and the transfers after them over one link, in Mbit/s."""

    site: str
    size_mb: int
    pairs: tuple[tuple[tuple[float, ...], float], ...]


def kernels() -> list[Kernel]:
    """Read the recorded kernels."""
    runs: dict[str, dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    with KERNELS.open(newline="") as lines:
        for row in csv.DictReader(lines):
            times = float(row["wall_s"]), float(row["dedicated_s"])
            runs[row["kernel"]][int(row["threads"])].append(times)
    return [
        Kernel(
            name,
            tuple(sorted(by)),
            *(tuple(median(one[i] for one in by[n]) for n in sorted(by)) for i in (0, 1)),
        )
        for name, by in runs.items()
    ]


def links() -> list[Link]:
    """Read the recorded links."""
    result: dict[tuple[str, int], list[tuple[tuple[float, ...], float]]] = defaultdict(list)
    with LINKS.open(newline="") as lines:
        for row in csv.DictReader(lines):
            probes = tuple(float(word) for word in row["probes_mbit_s"].split())
            result[row["site"], int(row["size_mb"])].append((probes, float(row["transfer_mbit_s"])))
    return [Link(site, size, tuple(pairs)) for (site, size), pairs in result.items()]


def record_kernels() -> None:
    """Compile the kernels, run them, and write what they took."""
    with tempfile.TemporaryDirectory() as folder, KERNELS.open("w", newline="") as out:
        program = Path(folder) / "nas_like"
        source = Path(__file__).with_name("nas_like.c")
        subprocess.run(["cc", "-O2", "-fopenmp", "-o", program, source, "-lm"], check=True)
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["kernel", "threads", "repeat", "wall_s", "dedicated_s"])
        for repeat, name, threads in _runs():
            done = subprocess.run(
                [program, name, str(threads)],
                check=True,
                capture_output=True,
                text=True,
                env=os.environ | {"OMP_WAIT_POLICY": "passive"},
            )
            rows.writerow([name, threads, repeat, *done.stdout.split()])


def record_links(path: Path) -> None:
    """Write the series of a recording of ``transfer_accuracy.py``."""
    with LINKS.open("w", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["site", "size_mb", "probes_mbit_s", "transfer_mbit_s"])
        for series in json.loads(path.read_text())["series"]:
            for probes, moved in series["pairs"]:
                words = " ".join(f"{probe:.5g}" for probe in probes)
                rows.writerow([series["site"], series["size_mb"], words, f"{moved:.5g}"])


def _runs() -> Iterator[tuple[int, str, int]]:
    for repeat in range(REPEATS):
        for name in NAMES:
            for threads in THREADS:
                yield repeat, name, threads


if __name__ == "__main__":
    if sys.argv[1:] == ["kernels"]:
        record_kernels()
    elif sys.argv[1:2] == ["links"]:
        record_links(Path(sys.argv[2]))
    else:
        raise SystemExit(str(__doc__))
