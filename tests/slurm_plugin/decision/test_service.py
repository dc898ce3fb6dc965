"""From a request to an answer and a record: what each mode lets through, and bursts."""

import dataclasses
import sys
import tracemalloc
from random import Random

import pytest

from predictor.prediction_table import AtLimit
from predictor.types import Verdict
from sacct_ingest.records import KeyLevel
from sacct_ingest.text import admin_comment
from sacct_ingest.text.durations import slurm_time
from sacct_ingest.text.tag import parse_tag
from slurm_plugin.config.setting_types import Mode, OnMissed, Trust
from slurm_plugin.config.settings import Deadline, ModeRule, OptIn, TimeLimit
from slurm_plugin.decision.service import DecisionService
from slurm_plugin.decision.submitted_job import identity_of
from slurm_plugin.protocol.advice_messages import ESTIMATE_COMMENT
from slurm_plugin.protocol.decision_messages import Answer, Change
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.protocol.status_messages import judge
from slurm_plugin.reports.advice_text import render
from slurm_plugin.slurm.node_pool import profile
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.decision.test_soft_limits import SET, tailed
from tests.slurm_plugin.made import NOW, cluster, history, job, partition, stored, table, thrifty


def test_enforce_sets_the_count_and_what_goes_with_it():
    answer, row = submit(advisor(), job(time_limit=7))
    nodes = row.nodes
    assert nodes < 16
    assert answer.action == "set"
    assert answer.set == Change(
        min_nodes=nodes, max_nodes=nodes, min_cpus=nodes, time_limit=answer.set.time_limit
    )
    assert answer.set.time_limit > 7
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
    assert submit(advisor(look=calm), job(time_limit=600, max_nodes=1))[0].message == ""
    answer, row = submit(advisor(), job(time_limit=7))
    assert answer.set.time_limit > 7
    longer = slurm_time(60.0 * answer.set.time_limit)
    assert answer.message == (
        f"nimo: this job runs on {row.nodes} nodes instead of 16, with --time={longer} "
        "instead of 00:07:00"
    )


def test_a_range_that_becomes_what_slurm_would_give_now_is_a_change_without_a_word():
    calm = cluster(partition(queue=0))
    answer, row = submit(advisor(look=calm), job(time_limit=600, min_nodes=2, max_nodes=4))
    assert (answer.set.min_nodes, row.requested_nodes) == (4, 4)
    assert answer.message == ""


def test_a_site_may_have_only_longer_limits_reported():
    count_alone = TimeLimit(lengthen=False)
    reported = submit(advisor(time_limit=count_alone))[0]
    assert "instead of 16" in reported.message
    assert "--time" not in reported.message
    assert submit(advisor(tell_changes=False, time_limit=count_alone))[0].message == ""
    assert "--time=" in submit(advisor(tell_changes=False), job(time_limit=7))[0].message


def test_a_site_may_forbid_longer_limits():
    answer, row = submit(advisor(time_limit=TimeLimit(lengthen=False)))
    assert answer.set.time_limit is None
    assert row.nodes < 16
    tight = job(time_limit=7)
    assert submit(advisor())[0].set is not None
    remaining = submit(advisor(time_limit=TimeLimit(lengthen=False)), tight)[1]
    assert remaining.nodes == 16
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
    assert (note.asked, note.asked_s) == (row.requested_nodes, round(row.request_predicted_s))


