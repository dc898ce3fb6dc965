"""The distribution of the next run: sharp where runs are alike, and as wide as they turn out."""

import math
import random

import numpy as np
import pytest

from predictor.level.backtest import ExpertPanel, NextRun, around_of, replay
from predictor.level.calibration import BacktestSettings
from predictor.level.distribution import COMPONENTS, believed, calibrated, mixture, samples
from predictor.level.record import PooledErrors, Record
from predictor.sample import Sample

SETTINGS = BacktestSettings()


def history(times, count=200):
    rng, at_s, made = random.Random(1), 1e9, []
    for _ in range(count):
        elapsed = times(rng)
        made.append(Sample(2, elapsed, at_s + elapsed, submit_s=at_s, limit_s=7200))
        at_s += elapsed + 60
    return made


def around(spread, *times):
    return lambda rng: rng.choice(times) * rng.lognormvariate(0, spread)


HALF, THREE, STEADY = around(0.03, 600, 1020), around(0.1, 60, 600, 6000), around(0.03, 600)


def score(low, high, actual):
    return high - low + 20 * (max(low - actual, 0) + max(actual - high, 0))


@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("times", [HALF, THREE, STEADY])
def test_intervals_are_as_sharp_as_quantiles_of_the_last_runs(times, *, same):
    runs, own, empirical, inside, record = history(times), [], [], 0, Record()
    for number in range(80, len(runs), 5):
        past, actual = runs[:number], math.log(runs[number].elapsed_s)
        record = replay(past, record, PooledErrors(), SETTINGS, same=same)
        now = NextRun(ExpertPanel(past, same=same), record, PooledErrors(), SETTINGS)
        judged = now.judge(2, 7200)
        last = np.log([run.elapsed_s for run in past[-60:]])
        own.append(score(judged.low, judged.high, actual))
        empirical.append(score(*np.quantile(last, (0.05, 0.95)).tolist(), actual))
        inside += judged.low <= actual <= judged.high
    assert sum(own) <= 1.2 * sum(empirical)
    assert inside >= 0.8 * len(own)


def test_the_users_other_runs_count_where_they_said_more():
    """One run of an application says little, unless the record says that it does."""
    others = history(THREE, 60)
    new = Sample(2, 600.0, others[-1].end_s + 700, submit_s=others[-1].end_s + 100, limit_s=7200)
    broad = BacktestSettings(around=around_of(others))
    scores = (1.0,) * (COMPONENTS - 3) + (0.1, 0.1, 1.0)
    site = PooledErrors(scores={"same seen": scores})
    alone, with_them, believing = (
        NextRun(ExpertPanel([new], settings.around, same=True), Record(), one, settings).judge(
            2, 7200
        )
        for one, settings in ((PooledErrors(), SETTINGS), (PooledErrors(), broad), (site, broad))
    )
    assert believing.low < with_them.low < alone.low
    assert believing.high == pytest.approx(math.log(6000), abs=0.3)
    assert with_them.log_s == alone.log_s


def test_a_mixture_knows_each_kind_and_the_errors_of_the_record():
    logs = np.array([1.0, 2.0, 3.0])
    own = samples(logs, [logs == 3.0, logs > 0], runs=3)
    assert (own.weights[:, 2] > own.weights[:, 0]).all()
    mixed = mixture(own, np.array([5.0, 9.0]), np.array([1.0, 1.0]), (0.0, 6.0))
    assert mixed.logs.tolist() == [1.0, 2.0, 3.0, 5.0, 6.0]
    assert mixed.weights.sum(axis=1) == pytest.approx(np.ones(COMPONENTS))
    assert mixed.weights[-1].tolist() == [0, 0, 0, 0.5, 0.5]
    even = believed([], ())
    assert mixed.share_below(0.5, even) == 0.0 < mixed.share_below(3.0, even) < 1.0
    scores = mixed.scores(2.0)
    assert scores[-1] == max(scores)
    weights = believed([(scores, 1.0)] * 20, ())
    assert weights[-1] < 1 / COMPONENTS < weights.max()


def test_ends_are_means_with_quantiles_of_the_last_runs_alike():
    logs = np.array([5.0, *np.linspace(0.5, 1.5, 19)])
    given = samples(logs, [logs < 2, logs > 0], runs=20)
    assert given.averaged(-3.5, 8.5, 0.05) == (-1.5, 5.0)
    assert given.averaged(-3.5, 8.5, 0.025) == (-1.625, 5.125)
    few = samples(logs[-4:], [logs[-4:] > 0], runs=4)
    assert few.averaged(-3.5, 8.5, 0.05) == (-3.5, 8.5)
    other = logs + 9.0, [logs > 0]  # the user's other applications take longer
    own, instead = (samples(logs[-n:], [logs[-n:] > 0], n, other) for n in (5, 4))
    assert own.averaged(-3.5, 8.5, 0.05)[1] < 6.0 < 9.0 < instead.averaged(-3.5, 8.5, 0.05)[1]


def test_no_end_is_on_the_other_side_of_what_is_expected():
    others = history(STEADY, 60)
    few = [Sample(2, 6000.0 + i, 2e9, submit_s=1.9e9, limit_s=7200) for i in range(3)]
    panel = ExpertPanel(few, around_of(others), same=True)
    judged = NextRun(panel, Record(), PooledErrors(), SETTINGS).judge(2, 7200)
    assert judged.low < judged.log_s < judged.high


def test_quantiles_move_to_where_runs_fell():
    assert calibrated(0.05, [], ()) == (0.05, 0.95)
    high = [(0.9, 1.0), (0.94, 1.0)] * 20
    assert calibrated(0.05, high, ())[0] > 0.15
    narrow = [((i + 0.5) / 40 * 0.4 + 0.3, 1.0) for i in range(40)]
    low, high_share = calibrated(0.05, narrow, ())
    assert 0.05 < low <= 0.2 < 0.8 <= high_share < 0.95
