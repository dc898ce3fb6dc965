"""Fewer nodes are taken only where what they save is worth the time that they cost."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from slurm_plugin.config.settings import Config
from slurm_plugin.protocol.reasons import Reason
from tests.slurm_plugin.decision.choosing import REQUEST, choose, policy
from tests.slurm_plugin.made import amdahl, partition, rules, table

RULES = rules(Config())
#: Serial and parallel part of run times, seconds.
LAWS = st.tuples(st.floats(1.0, 5000.0), st.floats(1.0, 90_000.0))
ASKED = st.integers(2, 32)


def decided(law, asked, *, queue=0, by=RULES):
    request = replace(REQUEST, high=asked, asked=asked)
    part = partition(queue=queue)
    return choose(request, table(amdahl(*law)), part=part, by=by)


def shares(decision):
    """By which shares the chosen count ends later, and takes less node time."""
    asked, chosen = decision.request, decision.chosen
    later = (chosen.wait_s + chosen.time_s) / (asked.wait_s + asked.time_s)
    saved = chosen.nodes * chosen.time_s / (asked.nodes * asked.time_s)
    return later, saved


@given(LAWS, ASKED)
def test_fewer_nodes_save_at_least_the_share_that_they_cost(law, asked):
    later, saved = shares(decided(law, asked))
    assert later * saved <= 1 + 1e-9


@given(LAWS, ASKED, st.integers(1, 200))
def test_half_that_share_is_enough_where_others_wait(law, asked, queue):
    later, saved = shares(decided(law, asked, queue=queue))
    assert later * saved**2 <= 1 + 1e-9


def test_a_fifth_later_is_no_price_for_a_fiftieth_of_node_time():
    # T(13) is 22 % longer than T(16) for 0.8 % less node time.
    steep = (100.0, 36_000.0)
    for queue in (0, 20):
        kept = decided(steep, 16, queue=queue)
        assert (kept.chosen.nodes, kept.reason) == (16, Reason.BEST_ALREADY)
    thrifty = decided(steep, 16, queue=20, by=policy(saving_weight=1000.0, guard_ratio=2.0))
    assert thrifty.chosen.nodes < 16


@example((174.75, 174.75), 31)
@given(LAWS, ASKED)
def test_who_takes_a_count_is_given_no_other_one(law, asked):
    roomy = policy(saving_weight=1.0, guard_ratio=100.0)
    first = decided(law, asked, by=roomy)
    again = decided(law, first.chosen.nodes, by=roomy)
    # Two counts may cost the same.
    assert again.chosen.cost_s == pytest.approx(again.request.cost_s)


@given(LAWS, ASKED)
def test_without_weight_no_job_ends_later_to_save_node_time(law, asked):
    later, _ = shares(decided(law, asked, by=policy(saving_weight=0.0)))
    assert later <= 1 + 1e-9
