"""What NIMO costs at submission: sbatch, slurmctld and nimod.

Throw-away clusters run side by side with their state in memory (on a disk, writing each job's
script hides everything else): without plugin, with empty hooks, and with NIMO and a nimod that
knows the application and observes or enforces. In the latter job_submit asks nimod, which may plan
jobs with less than their limit (from Slurm 23.11 on; "planned": how many), or cli_filter asks ahead
and does not wait, or cli_filter waits and writes the node count itself. One more has empty hooks
whose cli_filter asks nimod for next to nothing: what asking costs at least. Rounds of submissions
of held jobs go to each in turn: one after another, then from 16 commands at a time without pause.
Of the latter the jobs accepted a second are those over empty hooks in the same round, so that
they can be compared on a busy machine, and processor time says where it goes. Then clients ask
nimod directly: at a steady rate, and as fast as they can; then one asks on while nimod reads few
and many prediction tables anew. At last the hook meets a nimod that fails in every way, and the
longest wait of a submission for it is printed.
"""

import contextlib
import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

import _bench
from _submissions import (
    ROOT,
    SBATCH,
    SCRIPT,
    TIMEOUT_MS,
    Setup,
    cpu_of,
    in_memory,
    in_real_time,
    memory_mib,
    pid_of,
    recorded_application,
    request,
    start,
    start_nimod,
)

from predictor.stored_table import decode, encode
from predictor.table import round_time
from sacct_ingest.store import FitRow, Store
from slurm_plugin.setup.hooks import compile_hooks
from tests.cluster.host import missing_programs
from tests.cluster.nimod import Nimod, hooks_for
from tests.end_to_end.troubled_nimod import ANSWERS
from tests.lua.canned_nimod import CannedNimod

EMPTY = """function slurm_job_submit(job, partitions, uid) return slurm.SUCCESS end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end
return slurm.SUCCESS
"""
EMPTY_FILTER = """function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset) return slurm.SUCCESS end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
return slurm.SUCCESS
"""
#: The least that asking can cost a command: LuaSocket, one connection, one short answer.
ASKING_FILTER = """local unix = require("socket.unix")
function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset)
  local connection = (type(unix) == "table" and (unix.stream or unix.tcp) or unix)()
  connection:settimeout(0.02, "t")
  if connection:connect("%s") and connection:send('{"v":1,"op":"links"}\\n') then
    connection:receive("*l")
  end
  connection:close()
  return slurm.SUCCESS
end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
return slurm.SUCCESS
"""
#: Set-ups with NIMO: mode of nimod, and what nimo_hook.conf and nimo.yaml say besides.
OURS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "NIMO, observe": ("observe", "", {}),
    "NIMO, enforce": ("enforce", "", {}),
    "NIMO, enforce, soft limits": ("enforce", "", {"time_limit": {"soft": "on"}}),
    "NIMO, enforce, ask_ahead": ("enforce", "ask_ahead = yes\n", {}),
    "NIMO, enforce, rewriting": ("enforce", "rewrite_in_cli_filter = yes\n", {}),
}
CLIENTS = 8
_OF_CLIENTS = 2  # real-time priority, above nimod's
COMMANDS = 16  # that submit at a time
#: Jobs accepted a second over those with empty hooks, at least; p99 of sbatch over theirs, at most.
AIMS = {
    "NIMO, observe": 0.95,
    "NIMO, enforce": 0.90,
    "NIMO, enforce, ask_ahead": 0.85,
    "NIMO, enforce, rewriting": 0.80,
}
DRIVE = ROOT / "tests" / "lua" / "drive.lua"
STALLED_JOBS = 50
STEADY_HZ = 100  # of each client
IDENTITIES = (1, 10_000, 100_000)  # without the last where it is to be quick
PARTS = {
    "submissions": "Submissions one after another",
    "throughput": f"{COMMANDS} commands submit without pause",
    "nimod": f"nimod, {CLIENTS} clients",
    "reloads": "One client asks while nimod reads its tables anew",
    "stalls": f"What a job waits for a failing nimod ({STALLED_JOBS} jobs)",
}


