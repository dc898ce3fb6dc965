"""Reports on hand-made rows: every expected figure is worked out by hand."""

from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.waits.error_record import WaitClass, WaitError
from predictor.waits.workload import PastRecord, QueuePast, encode
from sacct_ingest.records import JobState
from sacct_ingest.runs.layout import Unit
from sacct_ingest.store import DecisionSelection, Store
from sacct_ingest.store.fits import QUEUE, WAITS
from sacct_ingest.store.rows import RecordRow
from slurm_plugin.config.settings import Config
from slurm_plugin.evaluation.accuracy import Ratios
from slurm_plugin.evaluation.effects import Deadlines, EffectEstimate, Gain, Promises
from slurm_plugin.evaluation.outcomes import select
from slurm_plugin.evaluation.report_data import collect, queue_estimates
from slurm_plugin.protocol.status_messages import WaitAccuracy
from slurm_plugin.protocol.wait_shares import WaitShares
from slurm_plugin.reports import terminal
from slurm_plugin.reports.sheets import find, sheets_of
from tests.slurm_plugin.reports.rows import AT_S, decision, run, summarise


def accuracy(pairs):
    return summarise(pairs, confidence=0.9).accuracy


def deadlines(pairs):
    return summarise(pairs, confidence=0.9).deadlines


def applied_effect(pairs):
    return next(iter(summarise(pairs, confidence=0.9).applied), None)


def observed_effect(pairs):
    return next(iter(summarise(pairs, confidence=0.9).observed), None)


def by_application(pairs):
    return summarise(pairs, confidence=0.9).applications


def test_jobs_that_were_planned_shorter():
    at_s = int(AT_S)
    pairs = [
        (decision(), run(start_s=at_s + 90)),
        (decision(soft_s=999), run(start_s=at_s + 20)),
        (decision(soft_s=1000), run(start_s=at_s + 40)),
        (decision(), run(start_s=at_s + 30)),
    ]
    made = summarise(pairs, confidence=0.9).planned
    assert (made.jobs, made.outlasted) == (2, 1)
    assert (made.wait_before_s, made.wait_since_s) == (90.0, 30.0)


def test_accuracy_of_three_runs():
    pairs = [
        (decision(), run(elapsed_s=1000.0)),  # exact, inside
        (decision(), run(elapsed_s=1250.0)),  # |1250 - 1000| / 1250 = 0.2, outside
        (decision(), run(elapsed_s=800.0)),  # |800 - 1000| / 800 = 0.25, outside
    ]
    result = accuracy(pairs)
    assert (result.runs, result.bias, result.intervals) == (3, 1.0, 3)
    assert result.mape == pytest.approx(0.15)
    assert result.inside == pytest.approx(1 / 3)


def test_the_ends_of_the_interval_are_inside():
    result = accuracy([(decision(), run(elapsed_s=t)) for t in (900.0, 1100.0)])
    assert result.inside == 1.0


def test_a_run_on_the_count_asked_for_is_compared_with_the_prediction_there():
    outcome = run(nodes=2, elapsed_s=2250.0)
    result = accuracy([(decision(applied=False), outcome)])
    assert (result.mape, result.bias) == (1 - 1800 / 2250, 1.25)
    # Without an interval of its own it is taken to be as wide as that of the chosen count.
    assert (result.intervals, result.inside) == (1, 0.0)
    own = decision(applied=False, request_low_s=1500.0, request_high_s=2300.0)
    result = accuracy([(own, outcome)])
    assert result.inside == 1.0


def test_other_levels_are_derived_and_the_stored_one_is_counted():
    # A run at half the upper end in log time: 0.82 standard deviations of a 90 % interval.
    near = decision(low_s=500.0, high_s=2000.0, confidence=0.9)
    pairs = [(near, run(elapsed_s=t)) for t in (1000.0, 1000 * 2**0.4, 1000 * 2**0.5, 2000.0)]
    result = accuracy(pairs)
    assert [(c.nominal, c.inside, c.derived) for c in result.coverage] == [
        (0.5, 0.5, True),  # up to 0.41 of the stored half
        (0.9, 1.0, False),
        (0.95, 1.0, True),
    ]
    assert (result.longer, result.beyond) == (0.75, 0.0)
    assert sum(result.histogram) == 4


