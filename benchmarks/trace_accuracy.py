"""How well run time is predicted at submission on batch logs, where no scaling curve is known.

Causal: a prediction may use only jobs that had ended when the job was submitted.  Reads the
Standard Workload Format (``.swf``), what ``sacct -P`` prints with a header, and without one in the
order of XDMoD's shredder; compressed or not.  Without ``--data`` the log is generated, see
``_generated.py``.

Accuracy is min(p, a) / max(p, a) of predicted and actual run time.  ``missed`` is the share of jobs
that ran more than a tenth longer than the calibrated quantile, beside how much longer than the run
that quantile typically is.
"""

import heapq
import time
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from math import exp, log
from pathlib import Path
from typing import Any, Protocol

import _bench
import _generated
import numpy as np

from predictor.models.history import History
from predictor.similar import Calibration, Request, Sample, SimilarSettings
from predictor.types import Run
from sacct_ingest.errors import FormatError
from sacct_ingest.sources.base import Tally
from sacct_ingest.sources.opened import decoded, open_file
from sacct_ingest.sources.saved import SavedSacct

LEVELS = (0.9, 0.95, 0.99)
#: Jobs up to so many times longer than a quantile count as held.
SLACK = 1.1
Key = tuple[str, ...]
XDMOD = (
    *("JobID", "JobIDRaw", "Cluster", "Partition", "QOS", "Account", "Group", "GID", "User", "UID"),
    *("Submit", "Eligible", "Start", "End", "Elapsed", "ExitCode", "State", "NNodes", "NCPUS"),
    *("ReqCPUS", "ReqMem", "ReqTRES", "AllocTRES", "Timelimit", "NodeList", "JobName"),
)


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a log; times in seconds."""

    submit_s: float
    end_s: float
    elapsed_s: float
    user: str
    name: str
    asked: Request
    number: int = 0  #: place in the log: two jobs may be alike in everything else


class Predictor(Protocol):
    """Predicts at submission, learns when jobs end."""

    def predict(self, job: Job) -> float:
        """Run time in seconds; ``elapsed_s`` and ``end_s`` of the job are not for its eyes."""

    def finish(self, job: Job) -> None:
        """Learn from a job that ended."""


class Requested:
    """The user's own limit."""

    def predict(self, job: Job) -> float:
        """See :class:`Predictor`."""
        return job.asked.limit_s

    def finish(self, job: Job) -> None:
        """See :class:`Predictor`."""


class LastTwo:
    """Mean of the user's last two jobs (Tsafrir, Etsion and Feitelson, TPDS 18, 2007)."""

    def __init__(self) -> None:
        self._last: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=2))

    def predict(self, job: Job) -> float:
        """See :class:`Predictor`."""
        last = self._last[job.user]
        return min(sum(last) / len(last), job.asked.limit_s) if last else job.asked.limit_s

    def finish(self, job: Job) -> None:
        """See :class:`Predictor`."""
        self._last[job.user].append(job.elapsed_s)


class LastAlike:
    """Last run of the most specific key that has one, else of the user's last two."""

    def __init__(self) -> None:
        self._last: dict[tuple[Any, ...], float] = {}
        self._fallback = LastTwo()

    def predict(self, job: Job) -> float:
        """See :class:`Predictor`."""
        for key in self._keys(job):
            if key in self._last:
                return min(self._last[key], job.asked.limit_s)
        return self._fallback.predict(job)

    def finish(self, job: Job) -> None:
        """See :class:`Predictor`."""
        self._last.update(dict.fromkeys(self._keys(job), job.elapsed_s))
        self._fallback.finish(job)

    @staticmethod
    def _keys(job: Job) -> list[tuple[Any, ...]]:
        user, asked = job.user, job.asked
        named = [(user, job.name, asked.nodes), (user, job.name)] if job.name else []
        return [*named, (user, "", asked.nodes, asked.limit_s), (user, "", asked.nodes)]


