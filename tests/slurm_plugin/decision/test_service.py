"""From a request to an answer and a record: what each mode lets through, and bursts."""

import dataclasses
import itertools
import tracemalloc
from math import ceil

import pytest

from predictor.types import AtLimit, Part, Tail, Verdict
from sacct_ingest import admin_comment
from sacct_ingest.layout import Layout
from slurm_plugin.config import (
    Config,
    Deadline,
    Mode,
    ModeRule,
    OnMissed,
    OptIn,
    TimeLimit,
    TimeUse,
    Trust,
)
from slurm_plugin.decision.reasons import Reason
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.evaluation.wait_accuracy import judge
from slurm_plugin.formatting import duration
from slurm_plugin.protocol import ESTIMATE_COMMENT, Answer, Change
from slurm_plugin.slurm.availability import profile
from slurm_plugin.slurm.node_pool import NodeGroup, NodePool, NodeShare
from tests.slurm_plugin.made import NOW, cluster, history, job, partition, stored, table


def advisor(config=None, *, tables=(), seen=None, **settings):
    ids = itertools.count(1)
    made = DecisionService(
        config or Config(**{"mode": Mode.ENFORCE, **settings}),
        new_id=lambda: f"{next(ids):012x}",
    )
    made.tables = stored(*(tables or [table()]))
    made.cluster = seen or cluster()
    return made


def submit(made, request=None, now_s=NOW):
    return made.submit(request or job(), via="job_submit", now_s=now_s)


def test_enforce_sets_the_count_and_what_goes_with_it():
    answer, row = submit(advisor())
    nodes = row.nodes
    assert nodes < 16
    assert answer.action == "set"
    assert answer.set == Change(
        min_nodes=nodes, max_nodes=nodes, min_cpus=nodes, time_limit=answer.set.time_limit
    )
    assert answer.set.time_limit > 120
    assert (row.applied, row.action, row.mode) == (True, "set", "enforce")


def test_observe_decides_the_same_and_changes_nothing():
    enforced = submit(advisor())[1]
    answer, row = submit(advisor(mode=Mode.OBSERVE))
    assert answer == Answer(reason=Reason.CHEAPEST)
    assert (row.nodes, row.action, row.applied) == (enforced.nodes, "set", False)


def test_advise_tells_and_changes_nothing():
    answer, row = submit(advisor(mode=Mode.ADVISE))
    assert (answer.action, answer.set) == ("keep", None)
    assert f"--nodes={row.nodes}" in answer.message
    assert admin_comment.parse(answer.admin_comment).mode == "advise"


def test_enforce_tells_in_one_line_what_it_changed():
    calm = cluster(partition(queue=0))
    assert submit(advisor(seen=calm), job(time_limit=600, max_nodes=1))[0].message == ""
    answer, row = submit(advisor())
    assert answer.set.time_limit > 120
    longer = duration(60.0 * answer.set.time_limit)
    assert answer.message == (
        f"nimo: this job runs on {row.nodes} nodes instead of 16, with --time={longer} "
        "instead of 02:00:00"
    )


def test_a_site_may_have_only_longer_limits_told():
    count_alone = TimeLimit(lengthen=False)
    told = submit(advisor(time_limit=count_alone))[0]
    assert "instead of 16" in told.message
    assert "--time" not in told.message
    assert submit(advisor(tell_changes=False, time_limit=count_alone))[0].message == ""
    assert "--time=" in submit(advisor(tell_changes=False))[0].message


def test_a_site_may_forbid_longer_limits():
    answer, row = submit(advisor(time_limit=TimeLimit(lengthen=False)))
    assert answer.set.time_limit is None
    assert row.nodes < 16
    tight = job(time_limit=7)
    assert submit(advisor())[0].set is not None
    kept = submit(advisor(time_limit=TimeLimit(lengthen=False)), tight)[1]
    assert kept.nodes == 16
    assert submit(advisor(), tight)[1].nodes < 16


def test_off_leaves_no_trace():
    assert submit(advisor(mode=Mode.OFF)) == (Answer(reason=Reason.OFF), None)


def test_the_first_rule_that_matches_gives_the_mode():
    rules = (
        ModeRule(user="alice", application="sol*", mode=Mode.OFF),
        ModeRule(user="alice", mode=Mode.ENFORCE),
    )
    made = advisor(mode=Mode.OBSERVE, rules=rules)
    assert submit(made)[1] is None
    assert submit(made, job(name="other"))[1].mode == "enforce"
    assert submit(made, job(user_name="bob"))[1].mode == "observe"


