"""What advice and waits follow from, brought over to the process that answers: piece by piece.

Pieces are small: to pickle one keeps the interpreter from answering submissions.
"""

import dataclasses
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from msgspec.structs import replace

from sacct_ingest.text.hostlist import NodeNames
from slurm_plugin.config.settings import Config
from slurm_plugin.decision.lookup import FetchedTables, PredictionLookup
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.slurm.cluster_state import Cluster, Partition
from slurm_plugin.slurm.limits import LimitTables
from slurm_plugin.slurm.node_pool import NodePool
from slurm_plugin.wait_forecasts.forecasts import Outlooks
from slurm_plugin.wait_forecasts.queued_starts import QueuedStarts

_Item = TypeVar("_Item")
#: Name and value.
Piece = tuple[str, Any]
_SLICE = 200  #: entries of a mapping in one piece, under 1 ms
_ADVICE_S = 0.5  #: processor time of one advice
#: Limits without the mappings that grow with the site.
_BARE_LIMITS: dict[str, Any] = {"associations": {}, "default_accounts": {}, "user_names": {}}


class StateSender:
    """Gives what a worker has not got yet.

    service, outlooks: nimod's own.
    """

    def __init__(self, service: DecisionService, outlooks: Outlooks) -> None:
        self._service, self._outlooks = service, outlooks
        self._sent: dict[str, object] = {}

    def forget(self) -> None:
        """Begin anew: with a worker that has nothing."""
        self._sent = {}

    def for_all(self) -> Iterator[Piece]:
        """Give new settings."""
        config = self._service.config
        if self._new("config", config):
            yield "config", config

    def for_advice(self) -> Iterator[Piece]:
        """Give what is new in the cluster and among the tables."""
        yield from self.for_all()
        tables, cluster, waits = self._service.tables, self._service.cluster, self._service.waits
        if self._new("tables", tables):
            for some in _sliced(tables.node_types.items()):
                yield "node_types", some
            yield "tables", (tables.version, len(tables), tables.off)
        if self._new("accuracy", waits):
            yield "accuracy", waits
        if cluster is not None and self._new("look", cluster.taken_s):
            yield from self._cluster(cluster)

    def for_waits(self) -> Iterator[Piece]:
        """Give what is new in the queue."""
        yield from self.for_all()
        starts = self._outlooks.queued_starts()
        if self._new("queue", (starts.made_s, starts.looked_s)):
            for name in ("pending", "starts", "tasks"):
                for some in _sliced(getattr(starts, name).items()):
                    yield name, some
            yield "queue", dataclasses.replace(starts, pending={}, starts={}, tasks={})

    def text(self, level: str, key: str) -> str | None:
        """Give the text of a prediction table."""
        return self._service.tables.text(level, key)

    def _new(self, name: str, value: object) -> bool:
        before = self._sent.get(name)
        if before is value or (isinstance(value, tuple) and before == value):
            return False
        self._sent[name] = value
        return True

    def _cluster(self, cluster: Cluster) -> Iterator[Piece]:
        limits = cluster.limits
        if self._new("limits", limits):
            for name in _BARE_LIMITS:
                for some in _sliced(getattr(limits, name).items()):
                    yield name, some
            yield "limits", dataclasses.replace(limits, **_BARE_LIMITS)
        for part in cluster.partitions.values():
            pool = part.pool
            for some in _sliced(pool.groups.items() if pool else ()):
                yield "groups", some
            bare = pool and dataclasses.replace(pool, groups={}, memo={}, listed=None)
            yield "partition", replace(part, pool=bare)
        yield "look", replace(cluster, partitions={}, limits=LimitTables())


class WorkerState:
    """What a worker has got.

    fetch: gives the text of a prediction table by level and key; None where there is none.
    service: advises.
    starts: when jobs in the queue start.
    """

    def __init__(self, fetch: Callable[[str, str], str | None]) -> None:
        self._fetch = fetch
        self._some: dict[str, dict[Any, Any]] = {}
        self._partitions: dict[str, Partition] = {}
        self._limits = LimitTables()
        self.config = Config()
        self.service = DecisionService(
            self.config, new_id=str, cpu_clock=time.thread_time, most_s=_ADVICE_S
        )
        self.starts = QueuedStarts()

    def take(self, piece: Piece) -> None:
        """Take a piece."""
        name, value = piece
        if name == "config":
            self.config = self.service.config = value
        elif name == "accuracy":
            self.service.waits = value
        elif name == "tables":
            version, count, off = value
            self.service.tables = PredictionLookup(
                version=version,
                off=off,
                node_types=self._taken("node_types"),
                packed=FetchedTables(self._fetch, count),
            )
        elif name == "limits":
            self._limits = dataclasses.replace(value, **{n: self._taken(n) for n in _BARE_LIMITS})
        elif name == "partition":
            groups = self._taken("groups")
            pool = value.pool and dataclasses.replace(value.pool, groups=groups)
            self._partitions[value.name] = replace(value, pool=pool)
        elif name == "look":
            self.service.cluster = replace(
                value, partitions=_with_all_nodes(self._partitions), limits=self._limits
            )
            self._partitions = {}
        elif name == "queue":
            parts = {n: self._taken(n) for n in ("pending", "starts", "tasks")}
            self.starts = dataclasses.replace(value, **parts)
        else:
            self._some.setdefault(name, {}).update(value)

    def _taken(self, name: str) -> dict[Any, Any]:
        """Give what came of a mapping."""
        return self._some.pop(name, {})


def _with_all_nodes(partitions: Mapping[str, Partition]) -> dict[str, Partition]:
    """Let all pools compare lists with the same nodes, whose names are there once."""
    names = {
        group: tuple(map(sys.intern, some))
        for part in partitions.values()
        if part.pool
        for group, some in part.pool.groups.items()
    }
    listed = NodeNames(name for some in names.values() for name in some)

    def shared(pool: NodePool) -> NodePool:
        groups = {group: tuple(map(sys.intern, some)) for group, some in pool.groups.items()}
        return dataclasses.replace(pool, groups=groups, listed=listed)

    return {
        name: replace(part, pool=part.pool and shared(part.pool))
        for name, part in partitions.items()
    }


def _sliced(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Give items in small lists."""
    left = iter(items)
    while some := list(islice(left, _SLICE)):
        yield some
