"""Transfers predicted from small probes."""

import random
from math import inf, nan, sin
from statistics import fmean

import numpy as np
import pytest

from benchmarks._cdf_matching import CdfMatching
from benchmarks._error_measures import nmae
from predictor.forecasts.adrm import (
    AdRM,
    LoadWay,
    Plane,
    RawBandwidth,
    Throughput,
    Way,
    fading_line,
    line,
    mean_transfer,
    plain_line,
    proportion,
    together,
)


def series(slope, offset, noise=0.05, count=200):
    """Make a link whose bandwidth drifts: pairs of a small probe and the transfer after it."""
    rng = np.random.default_rng(7)
    for step in range(count):
        probe = 1.0 + 0.3 * sin(step / 7) + 0.2 * sin(step / 23)
        transfer = slope * probe + offset
        yield probe * rng.lognormal(0, noise / 2), transfer * rng.lognormal(0, noise)


def score(model, pairs, start=10):
    predicted, measured, held = [], [], []
    for step, (probe, transfer) in enumerate(pairs):
        if step >= start:
            made = model.predict(probe)
            predicted.append(made.value)
            measured.append(transfer)
            held.append(made.low <= transfer <= made.high)
        model.update(probe, transfer)
    return nmae(predicted, measured), fmean(held)


@pytest.mark.parametrize(("slope", "offset"), [(2.0, 0.5), (0.4, 0.1), (1.5, -0.2)])
def test_regression_corrects_what_raw_bandwidth_cannot_know(slope, offset):
    """In kind what tables 1 and 2 of the paper show."""
    raw, _ = score(RawBandwidth(), series(slope, offset))
    adaptive, held = score(AdRM(), series(slope, offset))
    assert raw > 0.15
    assert adaptive < 0.12
    assert 0.8 < held < 0.98


def test_the_window_forgets_a_network_that_is_no_more():
    changed = [(p, 3 * p) for p, _ in series(1, 0, 0.0)][:100]
    changed += [(p, 0.5 * p) for p, _ in series(1, 0, 0.0)][100:200]
    model, errors = AdRM(), []
    for step, (probe, transfer) in enumerate(changed):
        if step >= 135:
            errors.append(abs(model.predict(probe).value - transfer) / transfer)
        model.update(probe, transfer)
    assert fmean(errors) < 0.01


