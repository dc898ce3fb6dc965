"""Waits as distributions: coverage by the record, joint chances, the wide beginning."""

import pickle
import random
import sys
import threading
from itertools import count
from math import inf

import pytest

from predictor.types import Prediction
from predictor.waits.error_record import (
    MOST_ENTRIES,
    WaitClass,
    WaitError,
    WaitRecord,
    class_of,
    error_of,
    spread_of,
)
from predictor.waits.estimate import ALLOWANCE_S, WaitEstimate, WaitGrid, certain
from predictor.waits.workload import decode, encode

OF = WaitClass(True, "batch", 1, 2, 3)
RUN = Prediction(4, 100.0, 80.0, 125.0, level=0.9)


def test_without_a_record_estimates_are_wide_around_the_draws():
    one = WaitRecord().estimate([500.0, 600.0, 700.0], OF)
    low, high = one.interval_s
    assert one.median_s == pytest.approx(600.0, rel=0.05)
    assert low < 200.0 and high > 2_000.0
    assert one.recorded == 0


def test_nine_in_ten_lie_inside_once_there_is_a_record_whatever_the_draws_are_off_by():
    rng = random.Random(3)
    record, inside = WaitRecord(), 0
    for number in range(3_000):
        truth = rng.lognormvariate(6.0, 1.0)
        draws = sorted(truth * 20 * rng.lognormvariate(0.0, 0.6) for _ in range(20))
        if number >= 1_000:
            low, high = record.estimate(draws, OF).interval_s
            actual = truth * rng.lognormvariate(0.0, 0.8)
            inside += low <= actual <= high
        else:
            actual = truth * rng.lognormvariate(0.0, 0.8)
        record.add(error_of(draws, OF, at_s=number, actual_s=actual))
    assert 0.87 <= inside / 2_000 <= 0.93
    draws = sorted(20_000.0 * rng.lognormvariate(0.0, 0.6) for _ in range(20))
    one = record.estimate(draws, OF)
    assert one.recorded == 500
    assert 400.0 < one.median_s < 2_500.0


def test_a_short_record_moves_an_estimate_little():
    def median_s(errors):
        record = WaitRecord(error_of([1_000.0], OF, at_s=n, actual_s=10.0) for n in range(errors))
        return record.estimate([1_000.0], OF).median_s

    assert median_s(3) > 800.0
    assert median_s(200) < 50.0


def test_classes_differ_and_small_ones_take_from_broader_ones():
    record = WaitRecord()
    other = WaitClass(True, "debug", 1, 2, 3)
    for n in range(100):
        record.add(error_of([1_000.0], OF, at_s=n, actual_s=10_000.0))
        record.add(error_of([1_000.0], other, at_s=n, actual_s=1_000.0))
    assert record.estimate([1_000.0], OF).median_s > 5_000.0
    assert record.estimate([1_000.0], other).median_s == pytest.approx(1_000.0, rel=0.1)
    # Another size in the same partition: the partition's own record.
    big = WaitClass(True, "batch", 5, 2, 3)
    assert record.estimate([1_000.0], big).recorded == 100
    # Nothing is recorded of those that were expected to start at once.
    assert record.estimate([0.0], WaitClass(False, "batch", 1, 2, 3)).recorded == 0


def test_a_record_stays_small():
    record = WaitRecord(
        error_of([10.0], OF, at_s=n, actual_s=1.0) for n in range(MOST_ENTRIES + 50)
    )
    assert len(record) == MOST_ENTRIES
    assert record.errors[0].at_s == 50


def test_other_threads_count_and_pickle_a_record_that_grows():
    record, at_s = WaitRecord(), count()
    stopped = threading.Event()

    def add_one():
        of = WaitClass(True, f"p{next(at_s) % 997}")
        record.add(error_of([50.0], of, at_s=0.0, actual_s=60.0, estimate=estimate))

    def add():
        while not stopped.is_set():
            add_one()

    estimate = record.estimate([50.0], OF)
    add_one()
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    other = threading.Thread(target=add)
    other.start()
    try:
        for _ in range(40):
            assert record.inside() == 1.0
            assert pickle.loads(pickle.dumps(record)).inside() == 1.0
    finally:
        stopped.set()
        other.join()
        sys.setswitchinterval(before_s)
    taken = pickle.loads(pickle.dumps(record))
    assert taken.estimate([50.0], OF) == record.estimate([50.0], OF)


def test_chance_joins_wait_and_run():
    waits = WaitEstimate(tuple([0.0] * 20 + [1_000.0] * 20))
    assert waits.chance(RUN, 200.0) == pytest.approx(0.5, abs=0.01)
    assert waits.chance(RUN, 1_100.0) == pytest.approx(0.75, abs=0.01)
    assert waits.chance(RUN, 10.0) == 0.0
    assert waits.end_s(RUN, 0.25) == pytest.approx(100.0, rel=0.02)
    assert waits.end_s(RUN, 0.95) == pytest.approx(1_120.0, rel=0.02)
    skewed = Prediction(1, 100.0, 90.0, 300.0, level=0.9)
    ends = [certain(0.0).end_s(skewed, share) for share in (0.05, 0.5, 0.95)]
    assert ends == pytest.approx([90.0, 100.0, 300.0], rel=0.005)  # those of the interval


