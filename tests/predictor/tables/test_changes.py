"""Runs beside what was asked for them."""

import math
from dataclasses import replace

import pytest
from scipy.special import ndtri, stdtrit

from predictor.application.count_changes import NORMAL, end, log_ratios, ratios
from predictor.application.request import for_request
from predictor.job_table import for_type
from predictor.memory import Memory
from predictor.node_types.recognition import NodeType
from predictor.table import at
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.run_facts import as_asked, change_of, with_asked_cpus
from predictor.tables.samples import asked_of
from predictor.tables.settings import TableSettings
from predictor.types import Verdict
from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.layout import Unit
from tests.predictor.rows import row, submitted

GIB = 2**30


def tried(nodes, elapsed_s, number, *, asked=8):
    """Run of ``sbatch -N 1-8`` on a count that NIMO chose, if it is not that asked for."""
    return replace(
        row(nodes, elapsed_s),
        run_id=number,
        end_s=1_000_000 + 10_000 * number,
        submit_s=1_000_000 + 10_000 * (number - 1),
        asked_size=asked,
        asked_unit="nodes",
        asked_low=1,
        asked_high=8,
        try_of="learning" if nodes != asked else "",
        mem_bytes=GIB * asked // nodes,
    )


def made(rows):
    first, *_ = tables_of(IdentityRuns(KeyLevel.LINE, "x", rows, 2e6), TableSettings())
    return first.table


def weak(counts=(1, 2, 4, 8)):
    return [
        replace(row(n, 600.0), run_id=i, end_s=10_000 * i, submit_s=10_000 * i - 700,
                mem_bytes=GIB)
        for i, n in enumerate(counts * 10, 1)
    ]  # fmt: skip


def of_runs(table, runs):
    """Table of a job for one to eight nodes; its change is said to follow from so many runs."""
    return for_request(replace(table, change=replace(table.change, runs=runs)), 8, (1, 8))


def width(job, nodes):
    said = at(job, nodes)
    return math.log(said.high_s / said.low_s)


def test_the_fewer_runs_a_change_follows_from_the_wider_is_its_interval_and_nothing_else():
    table = made([tried(n, 4800.0 / n, i) for i, n in enumerate((8, 4, 2), 1)])
    assert table.change.runs == 3
    few, many = (of_runs(table, runs) for runs in (3, 1000))
    assert width(few, 32) > 1.15 * width(many, 32)
    assert few.median_s == many.median_s
    assert few.verdicts == many.verdicts
    assert few.curve_sd == many.curve_sd
    assert ratios(few, (1, 2, 8)) == ratios(many, (1, 2, 8))


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((8, 8), "finished runs on 8 nodes only; a curve needs 3 node counts"),
        ((8, 4), "only 1 run had another count than its job asked for: too few for a curve"),
        ((8, 4, 2), ""),
    ],
)
def test_what_is_missing_for_a_curve_counts_the_tries(counts, text):
    table = made([tried(n, 4800.0 / n, i) for i, n in enumerate(counts, 1)])
    assert [one.text for one in table.problems if one.name == "no_curve"] == [text] * bool(text)


def test_a_count_that_was_not_run_leaves_the_curve_by_a_tenth():
    rows = [tried(n, 4800.0 / n, i) for i, n in enumerate((8, 4, 2, 1) * 10, 1)]
    job = of_runs(made(rows), 40)
    own = width(job, 8)
    assert width(job, 4) < own + 0.05
    assert width(job, 3) > math.hypot(own, 2 * 1.645 * 0.09)


@pytest.mark.parametrize("kink", [1.0, 0.7])
def test_a_count_between_two_that_ran_is_no_less_sure_than_one_beyond_them(kink):
    """With a kink the curve's record of counts that were not run is poor."""
    noise = [math.exp(0.05 * NORMAL[(7 * i) % len(NORMAL)]) for i in range(32)]
    curve = {1: 4100.0, 2: 2100.0, 4: 1100.0 * kink, 8: 600.0}
    rows = [
        replace(
            row(n, curve[n] * factor),
            run_id=i,
            end_s=10_000 * i,
            submit_s=10_000 * i - 9000,
            limit_s=90_000,
            mem_bytes=8 * GIB // n,
        )
        for i, (n, factor) in enumerate(zip([1, 2, 4, 8] * 8, noise, strict=True), 1)
    ]
    job = for_request(made(rows), 4)
    assert job.change.one_problem
    assert all(width(job, n) <= width(job, 16) for n in (3, 5, 6, 7))


@pytest.mark.parametrize("runs", [2, 3, 10, 200])
@pytest.mark.parametrize("share", [0.01, 0.05, 0.9, 0.98])
def test_ends_of_a_change_are_those_of_students_t(runs, share):
    paths = sorted(NORMAL)
    plain, heavier = (end(paths, share, count, 0.0) for count in (1_000_000, runs))
    free = 2 + runs
    assert heavier / plain == pytest.approx(
        float(stdtrit(free, share)) / float(ndtri(share)), rel=0.02
    )


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({}, (4, (4, 4))),
        ({"submit_line": "sbatch -N 1-8 run.sh"}, (4, (1, 8))),
        ({"submit_line": "sbatch --nodes=4 run.sh"}, (4, (4, 4))),
        ({"asked_size": 8, "asked_unit": "nodes", "asked_low": 1, "asked_high": 8}, (8, (1, 8))),
        ({"asked_unit": "nodes", "asked_low": 1, "asked_high": 8}, (4, (1, 8))),
        ({"asked_size": 8, "asked_unit": "nodes", "asked_low": 8, "asked_high": 8}, (8, (8, 8))),
        ({"asked_size": 16, "asked_unit": "cpus"}, (4, (4, 4))),
        ({"asked_size": 8, "asked_unit": "nodes"}, (8, (0, 0))),
    ],
)
def test_what_was_asked_is_what_the_decision_says_or_else_the_command_line(fields, asked):
    assert asked_of(submitted(row(4, 9.0), **fields), Unit.NODES) == asked


