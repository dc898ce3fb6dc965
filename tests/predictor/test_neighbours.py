"""What past jobs say of commands that never ran."""

import math
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.neighbours import (
    FEWEST_JOBS,
    FEWEST_USERS,
    MOST_JOBS,
    MOST_SHARE,
    OF_USER,
    STEP,
    AskedJob,
    Neighbours,
    PastJob,
    PastJobs,
    collect,
    interval,
    places_of,
    run_times,
    words_of,
)
from predictor.types import Verdict
from sacct_ingest.records import JobState
from tests.predictor.rows import row

USERS = tuple("abcdefgh")
ASKED = AskedJob(2, 16, limit_s=3600.0, partition="batch", words=words_of("solve.sh"))

asked_jobs = st.builds(
    AskedJob,
    nodes=st.sampled_from([1, 2, 8]),
    cpus=st.sampled_from([0, 16]),
    gpus=st.sampled_from([0, 4]),
    limit_s=st.sampled_from([0.0, 600.0, 3600.0, 86_400.0]),
    partition=st.sampled_from(["batch", "long"]),
    folder=st.integers(0, 2),
    words=st.sampled_from([(), words_of("solve.sh"), words_of("solve.sh --steps=5", "train")]),
    script_bag=st.sampled_from(["", "0" * 64, "0" * 62 + "f1"]),
)
past_jobs = st.builds(
    PastJob,
    user=st.sampled_from(USERS),
    submitted_s=st.floats(0, 1e6),
    ended_s=st.floats(0, 1e6),
    elapsed_s=st.floats(1, 1e6),
    asked=asked_jobs,
    first=st.booleans(),
)
stores = st.lists(past_jobs, min_size=1, max_size=60)


def past_job(user, elapsed_s, asked=ASKED, *, at_s=0.0, first=True):
    return PastJob(user, at_s, at_s + elapsed_s, elapsed_s, asked, first)


def run(number, *, at_s, line):
    end_s = 1_700_000_000 + at_s + 60
    return replace(row(2, 60.0), run_id=number, line=line, submit_s=end_s - 60, end_s=end_s)


@settings(max_examples=200, deadline=None)
@given(jobs=stores, asked=asked_jobs)
def test_one_other_user_moves_what_is_said_by_no_more_than_a_third_and_one_of_all(jobs, asked):
    whole = run_times(jobs, "me", asked, others=True)
    for user in {job.user for job in jobs}:
        left = [job for job in jobs if job.user != user]
        less = run_times(left, "me", asked, others=True)
        if less is None:  # nothing is said of those who are left
            assert len({job.user for job in left}) < FEWEST_USERS or len(left) < FEWEST_JOBS
            continue
        apart = max(abs(a - b) for a, b in zip(whole.below, less.below, strict=True))
        assert apart <= MOST_SHARE + 1 / whole.users + 1e-9


@pytest.mark.parametrize("limit_s", [0.0, 3600.0])
def test_a_user_with_hundreds_of_jobs_like_it_is_no_more_of_what_is_said(limit_s):
    asked = msgspec.structs.replace(ASKED, limit_s=limit_s)
    far = msgspec.structs.replace(asked, words=words_of("train.py"), partition="long")
    jobs = [past_job(user, 60.0, far) for user in "bcdefgh" for _ in range(5)]
    most = [past_job("a", 2000.0, asked)] * 300
    less, whole = (run_times(some, "me", asked, others=True) for some in (jobs, jobs + most))
    apart = max(abs(a - b) for a, b in zip(whole.below, less.below, strict=True))
    assert 0.2 < apart <= MOST_SHARE + 1 / whole.users
    alone = run_times(jobs + most, "b", asked, others=False)
    assert (alone.users, alone.below) == (0, run_times(jobs[:5], "b", asked, others=True).below)


@settings(max_examples=100, deadline=None)
@given(jobs=stores, asked=asked_jobs)
def test_without_permission_others_jobs_change_nothing(jobs, asked):
    own = [job for job in jobs if job.user == "a"]
    said = [run_times(some, "a", asked, others=False) for some in (jobs, own)]
    if not own:
        assert said == [None, None]
        return
    assert said[0].below == said[1].below
    assert said[0].users == 0


@settings(max_examples=100, deadline=None)
@given(jobs=stores, asked=asked_jobs, places=st.lists(st.floats(0, 1), max_size=30))
def test_an_interval_holds_its_median_and_ends_at_the_limit(jobs, asked, places):
    times = run_times(jobs, "a", asked, others=True)
    if times is None:
        return
    low_s, median_s, high_s = interval(times, places, 0.9)
    assert 0 < low_s <= median_s <= high_s
    assert not asked.limit_s or high_s <= asked.limit_s
    assert [0.0, *times.below] == sorted([0.0, *times.below])
    assert times.below[-1] == pytest.approx(1.0)


def test_no_time_of_another_user_is_said_as_it_was():
    asked = msgspec.structs.replace(ASKED, limit_s=0.0)
    jobs = [past_job(user, 777.0, asked) for user in "abc" for _ in range(3)]
    low_s, median_s, high_s = interval(run_times(jobs, "me", asked, others=True), [], 0.9)
    assert math.log(median_s) / STEP == pytest.approx(round(math.log(777.0) / STEP))
    assert low_s < 777.0 < high_s


