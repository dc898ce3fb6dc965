"""What time limits far above the need cost in waits, by replaying the queue.

The jobs of each queue go twice through EASY backfilling, in CPUs: with their own limits, and with
shorter ones where the record before a job's submission says that its limit is far above the need.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, NamedTuple

from predictor.waits.backtest import PastJob, most_at_once, past_job, queue_groups
from predictor.waits.easy import Engine, JobShape
from sacct_ingest.records import JobState
from sacct_ingest.store.rows import RunRow
from slurm_plugin.evaluation.resource_usage import LEAST_RUNS
from slurm_plugin.evaluation.waste_report import FAR, LIMIT_MARGIN, LimitWaits

#: No job asks for less, seconds.
_LEAST_S: Final = 60.0


class _Asked(NamedTuple):
    """A start, and the shorter limit that it would have asked for; None: it keeps its own."""

    job: PastJob
    shorter_s: float | None


@dataclass(slots=True)
class _LongestRuns:
    """The longest completed run of each application that had ended by a moment."""

    _ended: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)
    _running: list[tuple[float, tuple[str, str], float]] = field(default_factory=list)

    def before(self, run: RunRow) -> float | None:
        """Give it in seconds; None: fewer than `LEAST_RUNS` had ended at the submission."""
        while self._running and self._running[0][0] <= run.submit_s:
            _, key, elapsed_s = heappop(self._running)
            runs, longest_s = self._ended.get(key, (0, 0.0))
            self._ended[key] = runs + 1, max(longest_s, elapsed_s)
        runs, longest_s = self._ended.get(_application(run), (0, 0.0))
        return longest_s if runs >= LEAST_RUNS else None

    def take(self, run: RunRow) -> None:
        """Take a start for what comes after it."""
        if run.state is JobState.COMPLETED:
            end_s = float(run.start_s or 0) + run.elapsed_s
            heappush(self._running, (end_s, _application(run), run.elapsed_s))


def replay_shorter_limits(runs: Iterable[RunRow]) -> LimitWaits | None:
    """Replay starts of jobs with shorter limits.

    runs: in the order of submission.
    Returns LimitWaits: None where no limit is far above the need.
    """
    record = _LongestRuns()
    clusters: dict[str, list[_Asked]] = defaultdict(list)
    places: dict[str, dict[tuple[str, str], RunRow]] = defaultdict(dict)
    for run in runs:
        if run.start_s is None or run.elapsed_s <= 0 or run.nodes <= 0:
            continue
        clusters[run.cluster].append(_Asked(past_job(run), shorter_limit(run, record.before(run))))
        places[run.cluster].setdefault((run.partition, run.node_list), run)
        record.take(run)
    asked = [one for jobs in clusters.values() for one in jobs]
    shorter = sum(one.shorter_s is not None for one in asked)
    if not shorter:
        return None
    waits_s = [
        _waits_s(queue, shorter=second)
        for cluster, jobs in clusters.items()
        for queue in _queues(jobs, queue_groups(list(places[cluster].values())))
        for second in (False, True)
    ]
    return LimitWaits(
        starts=len(asked),
        shorter=shorter,
        wait_s=sum(waits_s[::2]) / len(asked),
        shorter_wait_s=sum(waits_s[1::2]) / len(asked),
    )


def shorter_limit(run: RunRow, longest_s: float | None) -> float | None:
    """Give the limit that a job would have asked for by the longest run before; None: its own.

    One that would have been ended by the shorter limit keeps its own.
    """
    if longest_s is None or not run.limit_s or run.limit_s <= FAR * longest_s:
        return None
    limit_s = max(LIMIT_MARGIN * longest_s, _LEAST_S)
    return limit_s if run.elapsed_s <= limit_s < run.limit_s else None


def _application(run: RunRow) -> tuple[str, str]:
    return run.user, run.identity.application or run.name


def _queues(jobs: Iterable[_Asked], groups: Mapping[str, int]) -> Iterator[list[_Asked]]:
    """Part jobs by queues, each in the order in which they could start."""
    queues: dict[int, list[_Asked]] = defaultdict(list)
    for one in jobs:
        queues[groups[one.job.partition]].append(one)
    for queue in queues.values():
        yield sorted(queue, key=lambda one: one.job.submit_s)


def _waits_s(queue: Sequence[_Asked], *, shorter: bool) -> float:
    """Give the sum of the waits, where a queue has as many CPUs as were in use at once."""
    jobs = [one.job for one in queue]
    shapes = [_shape(one, shorter=shorter) for one in queue]
    units = max(most_at_once(jobs), *(job.units for job in jobs))
    submits_s = [job.submit_s for job in jobs]
    starts_s = Engine(units).run(submits_s, lambda job, _: shapes[job]).start_s
    return float(starts_s.sum()) - sum(submits_s)


def _shape(one: _Asked, *, shorter: bool) -> JobShape:
    run_s = max(one.job.run_s, 1.0)
    limit_s = one.job.limit_s
    if shorter and one.shorter_s is not None:
        limit_s = one.shorter_s
    return JobShape(one.job.units, max(limit_s, run_s), run_s)