def test_the_tag_is_the_application_of_a_rule():
    rules = (ModeRule(application="wrf/*", mode=Mode.OFF),)
    assert submit(advisor(rules=rules), job(comment="nimo:app=wrf,problem=d02"))[1] is None


def test_the_record_holds_the_request_and_the_decision():
    request = job(account="physics", qos="high", work_dir="/home/alice", deadline="uts1790009999")
    _, row = submit(advisor(), request)
    assert (row.cluster, row.partition, row.account, row.qos) == (
        "pine",
        "batch",
        "physics",
        "high",
    )
    assert (row.user, row.uid, row.name, row.work_dir) == ("alice", 1000, "solve", "/home/alice")
    assert (row.min_nodes, row.max_nodes, row.requested_nodes, row.limit_s) == (1, 16, 16, 7200)
    assert (row.key_level, row.key, row.verdict) == ("name", "alice/solve", "reliable")
    assert (row.deadline_s, row.at_s, row.wait_s) == (1790009999, NOW, 0.0)
    assert row.predicted_s == pytest.approx(100 + 3600 / row.nodes)
    assert row.request_predicted_s == pytest.approx(100 + 3600 / 16)
    assert row.script and row.line


def test_the_note_in_the_job_points_to_the_record():
    answer, row = submit(advisor())
    note = admin_comment.parse(answer.admin_comment)
    assert (note.decision_id, note.nodes, note.low, note.high) == (
        row.decision_id,
        row.nodes,
        1,
        16,
    )
    assert (note.reason, note.verdict, note.time_s) == (
        row.reason,
        row.verdict,
        round(row.predicted_s),
    )


@pytest.mark.parametrize(
    ("request_", "tables", "seen", "reason"),
    [
        (job(user_name="bob"), (), None, Reason.UNKNOWN_APPLICATION),
        (job(), (table(verdict=Verdict.DOUBTFUL),), None, Reason.UNRELIABLE_CURVE),
        (job(max_nodes=4, min_nodes=4), (history(),), None, Reason.FIXED_COUNT),
        (job(min_nodes=3, max_nodes=4), (history(),), None, Reason.NO_CURVE),
        (job(), (), cluster(taken_s=NOW - 61), Reason.STALE_SNAPSHOT),
        (job(partition="batch,debug"), (), None, Reason.UNKNOWN_PARTITION),
        (job(), (), cluster(partition(open=False)), Reason.UNKNOWN_PARTITION),
        (job(array_inx="1-9"), (), None, Reason.ARRAY),
        (job(deadline="sometime"), (), None, Reason.DEADLINE_UNREADABLE),
    ],
)
def test_a_kept_job_has_its_reason(request_, tables, seen, reason):
    answer, row = submit(advisor(tables=tables, seen=seen), request_)
    assert (answer.action, answer.set, answer.reason) == ("keep", None, reason)
    assert (row.action, row.applied, row.reason) == ("keep", False, reason)


def test_without_a_curve_the_limit_asked_for_tells_what_to_expect():
    known = dataclasses.replace(history(), at_limits=(AtLimit(7200.0, (50.0,), (40.0,), (60.0,)),))
    told = [
        submit(advisor(tables=(known,)), job(min_nodes=4, max_nodes=4, time_limit=minutes))[1]
        for minutes in (120, 60)
    ]
    assert [row.request_predicted_s for row in told] == [50.0, known.median_s[0]]


def test_without_a_view_of_the_cluster_jobs_are_kept():
    made = DecisionService(Config(mode=Mode.ENFORCE), new_id=lambda: "0" * 12)
    made.tables = stored(table())
    assert submit(made)[0].reason is Reason.NO_SNAPSHOT


# Time limits


def tailed(**fields):
    known = table(**fields)
    tails = [Tail(share, tuple(f * t for t in known.median_s)) for share, f in TAILS]
    return dataclasses.replace(known, tails=tuple(tails))


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


def test_a_kept_count_still_gets_its_limit():
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


OLD = cluster(keeps_limit=False)


@pytest.mark.parametrize("seen", [OLD, cluster()], ids=["before 25.05.3", "from 25.05.3 on"])
def test_time_min_is_written_and_advised_only_where_backfill_keeps_the_limit(seen):
    made = advisor(tables=(tailed(),), time_limit=SET, seen=seen)
    answer, row = submit(made)
    assert answer.set.time_limit is not None
    assert (answer.set.time_min is not None) is (row.given_min_s is not None) is seen.keeps_limit
    prepared = made.prepare(job(), now_s=NOW)
    assert (prepared.set.time_min is not None) is seen.keeps_limit
    advice = made.advise(job(), now_s=NOW)
    assert "--time=" in advice.time_directive
    assert ("--time-min=" in advice.time_directive) is seen.keeps_limit
    assert all((r.time_min_s is not None) <= seen.keeps_limit for r in advice.rows)


