"""What starts that were cut off say of tables."""

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from predictor.application.request import for_request
from predictor.application.surface import for_sizes
from predictor.job_table import for_limit
from predictor.sizes import Form, SizeTerm, Surface
from predictor.table import at, level_quantile, quantile, ran_on, starts_at
from predictor.tables.build import IdentityRuns, tabulate
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from predictor.types import Verdict
from sacct_ingest.records import JobState, KeyLevel, Says
from tests.predictor.rows import row

CUT_OFF = [state for state in JobState if state.run_time is Says.AT_LEAST]


def table_of(rows, level=KeyLevel.SCRIPT):
    ordered = [replace(one, end_s=10_000 * (i + 1)) for i, one in enumerate(rows)]
    return tabulate(IdentityRuns(level, "key", ordered, 0.0), TableSettings())


def starts(times, state=JobState.COMPLETED, nodes=1, limit_s=None):
    return [replace(row(nodes, t, state), limit_s=limit_s) for t in times]


def test_cut_off_are_all_that_would_have_gone_on():
    assert set(CUT_OFF) == {
        *(JobState.TIMEOUT, JobState.DEADLINE, JobState.PREEMPTED, JobState.REQUEUED),
        *(JobState.NODE_FAIL, JobState.CANCELLED),
    }


@pytest.mark.parametrize("state", CUT_OFF)
def test_where_most_starts_were_cut_off_there_is_no_median(state):
    table = table_of(starts([600.0] * 8) + starts([28_800.0] * 32, state))
    one = at(table, 1)
    assert one.unbounded
    assert one.time_s == 28_800.0
    assert table.verdict is Verdict.REFUSED
    assert quantile(table, 1, 0.9) is level_quantile(table, 1, 0.9) is None
    assert "over 8 h (32 of 40 runs" in table.problems[0].text
    assert not table.observed


def test_what_was_stopped_by_its_limit_is_called_so():
    table = table_of(starts([600.0] * 3) + starts([3605.0] * 5, JobState.TIMEOUT))
    assert table.problems[0].text == (
        "run time on 1 node: over 1 h (5 of 8 runs reached their limit)"
    )


def test_a_few_that_were_cut_off_raise_the_median_and_the_end():
    finished = [600.0 + 10 * i for i in range(20)]
    whole = table_of(starts(finished))
    cut = table_of(starts(finished) + starts([700.0] * 6, JobState.PREEMPTED))
    assert not at(cut, 1).unbounded
    assert at(cut, 1).time_s > at(whole, 1).time_s
    late = table_of(starts(finished) + starts([9000.0], JobState.PREEMPTED))
    assert at(late, 1).high_s >= 9000.0


def test_what_was_cut_off_at_once_says_nothing():
    finished = starts([600.0 + 10 * i for i in range(8)])
    table = table_of(finished + starts([5.0] * 20, JobState.CANCELLED))
    assert not at(table, 1).unbounded
    assert at(table, 1).time_s == pytest.approx(at(table_of(finished), 1).time_s)


def test_runs_with_a_longer_limit_say_what_those_stopped_before_would_have_taken():
    stopped = starts([3600.0] * 20, JobState.TIMEOUT, limit_s=3600)
    longer = starts([7000.0 + 10 * i for i in range(12)], limit_s=14_400)
    table = table_of(stopped + longer)
    assert not at(table, 1).unbounded
    assert at(for_limit(table, 14_400.0), 1).time_s > 6900


def test_each_time_limit_has_its_own_starts():
    short = starts([600.0 + i for i in range(12)], limit_s=3600)
    table = table_of(short + starts([28_800.0] * 6, JobState.TIMEOUT, limit_s=28_800))
    assert at(for_limit(table, 28_800.0), 1).unbounded
    assert starts_at(for_limit(table, 28_800.0), 1).out_of_time == 6


def test_tables_of_one_job_and_of_a_size_keep_what_starts_say():
    rows = [one for n in (1, 2, 4) for one in starts([600.0 / n] * 3, nodes=n)]
    table = table_of(rows + starts([3600.0] * 9, JobState.TIMEOUT, nodes=2))
    assert at(table, 2).unbounded
    assert not at(table, 4).unbounded
    assert at(for_request(table, 2), 2).unbounded
    surface = Surface((1.0,), 1.0, (Form(0, 1.0, ((0.0, 1.0, 0.0),)),))
    sized = replace(table, sizes=(SizeTerm("n", 1.0, 0.0, 1.0, 1.0, 4.0),), surface=surface)
    assert at(for_sizes(sized, {"n": 2.0}), 2).time_s == 7200.0


