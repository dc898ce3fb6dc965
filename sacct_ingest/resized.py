"""Jobs whose node count was changed while they ran.

Such a job has a row for each size: those before the last are in state ``RESIZING``, and the row
after them has the time of the change for its submit time (``as_mysql_job.c`` in Slurm's slurmdbd).
That row alone does not say that it is a rest, and may be read in another window.  What is known of
it once the row before was read is stored at once: a run with its key, in state ``RESIZING``.  The
store keeps that state, so that the time on the last nodes is never taken for a run time on them.
"""

from msgspec.structs import replace

from sacct_ingest.records import JobRun, JobState


def to_store(run: JobRun) -> JobRun | None:
    """Give what is stored of a run: itself once it has ended, of a resized job the rest's key.

    Examples
    --------
    >>> row = JobRun(cluster="pine", job_id=22, submit_s=100, state=JobState.RESIZING, end_s=170)
    >>> to_store(row).submit_s, to_store(row).end_s
    (170, None)
    """
    if run.state is JobState.RESIZING and run.end_s is not None:
        return _rest_of(run, run.end_s)
    return run if run.state.ended else None


def _rest_of(run: JobRun, resized_s: int) -> JobRun:
    return replace(
        run,
        submit_s=resized_s,
        eligible_s=resized_s,
        start_s=None,
        end_s=None,
        elapsed_s=0.0,
        cpu_s=None,
        steps=(),
    )
