"""What the public functions refuse, each with one clear error.

The table has a row for each function: a call that works, then values that take the place of its
first argument, and what the error says.
"""

from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from benchmarks._error_measures import mape, mse, nmae, order_preserving_degree, percentage_errors
from benchmarks._parametric import Amdahl, Usl
from predictor import Curve, Point, Run
from predictor.curves.interval import Prior, around, measure
from predictor.curves.reliability import ReliabilitySettings
from predictor.forecasts.transfer_time import transfer_time
from predictor.level.calibration import BacktestSettings, Calibrator
from predictor.level.record import PooledErrors, Record
from predictor.level.similar_runs import PastRun, RunRequest, typical
from predictor.models import base
from predictor.models.adept import Adept
from predictor.models.adept.anomalies import diagnose
from predictor.models.adept.envelope import Bounds, envelope
from predictor.models.adept.fit_checks import JudgementSettings
from predictor.models.adept.fluctuation import AnomalySettings
from predictor.models.adept.search import SearchSettings, search
from predictor.models.averaged.model import Averaged
from predictor.models.downey import speedup
from predictor.models.selection import fit_curve
from predictor.refit import RefitInput, fits_of
from predictor.tables.of_node_types import type_tables
from predictor.tables.settings import TableSettings
from predictor.waits.calibration import spread_of
from predictor.waits.easy import Engine, JobShape
from predictor.waits.estimate import WaitEstimate, certain
from predictor.waits.regression import QueueWaitModel, ratios
from tests.predictor.example_curves import curve_of, downey, drawn

NODES = [1, 2, 4, 8, 16]
CURVE = drawn(NODES, downey(24, 0.5))
NOT_POSITIVE = (nan, inf, -inf, 0.0, -1.0)
NOT_A_SHARE = (nan, inf, -inf, 0.0, 1.0, 1.5, -1.0)
NOT_NODES = ([], [0], [-4], [nan], [inf], [2.5])
POSITIVE = "must be a finite number above 0"
COUNT = r"no node counts|a node count is a whole number of 1 or more"
SHARE = "must be above 0 and below 1"

FITS = [
    pytest.param(fit, id=name)
    for name, fit in [
        ("adept", Adept().fit(CURVE)),
        ("averaged", Averaged().fit(CURVE)),
        ("amdahl", Amdahl().fit(CURVE)),
        ("usl", Usl().fit(CURVE)),
        ("chosen", fit_curve(CURVE)),
    ]
]


@pytest.mark.parametrize("time_s", NOT_POSITIVE)
def test_a_point_has_a_time(time_s):
    with pytest.raises(ValueError, match=POSITIVE):
        Point(4, time_s)


@pytest.mark.parametrize("nodes", [0, -4, nan, inf, 2.5])
def test_a_point_has_a_node_count(nodes):
    with pytest.raises(ValueError, match=COUNT):
        Point(nodes, 10.0)


@pytest.mark.parametrize(("repeats", "spread"), [(0, 0.0), (1, nan), (1, -0.1), (1, inf)])
def test_a_point_has_repeats_and_a_spread(repeats, spread):
    with pytest.raises(ValueError, match="must be a finite number of"):
        Point(4, 10.0, repeats, spread)


@pytest.mark.parametrize("time_s", [nan, inf, -inf])
def test_a_run_has_a_time(time_s):
    with pytest.raises(ValueError, match="must be a finite number"):
        Run(4, time_s)
    with pytest.raises(ValueError, match="must be a finite number"):
        Run(4, 10.0, time_s)


@pytest.mark.parametrize(
    "nodes", [[1, 2, 2, 4], [8, 1, 4], [4, 4, 4, 4]], ids=["duplicate", "unsorted", "one"]
)
def test_node_counts_of_a_curve_rise(nodes):
    with pytest.raises(ValueError, match="they must rise, each given once"):
        curve_of(nodes, [100.0 / n for n in nodes])
    points = CURVE.points
    with pytest.raises(ValueError, match="they must rise, each given once"):
        Curve(points, censored=tuple(Point(n, 10.0) for n in nodes))


@pytest.mark.parametrize("resolution_s", [nan, inf, -1.0])
def test_the_resolution_of_a_curve_is_a_time(resolution_s):
    with pytest.raises(ValueError, match="resolution in seconds"):
        Curve(CURVE.points, resolution_s=resolution_s)


@pytest.mark.parametrize("name", base.names())
def test_an_empty_curve_is_too_few_points(name):
    with pytest.raises(base.TooFewPoints, match="0 node counts"):
        base.create(name).fit(Curve(()))
    with pytest.raises(base.TooFewPoints, match="0 node counts"):
        fit_curve(Curve(()))


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("nodes", NOT_NODES, ids=str)
def test_predictions_are_for_node_counts(fit, nodes):
    assert len(fit.predict([3, 40])) == 2
    with pytest.raises(ValueError, match=COUNT):
        fit.predict(nodes)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("level", NOT_A_SHARE)
def test_the_level_of_an_interval_is_a_share(fit, level):
    with pytest.raises(ValueError, match=SHARE):
        fit.predict([4], level)


