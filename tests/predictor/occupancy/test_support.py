"""What samples support: ranges, and attributes that only changed together."""

from math import log, log1p, sqrt

import pytest

from predictor.occupancy.fit import Doubt, Support, beyond, judged, supported
from predictor.types import Verdict


@pytest.mark.parametrize(
    ("value", "low", "high", "far"),
    [
        (2.0, 1.0, 4.0, 0.0),
        (1.0, 1.0, 4.0, 0.0),
        (4.0, 1.0, 4.0, 0.0),
        (5.0, 1.0, 4.0, log(5 / 4) / log(4)),  # above by ratios ...
        (0.5, 1.0, 4.0, 1 / 3),  # ... and below by twice the difference
        (6.0, 3.0, 3.0, 0.5),
        (1.5, 3.0, 3.0, 0.5),
        (12.0, 3.0, 3.0, 1.0),
    ],
)
def test_distance_from_a_range(value, low, high, far):
    assert beyond(value, low, high) == pytest.approx(far)


@pytest.mark.parametrize(
    ("value", "far"),
    [
        (0.5, 0.5),  # log 2 of log 4, more than 1/3
        (3.0, 0.0),
        (8.0, 0.5),
        (1 / 16, 2.0),
        (0.9, log(1 / 0.9) / log(4)),
    ],
)
def test_below_the_range_ratios_count_where_a_function_has_the_reciprocal(value, far):
    assert beyond(value, 1.0, 4.0, inverse=True) == pytest.approx(far)
    # From 6 to 8 the difference of 1 is as much as the range, the ratio is less.
    assert beyond(5.0, 6.0, 8.0, inverse=True) == pytest.approx(1.0)


def grid():
    every = [{"cpu": c, "lat": x} for c in (1.0, 2.0) for x in (1.0, 5.0)]
    return supported(every, ["cpu", "lat"])


def test_within_the_range_there_is_no_doubt():
    assert grid().doubts({"cpu": 1.5, "lat": 3.0}) == ()
    assert grid().bounds == {"cpu": (1.0, 2.0), "lat": (1.0, 5.0)}
    assert grid().varied == ("cpu", "lat")
    assert grid().scales == ()


def test_up_to_half_a_range_beyond_it_is_doubtful_and_refused_farther_away():
    """The issue's case: samples at 400 to 900 MHz say nothing of 3,000."""
    (near,) = grid().doubts({"cpu": 2 * sqrt(2), "lat": 3.0})
    assert near.verdict is Verdict.DOUBTFUL
    assert near.text == "cpu 2.82843 is outside what was run, from 1 to 2"
    assert near.off == pytest.approx(log1p(0.5))
    (far,) = grid().doubts({"cpu": 2.9, "lat": 3.0})
    assert far.verdict is Verdict.REFUSED
    both = grid().doubts({"cpu": 0.75, "lat": 11.0})
    assert [one.verdict for one in both] == [Verdict.DOUBTFUL, Verdict.DOUBTFUL]
    assert both[1].off == pytest.approx(log1p(log(11 / 5) / log(5)))
    clocks = supported([{"mhz": 400.0}, {"mhz": 650.0}, {"mhz": 900.0}], ["mhz"])
    assert judged(clocks.doubts({"mhz": 3000.0})) is Verdict.REFUSED


def test_what_never_changed_is_predicted_only_as_it_was():
    same = supported([{"mem": 64.0}, {"mem": 64.0}], ["mem"])
    assert same.varied == ()
    assert same.doubts({"mem": 64.0}) == ()
    (doubt,) = same.doubts({"mem": 100.0})
    assert (doubt.verdict, doubt.text) == (
        Verdict.DOUBTFUL,
        "mem 100 is outside what was run, with 64",
    )
    assert judged(same.doubts({"mem": 200.0})) is Verdict.REFUSED


@pytest.mark.parametrize(
    "other",
    [lambda cpu: 2 * cpu, lambda cpu: 1 / cpu, lambda cpu: 10 - cpu],
    ids=["in proportion", "reciprocal", "complement"],
)
def test_attributes_that_only_changed_together_are_not_distinguished(other):
    """The issue's case: collinear attributes answered 33 s for 200."""
    samples = [{"cpu": float(c), "mem": other(float(c))} for c in range(1, 7)]
    support = supported(samples, ["cpu", "mem"])
    for cpu in (1.0, 3.5, 6.0):
        assert support.doubts({"cpu": cpu, "mem": other(cpu)}) == ()
    low, high = support.bounds["mem"]
    asked = {"cpu": 1.0, "mem": high if other(1.0) == low else low}
    (doubt,) = support.doubts(asked)
    assert doubt.verdict is Verdict.REFUSED
    assert doubt.text == "cpu and mem only changed together in what was run"
    assert doubt.off == 0.0


def test_three_attributes_of_which_one_follows_from_two():
    rows = [(1.0, 1.0), (2.0, 1.0), (1.0, 3.0), (4.0, 2.0), (3.0, 5.0), (2.0, 2.0)]
    samples = [{"a": a, "b": b, "c": a * b, "free": f} for (a, b), f in zip(
        rows, (1.0, 5.0, 2.0, 8.0, 3.0, 1.0), strict=True
    )]  # fmt: skip
    support = supported(samples, ["a", "b", "c", "free"])
    assert support.doubts({"a": 2.0, "b": 3.0, "c": 6.0, "free": 4.0}) == ()
    (doubt,) = support.doubts({"a": 1.0, "b": 1.0, "c": 8.0, "free": 4.0})
    assert doubt.text == "a and b and c only changed together in what was run"
    # Without all of them nothing can be said.
    assert support.doubts({"a": 1.0, "b": 1.0}) == ()


def test_no_samples_or_names_support_nothing_in_particular():
    assert supported([], ["a"]) == Support({})
    assert supported([{"a": 1.0}], []) == Support({})
    assert Support({}).doubts({"a": 3.0}) == ()


def test_the_worst_doubt_decides():
    doubtful, refused = Doubt(Verdict.DOUBTFUL, "a", 0.2), Doubt(Verdict.REFUSED, "b", 0.1)
    assert judged(()) is Verdict.RELIABLE
    assert judged((doubtful,)) is Verdict.DOUBTFUL
    assert judged((doubtful, refused)) is judged((refused, doubtful)) is Verdict.REFUSED


def test_a_sample_without_an_attribute_is_refused():
    with pytest.raises(ValueError, match="attribute lat is None"):
        supported([{"cpu": 1.0, "lat": 2.0}, {"cpu": 2.0}], ["cpu", "lat"])


@pytest.mark.parametrize(("apart", "alone"), [(0.02, False), (0.04, True)])
def test_attributes_changed_together_where_they_spread_by_less_than_three_per_cent(apart, alone):
    """Across their common direction, as a share of the spread along it."""
    corners = [(a + apart * b, a - apart * b) for a in (-1, 1) for b in (-1, 1)]
    every = [{"cpu": 1 + x / 1000, "lat": 1 + y / 1000} for x, y in corners]
    asked = {"cpu": 1.001, "lat": 0.999}
    refused = Verdict.REFUSED in {one.verdict for one in supported(every, [*asked]).doubts(asked)}
    assert refused is not alone
