"""The probes that need no other host: CPU, and one file of bounded size past the page cache."""

import errno
import mmap
import os
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sacct_ingest.errors import ProbeError
from sacct_ingest.probes import cpu
from sacct_ingest.probes.probe_settings import ProbeSettings
from sacct_ingest.records import Probe, Resource

_BLOCK = 1 << 20
_SMALL = 4096


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
        self._name, self._settings = name, settings
        self._hybrid = cpu.Hybrid()
        self._turn = 0

    def measure(self) -> list[Probe]:
        """Measure each once; a failure is a measurement without a value."""
        folder, size = self._settings.disk_folder, self._settings.disk_bytes
        probes = self._measured([Resource.CPU], self._cpu)
        if folder is not None:
            reads = self._settings.disk_reads
            figures = partial(measure_disk, folder, size_bytes=size, reads=reads)
            probes += self._measured(_DISK, figures, target=str(folder), size_bytes=size)
        return probes

    def _measured(
        self, resources: Sequence[Resource], measure: Callable[[], Sequence[float]], **of: Any
    ) -> list[Probe]:
        began_s, began, error = time.time(), time.monotonic(), ""
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
        activity = cpu.observe()
        if self._turn % self._settings.spin_every == 0:
            self._hybrid.calibrate(activity, cpu.spin(self._settings.spin_s))
        self._turn += 1
        return [self._hybrid.estimate(activity)]


_DISK = (Resource.DISK_WRITE, Resource.DISK_READ, Resource.DISK_LATENCY)
