"""Reports on hand-made rows: every expected figure is worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sacct_ingest.records import JobState
from slurm_plugin.reports.outcomes import (
    Accuracy,
    Deadlines,
    Effect,
    Pair,
    accuracy,
    applied_effect,
    by_application,
    deadlines,
    observed_effect,
    predicted_at,
    select,
    summarise,
)
from slurm_plugin.waits import Held, Waits
from tests.slurm_plugin.reports.rows import AT_S, decision, run


def test_accuracy_of_three_runs() -> None:
    pairs = [
        (decision(), run(elapsed_s=1000.0)),  # exact, inside
        (decision(), run(elapsed_s=1250.0)),  # |1250 - 1000| / 1250 = 0.2, outside
        (decision(), run(elapsed_s=800.0)),  # |800 - 1000| / 800 = 0.25, outside
    ]
    found = accuracy(pairs)
    assert found is not None
    assert (found.runs, found.bias, found.intervals) == (3, 1.0, 3)
    assert found.mape == pytest.approx(0.15)
    assert found.inside == pytest.approx(1 / 3)


def test_the_ends_of_the_interval_are_inside() -> None:
    found = accuracy([(decision(), run(elapsed_s=t)) for t in (900.0, 1100.0)])
    assert found is not None
    assert found.inside == 1.0


def test_a_run_on_the_count_asked_for_is_compared_with_the_prediction_there() -> None:
    found = accuracy([(decision(applied=False), run(nodes=2, elapsed_s=2250.0))])
    # The interval is that of the chosen count: it says nothing here.
    assert found == Accuracy(runs=1, mape=1 - 1800 / 2250, bias=1.25, intervals=0, inside=None)


@pytest.mark.parametrize(
    "outcome",
    [
        None,
        run(nodes=3),
        run(state=JobState.FAILED),
        run(state=JobState.TIMEOUT),
        run(state=JobState.RUNNING),
        run(elapsed_s=0.0),
    ],
)
def test_what_cannot_be_compared_is_left_out(outcome: object) -> None:
    assert predicted_at(decision(), outcome) is None  # type: ignore[arg-type]
    assert accuracy([(decision(), outcome)]) is None  # type: ignore[list-item]


def test_a_decision_without_prediction_is_left_out() -> None:
    assert accuracy([(decision(predicted_s=None, low_s=None, high_s=None), run())]) is None


def test_deadlines_by_what_became_of_the_job() -> None:
    due = AT_S + 1010
    pairs = [
        (decision(deadline_s=due), run()),  # ends in the very second
        (decision(deadline_s=due - 1), run()),
        (decision(deadline_s=due), run(state=JobState.DEADLINE)),
        (decision(deadline_s=due, action="refuse"), None),
        (decision(deadline_s=due, action="refuse", applied=False), run()),  # only observed
        (decision(deadline_s=due), None),
        (decision(deadline_s=due), run(state=JobState.RUNNING, end_s=None)),
        (decision(), run()),  # no deadline: does not count
    ]
    assert deadlines(pairs) == Deadlines(met=2, missed=2, refused=1, open=2)


def test_effect_of_applied_decisions() -> None:
    pairs = [
        (decision(), run(elapsed_s=900.0)),  # 4 x 900 s = 1 node-hour; as asked 2 x 1800 s = 1
        (decision(), run(elapsed_s=1800.0)),  # 2 node-hours; 1
        (decision(), run(nodes=2, elapsed_s=1800.0)),  # changed by someone else since
        (decision(applied=False), run()),
        (decision(), run(state=JobState.FAILED)),
        (decision(request_predicted_s=None), run()),
    ]
    assert applied_effect(pairs) == Effect(
        jobs=2, node_hours=3.0, other_node_hours=2.0, run_hours=0.75, other_run_hours=1.0
    )


def test_effect_of_decisions_that_were_only_observed() -> None:
    pairs = [
        (
            decision(mode="observe", applied=False, predicted_s=900.0),
            run(nodes=2, elapsed_s=1800.0),
        ),
        (decision(mode="observe", applied=False, action="keep"), run(nodes=2)),
    ]
    assert observed_effect(pairs) == Effect(
        jobs=1,
        node_hours=1.0,
        other_node_hours=1.0,
        run_hours=0.5,
        other_run_hours=0.25,
    )


def test_no_such_decision_no_effect() -> None:
    assert applied_effect([]) is None
    assert observed_effect([(decision(), run())]) is None


def test_applications_are_sorted_by_decisions_then_name() -> None:
    pairs: list[Pair] = [
        (decision(label="b", applied=False), None),
        (decision(label="c"), run()),
        (decision(label="c"), run(state=JobState.RUNNING)),
        (decision(label="", name="a"), None),
    ]
    rows = by_application(pairs)
    assert [(r.application, r.decisions, r.changed, r.finished) for r in rows] == [
        ("c", 2, 2, 1),
        ("ada/a", 1, 1, 0),
        ("b", 1, 0, 0),
    ]


def test_summary_counts_modes_actions_and_reasons() -> None:
    pairs: list[Pair] = [
        (decision(at_s=AT_S), run()),
        (decision(at_s=AT_S + 5, action="keep", applied=False, reason="array"), run()),
        (decision(at_s=AT_S + 9, action="keep", applied=False, reason="array", mode="off"), None),
        (decision(at_s=AT_S + 7, action="refuse", reason="deadline_missed"), None),
        (decision(at_s=AT_S + 8, action="set", applied=False, mode="observe"), None),
    ]
    report = summarise(pairs, confidence=0.9)
    assert (report.first_s, report.last_s) == (AT_S, AT_S + 9)
    assert (report.decisions, report.finished) == (5, 2)
    assert report.modes == {"enforce": 3, "off": 1, "observe": 1}
    assert report.actions == {"set": 2, "keep": 2, "refuse": 1}
    assert report.unchanged == {"array": 2, "observe": 1}
    assert report.confidence == 0.9


def test_accuracy_is_told_by_verdict() -> None:
    pairs = [
        (decision(verdict="reliable"), run(elapsed_s=1000.0)),
        (decision(verdict="doubtful"), run(elapsed_s=2000.0)),
        (decision(verdict="refused"), None),
        (decision(verdict=""), None),
    ]
    report = summarise(pairs, confidence=0.9)
    assert {name: value.mape for name, value in report.by_verdict.items()} == {
        "reliable": 0.0,
        "doubtful": 0.5,
    }


def test_an_empty_report() -> None:
    report = summarise([], confidence=0.9)
    assert (report.first_s, report.decisions, report.accuracy) == (None, 0, None)
    assert report.applications == ()


@pytest.mark.parametrize(
    ("by", "kept"),
    [({"user": "ada"}, [0, 1]), ({"partition": "long"}, [1, 2]), ({"application": "wrf"}, [0, 2])],
)
def test_select(by: dict[str, str], kept: list[int]) -> None:
    pairs: list[Pair] = [
        (decision(user="ada", partition="batch", label="wrf"), None),
        (decision(user="ada", partition="long", label="md"), None),
        (decision(user="bob", partition="long", label="bob/wrf"), None),
    ]
    assert list(select(pairs, **by)) == [pairs[i] for i in kept]


@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=20))
def test_shares_are_shares_and_order_does_not_matter(times: list[float]) -> None:
    pairs: list[Pair] = [(decision(), run(elapsed_s=t)) for t in times]
    found, reverse = accuracy(pairs), accuracy(pairs[::-1])
    assert found is not None
    assert reverse is not None
    assert found.inside is not None
    assert 0.0 <= found.inside <= 1.0
    assert min(times) / 1000 <= found.bias <= max(times) / 1000
    assert reverse.mape == pytest.approx(found.mape)
    assert reverse.inside == pytest.approx(found.inside)


def test_waits_of_jobs_that_ran_as_predicted() -> None:
    at_once = [(decision(), run(start_s=int(AT_S) + 7, eligible_s=int(AT_S)))] * 5
    others = [
        (decision(wait_s=None), run(start_s=int(AT_S))),
        (decision(), None),
        (decision(nodes=8), run(start_s=int(AT_S) + 99)),
        (decision(), run(start_s=int(AT_S) + 999, eligible_s=int(AT_S) + 900)),
        (decision(), run(start_s=None)),
    ]
    found = summarise([*at_once, *others], confidence=0.9).waits
    assert found == Waits(at_once=Held(jobs=5, within_s=7.0, later=0.0))
