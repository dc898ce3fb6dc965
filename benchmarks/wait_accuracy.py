"""How near predicted queue waits come, each predicted from the past only.

``--data`` is one of two things:

- a table of pending jobs (CSV, compressed or not) in the columns of mila-iqia's
  slurm-queue-time-pred: moments of polling, what was asked, queue and running jobs ahead, and
  ``poll_wait_sec``.  The first 60 % of the days are learned from, the rest is asked.
- a log in the Standard Workload Format: its jobs go through EASY backfilling with the users'
  limits, and each is asked at its submission.  The first 60 % of the jobs are learned from.

NIMO is the regression for a table of pending jobs, and the queue run forward for a log, as nimod
does it.  That is asked about some jobs of a log only, with the profile for the same ones; "95 %
sure made" is the share of them that ended by the time by which that was said to be 95 % sure, of
those ("predicted") whose run time a prediction table of the past gave.

Beside NIMO: the median of the partition, gradient boosting as it comes, NIMO without the
core-hours by run time (actual ones in a log, predicted ones at submission), and for replayed logs
the profile of the users' limits.  Errors are of ``log10`` of the wait in seconds, plus a minute for
replayed logs, whose jobs often wait for nothing.  "Waited": of jobs that waited longer than a
minute; "expected to wait": by the median of the estimate.
"""

import bz2
import csv
import gzip
import io
import lzma
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Any, TextIO

import _bench
import numpy as np
from _forward_waits import Asked as ForwardEstimate
from _forward_waits import ForwardWaits
from _replayed_tables import predictions
from _workloads import workload
from numpy.typing import NDArray

from predictor.waits.easy import Engine, JobShape
from predictor.waits.regression import LEAST_S, QueueWaitFit, QueueWaitModel
from slurm_plugin.replay.what_if import planned
from slurm_plugin.replay.workload import Workload