def test_time_min_is_not_advised_where_the_release_is_unknown():
    made = DecisionService(Config(), new_id=str)
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
        f"#SBATCH --time={duration(row.limit_s)} --time-min={duration(row.time_min_s)}"
    )


# Switched off


def switched_off(made):
    made.tables = made.tables.with_off([("name", "alice/solve")])
    return made


def test_an_application_out_of_its_band_is_only_observed():
    answer, row = submit(switched_off(advisor(tables=(tailed(),), time_limit=SET)))
    assert (answer.action, answer.reason) == ("keep", Reason.OUT_OF_BAND)
    assert (row.nodes, row.requested_nodes, row.applied) == (16, 16, False)
    assert row.predicted_s == pytest.approx(325.0)


@pytest.mark.parametrize(
    ("trust", "off", "reason"),
    [
        (Trust.ON, True, Reason.CHEAPEST),
        (Trust.OFF, False, Reason.DISTRUSTED),
        (Trust.AUTO, False, Reason.CHEAPEST),
    ],
)
def test_a_rule_forces_it_on_or_off(trust, off, reason):
    made = advisor(rules=(ModeRule(application="solve", trust=trust),))
    assert submit(switched_off(made) if off else made)[1].reason == reason


# Settings


def test_new_settings_hold_from_the_next_job_on():
    made = advisor(mode=Mode.OBSERVE)
    made.config = Config(mode=Mode.ENFORCE)
    assert submit(made)[0].action == "set"


# Deadlines


def test_the_scripts_own_deadline_counts_where_the_hook_saw_none():
    script = "#!/bin/sh\n#SBATCH --deadline=now+2minutes\nsrun ./solve\n"
    answer, row = submit(advisor(), job(script=script))
    assert row.deadline_s == NOW + 120
    assert row.reason == Reason.DEADLINE_MISSED
    assert "not expected to make its deadline" in answer.message


def test_a_comment_that_mentions_a_deadline_is_none():
    script = "#!/bin/sh\n# the deadline is near\nsrun ./solve\n"
    assert submit(advisor(), job(script=script))[1].deadline_s is None


@pytest.mark.parametrize(
    ("mode", "missed", "action", "told"),
    [
        (Mode.OBSERVE, OnMissed.REFUSE, "keep", False),
        (Mode.ADVISE, OnMissed.REFUSE, "keep", True),
        (Mode.ENFORCE, OnMissed.WARN, "set", True),
        (Mode.ENFORCE, OnMissed.REFUSE, "refuse", True),
    ],
)
def test_a_missed_deadline_in_each_mode(mode, missed, action, told):
    made = advisor(mode=mode, deadline=Deadline(missed=missed))
    answer, row = submit(made, job(deadline="now+2minutes"))
    assert (answer.action, bool(answer.message)) == (action, told)
    assert row.reason == Reason.DEADLINE_MISSED


def test_the_message_has_the_numbers():
    answer, _ = submit(advisor(), job(deadline="now+2minutes"))
    # 16 nodes, 325 s predicted, at most 357.5 s.
    for part in ("on 16 nodes, the best of 1 to 16", "00:05:25", "00:05:58"):
        assert part in answer.message


def test_a_wait_is_told_without_a_confidence_and_refuses_nobody():
    full = cluster(partition(profile([(NOW, 0), (NOW + 3600, 32)])))
    made = advisor(seen=full, deadline=Deadline(missed=OnMissed.REFUSE))
    answer, row = submit(made, job(deadline="now+20minutes", time_limit=10))
    assert (answer.action == "refuse", row.reason) == (False, "deadline_unsure")
    assert "only if it starts" in answer.message
    assert "%" not in answer.message


# Bursts


@pytest.fixture
def large(monkeypatch):
    """A cluster too large to go through while a job waits, and what is to be done later."""
    monkeypatch.setattr("slurm_plugin.slurm.node_pool.AT_ONCE", 0)
    groups = {NodeGroup(cpus=4, mem_mib=2000, steps=(), empty_s=NOW): tuple("abcdefgh")}
    pool, later = NodePool(now_s=NOW, groups=groups), []
    made = DecisionService(
        Config(mode=Mode.ENFORCE),
        new_id=lambda: "0" * 12,
        later=lambda work, then: later.append((work, then)),
    )
    made.tables = stored(table())
    made.cluster = cluster(partition(profile([(NOW, 8)]), nodes=8, pool=pool))
    return made, later


