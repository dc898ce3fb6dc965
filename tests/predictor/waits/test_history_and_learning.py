"""What a refit learns of waits: a record to begin with, and a correction that has to earn it."""

import random
from statistics import median

import pytest

from predictor.waits.backtest import PastWait
from predictor.waits.correction import corrected_forward, correction_of
from predictor.waits.error_record import class_of
from predictor.waits.features import QueueLoad, Submitter
from predictor.waits.history import learn_waits, queue_past
from predictor.waits.simulation import LIMITS_S, QueuedJob, QueueState, run_forward
from predictor.waits.workload import QueuePast, decode, encode
from tests.slurm_plugin.reports.rows import run as run_row

pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")


def asked(count, actual_s):
    """Jobs that were expected to wait for ten minutes, in a queue that is more or less full."""
    rng, made = random.Random(4), []
    for number in range(count):
        share, used = 0.1, rng.randrange(1, 100)
        state = QueueState(units=100, running=[QueuedJob(units=used, limit_s=7_200.0)])
        at_s = 500.0 * number
        draws = tuple(sorted(600 * rng.lognormvariate(0, 0.1) for _ in range(5)))
        (row,) = QueueLoad.of(state, ()).rows([draws], [share], [3_600.0], -1, at_s)
        of = class_of(600.0, partition="batch", share=share, at_s=at_s, waiting=3)
        made.append(PastWait(at_s, actual_s(rng, used), draws, of, tuple(row.tolist())))
    return made


def long_where_half_is_used(rng, used):
    return (20_000 if used > 50 else 120) * rng.lognormvariate(0, 0.3)


@pytest.fixture(scope="module")
def learned():
    return learn_waits(asked(700, long_where_half_is_used))


@pytest.fixture
def fit(learned):
    return correction_of(learned.correction)