def test_noise_is_met_with_a_long_window_and_change_with_a_short_one():
    noisy, changing = AdRM(), AdRM()
    for probe, transfer in series(2.0, 0.0, noise=0.5):
        noisy.update(probe, transfer)
    for step, (probe, _) in enumerate(series(1.0, 0.0, noise=0.0)):
        changing.update(probe, (3.0 if step // 12 % 2 else 1.0) * probe)
    long, short = noisy.predict(1.0).window, changing.predict(1.0).window
    assert long > short


def test_equal_probes_give_the_mean():
    published, chosen = AdRM(10), AdRM()
    for transfer in (3.0, 5.0):
        published.update(1.0, transfer)
        chosen.update(1.0, transfer)
    assert published.predict(1.0).value == chosen.predict(1.0).value == 4.0


def test_the_published_line_goes_on_and_the_chosen_one_is_held_near_what_was_observed():
    published, chosen = AdRM(10), AdRM()
    for model in (published, chosen):
        model.update(1.0, 1.0)
        model.update(1.001, 2.0)
    assert published.predict(2.0).value == pytest.approx(1001)
    assert published.predict(0.1).value == pytest.approx(-899)
    # In proportion to the probe beyond those seen.
    assert chosen.predict(1.5).value == pytest.approx(2 * 1.5 / 1.001)
    assert chosen.predict(0.75).value == pytest.approx(0.75)
    assert (chosen.predict(9.0).value, chosen.predict(0.01).value) == (4.0, 0.5)


def test_below_zero_bounds_stay_in_order_and_a_transfer_never_ends():
    model = AdRM(4)
    for probe, transfer in [(1.0, 9.0), (2.0, 6.0), (3.0, 3.0), (4.0, 0.5)]:
        model.update(probe, transfer)
    made = model.predict(8.0)
    assert made.low < made.value < made.high < 0
    assert made.seconds(1e6) == (inf, inf, inf)


@pytest.mark.parametrize("window", range(2, 26))
def test_each_window_of_figures_4_and_5_is_least_squares(window):
    pairs = list(series(2.0, 0.5, count=40))
    model = AdRM(window)
    for step, (probe, transfer) in enumerate(pairs):
        if step >= 2:
            x, y = zip(*pairs[max(step - window, 0) : step], strict=True)
            slope, intercept = np.polyfit(x, y, 1)
            assert model.predict(probe).value == pytest.approx(slope * probe + intercept, rel=1e-6)
        model.update(probe, transfer)


def test_the_start_up_window_may_be_longer_than_the_running_one():
    """Appendix A: the first prediction is made of the start-up window, the next of the other."""
    pairs = list(series(2.0, 0.5, count=12))
    model = AdRM(5, start_up=10)
    for pair in pairs[:9]:
        model.update(*pair)
    with pytest.raises(ValueError, match="9 transfers with their probes; 10 are needed"):
        model.predict(1.0)
    for count, length in ((10, 10), (11, 5)):
        model.update(*pairs[count - 1])
        slope, intercept = np.polyfit(*zip(*pairs[count - length : count], strict=True), 1)
        made = model.predict(1.0)
        assert made.value == pytest.approx(slope + intercept)
        assert made.window == length


def test_a_window_of_one_pair_says_the_last_transfer():
    model = AdRM(1)
    for pair in [(1.0, 3.0), (2.0, 5.0), (4.0, 7.0)]:
        model.update(*pair)
    assert model.predict(9.0).value == 7.0


@pytest.mark.parametrize(("window", "start_up"), [(0, 2), (-3, 2), (4, 0), (None, 0)])
def test_windows_without_a_pair_are_refused(window, start_up):
    with pytest.raises(ValueError, match="each needs one at least"):
        AdRM(window, start_up=start_up)


@pytest.mark.parametrize("make", [AdRM, lambda: AdRM(4), RawBandwidth, CdfMatching])
@pytest.mark.parametrize("value", [nan, inf, -inf, 0.0, -1.0])
def test_what_is_no_throughput_is_refused_and_changes_nothing(make, value):
    model = make()
    for pair in series(2.0, 0.5, count=20):
        model.update(*pair)
    before = model.predict(1.0)
    for pair in ((value, 1.0), (1.0, value)):
        with pytest.raises(ValueError, match="must be a finite number above 0"):
            model.update(*pair)
    with pytest.raises(ValueError, match="must be a finite number above 0"):
        model.predict(value)
    assert model.predict(1.0) == before


def test_several_probes_are_one():
    assert together([3.0, 1.0]) == 3.0
    with pytest.raises(ValueError, match="no probe"):
        together([])
    with pytest.raises(ValueError, match="throughput is nan"):
        together([nan, 1.0])


def test_a_probe_that_was_held_up_costs_the_automatic_choice_little():
    pairs = list(series(2.0, 0.5))
    held_up = [(p * (0.1 if i % 9 == 0 else 1), t) for i, (p, t) in enumerate(pairs)]
    published, _ = score(AdRM(10), held_up)
    chosen, held = score(AdRM(), held_up)
    assert chosen < 0.12
    assert chosen < 0.7 * published
    assert 0.8 < held < 0.98


def test_probes_that_say_nothing_leave_the_latest_transfers():
    rng = np.random.default_rng(5)
    pairs = [(rng.uniform(1, 9), transfer) for _, transfer in series(2.0, 0.5)]
    chosen, _ = score(AdRM(), pairs)
    published, _ = score(AdRM(10), pairs)
    assert chosen < 0.12
    assert chosen < published


def test_the_unit_does_not_matter():
    plain, scaled = AdRM(), AdRM()
    for probe, transfer in series(2.0, 0.5):
        plain.update(probe, transfer)
        scaled.update(probe * 1024, transfer * 1024)
    assert scaled.predict(1024.0).value == pytest.approx(1024 * plain.predict(1.0).value)


def test_too_few_pairs_are_an_error():
    with pytest.raises(ValueError, match="2 are needed"):
        AdRM().predict(1.0)
    with pytest.raises(ValueError, match="nothing to match"):
        CdfMatching().predict(1.0)


def learned(model, pairs):
    for pair in pairs:
        model.update(*pair)
    return model


def test_the_ways_that_are_chosen_among():
    every = AdRM().ways
    plain = [(way.read.__name__, way.window) for way in every if isinstance(way, Way)]
    windows = (4, 6, 8, 10, 12, 15, 20, 30)
    lines = [(kind, w) for kind in ("plain_line", "fading_line", "proportion") for w in windows]
    expected = [*lines, *(("mean_transfer", w) for w in (1, 2, 4, 8, 15, 30))]
    assert plain == expected
    loaded = [way for way in every if isinstance(way, LoadWay)]
    assert [(way.way.read.__name__, way.window) for way in loaded] == expected
    assert [way.window for way in every if isinstance(way, Plane)] == [8, 12, 20, 30]


def served(kind, count=60, seed=5):
    """Probe, transfer and share of a CPU at the server, which a walk and a swing move."""
    rng = random.Random(seed)
    for number in range(count):
        probe = 200 + 100 * sin(number / 5) + rng.uniform(-10, 10)
        share = min(1.0, max(0.1, 0.55 + 0.4 * sin(number / 2) + rng.uniform(-0.05, 0.05)))
        network, server = 0.6 * probe, 250 * share
        yield probe, {"network": network, "server": server, "one after the other":
                      1 / (1 / network + 1 / server)}[kind], share  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "share_left"), [("network", 1.0), ("server", 0.01), ("one after the other", 0.9)]
)
def test_the_load_of_the_server_is_one_more_regressor(kind, share_left):
    with_load, without = AdRM(), AdRM()
    pairs = list(served(kind))
    for probe, transfer, share in pairs[:-20]:
        with_load.update(probe, transfer, share)
        without.update(probe, transfer)
    off = {True: [], False: []}
    for probe, transfer, share in pairs[-20:]:
        off[True].append(abs(with_load.predict(probe, share).value / transfer - 1))
        off[False].append(abs(without.predict(probe).value / transfer - 1))
        with_load.update(probe, transfer, share)
        without.update(probe, transfer)
    assert fmean(off[True]) <= share_left * fmean(off[False]) + 1e-9
    assert (fmean(off[False]) > 0.1) == (kind != "network")


