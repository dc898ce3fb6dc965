"""Node profiles as a table, with the outliers below it."""

from collections.abc import Sequence

from sacct_ingest.probes.agreement import MEASURES, Outlier, TypeProfile
from sacct_ingest.records import NodeProfile

#: Measure to heading, factor and digits.
_COLUMNS = {
    "cpu_events_per_s": ("cpu/s", 1.0),
    "cpu_all_events_per_s": ("all cpus/s", 1.0),
    "mem_bandwidth_bytes_per_s": ("mem GB/s", 1e-9),
    "mem_latency_s": ("mem ns", 1e9),
    "disk_read_bytes_per_s": ("read MB/s", 1e-6),
    "disk_write_bytes_per_s": ("write MB/s", 1e-6),
    "disk_latency_s": ("disk us", 1e6),
    "net_bandwidth_bytes_per_s": ("net MB/s", 1e-6),
    "net_latency_s": ("net us", 1e6),
}


def describe(profiles: Sequence[NodeProfile], types: Sequence[TypeProfile]) -> str:
    """Give a table of types and their nodes; outliers and errors stand below it."""
    by_name = {profile.node: profile for profile in profiles}
    measures = [m for m in MEASURES if any(m in kind.values for kind in types)]
    rows = [["", *(_COLUMNS[m][0] for m in measures)]]
    for kind in types:
        rows.append([kind.node_type, *(_cell(m, kind.values.get(m)) for m in measures)])
        for node in kind.nodes:
            cells = (_cell(m, getattr(by_name[node], m)) for m in measures)
            rows.append([f"  {node}", *cells])
    complaints = [complaint(outlier) for kind in types for outlier in kind.outliers]
    complaints += [f"{profile.node}: {profile.error}" for profile in profiles if profile.error]
    return "\n".join([*_aligned(rows), *complaints])


def complaint(outlier: Outlier) -> str:
    """Describe an outlier."""
    heading, _ = _COLUMNS[outlier.measure]
    return (
        f"{outlier.node}: {heading} {_cell(outlier.measure, outlier.value)} is "
        f"{outlier.ratio:.2f} of its type's {_cell(outlier.measure, outlier.typical)}"
    )


def _cell(measure: str, value: float | None) -> str:
    return "-" if value is None else f"{value * _COLUMNS[measure][1]:.4g}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in rows
    ]