@pytest.mark.parametrize(
    ("users", "count", "says"), [("ab", 9, False), ("abc", 1, False), ("abc", 2, True)]
)
def test_fewer_than_five_jobs_of_three_users_say_nothing(users, count, says):
    jobs = [past_job(user, 600.0) for user in users for _ in range(count)]
    assert (run_times(jobs, "me", ASKED, others=True) is not None) is says


def test_jobs_with_the_same_words_count_most():
    other = msgspec.structs.replace(ASKED, words=words_of("train.py"))
    jobs = [past_job("me", 60.0, other)] * 10 + [past_job("me", 2000.0)] * 10
    assert run_times(jobs, "me", ASKED, others=False).quantile_s(0.5) > 1500
    assert run_times(jobs, "me", other, others=False).quantile_s(0.5) < 100


def test_jobs_whose_scripts_have_the_same_words_count_most():
    mine, other = (msgspec.structs.replace(ASKED, script_bag=f"{bits:064x}") for bits in (1, 4095))
    past = [past_job("me", 100, mine)] * 3 + [past_job("me", 2000, other)] * 3
    medians = [
        run_times(past, "me", asked, others=False).quantile_s(0.5) for asked in (mine, other)
    ]
    assert medians[0] < 200 < 1000 < medians[1]
    assert medians[0] < run_times(past, "me", ASKED, others=False).quantile_s(0.5) < medians[1]


def test_shares_of_a_limit_count_beside_times():
    short = msgspec.structs.replace(ASKED, limit_s=600.0)
    times = run_times([past_job("me", 300.0, short)] * 20, "me", ASKED, others=False)
    assert times.below[round(math.log(600) / STEP)] == pytest.approx(0.5, abs=0.05)
    assert times.quantile_s(0.75) == pytest.approx(1800, rel=0.3)  # half of the limit


def test_without_a_limit_one_job_of_another_kind_says_little():
    """With a limit its shares stand beside that job; without one nothing would."""
    unlike = AskedJob(2, 16, partition="batch", words=words_of("train.py"))
    asked = msgspec.structs.replace(unlike, words=words_of("solve.sh"))
    low_s, _, high_s = interval(
        run_times([past_job("me", 600.0, unlike)], "me", asked, others=False), [], 0.9
    )
    assert low_s < 60 < 600 < 6000 < high_s
    low_s, _, high_s = interval(
        run_times([past_job("me", 600.0, asked)] * 20, "me", asked, others=False), [], 0.9
    )
    assert 200 < low_s < 600 < high_s < 1800


def test_intervals_are_as_wide_as_earlier_first_runs_were_off():
    times = run_times([past_job("me", 600.0)] * 30, "me", ASKED, others=False)
    low_s, _, high_s = interval(times, [0.5] * 100, 0.9)
    wide_low_s, _, wide_high_s = interval(times, [0.001, 0.999] * 50, 0.9)
    assert wide_low_s < low_s < high_s < wide_high_s


def test_places_of_one_user_are_few_where_others_count():
    jobs = [past_job(user, 600.0, at_s=1e4 * n) for n in range(60) for user in "abcd"]
    jobs += [past_job("e", 600.0, at_s=1e6 + 1e4 * n) for n in range(100)]
    assert len(places_of(jobs, others=True)) < 200
    assert places_of(jobs[-100:], others=True) == []  # nobody else is there
    assert len(places_of(jobs[-100:], others=False)) == 99


def test_a_refit_leaves_the_latest_jobs_and_says_which_were_first():
    rows = [run(n, at_s=1000 * n, line=f"key{n % 2}") for n in range(6)]
    rows.append(replace(run(9, at_s=0, line="key9"), state=JobState.FAILED))
    past = collect(reversed(rows))
    assert [job.first for job in past.jobs] == [True, True, False, False, False, False]
    assert [job.ended_s for job in past.jobs] == sorted(job.ended_s for job in past.jobs)
    many = [run(n, at_s=n, line="key") for n in range(OF_USER + 9)]
    assert len(collect(reversed(many)).jobs) == OF_USER < MOST_JOBS


def test_a_table_is_a_guess_of_the_count_asked_for_and_round_trips():
    payload = msgspec.json.encode(PastJobs([past_job("me", 600.0)] * 8)).decode()
    table = Neighbours(payload).table("me", ASKED, others=True, confidence=0.9)
    assert (table.is_guess, table.nodes, table.verdict) == (True, (2,), Verdict.DOUBTFUL)
    assert (table.neighbours, table.owner) == ((8, 0), "me")
    assert Neighbours("{").table("me", ASKED, others=True, confidence=0.9) is None
    assert Neighbours(None).table("me", ASKED, others=True, confidence=0.9) is None
    with pytest.raises(ValueError, match="confidence"):
        Neighbours(payload).table("me", ASKED, others=True, confidence=1.0)
