"""CPU availability as the NWS defines it: the share of a CPU that a new process would get.

Two cheap estimates, from the load average and from what the CPUs did in the last second, are
corrected now and then by a process that spins and sees what it gets (R. Wolski, N. Spring, J.
Hayes, *Predicting the CPU Availability of Time-shared Unix Systems on the Computational Grid*,
Cluster Computing 3, 2000).  There machines have one CPU; here the estimates are of several.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sacct_ingest.errors import ProbeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What the CPUs did over a while: shares of all their time, which add up to 1."""

    cpus: int  #: of the host, as load and times are of the host
    load: float  #: load average of one minute
    running: float  #: processes that ran or could have, without us
    user: float
    system: float
    idle: float


def from_load(activity: Activity) -> float:
    """Estimate of the load average: one more process shares the CPUs with ``load`` others."""
    return min(1.0, activity.cpus / (activity.load + 1.0))


def from_times(activity: Activity) -> float:
    """Estimate as of vmstat: what is idle, and a fair share of what is not.

    System time is shared only as far as there is user time (the NWS weights it with that share):
    on a busy router or file server it is not there for the asking.
    """
    shares = activity.running + 1.0
    free = activity.idle + activity.user / shares + activity.user * activity.system / shares
    return min(1.0, activity.cpus * free)


_ESTIMATES: tuple[Callable[[Activity], float], ...] = (from_load, from_times)


class Hybrid:
    """The estimate nearest to the last spinning process, corrected by its error."""

    def __init__(self) -> None:
        self._estimate: Callable[[Activity], float] = from_times
        self._bias = 0.0

    def calibrate(self, activity: Activity, got: float) -> None:
        """Learn from a process that got this share of a CPU."""
        self._estimate = min(_ESTIMATES, key=lambda estimate: abs(estimate(activity) - got))
        self._bias = got - self._estimate(activity)

    def estimate(self, activity: Activity) -> float:
        """Share of one CPU that a new process would get, 0 to 1."""
        return max(0.0, min(1.0, self._estimate(activity) + self._bias))


def observe(window_s: float = 1.0, *, proc: Path = Path("/proc")) -> Activity:
    """Look at the CPUs for a while.

    Raises ProbeError: there is no /proc as Linux has it.
    """
    try:
        before, running_before, _ = _times(proc)
        time.sleep(window_s)
        after, running_after, cpus = _times(proc)
        load = float((proc / "loadavg").read_text().split()[0])
    except (OSError, ValueError, LookupError) as error:
        raise ProbeError(f"cpu: {proc} cannot be read: {error}") from error
    used = [max(0, b - a) for a, b in zip(before, after, strict=True)]
    total = sum(used) or 1
    user, nice, system, idle, iowait, *interrupts = used
    return Activity(
        cpus=cpus,
        load=load,
        running=(running_before + running_after) / 2,
        user=(user + nice) / total,
        system=(system + sum(interrupts)) / total,
        idle=(idle + iowait) / total,
    )


def _times(proc: Path) -> tuple[list[int], int, int]:
    """Give jiffies of all CPUs by kind (without guests, who are in user time).

    Also the running processes, and how many CPUs the host has.  This process may be bound to fewer
    of them, but neither load nor times are of those alone.
    """
    lines = dict(
        line.split(maxsplit=1) for line in (proc / "stat").read_text().splitlines() if " " in line
    )
    cpus = sum(name.startswith("cpu") and name != "cpu" for name in lines)
    # We run ourselves while we look.
    running = int(lines["procs_running"]) - 1
    return [int(word) for word in lines["cpu"].split()[:8]], running, cpus


_SPIN = """
import sys, time
began, end = time.monotonic(), time.monotonic() + float(sys.argv[1])
used = time.process_time()
while time.monotonic() < end:
    pass
print((time.process_time() - used) / (time.monotonic() - began))
"""


def spin(seconds: float) -> float:
    """Share of a CPU that a process gets which does nothing but spin for so long.

    Raises ProbeError: it could not be started, or did not end.
    """
    argv = [sys.executable, "-ISc", _SPIN, str(seconds)]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=60 + 20 * seconds, check=True
        )
        return min(1.0, float(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ProbeError(f"cpu: the spinning process failed: {error}") from error
