"""Time limits that a service sets or advises, and those that Slurm plans with."""

import dataclasses
from math import ceil

import msgspec
import pytest

from predictor.facts import Ending, Longest
from predictor.prediction_table import Part, Tail
from predictor.stored_table import part_key
from predictor.types import Verdict
from sacct_ingest.records import ShownJob
from sacct_ingest.runs.layout import Each, Layout, Unit
from sacct_ingest.text import admin_comment
from sacct_ingest.text.durations import slurm_time
from slurm_plugin.config.setting_types import Mode, SoftUse, TimeUse
from slurm_plugin.config.settings import ModeRule, Snapshot, TimeLimit
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.decision.soft_plans import SoftPlans, quantiles_of
from slurm_plugin.protocol.decision_messages import Change
from slurm_plugin.protocol.query_messages import Explanation, explanation_of
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.reports.why_text import explain
from slurm_plugin.text.formatting import spoken_clock
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, cluster, history, job, partition, stored, table, thrifty


def tailed(**fields):
    recorded = table(**fields)
    tails = [Tail(share, tuple(f * t for t in recorded.median_s)) for share, f in TAILS]
    return dataclasses.replace(recorded, tails=tuple(tails))


TAILS = ((0.9, 1.1), (0.99, 1.2))


SET = TimeLimit(use=TimeUse.SET)


def test_a_limit_is_set_where_the_site_opted_in():
    answer, row = submit(advisor(tables=(tailed(),), time_limit=SET))
    time_s = 100 + 3600 / row.nodes
    minutes = [ceil(time_s * factor * 1.2 / 60) for _, factor in TAILS]
    assert [answer.set.time_min, answer.set.time_limit] == minutes
    assert (row.given_min_s, row.given_limit_s) == (60 * minutes[0], 60 * minutes[1])
    note = admin_comment.parse(answer.admin_comment)
    assert (note.least_min, note.limit_min) == tuple(minutes)


def test_an_unchanged_count_still_gets_its_limit():
    fixed = job(min_nodes=16, max_nodes=16, min_cpus=16)
    answer, row = submit(advisor(tables=(tailed(),), time_limit=SET), fixed)
    assert (answer.action, answer.reason) == ("set", Reason.FIXED_COUNT)
    assert answer.set == Change(time_limit=8, time_min=8 if row.given_min_s else None)
    assert (row.action, row.nodes, row.limit_s) == ("keep", 16, 7200)


@pytest.mark.parametrize(
    ("request_", "set_"),
    [
        (job(comment="nimo:time=set"), True),
        (job(comment="nimo:off,time=set"), False),
        (job(comment="nimo:time=set", het_job_offset=0), False),
        (job(comment="nimo:time=set", array_inx="1-9"), True),
        # Where these tasks will run is not known.
        (job(comment="nimo:time=set", min_nodes=None, max_nodes=None, num_tasks=64), False),
        (job(comment="nimo:time=set", min_nodes=None, max_nodes=None), True),
        (job(), False),
    ],
)
def test_a_comment_opts_one_job_in(request_, set_):
    answer, _ = submit(advisor(tables=(tailed(),)), request_)
    given = answer.set is not None and answer.set.time_min is not None
    assert given is set_


@pytest.mark.parametrize(
    ("fields", "request_", "why"),
    [
        ({}, job(comment="nimo:time=set"), ""),
        ({}, job(comment="nimo:time=set", time_limit=2), ""),  # it is as short already
        ({}, job(comment="nimo:off,time=set"), ""),
        ({}, job(), ""),
        (
            {"verdict": Verdict.DOUBTFUL, "verdicts": ()},
            job(comment="nimo:time=set", min_nodes=4, max_nodes=4),
            "the prediction on 4 nodes is doubtful",
        ),
        (
            {"tails": ()},
            job(comment="nimo:time=set"),
            "its 10 runs do not say how long the longest",
        ),
        ({"owner": "bob"}, job(comment="nimo:time=set"), Reason.OTHERS_RUNS.text),
        ({}, job(comment="nimo:time=set", name="other"), Reason.NO_FINISHED_RUN.text),
        (
            {},
            job(comment="nimo:time=set", min_nodes=None, max_nodes=None, num_tasks=64),
            "the job asks for no number of nodes",
        ),
        ({"owner": "bob"}, job(comment="nimo:mem=auto"), Reason.OTHERS_RUNS.text),
        ({}, job(comment="nimo:mem=auto"), "the accounting has no memory of its runs"),
    ],
)
def test_a_word_of_the_tag_that_changes_nothing_is_told_with_what_it_takes(fields, request_, why):
    made = advisor(tables=(dataclasses.replace(tailed(), **fields),))
    answer, row = submit(made, request_)
    word = request_.comment.removeprefix("nimo:")
    said = f"{word} changes nothing: {why}" if why else ""
    assert said in answer.message and said in made.advise(request_, now_s=NOW).comment_text
    assert (" changes nothing: " in answer.message) is bool(why)
    explained = explain(explanation_of(row, None), 17)
    assert said in explained
    assert ("; it takes " in explained) is bool(why)


