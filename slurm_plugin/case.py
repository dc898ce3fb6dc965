"""One job request with all that is known about it at that moment."""

from dataclasses import dataclass
from functools import lru_cache
from math import inf

from predictor.types import PredictionTable
from sacct_ingest.job_script import parse_script
from sacct_ingest.records import Identity
from sacct_ingest.time_spec import parse_time
from slurm_plugin.config import Mode, OptIn
from slurm_plugin.eligibility import span_of
from slurm_plugin.policy import Request
from slurm_plugin.protocol import Job
from slurm_plugin.reasons import Reason
from slurm_plugin.slurm.state import Partition


@dataclass(frozen=True, slots=True)
class Case:
    """A job with all that is known about it at the moment of its submission."""

    job: Job
    identity: Identity
    mode: Mode
    request: Request
    table: PredictionTable | None
    partition: Partition | None  #: None: unknown, or several
    now_s: float


def application_of(job: Job, identity: Identity) -> str:
    """Name of the application for the site's rules: its tag, else the job's name."""
    return identity.tag or job.name


def request_of(
    job: Job, opt_in: OptIn, application: str, partition: Partition | None, *, now_s: float
) -> Request:
    """Put into a request what a job asks for, its deadline and time limit in seconds.

    Parameters
    ----------
    partition
        Whose default limit holds where the job gives none.
    now_s
        Time that relative deadlines count from, seconds since the epoch.
    """
    span = span_of(job, opt_in, application)
    deadline_s, fixed = None, span.fixed
    try:
        deadline_s = deadline_of(job, now_s=now_s)
    except ValueError:
        fixed = fixed or Reason.DEADLINE_UNREADABLE
    own = job.time_min or job.time_limit  # backfill may shorten a job down to time_min
    default = (partition.default_time_s or partition.max_time_s) if partition else None
    return Request(
        low=span.low,
        high=span.high,
        limit_s=60.0 * own if own else default,
        limit_raisable=job.time_min is None and job.time_limit is not None,
        deadline_s=deadline_s,
        begin_s=job.begin_time if job.begin_time else -inf,
        mem_node_bytes=job.min_mem_per_node * 2**20 if job.min_mem_per_node else None,
        fixed=fixed,
    )


def deadline_of(job: Job, *, now_s: float) -> float | None:
    """Deadline of a job; that of its script where the hook could not see the option.

    Raises
    ------
    ValueError
        It cannot be read.
    """
    text = job.deadline
    if not text and "deadline" in job.script:
        text = _script_deadline(job.script)
    return parse_time(text, now_s=now_s) if text else None


@lru_cache(maxsize=256)
def _script_deadline(script: str) -> str:
    return parse_script(script).options.get("deadline") or ""
