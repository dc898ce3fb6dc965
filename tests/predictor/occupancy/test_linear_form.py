"""How the forms of an application profile are weighed, and what a prediction says of itself."""

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest

from predictor.occupancy.application_model import (
    Form,
    Occupancies,
    OccupancyFit,
    OccupancyModel,
    Sample,
    judged_by,
)
from predictor.occupancy.bottleneck import Bottleneck, Demand
from predictor.occupancy.fit import Support
from predictor.occupancy.functions import Function, Shape, Term, transformation
from predictor.occupancy.regression import LinearOccupancyModel, part_errors, percentage_error
from predictor.types import Verdict

pytestmark = pytest.mark.kernels


def constant(value, press=0.0):
    return Function({}, 1.0, value, press=press)


def form(compute=1.0, network=0.5, disk=0.5, data=10.0):
    return Form(constant(compute), constant(network), constant(disk), constant(data))


def fit(*forms, plausible=1, error=0.1, samples=8):
    return OccupancyFit(forms, plausible, error, samples)


def test_run_time_is_equation_1():
    made = fit(form(1.0, 0.25, 0.5, 40.0)).predict({})
    assert made.time_s == pytest.approx(40 * 1.75)
    assert made.made_of == Occupancies(1.0, 0.25, 0.5, 40.0)
    assert (made.verdict, made.doubts) == (Verdict.RELIABLE, ())


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_interval_is_laplace_s_of_log_time_with_a_scale_known_from_so_many(level):
    """Of the next error the share beyond x is (1 + x / (n mean))^-n; of many, exp(-x / mean)."""
    made = fit(form(), error=0.2, samples=6).predict({}, level)
    reach = 0.2 * 6 * ((1 - level) ** (-1 / 6) - 1)
    assert made.level == level
    assert made.low_s == pytest.approx(20 * exp(-reach))
    assert made.high_s == pytest.approx(20 * exp(reach))
    many = fit(form(), error=0.2, samples=10**6).predict({}, level)
    assert many.high_s == pytest.approx(20 / exp(0.2 * log(1 - level)), rel=1e-4)


def test_of_three_forms_the_middle_one_is_reported_and_of_two_the_better():
    fast, slow, middle = form(1.0), form(9.0), form(3.0)
    for order in ((fast, slow, middle), (middle, fast, slow), (slow, middle, fast)):
        assert fit(*order, plausible=3).predict({}).made_of.compute_s == 3.0
    assert fit(slow, fast, plausible=2).predict({}).made_of.compute_s == 9.0


def test_the_interval_holds_what_each_plausible_form_says():
    """Each may be off by the hundredth by which two runs of the same differ."""
    same = exp(0.01)
    made = fit(form(3.0), form(1.0), form(9.0), plausible=3, error=1e-9).predict({})
    assert (made.low_s * same, made.high_s / same) == (pytest.approx(20), pytest.approx(100))
    made = fit(form(3.0), form(1.0), form(9.0), plausible=1, error=1e-9).predict({})
    assert (made.low_s * same, made.high_s / same) == (pytest.approx(40), pytest.approx(40))
    made = fit(form(1.0), form(3.0), form(9.0), plausible=1, error=1e-9).predict({})
    assert made.time_s == pytest.approx(40)
    assert (made.low_s * same, made.high_s / same) == (pytest.approx(20), pytest.approx(40))
    # Errors of left-out samples reach farther than forms that agree.
    made = fit(form(3.0), form(3.1), form(3.2), plausible=3, error=1.0, samples=10**6)
    made = made.predict({})
    assert made.high_s == pytest.approx(10 * made.time_s, rel=1e-4)


def test_forms_with_weights_say_their_mean_together():
    forms = (form(1.0, 2.0, 3.0, 4.0), form(5.0, 6.0, 7.0, 8.0), form(9.0, 9.0, 9.0, 9.0))
    made = replace(fit(*forms, plausible=3), weights=(0.5, 0.25, 0.25)).predict({})
    assert made.made_of == Occupancies(4.0, 4.75, 5.5, 6.25)
    assert made.time_s == pytest.approx(6.25 * 14.25)
    below = replace(forms[1], compute=falling())
    doubted = replace(fit(forms[0], below, forms[2]), weights=(0.3, 0.4, 0.3))
    assert doubted.predict({"x": 4.0}).verdict is Verdict.REFUSED
    doubted = replace(doubted, weights=(0.4, 0.3, 0.3))
    assert doubted.predict({"x": 4.0}).verdict is Verdict.RELIABLE


