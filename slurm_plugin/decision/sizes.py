"""Jobs whose size is a number of CPUs or GPUs: what they ask for, and the same job of another size.

The size counts the CPUs that a job asks for, as it does for runs: not those that Slurm adds for
memory, nor the rest of a whole node where the job says how many it uses.

Of tasks and CPUs that go with a node count job_submit sees what sbatch, salloc or srun have half
worked out, and has to leave it as they would have made it for the new count.  What each of them
sends and what slurmctld makes of it was tried on Slurm 22.05; the table is in the documentation of
the hooks.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import ceil
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from predictor.job_table import over_nodes
from predictor.prediction_table import PredictionTable
from sacct_ingest.records import Component
from sacct_ingest.runs.layout import SOME_SHAPE, UNKNOWN_GPUS, Each, Layout, Unit
from sacct_ingest.scripts.script_sizes import fixed_number
from slurm_plugin.decision.request import JobScript
from slurm_plugin.protocol.decision_messages import Change
from slurm_plugin.protocol.request_messages import AllocationRequest, ResourceRequest
from slurm_plugin.slurm.cluster_state import NodeRules, Partition
from slurm_plugin.slurm.footprint import Footprint, footprint, gpu_count, gpu_type_of

_Resources = TypeVar("_Resources", bound=ResourceRequest)
_TRES = ("tres_per_job", "tres_per_node", "tres_per_task", "tres_per_socket")
#: GPUs in a request, without a type.
_ANY_GPUS = re.compile(r"(?<![^,/:])gpu(?:[:=](\d+))?(?=,|$)")
_GPU_OPTIONS = {
    "tres_per_job": "gpus",
    "tres_per_node": "gpus-per-node",
    "tres_per_task": "gpus-per-task",
    "tres_per_socket": "gpus-per-socket",
}


class SizeOption(StrEnum):
    """What of a request sets its size."""

    CPUS = "cpus"  #: CPUs of each task
    TASKS = "tasks"
    GPUS = "gpus"


class AskedSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes, tasks, CPUs and GPUs that a job asks for, counted once where it comes in."""

    resources: ResourceRequest
    nodes: int  #: that it surely gets; 0: a range, or as many as its tasks happen to get
    tasks: int  #: one where it names none
    cpus: int  #: in all; 0: unknown
    gpus: int  #: in all; 0: none, or unknown
    gpu_type: str  #: empty where it names none
    of_node: Footprint  #: what it takes of each of its nodes
    known: bool  #: whether the rules of its partition are

    @classmethod
    def of(cls, job: ResourceRequest, rules: NodeRules | None) -> "AskedSizes":
        """Count what a job asks for in a partition with these rules; None: they are unknown."""
        certain = nodes_of(job)
        nodes = certain or 1
        taken = footprint(replace(job, min_nodes=nodes, max_nodes=nodes), rules)
        ranged = job.min_nodes is not None and not certain
        alone = taken.alone and not (job.cpus_per_task or job.num_tasks)
        each = taken.cpus if alone else taken.asked
        return cls(
            resources=job,
            nodes=certain,
            tasks=tasks_of(job),
            cpus=0 if alone and rules is None else each * nodes,
            gpus=max(gpus_of(job, nodes)[1], 0),
            gpu_type=gpu_type_of(job),
            of_node=footprint(job, rules) if ranged else taken,
            known=rules is not None,
        )

    def count(self, unit: Unit) -> int:
        """Size in CPUs or GPUs; 0: none, or unknown."""
        return self.gpus if unit is Unit.GPUS else self.cpus


def together(first: AskedSizes, others: Sequence[AskedSizes]) -> AskedSizes:
    """Sizes of all components of a heterogeneous job, each sum 0 where one of them is unknown."""
    if not others:
        return first
    every = (first, *others)
    amounts = {name: [getattr(one, name) for one in every] for name in ("nodes", "cpus")}
    sums = {name: sum(each) if all(each) else 0 for name, each in amounts.items()}
    tasks = sum(one.tasks for one in every)
    gpus = sum(one.gpus for one in every)
    return replace(first, tasks=tasks, gpus=gpus, **sums)