def test_the_level_of_an_interval_is_the_decisions_own():
    result = accuracy([(decision(confidence=0.5), run(elapsed_s=1150.0))])
    assert {c.nominal: (c.inside, c.derived) for c in result.coverage} == {
        0.5: (0.0, False),
        0.9: (1.0, True),
        0.95: (1.0, True),
    }


@pytest.mark.parametrize(
    ("decided", "outcome"),
    [
        (decision(), None),
        (decision(), run(nodes=3)),
        (decision(), run(state=JobState.FAILED)),
        (decision(), run(state=JobState.TIMEOUT)),
        (decision(), run(state=JobState.RUNNING)),
        (decision(), run(elapsed_s=0.0)),
        (decision(predicted_s=None, low_s=None, high_s=None), run()),
    ],
)
def test_what_cannot_be_compared_is_left_out(decided, outcome):
    assert accuracy([(decided, outcome)]) is None


def test_deadlines_by_what_became_of_the_job():
    due = AT_S + 1010
    pairs = [
        (decision(deadline_s=due, reason="deadline_limit"), run()),  # ends in the very second
        (decision(deadline_s=due - 1), run()),
        (decision(deadline_s=due, reason="deadline_unsure"), run(state=JobState.DEADLINE)),
        (decision(deadline_s=due, action="refuse"), None),
        (
            decision(deadline_s=due, action="refuse", applied=False, reason="deadline_missed"),
            run(elapsed_s=1200.0, end_s=int(due) + 200),
        ),  # only observed
        (decision(deadline_s=due), None),
        (decision(deadline_s=due), run(state=JobState.RUNNING, end_s=None)),
        (decision(), run()),  # no deadline: does not count
    ]
    assert deadlines(pairs) == Deadlines(met=1, missed=3, refused=1, open=2, warned=3)


def test_effect_of_applied_decisions():
    pairs = [
        (decision(), run(elapsed_s=900.0)),  # 4 x 900 s = 1 node-hour; as asked 2 x 1800 s = 1
        (decision(), run(elapsed_s=1800.0)),  # 2 node-hours; 1
        (decision(), run(nodes=2, elapsed_s=1800.0)),  # changed by someone else since
        (decision(applied=False), run()),
        (decision(), run(state=JobState.FAILED)),
        (decision(request_predicted_s=None), run()),
    ]
    result = applied_effect(pairs)
    assert (result.jobs, result.more_nodes) == (2, 2)
    assert (result.node_hours, result.run_hours) == (3.0, 0.75)
    # Otherwise 2 x 1800 s x 0.9 and x 1.8: each job is as slow on either count.
    ends = {"low": pytest.approx(2.43), "high": pytest.approx(2.97)}
    assert result.other_node_hours == EffectEstimate(value=2.7, **ends)
    assert result.other_run_hours.value == 1.35


def test_effect_of_decisions_that_were_only_observed():
    pairs = [
        (
            decision(mode="observe", applied=False, predicted_s=900.0),
            run(nodes=2, elapsed_s=1800.0),
        ),
        (decision(mode="observe", applied=False), run(nodes=4)),  # had that count anyway
        (decision(mode="observe", applied=False, action="keep"), run(nodes=2)),
    ]
    result = observed_effect(pairs)
    assert result.jobs == 1
    assert (result.node_hours, result.other_node_hours.value) == (1.0, 1.0)
    assert (result.run_hours, result.other_run_hours.value) == (0.5, 0.25)


