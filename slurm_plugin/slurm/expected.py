"""When jobs are expected to end and to start, where their run time was predicted reliably: pure.

The limits that users give are far longer than most jobs take.  A job whose admin_comment holds a
reliable prediction for its node count is expected to end by the upper end of that.
"""

from collections.abc import Iterable
from math import ceil, inf

from sacct_ingest.text.admin_comment import parse
from slurm_plugin.slurm.availability import NodeAvailability
from slurm_plugin.slurm.node_pool import NodeShare, Promise
from slurm_plugin.slurm.raw_state import RawJob

_RELIABLE = "reliable"
#: Planned jobs that are moved ahead, at most: each costs steps in proportion to those before.
_MOVED = 200


def run_time_s(job: RawJob) -> float | None:
    """Longest run time to be expected of a job; None: there is only its time limit."""
    note = parse(job.admin_comment) if job.admin_comment else None
    if note is None or note.verdict != _RELIABLE or note.nodes != job.nodes:
        return None
    return float(note.high_s)


def end_s(job: RawJob, now_s: float) -> float:
    """When a running job ends: by its prediction, or by its limit where that is over."""
    longest_s = run_time_s(job)
    end = inf if longest_s is None else job.start_s + longest_s
    return min(end, job.end_s) if end > now_s else job.end_s


def planned(
    jobs: Iterable[tuple[RawJob, int]],
    free: NodeAvailability | None,
    node: tuple[int, int],
    *,
    now_s: float,
) -> tuple[Promise, ...]:
    """Nodes that jobs with a planned start take.

    Backfill plans by time limits.  Where jobs are expected to end before theirs, those that wait
    are moved ahead, in the order of their planned starts.

    jobs: each with how many nodes of the partition it will take.
    free: whole nodes that are free over time, but for these jobs; None: plans stand as they are.
    node: CPUs and memory (MiB) of the smallest node.
    now_s: time of the snapshot.
    """
    taken = []
    for number, (job, nodes) in enumerate(sorted(jobs, key=lambda one: one[0].start_s)):
        start_s, longest_s = max(job.start_s, now_s), run_time_s(job)
        lasts_s = min(longest_s or inf, job.end_s - job.start_s)
        whole = whole_nodes(job, nodes, node)
        if free is not None and number < _MOVED:
            start_s = min(start_s, free.earliest_start(whole, lasts_s, from_s=now_s))
            free = free.reserve(whole, start_s, start_s + lasts_s)
        taken.append((nodes, start_s, start_s + lasts_s, _share(job, counts_memory=node[1] > 0)))
    return tuple(taken)


def _share(job: RawJob, *, counts_memory: bool) -> NodeShare:
    """Tell what a waiting job takes of each node, as if it were dealt out evenly."""
    if job.alone or "cpu" not in job.tres:
        return NodeShare()
    nodes = max(job.nodes, 1)
    return NodeShare(
        cpus=ceil(job.tres["cpu"] / nodes),
        mem_mib=ceil(job.tres.get("mem", 0) / nodes) if counts_memory else 0,
        gres=tuple(sorted((name, ceil(n / nodes)) for name, n in job.devices.items())),
        whole=False,
    )


def whole_nodes(job: RawJob, nodes: int, node: tuple[int, int]) -> int:
    """Whole nodes that a waiting job is worth: all of them, where it shares none."""
    if job.alone:
        return nodes
    cpus, mem_mib = node
    each = job.tres.get("cpu", inf) / max(job.nodes, 1) / max(cpus, 1)
    memory = job.tres.get("mem", 0.0) / max(job.nodes, 1) / max(mem_mib, 1)
    return ceil(nodes * min(max(each, memory if mem_mib else 0.0), 1.0))