def test_a_node_type_with_runs_on_two_counts_has_a_change_of_its_own():
    """On slow nodes twice as many take half as long, on fast ones two and four take as long."""
    times = {"slow": {1: 290.0, 2: 145.0, 4: 72.0}, "fast": {1: 100.0, 2: 50.0, 4: 50.0}}
    rows = [
        replace(row(n, time_s), run_id=i, node_type=kind, end_s=9_000 * i, submit_s=8_000 * i)
        for i, (kind, n, time_s) in enumerate(
            [(kind, n, times[kind][n]) for kind in ("slow", "slow", "fast") for n in (1, 2, 4)], 1
        )
    ]
    types = {kind: NodeType(kind, {"cpu": cpu}) for kind, cpu in (("slow", 1.0), ("fast", 3.0))}
    settings = TableSettings(node_types=types)
    first, *_ = tables_of(IdentityRuns(KeyLevel.LINE, "x", rows, 2e6), settings)
    slow, fast = (for_request(for_type(first.table, kind), 4) for kind in ("slow", "fast"))
    assert at(slow, 1).time_s / at(slow, 4).time_s == pytest.approx(4.0, rel=0.05)
    # The prior over shapes has its say, but less than that of both types together.
    assert at(fast, 2).time_s / at(fast, 4).time_s == pytest.approx(1.0, rel=0.45)
    assert first.table.change.ranges == first.table.by_type[0].change.ranges


def test_a_range_has_the_run_time_of_the_count_asked_for_and_those_tried_follow_from_it():
    rows = [tried(8, 600.0, 1), tried(4, 1200.0, 2), tried(2, 2400.0, 3), tried(8, 600.0, 4)]
    table = made(rows)
    (own,) = table.change.ranges
    assert (own.level, own.counts, own.tries) == (8, (2, 4, 8), 2)
    job = for_request(table, 8, (1, 8))
    assert [at(job, n).time_s for n in (8, 4, 2)] == pytest.approx([600, 1200, 2400], rel=0.1)
    assert job.memory == (Memory(2, 4 * GIB), Memory(4, 2 * GIB), Memory(8, GIB))
    # What it would have had before: all tries are runs on the count asked for.
    again = as_asked(rows, table.change, Unit.NODES)
    assert {one.nodes for one in again} == {8}
    assert [one.elapsed_s for one in again] == pytest.approx([600] * 4, rel=0.1)


def test_a_job_asked_on_eight_nodes_is_no_job_asked_on_one():
    table = made(weak())
    assert at(table, 1).time_s == pytest.approx(600, rel=0.05)  # of jobs asked for on one
    job = for_request(table, 8)
    assert at(job, 8).time_s == pytest.approx(600, rel=0.05)
    assert at(job, 1).time_s > 2400
    assert job.memory == (Memory(8, GIB),)  # fewer nodes share that out
    assert at(for_request(table, 1), 1).time_s == pytest.approx(600, rel=0.05)


def test_a_table_of_one_job_stays_as_it_is():
    job = for_request(made(weak()), 8)
    assert for_request(job, 4) is job


def test_ratios_are_one_on_the_count_asked_for_and_turn_round_with_it():
    change = change_of(weak(), Unit.NODES)
    assert {*log_ratios(change, 4, [4])[0]} == {0.0}
    rows = [tried(8, 600.0, 1), tried(4, 1200.0, 2)]
    assert {one.nodes for one in as_asked(rows, change_of(rows, Unit.NODES), Unit.NODES)} == {8}


def test_tries_on_whole_nodes_have_the_layout_of_what_was_asked_for():
    """Slurm accounts the CPUs asked for on the fewest nodes of a range: one, or those of a try."""
    rows = [
        replace(
            tried(n, 600.0, number), cpus=4 * n, tasks=n, cpu_s=1.0, req_cpus=least,
            least_nodes=least,
        )
        for number, (n, least) in enumerate([(8, 1), (6, 6), (8, 8), (4, 4)], 1)
    ]  # fmt: skip
    assert not made(rows).parts
    unknown = submitted(row(8, 600.0), "sbatch -N 1-8 a.sh", cpus=32, req_cpus=2)
    assert with_asked_cpus(unknown).req_cpus == 16


@pytest.mark.parametrize("elapsed_s", [950.0, 600.0])
def test_a_count_that_no_job_asked_for_holds_the_same_problem_and_a_smaller_one(elapsed_s):
    table = replace(made(weak((4, 8))), nodes=(4, 8), median_s=(600.0, 600.0), low_s=(560.0,) * 2,
                    high_s=(640.0,) * 2, curve_sd=(0.1, 0.1), verdicts=(Verdict.RELIABLE,) * 2,
                    tails=())  # fmt: skip
    job = for_request(table, 2)
    assert job.verdict is Verdict.DOUBTFUL
    assert "no job asked for 2 nodes: predicted from those on 4" in job.problems[0].text
    assert at(job, 2).low_s < elapsed_s < at(job, 2).high_s


def test_a_count_far_from_all_that_were_asked_for_has_no_prediction():
    table = made(weak((1,)))
    assert for_request(table, 1000) is table
