"""Waits from the state of the queue: the exported trees, the intervals, what is refused."""

import numpy as np
import pytest

from predictor.waits.regression import QueueWaitFit, QueueWaitModel
from predictor.waits.workload import decode, encode
from sacct_ingest.errors import NoHistory

sklearn = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")

NAMES = ["ahead", "cores", "age"]
SMALL = QueueWaitModel(trees=30, leaves=8)


def queue(jobs, seed, *, drift=0.0):
    """Waits that grow with the work ahead; on later days by a factor that drifts."""
    rng = np.random.default_rng(seed)
    asked_s = np.sort(rng.uniform(0, 60 * 86400, jobs))
    ahead, cores = rng.lognormal(8, 1.5, jobs), rng.integers(100, 1000, jobs)
    waits_s = 3600 * ahead / cores * rng.lognormal(0, 0.4, jobs) * np.exp(drift * asked_s / 86400)
    rows = np.column_stack([ahead, cores, rng.uniform(0, 100, jobs)])
    rows[rng.random(jobs) < 0.05, 1] = np.nan
    return rows, waits_s, asked_s


def inside(fit, rows, waits_s):
    result = fit.predict(rows)
    return np.mean((result[:, 0] <= waits_s) & (waits_s <= result[:, 2]))


def test_exported_trees_give_what_scikit_learn_gives():
    rows, waits_s, asked_s = queue(600, 1)
    fit = SMALL.fit(NAMES, rows, waits_s, asked_s)
    peer = sklearn.HistGradientBoostingRegressor(
        loss="absolute_error",
        max_iter=30,
        max_leaf_nodes=8,
        learning_rate=SMALL.learning_rate,
        min_samples_leaf=SMALL.leaf_jobs,
        early_stopping=False,
        random_state=0,
    ).fit(rows, np.log10(waits_s))
    rows[::7, 0] = np.nan
    ours = fit.predict(rows)[:, 1]
    assert np.log10(ours) == pytest.approx(peer.predict(rows), abs=1e-9)


def test_a_fit_goes_through_json():
    rows, waits_s, asked_s = queue(400, 2)
    fit = SMALL.fit(NAMES, rows, waits_s, asked_s)
    assert decode(encode(fit), QueueWaitFit) == fit
    with pytest.raises(ValueError, match="run 'nimo fit'"):
        decode('{"level": 3}', QueueWaitFit)


@pytest.mark.parametrize("drift", [0.0, 0.01])
def test_intervals_hold_on_later_days(drift):
    shares = []
    for seed in range(5):
        rows, waits_s, asked_s = queue(1500, seed, drift=drift)
        fit = SMALL.fit(NAMES, rows[:1000], waits_s[:1000], asked_s[:1000])
        shares.append(inside(fit, rows[1000:], waits_s[1000:]))
    assert 0.84 <= np.mean(shares) <= 0.97


def test_an_estimate_that_is_right_stays_and_one_that_is_off_is_corrected():
    rows, waits_s, asked_s = queue(1200, 3)
    for factor in (1.0, 8.0):
        table = np.column_stack([rows, factor * waits_s])
        model = QueueWaitModel(trees=30, leaves=8, estimate="estimate", allowance_s=60.0)
        fit = model.fit([*NAMES, "estimate"], table[:800], waits_s[:800], asked_s[:800])
        result = fit.predict(table[800:])[:, 1]
        off = np.abs(np.log10((result + 60) / (waits_s[800:] + 60)))
        assert np.median(off) < 0.05


def test_an_interval_holds_its_median_and_is_never_below_zero():
    rows, waits_s, asked_s = queue(500, 4)
    fit = QueueWaitModel(trees=20, leaves=8, allowance_s=60.0).fit(NAMES, rows, waits_s, asked_s)
    result = fit.predict(rows)
    assert np.all(result[:, 0] >= 0)
    assert np.all((result[:, 0] <= result[:, 1]) & (result[:, 1] <= result[:, 2]))


def test_blocks_of_the_past_are_predicted_from_what_was_over_by_then():
    rows, waits_s, asked_s = queue(1600, 6)
    # A wait that is over only at the end of time is in no block's past.
    waits_s[:40] = 1e9
    places = []
    for block, result in SMALL.validated(NAMES, rows, waits_s, asked_s):
        places += block.tolist()
        usual = np.log10(result[:, 1] / np.median(waits_s))
        assert np.abs(usual).max() < 3
    assert sorted(places) == places
    assert places[-1] == 1599 and places[0] >= 200


def test_what_cannot_be_learned_from_is_refused():
    rows, waits_s, asked_s = queue(300, 5)
    with pytest.raises(NoHistory, match="too few"):
        SMALL.fit(NAMES, rows[:50], waits_s[:50], asked_s[:50])
    with pytest.raises(ValueError, match="do not go with"):
        SMALL.fit(NAMES[:2], rows, waits_s, asked_s)
    with pytest.raises(ValueError, match="below zero"):
        SMALL.fit(NAMES, rows, -waits_s, asked_s)
    with pytest.raises(ValueError, match="3 features are needed"):
        SMALL.fit(NAMES, rows, waits_s, asked_s).predict([[1.0, 2.0]])
