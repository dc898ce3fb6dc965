from dataclasses import replace
from math import log
from random import Random
from statistics import fmean

import pytest
from msgspec import structs

from predictor.job_table import for_layout, part_for
from predictor.level.record import ENOUGH, pooled_errors
from predictor.stored_table import acting_of
from predictor.table import at, verdict_at
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from predictor.types import Verdict
from sacct_ingest.records import Component, JobState, KeyLevel
from sacct_ingest.runs.layout import SOME_SHAPE, Layout
from tests.predictor.call_values import ENTRY
from tests.predictor.rows import row as one_run

SETTINGS = TableSettings()


def row(number, nodes, elapsed_s, *, tasks_node=4):
    end_s = 1_790_000_000 + 5000 * number
    made = one_run(nodes, elapsed_s)
    size, start_s = tasks_node * nodes, end_s - int(elapsed_s)
    of_run = {"run_id": number, "job_id": number, "cpus": size, "tasks": size}
    return replace(made, **of_run, submit_s=end_s - 4000, start_s=start_s, end_s=end_s)


def rows(tasks_node, scale, *, first=0):
    counts = (1, 2, 4, 8) * 2
    return [
        row(first + i, n, scale / n + 20 + i, tasks_node=tasks_node) for i, n in enumerate(counts)
    ]


def made(given):
    made = tables_of(IdentityRuns(KeyLevel.LINE, "l", given, 9.0), SETTINGS)
    return [one.table for one in made if one.table is not None]


def test_one_layout_is_one_curve_that_names_it():
    (table,) = made(rows(4, 600.0))
    assert (table.layout, table.parts) == (Layout(4, 4), ())
    assert table.verdict is Verdict.RELIABLE


def test_a_request_with_another_layout_is_refused_with_the_reason():
    (table,) = made(rows(4, 600.0))
    same = for_layout(table, (Layout(4, 4),))
    assert same is table
    other = for_layout(table, (Layout(1, 1),))
    assert {other.verdict, *other.verdicts} == {Verdict.REFUSED}
    assert "4 tasks" in other.problems[0].text
    assert "1 task and" in other.problems[0].text


def test_of_a_heterogeneous_job_only_its_shape_is_predicted():
    components = (Component(10, 40), Component(3, 12))
    shaped = [replace(row(i, 13, 600.0 + i), components=components) for i in range(8)]
    (table,) = made(shaped)
    assert table.nodes == (13,)
    assert not [one for one in table.problems if one.observe]
    asked = "10 nodes, 40 CPUs + 3 nodes", f"10 nodes + {SOME_SHAPE}"
    assert all(for_layout(table, (Layout(shape=one),)) is table for one in asked)
    unlike = "10 nodes, 40 CPUs + 2 nodes", f"9 nodes + {SOME_SHAPE}"
    refused = [for_layout(table, (Layout(shape=one),)) for one in unlike]
    assert {one.verdict for one in refused} == {Verdict.REFUSED}
    component = for_layout(table, (Layout(shape=SOME_SHAPE),))
    assert component.verdict is Verdict.REFUSED
    assert "do not apply" in component.problems[0].text
    plain = for_layout(table, (Layout(4, 4),))
    assert plain.verdict is Verdict.REFUSED
    assert "another shape" in plain.problems[0].text
    # Beside plain runs of the same command it is a part.
    both = [*shaped, *rows(4, 600.0, first=20)]
    parts = {one.layout.shape: one for one in made(both)[1:]}
    assert parts.keys() == {"", "10 nodes, 40 CPUs + 3 nodes, 12 CPUs"}
    assert 13 not in {point.nodes for point in parts[""].observed}


def test_a_curve_never_mixes_layouts():
    both = sorted([*rows(4, 600.0), *rows(1, 900.0, first=20)], key=lambda one: one.submit_s)
    whole, *parts = made(both)
    assert whole.model == "history"
    assert whole.verdict is not Verdict.RELIABLE
    assert all(table.runs == 8 and table.model != "history" for table in parts)
    for tasks, scale in ((4, 600.0), (1, 900.0)):
        part = part_for(whole, (Layout(tasks, tasks),))
        own = next(table for table in parts if table.key == part.key)
        assert own.layout == part.layout == Layout(tasks, tasks)
        assert abs(own.median_s[0] / (scale + 23) - 1) < 0.05
    assert part_for(whole, (Layout(),)) is None
    assert for_layout(whole, (Layout(),)) is whole
    assert part_for(whole, (Layout(2, 2),)) is None
    assert for_layout(whole, (Layout(2, 2),)).verdict is Verdict.REFUSED


