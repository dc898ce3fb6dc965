"""Whose node count may be chosen."""

import pytest

from sacct_ingest.text.tag import parse_tag
from slurm_plugin.config.settings import OptIn, SizesRule
from slurm_plugin.decision.eligibility import CountRange, names_of, span_of
from slurm_plugin.protocol.reasons import Reason
from tests.slurm_plugin.made import job

OPT_IN = OptIn()
STRICT = OptIn(node_range=False)
SITE = OptIn(rules=(SizesRule(partition="moldable", nodes="2-6"),))


def span(opt_in=OPT_IN, **fields):
    one = job(**fields)
    return span_of(one, parse_tag(one.comment), opt_in, names_of(one, "solve"))


def test_a_range_opts_in():
    assert span(min_nodes=2, max_nodes=16) == CountRange(2, 16)


def test_a_range_without_an_end_has_none():
    assert span(min_nodes=2, max_nodes=None).high > 10**6


def test_a_range_does_not_opt_in_where_the_site_wants_more():
    assert span(STRICT).fixed is Reason.NOT_OPTED_IN
    assert span(STRICT, comment="nimo:app=wrf").fixed is None


def test_one_count_is_fixed_whatever_the_comment_says():
    fixed = {"min_nodes": 4, "max_nodes": 4, "min_cpus": 4}
    assert span(**fixed) == CountRange(4, 4, Reason.FIXED_COUNT)
    assert span(**fixed, comment="nimo:nodes=1-8").fixed is Reason.FIXED_COUNT


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("", CountRange(1, 1, Reason.NOT_OPTED_IN)),
        ("nimo:app=wrf", CountRange(1, 1, Reason.NOT_OPTED_IN)),
        ("nimo:app=wrf,nodes=2-16", CountRange(2, 16)),
        ("for Eve nimo:nodes=2-16,app=wrf thanks", CountRange(2, 16)),
        ("nimo:nodes=16-2", CountRange(2, 16)),
        ("nimo:nodes=2-16x", CountRange(1, 1, Reason.NOT_OPTED_IN)),
        ("animo:nodes=2-16", CountRange(1, 1, Reason.NOT_OPTED_IN)),
    ],
)
def test_a_tag_gives_counts_to_a_job_without(comment, expected):
    assert span(min_nodes=None, max_nodes=None, comment=comment) == expected


def test_a_site_gives_counts_to_jobs_without():
    none = {"min_nodes": None, "max_nodes": None}
    assert span(SITE, **none, partition="moldable") == CountRange(2, 6)
    assert span(SITE, **none, partition="batch").fixed is Reason.NOT_OPTED_IN
    assert span(SITE, partition="moldable") == CountRange(1, 16)


def test_a_tag_goes_before_the_site():
    none = {"min_nodes": None, "max_nodes": None}
    assert span(SITE, **none, partition="moldable", comment="nimo:nodes=1-3") == CountRange(1, 3)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"comment": "nimo:off"}, Reason.OPTED_OUT),
        ({"het_job_offset": 0}, Reason.HET),
        ({"array_inx": "1-9"}, Reason.ARRAY),
        ({"reservation": "exam"}, Reason.RESERVATION),
        ({"req_nodes": "n[1-4]"}, Reason.NODE_LIST),
        ({"exc_nodes": "n7"}, Reason.EXCLUDED_NODES),
        ({"contiguous": 1}, Reason.LAYOUT),
        ({"req_switch": 1}, Reason.LAYOUT),
        ({"node_sizes": True}, Reason.NODE_SIZES),
        ({"dependency": "afterok:1,expand:7"}, Reason.DEPENDENCY),
        ({"num_tasks": 8}, Reason.FIXED_TASKS),
        ({"tres_per_job": "gres/gpu:8"}, Reason.FIXED_CPUS),
    ],
)
def test_other_bonds_are_named(fields, reason):
    assert span(**fields).fixed is reason


def test_an_ordinary_dependency_binds_nothing():
    assert span(dependency="afterok:1?afterany:2").fixed is None


@pytest.mark.parametrize(
    "option",
    [
        *("-N 2,4,8", "-N2,4", "--nodes=8,2", "--nodes 2-8:2", "-J x -N 2-4,8"),
        *("-vN2,4", "-N  '2,4'", '-N"2",4'),
    ],
)
def test_a_script_that_lists_node_counts_is_left_to_slurm(option):
    script = f"#!/bin/sh\n#SBATCH {option}\nsrun x\n"
    assert span(min_nodes=2, max_nodes=8, script=script).fixed is Reason.NODE_SIZES


@pytest.mark.parametrize("option", ["-N 2-8", "-N 3,6", "-p a,b -N 2-8", "-N 2-8 -t 10:00"])
def test_a_range_is_none_nor_is_a_list_that_the_command_line_replaced(option):
    script = f"#!/bin/sh\n#SBATCH {option}\nsrun x\n"
    assert span(min_nodes=2, max_nodes=8, script=script).fixed is None


def test_a_job_without_nodes_gets_none():
    site = OptIn(rules=(SizesRule(partition="*", nodes="2-6"),))
    assert span(site, min_nodes=0, max_nodes=None).fixed is Reason.FIXED_COUNT
    assert span(site, min_nodes=0, max_nodes=4).fixed is None
