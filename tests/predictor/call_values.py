"""What the calls of `public_calls` are made of: runs, fits and tables that are small and good."""

from collections.abc import Iterator, Sequence
from dataclasses import replace as replace_data
from typing import Any

import numpy as np

from predictor import Verdict
from predictor.curves.reliability import measure
from predictor.forecasts.adrm import AdRM, Throughput
from predictor.forecasts.forecasters import Bank, Criterion, Forecast, forecast_series
from predictor.level.backtest import ExpertPanel, NextRun
from predictor.level.calibration import BacktestSettings
from predictor.level.record import PooledErrors, Record, RecordEntry
from predictor.models import base
from predictor.models.adept import Adept
from predictor.models.adept.envelope import envelope
from predictor.models.adept.search import SearchSettings, search
from predictor.models.averaged.model import Averaged
from predictor.models.selection import fit_curve
from predictor.node_types.product_form import Sums
from predictor.node_types.ratios import ObservedRatios, TypeEvidence
from predictor.occupancy.active.space import Space
from predictor.occupancy.application_model import OccupancyModel
from predictor.occupancy.functions import Shape, Term
from predictor.occupancy.regression import linear
from predictor.occupancy.samples import Occupancies
from predictor.occupancy.samples import Sample as OccupancySample
from predictor.refit import RefitInput
from predictor.sample import Sample
from predictor.table import table_of
from predictor.tables.run_facts import change_of
from predictor.waits.backtest import PastJob
from predictor.waits.easy import Engine, JobShape, ReplaySchedule
from predictor.waits.error_record import WaitClass
from predictor.waits.regression import Ensemble, QueueWaitFit
from predictor.waits.simulation import QueuedJob, QueueState, run_forward
from predictor.waits.workload import ArrivalDemand, RecentUse
from sacct_ingest.records import Probe, Resource
from sacct_ingest.runs.layout import Unit
from tests.predictor.example_curves import downey, drawn
from tests.predictor.rows import row as stored


def forecasts(values: Sequence[float], criterion: Criterion = Criterion.MAE) -> Iterator[Forecast]:
    """Forecast before each value but the first, made of those before it."""
    series = Bank(criterion)
    for place, value in enumerate(values):
        if place:
            yield series.forecast()
        series.update(value)


NODES = [1, 2, 4, 8, 16]
CURVE = drawn(NODES, downey(24, 0.5))
TIMES = [point.time_s for point in CURVE.points]
FIT = Averaged().fit(CURVE)
TABLE = table_of(FIT.predict(NODES), (Verdict.RELIABLE,) * 5, 0.9)
AMOUNTS = [{"cpu": c, "lat": n} for c, n in ((1.0, 9.0), (2.0, 9.0), (4.0, 9.0), (1.0, 3.0))]
SAMPLES = [
    OccupancySample(one, Occupancies(8 / one["cpu"], one["lat"], 1.0, 10.0)) for one in AMOUNTS
]
MEASURED = [one.measured for one in SAMPLES]
PROFILE = OccupancyModel().fit(SAMPLES)
SPACE = Space.full({"cpu": (1.0, 2.0), "lat": (1.0, 3.0)}, {"cpu": True, "lat": False})
SUMS = Sums.none(("cpu",)).add_all([({"cpu": c}, 5 / c + 1.0) for c in (1.0, 2.0, 3.0, 4.0)])
UNCERTAINTY = measure(CURVE, [0.01, 0.02, -0.01, 0.01, 0.02])
EVIDENCE = TypeEvidence(
    reference="old", figures={"old": {"cpu": 1.0}, "new": {"cpu": 2.0}}, utilisation=[(4, 0.9)]
)

ROWS = [Sample(n, t) for n, t in zip(NODES, TIMES, strict=True)]
N, T = np.array(NODES, float), np.array(TIMES)
ENVELOPE = envelope(N, T, 0.05)
OBSERVED = ObservedRatios((4, 8), (0.1, 0.2), (0.01, 0.01))
LINE = [Term("cpu", Shape.LINEAR)]

CHOICE, ADEPT = fit_curve(CURVE), Adept().fit(CURVE)
BEYOND = search(N, T, np.ones((1, 5)), np.array([32.0]), ENVELOPE, SearchSettings())
FUNCTION = linear(AMOUNTS, [8.0, 4.0, 2.0, 8.0], reference=AMOUNTS[0], terms=LINE)
JUDGED = NextRun(ExpertPanel(ROWS, same=True), Record(), PooledErrors(), BacktestSettings()).judge(
    4
)


def transferred(pairs: list[float], probe: float, window: int) -> Throughput:
    """Teach AdRM, and ask it."""
    model = AdRM(window)
    for value in pairs:
        model.update(value, 2 * value)
    return model.predict(probe)


ENTRY = RecordEntry(
    end_s=5.0, same=True, repeats=0, curve=True, size=2.0, chosen=0,
    errors=(0.1, None, None, None, 0.2, 0.1, 0.1), scale=0.2, fell=(0.5,), width=0.3,
    inside=True, informed=True,
)  # fmt: skip
WAITING = WaitClass(waits=True)
LEAF = Ensemble(0.5, [])
DEMAND = ArrivalDemand((60.0, 120.0), ((0.0, 2.0), (4.0, 8.0)))
WAITS_LEARNED = QueueWaitFit(
    features=["jobs", "physics"], level=0.9, jobs=200, median=LEAF, low=LEAF, high=LEAF, margin=0.2,
    estimate=1,
)  # fmt: skip
PAST_JOB = PastJob(
    user="u", partition="p", units=2, limit_s=60.0, submit_s=1.0, start_s=2.0, run_s=9.0
)
CHANGE = change_of([stored(n, t) for n, t in zip(NODES, TIMES, strict=True)], Unit.NODES)
NOTHING = RefitInput(lambda _: [])


def used(half_life_s: float, amount: float, at_s: float) -> dict[str, float]:
    """Count some use, and ask for the factors."""
    use = RecentUse(half_life_s)
    use.add("u", amount, at_s)
    return {**use.factors(at_s), "v": use.factor("v", at_s)}


def asked(fit: Any, nodes: list[int], level: float, shares: list[float]) -> object:
    """Ask a fit all that it answers."""
    return fit.predict(nodes, level), base.quantiles(getattr(fit, "fit", fit), nodes, shares)


def pairs_of(model: Any, probe: float, transfer: float) -> Throughput:
    """Teach a model of transfers one pair more than it needs, and ask it."""
    for _ in range(2):
        model.update(probe, transfer)
    answer: Throughput = model.predict(probe)
    return answer


def probed(value: float, at_s: float) -> object:
    """Forecast a series of two measurements."""
    first = Probe(resource=Resource.DISK_READ, source="a", at_s=1.0, value=value)
    return forecast_series([first, replace_data(first, at_s=at_s)])


def run_on(units: int, horizon_s: float, **job: float) -> object:
    """Run a queue forward with one job that runs and one that waits."""
    one = QueuedJob(**{"units": 2, "limit_s": 60.0} | job)
    state = QueueState(units=units, running=[one], waiting=[one])
    return run_forward(state, horizon_s=horizon_s, only=(2, 60.0)).grid.draws_s


def scheduled(nodes: int, submit_s: list[float], closed: int) -> ReplaySchedule:
    """Run jobs of one node beside a reservation."""
    engine = Engine(nodes, closings=[(3.0, 4.0, closed)])
    return engine.run(submit_s, lambda *_: JobShape(1, 9.0, 5.0))
