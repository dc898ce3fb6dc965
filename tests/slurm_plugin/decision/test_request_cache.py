"""What follows from a request is cached by all that it depends on."""

import pytest
from msgspec.structs import replace

from slurm_plugin.slurm.cluster_state import RequestRules
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