@pytest.mark.parametrize("count", [11, 12])
def test_from_twelve_samples_on_forms_count_by_their_left_out_errors(monkeypatch, count):
    """Weights go with the fourth power of errors and half a hundredth; a bottleneck counts four."""
    demand = Demand(constant(0.0), 0.0, 1.0, (4.0,), (1.0,))
    off = (0.015, 0.025, 0.035)
    fixed = [form(exp(one), 0.0, 0.0, 10.0) for one in off]
    fixed[1] = replace(fixed[1], bottleneck=Bottleneck((demand,)))
    samples = [Sample({"x": 1.0 + n}, Occupancies(1.0, 0.0, 0.0, 10.0)) for n in range(count)]
    monkeypatch.setattr(OccupancyModel, "forms", lambda *_: fixed)
    made = OccupancyModel().fit(samples)
    if count < 12:
        assert made.weights == ()
        assert made.left_out == pytest.approx([0.025] * count)
        return
    weights = [16.0, 4 * (2 / 3) ** 4 * 16, 1.0]
    assert made.weights == pytest.approx([one / sum(weights) for one in weights])
    mean = sum(one * exp(each) for one, each in zip(made.weights, off, strict=True))
    assert made.left_out == pytest.approx([log(mean)] * count)


def test_a_bottleneck_sets_the_stall_and_how_long_it_may_be():
    demand = Demand(constant(4.0), 0.5, 1.0, (4.0,), (6.0,))
    limited = replace(form(1.0, 0.3, 0.1), bottleneck=Bottleneck((demand,)))
    made, low, high = limited.occupancies({})
    assert (made.network_s, made.disk_s) == (pytest.approx(0.75 * 3.5), pytest.approx(0.25 * 3.5))
    assert low.network_s + low.disk_s == pytest.approx(3.5)
    assert high.network_s + high.disk_s == pytest.approx(5.5)
    alone = replace(form(1.0, 0.0, 0.0), bottleneck=Bottleneck((demand,)))
    made, *_ = alone.occupancies({})
    assert made.network_s == made.disk_s == pytest.approx(1.75)
    assert fit(limited).best.bottleneck is limited.bottleneck
    assert fit(form(), limited).best.bottleneck is None


def falling(press=0.0):
    return Function({"x": 1.0}, 1.0, 3.0, (Term("x", Shape.LINEAR),), (-1.0,), press)


def test_functions_below_zero_are_refused():
    own = replace(form(), compute=falling())
    assert fit(own).predict({"x": 2.0}).verdict is Verdict.RELIABLE
    made = fit(own).predict({"x": 4.0})
    assert made.verdict is Verdict.REFUSED
    assert made.doubts == ("the learned compute occupancy falls below zero there",)
    flow = replace(form(), data=falling())
    assert fit(flow).predict({"x": 4.0}).doubts == ("the learned data flow falls below zero there",)
    # Within what its errors are, a function near zero is just near zero.
    near = replace(form(), compute=falling(press=0.6))
    assert fit(near).predict({"x": 4.0}).verdict is Verdict.RELIABLE
    assert fit(near).predict({"x": 4.3}).verdict is Verdict.REFUSED


def test_no_time_at_all_is_refused():
    made = fit(form(0.0, 0.0, 0.0)).predict({})
    assert made.doubts == ("the learned run time falls to zero there",)
    assert made.verdict is Verdict.REFUSED
    assert 0 < made.low_s <= made.time_s <= made.high_s < 1e-8


