"""Types of nodes: what their benchmarks say of them, and on which of them a run was."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sacct_ingest.probes.agreement import type_profiles
from sacct_ingest.records import NodeProfile
from sacct_ingest.text.hostlist import expand

#: Amounts of a node's resources, and the benchmark that says how much there is of each.
FIGURES = {
    "cpu": "cpu_events_per_s",
    "memory": "mem_bandwidth_bytes_per_s",
    "disk": "disk_read_bytes_per_s",
    "network": "net_bandwidth_bytes_per_s",
}


@dataclass(frozen=True, slots=True)
class NodeType:
    """A node type with the amounts of :data:`FIGURES` that were measured."""

    name: str
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NodeTypes:
    """All node types with profiles.

    ``nodes`` has the type of each node, by cluster and name; ``partitions`` the only type that
    runs in a partition were on.
    """

    types: Mapping[str, NodeType] = field(default_factory=dict)
    nodes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    partitions: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, profiles: Iterable[NodeProfile], ran: Iterable[tuple[str, str, str]] = ()
    ) -> "NodeTypes":
        """Make them of the newest profile of each node.

        ran: cluster, partition and node type of runs, as far as there are profiles.
        """
        typed = [one for one in profiles if one.node_type]
        types = {
            one.node_type: NodeType(
                one.node_type,
                {name: one.values[of] for name, of in FIGURES.items() if of in one.values},
            )
            for one in type_profiles(typed)
        }
        of_partition: dict[tuple[str, str], set[str]] = {}
        for cluster, partition, node_type in ran:
            of_partition.setdefault((cluster, partition), set()).add(node_type)
        return cls(
            types,
            {(one.cluster, one.node): one.node_type for one in typed},
            {place: min(names) for place, names in of_partition.items() if len(names) == 1},
        )

    def of_run(self, cluster: str, node_list: str, partition: str) -> str:
        """Type of the nodes of a run; where none of them was measured, that of its partition.

        Nodes that were not measured are taken to be like the others; empty: several types or none.
        """
        try:
            names = expand(node_list)
        except ValueError:
            return ""
        measured = {self.nodes[cluster, name] for name in names if (cluster, name) in self.nodes}
        if measured:
            return measured.pop() if len(measured) == 1 else ""
        usual = self.partitions.get((cluster, partition), "")
        return usual if usual in self.types else ""
