"""The probes that need no other host: CPU and disk."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sacct_ingest.errors import ProbeError
from sacct_ingest.probes import cpu, disk
from sacct_ingest.probes.probe_settings import ProbeSettings
from sacct_ingest.records import Probe, Resource


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
            figures = partial(disk.measure, folder, size_bytes=size, reads=reads)
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
