"""Tries: a count that was not run yet, for a job whose user gave a range."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as with_fields

from predictor.change import AskedRange
from predictor.memory import Memory
from predictor.tables.build import IdentityRuns
from predictor.tables.parts import tables_of
from predictor.tables.run_facts import change_of
from predictor.tables.settings import TableSettings
from predictor.waits.estimate import WaitEstimate
from sacct_ingest.records import KeyLevel
from sacct_ingest.runs.layout import Unit
from slurm_plugin.config.setting_types import Mode, Proven
from slurm_plugin.config.settings import Config, ModeRule, OptIn
from slurm_plugin.decision.explore import PendingTries, TriedCount, tries_of
from slurm_plugin.decision.messages import announced
from slurm_plugin.decision.node_options import Comparison
from slurm_plugin.decision.policy import Action, decide
from slurm_plugin.decision.request import Request
from slurm_plugin.decision.situation import Situation
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.cluster_state import Cluster
from tests.predictor.rows import row, submitted
from tests.slurm_plugin.decision.choosing import policy
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.decision.test_sizes import FREE, look
from tests.slurm_plugin.made import NOW, cluster, job, partition, table

PRIOR = change_of((), Unit.NODES)
JOB = Request(low=1, high=8, given=(1, 8), explore=True)


def learned(*counts, tries=0, **fields):
    """Runs of ``-N 1-8`` of an hour on eight nodes, after these counts."""
    own = AskedRange(1, 8, 8, counts or (8,), tries)
    change = replace(PRIOR, ranges=(own,))
    made = table(lambda n: 3600.0, level="line", key="x", change=change, **fields)
    return replace(made, runs=1)


def decided(request=JOB, known=None, part=None, **rules):
    given = part or partition(nodes=8)
    return decide(Situation(request, known or learned(), given.supply, policy(**rules), NOW))


def test_a_range_that_ran_on_its_most_nodes_alone_is_tried_on_fewer():
    made = decided()
    assert (made.action, made.reason, made.learns) == (
        Action.SET,
        Reason.LEARNING,
        TriedCount(2, 3),
    )
    assert 1 < made.chosen.nodes < 8
    asked, tried = made.request, made.chosen
    assert tried.wait_s + tried.time_s <= 2 * (asked.wait_s + asked.time_s)


class Tailed:
    """Starts at once, but for one time in forty: in thirty years."""

    def wait(self, nodes, limit_s):
        return WaitEstimate((0.0,) * 39 + (1e9,), recorded=100)

    def arriving(self, span_s, level):
        return 0.0


def test_what_is_tried_does_not_hang_on_the_tail_of_a_wait():
    made = decided(part=with_fields(partition(nodes=8), outlook=Tailed()))
    assert made.reason is Reason.LEARNING


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"explore": False}, {}),
        ({"deadline_s": NOW + 1e6}, {}),
        ({"low": 8}, {}),
        ({"limit_s": 3700.0, "asked_limit_s": 3700.0, "limit_raisable": False}, {}),
        ({"mem_node_bytes": 2**30}, {"memory": 2**30}),
    ],
)
def test_nothing_is_tried_where_it_could_hurt(changes, fields):
    memory = tuple(Memory(8, m) for m in fields.values())
    made = decided(with_fields(JOB, **changes), replace(learned(), memory=memory))
    assert made.reason is not Reason.LEARNING


def test_a_limit_that_fewer_nodes_need_is_made_longer_first():
    made = decided(with_fields(JOB, limit_s=4200.0, asked_limit_s=4200.0))
    assert made.reason is Reason.LEARNING
    assert made.chosen.limit_s >= made.chosen.prediction.high_s > 4200


def test_a_site_says_how_much_longer_a_try_may_take():
    assert decided(explore_ratio=1.0).reason is not Reason.LEARNING


def test_a_try_costs_no_more_than_twenty_later_jobs_may_save():
    for price in (0.0, 0.05):  # what more nodes cost is next to nothing
        assert decided(price=price).reason is not Reason.LEARNING
    for price in (1.0, 8.0):
        assert decided(price=price).reason is Reason.LEARNING
    # 2 nodes may save more, but cost far more than the best count.
    made = decided(known=learned(4, 8, tries=1), price=1.0, explore_ratio=4.0)
    assert made.reason is Reason.LEARNING
    assert made.chosen.cost_s < 1.25 * min(one.cost_s for one in made.options)


@pytest.mark.parametrize("had", [2, 4, 6])
def test_until_three_counts_ran_no_count_is_tried_again(had):
    assert decided(known=learned(had, 8, tries=1)).chosen.nodes != had


def test_a_count_that_was_tried_before_has_no_number():
    known = learned(4, 8, tries=1)
    supply = partition(nodes=8).supply
    scene = Comparison.of(Situation(JOB, known, supply, policy(), NOW), known, supply, 8)
    assert tries_of(scene, 6) == TriedCount(3, 3)
    assert tries_of(scene, 4) == TriedCount(2, 3, again=True)
    made = decided()
    assert "to learn how it scales (2 of 3);" in announced(made, JOB, None)
    again = with_fields(made, learns=TriedCount(3, 3, again=True))
    assert "once more, to be surer how it scales;" in announced(again, JOB, None)


def test_tries_end_with_their_number():
    assert decided(known=learned(2, 4, 8, tries=5)).reason is not Reason.LEARNING


def test_one_try_of_an_application_waits_or_runs_at_a_time():
    tries, known = PendingTries(), learned()
    later = replace(known, change=replace(known.change, moved=1))

    def look(seconds, *shown):
        return Cluster(name="c", taken_s=NOW + seconds, partitions={}, shown=frozenset(shown))

    assert not tries.pending(known, None, NOW)
    tries.add(known, "d1", NOW)
    assert tries.pending(known, look(0), NOW + 1)  # not in a view yet
    assert tries.pending(known, look(60, "d1"), NOW + 61)
    assert tries.pending(known, look(600), NOW + 601)  # ended, and in no table yet
    assert not tries.pending(later, look(600), NOW + 601)
    failed = replace(known, fitted_s=NOW + 500)
    assert not tries.pending(failed, look(600), NOW + 601)
    assert not tries.pending(replace(known, key="y"), look(0), NOW + 1)


@pytest.mark.parametrize(
    ("fields", "tried"),
    [
        ({}, True),
        ({"array_inx": "0-999"}, False),
        ({"reservation": "maintenance"}, False),
        ({"req_nodes": "n[1-8]"}, False),
        ({"deadline": "now+4weeks"}, False),
        ({"comment": "nimo:app=solve,off"}, False),
        ({"comment": "nimo:app=solve,learn=off"}, False),
        ({"min_nodes": 8}, False),
    ],
)
def test_who_is_never_tried(fields, tried):
    known = replace(learned(), level="tag", key="alice/solve", owner="alice")
    service = advisor(tables=[known], look=cluster(partition(nodes=8)))
    asked = {"max_nodes": 8, "time_limit": 240, "comment": "nimo:app=solve"}
    assert (submit(service, job(**asked | fields))[1].reason == "learning") is tried


#: Sixteen CPUs of one task, sixteen tasks, or four GPUs: what the tag offers, the job, and its run.
SIZES = {
    "cpus": ("cpus=2-16", {"cpus_per_task": 16, "num_tasks": 1}, {"cpus": 16, "tasks": 1}),
    "tasks": ("tasks=2-16", {"num_tasks": 16}, {"cpus": 16, "tasks": 16}),
    "gpus": ("gpus=1-4", {"tres_per_node": "gres/gpu:4"}, {"gpus": 4, "tasks": 1}),
}


@pytest.mark.parametrize("option", SIZES)
def test_cpus_tasks_and_gpus_are_tried_as_nodes_are(option):
    offered, asked, ran = SIZES[option]
    unit, comment = "gpus" if option == "gpus" else "cpus", f"nimo:app=solve,{offered}"
    request = job(**{"min_nodes": 1, "max_nodes": 1, "min_cpus": ran.get("cpus", 1),
                     "comment": comment} | asked)  # fmt: skip
    runs = [submitted(replace(row(1, 700.0), **{"cpus": 1} | ran), comment=comment)]
    told = []
    for number in range(1, 3):
        fits = tables_of(IdentityRuns(KeyLevel.TAG, "alice/solve", runs, NOW), TableSettings())
        known = replace(fits[0].table, owner="alice")
        answer, made = submit(advisor(tables=[known], look=look(FREE)), request)
        assert (made.reason, made.unit, made.requested_nodes) == ("learning", unit, ran[unit])
        told.append(answer.message)
        sizes = dict.fromkeys({unit, option} & {*ran}, made.nodes)
        decided = {"asked_size": ran[unit], "asked_unit": unit, "try_of": "learning"}
        elapsed_s = 600.0 + 100.0 * ran[unit] / made.nodes
        runs.append(replace(runs[0], run_id=1 + number, elapsed_s=elapsed_s, end_s=800 + number,
                            **sizes, **decided))  # fmt: skip
    assert len({getattr(one, unit) for one in runs}) == 3
    assert [line.rpartition("(")[2] for line in told] == ["2 of 3)", "3 of 3)"]


DAY_S = 86_400
EIGHT = {"min_nodes": 8, "max_nodes": 8}


def runs(*series):
    """Runs of an hour on these counts, a series a week; within one, an hour apart."""
    return [
        replace(row(nodes, 3600.0), run_id=100 * week + i, mem_bytes=2**30 // nodes,
                submit_s=7 * DAY_S * week + 3600 * i)
        for week, counts in enumerate(series)
        for i, nodes in enumerate(counts)
    ]  # fmt: skip


def flat(*series):
    """Table of an application that more nodes make no faster."""
    change = change_of(runs(*series), Unit.NODES)
    change = replace(change, paths=tuple((0,) * len(path) for path in change.paths))
    return table(lambda n: 3600.0, owner="alice", change=change)


KNOWN = flat([2, 2], [4, 4], [8, 8, 8, 8])


def made(proven=Proven.ON, known=KNOWN, **settings):
    return advisor(Config(mode=Mode.ENFORCE, opt_in=OptIn(proven=proven), **settings),
                   tables=[known])  # fmt: skip


@pytest.mark.parametrize(
    ("series", "counts"),
    [
        (([2, 2], [4], [8, 8]), (2, 4, 8)),
        (([1, 2, 4, 8],), ()),  # a study
        (([8, 8, 1, 2, 4, 8],), (8,)),  # a study between other jobs
        (([1, 2, 4], [4]), (4,)),
    ],
)
def test_counts_are_proven_by_runs_that_are_no_study(series, counts):
    assert change_of(runs(*series), Unit.NODES).proven == counts


def test_on_gives_one_of_the_proven_counts_and_advise_names_it():
    changed, row_ = submit(made(), job(**EIGHT))
    assert changed.set.min_nodes == changed.set.max_nodes == row_.nodes
    assert (row_.nodes in (2, 4), row_.requested_nodes, row_.reason) == (True, 8, "cheapest")
    named, row_ = submit(made(Proven.ADVISE), job(**EIGHT))
    assert (named.action, named.set, named.reason) == ("keep", None, Reason.FIXED_COUNT)
    assert named.message.startswith(f"nimo: --nodes={changed.set.min_nodes} would be better")
    assert (row_.applied, row_.reason, row_.nodes) == (False, "proven", changed.set.min_nodes)
    assert submit(made(Proven.OFF), job(**EIGHT))[0].message == ""


def test_a_rule_says_for_which_jobs():
    rules = (ModeRule(partition="batch", proven=Proven.ON),)
    assert submit(made(Proven.OFF, rules=rules), job(**EIGHT, partition="batch"))[0].set
    assert not submit(made(Proven.OFF, rules=rules), job(**EIGHT, partition="other"))[0].set


@pytest.mark.parametrize(
    "fields",
    [
        {"comment": "nimo:off"},
        {"req_nodes": "n[1-8]"},
        {"script": "#!/bin/sh\nsrun -N 8 ./solve\n"},
        {"script": "#!/bin/sh\nmpirun -np 64 ./solve\n"},
        {"input_text": "numberOfSubdomains 64"},
        {"num_tasks": 64},
        {"script": ""},
        {"reservation": "maintenance"},
    ],
)
def test_a_job_that_ties_its_count_keeps_it(fields):
    answer, _ = submit(made(), job(**EIGHT, **fields))
    assert (answer.set, answer.message) == (None, "")


def test_one_other_count_and_other_users_runs_prove_nothing():
    assert submit(made(known=flat([2, 2], [8, 8])), job(**EIGHT))[0].set is None
    assert submit(made(), job(**EIGHT, user_name="bob"))[0].set is None


def test_a_series_of_one_job_on_each_count_is_left_alone():
    service = made()
    counts = (8, 4, 2)
    submitted = [job(min_nodes=n, max_nodes=n) for n in counts]
    answers = [submit(service, one, now_s=NOW)[0] for one in submitted]
    assert [one.set is None for one in answers[1:]] == [True, True]
    assert submit(service, submitted[0], now_s=NOW)[0].set  # the same count again: no study
