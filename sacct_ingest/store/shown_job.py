"""Which decision is about a job that scontrol shows and the accounting does not have yet.

Jobs of one user, name and folder may be submitted in the same second.  What each of them asked for
tells their decisions apart; where it does not, no decision is named.
"""

from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Row

from sacct_ingest.records import DecisionRow, ShownJob
from sacct_ingest.runs.layout import Unit

#: A deadline such as ``now+2hours`` is worked out twice: by sbatch, and by nimod a moment later.
_DEADLINE_S = 2.0
#: Columns of a decision that are compared.
COMPARED: Final = (
    *("partition", "line", "min_nodes", "max_nodes", "limit_s", "deadline_s"),
    *("action", "applied", "nodes", "unit", "given_limit_s", "given_min_s"),
)


def decision_of(decision: DecisionRow, job: ShownJob) -> DecisionRow | None:
    """Give the decision as it came out, if it can be the one about a job; else None.

    A decision was applied where the job has what it gave.  A job that still has what it asked for
    got the answer too late.
    """
    if not fits(decision, job):
        return None
    if decision.applied and not _as_given(decision, job):
        return replace(decision, applied=False)
    return decision


def fits(decision: DecisionRow | Row[Any], job: ShownJob) -> bool:
    """Whether a decision can be the one about a job, by what that asked for or was given.

    decision: a record, or a row with these of its columns: `COMPARED`.
    """
    if not _same_work(decision, job):
        return False
    return bool(decision.applied and _as_given(decision, job)) or _as_asked(decision, job)


def alike(decision: DecisionRow) -> DecisionRow:
    """Give a decision without what tells it from another one with the same content."""
    return replace(decision, decision_id="", at_s=0.0)


def _same_work(decision: DecisionRow | Row[Any], job: ShownJob) -> bool:
    """Compare what no decision changes: script and arguments, partition and deadline."""
    if job.line and decision.line and job.line != decision.line:
        return False
    partitions = set(filter(None, decision.partition.split(",")))
    if partitions and job.partitions and partitions.isdisjoint(job.partitions):
        return False
    if decision.deadline_s is None:
        return True  # none, or the site's hooks do not pass it on
    if job.deadline_s is None:
        return False
    return bool(abs(decision.deadline_s - job.deadline_s) <= _DEADLINE_S)


def _as_given(decision: DecisionRow | Row[Any], job: ShownJob) -> bool:
    """Whether a job has what a decision gave it."""
    if decision.given_limit_s is None:
        same_limit = _has_asked_limit(decision, job)
    elif decision.given_min_s is None:
        same_limit = job.limit_s == decision.given_limit_s
    else:  # which backfill may shorten it to
        same_limit = job.least_limit_s == decision.given_min_s
    if decision.unit != Unit.NODES:
        return same_limit  # the number of nodes follows from that of tasks, CPUs or GPUs
    if decision.action != "set" or decision.nodes is None:
        return same_limit and _has_asked_nodes(decision, job)
    return same_limit and job.low_nodes == decision.nodes and job.high_nodes == decision.nodes


def _as_asked(decision: DecisionRow | Row[Any], job: ShownJob) -> bool:
    """Whether a job has what it asked for."""
    return _has_asked_nodes(decision, job) and _has_asked_limit(decision, job)


def _has_asked_nodes(decision: DecisionRow | Row[Any], job: ShownJob) -> bool:
    low = decision.min_nodes or 1
    high = decision.max_nodes
    if job.started:
        return low <= job.low_nodes and (high is None or job.low_nodes <= high)
    if high is None:
        # From 25.11 on a job without a node count gets at most one for each of its tasks.
        return low <= job.low_nodes and job.high_nodes in {None, job.tasks}
    # More tasks than fit on the fewest nodes raise that number.
    return low <= job.low_nodes and job.high_nodes == high


def _has_asked_limit(decision: DecisionRow | Row[Any], job: ShownJob) -> bool:
    """Compare time limits; backfill may shorten one as far as ``--time-min``."""
    asked_s = decision.limit_s
    if asked_s is None:
        return True  # no limit, or a default that nimod did not see
    if job.least_limit_s is not None:
        return asked_s in {job.least_limit_s, job.limit_s}
    return asked_s == job.limit_s