@dataclass
class Nimo:
    """What nimod answers from tables of earlier runs: of user and job name, else of the user.

    As if ``nimo fit`` ran after every job.  Quantiles are calibrated for each kind of table.
    """

    runs: dict[Key, deque[Run]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=SimilarSettings().window))
    )
    calibrations: dict[int, tuple[Calibration, ...]] = field(
        default_factory=lambda: {kind: tuple(map(Calibration, LEVELS)) for kind in (1, 2)}
    )
    #: of jobs that run: kind of table, raw quantiles, and the shifts that they were promised with
    promised: dict[int, tuple[int, list[float], list[float | None]]] = field(default_factory=dict)
    latest: tuple[int, list[tuple[Sample, float]]] | None = None  #: for the job predicted last

    def predict(self, job: Job) -> float:
        """See :class:`Predictor`."""
        self.latest = self._find(job)
        if self.latest is None:
            return job.asked.limit_s
        return min(_mixed(self.latest[1], Sample.typical), job.asked.limit_s)

    def quantiles(self, job: Job) -> list[float]:
        """Calibrated quantiles at ``LEVELS`` of the job predicted last, in seconds."""
        if self.latest is None:
            return [job.asked.limit_s] * len(LEVELS)
        kind, found = self.latest
        raw = [_mixed(found, partial(Sample.quantile, share=level)) for level in LEVELS]
        shifts = [calibration.shift for calibration in self.calibrations[kind]]
        self.promised[job.number] = (kind, raw, shifts)
        limits = (
            job.asked.limit_s if shift is None else min(one * exp(shift), job.asked.limit_s)
            for one, shift in zip(raw, shifts, strict=True)
        )
        return list(accumulate(limits, max))

    def finish(self, job: Job) -> None:
        """See :class:`Predictor`."""
        run = Run(job.asked.nodes, job.elapsed_s, job.end_s, limit_s=job.asked.limit_s)
        for key in self._keys(job):
            self.runs[key].append(run)
        if job.number in self.promised:
            kind, raw, shifts = self.promised.pop(job.number)
            for calibration, one, shift in zip(self.calibrations[kind], raw, shifts, strict=True):
                # Up to a tenth longer than predicted is no miss.
                calibration.update(log(job.elapsed_s / SLACK / one), shift)

    def _find(self, job: Job) -> tuple[int, list[tuple[Sample, float]]] | None:
        """Kind of the first table that covers the job, and its entries around it with weights."""
        for key in self._keys(job):
            history = History(self.runs[key])
            seen, nodes = history.nodes, job.asked.nodes
            if len(history.runs) < 2 or not seen[0] <= nodes <= seen[-1]:
                continue
            high = bisect_left(seen, nodes)
            ends = [seen[high]] if seen[high] == nodes else [seen[high - 1], seen[high]]
            last = {run.nodes: run.limit_s for run in history.runs}
            told = job.asked.limit_s in history.limits
            share = log(nodes / ends[0]) / log(ends[1] / ends[0]) if len(ends) > 1 else 0.0
            return len(key), [
                (history.sample(n, job.asked.limit_s if told else last[n]), weight)
                for n, weight in zip(ends, (1 - share, share), strict=False)
            ]
        return None

    @staticmethod
    def _keys(job: Job) -> list[Key]:
        return [(job.user, job.name), (job.user,)] if job.name else [(job.user,)]


def _mixed(found: Sequence[tuple[Sample, float]], value: Callable[[Sample], float]) -> float:
    return exp(sum(weight * log(value(one)) for one, weight in found))


def load(path: Path) -> list[Job]:
    """Jobs of a log that ran and had a limit, in the order of their submission."""
    jobs = _swf(path) if ".swf" in path.suffixes else _sacct(path)
    return in_order(job for job in jobs if job.elapsed_s > 0 and job.asked.limit_s > 0)


def replay(jobs: Sequence[Job], predictor: Predictor) -> tuple[list[float], list[list[float]]]:
    """Predictions, and quantiles where the predictor has them, in the order of ``jobs``."""
    running: list[tuple[float, int]] = []
    predictions, quantiles = [], []
    for number, job in enumerate(jobs):
        while running and running[0][0] <= job.submit_s:
            predictor.finish(jobs[heapq.heappop(running)[1]])
        predictions.append(max(predictor.predict(job), 1.0))
        if isinstance(predictor, Nimo):
            quantiles.append(predictor.quantiles(job))
        heapq.heappush(running, (job.end_s, number))
    return predictions, quantiles