def test_what_the_queue_run_forward_leaves_out_is_learned(learned):
    assert learned.correction
    assert learned.corrected_error < 0.6 * learned.error
    late = learned.errors[len(learned.errors) // 2 :]
    assert all(one.corrected for one in late)
    assert 0.8 <= sum(one.inside for one in late) / len(late) <= 1.0
    assert encode(correction_of(learned.correction)) == learned.correction


def test_a_correction_that_helps_nobody_is_left_out():
    learned = learn_waits(asked(700, lambda rng, _: 600 * rng.lognormvariate(0, 0.6)))
    assert learned.correction == ""
    assert learned.corrected_error is not None
    assert len(learned.errors) == 700
    assert not any(one.corrected for one in learned.errors)


def test_few_jobs_make_a_record_and_no_correction():
    learned = learn_waits(asked(100, long_where_half_is_used))
    assert (learned.correction, learned.corrected_error, len(learned.errors)) == ("", None, 100)
    assert learn_waits([]).errors == []


def test_waits_of_new_and_of_waiting_jobs_are_corrected(fit):
    def corrected(used):
        state = QueueState(
            units=100,
            running=[QueuedJob(units=used, limit_s=600.0)],
            waiting=[QueuedJob(units=n, limit_s=3_600.0, number=n) for n in (98, 99, 99)],
        )
        forward = run_forward(state)
        return forward, corrected_forward(fit, state, forward, at_s=7_000.0)

    forward, made = corrected(90)
    assert set(made.tasks_s) == {99}
    first, last = made.tasks_s[99]
    assert first == made.starts_s[99]
    assert median(last) > 9_000
    _, quick = corrected(10)
    for number in (98, 99):
        assert made.starts_s[number] == tuple(sorted(made.starts_s[number]))
        assert median(quick.starts_s[number]) < 6_000 < 9_000 < median(made.starts_s[number])
    assert quick.grid.draws(5, 3_600.0)[1] < 6_000 < 9_000 < made.grid.draws(5, 3_600.0)[1]
    # More units or a longer limit never start earlier, and all sizes have a cell.
    for row, wider in zip(made.grid.draws_s, made.grid.draws_s[1:], strict=False):
        assert all(a <= b for a, b in zip(row[0], wider[0], strict=True))
    assert made.grid.draws(100, LIMITS_S[-1]) is not None
    assert made.grid.draws(101, 60.0) is None
    assert set(forward.grid.sizes) >= set(made.grid.sizes)


def test_waits_grow_with_what_their_user_has_in_the_queue():
    """Sites limit or disfavour those who have much already; a user with nothing starts soon."""
    rng, waits = random.Random(5), []
    for number in range(700):
        used = rng.choice((0, 60))
        running = QueuedJob(units=80, limit_s=7_200.0, owner="ann" if used else "bob")
        load = QueueLoad.of(QueueState(units=100, running=[running]), ())
        at_s, draws = 500.0 * number, (500.0, 600.0, 700.0)
        (row,) = load.rows([draws], [0.1], [3_600.0], -1, at_s, [Submitter("ann")])
        of = class_of(600.0, partition="batch", share=0.1, at_s=at_s, waiting=0)
        actual_s = (20_000 if used else 200) * rng.lognormvariate(0, 0.3)
        waits.append(PastWait(at_s, actual_s, draws, of, tuple(row.tolist())))
    fit = correction_of(learn_waits(waits).correction)
    state = QueueState(
        units=100,
        running=[QueuedJob(units=80, limit_s=7_200.0, owner="ann")],
        waiting=[
            QueuedJob(units=30, limit_s=3_600.0, number=n, owner=owner)
            for n, owner in ((1, "ann"), (2, "bob"))
        ],
    )
    made = corrected_forward(fit, state, run_forward(state), at_s=7_000.0)
    assert made.factors["ann"] > 10 * made.factors["bob"]
    assert median(made.starts_s[1]) > 10 * median(made.starts_s[2])


def test_a_correction_of_another_release_is_refused(fit):
    payload = encode(fit)
    assert correction_of(payload) == fit
    with pytest.raises(ValueError, match="nimo fit"):
        correction_of(payload.replace("own_waiting", "moon"))


def runs(count, **fields):
    return [
        run_row(job_id=n, submit_s=1_000 * n, start_s=1_000 * n + 10, **fields)
        for n in range(count)
    ]


def test_users_use_shares_of_their_limits():
    often = runs(30, user="eve", limit_s=1_000, elapsed_s=100.0)
    others = [
        *runs(30, user="bob", limit_s=1_000, elapsed_s=1_000.0),
        *runs(3, user="amy", limit_s=1_000, elapsed_s=1_000.0),
    ]
    shares = queue_past([*often, *others]).shares
    assert shares.users["eve"] == pytest.approx([-2.3026] * 40, abs=1e-4)
    assert set(shares.users) == {"eve", "bob"}
    assert shares.site[0] == pytest.approx(-2.3026, abs=1e-4)
    assert shares.site[-1] == 0.0


def test_jobs_come_at_the_rate_of_the_past():
    past = queue_past(runs(101, nodes=4, cpus=32, limit_s=600, elapsed_s=60.0))
    one = past.arrivals["batch"]
    assert one.per_s == pytest.approx(1 / 1_000, rel=0.02)
    assert (one.shapes[0].nodes, one.shapes[0].cpus, one.shapes[0].run_s) == (4, 32, 60.0)
    assert one.ahead == 0.0
    # One of them runs at a time.
    assert one.node_demand.within(3_600.0, 1.0) == 4
    assert one.cpu_demand.within(3_600.0, 1.0) == 32
    assert decode(encode(past), QueuePast) == past


def test_who_passes_smaller_jobs_went_ahead_of_them():
    small = run_row(job_id=0, submit_s=0, start_s=99_999, nodes=1, limit_s=60)
    large = [r for r in runs(40, nodes=8, limit_s=600) if r.submit_s > 0]
    assert queue_past([small, *large]).arrivals["batch"].ahead == pytest.approx(39 / 40)
    # What is smaller than those that wait may pass them by backfilling alone.
    waiting = run_row(job_id=0, submit_s=0, start_s=99_999, nodes=16, limit_s=6_000)
    assert queue_past([waiting, *large]).arrivals["batch"].ahead == 0.0


def test_few_runs_say_nothing():
    past = queue_past(runs(3))
    assert (past.arrivals, past.shares.site, past.shares.users) == ({}, (), {})
    with pytest.raises(ValueError, match="nimo fit"):
        decode("[]", QueuePast)
