"""Never against its own runs: what was measured of the same work is the row of that count."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.application.request import counts_run, for_request
from predictor.memory import Memory
from predictor.table import at, verdict_at
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from predictor.types import Verdict
from sacct_ingest.records import JobState, KeyLevel
from tests.predictor.rows import row, submitted

GIB = 2**30
VISIBLE = "sbatch -N {n} solve.sh --input box.dat"
BARE = "sbatch -N {n} solve.sh"


def history(times, *, runs, line=VISIBLE, noise=0.01, seed=0, mem_bytes=None):
    """Runs of one command on several counts by turns, an hour apart."""
    rng = random.Random(seed)
    rows = []
    for _ in range(runs):
        for n, time_s in times.items():
            elapsed_s = max(round(time_s * rng.lognormvariate(0, noise)), 1)
            end_s = 1_000_000 + 10_000 * len(rows)
            rows.append(
                submitted(
                    replace(
                        row(n, elapsed_s),
                        run_id=len(rows) + 1,
                        submit_s=end_s - elapsed_s - 10,
                        start_s=end_s - elapsed_s,
                        end_s=end_s,
                        mem_bytes=mem_bytes(n) if mem_bytes else None,
                    ),
                    line.format(n=n),
                )
            )
    return rows


def table_of(rows, level=KeyLevel.LINE):
    whole, *_ = tables_of(IdentityRuns(level, "x", rows, 9e6), TableSettings())
    return whole.table


COUNTS = st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16]), min_size=2, max_size=4, unique=True)


@settings(max_examples=40, deadline=None)
@given(counts=COUNTS, data=st.data())
def test_a_count_with_three_runs_of_the_same_work_is_what_was_measured_there(counts, data):
    """Whatever the times are, and whatever count is typed, unless the runs say otherwise."""
    first_s = data.draw(st.floats(60, 2000))
    times = {n: first_s * data.draw(st.floats(0.3, 1.6)) for n in sorted(counts)}
    runs = data.draw(st.integers(3, 8))
    rows = history(times, runs=runs, seed=data.draw(st.integers(0, 99)))
    table = table_of(rows)
    asked = data.draw(st.sampled_from([*counts, max(counts) + 1, 5]))
    job = for_request(table, asked)
    if not table.change.one_problem:
        return
    assert set(counts_run(job)) == set(counts)
    for n in counts:
        measured = sorted(one.elapsed_s for one in rows if one.nodes == n)
        said = at(job, n)
        assert measured[0] / 1.001 <= said.time_s <= measured[-1] * 1.001
        assert said.low_s <= said.time_s <= said.high_s


#: Nodes and seconds of the runs of one command on NREL's Eagle; one hour is the limit.
UNEVEN = (
    *((25, 308), (25, 217), (25, 66), (11, 545), (25, 1618), (11, 842), (25, 819), (10, 58)),
    *(
        (10, 184),
        (10, 3609),
        (25, 349),
        (5, 69),
        (5, 118),
        (5, 35),
        (15, 85),
        (25, 667),
        (25, 202),
        (35, 43),
    ),
    *((25, 262), (25, 711), (2, 721), (25, 10), (50, 3183)),
)


def test_a_curve_does_not_overrule_three_runs_however_much_others_differ():
    rows = []
    for number, (n, time_s) in enumerate(UNEVEN):
        (one,) = history({n: time_s}, runs=1, line=BARE, noise=0.0)
        gap_s = 10_000 * number
        moved_by = {"submit_s": one.submit_s + gap_s, "start_s": one.start_s + gap_s}
        if time_s > 3600:
            moved_by["state"] = JobState.TIMEOUT
        rows.append(replace(one, run_id=number + 1, end_s=one.end_s + gap_s, **moved_by))
    table = table_of(rows)
    for n in (5, 25):
        measured = [time_s for nodes, time_s in UNEVEN if nodes == n]
        assert min(measured) <= at(table, n).time_s <= max(measured)


@settings(max_examples=15, deadline=None)
@given(counts=COUNTS, data=st.data())
def test_what_is_typed_does_not_change_what_was_measured(counts, data):
    times = {n: 2000.0 / n**0.5 for n in sorted(counts)}
    table = table_of(history(times, runs=data.draw(st.integers(3, 6))))
    assert table.change.one_problem
    answers = {n: {at(for_request(table, asked), n).time_s for asked in counts} for n in counts}
    assert all(len(own) == 1 for own in answers.values())


def test_a_visible_problem_that_does_not_scale_is_shown_as_measured():
    table = table_of(history({4: 230.0, 8: 228.0, 12: 242.0}, runs=10))
    for asked in (4, 8, 9, 12):
        job = for_request(table, asked)
        assert at(job, 4).time_s == pytest.approx(230, rel=0.02)
        assert at(job, 12).time_s == pytest.approx(242, rel=0.02)
        # Between two counts that were run lies what was between them.
        assert 220 < at(job, 10).time_s < 250


def test_a_bare_script_with_alike_times_is_undecided_and_names_the_run_that_would_tell():
    table = table_of(history(dict.fromkeys((1, 2, 4, 8), 600.0), runs=15, line=BARE))
    job = for_request(table, 8)
    assert job.verdict is Verdict.DOUBTFUL
    assert verdict_at(job, 8) is Verdict.RELIABLE  # it ran as it was asked for
    (undecided,) = [one for one in job.problems if one.name == "undecided"]
    assert undecided.observe == 4
    alone = at(job, 1)
    assert alone.low_s < 660
    assert alone.high_s > 3600
    assert counts_run(job) == (8,)


def test_a_level_that_is_doubtful_itself_makes_no_change_decided():
    """What jobs are changed by leans on fewer runs than what is shown: both are undecided."""
    table = table_of(history(dict.fromkeys((4, 8, 12), 230), runs=10, line=BARE))
    doubtful = replace(
        table, verdict=Verdict.DOUBTFUL, verdicts=tuple(Verdict.DOUBTFUL for _ in table.nodes)
    )
    for one in (table, doubtful):
        job = for_request(one, 8)
        assert [problem.observe for problem in job.problems if problem.name == "undecided"] == [4]


def test_problems_whose_memory_grows_with_their_nodes_are_not_one():
    table = table_of(
        history(dict.fromkeys((1, 2, 4, 8), 600.0), runs=15, line=BARE, mem_bytes=lambda _: GIB)
    )
    assert not table.change.one_problem
    assert at(for_request(table, 8), 1).high_s > 3600


def test_one_problem_that_scales_is_reliable_on_all_counts_that_ran():
    table = table_of(history({n: 100 + 3600 / n for n in (2, 4, 8)}, runs=10))
    assert table.change.same > 0.95
    job = for_request(table, 4)
    assert {verdict_at(job, n) for n in (2, 4, 8)} == {Verdict.RELIABLE}
    assert not [one for one in job.problems if one.name == "undecided"]


@settings(max_examples=8, deadline=None)
@given(runs=st.integers(3, 8), more=st.integers(1, 8))
def test_more_runs_of_a_count_never_widen_its_row(runs, more):
    times = {2: 900.0, 4: 600.0, 8: 450.0}

    def width(count):
        said = at(for_request(table_of(history(times, runs=count, noise=0.0)), 4), 4)
        return math.log(said.high_s / said.low_s)

    assert width(runs + more) <= width(runs) + 0.02


def moved(counts, *, runs, after, slower):
    """Runs in turns on some counts, then slower ones on the first of them."""
    before = history(dict.fromkeys(counts, 1200.0), runs=runs, noise=0.04)
    later = history({counts[0]: 1200.0 * slower}, runs=after, noise=0.04, seed=1)
    gap_s = 10_000 * len(before)
    return before + [
        replace(
            one, run_id=one.run_id + len(before), submit_s=one.submit_s + gap_s,
            start_s=one.start_s + gap_s, end_s=one.end_s + gap_s,
        )
        for one in later
    ]  # fmt: skip


@pytest.mark.parametrize("slower", [0.7, 1.4])
def test_five_runs_at_a_new_level_are_enough_to_follow_it(slower):
    rows = moved((4,), runs=22, after=5, slower=slower)
    assert at(table_of(rows), 4).time_s == pytest.approx(1200 * slower, rel=0.08)


def test_a_count_that_did_not_run_since_the_level_moved_keeps_what_was_measured_there():
    rows = moved((4, 8), runs=12, after=6, slower=2.0)
    table = table_of(rows)
    assert at(table, 4).time_s == pytest.approx(2400, rel=0.08)
    measured = [one.elapsed_s for one in rows if one.nodes == 8]
    assert min(measured) <= at(table, 8).time_s <= max(measured)


def test_memory_of_one_problem_is_that_of_the_count_it_ran_on():
    rows = history({1: 900.0, 4: 300.0, 16: 100.0}, runs=10, mem_bytes=lambda n: 64 * GIB // n)
    job = for_request(table_of(rows), 16)
    assert job.memory == (Memory(1, 64 * GIB), Memory(4, 16 * GIB), Memory(16, 4 * GIB))
    assert next(one for one in job.need.high if one.nodes == 1).mem_bytes < 80 * GIB