def test_errors_add_up_within_an_application_and_not_between_two():
    def high(*labels):
        given = [(decision(label=label, request_high_s=2800.0, request_low_s=1.0), run())
                 for label in labels]  # fmt: skip
        result = applied_effect(given)
        return (result.other_run_hours.high - result.other_run_hours.value) * 3.6

    assert high("wrf", "wrf") == pytest.approx(2.0)
    assert high("wrf", "md") == pytest.approx(2**0.5)


def test_run_times_otherwise_are_as_unsure_as_pairs_of_runs_on_two_counts():
    def otherwise(*factors):
        """Runs on 4 and 2 nodes in turn; those on 2 take so many times what was predicted."""
        pairs = [
            pair
            for by in factors
            for pair in (
                (decision(), run(elapsed_s=1000.0)),
                (decision(applied=False, action="keep"), run(nodes=2, elapsed_s=by * 2000.0)),
            )
        ]
        result = applied_effect(pairs)
        return result.other_run_hours

    each_h = decision().request_predicted_s * 1000.0 / decision().predicted_s / 3600
    base = 2000.0 / decision().request_predicted_s * decision().predicted_s / 1000.0
    sure, unsure = (1.2 / base,) * 4, (1.2 / base, 3 / base, 3 / base, 1.2 / base)
    assert otherwise(*sure).high == pytest.approx(4 * each_h * 1.2)
    assert otherwise(*sure).low == pytest.approx(4 * each_h / 1.2)
    assert otherwise(*unsure).high == pytest.approx(4 * each_h * 3)
    # Three pairs say nothing: the prediction's own interval of 10 % holds.
    assert otherwise(*sure[:2]).high == pytest.approx(2 * each_h * 1.1)


def test_a_count_that_was_asked_for_is_no_change():
    same = decision(requested_nodes=4)
    assert by_application([(same, run())])[0].changed == 0
    assert applied_effect([(same, run())]) is None


def test_waits_otherwise():
    pair = decision(wait_s=100.0, request_wait_s=400.0), run(start_s=int(AT_S) + 160)
    pairs = [
        *[pair] * 5,
        (decision(wait_s=0.0), run(start_s=int(AT_S) + 20)),
        (decision(request_wait_s=9.0), run(start_s=int(AT_S) + 999, eligible_s=int(AT_S) + 900)),
    ]
    result = applied_effect(pairs)
    assert (result.wait_jobs, result.unsure_wait_jobs) == (5, 0)
    assert result.wait_hours * 3600 == 5 * 160.0
    # 400 s x 1.6 each; those waits were off by a minute.
    otherwise = result.other_wait_hours
    assert [x * 3600 for x in (otherwise.low, otherwise.value, otherwise.high)] == pytest.approx(
        [5 * 580.0, 5 * 640.0, 5 * 700.0]
    )


def test_waits_that_are_predicted_badly_save_nothing():
    # A day and 20 h were predicted, the jobs started after minutes.
    pair = decision(wait_s=86400.0, request_wait_s=72000.0), run(start_s=int(AT_S) + 300)
    result = applied_effect([pair] * 6)
    assert (result.wait_jobs, result.unsure_wait_jobs) == (0, 6)
    assert (result.wait_hours, result.other_wait_hours.value) == (0.0, 0.0)


def test_no_such_decision_no_effect():
    assert applied_effect([]) is None
    assert observed_effect([(decision(), run())]) is None