TIMES = downey(24, 0.5)(np.array(NODES, float))
BAD_OBSERVATIONS = {
    "nan time": (NODES, [nan, *TIMES[1:]]),
    "inf time": (NODES, [inf, *TIMES[1:]]),
    "zero time": (NODES, [0.0, *TIMES[1:]]),
    "negative time": (NODES, [-1.0, *TIMES[1:]]),
    "zero nodes": ([0, *NODES[1:]], TIMES),
    "nan nodes": ([nan, *NODES[1:]], TIMES),
    "unsorted": (NODES[::-1], TIMES),
    "duplicate": ([1, 2, 2, 8, 16], TIMES),
    "empty": ([], []),
    "one": ([4], [10.0]),
    "of two lengths": (NODES, TIMES[1:]),
}


@pytest.mark.parametrize("bad", BAD_OBSERVATIONS.values(), ids=BAD_OBSERVATIONS.keys())
def test_observations_of_adept(bad):
    nodes, times = (np.array(one, float) for one in bad)
    good = np.array(NODES, float), TIMES
    ranges = envelope(*good, 0.05)
    calls: list[Callable[..., Any]] = [
        lambda n, t: envelope(n, t, 0.05),
        diagnose,
        lambda n, t: search(n, t, np.ones((1, len(n))), np.array([4.0]), ranges, SearchSettings()),
    ]
    for call in calls:
        call(*good)
        with pytest.raises(ValueError, match=r"must be|they must rise|two are needed"):
            call(nodes, times)


def test_an_empty_envelope_has_nothing_to_search():
    with pytest.raises(ValueError, match="no range pair"):
        search(np.array([1.0, 2.0]), np.array([2.0, 1.0]), np.ones((1, 2)), np.array([4.0]), (),
               SearchSettings())  # fmt: skip


@pytest.mark.parametrize("delta", NOT_A_SHARE)
def test_delta_is_a_share(delta):
    with pytest.raises(ValueError, match=SHARE):
        envelope(np.array(NODES, float), TIMES, delta)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SearchSettings(q=0.99),
        lambda: SearchSettings(q=nan),
        lambda: SearchSettings(v=0.0),
        lambda: SearchSettings(v=1.0),
        lambda: SearchSettings(steps=1),
        lambda: SearchSettings(local=2),
        lambda: SearchSettings(zooms=0),
        lambda: AnomalySettings(epsilon=0.0),
        lambda: AnomalySettings(epsilon=nan),
        lambda: AnomalySettings(theta=0.9),
        lambda: AnomalySettings(theta=10.1),
        lambda: Bounds(parallelism=0.5),
        lambda: Bounds(sigma=0.9),
        lambda: JudgementSettings(error=0.0),
        lambda: JudgementSettings(noise=nan),
        lambda: JudgementSettings(rival=0.9),
        lambda: JudgementSettings(apart=inf),
        lambda: JudgementSettings(reach=0),
        lambda: ReliabilitySettings(reliable_factor=0.9),
        lambda: ReliabilitySettings(reliable_factor=3.0),
        lambda: ReliabilitySettings(noise=0.0),
        lambda: Prior(inside=0.0),
        lambda: Prior(growth=nan),
        lambda: Prior(weight=-1.0),
        lambda: Adept(min_points=2),
    ],
)
def test_settings_out_of_range_are_refused(make):
    with pytest.raises(ValueError, match="must be"):
        make()


def test_settings_at_the_end_of_their_range_are_taken():
    assert SearchSettings(q=1.0, steps=2, local=3, zooms=1).local == 3
    assert [AnomalySettings(theta=theta).theta for theta in (1.0, 10.0)] == [1.0, 10.0]
    assert Bounds(parallelism=1.0, sigma=1.0).sigma == 1.0
    assert JudgementSettings(rival=1.0, apart=1.0, reach=1).reach == 1
    assert ReliabilitySettings(reliable_factor=1.0, doubtful_factor=1.0).doubtful_factor == 1.0


@pytest.mark.parametrize(
    ("nodes", "A", "sigma"),
    [
        ([0], 8, 0),
        ([4, 0], 8, 0),
        ([nan, 4], 8, 0),
        ([4], 0.5, 0),
        ([4], nan, 0),
        ([4], 8, -0.1),
        ([4], 8, inf),
    ],
)
def test_parameters_of_downeys_model(nodes, A, sigma):
    with pytest.raises(ValueError, match="must be"):
        speedup(nodes, A, sigma)


@pytest.mark.parametrize("shares", [[0.0], [1.0], [nan], [0.5, 1.2]])
def test_quantiles_are_of_shares(shares):
    with pytest.raises(ValueError, match=SHARE):
        fit_curve(CURVE).quantiles([4], shares)
    with pytest.raises(ValueError, match=COUNT):
        fit_curve(CURVE).quantiles([], [0.5])


@pytest.mark.parametrize("nodes", NOT_NODES, ids=str)
def test_the_next_observation_is_on_a_node_count(nodes):
    fit = Averaged().fit(CURVE)
    for call in ((nodes, [4]), ([4], nodes)):
        with pytest.raises(ValueError, match=COUNT):
            fit.most_informative(*call)


