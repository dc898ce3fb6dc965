"""Measurements and their cost as text."""

from collections.abc import Sequence

from sacct_ingest.probes.probe_settings import Cost
from sacct_ingest.records import Probe, Resource
from slurm_plugin.config.settings import SensorSettings
from slurm_plugin.text.formatting import printable, short_clock
from slurm_plugin.text.table_columns import (
    ON_REQUEST,
    OutputColumn,
    OutputTable,
    or_dash,
    text_column,
)


def newest(probes: Sequence[Probe]) -> list[Probe]:
    """Give the newest measurement of each series."""
    latest = {
        (probe.resource, probe.source, probe.target): probe
        for probe in sorted(probes, key=lambda probe: probe.at_s)
    }
    return [latest[key] for key in sorted(latest)]


def probe_table(probes: Sequence[Probe]) -> OutputTable:
    """Measurements by the fields of a `Probe`, in their order; of one that failed, why.

    >>> print(probe_table([Probe(resource=Resource.LATENCY, source="n1", target="n2", at_s=0.0,
    ...     value=0.00025)]).text())
    resource  from  to  value
    latency   n1    n2  250 us
    """
    columns = [
        OutputColumn("resource", "resource", lambda p: p.resource.value, left=True),
        text_column("source", "from", as_text=or_dash),
        text_column("target", "to", as_text=or_dash),
        OutputColumn("at_s", "at", as_text=short_clock, worth=ON_REQUEST),
        text_column("value", "value", show=_value),
        OutputColumn("size_bytes", "bytes", worth=ON_REQUEST),
        OutputColumn("took_s", "took", worth=ON_REQUEST),
        OutputColumn("error", "error", worth=ON_REQUEST),
    ]
    return OutputTable(columns, probes)


def describe_cost(cost: Cost, settings: SensorSettings) -> str:
    """Describe the resources that the probes use."""
    lines = [
        f"network  {cost.pairs} pairs every {settings.period_s:g} s, {cost.bytes_per_pair} bytes"
        f" each, one at a time: {cost.network_bytes_per_hour / 1e6:.3g} MB/h,"
        f" {cost.link_share:.2g} of a link of 1 Gbit/s",
        f"cpu      {settings.spin_s:g} s of one CPU every"
        f" {settings.spin_every * settings.period_s:g} s: {cost.cpu_share:.2g} of it",
        f"disk     {cost.disk_bytes_per_hour / 1e6:.3g} MB/h on each host",
        f"in all   {cost.probes_per_hour:.4g} measurements an hour",
    ]
    return "\n".join(lines)


def amount(resource: Resource, value: float) -> str:
    """Write a value with its unit.

    >>> amount(Resource.BANDWIDTH, 2.5e6)
    '2.5 MB/s'
    """
    return _FORMATS[resource].format(value * _SCALES[resource])


def _value(probe: Probe) -> str:
    if probe.value is None:
        return printable(f"failed: {probe.error}")
    return amount(probe.resource, probe.value)


_RATES = (Resource.BANDWIDTH, Resource.DISK_READ, Resource.DISK_WRITE, Resource.TRANSFER)
_TIMES = (Resource.LATENCY, Resource.DISK_LATENCY)
_SCALES = {**dict.fromkeys(_RATES, 1e-6), **dict.fromkeys(_TIMES, 1e6), Resource.CPU: 1.0}
_FORMATS = {
    **dict.fromkeys(_RATES, "{:.4g} MB/s"),
    **dict.fromkeys(_TIMES, "{:.4g} us"),
    Resource.CPU: "{:.3f} of a CPU",
}
