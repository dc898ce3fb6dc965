"""Which applications run as long as they are given."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.job_table import for_limit
from predictor.table import at
from predictor.tables.build import IdentityRuns, tabulate
from predictor.tables.kinds import kind_of_runs
from predictor.tables.parts import tables_of
from predictor.tables.settings import TableSettings
from predictor.types import Verdict
from sacct_ingest.records import JobState, KeyLevel
from sacct_ingest.runs.submission import JobKind
from tests.predictor.rows import row, submitted

SAVING = "sbatch --signal=B:USR1@120 train.sh"


def starts(shares, limit_s=3600, state=JobState.COMPLETED, line="sbatch train.sh"):
    return [
        submitted(
            row(1, share * limit_s, state), line, limit_s=limit_s, cpu_s=0.09 * share * limit_s
        )
        for share in shares
    ]


def table_of(rows):
    ordered = [replace(one, end_s=10_000 * (i + 1)) for i, one in enumerate(rows)]
    return tabulate(IdentityRuns(KeyLevel.LINE, "key", ordered, 0.0), TableSettings())


def test_a_job_that_asks_for_a_warning_and_ends_with_its_limit_runs_until_it():
    table = table_of(starts([0.96, 0.97, 0.95, 0.98], line=SAVING) + starts([0.3], line=SAVING))
    assert table.kind is JobKind.UNTIL_LIMIT
    assert table.verdict is not Verdict.RELIABLE
    assert table.problems[0].text.startswith(
        "it runs until its limit: 4 of the last 5 runs did and used 9% of their CPUs;"
    )


def test_a_run_time_that_grows_with_the_limit_is_no_property_of_the_work():
    rows = starts([0.97] * 3) + starts([0.98] * 3, limit_s=7200)
    assert kind_of_runs(rows)[0] is JobKind.UNTIL_LIMIT
    # One limit alone says it of nobody, but that a script which asks for a warning would.
    kind, to_limit = kind_of_runs(starts([0.97] * 6))
    assert (kind, to_limit.runs, to_limit.of) == (JobKind.WORK, 6, 6)


def test_requeued_starts_of_a_job_that_saves_itself_count():
    rows = starts([0.97] * 6, line=SAVING, state=JobState.REQUEUED) + starts([0.2] * 2, line=SAVING)
    assert kind_of_runs(rows)[0] is JobKind.UNTIL_LIMIT


@given(st.lists(st.floats(0.01, 0.9), min_size=1, max_size=30), st.sampled_from(["", SAVING]))
def test_what_ends_by_itself_well_within_its_limit_is_work(shares, line):
    rows = starts(shares, limit_s=36_000, line=line)
    assert kind_of_runs(rows) == (JobKind.WORK, None)


@given(st.lists(st.sampled_from([3600, 7200, 14_400]), min_size=1, max_size=30))
def test_what_longer_limits_end_as_well_may_only_be_longer_work(limits):
    rows = [start for s in limits for start in starts([1.001], limit_s=s, state=JobState.TIMEOUT)]
    assert kind_of_runs(rows)[0] is JobKind.WORK


KINDS = {
    JobKind.PILOT: "sbatch --wrap=dask worker tcp://10.0.0.1:8786",
    JobKind.SESSION: "sbatch --wrap=jupyter lab",
}
ENDINGS = st.sampled_from([JobState.COMPLETED, JobState.TIMEOUT, JobState.CANCELLED])


@settings(max_examples=200)
@given(
    st.sampled_from(list(KINDS)),
    st.lists(st.tuples(st.floats(0.02, 1.0), ENDINGS), min_size=3, max_size=30),
)
def test_however_pilots_and_sessions_ended_their_kind_is_known(kind, endings):
    rows = [start for share, state in endings for start in starts([share], state=state)]
    rows = [submitted(one, KINDS[kind]) for one in rows]
    table = table_of(rows)
    if table is not None:
        assert table.kind is kind
        assert table.verdict is not Verdict.RELIABLE
        assert any(one.name == kind.value for one in table.problems)


@pytest.mark.parametrize("level", [KeyLevel.USER])
def test_a_user_has_no_kind(level):
    rows = [submitted(one, KINDS[JobKind.PILOT]) for one in starts([0.5] * 5)]
    table = tabulate(IdentityRuns(level, "ada", rows, 0.0), TableSettings())
    assert table.kind is JobKind.WORK


def test_runs_with_one_of_several_limits_are_of_the_kind_of_all():
    """Those of one limit take as long as each other: alone they look like work of that length."""
    rows = [
        replace(one, end_s=20_000 * number, submit_s=20_000 * number - 15_000)
        for number, one in enumerate(
            (starts([0.95], limit_s)[0] for limit_s in (3600, 7200, 14_400) * 6), start=1
        )
    ]
    whole, *parts = tables_of(IdentityRuns(KeyLevel.LINE, "key", rows, 0.0), TableSettings())
    assert whole.table.kind is JobKind.UNTIL_LIMIT
    assert len(parts) == 3
    for part in parts:
        assert part.table.kind is JobKind.UNTIL_LIMIT
        assert part.table.problems[0].text.startswith("it runs until its limit")
        assert part.table.verdict is not Verdict.RELIABLE


def sized(limits, shares, line="sbatch train.sh --steps {steps}"):
    """Runs until limits that were longer for more steps, an hour apart."""
    rows = []
    for number, (hours, share) in enumerate(zip(limits, shares, strict=True), start=1):
        one = starts([share], 3600 * hours, line=line.format(steps=1000 * hours))[0]
        end_s = 100_000 * number
        rows.append(replace(one, end_s=end_s, submit_s=end_s - 90_000, start_s=end_s - 80_000))
    return rows


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=16, max_size=24), st.data())
def test_longer_limits_for_larger_sizes_make_no_size_of_a_job_that_runs_until_its_limit(
    hours, data
):
    hours = [1, 1, 2, 2, 4, 4, *hours]
    shares = [data.draw(st.floats(0.955, 0.995)) for _ in hours]
    whole, *_ = tables_of(
        IdentityRuns(KeyLevel.NAME, "ann/train", sized(hours, shares), 0.0), TableSettings()
    )
    assert whole.table.kind is JobKind.UNTIL_LIMIT
    assert whole.table.sizes == ()


def test_sized_runs_that_ended_with_their_limit_are_counted_where_a_script_may_say_why():
    """All had one limit, or ended at a share of it that goes by their size."""
    shares = [0.5, 0.96, 0.97, 0.98] * 6
    rows = sized([4, 1, 2, 8] * 6, shares)
    table = tables_of(IdentityRuns(KeyLevel.NAME, "ann/train", rows, 0.0), TableSettings())[0].table
    assert (table.to_limit.runs, table.to_limit.of) == (15, 20)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.sampled_from([3600, 7200, 14_400]), min_size=2, max_size=12),
    st.lists(st.floats(0.02, 1.001), min_size=2, max_size=2),
    st.integers(1, 5000),
    st.sampled_from([1, 2, 3, 64]),
    st.sampled_from([JobState.COMPLETED, JobState.TIMEOUT]),
)
def test_a_job_that_runs_until_its_limit_takes_its_limit_on_every_count(
    limits, early, minutes, nodes, state
):
    """Whatever limits ran: nothing is beyond the limit, and a new one is taken whole."""
    rows = [one for s in limits for one in starts([0.97, 1.0], s, state, SAVING)]
    rows += [one for share in early for one in starts([share], line=SAVING)]
    table = table_of(rows)
    assert table.kind is JobKind.UNTIL_LIMIT
    limit_s = 60.0 * minutes
    asked = for_limit(table, limit_s)
    said = at(asked, nodes)
    assert said.low_s <= said.time_s <= said.high_s <= limit_s * 1.000_001
    if limit_s not in limits:
        assert said.time_s == pytest.approx(limit_s)
    assert not said.unbounded
    assert not {one.name for one in asked.problems} & {"unbounded", "cut_off", "cut_short"}
    assert any(one.name == "until_limit" for one in asked.problems)
