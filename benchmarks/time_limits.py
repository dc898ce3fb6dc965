"""How often jobs would have hit the time limits that NIMO makes of its predictions.

Causal: the limits of a job come from the runs of its application that had ended by the midnight
before it was submitted, as if ``nimo fit`` ran each night.  ``--data`` is a log as
``_logs.py`` reads it; runs of one user and job name count as runs of one application on
one problem there, which NIMO itself does not believe: it is the worst case of what a script tells.
Where a log has no names, the limit that the user asked for stands for one.  Without ``--data`` logs
are generated: runs that scatter, runs of which one in fifty is slowed down, problems that change.

``told`` is the share of jobs that would have got a limit.  Of these, ``beyond its quantile`` is the
share that ran longer than the quantile that the limit is made of, whose nominal share stands
beside it, and ``beyond the limit`` longer than the limit itself, which has a margin and whole
minutes.  ``own`` is the share that hit the user's own limit.  ``limit`` is the median of the limit
over the user's own, ``hours`` that of all hours asked for, with limits and without.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import exp, log
from typing import Any

import _bench
import _generated
import numpy as np
from _logs import Job, in_order, load

from predictor.level.experts import RunRequest
from predictor.level.record import built_in
from predictor.prediction_table import PredictionTable
from predictor.table import covers, quantile, verdict_at
from predictor.tables.build import IdentityRuns, tabulate
from predictor.tables.settings import TableSettings
from predictor.types import Verdict
from sacct_ingest.errors import FormatError
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.store import RunRow
from slurm_plugin.config import settings as config
from slurm_plugin.decision.time_limits import AskedLimit, TimeLimits, from_prediction

DAY_S = 86_400.0
SETTINGS = config.TimeLimit()
MOST_RUNS = 1000  #: runs of an application
#: Limits lean on no other application's record.
ACTING = TableSettings(pooled=built_in())


@dataclass(frozen=True, slots=True)
class Reported:
    """A job that got a limit, and the two quantiles that it was made of."""

    job: Job
    limits: TimeLimits
    high_s: float
    low_s: float


@dataclass
class Application:
    """The runs of one application in the order of their ends, and its table since last night."""

    ended: list[Job] = field(default_factory=list)
    table: PredictionTable | None = None
    fitted_s: float = -1.0

    def recorded(self, now_s: float) -> PredictionTable | None:
        """Table of the midnight before."""
        midnight = now_s // DAY_S * DAY_S
        if midnight > self.fitted_s:
            rows = [_row(job) for job in self.ended if job.end_s <= midnight][-MOST_RUNS:]
            rows.sort(key=lambda row: row.end_s or 0)
            self.table = tabulate(IdentityRuns(KeyLevel.LINE, "u/n/line", rows, midnight), ACTING)
            self.fitted_s = midnight
        return self.table


def limits_of(jobs: Sequence[Job]) -> Iterator[Reported]:
    """Limits as they would have been told, in the order of submission."""
    recorded: defaultdict[tuple[str, str], Application] = defaultdict(Application)
    for job in jobs:
        application = recorded[job.user, job.name or f"{job.asked.limit_s:g}"]
        table = application.recorded(job.submit_s)
        application.ended.append(job)
        if table is not None and (reported := _reported(job, table)) is not None:
            yield reported


def row(name: str, jobs: Sequence[Job]) -> dict[str, Any]:
    """One row of the table."""
    reported = list(limits_of(jobs))
    ran = np.array([one.job.elapsed_s for one in reported])
    own = np.array([one.job.asked.limit_s for one in reported])
    limit = np.array([one.limits.limit_s for one in reported])
    least = np.array([one.limits.least_s or one.limits.limit_s for one in reported])
    asked = sum(job.asked.limit_s for job in jobs)
    return {
        "log": name,
        "jobs": len(jobs),
        "told %": 100 * len(reported) / len(jobs),
        "own %": _share(ran >= own),
        f"beyond its quantile ({_allowed(SETTINGS.quantile)}) %": _share(
            ran > np.array([one.high_s for one in reported])
        ),
        "beyond the limit %": _share(ran > limit),
        f"beyond its quantile ({_allowed(SETTINGS.min_quantile)}) %": _share(
            ran > np.array([one.low_s for one in reported])
        ),
        "beyond time-min %": _share(ran > least),
        "limit": float(np.median(limit / own)) if reported else None,
        "hours": 1 - float((own - limit).sum()) / asked,
    }


def main() -> None:
    """Run it."""
    parser = _bench.options(str(__doc__), data="batch log: SWF or sacct text")
    arguments = parser.parse_args()
    try:
        logs = (
            {arguments.data.name: load(arguments.data)}
            if arguments.data
            else {name: _generate(name, 1_500 if arguments.quick else 12_000) for name in ODDITIES}
        )
    except FormatError as error:
        parser.error(str(error))
    rows = [row(name, jobs[: 5000 if arguments.quick else None]) for name, jobs in logs.items()]
    _bench.table(rows, title="Time limits from predictions")
    _bench.write(arguments.json, limits=rows)


def _reported(job: Job, table: PredictionTable) -> Reported | None:
    nodes = job.asked.nodes
    if not covers(table, nodes) or verdict_at(table, nodes) is not Verdict.RELIABLE:
        return None
    asked = AskedLimit(job.asked.limit_s, with_least=True)
    (limits,) = from_prediction(table, [nodes], SETTINGS, asked)
    high = quantile(table, nodes, SETTINGS.quantile)
    low = quantile(table, nodes, SETTINGS.min_quantile)
    if limits is None or high is None or low is None:
        return None
    return Reported(job, limits, high, low)


def _row(job: Job) -> RunRow:
    cut = job.elapsed_s >= job.asked.limit_s
    return RunRow(
        run_id=job.number,
        cluster="log",
        job_id=job.number,
        submit_s=int(job.submit_s),
        state=JobState.TIMEOUT if cut else JobState.COMPLETED,
        user=job.user,
        name=job.name,
        partition="",
        nodes=job.asked.nodes,
        cpus=job.asked.nodes,
        tasks=None,
        elapsed_s=job.elapsed_s,
        limit_s=int(job.asked.limit_s),
        eligible_s=None,
        start_s=int(job.end_s - job.elapsed_s),
        end_s=int(job.end_s),
        mem_bytes=None,
        array_task_id=None,
        tag="",
        script="",
        line="line",
    )


def _share(held: Any) -> float | None:
    return 100 * float(held.mean()) if held.size else None


def _allowed(share: float) -> str:
    return f"{100 * (1 - share):.3g} %"


def _steady(rng: random.Random, number: int, was: float) -> float:  # noqa: ARG001 - one of three
    return 1.0


def _sometimes_slow(rng: random.Random, number: int, was: float) -> float:  # noqa: ARG001
    return rng.uniform(1.2, 2.0) if rng.random() < 0.02 else 1.0


def _changing(rng: random.Random, number: int, was: float) -> float:
    return exp(rng.uniform(-log(2), log(2))) if number % 60 == 0 else was


#: Factor on the run time of the n-th run of an application, by what is odd about the log.
ODDITIES: dict[str, Callable[[random.Random, int, float], float]] = {
    "runs that scatter": _steady,
    "one run in fifty slowed down": _sometimes_slow,
    "problems change": _changing,
}


def _generate(name: str, count: int, seed: int = 0) -> list[Job]:
    """Jobs of applications with a curve each, some five a day of each, with generous limits."""
    rng = random.Random(seed)
    kinds = _generated.curves(max(count // 100, 15), seed)
    spreads = [exp(rng.uniform(log(0.01), log(0.2))) for _ in kinds]
    wished = [rng.uniform(1.5, 8) for _ in kinds]
    runs, factors = [0] * len(kinds), [1.0] * len(kinds)
    jobs = []
    for submit_s in accumulate(rng.expovariate(5 * len(kinds) / DAY_S) for _ in range(count)):
        which = rng.randrange(len(kinds))
        kind = kinds[which]
        factors[which] = ODDITIES[name](rng, runs[which], factors[which])
        runs[which] += 1
        place = rng.randrange(0, len(kind.nodes), 2)
        time_s = kind.times_s[place]
        limit_s = 900 * -(-time_s * wished[which] // 900)
        ran_s = min(time_s * factors[which] * rng.lognormvariate(0, spreads[which]), limit_s)
        asked = RunRequest(kind.nodes[place], limit_s)
        end_s = submit_s + rng.expovariate(1 / 1800) + ran_s
        jobs.append(Job(submit_s, end_s, ran_s, f"user{which % 20}", f"app{which}", asked))
    return in_order(job for job in jobs if job.elapsed_s >= 1)


if __name__ == "__main__":
    main()