def test_applications_are_sorted_by_decisions_then_name():
    pairs = [
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


def test_runs_that_learning_made_are_no_applications():
    made = decision(label="", name="nimo-learn-blast-0b65fd7ea5fd-0", applied=False)
    rows = by_application([(made, run()), (decision(label="blast"), run())])
    assert [(row.application, row.decisions) for row in rows] == [("blast", 1)]


def test_summary_counts_modes_actions_and_reasons():
    pairs = [
        (decision(at_s=AT_S), run()),
        (decision(at_s=AT_S + 5, action="keep", applied=False, reason="array"), run()),
        (decision(at_s=AT_S + 9, action="keep", applied=False, reason="array", mode="off"), None),
        (decision(at_s=AT_S + 7, action="refuse", reason="deadline_missed"), None),
        (decision(at_s=AT_S + 8, action="set", applied=False, mode="observe"), None),
        (decision(at_s=AT_S + 8, action="set", applied=False, mode="enforce"), None),
    ]
    report = summarise(pairs, confidence=0.9)
    assert (report.first_s, report.last_s) == (AT_S, AT_S + 9)
    assert (report.decisions, report.finished) == (6, 2)
    assert report.modes == {"enforce": 4, "off": 1, "observe": 1}
    assert report.actions == {"set": 3, "keep": 2, "refuse": 1}
    assert report.unchanged == {"array": 2, "observe": 1, "not_applied": 1}
    assert report.confidence == 0.9
    assert [(r.mode, r.reason, r.decisions) for r in report.reasons if r.action == "keep"] == [
        ("enforce", "array", 1),
        ("off", "array", 1),
    ]


def test_accuracy_is_reported_by_verdict():
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


def test_an_empty_report():
    report = summarise([], confidence=0.9)
    assert (report.first_s, report.decisions, report.accuracy) == (None, 0, None)
    assert report.applications == ()


def test_select_by_label_with_or_without_its_user():
    pairs = [
        (decision(label="wrf"), None),
        (decision(label="md"), None),
        (decision(label="bob/wrf"), None),
    ]
    assert list(select(pairs, "wrf")) == [pairs[0], pairs[2]]
    assert list(select(pairs)) == pairs


def test_weeks_begin_on_monday():
    monday_s = 1_790_553_600.0  # 2026-09-28
    pairs = [(decision(at_s=monday_s + d), run()) for d in (-1.0, 0.0, 1.0)]
    weeks = summarise(pairs, confidence=0.9).weeks
    assert [(w.begin_s, w.decisions) for w in weeks] == [(monday_s - 7 * 86_400, 1), (monday_s, 2)]


def test_weeks_have_the_errors_that_the_headline_has():
    pairs = [(decision(), run()), (decision(key_level="user", applied=False), run())]
    report = summarise(pairs, confidence=0.9)
    assert report.guesses is not None
    assert [week.accuracy for week in report.weeks] == [report.accuracy]


@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=20))
def test_shares_are_shares_and_order_does_not_matter(times):
    pairs = [(decision(), run(elapsed_s=t)) for t in times]
    result, reverse = accuracy(pairs), accuracy(pairs[::-1])
    assert 0.0 <= result.inside <= 1.0
    assert min(times) / 1001 <= result.bias <= max(times) / 999
    assert reverse.mape == pytest.approx(result.mape)
    assert reverse.inside == pytest.approx(result.inside)


def test_waits_of_jobs_that_ran_as_predicted():
    at_once = [(decision(), run(start_s=int(AT_S) + 7, eligible_s=int(AT_S)))] * 5
    others = [
        (decision(wait_s=None), run(start_s=int(AT_S))),
        (decision(), None),
        (decision(nodes=8), run(start_s=int(AT_S) + 99)),
        (decision(), run(start_s=int(AT_S) + 999, eligible_s=int(AT_S) + 900)),
        (decision(), run(start_s=None)),
    ]
    result = summarise([*at_once, *others], confidence=0.9).waits
    assert result == WaitAccuracy(at_once=WaitShares(jobs=5, within_s=7.0, later=0.0))


@given(st.lists(st.floats(0.05, 20.0), min_size=33, max_size=200))
def test_the_median_of_many_is_within_half_a_percent(ratios):
    many = Ratios()
    for ratio in ratios:
        many.add(ratio)
    assert many.median() == pytest.approx(median(ratios), rel=0.0051)
    assert sum(many.histogram()) == len(ratios)


def test_each_unit_has_effects_of_its_own():
    sized = (decision(unit="cpus"), run())
    effects = summarise([sized, sized, (decision(), run())], confidence=0.9).applied
    assert [(one.unit, one.jobs) for one in effects] == [("nodes", 1), ("cpus", 2)]


