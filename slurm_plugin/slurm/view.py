"""The cluster as one job sees it: its partition, within the limits that hold for it.  Pure."""

import re
from collections.abc import Mapping

from slurm_plugin.protocol import Job
from slurm_plugin.slurm.limits import Need, limits_of, node_range
from slurm_plugin.slurm.state import Cluster, Partition

#: ``gres/gpu:2``, ``gres:gpu:a100:2``, ``gres/gpu=2``; without a count it is one.
_GRES = re.compile(r"gres[/:]([^:=,]+)(?:[:=]([^,:=]+))??(?:[:=](\d+))?(?=,|$)")
_EXCLUSIVE = 0  #: job_desc.shared of ``--exclusive``


def partition_for(cluster: Cluster, job: Job) -> Partition | None:
    """Partition that a job asks for, with all limits that hold for the job.

    None for an unknown one and for a list of several, where the scheduler has the choice.
    """
    found = cluster.partition(job.partition)
    if found is None:
        return None
    limits = limits_of(
        cluster.limits,
        user=job.user_name,
        uid=job.user_id,
        account=job.account,
        partition=found.name,
        qos=job.qos,
        partition_qos=found.qos,
    )
    limit_s = 60.0 * job.time_limit if job.time_limit else found.default_time_s
    need = Need(
        low=job.min_nodes or 1,
        high=found.nodes,
        per_node=taken_per_node(job, found),
        limit_s=limit_s or found.max_time_s,
    )
    allowed = node_range(need, limits, safe=cluster.limits.safe)
    return found.within(allowed, limits.flags)


def taken_per_node(job: Job, partition: Partition) -> Mapping[str, float]:
    """CPUs, memory (MiB) and devices that a job takes on each of its nodes.

    Memory that the job does not ask for is not counted: the default of the site is not ours.
    """
    whole = job.shared == _EXCLUSIVE or partition.exclusive
    cpus = (job.ntasks_per_node or 1) * (job.cpus_per_task or 1)
    cpus = partition.node_cpus if whole else cpus
    memory = job.min_mem_per_node or (job.min_mem_per_cpu or 0) * cpus
    taken = {f"gres/{name}": float(n or 1) for name, _, n in _GRES.findall(job.tres_per_node)}
    return {"cpu": float(cpus), "mem": float(memory), **taken}
