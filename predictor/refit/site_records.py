"""What a refit leaves of the whole site: what tables rest on, and pasts of jobs and queues."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Sized

import msgspec

from predictor.facts import SeenNodes
from predictor.level.record import PooledErrors
from predictor.neighbours import MOST_JOBS, collect
from predictor.tables.seen_nodes import named_nodes
from predictor.waits.history import queue_past
from predictor.waits.workload import encode as encode_past
from sacct_ingest.store import RecordRow, RunRow, Store
from sacct_ingest.store.fits import BASIS, NEIGHBOURS, OUTLOOK, PASTS_MADE, QUEUE, SEEN_NODES

#: The pasts of queues are made anew after that time ...
_PASTS_EVERY_S = 3600.0
#: ... or with so many times the runs.
_MORE_RUNS = 1.05


class Basis(msgspec.Struct, frozen=True):
    """What the tables of a store rest on besides their own runs."""

    number: int
    settings: str  #: digest of the settings and of the models' version
    pooled: PooledErrors


def read_basis(store: Store) -> Basis:
    """Give what the tables of a store rest on; number 0: no refit has been yet."""
    text = store.records.find(*BASIS)
    if not text:
        return Basis(0, "", PooledErrors())
    return msgspec.json.decode(text, type=Basis)


def next_basis(store: Store, basis: Basis, settings: str, errors: PooledErrors) -> Basis:
    """Write what tables rest on from now on, and give it; those on an earlier one are stale."""
    following = Basis(basis.number + 1, settings, errors)
    put_site(store, BASIS, msgspec.json.encode(following).decode())
    return following


def put_site(store: Store, place: tuple[str, str], payload: str) -> None:
    """Write a record of the whole site."""
    store.records.put(RecordRow(level=place[0], key=place[1], payload=payload))


def cluster_nodes_of(store: Store, newest: Sequence[RunRow]) -> int:
    """Nodes of the largest partition that nimod left the outlook of; else of those that runs name.

    Where none names its nodes, those of the widest run.

    newest: the newest first.  0: their newer half names nodes that the older one does not.
    """
    sizes: list[int] = []
    for text in store.records.of_level(OUTLOOK).values():
        outlook = msgspec.json.decode(text)
        sizes += [partition["nodes"] for partition in outlook["partitions"]]
    if sizes:
        return max(sizes)
    nodes, settled = named_nodes(newest)
    return nodes if settled else 0


def pasts_are_due(store: Store, newest: Sized, now_s: float) -> bool:
    """Whether the pasts of queues were made an hour ago, or a twentieth more runs are there."""
    text = store.records.find(*PASTS_MADE)
    if not text:
        return True
    then_s, runs = msgspec.json.decode(text, type=tuple[float, int])
    return abs(now_s - then_s) >= _PASTS_EVERY_S or len(newest) >= _MORE_RUNS * runs


def put_pasts(
    store: Store,
    newest: Sequence[RunRow],
    seen: Mapping[tuple[str, str], SeenNodes],
    now_s: float,
    *,
    queues: bool,
) -> None:
    """Leave what the newest runs say of all jobs: those to compare with, nodes, and queues.

    seen: what they show of nodes, by cluster and partition.
    queues: leave the past of each cluster's queue for nimod, too.
    """
    _put_neighbours(store, now_s, len(newest))
    _put_seen(store, seen)
    if queues:
        _put_queues(store, newest)


def _put_neighbours(store: Store, now_s: float, runs: int) -> None:
    """Leave the jobs that commands without runs are compared with, and when that was."""
    put_site(store, PASTS_MADE, msgspec.json.encode((now_s, runs)).decode())
    past_jobs = collect(store.runs.newest(2 * MOST_JOBS, texts=True))
    put_site(store, NEIGHBOURS, msgspec.json.encode(past_jobs).decode())


def _put_seen(store: Store, seen: Mapping[tuple[str, str], SeenNodes]) -> None:
    """Leave what runs show of each cluster's nodes, by partition."""
    clusters: dict[str, dict[str, SeenNodes]] = defaultdict(dict)
    for (cluster, partition), nodes in seen.items():
        clusters[cluster][partition] = nodes
    for cluster, partitions in clusters.items():
        payload = msgspec.json.encode(partitions).decode()
        store.records.put(RecordRow(level=SEEN_NODES, key=cluster, payload=payload))


def _put_queues(store: Store, newest: Iterable[RunRow]) -> None:
    """Leave the past of each cluster's queue for nimod."""
    clusters: dict[str, list[RunRow]] = defaultdict(list)
    for run in newest:
        clusters[run.cluster].append(run)
    for cluster, runs in clusters.items():
        past = queue_past(runs)
        store.records.put(RecordRow(level=QUEUE, key=cluster, payload=encode_past(past)))