OLD = cluster(keeps_limit=False)


@pytest.mark.parametrize("look", [OLD, cluster()], ids=["before 25.05.3", "from 25.05.3 on"])
def test_time_min_is_written_and_advised_only_where_backfill_keeps_the_limit(look):
    made = advisor(tables=(tailed(),), time_limit=SET, look=look)
    answer, row = submit(made)
    assert answer.set.time_limit is not None
    assert (answer.set.time_min is not None) is (row.given_min_s is not None) is look.keeps_limit
    prepared = made.prepare(job(), now_s=NOW)
    assert (prepared.set.time_min is not None) is look.keeps_limit
    advice = made.advise(job(), now_s=NOW)
    assert "--time=" in advice.time_directive
    assert ("--time-min=" in advice.time_directive) is look.keeps_limit
    assert all((r.time_min_s is not None) <= look.keeps_limit for r in advice.rows)


def test_time_min_is_not_advised_where_the_release_is_unknown():
    made = DecisionService(thrifty(), new_id=str)
    made.tables = stored(tailed())
    assert "--time-min" not in made.advise(job(), now_s=NOW).time_directive
    made.cluster = cluster()
    assert "--time-min" in made.advise(job(), now_s=NOW).time_directive
    made.cluster = OLD
    assert "--time-min" not in made.advise(job(), now_s=NOW).time_directive


def test_a_comment_opts_one_job_out():
    answer, _ = submit(advisor(tables=(tailed(),), time_limit=SET), job(comment="nimo:time=off"))
    assert answer.set.time_min is None


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_only_enforce_sets_limits(mode):
    answer, row = submit(advisor(tables=(tailed(),), time_limit=SET, mode=mode))
    assert (answer.set, row.given_limit_s) == (None, None)
    assert ("--time=" in answer.message) is (mode is Mode.ADVISE)


def test_the_advice_has_a_line_for_the_limit():
    advice = advisor(tables=(tailed(),)).advise(job(), now_s=NOW)
    row = next(row for row in advice.rows if row.recommended)
    assert row.time_min_s < row.limit_s < 7200
    assert advice.time_directive == (
        f"#SBATCH --time={slurm_time(row.limit_s)} --time-min={slurm_time(row.time_min_s)}"
    )


@pytest.mark.parametrize(
    ("longest", "minutes"),
    [
        (Longest(16, 900.0, cut_s=900.0), 18),  # with the margin of a fifth
        (Longest(32, 900.0, cut_s=900.0), 18),  # on fewer nodes it takes no less
        (Longest(8, 900.0, cut_s=900.0), 8),
        (Longest(16, 900.0), 8),  # half of the longest run
    ],
)
def test_no_limit_is_shorter_than_what_a_limit_cut_short(longest, minutes):
    history = dataclasses.replace(tailed(), longest=(longest,))
    fixed = job(min_nodes=16, max_nodes=16, min_cpus=16)
    answer, _ = submit(advisor(tables=(history,), time_limit=SET), fixed)
    assert answer.set.time_limit == minutes


@pytest.mark.parametrize(
    ("learned", "fields", "named"),
    [
        (table(runs=3), {}, "on 16 nodes, --time=00:08:00 is enough"),  # too few of the user's own
        (
            table(),
            {"name": "unknown"},
            "--time=00:14:00 is the longest that leaves it a minute to start",
        ),
        (table(), {"comment": "nimo:off"}, "--time=00:08:00 is enough"),
    ],
)
def test_a_job_that_its_limit_would_end_at_once_is_told_whatever_nimo_makes_of_it(
    learned, fields, named
):
    """A limit as long as the time to the deadline is too long by the time that it starts."""
    due = {"deadline": f"uts{NOW + 900:.0f}", "time_limit": 15, "min_nodes": 16, "max_nodes": 16}
    answer, _ = submit(advisor(tables=[learned]), job(**due | fields))
    assert answer.action == "keep"
    assert spoken_clock(NOW, NOW) in answer.message.partition("\n")[0]
    assert named in answer.message
    assert not submit(advisor(), job(**due | {"time_limit": 8}))[0].message