def test_a_failed_run_makes_no_part():
    failed = replace(row(50, 1, 3.0, tasks_node=1), state=JobState.FAILED)
    (table,) = made([*rows(4, 600.0), failed])
    assert table.layout == Layout(4, 4)


def test_runs_with_other_gpus_have_tables_of_their_own():
    two = [replace(one, gpus=2 * one.nodes) for one in rows(4, 600.0)]
    none = rows(4, 2400.0, first=20)
    whole, *parts = made([*two, *none])
    assert (whole.model, len(parts)) == ("history", 2)
    for gpus, scale in ((2, 600.0), (0, 2400.0)):
        own = part_for(whole, (Layout(4, 4, gpus=gpus),))
        table = next(table for table in parts if table.key == own.key)
        assert abs(table.median_s[0] / (scale + 23) - 1) < 0.05
    other = for_layout(whole, (Layout(4, 4, gpus=1),))
    assert other.verdict is Verdict.REFUSED
    assert "this job has 4 tasks, 4 CPUs and 1 GPU on each node" in other.problems[0].text


def made_on_a_site(seed):
    """Tables of a user's random runs, on a site where others' predictions failed."""
    rng = Random(seed)
    noise, counts = rng.choice((0.01, 0.05, 0.3)), rng.sample((1, 2, 4, 8, 16), 3)
    own = [
        row(i, counts[i % 3], (600 / counts[i % 3] + 20) * rng.lognormvariate(0, noise))
        for i in range(rng.randrange(3, 20))
    ]
    wild = [
        structs.replace(ENTRY, errors=(error,) * 7, repeats=rng.randrange(3))
        for error in (rng.gauss(0, 1) for _ in range(90))
    ]
    settings = replace(SETTINGS, pooled=pooled_errors(wild))
    return tables_of(IdentityRuns(KeyLevel.LINE, "l", own, 9.0), settings)


@pytest.mark.parametrize("seed", range(8))
def test_neither_others_runs_nor_none_make_less_sure_than_own_ones_do(seed):
    for fitted in made_on_a_site(seed):
        if (table := fitted.table) is None or not table.is_curve:
            continue
        alone = acting_of(table)
        sure = {n: wide(table, n) for n in table.nodes}
        if len(fitted.record.entries) >= ENOUGH:
            for n in table.nodes:
                assert sure[n][0] <= wide(alone, n)[0] * (1 + 1e-9)
                assert sure[n][1] <= wide(alone, n)[1]
        ran = [point.nodes for point in table.observed]
        for n in set(table.nodes) - set(ran):
            beside = [*[m for m in ran if m < n][-1:], *[m for m in ran if m > n][:1]]
            assert sure[n][0] * 1.001 >= min(sure[m][0] for m in beside)
            assert sure[n][1] >= min(sure[m][1] for m in beside)


@pytest.mark.slow
def test_own_runs_make_surer():
    falls = []
    for seed in range(6):
        rng, noise = Random(seed), (0.02, 0.1, 0.3)[seed % 3]
        counts = rng.sample((1, 2, 4, 8, 16), 3)
        times = [(n, (600 / n + 20) * rng.lognormvariate(0, noise)) for n in counts * 8]
        rows = [row(i, *one) for i, one in enumerate(times)]
        few, many = (made(rows[:runs])[0] for runs in (6, 24))
        falls += [log(wide(few, n)[0] / wide(many, n)[0]) for n in counts]
        assert all(wide(few, n)[1] >= wide(many, n)[1] for n in counts)
    assert fmean(falls) > 0.1
    assert min(falls) > -0.1


def wide(table, nodes):
    """Width of an interval, and how little its verdict trusts it."""
    one = at(table, nodes)
    return one.high_s / one.low_s, list(Verdict).index(verdict_at(table, nodes))
