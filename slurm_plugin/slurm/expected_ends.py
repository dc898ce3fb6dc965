"""How long jobs of the queue are expected to run, by the notes that they carry."""

from math import inf

from sacct_ingest.text.admin_comment import parse
from slurm_plugin.slurm.cluster_state import RawJob

_RELIABLE = "reliable"


def expected_run_time_s(job: RawJob) -> float | None:
    """Longest run time to be expected of a job; None: there is only its time limit."""
    note = parse(job.admin_comment) if job.admin_comment else None
    if note is None or note.verdict != _RELIABLE or note.nodes != job.size:
        return None
    return float(note.high_s)


def expected_end_s(job: RawJob, now_s: float) -> float:
    """When a running job ends: by its prediction, or by its limit where that is over."""
    longest_s = expected_run_time_s(job)
    end = inf if longest_s is None else job.start_s + longest_s
    return min(end, job.end_s) if end > now_s else job.end_s