def test_what_is_beyond_the_samples_widens_the_interval():
    own = replace(fit(form(), error=0.1), support=Support({"x": (1.0, 4.0)}, ("x",)))
    inside, beyond = own.predict({"x": 2.0}), own.predict({"x": 8.0})
    assert beyond.verdict is Verdict.DOUBTFUL
    assert "x 8 is outside what was run" in beyond.doubts[0]
    factor = 1 + log(2) / log(4)
    assert beyond.high_s == pytest.approx(inside.high_s * factor)
    assert beyond.low_s == pytest.approx(inside.low_s / factor)


def test_a_billionth_of_the_clock_is_refused_and_of_a_latency_it_is_not():
    """From 1 to 6 a billionth is two fifths of the range away, and was 10^10 s "doubtful"."""
    levels = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    clock = [Sample({"cpu": x}, Occupancies(1e-8 / x, 0.0, 0.0, 1e9)) for x in levels]
    delay = [Sample({"lat": x}, Occupancies(1e-8, 1e-9 * x, 0.0, 1e9)) for x in levels]
    for model in (OccupancyModel(), LinearOccupancyModel(faster=frozenset({"cpu"}))):
        assert model.fit(clock).support.inverse == ("cpu",)
        assert model.fit(clock).predict({"cpu": 1e-9}).verdict is Verdict.REFUSED
        assert model.fit(clock).predict({"cpu": 0.5}).verdict is Verdict.DOUBTFUL
        near = model.fit(delay).predict({"lat": 1e-9})
        assert (near.verdict, near.time_s) == (Verdict.DOUBTFUL, pytest.approx(10.0))


def test_the_error_has_a_prior_that_counts_as_one_sample():
    samples = [Sample({"x": float(n)}, Occupancies(1.0, 0.0, 0.0, 10.0)) for n in (1, 2, 3, 4)]
    off = (0.1, -0.2, 0.0, 0.3)
    predicted = [Occupancies(exp(one), 0.0, 0.0, 10.0) for one in off]
    made = judged_by(fit(form()), samples, predicted)
    # Three quarters of the errors, as the model has four samples and those that erred had three.
    assert made.error == pytest.approx((0.75 * 0.6 + 0.35 / 4) / 5)
    assert made.left_out == pytest.approx(off)
    assert made.predicted == tuple(predicted)
    assert made.support.bounds == {"x": (1.0, 4.0)}
    single = judged_by(fit(form()), samples[:1], [samples[0].measured])
    assert single.error == pytest.approx(0.35 / 2)
    # A prediction of nothing counts as a thousandth.
    none = judged_by(fit(form()), samples[:1], [Occupancies(0.0, 0.0, 0.0, 1.0)])
    assert none.left_out == pytest.approx((log(1e-3),))


def runs(of, xs=(1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0)):
    return [Sample({"x": x}, Occupancies(of(x), 0.0, 0.1, 10.0)) for x in xs]


def test_attributes_with_which_run_time_falls_take_part_as_reciprocals():
    made = OccupancyModel().fit(runs(lambda x: 0.5 + 6 / x))
    assert all(str(t) == "1/x" for one in made.forms for t in one.compute.terms)
    assert made.predict({"x": 5.0}).time_s == pytest.approx(10 * (0.6 + 6 / 5))
    rising = OccupancyModel().fit(runs(lambda x: 0.5 + 6 * x))
    assert all(str(t) == "x" for one in rising.forms for t in one.compute.terms)
    assert rising.predict({"x": 5.0}).time_s == pytest.approx(10 * (0.6 + 30))
    reported = LinearOccupancyModel(faster=frozenset({"x"})).fit(runs(lambda x: 0.5 + 6 / x))
    assert [str(term) for term in reported.best.compute.terms] == ["1/x"]
    assert transformation("x", frozenset({"x"})) == Term("x", Shape.INVERSE)
    assert transformation("x", frozenset()) == Term("x", Shape.LINEAR)