def main() -> int:
    """Measure, print, write."""
    parser = _bench.options(__doc__ or "")
    parser.add_argument("--release", help="of Slurm, such as 24.11; default: this machine's own")
    parser.add_argument("--part", choices=PARTS, help="measure this alone")
    options = parser.parse_args()
    if missing := missing_programs(options.release):
        print(f"Slurm is missing here: {', '.join(missing)} not installed", file=sys.stderr)
        return 1
    quick: bool = options.quick
    sizes = IDENTITIES[:2] if quick else IDENTITIES
    with contextlib.ExitStack() as stack:
        setups, nimod = list[Setup](), cast("Nimod", None)
        if options.part != "stalls":
            setups, nimod = set_up(stack, options.release)
        parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
            "submissions": lambda: submit(setups, *((4, 25) if quick else (15, 100))),
            "throughput": lambda: submit_at_once(setups, *((4, 96) if quick else (15, 320))),
            "nimod": lambda: ask_directly(nimod, 2.0 if quick else 10.0),
            "reloads": lambda: [reload_under_load(nimod, n) for n in sizes],
            "stalls": stall_in_every_way,
        }
        expected = [options.part] if options.part else PARTS
        figures = {part: parts[part]() for part in expected}
    for part, rows in figures.items():
        _bench.table(rows, title=PARTS[part])
    _bench.write(options.json, release=options.release, quick=quick, **figures)
    return 0


def submit(setups: list[Setup], rounds: int, jobs: int) -> list[dict[str, Any]]:
    """Submit to each cluster in turn; one row each."""
    for setup in setups:  # the first submissions load files and fill caches
        setup.round(jobs)
        setup.sbatch_s.clear()
        setup.ctld_us.clear()
    for _ in range(rounds):
        for setup in setups:
            setup.round(jobs)
    return [setup.row(setups[1]) for setup in setups]


@dataclass
class Burst:
    """What submissions without pause have taken on one cluster."""

    rate_hz: list[float] = field(default_factory=list)  #: of each round
    sbatch_s: list[float] = field(default_factory=list)
    ctld_us: list[float] = field(default_factory=list)  #: as sdiag has it, with waits for locks
    cpu_s: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])  #: sbatch, slurmctld, nimod

    def cpu_us(self) -> list[float]:
        """Processor time for each job, and in all."""
        each = [seconds / len(self.sbatch_s) * 1e6 for seconds in self.cpu_s]
        return [*each, sum(each)]


def submit_at_once(setups: list[Setup], rounds: int, jobs: int) -> list[dict[str, Any]]:
    """Submit to each cluster in turn from many commands; one row each."""
    measured: dict[str, Burst] = {}
    order = [setup for setup in setups if setup.name in ("empty hooks", *AIMS)]
    for number in range(-1, rounds):
        if number <= 0:  # the first round fills caches
            measured = {setup.name: Burst() for setup in order}
        order.reverse()
        for setup in order:
            one = measured[setup.name]
            one.ctld_us.append(setup.submit(partial(_burst, setup, jobs, one)))
    peer = measured["empty hooks"]
    rows = []
    for name, one in sorted(measured.items(), key=lambda item: -AIMS.get(item[0], 1)):
        rates = [own / its for own, its in zip(one.rate_hz, peer.rate_hz, strict=True)]
        p99_s, its_s = (statistics.quantiles(it.sbatch_s, n=100)[-1] for it in (one, peer))
        sbatch_us, ctld_us, nimod_us, all_us = one.cpu_us()
        rows.append(
            {
                "set-up": name,
                "jobs/s": statistics.median(one.rate_hz),
                "over empty hooks": statistics.median(rates),
                "at least": AIMS.get(name),
                "sbatch p99 ms": p99_s * 1e3,
                "ratio": p99_s / its_s,
                "slurmctld µs": statistics.median(one.ctld_us),
                "CPU µs: sbatch": sbatch_us,
                "slurmctld": ctld_us,
                "nimod": nimod_us,
                "empty hooks' over all": peer.cpu_us()[-1] / all_us,
            }
        )
    return rows


def _burst(setup: Setup, jobs: int, measured: Burst) -> None:
    argv = setup.cluster.program(*SBATCH, str(setup.script))
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    began_s: dict[int, float] = {}
    daemons_s, began = setup.daemons_cpu_s(), time.perf_counter()
    for number in range(jobs + COMMANDS):
        if number >= COMMANDS:
            pid, status, used = os.wait4(-1, 0)
            if status:
                raise ChildProcessError(f"sbatch ended with status {status}")
            measured.sbatch_s.append(time.perf_counter() - began_s.pop(pid))
            measured.cpu_s[0] += used.ru_utime + used.ru_stime
        if number < jobs:
            before = time.perf_counter()
            began_s[os.posix_spawn(argv[0], argv, setup.cluster.env, file_actions=quiet)] = before
    measured.rate_hz.append(jobs / (time.perf_counter() - began))
    for at, (after_s, before_s) in enumerate(zip(setup.daemons_cpu_s(), daemons_s, strict=True)):
        measured.cpu_s[at + 1] += after_s - before_s


