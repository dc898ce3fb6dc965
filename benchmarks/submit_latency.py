"""What NIMO costs at submission: sbatch, slurmctld and nimod.

Throw-away clusters run side by side with their state in memory (on a disk, writing each job's
script hides everything else): without plugin, with empty hooks, and with NIMO and a nimod that
knows the application and observes or enforces. In the latter job_submit asks nimod, which may plan
jobs with less than their limit (from Slurm 23.11 on; "planned": how many), or cli_filter asks ahead
and does not wait, or cli_filter waits and writes the node count itself. One more has empty hooks
whose cli_filter asks nimod for next to nothing: what asking costs at least. Rounds of submissions
of held jobs go to each in turn. Then clients ask nimod directly: at a steady rate, and as fast as
they can; then one asks on while nimod reads few and many prediction tables anew. The hook meets a
nimod that fails in every way, and the longest wait of a submission for it is printed. At last three
users attack nimod, with connections, long lists and slow reading, while another one submits and
asks; a cluster without plugin beside it shows what their use of processors costs.
"""

import contextlib
import json
import multiprocessing
import os
import pwd
import re
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

import _bench

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the clusters come from the tests

from predictor.table import decode, encode, round_time  # noqa: E402
from predictor.types import Point, PredictionTable, Tail, Verdict  # noqa: E402
from sacct_ingest.records import KeyLevel  # noqa: E402
from sacct_ingest.store import FitRow, Store  # noqa: E402
from slurm_plugin.setup.hooks import compile_hooks  # noqa: E402
from tests.cluster.host import missing_programs  # noqa: E402
from tests.cluster.nimod import Nimod, hooks_for  # noqa: E402
from tests.cluster.slurm import SlurmCluster  # noqa: E402
from tests.end_to_end.troubled_nimod import ANSWERS  # noqa: E402
from tests.lua.canned_nimod import CannedNimod  # noqa: E402

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
SOFT = "SchedulerParameters=bf_interval=2,batch_sched_delay=1,time_min_as_soft_limit"
SCRIPT = "#!/bin/sh\n#SBATCH --comment=nimo:app=bench\n" + "srun ./solver --mesh fine.msh\n" * 40
SBATCH = ("sbatch", "--hold", "--nodes=1-8", "--time=60")
RPC = re.compile(r"REQUEST_SUBMIT_BATCH_JOB\s.*count:(\d+)\s.*total_time:(\d+)")
CLIENTS = 8
#: Users who attack, and what each of them does; who is let in beside them.
ATTACKS = {"daemon": "many_connections", "bin": "big_lists", "nobody": "slow_reader"}
HONEST = "games"
_OF_NIMOD, _OF_CLIENTS = 1, 2  # real-time priorities
DRIVE = ROOT / "tests" / "lua" / "drive.lua"
STALLED_JOBS = 50
TIMEOUT_MS = 20  # as the hooks are shipped
TAILS = ((0.9, 1.1), (0.99, 1.3))  # share of the runs, and its run time over the median
STEADY_HZ = 100  # of each client
IDENTITIES = (1, 10_000, 100_000)  # without the last where it is to be quick
PARTS = {
    "submissions": "Submissions one after another",
    "nimod": f"nimod, {CLIENTS} clients",
    "reloads": "One client asks while nimod reads its tables anew",
    "attacks": "What others wait for while three users attack nimod",
    "stalls": f"What a job waits for a failing nimod ({STALLED_JOBS} jobs)",
}

Request = dict[str, Any]


@dataclass
class Setup:
    """A cluster and what was measured on it."""

    name: str
    cluster: SlurmCluster
    sbatch_s: list[float] = field(default_factory=list)
    ctld_us: list[float] = field(default_factory=list)  # mean of each round
    planned: int = 0  #: jobs that Slurm plans with less than their limit

    def round(self, jobs: int) -> None:
        """Submit so many jobs, one after the other."""
        script = self.cluster.layout.work / "bench.sh"
        script.write_text(SCRIPT)
        self.cluster.run("sdiag", "--reset")
        for _ in range(jobs):
            began = time.perf_counter()
            self.cluster.run(*SBATCH, script)
            self.sbatch_s.append(time.perf_counter() - began)
        count, total_us = map(int, RPC.findall(self.cluster.run("sdiag").stdout)[0])
        self.ctld_us.append(total_us / count)
        least = self.cluster.run("squeue", "-h", "-O", "MinTime").stdout.split()
        self.planned += sum(one not in ("N/A", "0:00") for one in least)
        self.cluster.run("scancel", "--state=PENDING")

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
        measured = ("attacks", "stalls")  # on clusters of their own, or on none
        setups, nimod = [], cast("Nimod", None)
        if options.part not in measured:
            setups, nimod = set_up(stack, options.release)
        parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
            "submissions": lambda: submit(setups, *((4, 25) if quick else (15, 100))),
            "nimod": lambda: ask_directly(nimod, 2.0 if quick else 10.0),
            "reloads": lambda: [reload_under_load(nimod, n) for n in sizes],
            "attacks": lambda: under_attack(options.release, *((2, 20) if quick else (5, 60))),
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
    nimod = nimods["NIMO, enforce"]
    (asking / "cli_filter.lua").write_text(ASKING_FILTER % nimod.socket)
    setups.append(start(stack, "empty hooks, the command asks", asking, release))
    return setups, nimod


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


