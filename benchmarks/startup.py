"""How long every command takes to begin: to its first line, and as a whole process.

All commands with --help, and what users and admins call all day on the store of `nimo demo`, with
nimod running.  In the same rounds: squeue --help (Slurm's own start, where installed), a bare
Python, and a Python that loads nothing but SQLAlchemy, the heaviest of what commands with a store
need.  CPU time is shown, too: it is what stays the same on a busy machine.  The demo's stand-ins of
squeue and scontrol are Python programs, which Slurm's own commands are not, so the CPU time of a
command's children stands apart.
"""

import os
import selectors
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import _bench

from slurm_plugin.cli.nimo import COMMANDS
from slurm_plugin.demo.history import applications
from slurm_plugin.demo.sandbox import HISTORY, DemoSite, prepare
from slurm_plugin.demo.submissions import submit
from slurm_plugin.demo.tour import plan
from slurm_plugin.nimod import client
from slurm_plugin.slurm.job_request import user_name

BUDGET_S = 0.25
PROGRAMS = Path(sys.executable).parent
PEERS = {
    "squeue --help": ["squeue", "--help"],
    "bare Python": [sys.executable, "-I", "-c", "print()"],
    "Python with SQLAlchemy": [sys.executable, "-I", "-c", "import sqlalchemy; print()"],
}
HELPS = {f"nimo {name} --help": ["nimo", name, "--help"] for name in COMMANDS}
MAIN = {
    "nimo --help": ["nimo", "--help"],
    "nimo-advise --help": ["nimo-advise", "--help"],
    "nimo-advise, nimod answers": ["nimo-advise", "wrf.sh", "d02"],
    "nimo-advise --store": ["nimo-advise", "--store", "nimo.db", "wrf.sh", "d02"],
    "nimo status": ["nimo", "status"],
    "nimo config": ["nimo", "config"],
    "nimo doctor": ["nimo", "doctor"],
    "nimo predict": ["nimo", "predict"],
    "nimo predict APPLICATION": ["nimo", "predict", "wrf-d02"],
    "nimo report": ["nimo", "report"],
}


@dataclass(slots=True)
class Starts:
    """Times of one command line, in seconds."""

    first: list[float] = field(default_factory=list)  #: to the first byte on stdout
    whole: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)  #: of the process without its children
    children: list[float] = field(default_factory=list)  #: CPU time of its children


def main() -> None:
    """Prepare, measure in turns, print."""
    args = _bench.options(__doc__).parse_args()
    lines = {**PEERS, **MAIN, **HELPS}
    if not shutil.which("squeue"):
        del lines["squeue --help"]
    with prepared() as (folder, environment):
        times = measure(lines, folder, environment, rounds=3 if args.quick else 15)
    rows = figures(times)
    _bench.table(rows, title="From the call to the first line, medians")
    late = [row["command"] for row in rows if row["first line ms"] > 1e3 * BUDGET_S]
    print(f"\nlater than {BUDGET_S:g} s: {', '.join(late) or 'none'}")
    _bench.write(args.json, starts=rows)


@contextmanager
def prepared() -> Iterator[tuple[Path, Mapping[str, str]]]:
    """Give the demo's folder with its store, and the environment in which nimod runs on it."""
    with tempfile.TemporaryDirectory(prefix="nimo-startup-") as name:
        folder = Path(name)
        site = DemoSite(folder, folder / "nimod.sock")
        prepare(site, user=user_name(), now_s=time.time(), rng=Random(1))
        environment = {
            **os.environ,
            "NIMO_CONFIG": str(site.config),
            "PATH": f"{PROGRAMS}:{site.stand_ins}:{os.environ['PATH']}",
        }
        for words in (["ingest", HISTORY], ["fit"]):
            call = [PROGRAMS / "nimo", *words]
            subprocess.run(call, cwd=folder, env=environment, check=True, capture_output=True)
        nimod = subprocess.Popen([PROGRAMS / "nimo", "serve"], env=environment)
        try:
            await_nimod(site)
            decide(site)
            yield folder, environment
        finally:
            nimod.terminate()
            nimod.wait()


def await_nimod(site: DemoSite) -> None:
    """Wait until nimod sees the cluster."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            if client.status(site.socket, timeout_s=5).snapshot_age_s is not None:
                return
        except client.Unreachable:
            pass
        time.sleep(0.05)
    sys.exit("nimod does not see the demo's cluster")


def decide(site: DemoSite) -> None:
    """Submit the demo's jobs, and wait until the decisions are in the store: reports need some."""
    for one in plan(applications(user_name())):
        submit(site.socket, one.job(os.getuid()))
    end = time.monotonic() + 60
    while client.status(site.socket, timeout_s=5).decisions_pending and time.monotonic() < end:
        time.sleep(0.05)


def measure(
    lines: Mapping[str, Sequence[str]], folder: Path, environment: Mapping[str, str], *, rounds: int
) -> dict[str, Starts]:
    """Start each command line once in each round, so that all meet the same machine."""
    times = {name: Starts() for name in lines}
    for turn in range(rounds + 1):
        for name, argv in lines.items():
            measured = once(argv, folder, environment)
            if turn:  # the first round reads files from disk
                start = times[name]
                series = (start.first, start.whole, start.cpu, start.children)
                for values, seconds in zip(series, measured, strict=True):
                    values.append(seconds)
    return times


def once(
    argv: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> tuple[float, float, float, float]:
    """Seconds to the first byte and to the end, and of CPU: of one process, and of its children."""
    path = shutil.which(argv[0], path=environment["PATH"]) or argv[0]
    began = time.perf_counter()
    process = subprocess.Popen(
        [path, *argv[1:]],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.select()
    first_s = time.perf_counter() - began
    process.stdout.read()
    process.stdout.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    whole_s = time.perf_counter() - began
    children_s = children_cpu_s(process.pid)
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return first_s, whole_s, used.ru_utime + used.ru_stime - children_s, children_s


def children_cpu_s(pid: int) -> float:
    """CPU seconds of the children that an ended process waited for, in clock ticks (proc(5))."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = after_name[13:15]  # cutime and cstime, fields 16 and 17
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def figures(times: Mapping[str, Starts]) -> list[dict[str, Any]]:
    """Rows of the table; ratios of CPU time to a bare Python's, of the first line to squeue's."""
    middle = {
        name: [
            statistics.median(values)
            for values in (start.first, start.whole, start.cpu, start.children)
        ]
        for name, start in times.items()
    }
    bare, peer = middle["bare Python"][2], middle.get("squeue --help", [None])[0]
    return [
        {
            "command": name,
            "first line ms": 1e3 * first_s,
            "whole ms": 1e3 * whole_s,
            "CPU ms": 1e3 * cpu_s,
            "children's CPU ms": 1e3 * children_s,
            "first / squeue": first_s / peer if peer else None,
            "CPU / Python": cpu_s / bare,
        }
        for name, (first_s, whole_s, cpu_s, children_s) in middle.items()
    ]


if __name__ == "__main__":
    main()