Floats = NDArray[np.float64]
LEARNED = 0.6
ALLOWANCE_S = 60.0
_ASKED = 2_500  #: jobs for which the queue is run forward
_TIMES = ("poll_time", "submit_time", "eligible_time")
_TARGET = "poll_wait_sec"
_IDENTITIES = ("partition", "account")
#: Features that are quotients or products of others: work ahead over what works it off.
_QUOTIENTS = (
    ("q_core_hours_above", "r_cores_above"),
    ("q_p_core_hours_above", "r_p_cores_above"),
    ("q_core_run_hours", "r_cores_above"),
    ("q_p_core_run_hours", "r_p_cores_above"),
    ("q_p_cores_above", "r_p_cores_above"),
    ("q_p_gpus_above", "r_p_gpus_above"),
    ("req_mem_total", "req_cpus"),
)
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def _ratios(names: Sequence[str], rows: Floats) -> tuple[list[str], Floats]:
    """Derive what trees find hard: the work ahead over the cores that work it off."""
    x = rows
    place = {name: i for i, name in enumerate(names)}
    pairs = [(a, b) for a, b in _QUOTIENTS if a in place and b in place]
    values = [x[:, place[a]] / np.maximum(x[:, place[b]], 1.0) for a, b in pairs]
    return [f"{a}/{b}" for a, b in pairs], np.column_stack(values) if values else x[:, :0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Jobs that were asked about, in any order."""

    names: list[str]
    rows: Floats  #: shape (jobs, features)
    waits_s: Floats
    asked_s: Floats
    groups: Sequence[str]  #: partition
    allowance_s: float = 0.0
    profile_s: Floats | None = None  #: wait by the profile of the users' limits
    estimate: str | None = None  #: feature that estimates the wait by itself
    #: some of the jobs, for which the queue was run forward at their submission
    forward: Sequence[ForwardEstimate] = ()
    run_s: Floats | None = None

    @property
    def logs(self) -> Floats:
        """Logarithms of the waits."""
        return self.log(self.waits_s)

    def log(self, waits_s: Floats) -> Floats:
        """Logarithm of waits."""
        return np.log10(np.maximum(waits_s + self.allowance_s, LEAST_S))

    def without(self, part: str) -> "Asked":
        """Leave out features whose name has ``part``."""
        remaining = [i for i, name in enumerate(self.names) if part not in name]
        return Asked(
            names=[self.names[i] for i in remaining],
            rows=self.rows[:, remaining],
            waits_s=self.waits_s,
            asked_s=self.asked_s,
            groups=self.groups,
            allowance_s=self.allowance_s,
            profile_s=self.profile_s,
            estimate=self.estimate,
            forward=self.forward,
            run_s=self.run_s,
        )


def opened(path: Path) -> TextIO:
    """Open a text, compressed or not."""
    text: TextIO = _OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8", errors="replace")
    return text


def polled(text: TextIO) -> Asked:
    """Read a table of pending jobs."""
    table = csv.DictReader(text)
    heads = [h for h in table.fieldnames or () if h not in (*_TIMES, _TARGET, *_IDENTITIES)]
    records = list(table)
    times = {t: np.array([_seconds(r[t]) for r in records]) for t in _TIMES if t in records[0]}
    rows = np.array([[_number(r[h]) for h in heads] for r in records])
    ages = [times["poll_time"] - times[t] for t in _TIMES[1:] if t in times]
    names = [*heads, *(f"age_{t}" for t in _TIMES[1:] if t in times)]
    extra_names, extra = _ratios(names, np.column_stack([rows, *ages]))
    return Asked(
        names=[*names, *extra_names],
        rows=np.column_stack([rows, *ages, extra]),
        waits_s=np.array([float(r[_TARGET]) for r in records]),
        asked_s=times["poll_time"],
        groups=[r.get("partition", "") for r in records],
    )


def generated(days: int, a_day: int) -> Asked:
    """Make a table: waits that grow with the core-hours ahead, days that differ, noise."""
    rng = np.random.default_rng(1)
    jobs = days * a_day
    day = np.repeat(np.arange(days), a_day)
    crowd = np.exp(rng.normal(0, 0.7, days))[day]
    ahead = rng.lognormal(9.0, 1.5, jobs) * crowd
    names = ["req_cpus", "time_limit_sec", "q_core_hours_above", "r_cores_above"]
    cores = rng.integers(1_000, 10_000, days)[day].astype(float)
    rows = np.column_stack(
        [rng.integers(1, 64, jobs), rng.lognormal(9, 1, jobs), ahead, cores]
    ).astype(float)
    extra_names, extra = _ratios(names, rows)
    return Asked(
        names=[*names, *extra_names],
        rows=np.column_stack([rows, extra]),
        waits_s=3600 * ahead / cores * rng.lognormal(0, 0.5, jobs),
        asked_s=86_400.0 * day,
        groups=["all"] * jobs,
    )


def replayed(path: Path, most: int) -> Asked:
    """Run a log through EASY backfilling; what each job meets at its submission is its row."""
    with opened(path) as text:
        work, ids = workload(text, most)
    engine = Engine(work.cluster_nodes)
    rows: list[list[float]] = []

    guess, alive = Recent(work), set[int]()
    forward = ForwardWaits(work, engine, max(len(work) // _ASKED, 1), predictions(path, work, ids))

    def ask(job: int, now_s: float) -> JobShape:
        shape = JobShape(int(work.nodes[job]), float(work.limit_s[job]), float(work.run_s[job]))
        running = {number for number, _ in engine.running_jobs} | set(engine.waiting_jobs)
        for ended in [number for number in alive if number not in running]:
            guess.end(ended)
            alive.discard(ended)
        guess.submit(job)
        alive.add(job)
        forward.submit(job, now_s)
        rows.append(_met(engine, guess, job, shape, now_s))
        return shape

    schedule = engine.run(work.submit_s.tolist(), ask)
    table = np.array(rows)
    extra_names, extra = _ratios(_MET, table)
    return Asked(
        names=[*_MET, *extra_names],
        rows=np.column_stack([table, extra]),
        waits_s=schedule.start_s - work.submit_s,
        asked_s=work.submit_s,
        groups=["all"] * len(work),
        allowance_s=ALLOWANCE_S,
        profile_s=table[:, _MET.index("profile_wait_s")],
        estimate="expected_wait_s",
        forward=forward.asked,
        run_s=work.run_s,
    )


class Recent:
    """Run times as expected at submission: the mean of the user's last two, at most the limit.

    Tsafrir, Etsion, Feitelson, *Backfilling Using System-Generated Predictions Rather Than User
    Runtime Estimates*, 2007; stands for the predictions of a site whose log names applications.
    """

    def __init__(self, work: Workload) -> None:
        self._work = work
        self._last: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=2))
        self.expected_s: list[float] = []

    def submit(self, job: int) -> None:
        """Note what is expected of a job that is submitted now."""
        last, limit_s = self._last[self._work.users[job]], float(self._work.limit_s[job])
        self.expected_s.append(min(fmean(last), limit_s) if last else limit_s)

    def end(self, job: int) -> None:
        """Note a run time that is known now."""
        self._last[self._work.users[job]].append(float(self._work.run_s[job]))


_MET = [
    *(
        "nodes",
        "time_limit_sec",
        "profile_wait_s",
        "expected_wait_s",
        "expected_s",
        "free",
        "q_jobs_above",
        "q_cores_above",
    ),
    *("q_core_hours_above", "r_jobs_above", "r_cores_above", "r_core_hours_above"),
]


def _met(engine: Engine, guess: Recent, job: int, shape: JobShape, now_s: float) -> list[float]:
    waiting, releases = engine.waiting, engine.releases()
    limits = planned(engine.free, releases, waiting, now_s)
    expected = planned(
        engine.free,
        sorted(_expected_ends(engine, guess, now_s)),
        [
            JobShape(one.nodes, guess.expected_s[number], one.run_s)
            for number, one in zip(engine.waiting_jobs, waiting, strict=True)
        ],
        now_s,
    )
    return [
        float(shape.nodes),
        shape.limit_s,
        limits.earliest_start(shape.nodes, shape.limit_s, from_s=now_s) - now_s,
        expected.earliest_start(shape.nodes, guess.expected_s[job], from_s=now_s) - now_s,
        guess.expected_s[job],
        float(engine.free),
        float(len(waiting)),
        float(sum(one.nodes for one in waiting)),
        sum(one.nodes * one.limit_s for one in waiting) / 3600,
        float(len(releases)),
        float(engine.nodes - engine.free),
        sum(nodes * max(end_s - now_s, 0.0) for end_s, nodes in releases) / 3600,
    ]


def _expected_ends(engine: Engine, guess: Recent, now_s: float) -> Iterator[tuple[float, int]]:
    """When running jobs are expected to end: one that is overdue after as long again."""
    for (job, start_s), (limit_s, nodes) in zip(
        engine.running_jobs, engine.releases(), strict=True
    ):
        expected_s, ran_s = guess.expected_s[job], now_s - start_s
        while expected_s <= ran_s:
            expected_s = 2 * max(expected_s, 1.0)
        yield min(start_s + expected_s, limit_s), nodes


def methods(asked: Asked) -> Iterator[dict[str, Any]]:
    """Score each method on what comes after the part that is learned from."""
    moments = np.unique(asked.asked_s)
    learned = asked.asked_s < moments[int(len(moments) * LEARNED)]
    if asked.forward:
        yield from _forward(asked, learned)
    regression = "regression on the state" if asked.forward else "nimo"
    yield _score(regression, asked, learned, *_nimo(asked, learned))
    limits_only = asked.without("run_hours")
    if limits_only.names != asked.names:
        yield _score(
            "nimo, core-hours by limits only", asked, learned, *_nimo(limits_only, learned)
        )
    yield _score("partition median", asked, learned, _medians(asked, learned))
    if asked.profile_s is not None:
        profile = np.where(np.isnan(asked.profile_s), 0.0, asked.profile_s)
        yield _score("profile of the limits", asked, learned, asked.log(profile)[~learned])
    yield _score("gradient boosting", asked, learned, _boosted(asked, learned))


def _nimo(asked: Asked, learned: NDArray[np.bool_]) -> tuple[Floats, tuple[Floats, Floats]]:
    model = QueueWaitModel(estimate=asked.estimate, allowance_s=asked.allowance_s)
    fit: QueueWaitFit = model.fit(
        asked.names, asked.rows[learned], asked.waits_s[learned], asked.asked_s[learned]
    )
    low, median, high = asked.log(fit.predict(asked.rows[~learned])).T
    return median, (low, high)


def _forward(asked: Asked, learned: NDArray[np.bool_]) -> Iterator[dict[str, Any]]:
    """Score the queue run forward, and the profile of the limits for the same jobs."""
    of = [one for one in asked.forward if not learned[one.job]]
    jobs = np.array([one.job for one in of])
    some = replace(asked, waits_s=asked.waits_s[jobs], forward=())
    every = np.zeros(len(jobs), dtype=bool)
    median = some.log(np.array([one.estimate.quantile(0.5) for one in of]))
    low, high = some.log(np.array([one.estimate.interval_s for one in of])).T
    row = _score("nimo", some, every, median, (low, high))
    if asked.run_s is not None:
        ends = some.waits_s + asked.run_s[jobs]
        sure = np.array([one.sure_s for one in of])
        predicted = ~np.isnan(sure)
        row["predicted"] = int(predicted.sum())
        row["95 % sure made"] = 100.0 * float(np.mean((ends <= sure)[predicted]))
    yield row
    if asked.profile_s is not None:
        profile = np.nan_to_num(asked.profile_s[jobs])
        yield _score("profile of the limits, same jobs", some, every, asked.log(profile))


def _medians(asked: Asked, learned: NDArray[np.bool_]) -> Floats:
    groups, logs = np.array(asked.groups), asked.logs
    whole = float(np.median(logs[learned]))
    by_group = {
        one: float(np.median(logs[learned & (groups == one)])) for one in set(groups[learned])
    }
    return np.array([by_group.get(one, whole) for one in groups[~learned]])


def _boosted(asked: Asked, learned: NDArray[np.bool_]) -> Floats:
    from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415 - heavy

    model = HistGradientBoostingRegressor(random_state=0)
    model.fit(asked.rows[learned], asked.logs[learned])
    predicted: Floats = model.predict(asked.rows[~learned])
    return predicted


def _score(
    method: str,
    asked: Asked,
    learned: NDArray[np.bool_],
    predicted: Floats,
    interval: tuple[Floats, Floats] | None = None,
) -> dict[str, Any]:
    actual = asked.logs[~learned]
    errors, waited = np.abs(predicted - actual), asked.waits_s[~learned] > ALLOWANCE_S
    inside = inside_waits = None
    if interval is not None:
        held = (interval[0] <= actual) & (actual <= interval[1])
        waits = predicted > np.log10(asked.allowance_s + ALLOWANCE_S)
        inside = 100.0 * float(np.mean(held))
        inside_waits = 100.0 * float(np.mean(held[waits])) if waits.any() else None
    return {
        "method": method,
        "asked": len(actual),
        "median abs log10": float(np.median(errors)),
        "median, waited": float(np.median(errors[waited])) if waited.any() else None,
        "mse log10": float(np.mean(errors**2)),
        "inside 90 %": inside,
        "inside, expected to wait": inside_waits,
    }


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() if text else nan


def _number(text: str) -> float:
    return float(text) if text else nan


def main() -> None:
    """Measure, print, write."""
    args = _bench.options(
        __doc__ or "", data="a table of pending jobs, or a log (.swf)"
    ).parse_args()
    if args.data is None:
        asked = generated(20 if args.quick else 60, 100 if args.quick else 500)
    elif ".swf" in args.data.suffixes:
        asked = replayed(args.data, 3_000 if args.quick else 30_000)
    else:
        with opened(args.data) as text:
            asked = polled(_head(text, 20_000) if args.quick else text)
    rows = list(methods(asked))
    _bench.table(rows, title=f"Waits of {len(asked.waits_s)} jobs")
    _bench.write(args.json, waits=rows)


def _head(text: TextIO, lines: int) -> TextIO:
    """Every so many lines of a text, so that all days stay."""
    first, *rest = text.readlines()
    return io.StringIO(first + "".join(rest[:: max(len(rest) // lines, 1)]))


if __name__ == "__main__":
    main()