def set_up(stack: contextlib.ExitStack, release: str | None) -> tuple[list[Setup], Nimod]:
    """Start the clusters and their nimods; give that which enforces, too.

    All ends with the stack.
    """
    empty = stack.enter_context(in_memory())
    (empty / "job_submit.lua").write_text(EMPTY)
    (empty / "cli_filter.lua").write_text(EMPTY_FILTER)
    setups = [start(stack, "no plugin", None, release), start(stack, "empty hooks", empty, release)]
    asking = stack.enter_context(in_memory())
    (asking / "job_submit.lua").write_text(EMPTY)
    nimods = {}
    for name, (mode, settings, given) in OURS.items():
        folder = stack.enter_context(in_memory())
        lua = hooks_for(folder, timeout_ms=TIMEOUT_MS)
        with (lua / "nimo_hook.conf").open("a") as conf:
            conf.write(settings)
        compile_hooks(lua)  # as `nimo hook-path --install` does
        setups.append(start(stack, name, lua, release))
        nimods[name] = start_nimod(folder, setups[-1].cluster, mode, **given)
        setups[-1].nimod = nimods[name]
    nimod = nimods["NIMO, enforce"]
    (asking / "cli_filter.lua").write_text(ASKING_FILTER % nimod.socket)
    setups.append(start(stack, "empty hooks, the command asks", asking, release))
    return setups, nimod


def _refitted(row: FitRow, rng: Random) -> FitRow:
    """Change each number of a table: tables that are alike would be packed too well."""
    table = decode(row.payload)

    def other(times: tuple[float, ...]) -> tuple[float, ...]:
        # With as many digits as a refit leaves.
        return tuple(round_time(time_s * rng.uniform(0.99, 1.01)) for time_s in times)

    changed = replace(
        table,
        fitted_s=time.time(),
        median_s=other(table.median_s),
        low_s=other(table.low_s),
        high_s=other(table.high_s),
        curve_sd=other(table.curve_sd),
        tails=tuple(replace(tail, time_s=other(tail.time_s)) for tail in table.tails),
    )
    return replace(row, payload=encode(changed))


def ask_directly(nimod: Nimod, seconds: float) -> list[dict[str, Any]]:
    """Ask at a steady rate, then without pause; one row each."""
    line = request()
    rows = []
    for name, pause_s in ((f"{STEADY_HZ}/s each", 1 / STEADY_HZ), ("without pause", 0.0)):
        took_s, wall_s, cpu_s = ask_from_all(nimod, partial(client, line, pause_s, seconds))
        percentiles = statistics.quantiles(took_s, n=100)
        rows.append(
            {
                "clients ask": name,
                "answers/s": len(took_s) / wall_s,
                "p50 ms": percentiles[49] * 1e3,
                "p99 ms": percentiles[98] * 1e3,
                "nimod µs of CPU an answer": cpu_s / len(took_s) * 1e6,
            }
        )
    return rows


def reload_under_load(nimod: Nimod, identities: int) -> dict[str, Any]:
    """Give nimod so many tables and make it read them again while somebody asks on."""
    with Store.open(nimod.store) as store:
        rng = Random(1)
        others = [_refitted(recorded_application(f"other{n}"), rng) for n in range(1, identities)]
        store.fits.replace([recorded_application(), *others])
    wait_for_tables(nimod, identities, after_s=0.0)
    time.sleep(2.0)  # the reload by itself is over
    calm_s = Asking(nimod).stop_after(2.0)
    with Store.open(nimod.store) as store:  # as a refit leaves them: each a little different
        store.fits.replace([_refitted(row, rng) for row in store.fits.all()])
    asking, began = Asking(nimod), time.time()
    nimod.run("status", "--reload")
    wait_for_tables(nimod, identities, after_s=began)
    took_s = time.time() - began
    busy_s = asking.stop_after(0.5)
    calm, busy = (statistics.quantiles(times, n=100) for times in (calm_s, busy_s))
    return {
        "identities": identities,
        "nimod MiB": memory_mib(nimod, "VmRSS"),
        "MiB at most": memory_mib(nimod, "VmHWM"),
        "p50 ms": calm[49] * 1e3,
        "p99 ms": calm[98] * 1e3,
        "reload s": took_s,
        "p50 ms during": busy[49] * 1e3,
        "p99 ms during": busy[98] * 1e3,
        "longest ms during": max(busy_s) * 1e3,
    }


