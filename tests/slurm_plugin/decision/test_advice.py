"""What nimo-advise gets to show."""

from dataclasses import asdict, replace
from math import inf

import msgspec
import pytest

from predictor.change import AskedRange
from predictor.prediction_table import Tail
from predictor.problems import Problem
from predictor.tables.run_facts import change_of
from predictor.types import Point, Verdict
from sacct_ingest.runs.layout import Unit
from slurm_plugin.config.setting_types import TimeUse
from slurm_plugin.decision.advice import advice_of
from slurm_plugin.decision.messages import problem_texts, verdict_text
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.decision.submitted_job import submitted
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.node_pool import profile
from tests.slurm_plugin.made import NOW, history, job, partition, rules, table

ALL = partition()


def advice(request=None, learned=None, part=ALL, *, fresh=True, unknown=False):
    case = Situation(
        msgspec.structs.replace(
            request or Request(low=1, high=16, limit_s=7200.0), **submitted(job())
        ),
        None if unknown else learned or table(),
        part and part.supply,
        rules(),
        NOW,
        partition=part,
        blind=None if fresh else Reason.NO_SNAPSHOT,
    )
    return advice_of(case)


def test_rows_tell_what_each_count_would_mean():
    rows = {row.nodes: row for row in advice().rows}
    # T(n) = 100 + 3600/n, observed from one node on.
    assert rows[4].time_s == pytest.approx(1000.0)
    assert rows[4].speedup == pytest.approx(3.7)
    assert rows[4].efficiency == pytest.approx(3.7 / 4)
    assert rows[4].node_hours == pytest.approx(4000 / 3600)
    assert (rows[4].low_s, rows[4].high_s) == pytest.approx((1000 / 1.1, 1100.0))
    assert [n for n, row in rows.items() if row.observed] == [1, 2, 4, 8, 16]


def test_what_was_observed_comes_along_to_be_drawn():
    learned = table()
    made = advice(learned=learned)
    assert [Point(**asdict(one)) for one in made.points] == list(learned.observed)
    assert made.knee == 8


def test_a_serial_job_is_told_that_its_runs_are_of_two_kinds_and_not_what_would_scale():
    problems = (Problem("not_one_problem", "two kinds of runs"), Problem("no_curve", "no curve", 2))
    serial = {"level": "line", "one_cpu": True, "observed": (Point(1, 60.0),)}
    assert problem_texts(history(**serial, problems=problems)) == ["Two kinds of runs."]
    ended = (Problem("unfinished", "both runs reached their time limit"),)
    assert problem_texts(history(**serial, problems=ended)) == [
        "Both runs reached their time limit."
    ]
    one_cpu = serial | {"observed": [1], "verdict": Verdict.DOUBTFUL}
    learned = table(nodes=[1, 2, 4], model="history", **one_cpu)
    asked = Request(low=2, high=2, fixed=Reason.FIXED_COUNT)
    one = advice(asked, learned)
    assert ([row.nodes for row in one.rows], one.directive) == ([1], "#SBATCH --nodes=1")


@pytest.mark.parametrize(
    ("limit_s", "most_s", "text", "directive"),
    [
        (600.0, None, "Such runs take 15 to 18 min, and the time limit is 10 min.", "23"),
        (600.0, 1200.0, "Such runs take 15 to 18 min, and the time limit is 10 min.", ""),
        (7200.0, None, "", "23"),
    ],
)
def test_a_limit_shorter_than_the_run_is_named_with_one_that_holds_it(
    limit_s, most_s, text, directive
):
    limits = {"limit_s": limit_s, "asked_limit_s": limit_s, "time_use": TimeUse.ADVISE}
    short = advice(Request(low=4, high=4, **limits), part=partition(max_time_s=most_s))
    assert short.limit_text == text
    assert short.time_directive == (directive and f"#SBATCH --time=00:{directive}:00")


