"""Clusters that jobs are submitted to, and nimods beside them."""

import contextlib
import json
import os
import pwd
import re
import shutil
import socket
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the clusters come from the tests

from predictor.prediction_table import PredictionTable, Tail  # noqa: E402
from predictor.stored_table import encode  # noqa: E402
from predictor.types import Point, Verdict  # noqa: E402
from sacct_ingest.records import KeyLevel  # noqa: E402
from sacct_ingest.store import FitRow, Store  # noqa: E402
from tests.cluster.nimod import Nimod  # noqa: E402
from tests.cluster.slurm import SlurmCluster  # noqa: E402

TIMEOUT_MS = 20  # as the hooks are shipped
SOFT = "SchedulerParameters=bf_interval=2,batch_sched_delay=1,time_min_as_soft_limit"
SCRIPT = "#!/bin/sh\n#SBATCH --comment=nimo:app=bench\n" + "srun ./solver --mesh fine.msh\n" * 40
SBATCH = ("sbatch", "--hold", "--nodes=1-8", "--time=60")
RPC = re.compile(r"REQUEST_SUBMIT_BATCH_JOB\s.*count:(\d+)\s.*total_time:(\d+)")
_OF_NIMOD = 1  # real-time priority
TAILS = ((0.9, 1.1), (0.99, 1.3))  # share of the runs, and its run time over the median

Request = dict[str, Any]


@dataclass
class Setup:
    """A cluster and what was measured on it."""

    name: str
    cluster: SlurmCluster
    sbatch_s: list[float] = field(default_factory=list)
    ctld_us: list[float] = field(default_factory=list)  # mean of each round
    nimod: Nimod | None = None
    planned: int = 0  #: jobs that Slurm plans with less than their limit

    def daemons_cpu_s(self) -> list[float]:
        """Give the CPU seconds that slurmctld and nimod have used."""
        status = self.cluster.processes.status()["slurmctld"]
        nimod_s = cpu_of(pid_of(self.nimod)) if self.nimod else 0.0
        return [cpu_of(int(status.rpartition(" ")[2])), nimod_s]

    @property
    def script(self) -> Path:
        """The job's script."""
        return self.cluster.layout.work / "bench.sh"

    def round(self, jobs: int) -> None:
        """Submit so many jobs, one after the other."""

        def one_by_one() -> None:
            for _ in range(jobs):
                began = time.perf_counter()
                self.cluster.run(*SBATCH, self.script)
                self.sbatch_s.append(time.perf_counter() - began)

        self.submit(one_by_one)

    def submit(self, work: Callable[[], None]) -> float:
        """Let jobs be submitted, and cancel them; give slurmctld's time for each in µs."""
        self.script.write_text(SCRIPT)
        self.cluster.run("sdiag", "--reset")
        work()
        count, total_us = map(int, RPC.findall(self.cluster.run("sdiag").stdout)[0])
        self.ctld_us.append(total_us / count)
        least = self.cluster.run("squeue", "-h", "-O", "MinTime").stdout.split()
        self.planned += sum(one not in ("N/A", "0:00") for one in least)
        self.cluster.run("scancel", "--state=PENDING")
        return self.ctld_us[-1]

    def row(self, peer: "Setup") -> dict[str, Any]:
        """Give the figures, and how they compare with those of `peer`."""
        median_ms = statistics.median(self.sbatch_s) * 1e3
        ctld_us = statistics.median(self.ctld_us)
        return {
            "set-up": self.name,
            "sbatch median ms": median_ms,
            "sbatch p95 ms": statistics.quantiles(self.sbatch_s, n=20)[-1] * 1e3,
            "ratio": median_ms / (statistics.median(peer.sbatch_s) * 1e3),
            "slurmctld µs": ctld_us,
            "ratio ": ctld_us / statistics.median(peer.ctld_us),
            "added µs": ctld_us - statistics.median(peer.ctld_us),
            "planned": self.planned,
        }