def stall_in_every_way() -> list[dict[str, Any]]:
    """Let the hooks, as they are shipped, ask a nimod that fails; one row each."""
    with in_memory() as folder:
        hooks = hooks_for(folder, timeout_ms=TIMEOUT_MS)
        with (hooks / "nimo_hook.conf").open("a") as conf:
            # The longest wait, not the mean with pauses.
            conf.write("breaker_failures = 1000000\n")
        return [stall(folder, name) for name in ("nobody there", *ANSWERS)]


def stall(folder: Path, name: str) -> dict[str, Any]:
    """Submit to the hook, in the real Lua, while nimod does the same to every request."""
    path = folder / "nimod.sock"
    with contextlib.ExitStack() as stack:
        if name in ANSWERS:
            server = CannedNimod(path, lambda peer, _: ANSWERS[name](peer))
            stack.callback(server.stop)
        job = json.dumps({"min_nodes": 1, "max_nodes": 8, "script": SCRIPT})
        argv = ["lua5.1", str(DRIVE), str(folder / "hooks"), job, *["0"] * (STALLED_JOBS - 1)]
        done = subprocess.run(argv, check=True, capture_output=True, text=True, errors="replace")
    took_ms = [json.loads(line)["took_s"] * 1e3 for line in done.stdout.splitlines()]
    return {"nimod": name, "median ms": statistics.median(took_ms), "longest ms": max(took_ms)}


class Asking:
    """One client that asks every few milliseconds from a process of its own."""

    def __init__(self, nimod: Nimod) -> None:
        context = multiprocessing.get_context("fork")
        self._end = context.Event()
        self._times = context.SimpleQueue()
        work = partial(self._ask, str(nimod.socket))
        self._process = context.Process(target=work)
        self._process.start()

    def _ask(self, path: str) -> None:
        times: list[float] = []
        while not self._end.is_set():
            times += client(request(), 0.005, 0.2, path)
        self._times.put(times)

    def stop_after(self, seconds: float) -> list[float]:
        """End, and give the seconds that each answer took."""
        time.sleep(seconds)
        self._end.set()
        times: list[float] = self._times.get()
        self._process.join()
        return times


def wait_for_tables(nimod: Nimod, identities: int, *, after_s: float) -> None:
    """Wait until nimod has loaded so many tables after a moment."""
    while True:
        status = json.loads(nimod.run("status", "--json").stdout)
        if status["identities"] == identities and (status["loaded_s"] or 0.0) >= after_s:
            return
        time.sleep(0.05)


def ask_from_all(
    nimod: Nimod, work: Callable[[str], list[float]]
) -> tuple[list[float], float, float]:
    """Let all clients work; seconds of each answer, seconds in all, CPU seconds of nimod."""
    with multiprocessing.get_context("fork").Pool(CLIENTS) as pool:
        began, cpu_s = time.perf_counter(), cpu_of(pid_of(nimod))
        parts = pool.map(work, [str(nimod.socket)] * CLIENTS, chunksize=1)
        wall_s = time.perf_counter() - began
        return [took for part in parts for took in part], wall_s, cpu_of(pid_of(nimod)) - cpu_s


def client(line: bytes, pause_s: float, seconds: float, path: str) -> list[float]:
    """Ask the same for a while; seconds that each answer took."""
    took_s = []
    in_real_time([0], _OF_CLIENTS)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        end = time.perf_counter() + seconds
        due = time.perf_counter()
        while (began := time.perf_counter()) < end:
            connection.sendall(line)
            answer = b""
            while not answer.endswith(b"\n"):
                answer += connection.recv(65536) or hung_up()
            took_s.append(time.perf_counter() - began)
            due += pause_s
            time.sleep(max(0.0, due - time.perf_counter()))
    return took_s


def hung_up() -> bytes:
    """Nothing can be measured any more."""
    raise ConnectionError("nimod hung up")


if __name__ == "__main__":
    sys.exit(main())
