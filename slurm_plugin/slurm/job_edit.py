"""A change to a job that waits, and the job as it would be: pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sacct_ingest.text.durations import duration_text, slurm_time
from slurm_plugin.slurm.pending_job import PendingJob
from slurm_plugin.text.formatting import count

#: What a shorter limit costs.
NO_LONGER = "if it needs no longer"
_NO_MORE = "if it needs no more"
_LONGER = "it may take longer on fewer"
_OTHER_DEVICES = "if it runs on them, too"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change to a job that waits."""

    fields: Mapping[str, str] = field(default_factory=dict)  #: of ``scontrol update``
    release: bool = False  #: ``scontrol release``
    what: str  #: "a time limit of 25 min"
    caution: str = ""  #: what it costs: "if it needs no longer"
    job: PendingJob  #: as it would be
    passes: bool = False  #: it lets the job pass others: nothing where no start is known
    start_s: float | None = None  #: None: not known
    gain_s: float | None = None  #: by so much sooner; None: as it is it does not start
    gain_low_s: float | None = None  #: nine in ten are between these; None: by limits alone
    gain_high_s: float | None = None
    chance: float | None = None  #: that it starts sooner at all; None: by limits alone
    agreed: bool = False  #: Slurm takes such a job (``sbatch --test-only``)
    slurm_s: float | None = None  #: when it would start it, by running jobs alone

    @property
    def argv(self) -> tuple[str, ...]:
        """Command that does it; empty: it takes a new submission."""
        if self.release:
            return ("scontrol", "release", self.job.shown_id)
        if not self.fields:
            return ()
        pairs = (f"{name}={value}" for name, value in self.fields.items())
        return ("scontrol", "update", f"JobId={self.job.shown_id}", *pairs)


def shorter(job: PendingJob, limit_s: float, caution: str = NO_LONGER) -> Edit:
    """Give a job a shorter time limit, in whole minutes."""
    limit_s = max(limit_s // 60, 1) * 60
    return Edit(
        fields={"TimeLimit": slurm_time(limit_s)},
        what=f"with a time limit of {duration_text(limit_s)}",
        caution=caution,
        job=replace(job, limit_s=limit_s),
    )


def on_nodes(job: PendingJob, nodes: int) -> Edit:
    """Give a job fewer nodes; what it takes in all stays, but for memory of each node.

    Of one number alone Slurm 22.05 takes only the least.
    """
    memory = job.tres.get("mem", 0.0)
    if job.mem_cpu_mib is None:
        memory = memory * nodes / max(job.nodes, 1)
    made = replace(
        job, nodes=nodes, max_nodes=nodes, tres={**job.tres, "node": nodes, "mem": memory}
    )
    more = nodes > job.nodes
    return Edit(
        fields={"NumNodes": f"{nodes}-{nodes}"},
        what=f"on {count(nodes, 'node')}",
        caution="" if more else _LONGER,
        job=made,
    )


def with_memory(job: PendingJob, each_mib: int) -> Edit:
    """Give a job less memory, for each CPU or each node as it asked."""
    if job.mem_cpu_mib is not None:
        name, of, total = "MinMemoryCPU", "CPU", float(each_mib * job.cpus)
        made = replace(job, mem_cpu_mib=each_mib)
    else:
        name, of, total = "MinMemoryNode", "node", float(each_mib * job.nodes)
        made = replace(job, mem_node_mib=each_mib)
    return Edit(
        fields={name: f"{each_mib}"},
        what=f"with {each_mib}M of memory for each {of}",
        caution=_NO_MORE,
        job=replace(made, tres={**job.tres, "mem": total}),
    )


def in_partition(job: PendingJob, name: str) -> Edit:
    """Put a job into another partition."""
    return Edit(
        fields={"Partition": name},
        what=f"in partition {name}",
        job=replace(job, partitions=(name,)),
    )


def on_devices(job: PendingJob, kind: str, other: str, *, in_queue: bool) -> Edit:
    """Give a job devices of another type.

    kind: type that it asks for, ``gpu:a100``.
    other: the one instead.
    in_queue: whether Slurm changes it of a job that waits: releases before 23.02 add the new type
        to the old one, and the job never starts (src/slurmctld/job_mgr.c, ``_update_job``).
    """
    named = re.compile(rf"(?<=[:/]){re.escape(kind)}(?=[:=,]|$)")
    devices = {name: named.sub(lambda _: other, value) for name, value in job.devices.items()}
    # Slurm lists resources in lower case.
    before, after = f"gres/{kind.lower()}", f"gres/{other.lower()}"
    tres = {after if name == before else name: amount for name, amount in job.tres.items()}
    made = replace(job, devices=devices, tres=tres)
    changed = {name: value for name, value in devices.items() if value != job.devices[name]}
    options = " ".join(
        f"{name}={value}"
        for name, value in made.device_options.items()
        if value != job.device_options[name]
    )
    anew = f"{_OTHER_DEVICES}: Slurm changes this from 23.02 on; submit it anew with {options}"
    return Edit(
        fields=changed if in_queue else {},
        what=f"with {other} in place of {kind}",
        caution=_OTHER_DEVICES if in_queue else anew,
        job=made,
    )
