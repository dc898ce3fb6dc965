"""Jobs of one count whose user completed the same script on other counts."""

from dataclasses import replace

import pytest

from predictor.tables.run_facts import change_of
from sacct_ingest.runs.layout import Unit
from slurm_plugin.config.setting_types import Mode, Proven
from slurm_plugin.config.settings import Config, ModeRule, OptIn
from slurm_plugin.protocol.reasons import Reason
from tests.predictor.rows import row
from tests.slurm_plugin.decision.submitting import advisor, submit
from tests.slurm_plugin.made import NOW, job, table

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
