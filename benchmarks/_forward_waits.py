"""Waits in a replayed log by running the queue forward, each predicted from the past only.

Jobs go through EASY backfilling with the users' limits.  Some are asked about at their submission:
the queue runs forward with what is expected of run times by then, and what such estimates were off
by before corrects it.  When a job ends follows from that and from the run time that a site's
prediction tables give for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from zlib import crc32

from predictor.types import Prediction
from predictor.waits.backtest import PastJob, PastRunTimes
from predictor.waits.easy import Engine
from predictor.waits.error_record import WaitClass, WaitError, WaitRecord, class_of, error_of
from predictor.waits.estimate import WaitEstimate
from predictor.waits.simulation import QueuedJob, QueueState, run_forward
from slurm_plugin.replay.workload import Workload


@dataclass(frozen=True, slots=True)
class Asked:
    """A job that was asked about, with what was expected of it."""

    job: int
    draws_s: tuple[float, ...]
    of: WaitClass
    estimate: WaitEstimate
    #: by then it was 95 % sure to have ended, seconds from its submission; NaN: not predicted
    sure_s: float


class ForwardWaits:
    """Asks about every so many-th job of a replay.

    work: the log.
    engine: that runs it.
    every: how often is asked.
    predicted: run times of jobs by a site's prediction tables, at their submission.
    """

    def __init__(
        self, work: Workload, engine: Engine, every: int, predicted: Mapping[int, Prediction]
    ) -> None:
        self._work, self._engine, self._every = work, engine, every
        self._predicted = predicted
        self._times = PastRunTimes([_past_job(work, job) for job in range(len(work))])
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
        run = self._predicted.get(job)
        one = Asked(job, draws, of, estimate, nan if run is None else estimate.end_s(run, 0.95))
        self._open[job] = one
        self.asked.append(one)

    def _job(self, job: int, ran_s: float = 0.0) -> QueuedJob:
        alike = f"{self._work.users[job]} {self._work.nodes[job]}"
        return QueuedJob(
            units=int(self._work.nodes[job]),
            limit_s=float(self._work.limit_s[job]),
            log_run_s=self._times.of(job),
            application=crc32(alike.encode()) + 1,
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


def _past_job(work: Workload, job: int) -> PastJob:
    return PastJob(
        user=work.users[job],
        partition="",
        units=int(work.nodes[job]),
        limit_s=float(work.limit_s[job]),
        submit_s=float(work.submit_s[job]),
        start_s=0.0,  # the replay says
        run_s=float(work.run_s[job]),
    )
