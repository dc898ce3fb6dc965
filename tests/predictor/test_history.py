import math
import random

import pytest

from predictor.models.history import History, HistorySettings, multipliers
from predictor.types import Prediction, Run


def runs(*pairs: tuple[int, float], limit_s: float = 0.0) -> list[Run]:
    return [Run(n, t, end_s=float(i), limit_s=limit_s) for i, (n, t) in enumerate(pairs)]


def expected(history: list[Run], level: float) -> list[Prediction]:
    return History(history).expected(level)


def typical(history: list[Run]) -> dict[int, float]:
    return {p.nodes: p.time_s for p in expected(history, 0.9)}


def test_each_node_count_seen_follows_its_own_last_runs() -> None:
    early, late = [(4, 900.0)] * 4, [(4, 10.0), (8, 50.0), (4, 10.0), (8, 51.0), (4, 11.0)]
    found = typical(runs(*early, *late))
    assert found[4] in (10.0, 11.0)
    assert found[8] in (50.0, 51.0)


def test_other_node_counts_of_one_problem_hardly_count() -> None:
    both = runs(*[(4, 200.0), (8, 100.0)] * 6)
    (mixed, _), (own, _) = (
        History(both, same_problem=same).expected(0.9) for same in (False, True)
    )
    assert (mixed.low_s, own.low_s) == (100.0, 200.0)
    alone = History([*both, Run(16, 60.0, 99.0)], same_problem=True).expected(0.9)
    assert alone[-1].time_s == 60.0


def test_runs_of_the_limit_asked_for_last_count_more() -> None:
    short, long = runs(*[(4, 60.0)] * 3, limit_s=600), runs(*[(4, 7000.0)] * 3, limit_s=9000)
    assert typical([*short, *long])[4] == 7000.0
    later = Run(4, 61.0, end_s=9.0, limit_s=600)
    assert typical([*short, *long, later])[4] in (60.0, 61.0)


def test_the_raw_interval_spans_the_runs_that_count() -> None:
    (p,) = expected(runs(*[(4, float(t)) for t in range(10, 30)]), 0.9)
    assert 10 <= p.low_s < p.time_s < p.high_s <= 29


def test_limits_are_told_apart_where_there_are_several() -> None:
    short, long = runs(*[(4, 60.0)] * 3, limit_s=600), runs(*[(4, 7000.0)] * 3, limit_s=9000)
    both = History([*short, *(Run(4, r.elapsed_s, 9 + r.end_s, limit_s=9000) for r in long)])
    assert both.limits == [9000, 600]
    assert [both.expected(0.9, limit)[0].time_s for limit in both.limits] == [7000, 60]
    assert History(short).limits == []
    assert History(runs((4, 60.0), (4, 61.0))).limits == []


def test_nothing_is_expected_beyond_the_limit_asked_for() -> None:
    (p,) = expected([Run(4, 1000.0, 0.0, limit_s=1000), Run(4, 50.0, 1.0, limit_s=60)], 0.9)
    assert p.high_s == 60.0


def test_stopped_runs_are_no_history() -> None:
    assert expected([Run(4, 10.0, censored=True)], 0.9) == []


def test_residuals_know_only_what_came_before() -> None:
    found = History(runs((4, 10.0), (4, 10.0), (4, 20.0), (4, 10.0))).residuals(0.9)
    assert [end for end, *_ in found] == [2.0, 3.0]
    assert found[0][1:] == pytest.approx((math.log(2), math.log(2)))
    assert found[1][1:] == pytest.approx((0.0, -math.log(2)))


def test_only_the_last_runs_are_replayed() -> None:
    history = runs(*[(4, 10.0)] * 50)
    found = History(history, HistorySettings(replayed=7)).residuals(0.9)
    assert [end for end, *_ in found] == [float(i) for i in range(43, 50)]


@pytest.mark.parametrize("spread", [0.05, 0.8])
def test_calibrated_intervals_hold_the_level_on_new_applications(spread: float) -> None:
    rng = random.Random(3)

    def application() -> list[Run]:
        typical = math.exp(rng.uniform(3, 9))
        return runs(*[(4, typical * math.exp(rng.gauss(0, spread))) for _ in range(30)])

    found = [one for _ in range(60) for one in History(application()).residuals(0.9)]
    low, high = multipliers(found, 0.9)
    held = []
    for _ in range(400):
        *past, new = application()
        (p,) = expected(past, 0.9)
        held.append(p.low_s * low <= new.elapsed_s <= p.high_s * high)
    assert sum(held) / len(held) == pytest.approx(0.9, abs=0.05)


def test_only_the_last_residuals_count() -> None:
    old, recent = [(0.0, 5.0, 5.0)] * 100, [(1.0, 0.2, 0.1)] * 100
    assert multipliers(old + recent, 0.9, keep=100) == pytest.approx((math.exp(0.2), math.exp(0.1)))


def test_too_few_residuals_give_a_wide_interval() -> None:
    assert multipliers([], 0.9) == pytest.approx((0.5, 2.0))
    low, high = multipliers([(0.0, 1.5, 0.1), (0.0, -0.2, 0.0)], 0.9)
    assert (low, high) == pytest.approx((math.exp(-1.5), math.exp(1.5)))