def test_pairs_without_a_load_count_for_what_needs_none():
    """The load is not measured any more, or only now: the other ways still have all pairs."""
    model, half = AdRM(), AdRM()
    for number, (probe, transfer, share) in enumerate(served("network")):
        model.update(probe, transfer, share)
        half.update(probe, transfer, share if number > 50 else None)
    assert model.predict(200.0).value == pytest.approx(120.0)
    assert half.predict(200.0, 0.5).value == pytest.approx(120.0)


def test_a_plane_by_hand():
    pairs = [(1.0, 9.0), (2.0, 12.0), (3.0, 14.0), (1.0, 11.0), (4.0, 20.0)]
    shares = [0.1, 0.2, 0.1, 0.5, 0.6]
    table = np.array([[1.0, probe, share] for (probe, _), share in zip(pairs, shares, strict=True)])
    fitted, *_ = np.linalg.lstsq(table, np.array([moved for _, moved in pairs]), rcond=None)
    plane = Plane(8)
    assert plane.predict(pairs, shares, 2.0, 0.3) == pytest.approx(fitted @ [1.0, 2.0, 0.3])
    # Held within what was seen.
    assert plane.predict(pairs, shares, 9.0, 1.0) == pytest.approx(fitted @ [1.0, 4.0, 0.6])
    assert plane.predict(pairs, shares, 2.0, None) is None
    assert plane.predict(pairs, [None, *shares[1:]], 2.0, 0.3) is None
    assert plane.predict(pairs, [0.3] * 5, 2.0, 0.3) is None
    together = [probe / 10 for probe, _ in pairs]
    assert plane.predict(pairs, together, 2.0, 0.3) is None