FOUR = Layout(4, 4)


def test_a_request_with_other_tasks_than_all_runs_is_left_alone():
    tails = (Tail(0.9, table().high_s), Tail(0.99, table().high_s))
    four = table(layout=FOUR, tails=tails)
    made = advisor(tables=[four], time_limit=TimeLimit(use=TimeUse.SET))
    answer, row = submit(made, job(ntasks_per_node=1, time_limit=600))
    assert (answer.action, row.reason) == ("keep", "other_layout")
    assert submit(made, job(ntasks_per_node=4, time_limit=600))[0].action == "set"


@pytest.mark.parametrize("tasks", [1, 2])
def test_advice_says_what_differs(tasks):
    made = advisor(tables=[table(layout=FOUR)])
    advice = made.advise(job(min_nodes=1, max_nodes=1, num_tasks=tasks), now_s=NOW)
    assert (advice.verdict, advice.directive, advice.time_directive) == ("refused", "", "")
    assert "4 tasks and 4 CPUs" in advice.problems[0]
    assert f"{tasks} task" in advice.problems[0]


def test_a_request_gets_the_table_of_its_own_layout():
    parts = {"four": Layout(4, 4), "one": Layout(1, 1)}
    whole = dataclasses.replace(
        history(), parts=tuple(Part(key, layout) for key, layout in parts.items())
    )
    tables = [whole, *(table(key=key, layout=layout) for key, layout in parts.items())]
    made = advisor(tables=tables)
    keys = {n: submit(made, job(ntasks_per_node=n))[1].key for n in (1, 2, 4)}
    assert keys == {1: "one", 2: whole.key, 4: "four"}
    assert submit(made, job(ntasks_per_node=2))[1].verdict == "refused"


@pytest.mark.parametrize("tres", ["", "gres/gpu:1", "gres/gpu:1K"])
def test_a_request_with_other_gpus_than_all_runs_is_left_alone(tres):
    two = table(layout=dataclasses.replace(FOUR, gpus=2))
    made = advisor(tables=[two])
    answer, row = submit(made, job(ntasks_per_node=4, tres_per_node=tres))
    assert (answer.action, row.reason) == ("keep", "other_layout")
    same = submit(made, job(ntasks_per_node=4, tres_per_node="gres/gpu:a100:2"))[1]
    assert same.reason != "other_layout"
    asked = job(min_nodes=1, max_nodes=1, ntasks_per_node=4, tres_per_node=tres)
    advice = made.advise(asked, now_s=NOW)
    assert advice.verdict == "refused"
    assert "ll runs had 4 tasks, 4 CPUs and 2 GPUs on each node" in advice.problems[0]


def test_a_request_gets_the_table_of_its_own_gpus():
    parts = {"two": Layout(4, 4, gpus=2), "none": Layout(4, 4)}
    whole = dataclasses.replace(
        history(), parts=tuple(Part(key, layout) for key, layout in parts.items())
    )
    made = advisor(tables=[whole, *(table(key=k, layout=one) for k, one in parts.items())])
    devices = {"": "none", "gres/gpu:2": "two", "gres/gpu:3": whole.key}
    for tres, key in devices.items():
        assert submit(made, job(ntasks_per_node=4, tres_per_node=tres))[1].key == key


@pytest.mark.parametrize("segment", [3, 5, 16])
def test_node_counts_are_whole_segments(segment):
    made = advisor()
    answer, row = submit(made, job(segment_size=segment, min_nodes=segment, max_nodes=32))
    assert row.nodes % segment == 0
    assert answer.set is None or answer.set.min_nodes in (None, row.nodes)
    advice = made.advise(job(segment_size=segment, min_nodes=1, max_nodes=32), now_s=NOW)
    assert advice.rows
    assert all(one.nodes % segment == 0 for one in advice.rows)


def laid_out(layouts, *, unit=Unit.NODES):
    """Advisor that has a table for each of these layouts, and their identity's own."""
    own = dataclasses.replace(history(), unit=unit)
    keys = {part_key(own.key, str(i)): layout for i, layout in enumerate(layouts)}
    whole = dataclasses.replace(own, parts=tuple(Part(*one) for one in keys.items()))
    parts = [table(key=key, layout=layout, unit=unit) for key, layout in keys.items()]
    return advisor(tables=[whole, *parts])