def recorded_application(key: str = "bench") -> FitRow:
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


def under_attack(release: str | None, rounds: int, times: int) -> list[dict[str, Any]]:
    """Submit and ask alone and beside three attackers, in turns; one row for each who waits."""
    took: dict[tuple[str, bool], list[float]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        other = start(stack, "sbatch, without plugin", None, release)
        folder = stack.enter_context(in_memory())
        lua = hooks_for(folder, timeout_ms=TIMEOUT_MS)
        ours = start(stack, "sbatch, NIMO", lua, release)
        nimod = start_nimod(folder, ours.cluster, "enforce", first=False)
        for number in range(-1, rounds):  # the first one fills caches
            for attacked in (False, True):
                with attackers(nimod) if attacked else contextlib.nullcontext():
                    for setup in (other, ours):
                        setup.round(times)
                        if number >= 0:
                            took[setup.name, attacked] += setup.sbatch_s
                        setup.sbatch_s.clear()
                    for who, op in (("root", "decide"), (HONEST, "advise")):
                        seconds = asked_by(who, request(who, op), times, nimod)
                        if number >= 0:
                            took[f"{op}, {who}", attacked] += seconds
        most_mib = memory_mib(nimod, "VmHWM")
    rows = []
    for name in dict.fromkeys(name for name, _ in took):
        alone, beside = (statistics.quantiles(took[name, one], n=20) for one in (False, True))
        rows.append(
            {
                "who waits": name,
                "alone: median ms": alone[9] * 1e3,
                "p95 ms": alone[-1] * 1e3,
                "attacked: median ms": beside[9] * 1e3,
                "p95 ms ": beside[-1] * 1e3,
                "ratio": beside[9] / alone[9],
                "nimod MiB at most": most_mib,
            }
        )
    return rows


@contextlib.contextmanager
def attackers(nimod: Nimod) -> Iterator[None]:
    """Let three users attack, each in a way of their own."""
    program = (ROOT / "tests" / "attack" / "hostile_user.py").read_text()
    users = []
    for number, (user, act) in enumerate(ATTACKS.items()):
        account = pwd.getpwnam(user)
        given = (nimod.socket, number, 600, account.pw_uid, account.pw_gid, act)
        argv = [sys.executable, "-I", "-c", program, *map(str, given)]
        users.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL))
    time.sleep(2.0)  # they are at it
    try:
        yield
    finally:
        for one in users:
            one.kill()
            one.wait()


def asked_by(user: str, line: bytes, times: int, nimod: Nimod) -> list[float]:
    """Ask as a user, in a process of its own; seconds of each answer."""
    uid = pwd.getpwnam(user).pw_uid
    work = partial(_asked_by, uid, line, times)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(work, (str(nimod.socket),))


def _asked_by(uid: int, line: bytes, times: int, path: str) -> list[float]:
    os.setuid(uid)
    took_s = []
    for _ in range(times):
        time.sleep(0.1)
        began = time.perf_counter()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.sendall(line)
            answer = connection.makefile("rb").readline()
        took_s.append(time.perf_counter() - began)
        if not json.loads(answer).get("ok", True):
            raise ConnectionError(answer)
    return took_s


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


def ask_from_all(
    nimod: Nimod, work: Callable[[str], list[float]]
) -> tuple[list[float], float, float]:
    """Let all clients work; seconds of each answer, seconds in all, CPU seconds of nimod."""
    with multiprocessing.get_context("fork").Pool(CLIENTS) as pool:
        began, cpu_s = time.perf_counter(), cpu_of(nimod)
        parts = pool.map(work, [str(nimod.socket)] * CLIENTS, chunksize=1)
        wall_s = time.perf_counter() - began
        return [took for part in parts for took in part], wall_s, cpu_of(nimod) - cpu_s


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


def pid_of(nimod: Nimod) -> int:
    """Process that answers."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(nimod.socket))
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid: int = struct.unpack("3i", credentials)[0]
    return pid


def cpu_of(nimod: Nimod) -> float:
    """CPU seconds that nimod has used."""
    fields = Path(f"/proc/{pid_of(nimod)}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