def test_a_form_that_predicts_left_out_runs_far_better_decides_alone():
    """A product is no sum.  Where all are as good, all of them are plausible."""
    straight = OccupancyModel().fit(runs(lambda x: 1 + 2 * x))
    assert len(straight.forms) == straight.plausible == 3
    rng = [1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 0.99, 1.0]
    both = [
        Sample({"x": x, "y": y}, Occupancies(5.0 / x / y * e, 0.0, 0.001, 10.0))
        for (x, y), e in zip(
            ((1.0, 1.0), (2.0, 1.0), (4.0, 1.0), (1.0, 3.0), (2.0, 3.0), (4.0, 3.0), (4.0, 2.0),
             (1.0, 2.0)),
            rng, strict=True,
        )
    ]  # fmt: skip
    product = OccupancyModel().fit(both)
    assert len(product.forms) == product.plausible == 1
    assert product.best.compute.terms[0].times is not None
    assert product.predict({"x": 2.0, "y": 2.0}).time_s == pytest.approx(12.5, rel=0.05)


def test_each_function_has_the_attributes_that_are_given():
    samples = [
        Sample({"x": x, "y": y}, Occupancies(1 + x + y, x + y, x + 2 * y, 10 * (x + y)))
        for x, y in ((1.0, 1.0), (2.0, 3.0), (3.0, 1.0), (4.0, 2.0), (5.0, 5.0), (6.0, 1.0))
    ]
    for model in (
        OccupancyModel(("x",), ("y",), (), ("x",)),
        LinearOccupancyModel(("x",), ("y",), (), ("x",)),
    ):
        for one in model.fit(samples).forms:
            named = [{*part.reference} for part in (one.compute, one.network, one.disk, one.data)]
            assert [own - {"compute"} for own in named] == [{"x"}, {"y"}, set(), {"x"}]


@pytest.mark.parametrize(
    ("predicted", "actual", "whole", "error"),
    [
        (3.0, 2.0, 10.0, 50.0),
        (1.0, 2.0, 10.0, 50.0),
        (0.0, 0.0, 10.0, 0.0),
        (1e-6, 0.0, 10.0, 0.0),
        (2e-5, 0.0, 10.0, 100.0),
        (2e-5, 1.9e-5, 10.0, 100 * 0.1 / 1.9),
    ],
)
def test_percentage_errors_of_occupancies(predicted, actual, whole, error):
    assert percentage_error(predicted, actual, whole) == pytest.approx(error)


def test_errors_of_the_four_functions():
    actual = [Occupancies(1.0, 2.0, 0.0, 10.0), Occupancies(2.0, 2.0, 0.0, 10.0)]
    predicted = [Occupancies(1.5, 2.0, 0.0, 9.0), Occupancies(2.0, 1.0, 1.0, 10.0)]
    assert part_errors(predicted, actual) == pytest.approx(
        {"compute_s": 25.0, "network_s": 25.0, "disk_s": 50.0, "data_bytes": 5.0}
    )


@pytest.mark.parametrize(
    ("second", "third", "forms", "plausible"),
    [
        (0.0695, 0.5, 1, 1),  # three times 0.02 and 0.01 are 0.07 ...
        (0.0705, 0.5, 1, 1),
        (0.0690, 0.5, 3, 2),  # ... up to which a form is plausible
        (0.0690, 0.0650, 3, 3),
        (0.0100, 0.0100, 3, 3),
    ],
)
def test_a_form_is_considered_up_to_three_times_the_best_error_and_a_hundredth(
    monkeypatch, second, third, forms, plausible
):
    """Forms that are off by fixed shares of log time; runs of the same differ by 0.01."""
    samples = [Sample({"x": float(n)}, Occupancies(1.0, 0.0, 0.0, 10.0)) for n in range(1, 7)]
    fixed = [form(exp(one), 0.0, 0.0, 10.0) for one in (third, 0.02 - 2e-4, second)]
    monkeypatch.setattr(OccupancyModel, "forms", lambda *_: fixed)
    made = OccupancyModel().fit(samples)
    assert (len(made.forms), made.plausible) == (forms, plausible)
    if second > 0.02:
        assert made.forms[0] is fixed[1]
    middle = sorted((0.02 - 2e-4, second, third))[1] if forms == 3 else 0.02 - 2e-4
    assert made.left_out == pytest.approx([middle] * 6)


