"""The probes that need no other host: CPU and disk."""

import time

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
        return [self._cpu(), *self._disk()]

    def _cpu(self) -> Probe:
        began_s, began = time.time(), time.monotonic()
        value, error = None, ""
        try:
            activity = cpu.observe()
            if self._turn % self._settings.spin_every == 0:
                self._hybrid.calibrate(activity, cpu.spin(self._settings.spin_s))
            self._turn += 1
            value = self._hybrid.estimate(activity)
        except ProbeError as failed:
            error = str(failed)
        took_s = time.monotonic() - began
        return Probe(
            resource=Resource.CPU,
            source=self._name,
            at_s=began_s,
            value=value,
            took_s=took_s,
            error=error,
        )

    def _disk(self) -> list[Probe]:
        folder, size = self._settings.disk_folder, self._settings.disk_bytes
        if folder is None:
            return []
        began_s, began = time.time(), time.monotonic()
        values: dict[Resource, float | None] = dict.fromkeys(_DISK)
        error = ""
        try:
            speeds = disk.measure(folder, size_bytes=size, reads=self._settings.disk_reads)
            figures = (speeds.write_bytes_per_s, speeds.read_bytes_per_s, speeds.latency_s)
            values = dict(zip(_DISK, figures, strict=True))
        except ProbeError as failed:
            error = str(failed)
        took_s = time.monotonic() - began
        return [
            Probe(
                resource=resource,
                source=self._name,
                target=str(folder),
                at_s=began_s,
                value=value,
                size_bytes=size,
                took_s=took_s,
                error=error,
            )
            for resource, value in values.items()
        ]


_DISK = (Resource.DISK_WRITE, Resource.DISK_READ, Resource.DISK_LATENCY)