def test_advice_puts_other_fillings_of_nodes_beside_the_jobs_own():
    made = laid_out([Layout(4, 4), Layout(2, 4), Layout(8, 8)])
    advice = made.advise(job(min_nodes=2, max_nodes=2, ntasks_per_node=4), now_s=NOW)
    assert [row.own for row in advice.layouts] == [False, True, False]
    assert [row.options for row in advice.layouts] == [
        f"--nodes={advice.nodes} --ntasks-per-node=2 --cpus-per-task=2",
        f"--nodes={advice.nodes} --ntasks-per-node=4",
        f"--nodes={advice.nodes} --ntasks-per-node=8",
    ]
    assert advice.layouts[0].layout == "2 tasks and 4 CPUs on each node"
    one = advice.layouts[1]
    assert one.size_hours == pytest.approx(advice.nodes * one.time_s / 3600)


def test_advice_puts_threads_of_other_tasks_beside_the_jobs_own():
    layouts = [Layout(tasks, each=Each.JOB, nodes=1) for tasks in (2, 4)]
    made = laid_out(layouts, unit=Unit.CPUS)
    asked = job(min_nodes=1, max_nodes=1, num_tasks=2, cpus_per_task=4, min_cpus=8)
    advice = made.advise(asked, now_s=NOW)
    size = advice.layouts[0].size
    assert [row.options for row in advice.layouts] == [
        f"--nodes=1 --ntasks={tasks} --cpus-per-task={size // tasks}" for tasks in (2, 4)
    ]


def test_advice_has_no_layouts_where_there_is_one_or_they_differ_in_two_sizes():
    for layouts in ([Layout(4, 4)], [Layout(4, 4), Layout(4, 8), Layout(8, 8)]):
        made = laid_out(layouts)
        advice = made.advise(job(min_nodes=2, max_nodes=2, ntasks_per_node=4), now_s=NOW)
        assert advice.rows
        assert advice.layouts == []


ON = TimeLimit(soft=SoftUse.ON)
DAY_MIN = 24 * 60
#: On two nodes, as jobs ask for them: 1900 s, 90 % within a factor of 1.1 on each side.
ASKED = {"min_nodes": 2, "max_nodes": 2, "time_limit": DAY_MIN}


def seen(plans_softly=True, **fields):
    return msgspec.structs.replace(cluster(**fields), plans_softly=plans_softly)


def reserved(from_s):
    """Cluster whose nodes are reserved from a moment on."""
    return seen(part=partition(reserved_s=from_s))


def planned(request=None, *, tables=(), look=None, now_s=NOW, plans=SoftPlans(), **settings):  # noqa: B008
    made = advisor(tables=tables, look=look or seen(), **{"time_limit": ON, **settings})
    made.plans = plans
    answer, row = submit(made, request or job(**ASKED), now_s=now_s)
    given = answer.set.soft_min if answer.set else None
    assert row.soft_s == (given and 60 * given)
    return answer, row


def test_a_job_is_planned_with_what_its_runs_take_and_held_to_its_own_limit():
    # A twentieth of a day is longer than the runs: 72 minutes.
    answer, row = planned()
    assert (answer.set.soft_min, answer.set.soft_until) == (72, NOW + 60)
    assert (answer.set.time_limit, answer.set.time_min) == (None, None)
    assert answer.message == "nimo: planned for 1.2 h, may run its 24 h"
    assert (row.soft_s, row.limit_s, row.given_limit_s, row.applied) == (4320, 86400, None, False)
    note = admin_comment.parse(answer.admin_comment)
    assert (note.soft_min, note.own_min, note.limit_min) == (72, DAY_MIN, None)
    shown = ShownJob(
        user="", name="", work_dir="", submit_s=0, low_nodes=1, high_nodes=1, started=False,
        limit_s=86_400, least_limit_s=4320,
    )  # fmt: skip
    text = explain(Explanation(decision=row), 7, shown=shown)
    assert "Slurm plans with 1.2 h; the job may run its 24 h." in text
    text = explain(
        Explanation(decision=row), 7, shown=dataclasses.replace(shown, least_limit_s=None)
    )
    assert "Slurm planned with 1.2 h at first, but no longer does" in text
    text = explain(Explanation(decision=row), 7)
    assert "Slurm was to plan with 1.2 h" in text


