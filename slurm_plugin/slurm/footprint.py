"""What a job takes of each of its nodes: CPUs, memory, devices.  The only place that says so.

As slurmctld does it (``_valid_pn_min_mem`` in job_mgr.c, whose limits hold for memory by default,
too); ``tests/cluster/test_footprint.py`` asks a real one.
"""

import re
from math import ceil, inf

import msgspec

from sacct_ingest.scripts.bounded_cache import bounded_cache
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.converters import device
from slurm_plugin.slurm.node_pool import profile

#: Characters of a list of devices that is read; a longer one takes nimod too long.
_LONGEST = 4096
_EXCLUSIVE = 0  #: job_desc.shared of ``--exclusive``
#: Stands in where the cluster's state is unknown.
UNKNOWN = Partition(name="", nodes=0, profile=profile([(0.0, 0)]))


class Footprint(msgspec.Struct, frozen=True):
    """What a job takes of each of its nodes; each decision makes several."""

    cpus: int
    mem_mib: float  #: ``inf``: all that the node has; 0: memory is not counted
    gres: tuple[tuple[str, int], ...]  #: devices by name
    alone: bool  #: it has all CPUs of its nodes: nothing else may run beside it
    allowed: bool = True  #: within MaxMemPerNode; Slurm refuses other jobs, or never starts them
    asked: int = 0  #: CPUs without those that Slurm adds for ``--mem``, or because it is alone

    @property
    def whole(self) -> bool:
        """Whether it leaves nothing that another job could use."""
        return self.alone or self.mem_mib == inf

    def amounts(self) -> dict[str, float]:
        """Finite amounts by the names that limits have for them; memory in MiB."""
        memory = {"mem": self.mem_mib} if self.mem_mib < inf else {}
        devices = {f"gres/{name}": float(count) for name, count in self.gres}
        return {"cpu": float(self.cpus), **memory, **devices}


def footprint(job: Job, partition: Partition) -> Footprint:
    """Footprint of a job on a node of this partition.

    A number of tasks for the whole job is dealt out on the most nodes that it may get.
    """
    mem_node, mem_cpu = _memory(job, partition)
    cpus = _tasks(job) * (job.cpus_per_task or 1)
    if job.cpus_per_tres:
        cpus = max(cpus, _gpus(job) * (gpu_count(job.cpus_per_tres) or 0))
    alone = job.shared == _EXCLUSIVE or partition.exclusive
    most, least = partition.max_mem_cpu_mib, 0
    if most and mem_cpu > most:
        # Slurm gives more CPUs with less memory each.
        factor = ceil(mem_cpu / most)
        cpus, mem_cpu = cpus * factor, ceil(mem_cpu / factor)
    asked = cpus
    if most and mem_node:
        least = ceil(_within(mem_node, partition, 0.0) / most)
        cpus = _enough(job, cpus, least, whole_tasks=partition.whole_tasks)
    limit, on_node = partition.max_mem_node_mib, partition.node_cpus if alone else cpus
    allowed = not limit or (_within(mem_node, partition, inf) or mem_cpu * on_node) <= limit
    core = partition.threads_core
    whole = core * ceil(cpus / core)
    asked = whole if asked == cpus else core * ceil(asked / core)
    cpus = max(partition.node_cpus, least) if alone else whole
    mem_mib = mem_node or mem_cpu * cpus
    return Footprint(cpus, mem_mib, devices(job.tres_per_node), alone, allowed, asked)


def _within(mem_node: float, partition: Partition, unknown: float) -> float:
    """Memory on a node in MiB, where all that a node has is a number, if it is known."""
    own = (partition.node_mem_bytes or 0) // 2**20
    return (own or unknown) if mem_node == inf else mem_node