def layouts_of_components(
    first: ResourceRequest, others: Sequence[ResourceRequest], rules: NodeRules | None
) -> tuple[Layout, ...]:
    """Layouts of runs that can predict a heterogeneous job: those of the same components.

    Nodes are left open where tasks happen to get them, and CPUs where a component has its nodes
    alone.  Runs did not count what Slurm adds to fill a core.

    others: the components behind the first; none: nothing is known of them, and the first one's
        runs say what they usually are.
    rules: of the partition; None: they are unknown.
    """
    every = (first, *others)
    more = [] if others else [SOME_SHAPE]
    shapes: dict[str, None] = {}
    for own in (rules, None):
        words = [_shape_of(AskedSizes.of(one, own)) for one in every]
        shapes[" + ".join([*words, *more])] = None
    return tuple(
        Layout(shape=shape, in_all=in_all, each=each)
        for shape in shapes
        for in_all, each in (
            (False, Each.NODE),
            (True, Each.NODE),
            *((False, each) for each in Each),
        )
    )


def _shape_of(asked: AskedSizes) -> str:
    """Component in the words of its runs."""
    ranged = asked.resources.min_nodes is not None and not asked.nodes
    open_cpus = asked.of_node.alone or (ranged and not asked.resources.num_tasks)
    return str(Component(asked.nodes, 0 if open_cpus else asked.cpus, gpus=asked.gpus))