@pytest.mark.parametrize(
    ("limit_min", "share", "minutes"),
    [
        (600, 0.85, 34),  # 1900 s · 1.1^(1.036/1.645) = 2018 s
        (600, 0.5, 32),
        (600, 0.99, 37),
        (37, 0.85, None),  # all of it, nearly
        (20, 0.85, None),
    ],
)
def test_the_quantile_is_the_levels_in_whole_minutes(limit_min, share, minutes):
    plans = SoftPlans(quantiles={"batch": share})
    answer, _ = planned(job(**{**ASKED, "time_limit": limit_min}), plans=plans)
    assert (answer.set.soft_min if answer.set else None) == minutes


def test_it_is_five_minutes_at_least():
    answer, _ = planned(job(**{**ASKED, "time_limit": 60}), tables=(table(lambda n: 20.0 / n),))
    assert answer.set.soft_min == 5


def test_what_a_users_jobs_are_like_is_enough():
    guess = history(level="user", key="alice", verdict=Verdict.REFUSED, verdicts=(Verdict.REFUSED,))
    answer, row = planned(tables=(guess,))  # of runs on four nodes
    assert (answer.set.soft_min, row.nodes, answer.set.min_nodes) == (72, None, None)
    assert admin_comment.parse(answer.admin_comment).soft_min == 72


CHAIN = dataclasses.replace(table(), endings=(Ending("TIMEOUT", 9), Ending("COMPLETED", 3)))


@pytest.mark.parametrize(
    ("request_", "others"),
    [
        (job(**ASKED, time_min=30), {}),
        (job(**ASKED, script=""), {}),
        (job(**ASKED, reservation="maint"), {}),
        (job(**ASKED, het_job_offset=0), {}),
        (job(**ASKED, comment="nimo:soft=off"), {}),
        (job(**ASKED, comment="nimo:off"), {}),
        (job(**{**ASKED, "time_limit": None}), {}),
        (job(**ASKED, user_name="bob"), {}),
        (None, {"tables": (dataclasses.replace(table(), runs=2),)}),
        (None, {"tables": (CHAIN,)}),
        (None, {"look": seen(plans_softly=False)}),
        (None, {"look": seen(taken_s=NOW - 61), "snapshot": Snapshot(max_age_s=600.0)}),
        (None, {"mode": Mode.ADVISE}),
        (None, {"time_limit": TimeLimit()}),
        (None, {"rules": (ModeRule(user="alice", soft=SoftUse.OFF),)}),
        (None, {"plans": SoftPlans(resting=frozenset({"batch"}))}),
        # Slurm would start it before a reservation by its plan, and let it run across.
        (None, {"look": reserved(NOW + 86_400 + 59)}),
        (job(**ASKED, begin_time=NOW + 3600), {"look": reserved(NOW + 86_400 + 3659)}),
        (job(**ASKED, begin_time=NOW + 3600), {"look": reserved(NOW + 60)}),
    ],
)
def test_these_are_left_alone(request_, others):
    answer, _ = planned(request_, **others)
    assert answer.set is None or answer.set.soft_min is None
    assert "planned for" not in answer.message


@pytest.mark.parametrize(
    ("request_", "from_s"),
    [(None, NOW + 86_460), (job(**ASKED, begin_time=NOW + 3600), NOW + 90_060)],
)
def test_a_reservation_behind_its_users_limit_is_not_in_the_way(request_, from_s):
    answer, _ = planned(request_, look=reserved(from_s))
    assert answer.set.soft_min == 72


def test_it_takes_the_place_of_a_limit_that_ends_jobs():
    answer, _ = planned(time_limit=TimeLimit(soft=SoftUse.ON, use=TimeUse.SET))
    assert (answer.set.soft_min, answer.set.time_limit) == (72, None)


def test_the_command_leaves_it_to_job_submit():
    made = advisor(tables=(), look=seen(), time_limit=ON)
    prepared = made.prepare(job(**{**ASKED, "max_nodes": 16}, hook=2), now_s=NOW)
    assert prepared.set is None or prepared.set.soft_min is None


def test_a_partitions_quantile_rises_where_too_many_outlast_their_plan():
    outlasted = [("batch", number % 3 == 0) for number in range(300)]
    outlasted += [("long", number % 20 == 0) for number in range(300)]
    made = quantiles_of(outlasted, 0.15)
    assert 0.95 < made["batch"] <= 0.99
    assert made["long"] == pytest.approx(0.85, abs=0.03)
    # Once few outlast it, it goes back, and no lower.
    assert quantiles_of([*outlasted, *[("batch", False)] * 60], 0.15)["batch"] == 0.85
