"""What follows from a request is cached by all that it depends on."""

import pytest
from msgspec.structs import replace

from slurm_plugin.decision import eligibility
from slurm_plugin.protocol.reasons import Reason
from slurm_plugin.slurm.cluster_state import RequestRules
from tests.slurm_plugin import made as examples
from tests.slurm_plugin.decision.requests_of_all_shapes import SITES, requests, service, view
from tests.slurm_plugin.made import NOW

#: Another value of everything that a request takes from its partition.
CHANGES = {
    "node_cpus": 3,
    "node_mem_bytes": 7 << 30,
    "threads_core": 2,
    "whole_tasks": True,
    "exclusive": True,
    "mem_cpu_mib": 100,
    "mem_node_mib": 900,
    "max_mem_cpu_mib": 50,
    "max_mem_node_mib": 100,
    "max_time_s": 600.0,
    "default_time_s": 300.0,
}
CONFIG = SITES["enforce, limits"]


def test_no_rule_is_left_out():
    assert {*CHANGES} == {*RequestRules.__struct_fields__}


@pytest.mark.parametrize("name", CHANGES)
def test_a_rule_of_a_partition_that_changes_is_seen(name):
    before, after = view(), changed(view(), name)
    asked = service(CONFIG)
    asked.cluster = before
    for job in requests(seed=1):
        asked.advise(job, now_s=NOW)
    asked.cluster = after
    fresh = service(CONFIG)
    fresh.cluster = after
    for job in requests(seed=1):
        assert asked.advise(job, now_s=NOW) == fresh.advise(job, now_s=NOW)


def changed(look, name):
    parts = {key: replace(part, **{name: CHANGES[name]}) for key, part in look.partitions.items()}
    return replace(look, partitions=parts)


def test_a_deadline_that_counts_from_now_does_so_at_each_submission():
    made = service(CONFIG)
    asked = examples.job(deadline="now+3hours")
    rows = [made.submit(asked, via="job_submit", now_s=NOW + later)[1] for later in (0, 600)]
    assert [row.deadline_s for row in rows] == [NOW + 10_800, NOW + 11_400]


def test_a_deadline_whose_words_mean_nothing_any_more_is_not_taken_for_an_old_one(monkeypatch):
    made = service(CONFIG)
    asked = examples.job(deadline="02/29")
    due = made.submit(asked, via="job_submit", now_s=NOW)[1].deadline_s
    assert due is not None

    def not_in_that_year(text, *, now_s):
        raise ValueError(text)

    monkeypatch.setattr(eligibility, "parse_time", not_in_that_year)
    row = made.submit(asked, via="job_submit", now_s=NOW + 600)[1]
    assert (row.deadline_s, row.reason) == (None, Reason.DEADLINE_UNREADABLE)
