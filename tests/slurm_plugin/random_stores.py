"""Stores of made-up histories from fixed seeds: applications of all layouts, few runs and many."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import exp
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from predictor.prediction_table import PredictionTable
from predictor.refit import refit
from predictor.stored_table import decode, encode
from predictor.tables.settings import TableSettings
from sacct_ingest.job_run import JobRun
from sacct_ingest.records import JobState
from sacct_ingest.store import Store
from tests.slurm_plugin.made import NOW

SEEDS = range(4)
#: Nodes of the cluster, CPUs and GPUs of each.
NODES, CPUS, GPUS = 8, 16, 2
GIB = 1 << 30


class Asked(NamedTuple):
    """What one job asks for, and what it gets."""

    words: str
    nodes: int
    cpus: int
    gpus: int = 0
    tasks: int | None = None

    @property
    def size(self) -> int:
        """By which its run time goes."""
        return self.gpus or self.cpus


def _nodes(n: int) -> Asked:
    return Asked(f"-N {n} --exclusive", n, CPUS * n)


def _tasks_on_each(n: int) -> Asked:
    return Asked(f"-N {n} --ntasks-per-node=4", n, 4 * n, tasks=4 * n)


def _threads(n: int) -> Asked:
    return Asked(f"-N 1 -n 1 -c {n}", 1, n, tasks=1)


def _tasks(n: int) -> Asked:
    return Asked(f"-N 1 -n {n}", 1, n, tasks=n)


def _gpus(n: int) -> Asked:
    return Asked(f"-N 1 --gpus-per-node={n} -c 8", 1, 8, n, 1)


#: Ways to ask for a size, with the sizes that the cluster has.
WAYS = (
    (_nodes, (1, 2, 4, 8)),
    (_nodes, (1, 2, 3, 6)),
    (_tasks_on_each, (1, 2, 4, 8)),
    (_threads, (1, 2, 4, 8, 16)),
    (_tasks, (1, 4, 8, 16)),
    (_gpus, (1, 2)),
)
#: How many runs an application has.
RUNS = (1, 1, 2, 3, 4, 5, 7, 9, 10, 12, 20, 33, 40)


def runs_of(seed: int, applications: int = 13) -> Iterator[JobRun]:
    """Runs of the applications of one cluster, those of each one after the other."""
    random, number = Random(seed), 0
    for k in range(applications):
        way, sizes = random.choice(WAYS)
        counts = random.sample(sizes, random.choice((1, 1, 2, len(sizes))))
        work_s, share = exp(random.uniform(3.0, 10.0)), random.choice((0.0, 0.02, 0.3, 1.0))
        noise = random.choice((0.0, 0.02, 0.1, 0.5))
        limits = random.sample((15, 60, 120, 240, 720, 1440), random.choice((1, 1, 2)))
        memory = random.choice((None, None, 8 * GIB, 64 * GIB))
        at_s = NOW - 40 * 86_400
        for _ in range(RUNS[k % len(RUNS)]):
            number += 1
            asked, limit_s = way(random.choice(counts)), 60 * random.choice(limits)
            run_s = work_s * (share + (1 - share) / asked.size) * exp(random.gauss(0.0, noise))
            run_s = max(run_s, 2.0)
            ended = run_s > limit_s
            lost = random.random() < 0.05
            state = JobState.TIMEOUT if ended else JobState.FAILED if lost else JobState.COMPLETED
            elapsed_s = min(run_s, limit_s) * (random.random() if lost and not ended else 1.0)
            at_s += random.randrange(1800, 40_000)
            elapsed_s = max(round(elapsed_s), 1)
            # Every second accounting names the nodes of its runs.
            yield _run(
                number, k, asked, state, at_s, elapsed_s, limit_s, memory, listed=seed % 2 == 0
            )


def _run(
    number: int,
    k: int,
    asked: Asked,
    state: JobState,
    at_s: float,
    elapsed_s: int,
    limit_s: int,
    memory: int | None,
    *,
    listed: bool,
) -> JobRun:
    given: dict[str, Any] = {}
    if memory:
        given = {"req_mem_bytes": memory * asked.nodes, "mem_bytes": 3 * memory // 20}
    options = f"{asked.words} -t {limit_s // 60}"
    options += f" --mem={memory // GIB}G" if memory else ""
    start_s = int(at_s)
    return JobRun(
        cluster="pine",
        job_id=number,
        submit_s=start_s - 5,
        start_s=start_s,
        end_s=start_s + elapsed_s,
        elapsed_s=float(elapsed_s),
        state=state,
        user="ada",
        name=f"app{k}.sh",
        partition="batch",
        account="physics",
        submit_line=f"sbatch {options} app{k}.sh input",
        work_dir="/home/ada",
        limit_s=limit_s,
        nodes=asked.nodes,
        cpus=asked.cpus,
        req_cpus=asked.cpus,
        tasks=asked.tasks,
        gpus=asked.gpus or None,
        req_gpus=asked.gpus or None,
        node_list=f"n[1-{asked.nodes}]" if listed else "",
        **given,
    )


def filled(folder: Path, seed: int, **settings: Any) -> Path:
    """Give the store of a seed's runs with their tables; it is made once in each folder."""
    path = folder / f"random-{seed}.db"
    with (folder / f"random-{seed}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            made = folder / f"random-{seed}-{os.getpid()}.db"
            with Store.open(str(made)) as store:
                store.runs.add(list(runs_of(seed)))
                refit(store, now_s=NOW, settings=TableSettings(**settings))
            made.rename(path)
    return path


def changed(path: Path, folder: Path, change: Callable[[PredictionTable], PredictionTable]) -> Path:
    """Copy a store into a folder, with all its prediction tables changed."""
    copied = folder / path.name
    shutil.copy(path, copied)
    with Store.open(str(copied)) as store:
        rows = store.fits.all()
        tables = [change(decode(row.payload)) for row in rows]
        fits = [replace(row, payload=encode(t)) for row, t in zip(rows, tables, strict=True)]
        store.fits.replace(fits)
    return copied