@pytest.mark.parametrize(
    ("request_", "tables", "look", "reason"),
    [
        (job(user_name="bob"), (), None, Reason.UNKNOWN_APPLICATION),
        (job(), (table(verdict=Verdict.DOUBTFUL),), None, Reason.UNRELIABLE_CURVE),
        (job(max_nodes=4, min_nodes=4), (history(),), None, Reason.FIXED_COUNT),
        (job(min_nodes=3, max_nodes=4), (history(),), None, Reason.NO_CURVE),
        (job(), (), cluster(taken_s=NOW - 61), Reason.STALE_SNAPSHOT),
        (job(partition="batch,debug"), (), None, Reason.UNKNOWN_PARTITION),
        (job(), (), cluster(partition(up=False)), Reason.UNKNOWN_PARTITION),
        (job(array_inx="1-9"), (), None, Reason.ARRAY),
        (job(deadline="sometime"), (), None, Reason.DEADLINE_UNREADABLE),
    ],
)
def test_an_unchanged_job_has_its_reason(request_, tables, look, reason):
    answer, row = submit(advisor(tables=tables, look=look), request_)
    assert (answer.action, answer.set, answer.reason) == ("keep", None, reason)
    assert (row.action, row.applied, row.reason) == ("keep", False, reason)


def test_without_a_curve_the_limit_asked_for_tells_what_to_expect():
    short = AtLimit(600.0, (20.0,), (10.0,), (30.0,))
    long = AtLimit(7200.0, (50.0,), (40.0,), (60.0,))
    recorded = dataclasses.replace(history(), at_limits=(short, long))
    reported = [
        submit(advisor(tables=(recorded,)), job(min_nodes=4, max_nodes=4, time_limit=minutes))[1]
        for minutes in (120, 60, 15)
    ]
    assert [row.request_predicted_s for row in reported] == [50.0, 50.0, 20.0]


def test_without_a_view_of_the_cluster_jobs_stay_unchanged():
    made = DecisionService(thrifty(mode=Mode.ENFORCE), new_id=lambda: "0" * 12)
    made.tables = stored(table())
    assert submit(made)[0].reason is Reason.NO_SNAPSHOT


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


def test_new_settings_hold_from_the_next_job_on():
    made = advisor(mode=Mode.OBSERVE)
    made.config = thrifty(mode=Mode.ENFORCE)
    assert submit(made)[0].action == "set"


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
    ("mode", "missed", "action", "reported"),
    [
        (Mode.OBSERVE, OnMissed.REFUSE, "keep", False),
        (Mode.ADVISE, OnMissed.REFUSE, "keep", True),
        (Mode.ENFORCE, OnMissed.WARN, "set", True),
        (Mode.ENFORCE, OnMissed.REFUSE, "refuse", True),
    ],
)
def test_a_missed_deadline_in_each_mode(mode, missed, action, reported):
    made = advisor(mode=mode, deadline=Deadline(missed=missed))
    answer, row = submit(made, job(deadline="now+2minutes"))
    assert (answer.action, bool(answer.message)) == (action, reported)
    assert row.reason == Reason.DEADLINE_MISSED


def test_the_message_has_the_numbers():
    answer, _ = submit(advisor(), job(deadline="now+2minutes"))
    # 16 nodes, 325 s predicted, at most 357.5 s.
    for part in ("on 16 nodes, the best of 1 to 16", "5.4 min", "6 min"):
        assert part in answer.message


def test_a_wait_is_reported_without_a_confidence_and_refuses_nobody():
    full = cluster(partition(profile([(NOW, 0), (NOW + 3600, 32)])))
    made = advisor(look=full, deadline=Deadline(missed=OnMissed.REFUSE))
    answer, row = submit(made, job(deadline="now+20minutes", time_limit=10))
    assert (answer.action == "refuse", row.reason) == (False, "deadline_unsure")
    assert "only if it starts" in answer.message
    assert "%" not in answer.message


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


def test_somebody_who_asks_may_still_decide_anew():
    advice = advisor(opt_in=OptIn(node_range=False)).advise(
        job(min_nodes=16, max_nodes=16, min_cpus=16), now_s=NOW
    )
    assert advice.nodes < 16


