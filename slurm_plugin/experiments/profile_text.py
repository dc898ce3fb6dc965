"""Node profiles as a table, with the outliers below it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple

from sacct_ingest.probes.agreement import MEASURES, Outlier, TypeProfile
from sacct_ingest.records import NodeProfile
from slurm_plugin.text.formatting import printable, wrapped
from slurm_plugin.text.table_columns import (
    ALWAYS,
    ON_REQUEST,
    WIDTH,
    OutputColumn,
    OutputTable,
    TableOptions,
)

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


class ProfileRow(NamedTuple):
    """A type of node, or one node of it."""

    node: str
    node_type: str
    values: Mapping[str, float | None]


def describe(
    profiles: Sequence[NodeProfile],
    types: Sequence[TypeProfile],
    options: TableOptions | None = None,
    *,
    width: int = WIDTH,
) -> str:
    """Give a table of types and their nodes; outliers and errors stand below it.

    Raises NoColumn: the options name a column that there is not.
    """
    by_name = {profile.node: profile for profile in profiles}
    rows = [row for kind in types for row in _rows(kind, by_name)]
    measures = [m for m in MEASURES if any(m in kind.values for kind in types)]
    made = OutputTable(_columns(measures), rows).text(options, width=width)
    complaints = [complaint(outlier) for kind in types for outlier in kind.outliers]
    complaints += [f"{profile.node}: {profile.error}" for profile in profiles if profile.error]
    return "\n".join([made, *(wrapped(printable(text), width) for text in complaints)])


def profile_table(profiles: Sequence[NodeProfile]) -> OutputTable:
    """All fields of the nodes."""
    return OutputTable([OutputColumn(one.name, one.name) for one in fields(NodeProfile)], profiles)


def _rows(kind: TypeProfile, by_name: Mapping[str, NodeProfile]) -> Iterator[ProfileRow]:
    yield ProfileRow(kind.node_type, kind.node_type, kind.values)
    for node in kind.nodes:
        values = {measure: getattr(by_name[node], measure) for measure in MEASURES}
        yield ProfileRow(f"  {node}", kind.node_type, values)


def _columns(measures: Sequence[str]) -> list[OutputColumn]:
    """Columns of these measures, the first of most worth."""

    def of(measure: str, place: int) -> OutputColumn:
        return OutputColumn(
            measure,
            _COLUMNS[measure][0],
            lambda row: row.values.get(measure),
            lambda value: _cell(measure, value),
            worth=max(ALWAYS - 1 - place, 1),
        )

    return [
        OutputColumn("node", "", left=True, cuts=True),
        OutputColumn("node_type", "type", worth=ON_REQUEST),
        *(of(measure, place) for place, measure in enumerate(measures)),
    ]


def complaint(outlier: Outlier) -> str:
    """Describe an outlier."""
    heading, _ = _COLUMNS[outlier.measure]
    return (
        f"{outlier.node}: {heading} {_cell(outlier.measure, outlier.value)} is "
        f"{outlier.ratio:.2f} of its type's {_cell(outlier.measure, outlier.typical)}"
    )


def _cell(measure: str, value: float | None) -> str:
    return "-" if value is None else f"{value * _COLUMNS[measure][1]:.4g}"
