"""Limits that Slurm plans with: which jobs get one, how long it is, and what is said of it."""

import dataclasses

import msgspec
import pytest

from predictor.types import Ending, Verdict
from sacct_ingest.text import admin_comment
from slurm_plugin.config.setting_types import Mode, SoftUse, TimeUse
from slurm_plugin.config.settings import ModeRule, Snapshot, TimeLimit
from slurm_plugin.decision.memory_and_limits import SoftPlans, quantiles_of
from slurm_plugin.protocol.query_messages import Explanation
from slurm_plugin.reports.why_text import explain
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, cluster, history, job, table

ON = TimeLimit(soft=SoftUse.ON)
DAY_MIN = 24 * 60
#: On two nodes, as jobs ask for them: 1900 s, 90 % within a factor of 1.1 on each side.
ASKED = {"min_nodes": 2, "max_nodes": 2, "time_limit": DAY_MIN}


def seen(plans_softly=True, **fields):
    return msgspec.structs.replace(cluster(**fields), plans_softly=plans_softly)


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
    text = explain(Explanation(decision=row), 7)
    assert "Slurm plans with 1.2 h; the job may run its 24 h." in text


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
    ],
)
def test_these_are_left_alone(request_, others):
    answer, _ = planned(request_, **others)
    assert answer.set is None or answer.set.soft_min is None
    assert "planned for" not in answer.message


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