def _enough(job: Job, cpus: int, least: int, *, whole_tasks: bool) -> int:
    """CPUs on a node of a job whose memory needs so many, as Slurm deals them out to its tasks."""
    if cpus >= least:
        return cpus
    if job.ntasks_per_node:
        return job.ntasks_per_node * ceil(least / job.ntasks_per_node)
    if whole_tasks:
        each = job.cpus_per_task or 1
        return max(cpus, each * (least // each))
    nodes, tasks = job.min_nodes, job.num_tasks
    if not (nodes and tasks):
        return least
    return ceil(least * nodes / tasks) * tasks // nodes


def devices(tres: str) -> tuple[tuple[str, int], ...]:
    """Devices by name: ``gres/gpu:2``, ``gres:gpu:a100:2``, ``gres/gpu=2``.

    >>> devices("gres/gpu:2,gres:nic,license/matlab:1")
    (('gpu', 2), ('nic', 1))
    """
    return _devices(tres) if tres else ()  # of nearly every job, several times in a decision


@bounded_cache(entries=256, characters=_LONGEST)
def _devices(tres: str) -> tuple[tuple[str, int], ...]:
    parts = tres.split(",") if len(tres) <= _LONGEST else []
    listed = [part for part in parts if part.startswith(("gres/", "gres:"))]
    counts = filter(None, (device(part[len("gres/") :]) for part in listed))
    return tuple(sorted(dict(counts).items()))


def gpu_count(tres: str) -> int | None:
    """Count GPUs of all types in a request; None where it cannot be read.

    >>> gpu_count("gres/gpu:a100:2,gpu:v100:1"), gpu_count("cpu:2"), gpu_count("gres:gpu:1K")
    (3, 0, None)
    """
    return _gpu_count(tres) if tres else 0


@bounded_cache(entries=256, characters=_LONGEST)
def _gpu_count(tres: str) -> int | None:
    if len(tres) > _LONGEST:
        return None
    parts = (part.removeprefix("gres/").removeprefix("gres:") for part in tres.split(","))
    gpus = (part for part in parts if re.match(r"gpu(?:[:=]|$)", part))
    # "gpu:2K" would read as one of the type 2K.
    counts = [None if re.search(r"[:=]\d+[A-Za-z]$", part) else device(part) for part in gpus]
    return None if None in counts else sum(count for _, count in filter(None, counts))


def gpu_type(tres: str) -> str:
    """Types of GPUs that a request names; empty where it names none for some of them.

    >>> gpu_type("gres/gpu:V100:1,gres/gpu:a100:2"), gpu_type("gres:gpu:2"), gpu_type("gpu:a100")
    ('a100+v100', '', 'a100')
    """
    parts = tres.split(",") if 0 < len(tres) <= _LONGEST else []
    named = [match[1] for part in parts if (match := _GPU.fullmatch(part))]
    types = {name.lower() for name in named if name and not name.isdecimal()}
    return "+".join(sorted(types)) if all(named) and len(types) == len(set(named)) else ""


#: One of them, with what is behind its name: a type, or the count.
_GPU = re.compile(r"(?:gres[/:])?gpu(?:[:=]([^:=]+))?(?:[:=]\d+)?")


def memory_bytes(job: Job, partition: Partition | None) -> int | None:
    """Memory that a job gets on each node.

    None where it gets all of the node's, where memory is not counted, and where the cluster is
    unknown.
    """
    if partition is None and job.shared == _EXCLUSIVE and job.min_mem_per_cpu:
        return None
    mem_mib = footprint(job, partition or UNKNOWN).mem_mib
    return int(mem_mib * 2**20) if 0 < mem_mib < inf else None


def _memory(job: Job, partition: Partition) -> tuple[float, float]:
    """Memory of a job in MiB: for each node, or zero and that for each CPU; ``inf``: the node's."""
    if job.min_mem_per_node is not None:
        return job.min_mem_per_node or inf, 0.0
    if job.min_mem_per_cpu:
        return 0.0, job.min_mem_per_cpu
    if partition.mem_node_mib:
        return partition.mem_node_mib, 0.0
    return (inf, 0.0) if partition.mem_cpu_mib is None else (0.0, partition.mem_cpu_mib)


def _gpus(job: Job) -> int:
    """GPUs on a node, where they are dealt out evenly."""
    on_node = gpu_count(job.tres_per_node) or (gpu_count(job.tres_per_task) or 0) * _tasks(job)
    in_all, nodes = gpu_count(job.tres_per_job) or 0, job.max_nodes or job.min_nodes or 1
    return on_node or -(-in_all // nodes)


def _tasks(job: Job) -> int:
    """Tasks on a node, where they are dealt out evenly."""
    if job.ntasks_per_node or not job.num_tasks:
        return job.ntasks_per_node or 1
    return ceil(job.num_tasks / (job.max_nodes or job.min_nodes or job.num_tasks))
