"""What runs show of the nodes of each partition."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from predictor.facts import SeenNodes
from predictor.waits.backtest import node_names
from sacct_ingest.store.rows import RunRow

#: Latest runs of a partition whose lists of nodes are read.
_LISTS = 2_000


def seen_nodes(newest: Iterable[RunRow]) -> dict[tuple[str, str], SeenNodes]:
    """Give what runs show of each partition, by cluster and name.

    newest: runs, the newest first.
    """
    by_place: dict[tuple[str, str], list[RunRow]] = defaultdict(list)
    for run in newest:
        if run.nodes > 0:
            by_place[run.cluster, run.partition].append(run)
    return {place: _seen(runs) for place, runs in by_place.items()}


def _seen(runs: Sequence[RunRow]) -> SeenNodes:
    nodes, settled = named_nodes(runs)
    return SeenNodes(
        nodes=nodes,
        settled=settled and any(run.node_list for run in runs),
        cpus=max(run.cpus // run.nodes for run in runs),
        gpus=max(-(-(run.gpus or 0) // run.nodes) for run in runs),
    )


def named_nodes(newest: Sequence[RunRow]) -> tuple[int, bool]:
    """Count the nodes that runs name; where none names its nodes, those of the widest run.

    newest: the newest first.
    Returns tuple: how many, and whether their newer half names none that the older one does not.
    """
    latest = newest[:_LISTS]
    widest = max((row.nodes for row in latest), default=0)
    newer, older = (
        node_names(row.node_list for row in half)
        for half in (latest[: len(latest) // 2], latest[len(latest) // 2 :])
    )
    return max(len(newer | older), widest), newer <= older
