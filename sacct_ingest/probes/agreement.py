"""Nodes of one type: one profile for all of them, and which of them do not agree."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log, log1p
from statistics import median
from typing import Final

from sacct_ingest.records import NodeProfile

MEASURES: Final = (
    "cpu_events_per_s",
    "cpu_all_events_per_s",
    "mem_bandwidth_bytes_per_s",
    "mem_latency_s",
    "disk_read_bytes_per_s",
    "disk_write_bytes_per_s",
    "disk_latency_s",
    "net_bandwidth_bytes_per_s",
    "net_latency_s",
)
#: A standard deviation, from the median absolute deviation of normal errors.
_SIGMA: Final = 1.4826
_SIGMAS: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """A node whose figure is not that of its type."""

    node: str
    measure: str
    value: float
    typical: float

    @property
    def ratio(self) -> float:
        """Its figure over that of its type."""
        return self.value / self.typical


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeProfile:
    """The resource profile of a node type: medians over the nodes that agree."""

    node_type: str
    nodes: tuple[str, ...]
    values: Mapping[str, float]
    outliers: tuple[Outlier, ...]


def type_profiles(profiles: Iterable[NodeProfile], *, tolerance: float = 0.1) -> list[TypeProfile]:
    """Group nodes by their type and hold them against each other.

    A node is an outlier where a figure is off the median of its type by more than ``tolerance`` and
    more than three standard deviations of the type.  Of two nodes that differ by more than the
    tolerance neither is proven right: both are outliers.
    """
    groups: dict[str, list[NodeProfile]] = defaultdict(list)
    for profile in profiles:
        groups[profile.node_type].append(profile)
    return [_of_type(name, groups[name], tolerance) for name in sorted(groups)]


def _of_type(name: str, members: Sequence[NodeProfile], tolerance: float) -> TypeProfile:
    values: dict[str, float] = {}
    outliers: list[Outlier] = []
    for measure in MEASURES:
        measured = {p.node: v for p in members if (v := getattr(p, measure))}
        if not measured:
            continue
        typical = median(measured.values())
        spread = _SIGMA * median(abs(log(v / typical)) for v in measured.values())
        wrong = _apart(measured, typical, spread, tolerance)
        outliers += [
            Outlier(node=node, measure=measure, value=measured[node], typical=typical)
            for node in wrong
        ]
        values[measure] = median(
            [v for n, v in measured.items() if n not in wrong] or measured.values()
        )
    nodes = tuple(sorted(p.node for p in members))
    return TypeProfile(node_type=name, nodes=nodes, values=values, outliers=tuple(outliers))


def _apart(
    values: Mapping[str, float], typical: float, spread: float, tolerance: float
) -> list[str]:
    if len(values) == 2:
        low, high = sorted(values.values())
        return sorted(values) if high > low * (1 + tolerance) else []
    # Logarithms: a node may be ten times slower, which no difference of -90 % would show.
    limit = max(log1p(tolerance), _SIGMAS * spread)
    return sorted(node for node, value in values.items() if abs(log(value / typical)) > limit)
