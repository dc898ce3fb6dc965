"""Nodes that jobs will take before squeue shows the jobs: for each user, since the latest view."""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from functools import reduce
from math import inf

import msgspec

from predictor.table import at, covers, verdict_at
from predictor.types import Verdict
from sacct_ingest.runs.layout import Unit
from slurm_plugin.decision.policy import Decision, as_scheduled
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.sizes import nodes_of
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.cluster_state import Cluster, Partition
from slurm_plugin.slurm.footprint import footprint
from slurm_plugin.slurm.node_pool import NodeShare
from slurm_plugin.slurm.supply import Supply

#: A job is decided on this long before squeue can show it.
_UNLISTED_S = 0.5
_MOST = 1_000  #: most bookings of one user
#: Jobs whose nodes do not follow from their own request.
_NOT_COUNTED = frozenset({Reason.ARRAY, Reason.HET, Reason.RESERVATION, Reason.FIXED_TASKS})


@dataclass(frozen=True, slots=True)
class Booking:
    """Nodes that a job will take and that the view of the cluster does not show yet."""

    made_s: float
    partition: str
    nodes: int
    start_s: float
    end_s: float
    waits: bool  #: for nodes, so that its start is open
    share: NodeShare  #: what it takes of each of them
    part: float  #: the same, as part of a node
    decision_id: str  #: by which a view knows the job


class Bookings:
    """The latest view of the cluster, and the nodes that were booked since.

    A booking counts for its own user's jobs only: users do not change each other's decisions.
    """

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._booked: dict[str, deque[Booking]] = {}
        self._views: dict[str, Cluster] = {}

    def renew(self, cluster: Cluster) -> None:
        """Take a new view, which shows the jobs that were booked before it."""
        for user, made in list(self._booked.items()):
            since = cluster.taken_s - _UNLISTED_S
            left = [m for m in made if m.made_s >= since and m.decision_id not in cluster.shown]
            if left:
                self._booked[user] = deque(left, maxlen=_MOST)
            else:
                del self._booked[user]
        self._cluster = cluster
        self._views = {}

    def view(self, user: str) -> Cluster | None:
        """View of the cluster, less what was booked for the jobs of this user since."""
        cluster = self._cluster
        if cluster is None or user not in self._booked:
            return cluster
        if user not in self._views:
            self._views[user] = reduce(_without, self._booked[user], cluster)
        return self._views[user]

    def of(self, user: str) -> tuple[Booking, ...]:
        """Give what was booked for the jobs of a user."""
        return tuple(self._booked.get(user, ()))

    def put(self, user: str, booked: Collection[Booking]) -> None:
        """Put what was booked elsewhere in the place of all that is here."""
        self._booked = {user: deque(booked)} if booked else {}
        self._views = {}

    def add(self, case: Situation, decided: Decision | None, decision_id: str = "") -> None:
        """Book the nodes that a job will take; None: it runs as it was asked for."""
        part = case.partition
        request = case.request
        if part is None or request.fixed in _NOT_COUNTED:
            return
        chosen = decided.chosen if decided and request.unit is Unit.NODES else None
        if request.unit is not Unit.NODES:
            request = msgspec.structs.replace(request, asked=nodes_of(request.resources) or 1)
        nodes = (
            chosen.nodes if chosen else as_scheduled(request, _nodes(case, part), now_s=case.now_s)
        )
        if nodes is None:
            return
        limit_s = (chosen.limit_s if chosen else request.limit_s) or part.max_time_s or inf
        begin = max(case.now_s, request.begin_s)
        start = part.profile.earliest_start(nodes, limit_s, from_s=begin)
        if start < inf:
            waits = start > begin
            end = start + min(limit_s, _expected_s(case, nodes))
            own = msgspec.structs.replace(request.resources, min_nodes=nodes, max_nodes=nodes)
            made = Booking(
                *(case.now_s, part.name, nodes, start, end, waits),
                footprint(own, part).share(own),
                part.node_part,
                decision_id,
            )
            user = request.resources.user_name
            cluster = self.view(user)
            self._booked.setdefault(user, deque(maxlen=_MOST)).append(made)
            if cluster is not None:
                self._views[user] = _without(cluster, made)


def _without(cluster: Cluster, made: Booking) -> Cluster:
    """View of the cluster without the nodes of a reservation."""
    part = cluster.partitions.get(made.partition)
    if part is None:
        return cluster
    times = made.start_s, made.end_s
    if made.waits:
        part = part.queued(made.nodes, made.part)
    else:
        part = part.promise(made.nodes, *times, made.share, made.part)
    return msgspec.structs.replace(cluster, partitions={**cluster.partitions, part.name: part})


def _nodes(case: Situation, part: Partition) -> Supply:
    """Give what its partition has for a job in nodes, whatever its request counts."""
    supply = case.supply
    return supply if supply is not None and supply.unit is Unit.NODES else part.supply


def _expected_s(case: Situation, nodes: int) -> float:
    """Longest run time to be expected; infinite: there is only the time limit."""
    table = case.table
    request = case.request
    if table is None or request.unit is not Unit.NODES or request.distrusted:
        return inf
    sure = covers(table, nodes) and not table.is_guess
    return at(table, nodes).high_s if sure and verdict_at(table, nodes) is Verdict.RELIABLE else inf