def test_the_fewest_observed_nodes_are_the_base_of_efficiency():
    rows = {row.nodes: row for row in advice(learned=table(observed=(4, 8, 16))).rows}
    assert (rows[4].speedup, rows[4].efficiency) == (1.0, 1.0)
    assert rows[8].efficiency == pytest.approx(1000 / 550 / 2)
    tried = replace(change_of((), Unit.NODES), ranges=(AskedRange(1, 16, 8, (2, 4, 8), 2),))
    rows = {row.nodes: row for row in advice(learned=table(observed=(8,), change=tried)).rows}
    assert [n for n, row in rows.items() if row.observed] == [2, 4, 8]
    assert rows[2].efficiency == 1.0


def test_waits_are_those_of_the_partition():
    busy = partition(profile([(NOW, 2), (NOW + 600, 30)]))
    waits = {row.nodes: row.wait_s for row in advice(part=busy).rows}
    assert (waits[2], waits[3]) == (0.0, 600.0)


def test_counts_that_are_refused_or_not_allowed_or_not_asked_for_are_not_shown():
    verdicts = tuple(Verdict.RELIABLE if n <= 12 else Verdict.REFUSED for n in range(1, 33))
    for one in (advice(part=partition(max_nodes=12)), advice(learned=table(verdicts=verdicts))):
        assert max(row.nodes for row in one.rows) == 12
    reported = advice(Request(low=2, high=6, limit_s=7200.0))
    assert [row.nodes for row in reported.rows] == [2, 3, 4, 5, 6]


def test_no_run_is_proposed_beyond_the_partition():
    unsure = table(problems=(Problem("wide_interval", "from 17 nodes on", 48),))
    assert advice(learned=unsure).observe is None
    assert advice(learned=unsure, part=partition(profile([(NOW, 64)]), nodes=64)).observe == 48


def test_an_answer_is_not_reliable_and_doubtful_at_once():
    verdicts = tuple(Verdict.RELIABLE if n <= 8 else Verdict.DOUBTFUL for n in range(1, 33))
    reported = advice(learned=table(verdicts=verdicts))
    assert reported.verdict == "doubtful"
    assert reported.verdict_text.startswith("The prediction is doubtful on 16 nodes.")
    assert "is reliable" not in reported.verdict_text
    assert "not reliable enough" in reported.reason


def test_a_guess_is_marked_and_has_no_speedup():
    reported = advice(learned=history())
    assert reported.guess
    assert "Low confidence" in reported.verdict_text
    assert {(row.speedup, row.efficiency) for row in reported.rows} == {(None, None)}
    assert not advice().guess
    assert any("nimo scale" in one for one in reported.problems)
    assert not any(row.observed for row in reported.rows)
    guessed = table(model="history", level="user")
    one_count = Request(low=2, high=2, fixed=Reason.FIXED_COUNT)
    for made in (advice(learned=guessed), advice(one_count, learned=guessed)):
        assert (made.nodes, made.directive) == (None, "")  # a guess is nothing to paste


@pytest.mark.parametrize(
    ("low", "high", "counts", "rows"),
    [
        (1, 1, (1, 2, 4), [1]),
        (1, 1, (2, 4), [1]),  # on the nearest that ran
        (6, 6, (2, 4), [6]),
        (2, 8, (1, 2, 4), [2, 4, 8]),  # Slurm would give 8
    ],
)
def test_a_guess_by_name_is_on_counts_that_the_job_may_get(low, high, counts, rows):
    guessed = table(nodes=counts, observed=counts, model="history")
    fixed = Reason.FIXED_COUNT if low == high else None
    reported = advice(Request(low=low, high=high, limit_s=7200.0, fixed=fixed), guessed)
    assert [row.nodes for row in reported.rows] == rows
    assert reported.asked == high
    nearest = min(counts, key=lambda n: abs(n - high))
    assert reported.rows[-1].time_s == pytest.approx(100 + 3600 / nearest)
    assert not reported.directive


def test_a_guess_beyond_the_partition_has_no_row_of_a_count_it_was_not_asked_for():
    guessed = table(nodes=(2, 4), observed=(2, 4), model="history")
    asked = Request(low=40, high=40, fixed=Reason.FIXED_COUNT)
    assert advice(asked, guessed).rows == []


