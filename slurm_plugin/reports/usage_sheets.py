"""The report's tables of what jobs used: beyond the knee, unused resources, job arrays."""

from slurm_plugin.evaluation.outcomes import OutcomeReport
from slurm_plugin.reports.sheet import Sheet
from slurm_plugin.text.formatting import duration, factor, hours, percent
from slurm_plugin.text.table_columns import OutputColumn


def waste(report: OutcomeReport) -> Sheet:
    """List the hours on more nodes, CPUs or GPUs than an application's knee."""
    return Sheet(
        name="waste",
        caption="Node-hours (CPU- or GPU-hours) beyond the knee of an application",
        fields=(
            OutputColumn("user", "user", left=True),
            OutputColumn("application", "application", left=True),
            OutputColumn("runs", "runs"),
            OutputColumn("unit", "counts", lambda row: row.unit.plural, left=True),
            OutputColumn("nodes_low", "from", lambda row: row.nodes[0]),
            OutputColumn("nodes_high", "to", lambda row: row.nodes[1]),
            OutputColumn("knee", "knee"),
            OutputColumn("node_hours", "node-hours", as_text=hours),
            OutputColumn("wasted_node_hours", "beyond", as_text=hours),
            OutputColumn("efficiency", "efficiency", as_text=percent),
            OutputColumn("slower", "time at knee", as_text=lambda v: f"{factor(v)} x"),
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
            OutputColumn("account", "account", left=True),
            OutputColumn("application", "application", left=True),
            OutputColumn("jobs", "jobs"),
            OutputColumn("cpu_hours", "CPU-hours", as_text=hours),
            OutputColumn("unused_cpu_hours", "unused", as_text=hours),
            OutputColumn("unused_cpus", "of CPUs", as_text=percent),
            OutputColumn("saved_cpu_hours", "saved", as_text=hours),
            OutputColumn("least_cpus", "most used", as_text=_amount),
            OutputColumn("gpu_hours", "GPU-hours", as_text=hours),
            OutputColumn("idle_gpu_hours", "unused", as_text=hours),
            OutputColumn("saved_gpu_hours", "saved", as_text=hours),
            OutputColumn("least_gpus", "most used", as_text=_amount),
            OutputColumn("mem_gib_hours", "GiB-hours", as_text=hours),
            OutputColumn("unused_mem_gib_hours", "unused", as_text=hours),
            OutputColumn("unused_mem", "of memory", as_text=percent),
            OutputColumn("saved_mem_gib_hours", "saved", as_text=hours),
            OutputColumn("least_mem_gib", "GiB, most used", as_text=_amount),
            OutputColumn("short_jobs", "too little"),
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
            OutputColumn("array_job_id", "array"),
            OutputColumn("user", "user", left=True),
            OutputColumn("application", "application", left=True),
            OutputColumn("tasks", "tasks"),
            OutputColumn("completed", "completed"),
            OutputColumn("shortest_s", "shortest", as_text=duration),
            OutputColumn("mean_s", "mean", as_text=duration),
            OutputColumn("longest_s", "longest", as_text=duration),
            OutputColumn("used_cpus", "CPUs used", as_text=percent),
            OutputColumn("mem_bytes", "memory GiB", as_text=_gib),
        ),
        rows=report.arrays,
        note="Tasks that started.  Memory is the highest of one task of any step.",
        empty="no job array",
    )


def _gib(value: float | None) -> str:
    return "-" if value is None else f"{value / 2**30:.1f}"


def _amount(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}".removesuffix(".0")