def test_promises_are_held_against_what_came_and_tries_are_counted_apart():
    pairs = [
        (decision(), run()),
        (decision(), run(elapsed_s=2400.0)),  # 1.25 · 1800 s + 60 s would have been kept
        (decision(reason="learning"), run(elapsed_s=3600.0)),
        (decision(applied=False), run(elapsed_s=9000.0)),
        (decision(), run(state=JobState.FAILED)),
    ]
    made = summarise(pairs, confidence=0.9).promises
    assert made == Promises(kept=1, jobs=2, tries=1, applications=1, try_hours={Unit.NODES: 4.0})
    saved = decision(nodes=1, requested_nodes=4)
    # It got its range back, or its user changed it: no promise was kept or broken.
    opened = summarise([*pairs, (decision(), run(nodes=3))], confidence=0.9).promises
    assert opened == replace(made, otherwise=1)
    later = summarise([*pairs, (saved, run(nodes=1, elapsed_s=3600.0))], confidence=0.9).promises
    assert later.since == (Gain(jobs=1, node_hours=pytest.approx(4 * 1800 * 3.6 / 3600 - 1)),)


def error(at_s, estimate_s, actual_s, *, partition="batch", inside=True):
    return WaitError(at_s, WaitClass(True, partition), 0.0, estimate_s, actual_s, inside)


@pytest.fixture
def store():
    with Store.open("sqlite://") as made:
        own = [error(n, 140.0, 40.0, inside=n != 3) for n in range(10)]
        own += [error(n, 0.0, 0.0, partition="debug") for n in range(4)]
        past = [error(n, 540.0, 5_940.0, inside=False) for n in range(6)]
        rows = (
            (WAITS, "pine", encode(own)),
            (WAITS, "oak", encode([error(n, 60.0, 60.0) for n in range(5)])),
            (WAITS, "elm", "damaged"),
            (QUEUE, "pine", encode(QueuePast(waits=PastRecord(errors=past)))),
        )
        for level, key, payload in rows:
            made.records.put(RecordRow(level=level, key=key, payload=payload))
        yield made


def test_submissions_and_history_are_judged_by_partition(store):
    oak, batch, history = queue_estimates(store, DecisionSelection())
    assert (oak.cluster, oak.jobs, oak.within) == ("oak", 5, 1.0)
    assert (batch.cluster, batch.partition, batch.of) == ("pine", "batch", "submissions")
    assert (batch.jobs, batch.waited, batch.inside) == (10, 0, 0.9)
    assert batch.within == pytest.approx(2.0)
    assert (history.of, history.jobs, history.waited, history.inside) == ("history", 6, 6, 0.0)
    assert history.within == pytest.approx(10.0)


def test_a_selection_holds_as_far_as_a_record_tells(store):
    def jobs(**fields):
        return [one.jobs for one in queue_estimates(store, DecisionSelection(**fields))]

    assert jobs(cluster="oak") == [5]
    assert jobs(partition="debug") == []  # of so few nothing is said
    assert jobs(since_s=2.0, until_s=9.0, cluster="pine") == [7]
    for field in ("user", "account", "only_user"):
        assert jobs(**{field: "eve"}) == []


def test_the_report_shows_them(store):
    report = collect(store, DecisionSelection(cluster="pine"), config=Config())
    sheet = find(sheets_of(report, {}), "wait_estimates")
    assert [row[:4] for row in sheet.cells()] == [
        ["pine", "batch", "submissions", "10"],
        ["pine", "batch", "history", "6"],
    ]
    text = "\n".join(terminal.render(replace(report, decisions=1), {}, width=200))
    assert "10 estimates (submissions): half off by a factor of 2.00 or less, 90 % inside" in text
    assert "6 estimates (history): half off by a factor of 10.00 or less, 0 % inside" in text
    assert collect(store, DecisionSelection(), config=Config(), application="a").queue_waits == ()
