"""Metrics for Prometheus: nimod's own counts, the store, how near predictions came.

Names follow Prometheus' conventions (base units, ``_total`` for counters); no user, application or
job is ever a label, so that there are as many series as there are modes and reasons.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, starmap
from math import inf
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry, core
from prometheus_client.registry import Collector

from sacct_ingest.errors import NimoError
from sacct_ingest.ingest.windows import reached
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import DecisionSelection, Store
from sacct_ingest.store.ingests import REFITTED
from slurm_plugin.evaluation.outcomes import OutcomeReport, OutcomeTally
from slurm_plugin.protocol.status_messages import Status

_DAY_S = 86_400.0
_ROWS: tuple[tuple[str, str] | tuple[str, str, tuple[str, ...]], ...] = (
    ("nimo_up", "Whether nimod answers"),
    ("nimo_build_info", "1, with nimod's release", ("release",)),
    ("nimo_start_time_seconds", "Start time of nimod, since the epoch"),
    ("nimo_tables", "Prediction tables in memory"),
    ("nimo_tables_loaded_timestamp_seconds", "Time at which the tables were loaded"),
    ("nimo_snapshot_age_seconds", "Age of nimod's view of the cluster"),
    ("nimo_requests_total", "Requests by result", ("result",)),
    (
        "nimo_refusals_total",
        "Limits of what each may use that were reached: see the table of threats",
        ("principal", "resource"),
    ),
    ("nimo_decisions_total", "Decisions on submissions", ("mode", "action", "reason", "applied")),
    ("nimo_answer_seconds", "Time in which submissions were answered"),
    ("nimo_decisions_pending", "Decisions not written to the store yet"),
    ("nimo_store_up", "Whether the store can be read"),
    ("nimo_store_size_bytes", "Size of the store's file (SQLite)"),
    ("nimo_ingest_timestamp_seconds", "Time up to which the accounting was read", ("source",)),
    ("nimo_fit_timestamp_seconds", "Time at which the newest table was fitted"),
    ("nimo_applications", "Applications in the store", ("verdict",)),
    ("nimo_applications_switched_off", "Applications switched off after predictions that missed"),
    ("nimo_compared_runs", "Completed runs of the last days with a prediction"),
    ("nimo_prediction_error_ratio", "Mean of |actual - predicted| / actual of these runs"),
    ("nimo_prediction_bias_ratio", "Median of actual over predicted of these runs"),
    ("nimo_interval_coverage_ratio", "Share of these runs inside their interval", ("nominal",)),
    ("nimo_deadline_jobs", "Jobs of the last days with a deadline", ("outcome",)),
    (
        "nimo_saved_seconds",
        "Time that other counts saved (jobs: changed), or would have saved (jobs: observed)",
        ("jobs", "of"),
    ),
)
_CACHED_S = 60.0  #: between looks at the store, however often Prometheus asks


class MetricDescription(NamedTuple):
    """One metric: its name, what it says, its labels, what kind it is."""

    name: str
    text: str
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What Prometheus calls it."""
        if self.name.endswith("_total"):
            return "counter"
        return "histogram" if self.name == "nimo_answer_seconds" else "gauge"


METRICS = tuple(starmap(MetricDescription, _ROWS))
_BY_NAME = {one.name: one for one in METRICS}
#: A value, and the values of the labels.
Sample = tuple[float | None, tuple[str, ...]]


def registry(
    status: Callable[[], Status], store: Callable[[], Store], *, days: float, file: Path | None
) -> CollectorRegistry:
    """Make what `prometheus_client` exports.

    status: asks nimod; raises NimoError.
    store: opens the store; raises NimoError.
    days: how far back decisions count for the accuracy.
    file: of an SQLite store.
    """
    made = CollectorRegistry()
    made.register(_Collector(lambda: of_nimod(status)))
    made.register(_Collector(lambda: of_store(store, days=days, file=file), _CACHED_S))
    return made


def of_nimod(status: Callable[[], Status]) -> Iterator[core.Metric]:
    """Metrics of a running nimod; of one that does not answer only that."""
    try:
        answered = status()
    except NimoError:
        yield _family("nimo_up", [(0, ())])
        return
    yield _family("nimo_up", [(1, ())])
    yield _family("nimo_build_info", [(1, (answered.release,))])
    yield _family("nimo_start_time_seconds", [(answered.counts.began_s, ())])
    yield _family("nimo_tables", [(answered.identities, ())])
    yield _family("nimo_tables_loaded_timestamp_seconds", [(answered.loaded_s, ())])
    yield _family("nimo_snapshot_age_seconds", [(answered.snapshot_age_s, ())])
    results = [(answered.answered, ("answered",)), (answered.failed, ("failed",))]
    yield _family("nimo_requests_total", results)
    refused = ((one.count, (one.principal, one.resource)) for one in answered.refused)
    yield _family("nimo_refusals_total", refused)
    decided = (
        (one.count, (one.mode, one.action, one.reason, str(one.applied).lower()))
        for one in answered.counts.decisions
    )
    yield _family("nimo_decisions_total", decided)
    declared = _BY_NAME["nimo_answer_seconds"]
    ends = [*(f"{bound:g}" for bound in answered.counts.bounds_s), "+Inf"]
    totals = accumulate(answered.counts.bins or [0])
    made = core.HistogramMetricFamily(declared.name, declared.text)
    made.add_metric([], list(zip(ends, totals, strict=True)), answered.counts.sum_s)
    yield made
    yield _family("nimo_decisions_pending", [(answered.decisions_pending, ())])