def test_nodes_are_counted_for_a_new_shape_after_the_answer(large):
    made, later = large
    answer, book = made.answer(job(), via="job_submit", now_s=NOW)
    assert (answer.action, answer.reason, later) == ("keep", Reason.NEW_SHAPE, [])
    assert book().reason == "new_shape"
    work, then = later.pop()
    work()
    assert submit(made)[0].action == "set"
    (second,) = made.view("alice").partition("").promised
    then()
    # The first job passed as it was, and has all nodes that are left for it.
    assert made.view("alice").partition("").promised[1:] == ((8 - second[0], NOW, NOW + 7200),)


def test_a_command_is_not_decided_on_before_nodes_are_counted(large):
    made, later = large
    asked = job(account="physics", qos="normal")
    assert not made.prepare(asked, now_s=NOW).ticket
    later.pop()[0]()
    assert made.prepare(asked, now_s=NOW).ticket


def test_advice_waits_for_nodes_to_be_counted(large):
    made, later = large
    assert made.advise(job(), now_s=NOW).nodes
    assert later == []


def test_nodes_promised_to_one_job_are_not_offered_to_the_next():
    made = advisor(seen=cluster(partition(profile([(NOW, 8)]), nodes=8)))
    first = submit(made)[1]
    second = submit(made)[1]
    assert first.requested_nodes == 8
    assert second.requested_nodes == 8 - first.nodes


def test_in_observe_the_job_takes_what_it_asked_for():
    seen = cluster(partition(profile([(NOW, 8), (NOW + 9000, 24)])))
    made = advisor(mode=Mode.OBSERVE, seen=seen)
    submit(made, job(min_nodes=6, max_nodes=6, min_cpus=6))
    assert submit(made)[1].requested_nodes == 2


def test_jobs_that_have_to_wait_make_the_queue_longer():
    made = advisor(seen=cluster(partition(profile([(NOW, 2), (NOW + 3600, 30)]))))
    submit(made, job(min_nodes=2, max_nodes=2, min_cpus=2), now_s=NOW + 5)
    for _ in range(3):
        submit(made, job(min_nodes=2, max_nodes=2, min_cpus=2), now_s=NOW + 6)
    part = made.view("alice").partitions["batch"]
    assert part.queue == 3
    assert part.profile.free_at(NOW + 6) == 0
    # Nothing is planned for them, as for most jobs that squeue shows as pending.
    assert part.profile.free_at(NOW + 3600) == 30


def test_a_view_that_shows_the_job_ends_the_promise():
    made = advisor(seen=cluster(partition(profile([(NOW, 8)]), nodes=8)))
    submit(made)
    made.cluster = cluster(partition(profile([(NOW + 20, 8)]), nodes=8), taken_s=NOW + 20)
    assert submit(made, now_s=NOW + 20)[1].requested_nodes == 8


def test_a_view_from_before_the_job_does_not():
    made = advisor(seen=cluster(partition(profile([(NOW, 8)]), nodes=8)))
    first = submit(made)[1]
    made.cluster = cluster(partition(profile([(NOW - 1, 8)]), nodes=8), taken_s=NOW - 1)
    assert submit(made)[1].requested_nodes == 8 - first.nodes


# Advice


def test_an_advice_recommends_what_a_submission_would_get():
    made = advisor()
    advice = made.advise(job(), now_s=NOW)
    assert advice.nodes == submit(made)[1].nodes
    assert advice.directive == f"#SBATCH --nodes={advice.nodes}"
    assert [row.nodes for row in advice.rows if row.recommended] == [advice.nodes]


def test_an_advice_takes_nothing():
    made = advisor()
    made.advise(job(), now_s=NOW)
    assert made.cluster == cluster()


def test_somebody_who_asks_may_still_change_their_mind():
    advice = advisor(opt_in=OptIn(node_range=False)).advise(
        job(min_nodes=16, max_nodes=16, min_cpus=16), now_s=NOW
    )
    assert advice.nodes < 16


# Opting in


def test_nimo_on_opts_a_range_in_where_ranges_alone_do_not():
    careful = OptIn(node_range=False)
    assert submit(advisor(opt_in=careful))[1].reason == Reason.NOT_OPTED_IN
    assert submit(advisor(opt_in=careful), job(comment="nimo:on"))[0].action == "set"
    deaf = OptIn(node_range=False, tag=False)
    assert submit(advisor(opt_in=deaf), job(comment="nimo:on"))[1].reason == Reason.NOT_OPTED_IN


