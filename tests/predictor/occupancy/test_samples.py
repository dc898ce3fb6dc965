"""Samples: occupancies of runs, and what cannot be learned from."""

from math import inf, nan

import pytest

from predictor.occupancy.samples import Occupancies, Sample, checked, from_the_others, occupancies

GOOD = Occupancies(1.0, 2.0, 3.0, 4.0)


def sample(**attributes: float) -> Sample:
    return Sample(attributes, GOOD)


def test_algorithm_3_of_the_paper():
    """U = o_a / (o_a + o_s), D/T = 1 / (o_a + o_s), o_s split in proportion (VLDB 2006)."""
    made = occupancies(0.25, 80.0, 16.0, network_share=0.2)
    assert made == Occupancies(pytest.approx(1.25), pytest.approx(0.75), pytest.approx(3.0), 16.0)
    assert made.each_s == pytest.approx(80.0 / 16.0)
    assert made.time_s == pytest.approx(80.0)
    assert made.compute_s / made.each_s == pytest.approx(0.25)
    assert occupancies(1.0, 2.0, 1.0) == Occupancies(2.0, 0.0, 0.0, 1.0)
    assert occupancies(0.0, 2.0, 1.0, network_share=1.0) == Occupancies(0.0, 2.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("utilisation", "time_s", "data_bytes", "share"),
    [
        *((bad, 1.0, 1.0, 0.0) for bad in (-0.1, 1.1, nan, inf)),
        *((0.5, bad, 1.0, 0.0) for bad in (0.0, -1.0, nan, inf)),
        *((0.5, 1.0, bad, 0.0) for bad in (0.0, -1.0, nan, inf)),
        *((0.5, 1.0, 1.0, bad) for bad in (-0.1, 1.1, nan)),
    ],
)
def test_measurements_out_of_range(utilisation, time_s, data_bytes, share):
    with pytest.raises(ValueError, match="have to be"):
        occupancies(utilisation, time_s, data_bytes, network_share=share)


def test_the_reference_is_the_first_sample_or_as_given():
    assert checked([sample(cpu=2.0), sample(cpu=3.0)]) == {"cpu": 2.0}
    assert checked([sample(cpu=2.0)], {"cpu": 5.0}) == {"cpu": 5.0}


@pytest.mark.parametrize(
    ("samples", "reference", "why"),
    [
        ([], None, "no sample to learn from"),
        ([sample(cpu=0.0)], None, "attribute cpu is 0.0"),
        ([sample(cpu=1.0), sample(cpu=nan)], None, "attribute cpu is nan"),
        ([sample(cpu=1.0), sample(cpu=inf)], None, "attribute cpu is inf"),
        ([sample(cpu=1.0)], {"cpu": -1.0}, "attribute cpu is -1.0"),
        ([sample(cpu=1.0), sample(mem=1.0)], None, "attribute cpu is given for some samples only"),
        ([sample(cpu=1.0), sample(cpu=1.0, mem=1.0)], None, "attribute mem is given for some"),
        ([sample(cpu=1.0)], {"mem": 1.0}, "is given for some samples only"),
    ],
)
def test_samples_that_cannot_be_learned_from(samples, reference, why):
    with pytest.raises(ValueError, match=why):
        checked(samples, reference)


@pytest.mark.parametrize(
    "result",
    [
        Occupancies(-1.0, 2.0, 3.0, 1.0),
        Occupancies(1.0, nan, 3.0, 1.0),
        Occupancies(1.0, 2.0, inf, 1.0),
        Occupancies(1.0, 2.0, 3.0, 0.0),
        Occupancies(1.0, 2.0, 3.0, nan),
        Occupancies(1.0, 2.0, 3.0, inf),
        Occupancies(0.0, 0.0, 0.0, 1.0),
        Occupancies(1e300, 0.0, 0.0, 1e300),
    ],
)
def test_occupancies_that_no_run_has(result):
    with pytest.raises(ValueError, match="cannot be learned from"):
        checked([Sample({"cpu": 1.0}, result)])


def test_a_stall_of_nothing_is_a_run_like_others():
    assert checked([Sample({"cpu": 1.0}, Occupancies(1.0, 0.0, 0.0, 1.0))]) == {"cpu": 1.0}


@pytest.mark.parametrize(("count", "left_out"), [(2, 1), (3, 1), (24, 1), (25, 2), (60, 3)])
def test_each_sample_is_learned_from_the_others_alone(count, left_out):
    """Leave-one-out; more than 24 samples are left out in 24 groups: the cost is linear."""
    samples = [sample(cpu=float(n + 1)) for n in range(count)]
    asked = []

    def learn(rest: list[Sample]) -> set[float]:
        asked.append(len(rest))
        return {one.attributes["cpu"] for one in rest}

    made = from_the_others(samples, learn)
    assert len(made) == count
    for one, rest in zip(samples, made, strict=True):
        assert one.attributes["cpu"] not in rest
    assert min(asked) == count - left_out
    assert len(asked) == min(count, 24)
    # All others take part somewhere.
    assert set.union(*made) == {one.attributes["cpu"] for one in samples}


def test_a_single_sample_is_learned_from_itself():
    assert from_the_others([sample(cpu=1.0)], len) == [1]
