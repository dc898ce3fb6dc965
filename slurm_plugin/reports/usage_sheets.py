"""The report's tables of what jobs used, and of how long they waited."""

from slurm_plugin.evaluation.outcomes import OutcomeReport
from slurm_plugin.protocol.wait_accuracy import SHARE
from slurm_plugin.reports.sheet import Sheet, of_second, share
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
        page=(
            *("user", "application", "runs", "knee", "node_hours"),
            *("wasted_node_hours", "efficiency", "slower"),
        ),
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
            OutputColumn("unused_cpu_hours", "unused CPU-hours", as_text=hours),
            OutputColumn("unused_cpus", "of CPUs", as_text=percent),
            OutputColumn("saved_cpu_hours", "saved", as_text=hours),
            OutputColumn("least_cpus", "CPUs, most used", as_text=_amount),
            OutputColumn("gpu_hours", "GPU-hours", as_text=hours),
            OutputColumn("idle_gpu_hours", "unused GPU-hours", as_text=hours),
            OutputColumn("saved_gpu_hours", "saved", as_text=hours),
            OutputColumn("least_gpus", "most used", as_text=_amount),
            OutputColumn("mem_gib_hours", "GiB-hours", as_text=hours),
            OutputColumn("unused_mem_gib_hours", "unused GiB-hours", as_text=hours),
            OutputColumn("unused_mem", "of memory", as_text=percent),
            OutputColumn("saved_mem_gib_hours", "saved", as_text=hours),
            OutputColumn("least_mem_gib", "GiB, most used", as_text=_amount),
            OutputColumn("short_jobs", "too little"),
        ),
        rows=report.unused,
        page=(
            *("account", "application", "jobs", "unused_cpu_hours", "least_cpus"),
            *("idle_gpu_hours", "unused_mem_gib_hours", "least_mem_gib"),
        ),
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
        page=(
            *("array_job_id", "user", "application", "tasks", "completed"),
            *("mean_s", "longest_s", "used_cpus"),
        ),
        note="Tasks that started.  Memory is the highest of one task of any step.",
        empty="no job array",
    )


def _gib(value: float | None) -> str:
    return "-" if value is None else f"{value / 2**30:.1f}"


def _amount(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}".removesuffix(".0")


def waits(report: OutcomeReport) -> Sheet:
    """Compare the waits that decisions predicted with the real ones."""
    groups = (("to start at once", report.waits.at_once), ("to wait", report.waits.waiting))
    return Sheet(
        name="waits",
        caption="Waits as predicted at submission, compared with the real ones",
        fields=(
            OutputColumn("predicted", "predicted", lambda row: str(row[0]), left=True),
            OutputColumn("jobs", "jobs", of_second("jobs")),
            OutputColumn(
                "within_s", f"{percent(SHARE)} started within", of_second("within_s"), duration
            ),
            OutputColumn("later", "a minute late or more", of_second("later"), share),
        ),
        rows=[row for row in groups if row[1]],
        empty="too few started jobs with a predicted wait",
    )


def wait_estimates(report: OutcomeReport) -> Sheet:
    """Estimates of the queue's waits by partition, compared with the real ones."""
    return Sheet(
        name="wait_estimates",
        caption="Estimated waits in the queue, compared with the real ones",
        fields=(
            OutputColumn("cluster", "cluster", left=True),
            OutputColumn("partition", "partition", left=True),
            OutputColumn("of", "source", left=True),
            OutputColumn("jobs", "jobs"),
            OutputColumn("waited", "waited over a minute"),
            OutputColumn("within", "half within a factor", as_text=factor),
            OutputColumn("inside", "in 90 %", as_text=percent),
        ),
        rows=report.queue_waits,
        note="history: estimates of 'nimo fit' for past jobs, from data before each submission. "
        "The factor is that of the wait plus a minute.",
        empty="no job with an estimated wait has started yet",
    )
