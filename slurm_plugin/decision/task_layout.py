"""Tasks and CPUs that go with a node count, for jobs whose layout allows one to be chosen.

job_submit sees a job half worked out by sbatch, salloc or srun and has to leave it as they would
have made it for the new count.  What each of them sends and what slurmctld makes of it was tried
on Slurm 22.05; the table is in the documentation of the hooks.
"""

import dataclasses
import re
from math import ceil

from msgspec.structs import replace

from sacct_ingest.runs.layout import UNKNOWN_GPUS, Layout
from slurm_plugin.protocol.decision_messages import Change
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.request_messages import Job
from slurm_plugin.slurm.cluster_state import Partition
from slurm_plugin.slurm.footprint import footprint, gpu_count, gpu_type

#: From 24.11 on ``-c 2`` says this too.
_CPUS_PER_TASK = re.compile(r"^cpu[:=]\d+$")


def fixed_layout(job: Job) -> Reason | None:
    """Why the layout of a job ties it to a node count; None where it does not."""
    devices = _CPUS_PER_TASK.sub("", job.tres_per_task)
    if job.tres_per_job or job.tres_per_socket or devices or job.max_cpus:
        return Reason.FIXED_CPUS
    if job.ntasks_per_socket:
        return Reason.FIXED_TASKS
    if job.num_tasks is None or _derived(job):
        return None
    return Reason.FIXED_TASKS


def layouts_of(job: Job, partition: Partition | None) -> tuple[Layout, ...]:
    """Layouts of runs that can predict a job: on each node, or in all.

    CPUs are left open where the job has all of its nodes, whose number may differ, or where the
    partition is unknown; tasks where the job names none, for its script may.  GPUs are open
    where the job has all of its nodes: Slurm then allocates all GPUs, too.
    """
    if job.min_nodes is None and (job.num_tasks or gpu_count(job.tres_per_job)):
        job = replace(job, min_nodes=1, max_nodes=1)  # as the decision has it
    nodes = job.min_nodes if job.min_nodes == job.max_nodes else None
    tasks, each = job.num_tasks or 0, job.ntasks_per_node or 0
    taken = footprint(job, partition) if partition else None
    alone = taken.alone if taken else job.shared == 0
    gpus, all_gpus = (None, None) if alone else gpus_of(job, nodes)
    named = gpu_type_of(job)
    if not nodes and ((tasks and not each) or gpus == UNKNOWN_GPUS):
        return (Layout(tasks, in_all=True, gpus=all_gpus, gpu_type=named),)
    each = each or ceil(tasks / (nodes or 1))
    # Runs that did not use CPUs which Slurm had added for memory count without them.
    either = {taken.cpus: None, taken.asked: None} if taken and not taken.alone else {0: None}
    of_node = tuple(Layout(each, cpus, gpus=gpus, gpu_type=named) for cpus in either)
    if nodes:
        tasks = tasks or nodes * each
        of_job = Layout(tasks, in_all=True, gpus=all_gpus, gpu_type=named)
        return (*of_node, *(dataclasses.replace(of_job, cpus=nodes * cpus) for cpus in either))
    if of_node[0].cpus or each:
        return of_node
    return (*of_node, Layout(in_all=True, gpus=all_gpus, gpu_type=named))


def gpu_type_of(job: Job) -> str:
    """Types of the GPUs that a job names; empty where it names none."""
    requests = (job.tres_per_node, job.tres_per_job, job.tres_per_task, job.tres_per_socket)
    if not any(requests):
        return ""
    return next((gpu_type(one) for one in requests if "gpu" in one), "")


def gpus_of(job: Job, nodes: int | None) -> tuple[int, int]:
    """GPUs of a job on each node, and in all; `UNKNOWN_GPUS` where a number cannot be computed."""
    requests = (job.tres_per_node, job.tres_per_job, job.tres_per_task, job.tres_per_socket)
    if not any(requests):
        return 0, 0
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


def change_for(job: Job, nodes: int) -> Change:
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


def _derived(job: Job) -> bool:
    """Whether sbatch computed the number of tasks itself, from tasks per node and nodes.

    Only for batch jobs: salloc and srun keep the number for their steps, and more nodes than
    tasks stop slurmctld 22.05 with a division by zero.
    """
    if not job.script or not job.ntasks_per_node or job.min_nodes != job.max_nodes:
        return False
    tasks = (job.min_nodes or 1) * job.ntasks_per_node
    return job.num_tasks == tasks and job.min_cpus == tasks * (job.cpus_per_task or 1)
