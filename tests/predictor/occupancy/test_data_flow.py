"""The unit of data flow is chosen by evidence, and what was measured is possible."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.occupancy.application_model import OccupancyModel, Sample, occupancies
from predictor.occupancy.data_flow import COUNTED, NONE, WHOLE, EvidenceModel
from predictor.occupancy.powers import PowerModel

pytestmark = pytest.mark.kernels

MODEL = EvidenceModel(OccupancyModel(), ("size",))
PLACES = [
    {"cpus": cpus, "size": size} for cpus, size in product((1.0, 2.0, 4.0), (1e9, 2e9, 3e9, 8e9))
]


def runs(time_of, bytes_of, places=PLACES):
    return [Sample(a, occupancies(0.9, time_of(a), bytes_of(a))) for a in places]


def shared(a):
    return 3 + 16e-9 * a["size"] / a["cpus"]


def test_bytes_that_miss_some_lose_to_the_size_of_the_input():
    rng = np.random.default_rng(1)
    fit = MODEL.fit(runs(shared, lambda a: a["size"] * rng.uniform(0.2, 1.1)))
    errors = {one.name: one.left_out for one in fit.units}
    assert errors[fit.unit] < 0.01 < errors[COUNTED]
    assert fit.unit != COUNTED
    assert set(errors) == {"size", COUNTED, NONE, WHOLE}


def test_a_power_of_each_attribute_is_known_from_few_runs():
    def law(a):
        return 40 * (a["size"] / 1e9) ** 1.2 / a["cpus"] ** 0.8

    fit = MODEL.fit(runs(law, lambda _: 1.0, PLACES[::2]))
    assert fit.unit == WHOLE
    assert fit.attributes == ("cpus", "size")
    for one in PLACES:
        assert fit.predict(one).time_s == pytest.approx(law(one), rel=0.02)
    assert "cpus^-0." in str(fit.best.compute)


def test_a_constant_beside_the_powers_is_found():
    fit = PowerModel().fit(runs(shared, lambda _: 1.0))
    for one in PLACES:
        assert fit.predict(one).time_s == pytest.approx(shared(one), rel=0.05)


def test_with_few_runs_the_likeliest_unit_is_taken():
    fit = MODEL.fit(runs(shared, lambda _: 5e8, PLACES[:3]))
    assert (fit.unit, [one.name for one in fit.units]) == ("size", ["size"])


@settings(max_examples=20)  # each is a fit
@given(
    st.lists(
        st.tuples(
            st.sampled_from(PLACES), st.sampled_from([0.0, 0.5, 0.9, 1.0]), st.floats(0.1, 1e6)
        ),
        min_size=1,
        max_size=8,
    )
)
def test_what_was_measured_is_never_outside_its_interval(runs):
    samples = [Sample(place, occupancies(used, time_s, 1e9)) for place, used, time_s in runs]
    fit = MODEL.fit(samples)
    for one in samples:
        made = fit.predict(one.attributes)
        assert made.low_s <= one.measured.time_s <= made.high_s
        assert made.low_s <= made.time_s <= made.high_s