def nodes_for(job: ResourceRequest, table: PredictionTable, size: int, partition: Partition) -> int:
    """Nodes of a job of a size in the unit of the table: its own, its runs', or the fewest."""
    return nodes_of(job) or table.layout.nodes or -(-size // _of_node(partition, table.unit))


def nodes_left_open(
    job: ResourceRequest, rules: NodeRules | None, table: PredictionTable
) -> list[int]:
    """Node counts that a job may get which names tasks or GPUs in all, and no nodes.

    First the fewest that hold all tasks, then those that lay it out as the runs of the table were,
    and the one that most of these had.  Empty: it names its nodes, or one holds it.
    """
    tasks = job.num_tasks or 0
    gpus = max(gpus_of(job, None)[1], 0)
    if job.min_nodes is not None or not (tasks or gpus):
        return []
    counts = list[int]()
    if rules is not None:
        counts.append(ceil(tasks * (job.cpus_per_task or 1) / rules.node_cpus))
    for layout in [part.layout for part in table.parts] or [table.layout]:
        if layout.in_all or layout.each is not Each.NODE:
            continue
        for in_all, each in ((gpus, layout.gpus), (tasks, layout.tasks)):
            if each and in_all % each == 0:
                counts.append(in_all // each)
    if table.observed:
        counts.append(max(table.observed, key=lambda point: point.repeats).nodes)
    return [count for count in dict.fromkeys(counts) if count > 1]


def _of_node(partition: Partition, unit: Unit) -> int:
    """CPUs or GPUs that a job can have of a node, at most."""
    if unit is Unit.CPUS or partition.pool is None:
        return partition.node_cpus
    groups = partition.pool.groups
    return max((dict(group.gres).get("gpu", 0) for group in groups), default=0) or 1


def nodes_of(job: ResourceRequest) -> int:
    """Nodes of a job whose size is counted otherwise; 0: as many as its tasks happen to get."""
    if job.min_nodes is not None and job.min_nodes == job.max_nodes:
        return job.min_nodes
    return 1 if job.min_nodes is None and tasks_of(job) == 1 else 0


def tasks_of(job: ResourceRequest) -> int:
    """Tasks of a job; one where it names none."""
    return job.num_tasks or (job.ntasks_per_node or 1) * (job.min_nodes or 1)


def size_layouts_of(asked: AskedSizes) -> tuple[Layout, ...]:
    """Layouts that runs must have had where their size is a number of CPUs or GPUs.

    None for a unit in which the size of the job is not known.
    """
    nodes = asked.nodes
    tasks = asked.tasks
    named = asked.gpu_type
    cpus = asked.cpus
    gpus = asked.gpus
    made = list[Layout]()
    if cpus:
        made.append(Layout(tasks, gpus=gpus, each=Each.JOB, nodes=nodes, gpu_type=named))
        of_task = cpus // tasks
        made.append(Layout(cpus=of_task, gpus=gpus, each=Each.TASK, nodes=nodes, gpu_type=named))
        made.append(Layout(cpus=of_task, gpus=gpus, each=Each.ANY, gpu_type=named))
    if gpus:
        each = -(-cpus // gpus)
        made.append(Layout(cpus=cpus, gpus=None, each=Each.JOB, nodes=nodes, gpu_type=named))
        made.append(Layout(cpus=each, gpus=None, each=Each.GPU, nodes=nodes, gpu_type=named))
        made.append(Layout(gpus=None, each=Each.ANY, gpu_type=named))
    return tuple(made)


def in_unit(table: PredictionTable, asked: AskedSizes) -> PredictionTable:
    """Table over nodes for a job that leaves only its nodes open; else as it is."""
    over_cpus = table.unit is Unit.CPUS and table.layout.each is Each.ANY
    job = asked.resources
    # Tasks and CPUs are those of each node.
    several = job.min_nodes is not None and (job.max_nodes is None or job.max_nodes > 1)
    fixed = bool(job.num_tasks) and not job.ntasks_per_node
    if not over_cpus or not asked.known or not several or fixed:
        return table
    return over_nodes(table, asked.of_node.cpus) or table


def size_option_of(job: ResourceRequest, table: PredictionTable) -> SizeOption:
    """Say what to change so that a job has another size, as the runs of the table had it."""
    if table.unit is Unit.GPUS:
        return SizeOption.GPUS
    layout = table.layout
    if layout.each is Each.TASK and layout.cpus:
        return SizeOption.TASKS
    if layout.each is Each.JOB and layout.tasks:
        return SizeOption.CPUS
    if layout.each is Each.ANY and not job.cpus_per_task:
        return SizeOption.TASKS  # one task's CPUs are on one node: runs on several had more tasks
    # Accounting without steps has no tasks: then the job's own number of tasks counts.
    return SizeOption.CPUS if job.cpus_per_task or not job.num_tasks else SizeOption.TASKS


def fixed_by_script(script: JobScript, job: ResourceRequest, table: PredictionTable) -> str:
    """Words of the script that fix what would be changed; empty where there are none."""
    return script.fixed_sizes().get(size_option_of(job, table).value, "")


def unchanged_by_advice(
    script: JobScript, job: ResourceRequest, table: PredictionTable, size: int, *, nodes: bool
) -> str:
    """Words of the script that an advice makes untrue; empty where there are none.

    size: what is advised, in the unit of the table, or nodes.
    nodes: whether the node count is what changes.
    """
    fixed = script.fixed_sizes()
    if not fixed:
        return ""
    names = ["nodes", "tasks"] if nodes else [size_option_of(job, table).value]
    names += ["tasks"] * bool(ranks_of_gpus(job, table))
    advised = _counts(job, table, size, nodes=nodes)
    untrue = (
        words
        for name in names
        if (words := fixed.get(name)) and fixed_number(words) != advised.get(name)
    )
    return next(untrue, "")


def _counts(
    job: ResourceRequest, table: PredictionTable, size: int, *, nodes: bool
) -> Mapping[str, int]:
    """Numbers that a script would have to say for a job of this size; those that are known."""
    if nodes:
        tasks = job.num_tasks or size * (job.ntasks_per_node or 1)
        return {"nodes": size, "tasks": tasks}
    other = resized(job, table, size)
    counts = {"cpus": other.cpus_per_task or 1, "tasks": tasks_of(other)}
    on_one = (nodes_of(job) or table.layout.nodes) == 1
    return counts | ({"gpus": size} if on_one else {})


def step_of(job: ResourceRequest, option: SizeOption) -> int:
    """Size of one more CPU for each task, one more task or one more GPU."""
    if option is SizeOption.GPUS:
        return 1
    return tasks_of(job) if option is SizeOption.CPUS else job.cpus_per_task or 1


def resized(job: _Resources, table: PredictionTable, size: int) -> _Resources:
    """Give the same job with a size in the unit of the table, a multiple of `step_of`."""
    option = size_option_of(job, table)
    if option is SizeOption.GPUS:
        made = _with_gpus(_with_ranks(job, table, size), table, size)
        own = {"cpus_per_task": job.cpus_per_task, "min_cpus": job.min_cpus}
        return replace(made, **own) if job.cpus_per_tres else made
    count = max(size // step_of(job, option), 1)
    if option is SizeOption.CPUS:
        return replace(job, cpus_per_task=count, min_cpus=count * tasks_of(job))
    each = job.ntasks_per_node and count // nodes_of(job) if nodes_of(job) else None
    return replace(
        job, num_tasks=count, ntasks_per_node=each, min_cpus=count * (job.cpus_per_task or 1)
    )


def change_of(job: ResourceRequest, table: PredictionTable, size: int) -> Change:
    """Fields to write so that a batch job starts with a size in the unit of the table.

    Only what differs; a number of tasks or CPUs for each task that the job does not name stays out
    of its environment.
    """
    other = resized(job, table, size)
    names = ("num_tasks", "ntasks_per_node", "cpus_per_task", "min_cpus", *_TRES)
    changed = {
        name: getattr(other, name) for name in names if getattr(other, name) != getattr(job, name)
    }
    return Change(**changed)


def options_for(job: ResourceRequest, table: PredictionTable, size: int) -> list[str]:
    """Options of sbatch that give a job a size in the unit of the table."""
    option = size_option_of(job, table)
    other = resized(job, table, size)
    if option is SizeOption.CPUS:
        return [f"--cpus-per-task={other.cpus_per_task}"]
    if option is SizeOption.TASKS:
        each = [f"--ntasks-per-node={other.ntasks_per_node}"] if other.ntasks_per_node else []
        return [f"--ntasks={other.num_tasks}", *each]
    each = [f"--cpus-per-task={other.cpus_per_task}"] * (
        (other.cpus_per_task or 1) != (job.cpus_per_task or 1)
    )
    each += [f"--ntasks={other.num_tasks}"] * (other.num_tasks != job.num_tasks)
    on_node = other.ntasks_per_node
    each += [f"--ntasks-per-node={on_node}"] * (on_node != job.ntasks_per_node)
    field = _gpu_field(job)
    named = {"tres_per_job": "--gpus", "tres_per_task": "--gpus-per-task"}
    gpus = getattr(other, field).rpartition("gpu")[2].lstrip(":=")
    return [f"{named.get(field, '--gpus-per-node')}={gpus}", *each]


def ranks_of_gpus(job: ResourceRequest, table: PredictionTable) -> int:
    """Tasks for each GPU, where the number of tasks follows that of GPUs; 0: it does not.

    So it does where the job has as many tasks on each GPU, and the runs had other CPUs in all.
    """
    tasks = tasks_of(job)
    gpus = max(gpus_of(job, nodes_of(job) or 1)[1], 0)
    if table.layout.each not in (Each.GPU, Each.ANY) or table.unit is not Unit.GPUS:
        return 0
    return 0 if tasks < 2 or not gpus or tasks % gpus else tasks // gpus


def _gpu_field(job: ResourceRequest) -> str:
    return next((name for name in _TRES if "gpu" in getattr(job, name)), "tres_per_node")


def _with_ranks(job: _Resources, table: PredictionTable, size: int) -> _Resources:
    """Give a job its tasks for so many GPUs; those on each node only where it names them."""
    tasks = ranks_of_gpus(job, table) * size
    if not tasks:
        return job
    on_node = job.ntasks_per_node and tasks // (nodes_of(job) or 1)
    return replace(job, num_tasks=tasks, ntasks_per_node=on_node)


def _with_gpus(job: _Resources, table: PredictionTable, size: int) -> _Resources:
    name = _gpu_field(job)
    share = {"tres_per_job": 1, "tres_per_task": tasks_of(job)}.get(name, nodes_of(job) or 1)
    each = max(size // share, 1)
    parts = (getattr(job, name) or "gres/gpu").split(",")
    texts = [_recounted(part, each) if "gpu" in part else part for part in parts]
    other = replace(job, **{name: ",".join(texts)})
    if table.layout.each is not Each.GPU:
        return other
    cpus = max(table.layout.cpus * size // tasks_of(job), 1)
    return replace(other, cpus_per_task=cpus, min_cpus=cpus * tasks_of(job))


def _recounted(tres: str, count: int) -> str:
    number = re.search(r"[:=]\d+$", tres)
    return f"{tres[: number.start() + 1]}{count}" if number else f"{tres}:{count}"


def layouts_of(asked: AskedSizes) -> tuple[Layout, ...]:
    """Layouts of runs that can predict a job: on each node, or in all.

    CPUs are left open where the job has all of its nodes, whose number may differ, or where the
    partition is unknown; tasks where the job names none, for its script may.  GPUs are open
    where the job has all of its nodes: Slurm then allocates all GPUs, too.
    """
    job = asked.resources
    taken = asked.of_node
    named = asked.gpu_type
    nodes = job.min_nodes if job.min_nodes == job.max_nodes else None
    if job.min_nodes is None and (job.num_tasks or gpu_count(job.tres_per_job)):
        nodes = 1  # as the decision has it
    tasks = job.num_tasks or 0
    each = job.ntasks_per_node or 0
    gpus, all_gpus = (None, None) if taken.alone else gpus_of(job, nodes)
    if not nodes and ((tasks and not each) or gpus == UNKNOWN_GPUS):
        return (Layout(tasks, in_all=True, gpus=all_gpus, gpu_type=named),)
    each = each or ceil(tasks / (nodes or 1))
    # Runs that did not use CPUs which Slurm had added for memory count without them.
    counted = asked.known and not taken.alone
    either = {taken.cpus: None, taken.asked: None} if counted else {0: None}
    of_node = tuple(Layout(each, cpus, gpus=gpus, gpu_type=named) for cpus in either)
    if nodes:
        tasks = tasks or nodes * each
        of_job = Layout(tasks, in_all=True, gpus=all_gpus, gpu_type=named)
        return (*of_node, *(dataclasses.replace(of_job, cpus=nodes * cpus) for cpus in either))
    if of_node[0].cpus or each:
        return of_node
    return (*of_node, Layout(in_all=True, gpus=all_gpus, gpu_type=named))


def with_gpu_type(job: AllocationRequest, gpu_type: str) -> AllocationRequest:
    """Give a job that asks for GPUs of any type as it would ask for those of one."""
    typed = {
        name: _ANY_GPUS.sub(lambda gpus: f"gpu:{gpu_type}:{gpus[1] or 1}", getattr(job, name))
        for name in _GPU_OPTIONS
    }
    return replace(job, **typed)


def gpu_options(job: ResourceRequest) -> str:
    """Give the options of sbatch that ask for a job's GPUs; empty: it asks for none.

    >>> gpu_options(ResourceRequest(tres_per_job="gres/gpu:a100:2"))
    '--gpus=a100:2'
    """
    options = []
    for name, option in _GPU_OPTIONS.items():
        if found := re.search(r"(?<![^,/:])gpu[:=]([^,]+)", getattr(job, name)):
            options.append(f"--{option}={found[1].replace('=', ':')}")
    return " ".join(options)


def gpus_of(job: ResourceRequest, nodes: int | None) -> tuple[int, int]:
    """GPUs of a job on each node, and in all; `UNKNOWN_GPUS` where a number cannot be computed."""
    requests = (job.tres_per_node, job.tres_per_job, job.tres_per_task, job.tres_per_socket)
    counts = [gpu_count(one) for one in requests]
    if not any(counts) and None not in counts:
        return 0, 0
    of_node, of_job, of_task, of_socket = (count or 0 for count in counts)
    if None in counts or of_socket:
        return UNKNOWN_GPUS, UNKNOWN_GPUS
    tasks = job.num_tasks or (job.ntasks_per_node or 0) * (nodes or 0)
    in_all = of_job or of_node * (nodes or 0) or of_task * tasks
    on_node = of_node or of_task * (job.ntasks_per_node or 0)
    on_node = on_node or (-(-in_all // nodes) if nodes else 0)
    return on_node or UNKNOWN_GPUS, in_all or UNKNOWN_GPUS


def change_for(job: ResourceRequest, nodes: int) -> Change:
    """Fields to write so that a job without a fixed layout starts on exactly ``nodes`` nodes.

    ``num_tasks`` is written only where the client had derived one: otherwise ``SLURM_NTASKS``
    would appear in a job whose plain ``-N`` has none.
    """
    tasks = nodes * (job.ntasks_per_node or 1)
    return Change(
        min_nodes=nodes,
        max_nodes=nodes,
        num_tasks=None if job.num_tasks is None else tasks,
        min_cpus=tasks * (job.cpus_per_task or 1),
    )


def only_nodes(job: ResourceRequest) -> bool:
    """Whether a node count, and CPUs in proportion, is all that has to be written for one.

    Such a job can get its range back: the number of tasks of others follows from their count.
    """
    return job.num_tasks is None and not job.ntasks_per_node