def of_store(
    store: Callable[[], Store], *, days: float, file: Path | None
) -> Iterator[core.Metric]:
    """Metrics of the store, and of the outcomes in it; of one that cannot be read only that."""
    try:
        with store() as opened:
            yield from _stored(opened, file)
            tally = OutcomeTally(confidence=0.9)
            since_s = time.time() - days * _DAY_S
            for pair in opened.decisions.with_outcomes(DecisionSelection(since_s=since_s)):
                tally.add(*pair)
            yield from _outcomes(tally.report())
    except NimoError:
        yield _family("nimo_store_up", [(0, ())])
    else:
        yield _family("nimo_store_up", [(1, ())])


def _stored(store: Store, file: Path | None) -> Iterator[core.Metric]:
    verdicts = Counter[str]()
    for (_, verdict, _), number in store.fits.counts().items():
        verdicts[verdict] += number
    size = file.stat().st_size if file and file.exists() else None
    yield _family("nimo_store_size_bytes", [(size, ())])
    marks = ((at_s, (source,)) for source, at_s in reached(store.watermarks.all()).items())
    yield _family("nimo_ingest_timestamp_seconds", marks)
    yield _family("nimo_fit_timestamp_seconds", [(store.watermarks.get(REFITTED), ())])
    yield _family("nimo_applications", ((number, (name,)) for name, number in verdicts.items()))
    yield _family("nimo_applications_switched_off", [(len(store.standings.off()), ())])


def _outcomes(report: OutcomeReport) -> Iterator[core.Metric]:
    accuracy = report.accuracy
    yield _family("nimo_compared_runs", [(accuracy.runs if accuracy else 0, ())])
    if accuracy:
        yield _family("nimo_prediction_error_ratio", [(accuracy.mape, ())])
        yield _family("nimo_prediction_bias_ratio", [(accuracy.bias, ())])
        shares = ((one.inside, (f"{one.nominal:g}",)) for one in accuracy.coverage)
        yield _family("nimo_interval_coverage_ratio", shares)
    due = report.deadlines
    names = ("met", "missed", "refused", "open")
    yield _family("nimo_deadline_jobs", [(getattr(due, name), (name,)) for name in names])
    yield _family("nimo_saved_seconds", _saved(report))


def _saved(report: OutcomeReport) -> Iterator[Sample]:
    """Node time and run time, over all jobs on another count of nodes."""
    for jobs, effects, sign in (("changed", report.applied, 1), ("observed", report.observed, -1)):
        own = [one for one in effects if one.unit is Unit.NODES]
        nodes = sum(sign * (one.other_node_hours.value - one.node_hours) for one in own)
        runs = sum(sign * (one.other_run_hours.value - one.run_hours) for one in own)
        yield 3600 * nodes, (jobs, "node")
        yield 3600 * runs, (jobs, "run")


def _family(name: str, samples: Iterable[Sample]) -> core.Metric:
    declared = _BY_NAME[name]
    make: type[core.CounterMetricFamily | core.GaugeMetricFamily] = core.GaugeMetricFamily
    if declared.kind == "counter":
        make = core.CounterMetricFamily
    made = make(name, declared.text, labels=declared.labels)
    for value, labels in samples:
        if value is not None:
            made.add_metric(labels, value)
    return made


class _Collector(Collector):
    """What `prometheus_client` asks at each scrape; made anew after a while only."""

    def __init__(self, collect: Callable[[], Iterable[core.Metric]], keep_s: float = 0.0) -> None:
        self._collect = collect
        self._keep_s = keep_s
        self._made_s = -inf
        self._made = list[core.Metric]()

    def collect(self) -> Iterable[core.Metric]:
        now_s = time.monotonic()
        if now_s - self._made_s > self._keep_s:
            self._made_s, self._made = now_s, list(self._collect())
        return self._made

    def describe(self) -> Iterable[core.Metric]:
        # Otherwise registering would already ask.
        return ()
