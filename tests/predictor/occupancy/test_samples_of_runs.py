"""Samples out of ingested runs."""

from math import inf, nan

import pytest

from predictor.occupancy.application_model import OccupancyModel
from predictor.occupancy.samples import (
    MOST,
    Occupancies,
    Sample,
    checked,
    from_the_others,
    history_samples,
    occupancies,
)
from sacct_ingest.records import JobState, KeyLevel, NodeProfile
from sacct_ingest.store import Store
from tests.sacct_ingest.records import scaling_runs, step

pytestmark = pytest.mark.kernels


class Row:
    """A stored run with only what is looked at."""

    def __init__(self, run_id, **given):
        self.run_id = run_id
        fields = {"state": JobState.COMPLETED, "nodes": 1, "cpus": 4, "elapsed_s": 100.0}
        for name, value in {**fields, "node_type": "", **given}.items():
            setattr(self, name, value)


def profile(node_type, **figures):
    return NodeProfile(cluster="pine", node=node_type, node_type=node_type, at_s=1.0, **figures)


def steps(rows, **given):
    return {one.run_id: [step(nodes=one.nodes, tasks=one.cpus, **given)] for one in rows}


def test_a_run_becomes_its_occupancies():
    rows = [Row(1, nodes=2, cpus=8), Row(2, nodes=4, cpus=16, elapsed_s=50.0)]
    own = steps(rows, cpu_s=400.0, disk_read_bytes=600, disk_write_bytes=400)
    first, second = history_samples(rows, own)
    assert dict(first.attributes) == {"nodes": 2.0}
    assert first.measured.data_bytes == 1000.0
    assert first.measured.compute_s == pytest.approx(0.5 * 100 / 1000)
    assert first.measured.disk_s == pytest.approx(0.5 * 100 / 1000)
    assert second.measured.time_s == pytest.approx(50.0)


def test_what_differs_is_an_attribute_and_the_node_count_always():
    rows = [Row(1, cpus=4, node_type="old"), Row(2, cpus=8, node_type="new")]
    profiles = [
        profile("old", cpu_events_per_s=100.0, mem_bandwidth_bytes_per_s=5e9),
        profile("new", cpu_events_per_s=200.0, mem_bandwidth_bytes_per_s=5e9),
    ]
    made = history_samples(rows, steps(rows), profiles)
    assert [dict(one.attributes) for one in made] == [
        {"nodes": 1.0, "cpus": 4.0, "cpu_events_per_s": 100.0},
        {"nodes": 1.0, "cpus": 8.0, "cpu_events_per_s": 200.0},
    ]
    unknown = [*rows, Row(3, cpus=8)]
    made = history_samples(unknown, steps(unknown), profiles)
    assert [set(one.attributes) for one in made] == [{"nodes", "cpus"}] * 3


def test_runs_that_failed_or_took_no_time_are_none():
    rows = [
        Row(1), Row(2, state=JobState.FAILED), Row(3, elapsed_s=0.0), Row(4, nodes=0),
        Row(5, cpus=0),
    ]  # fmt: skip
    assert len(history_samples(rows, steps(rows))) == 1
    assert history_samples([], {}) == []


def test_the_newest_are_learned_from():
    rows = [Row(n, nodes=n) for n in range(1, MOST + 11)]
    made = history_samples(rows, steps(rows))
    assert len(made) == MOST
    assert made[0].attributes["nodes"] == 11.0


@pytest.mark.parametrize("what", ["cpu_s", "disk_read_bytes"])
def test_runs_without_what_most_have_are_left_out(what):
    rows = [Row(1), Row(2), Row(3)]
    own = steps(rows, cpu_s=40.0, disk_read_bytes=5, disk_write_bytes=None)
    own[3] = [step(**{"cpu_s": 40.0, "disk_read_bytes": 5, "disk_write_bytes": None, what: None})]
    assert len(history_samples(rows, own)) == 2
    own[2] = own[3]
    made = history_samples(rows, own)
    assert len(made) == 3
    if what == "cpu_s":
        assert all(one.measured.disk_s == 0.0 for one in made)
    else:
        assert all(one.measured.data_bytes == 1.0 for one in made)


def test_history_on_a_real_store_is_learned(tmp_path):
    with Store.open(f"sqlite:///{tmp_path / 'nimo.db'}") as store:
        store.runs.add(scaling_runs())
        rows = store.runs.of_key(KeyLevel.TAG, "ada/solve")
        assert [one.nodes for one in rows] == [1, 2, 3, 4, 6, 8]
        assert store.runs.of_key(KeyLevel.TAG, "other") == []
        made = history_samples(rows, store.runs.steps_of(one.run_id for one in rows))
    fit = OccupancyModel().fit(made)
    assert fit.predict({"nodes": 5.0}).time_s == pytest.approx(100.0, rel=0.05)


GOOD = Occupancies(1.0, 2.0, 3.0, 4.0)


def sample(**attributes):
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

    def learn(rest):
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