def accuracy(name: str, jobs: Sequence[Job], predictor: Predictor) -> tuple[dict[str, Any], Any]:
    """One row of the table, and the quantiles."""
    start = time.perf_counter()
    predicted, quantiles = replay(jobs, predictor)
    micros = 1e6 * (time.perf_counter() - start) / len(jobs)
    p, a = np.array(predicted), np.array([job.elapsed_s for job in jobs])
    ratios = np.minimum(p, a) / np.maximum(p, a)
    row = {
        "method": name,
        "mean accuracy": float(ratios.mean()),
        "median accuracy": float(np.median(ratios)),
        "mean error h": float(np.abs(p - a).mean()) / 3600,
        "under-predicted %": 100 * float(np.mean(p < a)),
        "µs a job": micros,
    }
    return row, np.array(quantiles)


def promises(jobs: Sequence[Job], quantiles: Any) -> list[dict[str, Any]]:
    """How the calibrated quantiles kept their promise."""
    actual = np.array([job.elapsed_s for job in jobs])
    return [
        {
            "quantile %": 100 * level,
            "missed %": 100 * float(np.mean(actual > SLACK * quantiles[:, place])),
            "over the run": float(np.median(quantiles[:, place] / actual)),
        }
        for place, level in enumerate(LEVELS)
    ]


def main() -> None:
    """Score all methods on one log."""
    parser = _bench.options(str(__doc__), data="batch log: SWF or sacct text")
    arguments = parser.parse_args()
    try:
        jobs = load(arguments.data) if arguments.data else _made(20_000)
    except FormatError as error:
        parser.error(str(error))
    jobs = jobs[: 5000 if arguments.quick else None]
    log = arguments.data.name if arguments.data else "generated log"
    if not jobs:
        parser.error(f"{arguments.data}: no job with a run time and a limit")
    methods: dict[str, Predictor] = {
        "requested": Requested(),
        "last two": LastTwo(),
        "last alike": LastAlike(),
        "nimo": Nimo(),
    }
    scored = {name: accuracy(name, jobs, method) for name, method in methods.items()}
    rows = [row for row, _ in scored.values()]
    kept = promises(jobs, scored["nimo"][1])
    _bench.table(rows, title=f"{log}: {len(jobs)} jobs")
    _bench.table(kept, title="Calibrated quantiles: jobs that ran more than a tenth longer")
    _bench.write(arguments.json, accuracy=rows, quantiles=kept)


def in_order(jobs: Iterable[Job]) -> list[Job]:
    """Jobs in the order of their submission, numbered."""
    ordered = sorted(jobs, key=lambda job: job.submit_s)
    return [replace(job, number=number) for number, job in enumerate(ordered)]


def _made(count: int) -> list[Job]:
    return in_order(
        Job(
            one.submit_s,
            one.end_s,
            one.elapsed_s,
            one.user,
            one.name,
            Request(one.nodes, one.limit_s),
        )
        for one in _generated.jobs(count)
    )


def _swf(path: Path) -> Iterator[Job]:
    """Jobs of a log in the Standard Workload Format; node counts are those asked for."""
    for run in SavedSacct(path, cluster="any").read(0, 2**40, Tally()):
        nodes = run.req_nodes or run.nodes
        if nodes < 1 or run.start_s is None:
            continue
        asked = Request(nodes, float(-1 if run.limit_s is None else run.limit_s))
        end = float(run.start_s) + run.elapsed_s
        yield Job(float(run.submit_s), end, run.elapsed_s, run.user, run.name, asked)


def _sacct(path: Path) -> Iterator[Job]:
    with open_file(path) as binary:
        header = decoded(binary).readline()
    fields = () if "JobID" in header else XDMOD
    for run in SavedSacct(path, cluster="any", fields=fields).read(0, 2**40, Tally()):
        if run.start_s is None or run.end_s is None or run.limit_s is None:
            continue
        asked = Request(run.nodes, float(run.limit_s))
        elapsed = float(run.end_s - run.start_s)
        yield Job(float(run.submit_s), float(run.end_s), elapsed, run.user, run.name, asked)


if __name__ == "__main__":
    main()
