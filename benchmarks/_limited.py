"""A program that computes on several "nodes" at a limited CPU speed, as in aprof's experiments.

Each node is a process, pinned to a core and held to a share of it by ``cpulimit``, the tool of the
paper.  The program relaxes a heat equation: every process sets the whole problem up (what does not
get shorter with more nodes) and relaxes its own rows.
"""

import os
import shutil
import subprocess
import sys
import time

PROGRAM = """
import sys
rows, nodes, sweeps = map(int, sys.argv[1:])
grid = [[float(i ^ j) for j in range(64)] for i in range(rows)]
own = len(grid) // nodes
for _ in range(sweeps):
    part = grid[: own + 2]
    for i in range(1, len(part) - 1):
        above, here, below = part[i - 1], part[i], part[i + 1]
        for j in range(1, 63):
            here[j] = 0.25 * (above[j] + below[j] + here[j - 1] + here[j + 1])
"""


def missing() -> str:
    """Say what the experiment lacks on this machine; empty where it can run."""
    return "" if shutil.which("cpulimit") else "cpulimit is missing: apt-get install cpulimit"


def cores() -> list[int]:
    """Cores that processes may be pinned to."""
    return sorted(os.sched_getaffinity(0))


def fits(nodes: int, percent: int) -> bool:
    """Whether the cores can give so many processes this share each."""
    return -(-nodes // len(cores())) * percent <= 100


def run_s(nodes: int, percent: int, *, rows: int, sweeps: int) -> float:
    """Seconds that the program takes on so many nodes at this percentage of their speed."""
    work = [sys.executable, "-S", "-E", "-c", PROGRAM, str(rows), str(nodes), str(sweeps)]
    limit = ["cpulimit", "-q", "-f", "-l", str(percent), "--"] if percent < 100 else []
    started = time.perf_counter()
    running = [
        subprocess.Popen(
            ["taskset", "-c", str(cores()[i % len(cores())]), *limit, *work],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for i in range(nodes)
    ]
    for process in running:
        process.wait()
    return time.perf_counter() - started
