"""Waits in a replayed log by running the queue forward, each predicted from the past only.

Jobs go through EASY backfilling with the users' limits.  Some are asked about at their submission:
the queue runs forward with what is expected of run times by then, and what such estimates were off
by before corrects it.
"""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from math import exp, log
from statistics import fmean

import numpy as np

from predictor.backfilling import Engine, JobShape
from predictor.queue_forward import QueuedJob, QueueState, run_forward
from predictor.types import Prediction
from predictor.wait_estimate import (
    SHARES,
    WaitClass,
    WaitError,
    WaitEstimate,
    WaitRecord,
    class_of,
    error_of,
)
from slurm_plugin.replay.workload import Workload

_RECENT = 2_000


@dataclass(slots=True)
class RunTimes:
    """What is expected of run times: the mean of the last two like it, and what that was off by.

    Like it are the user's jobs of the same nodes and limit, or else all of the user's (Tsafrir,
    Etsion, Feitelson, 2007).
    """

    work: Workload
    last: defaultdict[tuple[object, ...], deque[float]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=2))
    )
    errors: dict[int, deque[float]] = field(
        default_factory=lambda: {n: deque(maxlen=_RECENT) for n in range(3)}
    )
    expected: dict[int, tuple[float, int]] = field(default_factory=dict)
    quantiles: dict[int, tuple[float, ...]] = field(default_factory=dict)
    ended: int = 0

    def submit(self, job: int) -> None:
        """Note what is expected of a job."""
        limit_s = float(self.work.limit_s[job])
        for level, key in enumerate(self._keys(job)):
            if last := self.last.get(key):
                self.expected[job] = min(fmean(last), limit_s), level
                return
        self.expected[job] = limit_s, 2

    def end(self, job: int) -> None:
        """Learn from a job that has ended."""
        expected_s, level = self.expected[job]
        run_s = max(float(self.work.run_s[job]), 1.0)
        self.errors[level].append(log(run_s / max(expected_s, 1.0)))
        for key in self._keys(job):
            self.last[key].append(run_s)
        self.ended += 1
        if self.ended % 100 == 0:
            self.quantiles = {
                n: tuple(np.quantile(errors, SHARES).tolist())
                for n, errors in self.errors.items()
                if len(errors) >= 20
            }

    def of(self, job: int) -> tuple[float, ...]:
        """Log quantiles of a job's run time; empty: its limit is all there is."""
        expected_s, level = self.expected[job]
        base = log(max(expected_s, 1.0))
        return tuple(base + one for one in self.quantiles.get(level, ()))

    def _keys(self, job: int) -> tuple[tuple[object, ...], ...]:
        work = self.work
        user = work.users[job]
        return (user, int(work.nodes[job]), float(work.limit_s[job])), (user,)


@dataclass(frozen=True, slots=True)
class Asked:
    """A job that was asked about, with what was expected of it."""

    job: int
    draws_s: tuple[float, ...]
    of: WaitClass
    estimate: WaitEstimate
    sure_s: float  #: by then it was 95 % sure to have ended, seconds from its submission


class ForwardWaits:
    """Asks about every so many-th job of a replay.

    Parameters
    ----------
    work
        The log.
    engine
        That runs it.
    every
        How often is asked.
    """

    def __init__(self, work: Workload, engine: Engine, every: int) -> None:
        self._work, self._engine, self._every = work, engine, every
        self._times = RunTimes(work)
        self._record = WaitRecord()
        self._there: set[int] = set()
        self._open: dict[int, Asked] = {}
        self.asked: list[Asked] = []

    def submit(self, job: int, now_s: float) -> None:
        """Look at the queue before this job joins it."""
        running = self._engine.running_jobs
        there = {number for number, _ in running} | set(self._engine.waiting_jobs)
        for ended in self._there - there:
            self._times.end(ended)
            self._there.discard(ended)
        for number, start_s in running:
            if (one := self._open.pop(number, None)) is not None:
                self._record.add(self._error(one, start_s))
        self._times.submit(job)
        if job % self._every == 0:
            self._ask(job, now_s, running)
        self._there.add(job)

    def _ask(self, job: int, now_s: float, running: list[tuple[int, float]]) -> None:
        waiting = self._engine.waiting_jobs
        state = QueueState(
            units=self._engine.nodes,
            running=[self._job(one, ran_s=now_s - start_s) for one, start_s in running],
            waiting=[self._job(one) for one in waiting],
        )
        nodes, limit_s = int(self._work.nodes[job]), float(self._work.limit_s[job])
        draws = run_forward(state, seed=job).grid.draws(nodes, limit_s) or (0.0,)
        of = class_of(
            draws[len(draws) // 2],
            partition="",
            share=nodes / self._engine.nodes,
            at_s=now_s,
            waiting=len(waiting),
        )
        estimate = self._record.estimate(draws, of)
        one = Asked(job, draws, of, estimate, estimate.end_s(self._run(job), 0.95))
        self._open[job] = one
        self.asked.append(one)

    def _run(self, job: int) -> Prediction:
        quantiles, limit_s = self._times.of(job), float(self._work.limit_s[job])
        if not quantiles:
            return Prediction(1, limit_s, limit_s, limit_s, level=0.9)
        low, median, high = (exp(float(np.quantile(quantiles, q))) for q in (0.05, 0.5, 0.95))
        return Prediction(1, median, min(low, median), max(min(high, limit_s), median), level=0.9)

    def _job(self, job: int, ran_s: float = 0.0) -> QueuedJob:
        user = self._work.users[job]
        return QueuedJob(
            units=int(self._work.nodes[job]),
            limit_s=float(self._work.limit_s[job]),
            log_run_s=self._times.of(job),
            application=hash((user, int(self._work.nodes[job]))) % 2**31 + 1,
            ran_s=ran_s,
            number=job,
        )

    def _error(self, one: Asked, start_s: float) -> WaitError:
        submit_s = float(self._work.submit_s[one.job])
        return error_of(
            one.draws_s,
            one.of,
            at_s=submit_s,
            actual_s=max(start_s - submit_s, 0.0),
            estimate=one.estimate,
        )


def shape_of(work: Workload, job: int) -> JobShape:
    """Shape of a job of the log."""
    return JobShape(int(work.nodes[job]), float(work.limit_s[job]), float(work.run_s[job]))