def test_intervals_without_a_fit():
    recorded = measure(CURVE, [])
    with pytest.raises(ValueError, match=COUNT):
        around([], np.array([]), recorded, 0.9)
    with pytest.raises(ValueError, match=SHARE):
        around([4], np.array([10.0]), recorded, 1.0)


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_measures_of_accuracy(value):
    for measured in (mape, nmae, mse, order_preserving_degree, percentage_errors):
        with pytest.raises(ValueError, match="must be a finite number"):
            measured([1.0, value], [1.0, 2.0])
        with pytest.raises(ValueError, match="must be a finite number"):
            measured([1.0, 2.0], [1.0, value])
        with pytest.raises(ValueError, match="predictions for"):
            measured([], [])


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_relative_errors_are_of_times_above_zero(value):
    for measured in (mape, percentage_errors):
        with pytest.raises(ValueError, match=POSITIVE):
            measured([1.0, 2.0], [1.0, value])
    with pytest.raises(ValueError, match=POSITIVE):
        nmae([1.0], [value])


@pytest.mark.parametrize("value", NOT_POSITIVE)
def test_past_runs(value):
    asked = RunRequest(4, inf)
    with pytest.raises(ValueError, match=POSITIVE):
        PastRun(asked, value)
    if value != inf:
        with pytest.raises(ValueError, match=POSITIVE):
            RunRequest(4, value)
    with pytest.raises(ValueError, match=COUNT):
        RunRequest(0, inf)
    with pytest.raises(ValueError, match="no earlier run"):
        typical(asked, [])


@pytest.mark.parametrize("level", NOT_A_SHARE)
def test_levels_of_records(level):
    with pytest.raises(ValueError, match=SHARE):
        Calibrator((), PooledErrors(), BacktestSettings(), same=True, level=level)


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_transfers_have_a_size_and_a_begin(value):
    with pytest.raises(ValueError, match="must be a finite number"):
        transfer_time([], value, "a", "b", now_s=0.0)
    with pytest.raises(ValueError, match="must be a finite number"):
        transfer_time([], 1e6, "a", "b", now_s=value)


NEVER = RefitInput(lambda _: [])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fits_of(NEVER, now_s=nan), "time of the refit is nan"),
        (lambda: fits_of(NEVER, now_s=0.0, workers=0), "workers is 0"),
        (lambda: type_tables({}, {}, TableSettings(), Record()), "no runs"),
        (lambda: BacktestSettings(fits=0), "number of runs or fits is 0"),
        (lambda: BacktestSettings(fade=nan), "weight of a record is nan"),
        (lambda: Engine(0), "0 nodes"),
        (lambda: Engine(4, closings=[(0.0, nan, 2)]), "begin and end of a closing is nan"),
        (lambda: Engine(4, closings=[(0.0, 5.0, 0)]), "0 nodes"),
        (lambda: Engine(4).run([3.0, 2.0], lambda *_: JobShape(1, 5, 5)), "do not fall"),
        (lambda: Engine(4).run([0.0], lambda *_: JobShape(5, 5, 5)), "wants 5 of 4 nodes"),
        (lambda: Engine(4).run([0.0], lambda *_: JobShape(1, 0, 5)), "a limit of 0"),
        (lambda: Engine(4).run([0.0], lambda *_: JobShape(1, 5, -1)), "a run time of -1"),
        (lambda: Engine(4).run([0.0], lambda *_: JobShape(1, 5, nan)), "a run time of nan"),
        (lambda: ratios(["a", "b"], [[1.0]]), "do not go with 2 names"),
        (lambda: QueueWaitModel(blocks=0), "size of the regression is 0"),
        (lambda: QueueWaitModel(leaves=1), "leaves of a tree is 1"),
        (lambda: WaitEstimate(()), "one at least is needed"),
        (lambda: WaitEstimate((1.0, nan)), "one at least is needed"),
        (lambda: WaitEstimate((1.0,)).quantile(1.1), "share of jobs is 1.1"),
        (lambda: certain(-1.0), "wait is -1.0"),
        (lambda: spread_of([]), "at least one is needed"),
        (lambda: spread_of([5.0, nan]), "at least one is needed"),
    ],
)
def test_refits_schedules_and_waits(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("estimate", [nan, inf, -1.0])
def test_what_a_wait_corrects_is_a_time(estimate):
    names, waits = ["jobs", "physics"], np.linspace(1, 900, 200)
    rows = np.column_stack([np.arange(200.0), waits])
    rows[7, 1] = estimate
    with pytest.raises(ValueError, match="physics is"):
        QueueWaitModel(estimate="physics").fit(names, rows, waits, np.arange(200.0))
    with pytest.raises(ValueError, match="no feature is called 'other'"):
        QueueWaitModel(estimate="other").fit(names, rows, waits, np.arange(200.0))


def test_jobs_submitted_together_are_run_in_their_order():
    schedule = Engine(1).run([2.0, 2.0], lambda *_: JobShape(1, 5, 5))
    assert schedule.start_s.tolist() == [2.0, 7.0]