def test_nimo_on_opts_a_range_in_where_ranges_alone_do_not():
    careful = OptIn(node_range=False)
    assert submit(advisor(opt_in=careful))[1].reason == Reason.NOT_OPTED_IN
    assert submit(advisor(opt_in=careful), job(comment="nimo:on"))[0].action == "set"
    deaf = OptIn(node_range=False, tag=False)
    assert submit(advisor(opt_in=deaf), job(comment="nimo:on"))[1].reason == Reason.NOT_OPTED_IN


@pytest.mark.parametrize("seed", range(20))
def test_a_range_that_is_not_opted_in_is_compared_at_the_count_that_slurm_gives_it(seed):
    """Whatever is free: rows are compared with the job as its submission would run it."""
    rng = Random(seed)
    low = rng.randint(1, 8)
    request = job(min_nodes=low, max_nodes=rng.randint(low, 16))
    free = profile([(NOW, rng.randint(0, 16)), (NOW + 3600, 32)])
    made = advisor(opt_in=OptIn(node_range=False), look=cluster(partition(free)))
    advice = made.advise(request, now_s=NOW)
    _, row = submit(made, request)
    assert row.reason in (Reason.NOT_OPTED_IN, Reason.FIXED_COUNT)
    assert advice.asked == row.requested_nodes


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
    made.config = thrifty(mode=Mode.ENFORCE, opt_in=OptIn(node_range=False))
    assert submit(made)[0].reason is Reason.NOT_OPTED_IN
    made.config = thrifty(mode=Mode.ENFORCE)
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


@pytest.mark.slow
def test_requests_that_are_cached_take_little_memory():
    made = advisor()
    tracemalloc.start()
    for number in range(100):
        text = f"#!/bin/sh\n# {number}\n" + "\U0001f600" * 60_000
        made.advise(job(script=text, comment=text, argv=[text]), now_s=NOW)
        made.prepare(job(script=text, comment=text), now_s=NOW)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 12 << 20  # the scripts alone have 23 MiB


def test_the_tag_of_a_job_is_parsed_once():
    parsed, parse_tag_code = [], parse_tag.__wrapped__.__code__
    parse_tag.cache_clear()

    def note(frame, event, _):
        if event == "call" and frame.f_code is parse_tag_code and frame.f_locals["comment"]:
            parsed.append(frame.f_locals["comment"])

    request = job(comment="nimo:app=cfd,nodes=2-8,time=set", min_nodes=None, max_nodes=None)
    made = advisor(tables=(table(level="tag", key="alice/cfd"),))
    sys.setprofile(note)
    try:
        submit(made, request)
    finally:
        sys.setprofile(None)
    assert parsed == [request.comment]


def test_a_word_of_the_tag_that_is_not_read_is_told_at_submission_and_in_advice():
    request = job(comment="nimo:on,objective=nonsense\x1b[2J")
    fault = "objective=nonsense [2J in the comment is not read: objective may be turnaround"
    assert f"nimo: {fault}" in submit(advisor(), request)[0].message
    assert submit(advisor(mode=Mode.OBSERVE), request)[0].message == ""
    advice = advisor().advise(request, now_s=NOW)
    assert fault in advice.comment_text
    assert fault in "".join(render(advice, now_s=NOW))


def test_advice_on_an_edited_script_says_so_until_it_ran():
    one = job()
    identity = identity_of(one)
    key = identity.key(KeyLevel.LINE)
    edited, same = (
        advisor(tables=[table(level="line", key=key, script=script)]).advise(one, now_s=NOW)
        for script in ("of the runs", identity.script)
    )
    told = "The script was edited after its last run: it may take longer, or shorter."
    assert (edited.problems, same.problems) == ([told], [])
    assert (edited.job_text, same.job_text) == (told, "")
    assert " ".join(" ".join(render(edited, now_s=NOW)).split()).count(told) == 1
    assert (edited.verdict, same.verdict) == ("doubtful", "reliable")
    for wide, narrow in zip(edited.rows, same.rows, strict=True):
        assert wide.low_s < narrow.low_s < narrow.high_s < wide.high_s
