"""Links between places, and copies over them."""

import pytest

from predictor.occupancy.application_model import OccupancyModel, Sample, occupancies
from predictor.types import Verdict
from sacct_ingest.records import Probe, Resource
from sacct_ingest.store import Store
from slurm_plugin.experiments.plan.run_times import (
    BANDWIDTH,
    GUESSED,
    LATENCY,
    Copies,
    LearnedRunTimes,
    TransferPath,
)
from tests.slurm_plugin.experiments.plan.made import NOW
from tests.slurm_plugin.experiments.plan.polled_site import TEXT, flow, places, problem_of


def test_a_link_without_a_latency_has_the_measured_one(slurm, tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/nimo.db") as store:
        store.probes.add(
            Probe(resource=Resource.LATENCY, source="n1", target="t", at_s=NOW - at, value=2e-3)
            for at in (30.0, 20.0, 10.0)
        )
    slurm.gives(*places(a="1", b="2", c="3"))
    text = TEXT.replace(
        "storages: {s: {path: /s}}",
        "storages: {s: {path: /s, host: n1}, t: {path: /t}}\nlinks: [{from: s, to: t}]",
    )
    links = problem_of(flow(text), tmp_path).workflow.links
    assert links["s", "t"].latency_s == 2e-3
    assert links["t", "s"].latency_s is None


def test_of_several_ways_the_slowest_counts():
    """A run takes its latency in milliseconds, and a second beside each 50 bytes a second."""
    near = {LATENCY: 1e-3, BANDWIDTH: 100.0}
    samples = [
        Sample({LATENCY: 1e-3 * a, BANDWIDTH: 100.0 / b}, occupancies(0.5, float(a * b), 1.0))
        for a in (1, 2, 5, 10)
        for b in (1, 2, 4)
    ]
    fit = OccupancyModel().fit(samples)
    runs = LearnedRunTimes(tables={}, fits={"x": fit}, near=near)
    task, place = flow().tasks["x"], flow().places["a"]

    def time_s(*ways):
        made = runs.run(task, place, 1, ways)
        return made.time_s

    ways = TransferPath(1.0, 100.0, 0.01), TransferPath(1.0, 50.0, 0.002)
    assert time_s(*ways) == time_s(TransferPath(1.0, 50.0, 0.01)) > 1.5 * max(map(time_s, ways))
    assert time_s() == time_s(TransferPath(1.0, 100.0, 1e-3))


def test_a_copy_takes_latency_and_bandwidth_or_what_was_measured():
    text = TEXT.replace(
        "storages: {s: {path: /s}}",
        "storages: {s: {path: /s, host: n1}, t: {path: /t}}\n"
        "links: [{from: s, to: t, bandwidth: 1M, latency: 3s}]",
    )
    asked = []

    class Time:
        def __init__(self, time_s, verdict=Verdict.RELIABLE):
            self.time_s, self.low_s, self.high_s = time_s, time_s / 2, time_s * 2
            self.verdict, self.transfers, self.problems = verdict, 0, ()

    def copies(made, given=text):
        return Copies(flow=flow(given), measured=lambda *ask: asked.append(ask) or made)

    reported = copies(Time(0.0)).copy(5 * 2.0**20, "s", "t")
    assert (reported.time_s, reported.down, reported.up) == (8.0, GUESSED, GUESSED)
    empty = copies(Time(0.0), text.replace(", latency: 3s", "")).copy(0.0, "s", "t")
    assert empty.time_s == 1e-3
    asked.clear()
    probed = text.replace("bandwidth: 1M, ", "")
    measured = copies(Time(40.0), probed).copy(9.0, "s", "t")
    assert (measured.time_s, measured.quantile(0.05)) == (40.0, pytest.approx(20.0))
    assert asked == [(9.0, "n1", "t")]
    nothing = copies(Time(0.0), probed).copy(0.0, "s", "t")
    assert (nothing.time_s, nothing.up) == (1e-3, 0.0)
    assert copies(Time(40.0, Verdict.REFUSED), probed).copy(9.0, "s", "t") is None
