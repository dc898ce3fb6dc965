"""An application is switched off by what came of its decisions, and on again, in a real store."""

import itertools
from math import log

import pytest

from predictor.level.record import Record, RecordEntry, encode
from sacct_ingest.records import JobState
from sacct_ingest.store import RecordRow, Store
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation import feedback
from slurm_plugin.reports.curve_text import standing_line
from tests.sacct_ingest.records import run
from tests.slurm_plugin.reports.rows import AT_S, decision

NUMBER = itertools.count(1)


@pytest.fixture
def store(tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/nimo.db") as opened:
        yield opened


def took(store, *ratios, state=JobState.COMPLETED, nodes=4, waited_s=0, **fields):
    """Decide on jobs of which 4 nodes were predicted to take 1000 s, and let them run."""
    for ratio in ratios:
        number = next(NUMBER)
        name, at_s = f"wrf{number}", AT_S + 10 * number
        store.decisions.add(
            [decision(decision_id=f"{number:012x}", at_s=at_s, name=name, **fields)]
        )
        store.runs.add(
            [
                run(
                    job_id=number, submit_s=int(at_s), name=name, nodes=nodes, state=state,
                    elapsed_s=1000.0 * ratio, end_s=int(at_s) + 5, work_dir="/home/ada",
                    start_s=int(at_s) + waited_s,
                )
            ]
        )  # fmt: skip
    store.decisions.join_outcomes()


def update(store):
    return feedback.judge_applications(store, Config(), now_s=AT_S + 10 * next(NUMBER))


def test_three_times_slower_is_switched_off_and_comes_back(store):
    took(store, 1.0, 1.02, 0.98, 1.0)
    assert update(store) == []
    took(store, 3.0, 3.1, 2.9, 3.0)
    (row,) = update(store)
    assert (row.off, row.label, store.standings.off()) == (True, "wrf", [("line", "ab12")])
    assert "wrf: switched off since " in standing_line(row)
    # Off, its jobs are kept as they are and still compared.
    took(store, 1.0, 1.0, action="keep", reason="out_of_band", applied=False)
    assert update(store) == []
    took(store, 1.0, 1.0, 1.0, action="keep", reason="out_of_band", applied=False)
    (back,) = update(store)
    assert (back.off, store.standings.off()) == (False, [])
    assert back.since_s > row.since_s


def test_runs_that_ended_by_their_limit_count_and_failed_ones_do_not(store):
    took(store, 2.0, 2.0, 2.0, state=JobState.FAILED)
    assert update(store) == []
    took(store, 2.0, 2.0, 2.0, state=JobState.TIMEOUT)
    assert [row.off for row in update(store)] == [True]


def test_what_was_only_observed_is_compared_on_the_count_asked_for(store):
    # 2 nodes were asked for, with 1800 s predicted.
    took(store, 1.8, 1.8, 1.8, nodes=2, applied=False, mode="observe")
    assert update(store) == []
    assert store.standings.all()[0].ratio == pytest.approx(1.0)


def test_nothing_new_writes_nothing(store):
    took(store, 1.0, 1.0, 1.0)
    update(store)
    version = store.standings.version()
    assert update(store) == []
    assert store.standings.version() == version


def recorded(store, errors, until_s=1e12):
    """Leave a record with errors (logs of actual over predicted run time) until a fit."""
    entries = [
        RecordEntry(
            end_s=until_s - 100 + number, same=True, repeats=3, curve=True, size=9.0,
            errors=(error,) * 7, chosen=0, scale=0.02, fell=(0.5,), width=0.1, inside=False,
            informed=True, acting=(error, 0.1, (0.5,)),
        )
        for number, error in enumerate(errors)
    ]  # fmt: skip
    payload = encode(Record(tuple(entries), until_s))
    store.records.replace([RecordRow(level="line", key="ab12", payload=payload)])


def test_the_record_of_a_fit_judges_what_had_ended_before_it(store):
    """It is the one that verdicts are earned by: the fit has learned what decisions missed."""
    took(store, 3.0, 3.1, 2.9)
    recorded(store, [0.0, 0.02, -0.02])
    assert update(store) == []
    recorded(store, [log(3.0)] * 6)
    assert [row.off for row in update(store)] == [True]


def test_what_ended_since_the_fit_is_added_to_its_record(store):
    recorded(store, [0.0] * 6, until_s=AT_S)
    took(store, 3.0, 3.0)
    assert update(store) == []
    took(store, 3.0, 3.0)
    assert [row.off for row in update(store)] == [True]


def test_broken_promises_leave_an_application_observed_for_some_runs(store):
    """1000 s were predicted, but of the jobs that were changed two of seven waited for hours."""
    took(store, 1.0, 1.0, 1.0)
    assert update(store) == []
    took(store, *[1.0] * 5)
    took(store, 1.0, waited_s=9_000)
    assert update(store) == []
    took(store, 1.0, waited_s=9_000)
    (row,) = update(store)
    assert (row.off, row.ratio) == (True, 1.0)
    assert "too few of its changed jobs ended as promised" in standing_line(row)
    took(store, 1.0, 1.0, action="keep", applied=False)
    assert update(store) == []
    took(store, 1.0, action="keep", applied=False)
    assert [one.off for one in update(store)] == [False]
    # What was broken before counts no more.
    took(store, 1.0)
    assert update(store) == []