HISTORY = st.lists(
    st.tuples(
        st.sampled_from([JobState.COMPLETED, JobState.FAILED, JobState.OUT_OF_MEMORY, *CUT_OFF]),
        st.floats(60.0, 1e5),
        st.sampled_from([1, 1, 1, 2, 4]),
        st.sampled_from([None, 3600, 86_400]),
    ),
    min_size=1,
    max_size=60,
)
LEVELS = st.sampled_from([KeyLevel.SCRIPT, KeyLevel.NAME, KeyLevel.USER])


#: The only start with the longest limit was cut off, and is not the newest of all.
_ONLY_START_CUT_OFF = [
    (JobState.COMPLETED, 60.0, 1, None),
    (JobState.COMPLETED, 60.0, 1, 3600),
    (JobState.REQUEUED, 20_001.0, 1, 86_400),
]


@settings(max_examples=60)
@example(_ONLY_START_CUT_OFF, KeyLevel.NAME, 0.9)
@given(HISTORY, LEVELS, st.sampled_from([0.75, 0.85, 0.9, 0.95, 0.99]))
def test_no_start_contradicts_a_table(history, level, share):
    rows = [replace(row(n, t, state), limit_s=limit) for state, t, n, limit in history]
    table = table_of(rows, level)
    if table is None:
        return
    for nodes in {one.nodes for one in rows} & set(table.nodes):
        own = [one for one in rows if one.nodes == nodes and one.state.says_run_time]
        cut_off = [one for one in own if one.state.cut_short]
        for limit_s in (None, 3600.0, 86_400.0):
            asked = for_limit(table, limit_s)
            alike = [one for one in cut_off if limit_s is None or one.limit_s == limit_s]
            if limit_s is None and level not in (KeyLevel.SCRIPT,):
                continue  # of many problems each limit has its own runs
            one = at(asked, nodes)
            longest_s = max((stopped.elapsed_s for stopped in alike), default=0.0)
            # A request with less time than was run is told no more than its limit.
            assert one.unbounded or one.high_s >= min(longest_s, limit_s or longest_s) * 0.999
        if level is KeyLevel.SCRIPT:
            end_s = level_quantile(table, nodes, share)
            if end_s is not None and own:
                outlasted = sum(one.elapsed_s > end_s * 1.001 for one in own)
                assert outlasted <= (1 - share) * len(own) + 1e-6


def test_completed_runs_whose_steps_failed_are_no_reliable_prediction():
    times = [600.0 + i for i in range(40)]
    good, bad = starts(times), [replace(one, failed_steps=1) for one in starts(times)]
    assert table_of(good).verdict is Verdict.RELIABLE
    assert table_of([*good, *bad[:1]]).verdict is Verdict.RELIABLE
    table = table_of([*good[:-3], *bad[:3]])
    assert table.verdict is Verdict.DOUBTFUL
    assert table.problems[0].text.startswith("steps of 3 of the last 20 completed runs failed")


def test_failed_runs_say_when_how_often_and_with_which_code():
    failed = starts([3.0] * 5, JobState.FAILED)
    rows = starts([600.0] * 9) + [replace(one, exit_code=2) for one in failed]
    table = table_of(rows)
    assert at(table, 1).time_s == pytest.approx(600.0)
    assert [(one.state, one.runs, one.exit_code) for one in table.endings] == [
        ("COMPLETED", 9, None),
        ("FAILED", 5, 2),
    ]
    failures = table.failures
    assert (failures.runs, failures.often, failures.of) == (5, 5, 14)
    assert (failures.low_s, failures.high_s, failures.exit_code) == (3.0, 3.0, 2)


def test_a_count_that_no_job_had_is_not_called_observed():
    """Jobs that left 2 to 4 nodes open had these: what they asked for is between them."""
    asked = {"asked_unit": "nodes", "asked_low": 2, "asked_high": 4}
    rows = [
        replace(row(n, 1200.0 / n), asked_size=size, end_s=10_000 * i, **asked)
        for i, (n, size) in enumerate([(2, 2), (4, 4)] * 6, start=1)
    ]
    (made, *_) = tables_of(IdentityRuns(KeyLevel.SCRIPT, "key", rows, 0.0), TableSettings())
    assert [point.nodes for point in made.table.observed] == [3]
    assert made.table.never_had == (3,)
    assert ran_on(made.table) == ()