def test_a_billionth_of_a_second_is_no_run_time():
    made = fit(form(1e-9, 0.0, 0.0, 1.0)).predict({})
    assert (made.time_s, made.verdict) == (1e-9, Verdict.REFUSED)
    assert made.doubts == ("the learned run time falls to zero there",)
    made = fit(form(1.5e-9, 0.0, 0.0, 1.0)).predict({})
    assert (made.time_s, made.verdict) == (1.5e-9, Verdict.RELIABLE)


def test_what_the_processor_has_to_do_hides_a_part_of_the_stall():
    """Network 4 less half of the 2 that the processor takes."""
    term = Term("lat", Shape.EXCEEDING, 0.5, "compute")
    hidden = Function({"lat": 1.0, "compute": 1.0}, 1.0, 0.0, (term,), (1.0,))
    made = replace(form(2.0, disk=0.0), network=hidden).occupancies({"lat": 4.0})[0]
    assert made.network_s == pytest.approx(3.0)


def timed(**times):
    """Make samples of ``x1=2.0``: x of 1 took 2 s."""
    return [
        Sample({"x": float(name[1:])}, Occupancies(time_s, 0.0, 0.0, 1.0))
        for name, time_s in times.items()
    ]


@pytest.mark.parametrize(
    ("samples", "falls"),
    [
        (timed(x1=2.0, x2=1.0), True),
        (timed(x1=1.0, x2=2.0), False),
        (timed(x1=1.0, x2=2.0, x3=1.0), False),
        (timed(x1=1.0, x2=1.0), False),
        (timed(x1=1.0), False),
    ],
)
def test_run_time_falls_with_an_attribute_where_ranks_do(samples, *, falls):
    assert OccupancyModel().fit(samples).support.inverse == (("x",) if falls else ())


@pytest.mark.parametrize(("share", "terms"), [(0.0045, 0), (0.0055, 1)])
def test_a_stall_has_terms_where_its_error_matters_beside_all_else(share, terms):
    """Left out, x of 1 to 6 is off by 2.05 in the root of the mean square, of its mean 6/5."""
    whole = 4e-6
    slope = share * whole / 2.0494
    samples = [
        Sample({"x": x}, Occupancies(whole - slope * x, slope * x, 0.0, 1e9))
        for x in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    ]
    chosen = OccupancyModel().forms(samples, {"x": 1.0}, frozenset())[0]
    assert len(chosen.network.terms) == terms


def test_errors_of_the_data_flow_count_beside_the_data_flow():
    """Runs of 10 to 10,000 bytes, one off by a fifth; each byte takes as long in all."""
    sizes = np.array([1.0, 10.0, 100.0, 1000.0, 500.0])
    flow = 10 * sizes * np.array([1.0, 1.0, 1.2, 1.0, 1.0])
    samples = [
        Sample({"size": x}, Occupancies(1.0, 0.0, 0.0, y))
        for x, y in zip(sizes.tolist(), flow.tolist(), strict=True)
    ]
    design = np.column_stack([np.ones(5), sizes]) / flow[:, None]
    constant_, slope = np.linalg.lstsq(design, np.ones(5), rcond=None)[0]
    forms = OccupancyModel(faster=frozenset()).fit(samples).forms
    assert forms[0].data({"size": 100.0}) == pytest.approx(constant_ + 100 * slope, rel=1e-6)


def test_a_demand_depends_on_the_attributes_of_the_stalls_alone():
    def run(cpu, lat):
        return Sample(
            {"cpu": cpu, "lat": lat}, Occupancies(4 / cpu, max(0.0, lat - 4 / cpu), 0.0, 1e9)
        )

    samples = [run(cpu, lat) for cpu in (1.0, 2.0, 4.0) for lat in (1.0, 3.0, 6.0)]
    for network, terms in ((("lat",), {"lat"}), (("cpu",), {"cpu"}), ((), set())):
        made = OccupancyModel(network=network, disk=network).fit(samples)
        limited = [one.bottleneck for one in made.forms if one.bottleneck]
        used = {t.attribute for one in limited for d in one.demands for t in d.function.terms}
        assert used <= terms
        assert not terms or not limited or used == terms
    straight = OccupancyModel(latency_hiding=False).fit(samples)
    hidden = [t for one in straight.forms for t in one.network.terms if t.shape is Shape.EXCEEDING]
    assert hidden == []
