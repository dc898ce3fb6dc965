"""The report's tables of what jobs used: beyond the knee, unused resources, job arrays."""

from operator import attrgetter

from slurm_plugin.evaluation.outcomes import OutcomeReport
from slurm_plugin.reports.sheet import Sheet, SheetField
from slurm_plugin.text.formatting import duration, factor, hours, percent


def waste(report: OutcomeReport) -> Sheet:
    """List the hours on more nodes, CPUs or GPUs than an application's knee."""
    return Sheet(
        name="waste",
        caption="Node-hours (CPU- or GPU-hours) beyond the knee of an application",
        fields=(
            SheetField("user", "user", attrgetter("user"), left=True),
            SheetField("application", "application", attrgetter("application"), left=True),
            SheetField("runs", "runs", attrgetter("runs")),
            SheetField("unit", "counts", lambda row: row.unit.plural, left=True),
            SheetField("nodes_low", "from", lambda row: row.nodes[0]),
            SheetField("nodes_high", "to", lambda row: row.nodes[1]),
            SheetField("knee", "knee", attrgetter("knee")),
            SheetField("node_hours", "node-hours", attrgetter("node_hours"), hours),
            SheetField("wasted_node_hours", "beyond", attrgetter("wasted_node_hours"), hours),
            SheetField("efficiency", "efficiency", attrgetter("efficiency"), percent),
            SheetField("slower", "time at knee", attrgetter("slower"), lambda v: f"{factor(v)} x"),
        ),
        rows=report.waste,
        note="Runs of reliable curves, without deadline, on counts that their users chose.",
        empty="none above the threshold",
    )


def unused(report: OutcomeReport) -> Sheet:
    """List the CPUs, GPUs and memory that jobs had and did not use."""
    return Sheet(
        name="unused",
        caption="CPUs and memory that jobs had but did not use",
        fields=(
            SheetField("account", "account", attrgetter("account"), left=True),
            SheetField("application", "application", attrgetter("application"), left=True),
            SheetField("jobs", "jobs", attrgetter("jobs")),
            SheetField("cpu_hours", "CPU-hours", attrgetter("cpu_hours"), hours),
            SheetField("unused_cpu_hours", "unused", attrgetter("unused_cpu_hours"), hours),
            SheetField("unused_cpus", "of CPUs", attrgetter("unused_cpus"), percent),
            SheetField("saved_cpu_hours", "saved", attrgetter("saved_cpu_hours"), hours),
            SheetField("least_cpus", "most used", attrgetter("least_cpus"), _amount),
            SheetField("gpu_hours", "GPU-hours", attrgetter("gpu_hours"), hours),
            SheetField("idle_gpu_hours", "unused", attrgetter("idle_gpu_hours"), hours),
            SheetField("saved_gpu_hours", "saved", attrgetter("saved_gpu_hours"), hours),
            SheetField("least_gpus", "most used", attrgetter("least_gpus"), _amount),
            SheetField("mem_gib_hours", "GiB-hours", attrgetter("mem_gib_hours"), hours),
            SheetField("unused_mem_gib_hours", "unused", attrgetter("unused_mem_gib_hours"), hours),
            SheetField("unused_mem", "of memory", attrgetter("unused_mem"), percent),
            SheetField("saved_mem_gib_hours", "saved", attrgetter("saved_mem_gib_hours"), hours),
            SheetField("least_mem_gib", "GiB, most used", attrgetter("least_mem_gib"), _amount),
            SheetField("short_jobs", "too little", attrgetter("short_jobs")),
        ),
        rows=report.unused,
        note="CPU time, memory and the highest use of GPUs as the accounting measured them; of an "
        "array, its first task.  Most used: a request of this size would have been enough for each "
        "job.  Saved: hours that the highest use of the jobs before times the margin would have "
        "saved, and for how many jobs that was too little.  CPU use is a mean over the run: on so "
        "few CPUs, a program with serial parts takes longer.",
        empty="none above the threshold",
    )


def arrays(report: OutcomeReport) -> Sheet:
    """List the job arrays, each summed up over its tasks."""
    return Sheet(
        name="arrays",
        caption="Job arrays, the newest first",
        fields=(
            SheetField("array_job_id", "array", attrgetter("array_job_id")),
            SheetField("user", "user", attrgetter("user"), left=True),
            SheetField("application", "application", attrgetter("application"), left=True),
            SheetField("tasks", "tasks", attrgetter("tasks")),
            SheetField("completed", "completed", attrgetter("completed")),
            SheetField("shortest_s", "shortest", attrgetter("shortest_s"), duration),
            SheetField("mean_s", "mean", attrgetter("mean_s"), duration),
            SheetField("longest_s", "longest", attrgetter("longest_s"), duration),
            SheetField("used_cpus", "CPUs used", attrgetter("used_cpus"), percent),
            SheetField("mem_bytes", "memory GiB", attrgetter("mem_bytes"), _gib),
        ),
        rows=report.arrays,
        note="Tasks that started.  Memory is the highest of one task of any step.",
        empty="no job array",
    )


def _gib(value: float | None) -> str:
    return "-" if value is None else f"{value / 2**30:.1f}"


def _amount(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}".removesuffix(".0")