def test_runs_that_did_not_finish_are_reported():
    text = "all 10 runs of this command reached their time limit"
    empty = replace(history(), level="line", nodes=(), problems=(Problem("unfinished", text),))
    reported = advice(learned=empty)
    assert (reported.rows, reported.nodes) == ([], None)
    assert "All 10 runs of this command reached their time limit." in reported.problems


def test_without_a_view_of_the_cluster_there_are_no_waits_and_it_is_said():
    reported = advice(fresh=False)
    assert {row.wait_s for row in reported.rows} == {None}
    assert reported.nodes is not None
    assert "queue is unknown" in reported.reason
    anything = Request(low=1, high=1, fixed=Reason.FIXED_COUNT)
    for learned, known, largest in [
        (table(in_cluster=12), None, 12),
        (table(), partition(nodes=12), 12),
        (table(), None, 16),  # the widest run is all that is known
    ]:
        rows = advice(anything, learned, known, fresh=False).rows
        assert max(row.nodes for row in rows) == largest


def test_a_lack_of_history_is_said():
    reported = advice(unknown=True)
    assert (reported.verdict, reported.nodes) == ("unknown", None)
    assert reported.rows == reported.points == []
    assert "no finished run of this job" in reported.verdict_text
    assert "nimo scale" in reported.problems[0]


def test_a_history_is_shown_and_what_would_help():
    reported = advice(learned=history(level="line"))
    assert (reported.nodes, reported.verdict, reported.observe) == (None, "doubtful", 8)
    assert advice(learned=history()).observe is None  # of other commands of this name
    assert [row.nodes for row in reported.rows] == [4]


@pytest.mark.parametrize(
    ("runs", "own_s", "said"),
    [(1, 7200, "#SBATCH --time=00:23:00"), (10, 7200, "#SBATCH --time=00:23:00"), (60, 1200, "")],
)
def test_a_history_of_one_count_has_a_limit_to_ask_for(runs, own_s, said):
    asked = Request(low=4, high=4, limit_s=own_s, asked_limit_s=own_s, time_use=TimeUse.ADVISE)
    assert advice(asked, history(level="line", runs=runs)).time_directive == said


def test_a_doubtful_curve_recommends_the_best_count_and_says_how_sure_that_is():
    problem = Problem("alternative_fit", "another model fits as well", 24)
    reported = advice(learned=table(verdict=Verdict.DOUBTFUL, problems=(problem,)))
    (row,) = [one for one in reported.rows if one.recommended]
    assert reported.directive == f"#SBATCH --nodes={row.nodes}"
    assert (row.nodes < reported.asked, row.no_later) == (True, 0.0)
    asked = next(one for one in reported.rows if one.nodes == reported.asked)
    assert row.later_s >= row.time_s - asked.time_s > 0
    assert asked.later_s <= 0
    assert "doubtful" in reported.verdict_text
    assert "Another model fits as well." in reported.problems
    assert len(reported.rows) == 16


@pytest.mark.parametrize("fixed", [Reason.FIXED_COUNT, Reason.NOT_OPTED_IN])
def test_a_count_asked_for_is_compared_with_all_others(fixed):
    reported = advice(Request(low=16, high=16, limit_s=7200.0, fixed=fixed))
    assert reported.nodes < 16


def test_a_count_that_cannot_be_predicted_is_compared_with_the_nearest_that_can():
    request = Request(low=1, high=1, limit_s=7200.0, fixed=Reason.NOT_OPTED_IN)
    assert advice(request, table(nodes=range(4, 33), observed=(4, 8, 16))).nodes is not None


def test_a_layout_that_is_fixed_is_not_second_guessed():
    reported = advice(Request(low=1, high=16, fixed=Reason.FIXED_TASKS))
    assert reported.nodes is None
    assert Reason.FIXED_TASKS.text[1:] in reported.reason


