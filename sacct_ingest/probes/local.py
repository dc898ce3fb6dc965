"""The probes that need no other host: CPU, and one file of bounded size past the page cache.

CPU availability is the share of a CPU that a new process would get.  Two cheap estimates, from the
load average and from what the CPUs did in the last second, are corrected now and then by a process
that spins and sees what it gets (R. Wolski, N. Spring, J. Hayes, *Predicting the CPU Availability
of Time-shared Unix Systems on the Computational Grid*, Cluster Computing 3, 2000).  There machines
have one CPU; here the estimates are of several.
"""

import errno
import mmap
import os
import random
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sacct_ingest.errors import ProbeError
from sacct_ingest.probes.probe_settings import ProbeSettings
from sacct_ingest.records import Probe, Resource

_SPIN = """
import sys, time
began, end = time.monotonic(), time.monotonic() + float(sys.argv[1])
used = time.process_time()
while time.monotonic() < end:
    pass
print((time.process_time() - used) / (time.monotonic() - began))
"""
_BLOCK = 1 << 20
_SMALL = 4096
_DISK = (Resource.DISK_WRITE, Resource.DISK_READ, Resource.DISK_LATENCY)


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


def share_by_load() -> float:
    """Share of a CPU that a new process would get here, at once, by the load average alone.

    Raises ProbeError: there is no /proc as Linux has it.
    """
    return from_load(observe(0.0))


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
    """Look at the CPUs for a while. Raises ProbeError: there is no /proc as Linux has it."""
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


def measure_disk(folder: Path, *, size_bytes: int, reads: int) -> tuple[float, float, float]:
    """Write a file with O_DIRECT and fsync, read it back with O_DIRECT, remove it.

    Returns tuple: bytes a second written and read, and seconds for one small read at a random
        place.

    Raises ProbeError: the folder cannot be written, is full, or its file system only answers from
        the cache.
    """
    size = max(_BLOCK, size_bytes // _BLOCK * _BLOCK)
    path = folder / f".nimo-probe-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        # Aligned to a page, as O_DIRECT wants it.
        with mmap.mmap(-1, _BLOCK) as block:
            block.write(random.Random(1).randbytes(_BLOCK))  # noqa: S311 - nothing to compress
            write_s = _write(path, block, size)
            read_s, latency_s = _read(path, block, size, reads)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EINVAL:
            reason = (
                "its file system has no O_DIRECT, so the cache would answer; choose another folder"
            )
        raise ProbeError(f"disk: {folder}: {reason}") from error
    finally:
        path.unlink(missing_ok=True)
    return size / write_s, size / read_s, latency_s


def _write(path: Path, block: mmap.mmap, size: int) -> float:
    with _opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as file:
        began = time.perf_counter()
        for _ in range(size // _BLOCK):
            if os.write(file, block) != _BLOCK:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file)
        return time.perf_counter() - began


def _read(path: Path, block: mmap.mmap, size: int, reads: int) -> tuple[float, float]:
    with _opened(path, os.O_RDONLY) as file:
        began = time.perf_counter()
        for offset in range(0, size, _BLOCK):
            os.preadv(file, [block], offset)
        read_s = time.perf_counter() - began
        places = [random.randrange(size // _SMALL) * _SMALL for _ in range(reads)]  # noqa: S311
        small = memoryview(block)[:_SMALL]
        try:
            began = time.perf_counter()
            for place in places:
                os.preadv(file, [small], place)
            return read_s, (time.perf_counter() - began) / max(reads, 1)
        finally:
            small.release()


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    file = os.open(path, flags | os.O_DIRECT | os.O_CLOEXEC, 0o600)
    try:
        yield file
    finally:
        os.close(file)


class LocalProbes:
    """CPU and disk of this host; remembers the calibration by the last spinning process."""

    def __init__(self, name: str, settings: ProbeSettings) -> None:
        self._name = name
        self._settings = settings
        self._hybrid = Hybrid()
        self._turn = 0

    def measure(self) -> list[Probe]:
        """Measure each once; a failure is a measurement without a value."""
        folder = self._settings.disk_folder
        size = self._settings.disk_bytes
        probes = self._measured([Resource.CPU], self._cpu)
        if folder is not None:
            reads = self._settings.disk_reads
            figures = partial(measure_disk, folder, size_bytes=size, reads=reads)
            probes += self._measured(_DISK, figures, target=str(folder), size_bytes=size)
        return probes

    def _measured(
        self, resources: Sequence[Resource], measure: Callable[[], Sequence[float]], **of: Any
    ) -> list[Probe]:
        began_s = time.time()
        began = time.monotonic()
        error = ""
        values: Sequence[float | None] = [None] * len(resources)
        try:
            values = measure()
        except ProbeError as failed:
            error = str(failed)
        of |= {"source": self._name, "at_s": began_s, "took_s": time.monotonic() - began}
        return [
            Probe(resource=resource, value=value, error=error, **of)
            for resource, value in zip(resources, values, strict=True)
        ]

    def _cpu(self) -> Sequence[float]:
        activity = observe()
        if self._turn % self._settings.spin_every == 0:
            self._hybrid.calibrate(activity, spin(self._settings.spin_s))
        self._turn += 1
        return [self._hybrid.estimate(activity)]
