"""Node-hours that bought nothing: each is counted once, under one cause; and what could return."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from predictor.types import Verdict
from sacct_ingest.records import JobState
from sacct_ingest.store import RunRow
from slurm_plugin.evaluation.diagnoses import share_at_knee
from slurm_plugin.evaluation.waste import (
    Cause,
    NodeShape,
    needs_of,
    node_hours,
    occupancy_of,
    usage_of,
)
from slurm_plugin.evaluation.waste_report import BY, WasteReport, WasteTally
from tests.predictor.rows import row, submitted
from tests.slurm_plugin.made import amdahl, table

GIB = 2**30
SHAPE = NodeShape(cpus=16, mem_bytes=64 * GIB, gpus=4)
SHAPES = {"pine/main": SHAPE}
HOUR_S = 3600.0


def run(at_s: int = 0, **given: object) -> RunRow:
    """Make a start of an hour on a whole node that uses all of its CPUs."""
    values = {
        "cpus": 16,
        "req_cpus": 16,
        "cpu_s": 16 * HOUR_S,
        "req_mem_bytes": GIB,
        "mem_bytes": GIB // 2,
        "tasks": 1,
        "submit_s": at_s,
        "start_s": at_s,
        "limit_s": 7200,
        "account": "physics",
    }
    return submitted(row(1, HOUR_S), **values | given)


def summed(runs: list[RunRow], **given: object) -> WasteReport:
    """Sum up some starts."""
    tally = WasteTally(SHAPES)
    for one in runs:
        tally.add(one)
    return tally.result(**given)


def hours(report: WasteReport) -> dict[Cause, float]:
    """Node-hours by cause."""
    return {one.cause: pytest.approx(one.node_hours) for one in report.causes}


def unused(one: RunRow) -> dict[Cause, float]:
    """What a start left, in parts of a node."""
    used = {cause: each.used for cause, each in usage_of(one).items()}
    lost = occupancy_of(one, SHAPE).unused(needs_of(used, SHAPE))
    return {cause: pytest.approx(share) for cause, share in lost.items()}


# What a start occupied, and left.


def test_parts_of_a_node_are_parts_of_a_node_hour():
    half = run(cpus=8, req_cpus=8, cpu_s=8 * HOUR_S)
    assert node_hours(half, occupancy_of(half, SHAPE)) == pytest.approx(0.5)
    assert unused(half) == {}


def test_idle_cpus_are_lost_down_to_what_was_used():
    assert unused(run(cpu_s=4 * HOUR_S)) == {Cause.CPUS: 0.75}


def test_memory_is_lost_where_it_decided_the_part_of_the_node():
    large = run(cpus=4, req_cpus=4, cpu_s=4 * HOUR_S, req_mem_bytes=48 * GIB, mem_bytes=8 * GIB)
    assert unused(large) == {Cause.MEMORY: 0.5}


def test_memory_beside_which_no_cpu_is_left_is_not_lost():
    assert unused(run(req_mem_bytes=48 * GIB, mem_bytes=GIB)) == {}


def test_cpus_beside_used_memory_are_lost_only_down_to_it():
    assert unused(run(cpu_s=HOUR_S, req_mem_bytes=32 * GIB, mem_bytes=32 * GIB)) == {
        Cause.CPUS: 0.5
    }


def test_idle_gpus_come_first():
    gpus = run(cpus=4, req_cpus=4, cpu_s=HOUR_S, gpus=4, gpu_percent=100.0)
    assert unused(gpus) == {Cause.GPUS: 0.75}


def test_what_was_not_measured_is_not_lost():
    assert unused(run(cpu_s=None)) == {}
    assert unused(run(cpu_s=HOUR_S, gpus=4, gpu_percent=None)) == {}


def test_cpus_that_slurm_gave_are_nothing_that_the_job_asked_for():
    assert unused(run(req_cpus=4, cpu_s=HOUR_S)) == {
        Cause.WHOLE_NODES: 0.75,
        Cause.CPUS: 0.25 - 1 / 16,
    }


# What bought nothing as a whole.


def failed(at_s: int, **given: object) -> RunRow:
    return run(at_s, state=JobState.FAILED, elapsed_s=60.0, cpu_s=16 * 60.0, **given)


def test_the_first_failure_is_no_waste_and_those_after_it_are():
    report = summed([failed(n * 1000) for n in range(4)])
    assert hours(report) == {Cause.FAILED: 3 / 60}
    assert (report.back_low, report.back, report.back_high) == pytest.approx(
        (1 / 60, 2 / 60, 3 / 60)
    )


def test_tasks_that_fail_together_could_not_be_stopped():
    assert hours(summed([failed(n) for n in range(4)])) == {}


def test_a_success_in_between_ends_a_row_of_failures():
    runs = [failed(0), run(1000), failed(6000)]
    assert hours(summed(runs)) == {}


def test_a_late_failure_may_have_left_what_it_was_for():
    runs = [run(0), *(run(5000 * n, state=JobState.FAILED) for n in (1, 2, 3))]
    assert hours(summed(runs)) == {}


def test_jobs_without_a_name_do_not_fail_again():
    assert hours(summed([failed(n * 1000, name="") for n in range(4)])) == {}


def test_a_second_lack_of_the_same_memory_could_have_been_helped():
    short = JobState.OUT_OF_MEMORY
    report = summed([run(n * 5000, state=short) for n in range(3)])
    assert hours(report) == {Cause.OUT_OF_MEMORY: 3}
    assert (report.back_low, report.back, report.back_high) == pytest.approx((1, 2, 3))
    more = summed([run(n * 5000, state=short, req_mem_bytes=(1 + n) * GIB) for n in range(3)])
    assert more.back == 0


def test_what_the_cluster_stopped_is_nothing_that_users_could_have_back():
    report = summed([run(state=JobState.NODE_FAIL), run(5000, state=JobState.PREEMPTED)])
    assert hours(report) == {Cause.STOPPED: 2}
    assert (report.back, report.back_high) == (0, 0)


def timeout(at_s: int, **given: object) -> RunRow:
    return run(at_s, state=JobState.TIMEOUT, limit_s=3600, **given)


def test_a_run_that_took_longer_than_its_limit_had_begun_anew():
    report = summed([timeout(0), run(5000, elapsed_s=5400.0, cpu_s=16 * 5400.0)])
    assert hours(report) == {Cause.TIMEOUT: 1}
    assert (report.back_low, report.back, report.back_high) == pytest.approx((1, 1, 1))


def test_a_shorter_run_went_on_from_what_was_saved():
    assert hours(summed([timeout(0), run(5000, elapsed_s=1800.0, cpu_s=16 * 1800.0)])) == {}


def test_what_nothing_followed_may_come_back():
    report = summed([timeout(0), timeout(5000)])
    assert hours(report) == {Cause.TIMEOUT: 2}
    assert report.back_low == 0 < report.back < report.back_high


def test_jobs_that_run_until_their_limit_by_design_lose_nothing():
    lines = {"submit_line": "sbatch --signal=B:USR1@120 solve.sh"}
    assert hours(summed([timeout(n * 5000, **lines) for n in range(6)])) == {}


# What could come back.


def test_advice_follows_from_three_jobs_before():
    idle = [run(n * 5000, cpu_s=4 * HOUR_S) for n in range(5)]
    report = summed(idle)
    assert hours(report) == {Cause.CPUS: 5 * 0.75}
    # Five CPUs, with a margin on four, of the two that came after three.
    assert report.back == pytest.approx(2 * 11 / 16)


def test_advice_that_is_too_little_memory_costs_the_run():
    def job(n: int, used_gib: int) -> RunRow:
        values = {"cpus": 1, "req_cpus": 1, "cpu_s": HOUR_S, "req_mem_bytes": 32 * GIB}
        return run(n * 5000, mem_bytes=used_gib * GIB, **values)

    steady = summed([job(n, 10) for n in range(5)])
    assert steady.back == pytest.approx(2 * (32 - 12) / 64)
    grown = summed([*(job(n, 10) for n in range(4)), job(4, 20)])
    # One came back, and the one that was short is lost.
    assert grown.back == 0
    assert grown.back_low == 0 <= grown.back_high


def test_of_whole_nodes_whole_ones_come_back():
    whole = {"pine/main": replace(SHAPE, whole=True)}
    tally, pair = WasteTally(whole), WasteTally(whole)
    for n in range(5):
        tally.add(run(n * 5000, cpu_s=4 * HOUR_S))
        pair.add(run(n * 5000, nodes=2, cpus=32, req_cpus=32, cpu_s=8 * HOUR_S))
    assert tally.result().back == 0
    assert pair.result().back == pytest.approx(2.0)


def test_nodes_beyond_the_knee_are_lost_and_what_is_left_of_them_is_not_lost_again():
    runs = [run(n * 5000, nodes=16, cpus=256, req_cpus=256, cpu_s=HOUR_S * 64) for n in range(2)]
    tally = WasteTally(SHAPES, at_knee=lambda _: (0.5, 0.4, 0.6))
    for one in runs:
        tally.add(one)
    report = tally.result()
    # At the knee 64 CPUs would have been busy in half of the node-hours: half of these are idle.
    assert hours(report) == {Cause.KNEE: 16, Cause.CPUS: 8}


def test_the_share_at_the_knee_follows_from_a_reliable_curve():
    curve = table(amdahl(100, 3600), knee=8)
    value, low, high = share_at_knee(curve, 16)
    assert value == pytest.approx(8 * 550 / (16 * 325))
    assert low <= value <= high <= 1
    assert share_at_knee(curve, 8) is None
    assert share_at_knee(replace(curve, verdict=Verdict.DOUBTFUL, verdicts=()), 16) is None


# Any history.


def history(seed: int) -> Iterator[RunRow]:
    """Make a history of anything, with values that the accounting does not have."""
    rng = Random(seed)
    at_s = 0
    states = [*JobState, *[JobState.COMPLETED] * 12, *[JobState.FAILED] * 3, JobState.TIMEOUT]
    for _ in range(rng.randint(0, 150)):
        at_s += rng.choice([0, 1, 600, 9000, 90_000])
        nodes, elapsed_s = rng.choice([0, 1, 1, 1, 2, 16]), rng.choice([0.0, 1.0, 600.0, 9000.0])
        cpus = nodes * rng.choice([1, 2, 8, 16, 40])
        yield submitted(
            row(nodes, elapsed_s, rng.choice(states)),
            submit_s=at_s,
            start_s=rng.choice([None, at_s, at_s + 500, at_s + 20_000]),
            user=rng.choice(["ann", "bob"]),
            name=rng.choice(["solve", "md", ""]),
            account=rng.choice(["physics", ""]),
            partition=rng.choice(["main", "gpu", "new"]),
            cpus=cpus,
            req_cpus=rng.choice([None, 0, cpus, cpus // 2, 1]),
            cpu_s=rng.choice([None, 0.0, cpus * elapsed_s, cpus * elapsed_s / 7, 1e9]),
            tasks=rng.choice([None, 0, 1, nodes, 64]),
            gpus=rng.choice([None, None, 0, 1, 4 * nodes]),
            gpu_percent=rng.choice([None, 0.0, 50.0, 9000.0]),
            req_mem_bytes=rng.choice([None, 0, GIB, 64 * GIB * nodes, 2**50]),
            mem_bytes=rng.choice([None, 0, GIB, 2**50]),
            limit_s=rng.choice([None, 0, 60, 9000]),
        )


@pytest.mark.parametrize("seed", range(300))
def test_causes_sum_up_to_the_total_and_nothing_is_lost_that_was_not_used(seed):
    rng, runs = Random(seed), list(history(seed))
    shapes = {"pine/main": replace(SHAPE, whole=rng.random() < 0.3), "pine/gpu": NodeShape()}
    draw = lambda: sorted(rng.random() for _ in range(3))  # noqa: E731

    def at_knee(_: RunRow) -> tuple[float, float, float] | None:
        low, value, high = draw()
        return (value, low, high) if rng.random() < 0.2 and value > 0 else None

    by = rng.choice(BY)
    tally = WasteTally(shapes, at_knee=at_knee)
    for one in runs:
        tally.add(one)
    report = tally.result(by=by)
    used = sum(
        one.nodes * one.elapsed_s / HOUR_S
        for one in runs
        if one.start_s is not None and one.state.ended
    )
    assert report.node_hours <= used + 1e-6
    assert sum(one.node_hours for one in report.causes) == pytest.approx(report.wasted)
    assert report.wasted <= report.node_hours + 1e-6
    for one in (report, *report.causes, *report.groups):
        wasted = getattr(one, "wasted", one.node_hours)
        assert 0 <= one.back_low <= one.back <= one.back_high <= wasted + 1e-6
    for name in ("node_hours", "wasted", "starts"):
        total = sum(getattr(one, name) for one in report.groups)
        assert total == pytest.approx(getattr(report, name))
    assert all(one.wasted <= one.node_hours + 1e-6 for one in report.groups)


def test_each_start_loses_no_more_than_it_had():
    for seed in range(100):
        for one in history(1000 + seed):
            report = summed([one])
            assert report.wasted <= report.node_hours + 1e-9


def test_what_has_not_ended_says_nothing_of_what_could_come_back():
    """An array of tasks that all began at once could not have asked for less; a later one could."""
    idle = {"cpu_s": HOUR_S, "req_mem_bytes": None}
    together = [run(0, **idle) for _ in range(50)]
    assert summed(together).back == 0
    later = [*together, run(7200, **idle)]
    assert summed(later).back == pytest.approx(14 / 16)
