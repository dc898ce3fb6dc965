"""What one task may have at one place: the limits of partition, QOS and association.  Pure."""

from dataclasses import dataclass
from math import inf

from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.cluster_state import Cluster
from slurm_plugin.slurm.partition_view import partition_for


@dataclass(frozen=True, slots=True)
class TaskBounds:
    """Node counts and time that a task may have at a place."""

    low: int = 1
    high: float = inf  #: 0: none at all
    longest_s: float = inf
    why: str = ""  #: what sets the node counts, for people


def room_for(cluster: Cluster, job: Job) -> TaskBounds:
    """Bounds of a job in its partition.

    cluster: as it is.
    job: its request; the fewest nodes that it can do with are ``min_nodes``.
    """
    named = cluster.partition(job.partition)
    if named is None or not named.open:
        return TaskBounds(high=0, why=f"partition {job.partition} is not up")
    account = cluster.limits.account_of(job.user_name, job.account)
    association = cluster.limits.association(job.user_name, account, named.name)
    qos = cluster.limits.qos_of(association, job.qos)
    if not named.admits.holds(account, qos):
        return TaskBounds(high=0, why=f"partition {named.name} does not admit {account or qos}")
    bounds = partition_for(cluster, job)
    if bounds is None:
        return TaskBounds(high=0, why=f"partition {named.name} takes no such job")
    why = bounds.bound or (f"MaxNodes of partition {named.name}" if named.max_nodes else "")
    return TaskBounds(bounds.min_nodes, bounds.largest, bounds.max_time_s or inf, why)
