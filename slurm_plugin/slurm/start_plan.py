"""When a job that waits would start if all others took their time limits, as Slurm plans: pure."""

from dataclasses import replace
from math import ceil, inf

from sacct_ingest.text.hostlist import expand
from slurm_plugin.slurm.cluster_state import Cluster, Partition, RawState
from slurm_plugin.slurm.limits import NodeBounds
from slurm_plugin.slurm.node_pool import NodeShare
from slurm_plugin.slurm.pending_job import PendingJob
from slurm_plugin.slurm.queue_facts import jobs_before
from slurm_plugin.slurm.slurm_conf import SlurmConf
from slurm_plugin.slurm.snapshot import build
from slurm_plugin.slurm.startable import WAITS


class StartPlan:
    """When a job would start, as Slurm plans: all jobs take their limits.

    raw: what Slurm said.
    job: the one that waits; those behind it delay it no more than it lets them.
    """

    def __init__(
        self, raw: RawState, settings: SlurmConf, job: PendingJob, *, now_s: float
    ) -> None:
        self.now_s = now_s
        first = {id(one) for one in jobs_before(raw, job)}
        jobs = [one for one in raw.jobs if one.state not in WAITS or id(one) in first]
        self._names = [node.name for node in raw.nodes]
        self._counts_memory = settings.counts_memory
        self.cluster: Cluster = build(
            replace(raw, jobs=jobs), settings, cluster=settings.cluster, taken_s=now_s
        )

    def start_s(self, job: PendingJob) -> float:
        """Give the first start in one of its partitions; ``inf``: never."""
        views = (self.view(job, name) for name in job.partitions)
        limit_s = job.limit_s or 365 * 86_400.0
        starts = (
            one.by_limits.earliest_start(job.nodes, limit_s, from_s=self.now_s)
            for one in views
            if one is not None and job.nodes <= one.nodes
        )
        return min(starts, default=inf)

    def view(self, job: PendingJob, name: str) -> Partition | None:
        """Give a partition as a job sees it; None: it starts no jobs, or there is none."""
        partition = self.cluster.partitions.get(name)
        if partition is None or not partition.up:
            return None
        bounds = NodeBounds(low=1, high=max(partition.nodes, 1))
        return partition.for_job(self.share(job), bounds)

    def share(self, job: PendingJob) -> NodeShare:
        """Give what a job takes of each node."""
        excluded = ",".join(filter(None, (job.excluded, self._others(job))))
        nodes = max(job.nodes, 1)
        if job.exclusive:
            return NodeShare(constraint=job.features, gpu_type=job.gpu_type, excluded=excluded)
        gres = {n.partition("gres/")[2]: v for n, v in job.tres.items() if n.startswith("gres/")}
        return NodeShare(
            cpus=ceil(job.cpus / nodes),
            mem_mib=ceil(job.tres.get("mem", 0.0) / nodes) if self._counts_memory else 0,
            gres=tuple(sorted((n, ceil(v / nodes)) for n, v in gres.items() if ":" not in n)),
            gpu_type=job.gpu_type,
            whole=False,
            constraint=job.features,
            excluded=excluded,
        )

    def _others(self, job: PendingJob) -> str:
        """List all nodes but those that a job names; empty: it names none, or needs more."""
        named = frozenset(expand(job.node_list)) if job.node_list else frozenset()
        if not named or len(named) < job.nodes:
            return ""
        return ",".join(name for name in self._names if name not in named)
