"""What others wait for while three users attack nimod.

They attack with connections, long lists and slow reading, while another one submits and asks; a
cluster without plugin beside it shows what their use of processors costs.
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
from collections.abc import Iterator
from functools import partial
from typing import Any

import _bench
from _submissions import ROOT, TIMEOUT_MS, in_memory, memory_mib, request, start, start_nimod

from tests.cluster.host import missing_programs
from tests.cluster.nimod import Nimod, hooks_for

#: Users who attack, and what each of them does; who is let in beside them.
ATTACKS = {"daemon": "many_connections", "bin": "big_lists", "nobody": "slow_reader"}
HONEST = "games"


def main() -> int:
    """Measure, print, write."""
    parser = _bench.options(__doc__ or "")
    parser.add_argument("--release", help="of Slurm, such as 24.11; default: this machine's own")
    options = parser.parse_args()
    if missing := missing_programs(options.release):
        print(f"Slurm is missing here: {', '.join(missing)} not installed", file=sys.stderr)
        return 1
    rows = under_attack(options.release, *((2, 20) if options.quick else (5, 60)))
    _bench.table(rows, title="What others wait for while three users attack nimod")
    _bench.write(options.json, release=options.release, quick=options.quick, attacks=rows)
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
