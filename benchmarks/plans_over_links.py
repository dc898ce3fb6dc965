"""Plans on two real clusters over a shaped link: which way with the data, and how long each took.

A file of 8 MB lies near; nodes of the far cluster compute three times as fast.  Sensors on both
ends measure the link, one transfer is made over it, and ``nimo lab plan`` chooses among staging,
reading in place and staying.  Then each way is made.  *Passes* are three programs that read the
file one after the other and then compute; *stream* computes while it reads, as samples of six runs
say.  For root: the hosts are network namespaces.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import _bench

from tests.cluster import SlurmCluster
from tests.conftest import scratch_directory
from tests.end_to_end.linked_clusters import WAYS, LinkedClusters, linked, way_of
from tests.sacct_ingest.probes import slow_link

SIZE = 8_000_000
#: Bandwidths in Mbit/s, and the seconds that a task computes near.
PASSES, PASS_S = (40.0, 24.0, 4.0), 6.0
STREAMS, STREAM_S = (16.0, 3.0), 15.0


def main() -> None:
    """Measure and print."""
    args = _bench.options(__doc__).parse_args()
    if reason := slow_link.missing():
        raise SystemExit(reason)
    with linked(_cluster) as clusters:
        clusters.file("raw", SIZE)
        rows = [row(clusters, "passes", clusters.passes(PASS_S), rate) for rate in PASSES]
        if not args.quick:
            stream = clusters.stream(STREAM_S)
            rows += [row(clusters, "stream", stream, rate) for rate in STREAMS]
    _bench.table(rows, title="Ways with data: seconds as planned, and as they were")
    _bench.write(args.json, plans=rows)


@contextmanager
def _cluster(**settings: Any) -> Iterator[SlurmCluster]:
    with scratch_directory("nimo-links-") as directory:
        cluster = SlurmCluster(directory / settings["name"], **settings)
        cluster.up()
        try:
            yield cluster
        finally:
            cluster.down()


def row(clusters: LinkedClusters, name: str, tasks: dict[str, Any], rate: float) -> dict[str, Any]:
    """Plan a workflow over a link, and make it in each way."""
    with clusters.link(rate) as link:
        link.transfer("raw")
        plan = link.planned(link.workflow(name, tasks, SIZE))
        expected = {}
        for way in WAYS:
            made = link.planned(link.workflow(f"{name}-planned", tasks, SIZE, way))
            steps = made["steps"]
            expected[way] = max(one["end_s"] for one in steps) - min(
                one["start_s"] for one in steps
            )
        took = link.ends(name, tasks, SIZE)
    ended = {way: seconds for way, seconds in took.items() if seconds is not None}
    first = min(ended, key=lambda way: ended[way])
    return (
        {"workflow": name, "Mbit/s": rate, "planned": way_of(plan), "ended first": first}
        | {f"{way}, planned": expected[way] for way in WAYS}
        | {way: took[way] for way in WAYS}
    )


if __name__ == "__main__":
    main()