def test_the_bounds_of_few_and_of_many_ratios():
    few = learned(RawBandwidth(), [(1.0, 1.5)] * 9).predict(1.0)
    assert (few.low, few.high, few.tried) == (0.5, 2.0, 9)
    wild = learned(RawBandwidth(), [(1.0, 1.5), (1.0, 0.2)]).predict(1.0)
    assert (wild.low, wild.high) == (pytest.approx(0.2), pytest.approx(5.0))
    # Of forty the second on either side; of nineteen the first.
    many = learned(RawBandwidth(), [(1.0, 0.5 + n / 39) for n in range(40)]).predict(1.0)
    assert (many.low, many.high) == (pytest.approx(0.5 + 1 / 39), pytest.approx(0.5 + 38 / 39))
    some = learned(RawBandwidth(), [(1.0, 0.5 + n / 18) for n in range(19)]).predict(1.0)
    assert (some.low, some.high) == (0.5, 1.5)
    # The prediction itself is between them.
    above = learned(RawBandwidth(), [(1.0, 2.0 + n / 10) for n in range(10)]).predict(1.0)
    assert (above.low, above.high) == (1.0, pytest.approx(2.9))
    assert above.error == pytest.approx(fmean(1 - 1 / (2.0 + n / 10) for n in range(10)))


def test_the_last_hundred_errors_count():
    model = learned(RawBandwidth(), [(1.0, 9.0)] * 20 + [(1.0, 1.0)] * 100)
    made = model.predict(3.0)
    assert (made.low, made.value, made.high) == (3.0, 3.0, 3.0)
    assert (made.tried, made.error) == (100, 0.0)


@pytest.mark.parametrize(
    ("read", "probe", "expected"),
    [
        (line, 5.0, 2 * 5.0 + 1),
        (plain_line, 3.0, 7.0),
        # Beyond the probes in proportion: 9 at 4, 3 at 1.
        (plain_line, 8.0, 18.0),
        (plain_line, 0.5, 1.5),
        (proportion, 2.0, 2.0 * (7 / 3 + 5 / 2) / 2),
        (mean_transfer, 2.0, 6.0),
    ],
)
def test_the_ways_by_hand(read, probe, expected):
    pairs = [(1.0, 3.0), (2.0, 5.0), (3.0, 7.0), (4.0, 9.0)]
    assert read(pairs, probe) == pytest.approx(expected)


def test_a_fading_line_weighs_the_newest_most():
    pairs = [(1.0, 9.0), (2.0, 5.0), (4.0, 7.0), (3.0, 8.0)]
    x, y = (np.array(column) for column in zip(*pairs, strict=True))
    weights = 0.8 ** np.arange(3, -1, -1)
    slope, intercept = np.polyfit(x, y, 1, w=np.sqrt(weights))
    for probe in (1.0, 2.5, 4.0):
        assert fading_line(pairs, probe) == pytest.approx(slope * probe + intercept)
    assert fading_line(pairs, 8.0) == pytest.approx(2 * (slope * 4 + intercept))
    alike = [(2.0, 4.0), (2.0, 8.0)]
    assert fading_line(alike, 2.0) == pytest.approx((0.8 * 4 + 8) / 1.8)


def test_probes_whose_spread_is_too_small_for_a_number_have_no_slope():
    assert fading_line([(1e-170, 3.0), (2e-170, 3.0)], 1.5e-170) == pytest.approx(3.0)


def test_old_errors_of_a_way_weigh_less():
    model = AdRM(start_up=1)
    line = next(
        way for way in model.ways if way.read.__name__ == "mean_transfer" and way.window == 1
    )
    for transfer in (1.0, 3.0, 3.0, 4.0):
        model.update(1.0, transfer)
    # Off by 2, 0 and 1.
    assert model.misses[line] == pytest.approx(0.9 * 0.9 * 2 + 1)


def test_of_ways_alike_the_longest_window_is_taken():
    model = learned(AdRM(), [(float(n), 2.0 * n) for n in range(1, 40)])
    assert model.predict(7.0).window == 30
    assert model.predict(7.0).value == pytest.approx(14.0)


def test_cdf_matching_by_hand():
    model = learned(CdfMatching(), [(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)])
    places = [0.1, 1.0, 1.5, 2.0, 2.5, 3.0, 99.0]
    assert [model.predict(p).value for p in places] == [10, 10, 15, 20, 25, 30, 30]
    ties = learned(CdfMatching(), [(1.0, 10.0), (1.0, 20.0), (1.0, 30.0), (2.0, 40.0)])
    assert (ties.predict(1.0).value, ties.predict(2.0).value) == (20.0, 40.0)


def test_no_throughput_takes_for_ever():
    assert Throughput(0.0, 0.0, 2.0).seconds(4.0) == (inf, 2.0, inf)
    assert Throughput(2.0, 1.0, 4.0).seconds(4.0) == (2.0, 1.0, 4.0)
