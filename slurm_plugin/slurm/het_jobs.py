"""Components of heterogeneous jobs in the queue: rows that are one job."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from slurm_plugin.slurm.cluster_state import RawJob
from slurm_plugin.slurm.startable import WAITS


def joined_components(jobs: Iterable[RawJob]) -> list[RawJob]:
    """Join the rows of each heterogeneous job that waits, and say of each what all of it has.

    Slurm starts all components at once.  Those that have nodes keep a row each: they are on other
    nodes.  So do those that wait for other partitions than the first.
    """
    jobs = list(jobs)
    components: defaultdict[int, list[RawJob]] = defaultdict(list)
    for job in jobs:
        if job.het_id is not None:
            components[job.het_id].append(job)
    if not components:
        return jobs
    joined: list[RawJob] = []
    for job in jobs:
        every = components.get(job.het_id or 0, [job])
        first = min(every, key=lambda one: one.job_id or 0)
        sized = replace(job, all_nodes=sum(one.nodes for one in every))
        together = [one for one in every if _waits_beside(first, one)]
        if job is first and len(together) > 1:
            sized = _as_one(sized, together)
        if job is first or job not in together:
            joined.append(sized)
    return joined


def _waits_beside(first: RawJob, job: RawJob) -> bool:
    return {first.state, job.state} <= WAITS and job.partitions == first.partitions


def _as_one(first: RawJob, components: Sequence[RawJob]) -> RawJob:
    tres: defaultdict[str, float] = defaultdict(float)
    for job in components:
        for name, amount in job.tres.items():
            tres[name] += amount
    names = (name for job in components for name in job.planned_names)
    limits_s = [job.limit_s for job in components]
    return replace(
        first,
        nodes=sum(job.nodes for job in components),
        max_nodes=None,
        tres=dict(tres),
        limit_s=None if None in limits_s else max(filter(None, limits_s), default=None),
        alone=all(job.alone for job in components),
        planned_names=tuple(dict.fromkeys(names)),
        components=tuple(job.job_id or 0 for job in components),
    )
