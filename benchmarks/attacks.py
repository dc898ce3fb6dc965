"""What others wait for while three users attack nimod, and what each attack costs nimod.

First they attack with connections, long lists and slow reading, while another one submits and
asks; a cluster without plugin beside it shows what their use of processors costs.  Then each attack
alone, by three attackers: how many of an honest user's jobs get the decision that they get alone,
how long sbatch takes beside as many that only use processors, nimod's memory, log and refusals;
and, where the attackers' names are fitted meanwhile, when the honest user's own are.
"""

import contextlib
import json
import multiprocessing
import os
import pwd
import socket
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import _bench
from _submissions import (
    ROOT,
    SBATCH,
    SCRIPT,
    TIMEOUT_MS,
    Setup,
    in_memory,
    memory_mib,
    request,
    start,
    start_nimod,
)

from sacct_ingest.job_run import JobRun
from sacct_ingest.store import Store
from tests.cluster.host import missing_programs
from tests.cluster.nimod import Nimod, hooks_for
from tests.processes import free_ports, wait_until
from tests.sacct_ingest.records import run
from tests.slurm_plugin.nimod.relay.credentials import munged

#: Users who attack, and what each of them does; who is let in beside them.
ATTACKS = {"daemon": "many_connections", "bin": "big_lists", "nobody": "slow_reader"}
HONEST = "games"
#: Attacks of :func:`each_attack`; those over links are of a login node's root.
EACH = (
    "burn",
    "short_connections",
    "heavy_questions",
    "subordinate_uids",
    "links",
    "notices",
    "fat",
    "names",
)
_OVER_LINKS = ("links", "notices")
_BEGIN_S = 2.0  #: until they are at it
_LOOK_S = 2.0  #: between looks at the cluster: each attack lasts some of them
_FAT_JOBS = 1000  #: pending jobs of each attacker
_BENCH_NODES = (1, 2, 4, 8) * 3  #: of the runs of the recorded application
_NAMES = 10_000  #: of the jobs of the attackers together, each with a tag of its own
_AT_MOST_S = 300.0


def main() -> int:
    """Measure, print, write."""
    parser = _bench.options(__doc__ or "")
    parser.add_argument("--release", help="of Slurm, such as 24.11; default: this machine's own")
    parser.add_argument("--only", nargs="+", choices=EACH, help="these attacks alone")
    options = parser.parse_args()
    if missing := missing_programs(options.release):
        print(f"Slurm is missing here: {', '.join(missing)} not installed", file=sys.stderr)
        return 1
    rows: list[dict[str, Any]] = []
    if not options.only:
        rows = under_attack(options.release, *((2, 20) if options.quick else (5, 60)))
        _bench.table(rows, title="What others wait for while three users attack nimod")
    each = each_attack(options.release, options.only or EACH, 12 if options.quick else 40)
    _bench.table(each, title="Each attack alone, by three attackers")
    _bench.write(
        options.json, release=options.release, quick=options.quick, attacks=rows, each=each
    )
    return 0


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


def each_attack(release: str | None, acts: Sequence[str], jobs: int) -> list[dict[str, Any]]:
    """Let three attackers do each act, while an honest user submits so many jobs."""
    rows = [one_attack(release, "burn", jobs)]
    rows += [one_attack(release, act, jobs) for act in acts if act != "burn"]
    for row in rows:
        row["over burners"] = row["sbatch ms, attacked"] / rows[0]["sbatch ms, attacked"]
    return rows


