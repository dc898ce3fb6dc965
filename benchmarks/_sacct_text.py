"""Rows as sacct prints them: made-up accounting of any kind as text."""

from collections.abc import Callable, Iterable, Iterator

from sacct_ingest.job_run import JobRun
from sacct_ingest.records import StepRun
from slurm_plugin.demo.sandbox import DELIMITER
from slurm_plugin.text.formatting import duration


def sacct_text(runs: Iterable[JobRun]) -> Iterator[str]:
    """Lines as ``SLURM_TIME_FORMAT=%s sacct -a -D -P --delimiter=`` *FS* prints them.

    The first line names the columns; each job is followed by its steps.
    """
    yield DELIMITER.join(_COLUMNS) + "\n"
    for run in runs:
        yield _line(run, None)
        for step in run.steps:
            yield _line(run, step)


def _job_id(run: JobRun) -> str:
    if run.het_job_id is not None:
        return f"{run.het_job_id}+{run.het_offset}"
    if run.array_job_id is None:
        return str(run.job_id)
    return f"{run.array_job_id}_{run.array_task_id}"


def _state(run: JobRun) -> str:
    return f"CANCELLED by {run.cancelled_by}" if run.cancelled_by else run.state.value


#: Column of sacct -> its text for a job, its text for a step of it.
_Columns = dict[str, tuple[Callable[[JobRun], object], Callable[[JobRun, StepRun], object]]]
_COLUMNS: _Columns = {
    "JobID": (_job_id, lambda j, s: f"{_job_id(j)}.{s.step}"),
    "JobIDRaw": (lambda j: j.job_id, lambda j, s: f"{j.job_id}.{s.step}"),
    "Cluster": (lambda j: j.cluster, lambda j, _: j.cluster),
    "User": (lambda j: j.user, lambda *_: ""),
    "UID": (lambda j: j.uid, lambda *_: ""),
    "Account": (lambda j: j.account, lambda j, _: j.account),
    "Partition": (lambda j: j.partition, lambda *_: ""),
    "QOS": (lambda j: j.qos, lambda *_: ""),
    "State": (_state, lambda _, s: s.state.value),
    "ExitCode": (lambda j: f"{j.exit_code}:{j.exit_signal}", lambda *_: "0:0"),
    "Submit": (lambda j: j.submit_s, lambda _, s: s.start_s),
    "Eligible": (lambda j: j.eligible_s, lambda _, s: s.start_s),
    "Start": (lambda j: j.start_s, lambda _, s: s.start_s),
    "End": (lambda j: j.end_s, lambda _, s: s.end_s),
    "ElapsedRaw": (lambda j: round(j.elapsed_s), lambda _, s: round(s.elapsed_s)),
    "TimelimitRaw": (lambda j: (j.limit_s or 0) // 60, lambda *_: ""),
    "NNodes": (lambda j: j.nodes, lambda _, s: s.nodes),
    "ReqNodes": (lambda j: j.req_nodes, lambda *_: ""),
    "NCPUS": (lambda j: j.cpus, lambda _, s: s.cpus),
    "NTasks": (lambda _: "", lambda _, s: s.tasks),
    "NodeList": (lambda j: j.node_list, lambda j, _: j.node_list),
    "TotalCPU": (lambda j: duration(j.cpu_s or 0), lambda _, s: duration(s.cpu_s or 0)),
    "MaxRSS": (lambda _: "", lambda _, s: f"{(s.mem_bytes or 0) // 1024}K"),
    "WorkDir": (lambda j: j.work_dir, lambda *_: ""),
    "SubmitLine": (lambda j: j.submit_line, lambda *_: ""),
    "Comment": (lambda j: j.comment, lambda *_: ""),
    "AdminComment": (lambda j: j.admin_comment, lambda *_: ""),
    "JobName": (lambda j: j.name, lambda _, s: s.name),
}


def _line(run: JobRun, step: StepRun | None) -> str:
    fields = (
        of_job(run) if step is None else of_step(run, step) for of_job, of_step in _COLUMNS.values()
    )
    return DELIMITER.join(str(field) for field in fields) + "\n"
