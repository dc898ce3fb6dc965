"""What a job takes of each of its nodes, as slurmctld counts it.

It is said here only (``_valid_pn_min_mem`` in job_mgr.c, whose limits hold for memory by default,
too); ``tests/cluster/test_footprint.py`` asks a real one.  Pure.
"""

import re
from math import ceil, inf

import msgspec

from sacct_ingest.scripts.job_script import bounded_cache
from slurm_plugin.protocol.request_messages import ResourceRequest
from slurm_plugin.slurm.cluster_state import NodeRules
from slurm_plugin.slurm.converters import device
from slurm_plugin.slurm.node_pool import NodeShare

#: Characters of a list of devices that is read; a longer one takes nimod too long.
_LONGEST = 4096
_EXCLUSIVE = 0  #: job_desc.shared of ``--exclusive``
#: Of the smallest node of an unknown cluster.
_UNKNOWN = NodeRules()
#: More memory than any node has: of a job that Slurm will not start.
_NEVER_MIB = 2**40
#: One kind of GPU, with what is behind its name: a type, or the count.
_GPU = re.compile(r"(?:gres[/:])?gpu(?:[:=]([^:=]+))?(?:[:=]\d+)?")


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

    def share(self, job: ResourceRequest) -> NodeShare:
        """Tell what nodes the job can run on, and what it takes of each."""
        mem_mib = 0 if self.mem_mib == inf else int(self.mem_mib)
        return NodeShare(
            cpus=self.cpus,
            mem_mib=mem_mib if self.allowed else _NEVER_MIB,
            gres=self.gres,
            gpu_type=gpu_type_of(job) if self.gres else "",
            whole=self.whole,
            constraint=job.features,
            excluded=job.exc_nodes,
        )


def footprint(job: ResourceRequest, rules: NodeRules | None) -> Footprint:
    """Footprint of a job on a node of a partition with these rules; None: they are unknown.

    A number of tasks for the whole job is dealt out on the most nodes that it may get.
    """
    rules = rules or _UNKNOWN
    mem_node, mem_cpu = _memory(job, rules)
    cpus = _tasks(job) * (job.cpus_per_task or 1)
    if job.cpus_per_tres:
        cpus = max(cpus, gpus_on_node(job) * (gpu_count(job.cpus_per_tres) or 0))
    alone = job.shared == _EXCLUSIVE or rules.exclusive
    most = rules.max_mem_cpu_mib
    least = 0
    if most and mem_cpu > most:
        # Slurm gives more CPUs with less memory each.
        factor = ceil(mem_cpu / most)
        cpus = cpus * factor
        mem_cpu = ceil(mem_cpu / factor)
    asked = cpus
    if most and mem_node:
        least = ceil(_within(mem_node, rules, 0.0) / most)
        cpus = _enough(job, cpus, least, whole_tasks=rules.whole_tasks)
    limit = rules.max_mem_node_mib
    on_node = rules.node_cpus if alone else cpus
    allowed = not limit or (_within(mem_node, rules, inf) or mem_cpu * on_node) <= limit
    core = rules.threads_core
    whole = core * ceil(cpus / core)
    asked = whole if asked == cpus else core * ceil(asked / core)
    cpus = max(rules.node_cpus, least) if alone else whole
    mem_mib = mem_node or mem_cpu * cpus
    return Footprint(cpus, mem_mib, devices(job.tres_per_node), alone, allowed, asked)


def memory_bytes(job: ResourceRequest, rules: NodeRules | None) -> int | None:
    """Memory that a job gets on each node.

    None where it gets all of the node's, where memory is not counted, and where the cluster is
    unknown.
    """
    if rules is None and job.shared == _EXCLUSIVE and job.min_mem_per_cpu:
        return None
    mem_mib = footprint(job, rules).mem_mib
    return int(mem_mib * 2**20) if 0 < mem_mib < inf else None


def _within(mem_node: float, rules: NodeRules, unknown: float) -> float:
    """Memory on a node in MiB, where all that a node has is a number, if it is known."""
    own = (rules.node_mem_bytes or 0) // 2**20
    return (own or unknown) if mem_node == inf else mem_node


def _enough(job: ResourceRequest, cpus: int, least: int, *, whole_tasks: bool) -> int:
    """CPUs on a node of a job whose memory needs so many, as Slurm deals them out to its tasks."""
    if cpus >= least:
        return cpus
    if job.ntasks_per_node:
        return job.ntasks_per_node * ceil(least / job.ntasks_per_node)
    if whole_tasks:
        each = job.cpus_per_task or 1
        return max(cpus, each * (least // each))
    nodes = job.min_nodes
    tasks = job.num_tasks
    if not (nodes and tasks):
        return least
    return ceil(least * nodes / tasks) * tasks // nodes


def _memory(job: ResourceRequest, rules: NodeRules) -> tuple[float, float]:
    """Memory of a job in MiB: for each node, or zero and that for each CPU; ``inf``: the node's."""
    if job.min_mem_per_node is not None:
        return job.min_mem_per_node or inf, 0.0
    if job.min_mem_per_cpu:
        return 0.0, job.min_mem_per_cpu
    if rules.mem_node_mib:
        return rules.mem_node_mib, 0.0
    return (inf, 0.0) if rules.mem_cpu_mib is None else (0.0, rules.mem_cpu_mib)


def gpus_on_node(job: ResourceRequest) -> int:
    """GPUs on a node, where they are dealt out evenly."""
    on_node = gpu_count(job.tres_per_node) or (gpu_count(job.tres_per_task) or 0) * _tasks(job)
    in_all = gpu_count(job.tres_per_job) or 0
    nodes = job.max_nodes or job.min_nodes or 1
    return on_node or -(-in_all // nodes)


def _tasks(job: ResourceRequest) -> int:
    """Tasks on a node, where they are dealt out evenly."""
    if job.ntasks_per_node or not job.num_tasks:
        return job.ntasks_per_node or 1
    return ceil(job.num_tasks / (job.max_nodes or job.min_nodes or job.num_tasks))


def gpu_type_of(job: ResourceRequest) -> str:
    """Types of the GPUs that a job names; empty where it names none."""
    requests = (job.tres_per_node, job.tres_per_job, job.tres_per_task, job.tres_per_socket)
    return next((gpu_type(one) for one in requests if "gpu" in one), "")


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