def one_attack(release: str | None, act: str, jobs: int) -> dict[str, Any]:
    """Let three attackers do something, while an honest user submits so many jobs."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(in_memory())
        munge = stack.enter_context(munged(folder / "munge"))
        port = free_ports(1)[0]
        lua = hooks_for(folder, timeout_ms=TIMEOUT_MS)
        setup = start(stack, act, lua, release)
        relay = {"listen": f"127.0.0.1:{port}", "munge_socket": munge}
        often = {"interval_s": _LOOK_S}
        nimod = start_nimod(
            folder, setup.cluster, "enforce", first=False, relay=relay, snapshot=often
        )
        wait_until(lambda: all(submitted(setup, 1)[0]), what="nimod's view")
        _, alone_s = submitted(setup, jobs)
        with doing(act, nimod, setup, port, munge) as fit_s:
            decided, took_s = submitted(setup, jobs)
            most_mib = memory_mib(nimod, "VmHWM")
        refused = status_of(nimod)  # during the attack the listen queue may be full
        return {
            "attack": act,
            "decided": f"{sum(decided)} of {jobs}",
            "sbatch ms, alone": statistics.median(alone_s) * 1e3,
            "sbatch ms, attacked": statistics.median(took_s) * 1e3,
            "honest fit s": fit_s,
            "nimod MiB at most": most_mib,
            "log lines": len(setup.cluster.log("nimod").splitlines()),
            "refusals": refused,
        }


def submitted(setup: Setup, jobs: int) -> tuple[list[bool], list[float]]:
    """Submit jobs, and cancel them; whether each got a decision, and how long sbatch took."""
    decisions, took_s = [], []
    setup.script.write_text(SCRIPT)
    for _ in range(jobs):
        began = time.perf_counter()
        done = setup.cluster.run(*SBATCH, "--parsable", setup.script)
        took_s.append(time.perf_counter() - began)
        shown = setup.cluster.run("scontrol", "show", "job", "-o", done.stdout.strip()).stdout
        decisions.append("AdminComment=NIMO" in shown)
        setup.cluster.run("scancel", done.stdout.strip())
    return decisions, took_s


def status_of(nimod: Nimod) -> str:
    """Refusals that nimod counted, in short; of one that counts none nothing."""
    status = json.loads(nimod.run("status", "--json", "--config", nimod.config).stdout)
    refused = status.get("refused", [])
    return ", ".join(f"{one['principal']} {one['resource']} {one['count']}" for one in refused)


@contextlib.contextmanager
def doing(act: str, nimod: Nimod, setup: Setup, port: int, munge: str) -> Iterator[float | None]:
    """Let three attackers do something; give what an honest user's fit took, if there is one."""
    users = [pwd.getpwnam(name) for name in ATTACKS]
    if act == "fat":
        fatten(setup, [user.pw_uid for user in users])
        time.sleep(5 * _LOOK_S)
        yield None
        return
    if act == "names":
        with fitting_names(nimod, [user.pw_name for user in users]) as fit_s:
            yield fit_s
        return
    number = 1 if act in _OVER_LINKS else len(users)
    program = str(ROOT / "benchmarks" / "_attackers.py")
    started = []
    for user in users[:number]:
        argv = [sys.executable, program, act, str(nimod.socket), str(_AT_MOST_S)]
        argv += [str(user.pw_uid), str(port), munge]
        started.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL))
    time.sleep(_BEGIN_S)
    try:
        yield None
    finally:
        for one in started:
            one.kill()
            one.wait()


def fatten(setup: Setup, uids: Sequence[int]) -> None:
    """Submit pending jobs with names, comments and folders as long as Slurm takes them."""
    folder = "/" + "/".join(["w" * 200] * 19)
    for number, uid in enumerate(uids):
        name = "\U0001f600" * (number == 0) + "n" * 900
        argv = ["sbatch", "--parsable", f"--uid={uid}", "--begin=now+2days"]
        argv += [f"--array=0-{_FAT_JOBS - 1}", "-J", name, f"--comment={'c' * 1000}"]
        done = setup.cluster.run(*argv, f"--chdir={folder}", "--wrap", "true")
        array = done.stdout.strip()
        tasks = ",".join(f"{array}_{task}" for task in range(_FAT_JOBS))
        setup.cluster.run("scontrol", "update", f"jobid={tasks}", "requeue=0", check=False)


@contextlib.contextmanager
def fitting_names(nimod: Nimod, users: Sequence[str]) -> Iterator[float]:
    """Store runs with names of their own, and one application of an honest user; fit them all.

    Gives the seconds until the honest user's is fitted.
    """
    each = _NAMES // len(users)
    now_s = int(time.time())
    with Store.open(nimod.store) as store:
        for place, user in enumerate(users):
            first = 1_000_000 + place * each
            store.runs.add(short_run(user, first + one, now_s) for one in range(each))
        store.runs.add(short_run(HONEST, 1 + one, now_s, name="solve") for one in range(20))
        store.runs.add(runs_as_recorded(now_s))
    began_s = time.monotonic()
    argv = [sys.executable, "-m", "slurm_plugin", "fit", "--follow", "--workers", "1"]
    fit = subprocess.Popen([*argv, "--config", nimod.config], stdout=subprocess.DEVNULL)
    try:
        with Store.open(nimod.store) as store:
            theirs = partial(store.fits.of_user, HONEST)
            wait_until(lambda: bool(theirs()), what="the honest user's fit", timeout_s=900.0)
        yield time.monotonic() - began_s
    finally:
        fit.kill()
        fit.wait()


def short_run(user: str, job_id: int, now_s: int, name: str = "") -> JobRun:
    """Run of two seconds on a node, with a name and a tag of its own or with the given ones."""
    name = name or f"j{job_id}"
    start_s = now_s - 3600 + job_id % 1000
    return run(
        job_id=job_id,
        user=user,
        name=name,
        comment=f"nimo:app={name}",
        submit_line=f"sbatch -N1 {name}.sh",
        submit_s=start_s - 1,
        start_s=start_s,
        end_s=start_s + 2,
        elapsed_s=2.0,
    )


def runs_as_recorded(now_s: int) -> Iterator[JobRun]:
    """Give the runs of the recorded application: a fit drops a table that has none."""
    for number, nodes in enumerate(_BENCH_NODES):
        elapsed_s = 60 + 3000 // nodes
        end_s = now_s - 7200 - 4000 * number
        yield run(
            job_id=100 + number,
            user="root",
            uid=0,
            name="bench",
            comment="nimo:app=bench",
            submit_line="sbatch --nodes=1-8 --time=60 bench.sh",
            submit_s=end_s - elapsed_s - 1,
            start_s=end_s - elapsed_s,
            end_s=end_s,
            elapsed_s=float(elapsed_s),
            nodes=nodes,
            cpus=nodes,
        )


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


if __name__ == "__main__":
    sys.exit(main())