def test_who_only_asks_slurm_for_a_start_is_not_decided_on():
    made = advisor()
    free = made.cluster.partitions["batch"].profile.free_at(NOW)
    answer, row = submit(made, job(comment=ESTIMATE_COMMENT))
    assert (answer.action, answer.admin_comment, row) == ("keep", "", None)
    assert made.cluster.partitions["batch"].profile.free_at(NOW) == free
    assert submit(made, job(comment=f"{ESTIMATE_COMMENT}s"))[1] is not None


def test_an_advice_says_how_waits_like_its_own_came_true():
    made = advisor()
    assert made.advise(job(), now_s=NOW).waits is None
    made.waits = judge([(0.0, 9.0)] * 5)
    assert made.advise(job(), now_s=NOW).waits == made.waits.at_once


def test_a_request_met_before_is_decided_on_by_what_holds_now():
    made = advisor()
    assert submit(made)[0].action == "set"
    made.tables = stored(table(verdict=Verdict.REFUSED))
    assert submit(made)[0].reason is Reason.UNRELIABLE_CURVE
    made.tables = stored(table())
    made.config = Config(mode=Mode.ENFORCE, opt_in=OptIn(node_range=False))
    assert submit(made)[0].reason is Reason.NOT_OPTED_IN
    made.config = Config(mode=Mode.ENFORCE)
    made.cluster = cluster(partition(max_nodes=2))
    assert submit(made)[0].set.max_nodes <= 2


def test_a_request_differs_by_any_of_its_words():
    made = advisor(tables=[table(), table(key="alice/other")])
    keys = [
        submit(made, job(**fields))[1] for fields in ({}, {"argv": ["a.sh"]}, {"name": "other"})
    ]
    assert len({row.line for row in keys}) == 3
    assert submit(made, job(time_limit=60))[1].limit_s == 3600
    assert submit(made, job(work_dir="/there"))[1].work_dir == "/there"


def test_a_deadline_counts_from_each_submission_on():
    made = advisor()
    due = [submit(made, job(deadline="now+2hours"), now_s=NOW + t)[1].deadline_s for t in (0, 10)]
    assert due[1] - due[0] == 10


# Tasks and CPUs on each node

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
    assert "4 tasks and 4 CPUs" in advice.verdict_text
    assert f"{tasks} task" in advice.verdict_text


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
    assert "ll runs had 4 tasks, 4 CPUs and 2 GPUs on each node" in advice.verdict_text


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


def test_what_one_user_books_takes_nothing_from_another():
    """`sbatch --test-only` looks like a job, and none comes: thirty of them of mallory's."""
    alone = submit(advisor())[1].nodes
    made = advisor()
    for number in range(30):
        mallory = job(user_name="mallory", user_id=1002, min_nodes=16, max_nodes=16, min_cpus=16)
        submit(made, mallory, now_s=NOW + 0.01 * number)
    assert made.view("mallory").partitions["batch"].profile.free_at(NOW + 1) == 0
    assert submit(made)[1].nodes == alone
    assert made.view("bob").partitions["batch"].profile.free_at(NOW + 1) == 32


def test_users_views_do_not_mix_where_nodes_are_counted_one_by_one():
    one = NodeGroup(cpus=4, mem_mib=1000, steps=((NOW, 4, 1000, ()),), empty_s=NOW)
    groups = {one: tuple("abcdefgh")}
    pool = NodePool(now_s=NOW, groups=groups)
    made = advisor(seen=cluster(partition(nodes=8, pool=pool)))
    small = {"min_nodes": 2, "max_nodes": 2, "min_cpus": 2}
    for _ in range(2):
        submit(made, job(**small))
        submit(made, job(user_name="bob", **small))
    for user, booked in (("alice", 4), ("bob", 4), ("eve", 0)):
        part = made.view(user).partitions["batch"]
        assert part.fitting(NodeShare()).profile.free_at(NOW) == 8 - booked


def test_requests_that_are_known_by_heart_take_little_memory():
    made = advisor()
    tracemalloc.start()
    for number in range(300):
        text = f"#!/bin/sh\n# {number}\n" + "\U0001f600" * 60_000
        made.advise(job(script=text, comment=text, argv=[text]), now_s=NOW)
        made.prepare(job(script=text, comment=text), now_s=NOW)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 64 << 20
