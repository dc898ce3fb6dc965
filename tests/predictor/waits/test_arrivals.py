"""What jobs to come want at once, from histories whose demand is plain."""

from math import inf

import pytest

from predictor.waits.history import SPANS_S, arrival_demand
from predictor.waits.workload import ArrivalDemand

#: A job of two nodes every minute and a half that runs for five minutes, for a week.
SUBMIT_S = [90.0 * n for n in range(6_720)]


def steady() -> ArrivalDemand:
    count = len(SUBMIT_S)
    return arrival_demand(SUBMIT_S, [2] * count, [300.0] * count)


def test_the_jobs_of_a_span_are_counted_together():
    made = steady()
    # None comes within a minute of another; one within two; of later ones four run at once.
    assert [made.within(span_s, 0.5) for span_s in (60, 120, 240, 480, 960)] == [0, 2, 4, 8, 8]
    assert made.within(61.0, 0.5) == 2


def test_what_ends_is_there_for_the_next():
    end_to_end = arrival_demand(SUBMIT_S, [2] * len(SUBMIT_S), [90.0] * len(SUBMIT_S))
    assert end_to_end.within(3_600.0, 1.0) == 2


def test_levels_lie_between_the_calm_and_the_busy_moments():
    size = [1 if n % 10 else 100 for n in range(len(SUBMIT_S))]
    made = arrival_demand(SUBMIT_S, size, [30.0] * len(SUBMIT_S))
    assert (made.within(120.0, 0.5), made.within(120.0, 1.0)) == (1, 100)
    levels = [made.within(120.0, level / 20) for level in range(21)]
    assert levels == sorted(levels)


def test_spans_that_the_history_does_not_hold_are_unknown():
    hour = SUBMIT_S[:40]
    made = arrival_demand(hour, [1] * 40, [60.0] * 40)
    assert made.spans_s[-1] < 3_600.0
    assert made.within(hour[-1], 0.5) == inf
    assert steady().within(SPANS_S[-1] + 1, 0.5) == inf


@pytest.mark.parametrize("count", [0, 1, 5])
def test_few_jobs_say_nothing(count):
    some = SUBMIT_S[:count]
    made = arrival_demand(some, [1] * count, [1.0] * count)
    assert made == ArrivalDemand()
    assert made.within(1.0, 0.8) == inf


def test_other_units_scale_the_demand():
    assert steady().scaled(1 / 16).within(240.0, 0.5) == 4 / 16
