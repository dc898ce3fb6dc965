"""What is predicted of the run times of jobs in the queue, as far as squeue shows what they are."""

from collections.abc import Callable
from functools import lru_cache
from math import log

from predictor.table import at, covers, verdict_at
from predictor.types import Prediction, Verdict
from predictor.waits.estimate import log_quantiles
from predictor.waits.workload import LimitShares
from sacct_ingest.records import KeyLevel
from sacct_ingest.scripts.signature import identity_of_request
from sacct_ingest.text.admin_comment import parse
from slurm_plugin.decision.lookup import PredictionLookup
from slurm_plugin.slurm.raw_state import RawJob

#: Level of the interval in a job's admin_comment, which does not say.
_LEVEL = 0.9
#: Kinds of jobs that are remembered from one look to the next.
_MOST = 50_000
#: Chance that a job of which nothing is predicted takes all of its limit.
_WHOLE = 0.15

_RunTime = tuple[tuple[float, ...], int]


class QueueRunTimes:
    """Recognises jobs of squeue and gives what is predicted of them.

    The note in a job's admin_comment goes first, then the prediction tables by its keys, then the
    share of their limits that its user's jobs used, or the site's.  Where all are missing the
    limit is all there is.

    tables: gives the prediction tables of the moment.
    """

    def __init__(self, tables: Callable[[], PredictionLookup]) -> None:
        self._tables = tables
        self._of: PredictionLookup | None = None
        self._recognised: dict[tuple[object, ...], _RunTime] = {}
        self._applications: dict[str, int] = {}
        self._shares = LimitShares()

    def remember(self, shares: LimitShares) -> None:
        """Take the shares of their limits that jobs used in the past."""
        self._shares, self._of = shares, None

    def __call__(self, job: RawJob) -> _RunTime:
        """Log quantiles of a job's run time, empty where only its limit is found; its application.

        Jobs of one application have the same number; 0 where it is not found.
        """
        tables = self._tables()
        if self._of is not tables or len(self._recognised) > _MOST:
            self._of, self._recognised, self._applications = tables, {}, {}
        key = (job.user, job.name, job.comment, job.command, job.nodes, job.limit_s)
        own = (*key, job.admin_comment) if "NIMO1:" in job.admin_comment else key
        if (run_time := self._recognised.get(own)) is None:
            run_time = self._recognised[own] = self._find(job, tables)
        return run_time

    def _find(self, job: RawJob, tables: PredictionLookup) -> _RunTime:
        note = parse(job.admin_comment)
        # A doubtful note may be a guess; the table of the job's keys says which it is.
        if note is not None and note.nodes == job.nodes and note.verdict == Verdict.RELIABLE:
            low_s, high_s = max(note.low_s, 1), max(note.high_s, 1)
            one = Prediction(job.nodes, max(note.time_s, 1.0), low_s, high_s, level=_LEVEL)
            return log_quantiles(one), self._number(f"{job.user}/{job.name}")
        identity = identity_of_request(
            user=job.user,
            name=job.name,
            comment=job.comment,
            script="",
            argv=job.command.split(),
            work_dir=job.work_dir,
        )
        table = tables.find(identity) if len(tables) else None
        # Run times of whatever the user ran say less than which shares of their limits that took.
        covered = table is not None and table.level != KeyLevel.USER and covers(table, job.nodes)
        if table and covered and verdict_at(table, job.nodes) is not Verdict.REFUSED:
            number = self._number(f"{table.level}/{table.key}")
            return log_quantiles(at(table, job.nodes)), number
        shares = self._shares.users.get(job.user) or self._shares.site
        if shares and job.limit_s:
            return _of_limit(shares, job.limit_s), self._number(f"user/{job.user}")
        return (), 0

    def _number(self, name: str) -> int:
        return self._applications.setdefault(name, len(self._applications) + 1)


@lru_cache(maxsize=4_096)
def _of_limit(shares: tuple[float, ...], limit_s: float) -> tuple[float, ...]:
    """Log quantiles of a run time of which only the limit is given."""
    limit = log(limit_s)
    return tuple(limit + share for share in _unsure(shares))


def _unsure(shares: tuple[float, ...]) -> tuple[float, ...]:
    """Add jobs that use their whole limit: the application of this one is not recognised."""
    count = len(shares)
    others = count - round(_WHOLE * count)
    return (
        *(shares[place * count // others] for place in range(others)),
        *[0.0] * (count - others),
    )