def start(stack: contextlib.ExitStack, name: str, lua: Path | None, release: str | None) -> Setup:
    """Start a cluster with these hooks."""
    folder = stack.enter_context(in_memory())
    conf = [SOFT] if "soft" in name else []
    cluster = SlurmCluster(folder / "slurm", nodes=8, lua=lua, release=release, conf=conf)
    stack.callback(cluster.down)
    cluster.up()
    return Setup(name, cluster)


def start_nimod(
    folder: Path, cluster: SlurmCluster, mode: str, *, first: bool = True, **settings: Any
) -> Nimod:
    """Start a nimod that knows the application; it ends with its cluster.

    first: in the real-time class.
    settings: what nimo.yaml says besides.
    """
    nimod = Nimod(folder, cluster, {"mode": mode, **settings})
    with Store.open(nimod.store, create=True) as store:
        store.fits.replace([recorded_application()])
    nimod.start()
    if first:
        tasks = Path(f"/proc/{pid_of(nimod)}/task").iterdir()
        in_real_time((int(task.name) for task in tasks), _OF_NIMOD)
    return nimod


def in_real_time(tasks: Iterable[int], priority: int) -> None:
    """Put tasks into the class that nimod's unit lets it enter, where this user may.

    Clients get a higher priority, so that only nimod's own delay is measured.
    """
    with contextlib.suppress(PermissionError):
        for task in tasks:
            os.sched_setscheduler(task, os.SCHED_RR, os.sched_param(priority))


@contextlib.contextmanager
def in_memory() -> Iterator[Path]:
    """Make a folder that lives in memory, and that Slurm's own user may enter."""
    shm = Path("/dev/shm")
    directory = Path(tempfile.mkdtemp(prefix="nimo-bench-", dir=shm if shm.is_dir() else None))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def recorded_application(key: str = "root/bench") -> FitRow:
    """Make a table as a refit leaves it for an application that was run on 1 to 8 nodes."""
    nodes = tuple(range(1, 33))
    times = tuple(3000 / n + 60 for n in nodes)
    table = PredictionTable(
        level=KeyLevel.TAG,
        key=key,
        label=key,
        model="interpolation",
        verdict=Verdict.RELIABLE,
        problems=(),
        nodes=nodes,
        median_s=times,
        low_s=tuple(t * 0.9 for t in times),
        high_s=tuple(t * 1.1 for t in times),
        curve_sd=(0.02,) * len(nodes),
        confidence=0.9,
        observed=tuple(Point(n, times[n - 1], 3, 0.02) for n in (1, 2, 4, 8)),
        tails=tuple(Tail(share, tuple(t * by for t in times)) for share, by in TAILS),
        knee=4,
        max_useful=8,
        runs=12,
        mem_node_bytes=None,
        fitted_s=time.time(),
        owner="root",  # who submits
    )
    return FitRow(
        level=KeyLevel.TAG,
        key=table.key,
        label=table.label,
        verdict=table.verdict,
        model=table.model,
        fitted_s=table.fitted_s,
        payload=encode(table),
    )


def memory_mib(nimod: Nimod, which: str) -> float:
    """Memory of nimod as proc(5) names it: VmRSS now, VmHWM at most so far."""
    text = Path(f"/proc/{pid_of(nimod)}/status").read_text()
    return int(re.findall(rf"{which}:\s+(\d+) kB", text)[0]) / 1024


def request(user: str = "root", op: str = "decide") -> bytes:
    """Line that asks about the job of the script."""
    job: Request = {"name": "bench", "user_name": user, "comment": "nimo:app=bench"}
    job["user_id"] = pwd.getpwnam(user).pw_uid
    job |= {"partition": "batch", "min_nodes": 1, "max_nodes": 8, "min_cpus": 1, "time_limit": 60}
    return json.dumps({"v": 1, "op": op, "job": job | {"script": SCRIPT}}).encode() + b"\n"


def pid_of(nimod: Nimod) -> int:
    """Process that answers."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(nimod.socket))
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid: int = struct.unpack("3i", credentials)[0]
    return pid


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