def test_deadlines_are_reported_for_each_count():
    reported = advice(Request(low=1, high=16, limit_s=400.0, deadline_s=NOW + 660))
    meets = {row.nodes: row.meets_deadline for row in reported.rows}
    # 1.1·(100 + 3600/n) <= 660 from n = 8 on; from 9 on ten minutes hold it, the own limit not yet.
    assert (meets[7], meets[8], meets[9], meets[16]) == (False, None, True, True)
    assert {row.nodes: row.limit_s for row in reported.rows}[9] == 600.0
    assert reported.meets_deadline is True
    assert advice(Request(low=1, high=4, deadline_s=NOW + 60)).meets_deadline is False


def test_waits_and_limits_are_those_of_the_decision():
    """A reservation 80 minutes ahead delays a job whose limit has to be longer on fewer nodes."""
    part = partition(profile([(NOW, 32), (NOW + 4800, -32), (NOW + 20000, 32)]))
    rows = {
        row.nodes: row for row in advice(Request(low=1, high=16, limit_s=3600.0), part=part).rows
    }
    assert (rows[16].wait_s, rows[1].wait_s) == (0.0, 20000.0)


@pytest.mark.parametrize(
    ("limit_s", "reserved_s", "named"),
    [
        (36_000.0, 4_800.0, True),
        # It fits before the reservation as it is.
        (4_000.0, 4_800.0, False),
        # Not even the advised limit does.
        (36_000.0, 100.0, False),
        # There is none.
        (36_000.0, inf, False),
    ],
)
def test_a_reservation_that_only_the_own_limit_reaches_is_named(limit_s, reserved_s, named):
    steps = [(NOW, 32), (NOW + reserved_s, -32), (NOW + 20_000, 32)] if reserved_s < inf else []
    part = partition(profile(steps or [(NOW, 32)]), reserved_s=NOW + reserved_s)
    asked = {"limit_s": limit_s, "asked_limit_s": limit_s, "time_use": TimeUse.ADVISE}
    learned = table()
    tails = (Tail(0.9, learned.high_s), Tail(0.99, learned.high_s))
    request = Request(low=16, high=16, **asked)
    text = advice(request, part=part, learned=replace(learned, tails=tails)).time_text
    words = "With its time limit of 10 h it would start 5.6 h later: after the reservation"
    assert (words in text) is named, text


def test_a_longer_limit_that_fewer_nodes_need_is_reported():
    request = Request(low=1, high=16, limit_s=400.0, asked_limit_s=400.0)
    reported = advice(request, part=partition(queue=50))
    assert reported.nodes < 16
    assert reported.time_directive.startswith("#SBATCH --time=00:")
    assert advice(Request(low=1, high=16)).time_directive == ""


def test_a_deadline_that_the_limit_spoils_is_reported_with_one_that_would_do():
    reported = advice(Request(low=16, high=16, limit_s=3600.0, deadline_s=NOW + 600))
    assert reported.time_directive == "#SBATCH --time=00:08:00"
    assert "--time=00:08:00 is enough" in reported.deadline_text
    assert reported.meets_deadline is True  # with that line
    sooner = advice(Request(low=16, high=16, limit_s=3600.0, deadline_s=NOW + 400))
    assert "--time=00:05:00 is the longest that leaves it a minute" in sooner.deadline_text
    assert sooner.time_directive == ""  # eight minutes would not end before the deadline
    hardly = advice(Request(low=16, high=16, limit_s=330.0, deadline_s=NOW + 389))
    assert "Slurm may take a minute to start a job" in hardly.deadline_text


def test_a_verdict_is_about_no_count_that_the_cluster_lacks():
    sure = table(verdicts=(Verdict.RELIABLE,) * 12 + (Verdict.DOUBTFUL,) * 20)
    words = ((0, " on 1 to 12 nodes"), (16, " on 1 to 12 nodes"), (8, ""))
    for largest, where in words:
        said = verdict_text(replace(sure, in_cluster=largest))
        assert said == f"The prediction is reliable{where}."