def test_a_job_that_starts_after_its_latest_start_is_ended_by_slurm():
    waits = WaitEstimate(tuple([0.0] * 20 + [100.0] * 20))
    assert waits.chance(RUN, 400.0) == pytest.approx(1.0, abs=0.01)
    assert waits.chance(RUN, 400.0, limit_s=350.0) == pytest.approx(0.5, abs=0.01)


def test_waits_move_with_begin_times():
    one = WaitEstimate((0.0, 10.0, 20.0))
    assert one.after(12.0).waits_s == (12.0, 12.0, 20.0)
    assert certain(inf).median_s == inf
    assert certain(inf).chance(RUN, 1e9) == 0.0


def test_grids_take_the_next_larger_cell():
    grid = WaitGrid((1, 4), (60.0, inf), (((0.0,), (1.0,)), ((2.0,), (3.0,))))
    assert grid.draws(1, 60.0) == (0.0,)
    assert grid.draws(2, 30.0) == (2.0,)
    assert grid.draws(4, 61.0) == (3.0,)
    assert grid.draws(5, 1.0) is None


def test_classes_are_of_size_hour_and_crowd():
    one = class_of(30.0, partition="p", share=0.25, at_s=0.0, waiting=0)
    assert (one.waits, one.size, one.hour, one.crowd) == (False, 1, 0, 0)
    two = class_of(61.0, partition="p", share=1.0, at_s=7 * 86_400.0 + 21_600, waiting=40)
    assert (two.waits, two.size, two.hour, two.crowd) == (True, 0, 1, 3)


def test_a_record_goes_to_the_store_and_back():
    record = WaitRecord([error_of([10.0], OF, at_s=1.0, actual_s=70.0)])
    one = record.estimate([10.0], OF)
    record.add(error_of([10.0], OF, at_s=2.0, actual_s=12.0, estimate=one))
    record.add(error_of([10.0], OF, at_s=3.0, actual_s=10**6, estimate=one))
    again = decode(encode(list(record.errors)), list[WaitError])
    assert again == list(record.errors)
    assert [e.inside for e in again] == [None, True, False]
    assert WaitRecord(again).inside() == 0.5
    assert WaitRecord().inside() is None
    with pytest.raises(ValueError, match="cannot be read"):
        decode("[[1]]", list[WaitError])


@pytest.mark.parametrize("seed", range(20))
def test_the_time_by_which_a_share_has_ended_is_within_half_a_percent(seed):
    rng = random.Random(seed)
    waits = sorted(rng.choice([0.0, rng.lognormvariate(4, 3)]) for _ in range(40))
    estimate, typical_s = WaitEstimate(tuple(waits)), rng.lognormvariate(6, 2)
    run = Prediction(1, typical_s, typical_s / rng.uniform(1, 3), typical_s * 1.5, level=0.9)
    ends = [estimate.end_s(run, share) for share in (0.05, 0.5, 0.95)]
    assert ends == sorted(ends)
    for share, end_s in zip((0.05, 0.5, 0.95), ends, strict=True):
        assert estimate.chance(run, end_s * 0.995) < share <= estimate.chance(run, end_s) + 1e-9


def covered(record, scores, *, hours=1):
    """Share of waits inside the intervals of their time; ``scores`` are errors of the medians."""
    draws = (600.0, 900.0, 1_200.0)
    middle, spread = spread_of(draws)
    inside = []
    for number, score in enumerate(scores):
        of = WaitClass(True, "batch", 1, number % hours)
        actual_s = max(10 ** (middle + spread * score) - ALLOWANCE_S, 0.0)
        estimate = record.estimate(draws, of)
        error = error_of(draws, of, at_s=number, actual_s=actual_s, estimate=estimate)
        inside.append(error.inside)
        record.add(error)
    return sum(inside) / len(inside)


def test_intervals_hold_nine_in_ten_where_each_class_is_small():
    errors = random.Random(3).gauss
    record = WaitRecord()
    covered(record, (errors(0.0, 1.0) for _ in range(1_200)), hours=20)
    assert 0.88 <= covered(record, (errors(0.0, 1.0) for _ in range(1_200)), hours=20) <= 0.925


def test_intervals_become_wider_where_waits_have_become_stranger():
    errors = random.Random(4).gauss
    record = WaitRecord()
    covered(record, (errors(0.0, 0.3) for _ in range(400)))
    assert 0.87 <= covered(record, (errors(0.0, 0.3 + n / 400) for n in range(400))) <= 0.93


def test_a_change_after_waits_that_were_nearer_each_day_is_not_missed_for_long():
    inside = []
    for seed in (3, 4, 5, 6):
        errors, record = random.Random(seed).gauss, WaitRecord()
        covered(record, (errors(0.0, 1.0 - n / 500) for n in range(400)))
        inside.append(covered(record, (errors(0.0, 1.0) for _ in range(60))))
    assert sum(inside) / len(inside) > 0.8


def test_starts_at_once_that_come_true_leave_room_for_those_that_do_not():
    record, of = WaitRecord(), WaitClass(False, "batch")
    for number in range(600):
        actual_s = 0.0 if number % 25 else 40_000.0
        estimate = record.estimate((0.0,), of)
        record.add(error_of((0.0,), of, at_s=number, actual_s=actual_s, estimate=estimate))
    assert record.inside() > 0.94
    assert record.estimate((0.0,), of).quantile(0.99) > 30_000
